"""What the command line shows of datasets and of the library: best systems, pictures, claims, catalogues."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from kernels.codes import CHOICES, SWITCHES
from kernels.models import EQUATIONS
from sweeper.engine.cache import source_hash
from sweeper.errors import UsageFault
from sweeper.evidence.claims import claims, published
from sweeper.library.library import FOLDERS, Library, builtin_specs
from sweeper.planning.plan import make_plan
from sweeper.views.analysis import best, feasible, scan
from sweeper.views.figures import ROOFLINE, breakdown_figure, heat_maps, pareto_figure, roofline_figure
from sweeper.words.system import ATTRIBUTES, CHOICE_DEFAULTS, SWITCH_DEFAULTS

OBJECTIVES = {
    "utilisation": "maximise",
    "iteration_time_s": "minimise",
    "cost_efficiency_flops_per_usd": "maximise",
    "power_efficiency_flops_per_W": "maximise",
}
"""Metrics for which the best system is named, as far as a dataset has them."""

BUSY = ("compute_time_s", "memory_time_s", "network_time_s")
SYSTEM = ("chip", "topology", "memory", "link")


def best_systems(directory: str) -> str:
    """The best system for each workload and objective, as a table; then how many rows are infeasible, and why."""
    everything = scan(directory)
    names = everything.collect_schema().names()
    varying = everything.select(pl.col(names[1 : names.index("feasible")]).n_unique()).collect().row(0, named=True)
    shown = [name for name, count in varying.items() if name != "workload" and (count > 1 or name in SYSTEM)]
    frame = feasible(everything)
    rows = [
        {"workload": row["workload"], "objective": f"{sense} {metric}", "value": row[metric]}
        | {name: row[name] for name in shown}
        for metric, sense in OBJECTIVES.items()
        if metric in names
        for row in best(frame, ["workload"], {metric: sense}).collect().to_dicts()
    ]
    rows.sort(key=lambda row: str(row["workload"]))
    lines = [listing(rows, {name: name for name in ("workload", "objective", "value", *shown)})] if rows else []
    reasons = everything.filter(~pl.col("feasible")).group_by("infeasible_reason").len().collect()
    lines += [f"infeasible: {count:,} rows, {reason}" for reason, count in sorted(reasons.iter_rows())]
    return "\n".join(lines)


def listing(rows: list[dict[str, Any]], columns: dict[str, str]) -> str:
    """Rows as a plain table; `columns` maps keys to headings."""
    cells = [list(columns.values())] + [[show(row[key]) for key in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in cells)


def show(value: Any) -> str:
    """A value in six digits; a long list by its length."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list) and len(value) > 6:
        return f"[{len(value)} entries]"
    return str(value)


def draw(directory: str) -> list[Path]:
    """Heat maps, breakdown, Pareto figures, rooflines of a dataset; beside the data, or for a URI in ./figures.

    Pictures depend on the dataset and on the code alone, so they are drawn once and then only listed.
    """
    name = directory.rstrip("/").rsplit("/", 1)[-1]
    into = Path("figures") / name if "://" in directory else Path(directory) / "figures"
    drawn = into / f".drawn-{source_hash('sweeper')[:12]}"
    if not drawn.exists():
        frame = scan(directory).collect()
        missing = {*OBJECTIVES, "system_price_usd", *BUSY} - set(frame.columns)
        if missing:
            raise UsageFault(f"{name} lacks columns that the pictures show: {', '.join(sorted(missing))}")
        study = name.rsplit("-", 1)[0]
        cell = ["workload", *SYSTEM]
        cells = best(frame, cell, {"iteration_time_s": "minimise"}).collect()
        note = study if cells.height == feasible(frame).collect().height else f"{study}, fastest of the other axes"
        absent = frame.join(cells, on=cell, how="anti").unique(cell)
        heat_maps(pl.concat([cells.select(frame.columns), absent]), into, note)
        breakdown_figure(frame, into, study)
        pareto_figure(frame, {"iteration_time_s": "minimise", "system_price_usd": "minimise"}, into, study)
        if set(ROOFLINE) <= set(frame.columns):
            kinds = [*cell, "partitioning"]
            roofline_figure(best(frame, kinds, {"iteration_time_s": "minimise"}), into, study)
        drawn.touch()
    return sorted(path for path in into.iterdir() if path.suffix in (".png", ".svg"))


MEASURES = {"median_ape": "MEDIAN", "mean_ape": "MEAN", "p90_ape": "P90", "max_ape": "MAX", "signed": "SIGNED"}
"""Statistics of relative errors in percent, and their headings."""


def in_percent(value: float | None) -> str:
    """A percentage with two digits after the point."""
    return "-" if value is None else f"{value:.2f}"


def scores(board: Mapping[str, Mapping[str, Any]]) -> str:
    """The scoreboard as a table: errors of every set in percent, beside the target and what others report."""
    rows = [
        {"set": name, **{count: found[count] for count in ("rows", "modelled", "called_infeasible")}}
        | {measure: in_percent(found[measure]) for measure in MEASURES}
        | {"memory": in_percent(found.get("memory_balanced_accuracy")), "target": found["target"] or "-"}
        | {"peers": "; ".join(f"{peer['name']}: {peer['error']}" for peer in found["peers"]) or "-"}
        for name, found in board.items()
    ]
    columns = {"set": "SET", "rows": "ROWS", "modelled": "MODELLED", "called_infeasible": "MISFIT", **MEASURES}
    table = listing(rows, columns | {"memory": "MEMORY", "target": "TARGET", "peers": "PEERS"})
    left = [
        f"not modelled: {name}: {count} rows, {reason}"
        for name, found in board.items()
        for reason, count in found["reasons"].items()
    ]
    misfit = "MISFIT: rows that ran, but need more memory than there is by our count"
    about = f"{misfit}; errors in percent; MEMORY: balanced accuracy of whether a run fits, in percent"
    return "\n".join([table, *left, about])


def fitted(fits: Mapping[str, Mapping[str, Any]]) -> str:
    """Fitted constants with their intervals, and errors in percent, as tables."""
    blocks = []
    for name, fit in fits.items():
        constants = [{"constant": constant, **found} for constant, found in fit["constants"].items()]
        heads = {"constant": "CONSTANT", "value": "VALUE", "low": "LOW", "high": "HIGH", "unit": "UNIT"}
        kinds = {
            "in_sample": "in sample",
            "left_out": f"left out by {fit['left_out_by']}",
            "source_left_out": f"left out by source ({fit['sources']})",
        }
        errors = [
            {"error": title} | {measure: in_percent(fit[kind][measure]) for measure in MEASURES}
            for kind, title in kinds.items()
            if fit[kind] is not None
        ]
        title = f"{name}: {fit['rows']} rows"
        blocks.append(
            "\n".join([title, listing(constants, heads), listing(errors, {"error": "ERROR (%)", **MEASURES})])
        )
    return "\n\n".join(blocks)


@cache
def frame_of(study: str) -> pl.DataFrame:
    """Dataset of one of our studies, evaluated in this process."""
    plan = make_plan(builtin_specs() / "studies" / f"{study}.yaml")
    parts = [plan.evaluate(chunk) for chunk in range(plan.chunk_count)]
    return pl.concat([pl.DataFrame(part) for part in parts])


def published_claims(name: str) -> list[dict[str, object]]:
    """Published figures beside ours. Raises UsageFault for a set of claims that does not exist."""
    datasets = published(name).datasets
    before = {key: frame_of(dataset.as_published) for key, dataset in datasets.items()}
    after = {key: frame_of(dataset.full_physics) for key, dataset in datasets.items()}
    return claims(name, before, after)


def catalogue(library_dirs: Iterable[str]) -> dict[str, list[dict[str, str]]]:
    """Everything a study may name, by kind."""
    library = Library.load([*(Path(path) for path in library_dirs), builtin_specs()])
    found = {
        kind: [{"name": entry.name, "description": entry.description} for entry in library.select(kind)]
        for kind in FOLDERS
        if kind != "assumptions"
    }
    found["study"] = [
        {"name": path.stem, "description": ""} for path in sorted((builtin_specs() / "studies").glob("*.yaml"))
    ]
    found["assumption"] = [
        {"name": name, "description": f"{' | '.join(SWITCHES[name])}, default {value}"}
        for name, value in SWITCH_DEFAULTS.items()
    ]
    found["choice"] = [
        {"name": name, "description": f"{' | '.join(CHOICES[name])}, default {value}"}
        for name, value in CHOICE_DEFAULTS.items()
    ]
    found["attribute"] = [
        {"name": f"{kind}.{name}", "description": _with_unit(attribute.about, attribute.unit)}
        for kind, attributes in ATTRIBUTES.items()
        for name, attribute in attributes.items()
    ]
    outputs = {output.name: output for equation in EQUATIONS for output in equation.outputs if not output.shape}
    found["column"] = [
        {"name": name, "description": _with_unit(output.about, output.unit)} for name, output in outputs.items()
    ]
    return found


def _with_unit(about: str, unit: str) -> str:
    return f"{about} [{unit}]" if unit else about
