"""Why claims of DFModel move under full physics: every assumption changed alone.

    python -m replications.claim_causes                 # all studies: minutes
    python -m replications.claim_causes table6_sn10     # the claims about one dataset

A step is one difference between the studies that `sweeper claims dfmodel` compares: an assumption switch, or what full
physics changes besides (how the LLM is mapped and described, which partitions run, a model's shape). Each is taken
alone, *from* the published study towards full physics, and *back* from the study of full physics; what it multiplies
the figure by is printed. What acts both ways alike explains a change; steps that act only together show in neither.
A step after which a point of the figure cannot run has no effect that could be compared.
"""

import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import yaml

import sweeper
from sweeper.evidence.claims import Claim, measure, published
from sweeper.library.library import Library, builtin_specs
from sweeper.planning.plan import Plan
from sweeper.views.text import shown_table
from sweeper.words.defaults import SWITCH_DEFAULTS

Study = dict[str, Any]
"""A study as YAML has it."""
Edit = Callable[[Study], None]
"""Changes a study in place."""

LLM, GRAPH = "gpt3_1t_layers", "gpt3_1t"
DATAFLOW = ("sn30", "wse_2")
MOST = 3
"""Steps that are printed for each figure and direction."""
LEAST = 0.01
"""Changes below this are not causes: a figure that moves by less has none."""


SHARE = 0.25
"""Of the logarithm of the whole change, what a cause makes at least."""


class Step(NamedTuple):
    """What is changed alone: towards full physics, and back; None where that is no study."""

    name: str
    there: Edit | None
    back: Edit | None


class Effects(NamedTuple):
    """A figure under both sets of assumptions, and the logarithm of what each step alone multiplies it by."""

    as_published: float
    full_physics: float
    there: dict[str, float]
    back: dict[str, float]

    @property
    def change(self) -> float:
        """Logarithm of what all steps together multiply the figure by."""
        return math.log(self.full_physics / self.as_published)

    @property
    def causes(self) -> list[str]:
        """The step that moves the figure most in the direction in which all together do, there and back."""
        if abs(math.expm1(self.change)) < LEAST:
            return []
        found = []
        for by in (self.there, self.back):
            parts = {name: effect / self.change for name, effect in by.items()}
            most = max(parts, key=lambda name: parts[name])
            if parts[most] >= SHARE and most not in found:
                found.append(most)
        return found


def study_of(name: str) -> Study:
    """A built-in study."""
    text = (builtin_specs() / "studies" / f"{name}.yaml").read_text(encoding="utf-8")
    study: Study = yaml.safe_load(text)
    return study


def values_of(study: Study) -> pl.DataFrame:
    """Dataset of a study. What nothing reads is no mistake here: a step may concern other boxes of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.yaml"
        path.write_text(yaml.safe_dump(study, sort_keys=False), encoding="utf-8")
        plan = Plan(sweeper.load(path))
        chunks = [pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)]
    return pl.concat(chunks, how="diagonal_relaxed")


def with_switch(study: Study, name: str, choice: str) -> None:
    """One choice of an assumption, over all that a study says of it."""
    named, own = study.get("assumptions", "full_physics"), {}
    if isinstance(named, list):
        named, own = named[0], {key: value for more in named[1:] for key, value in more.items()}
    study["assumptions"] = [named, {**own, name: choice}]
    for box in study.get("boxes", ()):
        box.get("assumptions", {}).pop(name, None)
        for axis in box["axes"].values():
            if isinstance(axis, dict) and name in axis["columns"]:
                at = axis["columns"].index(name)
                axis["columns"].pop(at)
                axis["rows"] = [[cell for number, cell in enumerate(row) if number != at] for row in axis["rows"]]


def boxes_of(study: Study, *workloads: str) -> Iterator[Study]:
    """Boxes of a study about some workloads."""
    return (box for box in study["boxes"] if box["axes"].get("workload") in workloads)


def searched(study: Study) -> None:
    """Degrees, microbatch and placement of the LLM are searched, as full physics does."""
    (like, *_) = boxes_of(study_of("dse80"), LLM)
    for box in boxes_of(study, GRAPH):
        network = box["axes"]["network"]
        network["columns"], network["rows"] = network["columns"][:4], [row[:4] for row in network["rows"]]
        box["search"] = {name: axis for name, axis in like["search"].items() if name != "recompute"}
    study["output"], study["objective"] = {"mode": "best"}, {"minimise": "iteration_time_s"}


def given_degrees(study: Study) -> None:
    """Degrees of the LLM are the published ones; the rest is searched."""
    (like, *_) = boxes_of(study_of("dfmodel_published"), GRAPH)
    for box in boxes_of(study, LLM):
        box["axes"]["network"] = deepcopy(like["axes"]["network"])
        del box["search"]["mapping"]


def with_partitions(study: Study, partitions: Mapping[str, str]) -> None:
    """How the dataflow chips run all graphs, by chip."""
    for box in study["boxes"]:
        axes = box["axes"]
        if axes.get("chip") == [*DATAFLOW]:
            del axes["chip"], axes["partitioning"]
            axes["machine"] = {"columns": ["chip", "partitioning"], "rows": [[chip, ""] for chip in DATAFLOW]}
        table = axes.get("machine", {"columns": (), "rows": ()})
        for row in table["rows"]:
            chip = row[table["columns"].index("chip")]
            at = table["columns"].index("partitioning")
            row[at] = partitions.get(chip, row[at])


def as_graph(study: Study) -> None:
    """The LLM is the graph of the publication instead of the model whose layer is one."""
    for box in boxes_of(study, LLM):
        box["axes"]["workload"] = GRAPH
        del box["axes"]["batch_size"], box["axes"]["sequence_parallel"], box["search"]["recompute"]


def whole_h100(study: Study) -> None:
    """No H100 has half of its cores."""
    for box in study["boxes"]:
        if box["axes"].get("chip") == "h100_sxm_half":
            box["axes"]["chip"] = "h100_sxm"


def half_h100(study: Study) -> None:
    """H100 in the FFT on dragonflies have half of their cores."""
    (box,) = boxes_of(study, "fft_1t")
    machine, network = box["axes"]["machine"], box["axes"]["network"]
    apart = deepcopy(box)
    machine["rows"] = [row for row in machine["rows"] if row[0] != "h100_sxm"]
    for chip, dragonfly in (("h100_sxm", False), ("h100_sxm_half", True)):
        mine = deepcopy(apart)
        del mine["axes"]["machine"]
        rows = [row for row in network["rows"] if (row[0] == "dragonfly") == dragonfly]
        mine["axes"] |= {"chip": chip, "partitioning": "kernel_by_kernel", "network": {**network, "rows": rows}}
        study["boxes"].append(mine)


def with_models(study: Study, suffix: str) -> None:
    """Workloads of the serving study: the published sketch of Llama 3, or the real model, which gives no splits."""
    phase = study["axes"]["phase"]
    phase["rows"] = [[name.removesuffix("_published") + suffix, microbatch] for name, microbatch in phase["rows"]]
    if not suffix:
        with_switch(study, "sharding", "least_bytes")


BEST, PUBLISHED = dict.fromkeys(DATAFLOW, "optimal"), {"sn30": "kernel_by_kernel", "wse_2": "single"}
FURTHER = {
    "grid": (
        Step("searched_mapping", searched, given_degrees),
        Step("best_partitions", lambda s: with_partitions(s, BEST), lambda s: with_partitions(s, PUBLISHED)),
        Step("transformer_model", None, as_graph),
        Step("whole_h100", whole_h100, half_h100),
    ),
    "serving_llama3_8b": (Step("real_model", lambda s: with_models(s, ""), lambda s: with_models(s, "_published")),),
}
"""What full physics changes besides switches, by dataset."""
SPLITS_ARE_GIVEN = ("table6_sn10",)
"""Datasets whose graphs give splits under full physics, too; the others go back to those of least bytes, as published
(DFModel A.4)."""


def steps_of(dataset: str) -> list[Step]:
    """All differences between the two studies of a dataset."""
    theirs = Library([builtin_specs()]).find("assumptions", "dfmodel_published").body["values"].plain()
    steps = []
    for name, choice in theirs.items():
        usual = SWITCH_DEFAULTS[name]
        if name == "sharding" and dataset not in SPLITS_ARE_GIVEN:
            choice = "least_bytes"
        if choice != usual:
            steps.append(Step(name, _switching(name, usual), _switching(name, choice)))
    return [*steps, *FURTHER.get(dataset, ())]


def _switching(name: str, choice: str) -> Edit:
    return lambda study: with_switch(study, name, choice)


def effects(dataset: str, claims: Sequence[Claim]) -> dict[str, Effects]:
    """What each step alone does to the figures of some claims about a dataset, by name of the figure."""
    about = published("dfmodel").datasets[dataset]
    before, after = (study_of(name) for name in (about.as_published, about.full_physics))
    base, full = (_figures(claims, values_of(study)) for study in (before, after))
    steps = steps_of(dataset)
    there = {step.name: _after(claims, before, step.there) for step in steps}
    back = {step.name: _after(claims, after, step.back) for step in steps}
    return {
        name: Effects(
            base[name],
            full[name],
            {step: math.log(found[name] / base[name]) for step, found in there.items() if name in found},
            {step: math.log(full[name] / found[name]) for step, found in back.items() if name in found},
        )
        for name in base
    }


def _after(claims: Sequence[Claim], study: Study, edit: Edit | None) -> dict[str, float]:
    """Figures after a step; none where there is none."""
    if edit is None:
        return {}
    changed = deepcopy(study)
    edit(changed)
    return _figures(claims, values_of(changed))


def _figures(claims: Sequence[Claim], frame: pl.DataFrame) -> dict[str, float]:
    """Figures of which all points can run."""
    found = {}
    for claim in claims:
        for name, figure in claim.figures.items():
            measured = measure(name, claim, figure.value, frame)
            if measured.value is not None and not measured.infeasible:
                found[name] = measured.value
    return found


def claims_about(dataset: str) -> list[Claim]:
    """Claims about a dataset, in the order of the file."""
    file = published("dfmodel")
    return [claim for claim in file.claims if (claim.dataset or next(iter(file.datasets))) == dataset]


def row(name: str, found: Effects) -> tuple[str, ...]:
    """A figure, its change, and the steps that move it most."""
    strongest = (
        sorted((step for step in by if abs(math.expm1(by[step])) >= LEAST), key=lambda step: -abs(by[step]))[:MOST]
        for by in (found.there, found.back)
    )
    words = (
        ", ".join(f"{step} {math.expm1(by[step]):+.0%}" for step in names)
        for by, names in zip((found.there, found.back), strongest, strict=True)
    )
    figures = (f"{found.as_published:.4g}", f"{found.full_physics:.4g}", f"{math.expm1(found.change):+.1%}")
    return (name, *figures, *words, ", ".join(found.causes))


def main(datasets: Sequence[str]) -> None:
    """Print what each step does to each figure, of all datasets or of some."""
    known = published("dfmodel").datasets
    rows = [
        row(name, found)
        for dataset in datasets or known
        for name, found in effects(dataset, claims_about(dataset)).items()
    ]
    heads = ("ID", "AS PUBLISHED", "FULL PHYSICS", "CHANGE", "ALONE FROM PUBLISHED", "ALONE BACK", "CAUSES")
    print(shown_table(heads, rows))


if __name__ == "__main__":
    main(sys.argv[1:])
