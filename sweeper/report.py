"""What the command line shows of datasets and of the library: best systems, pictures, claims, catalogues."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import polars as pl

from kernels import EQUATIONS
from sweeper.analysis import best, feasible, scan
from sweeper.claims import claims
from sweeper.errors import UsageFault, unknown
from sweeper.figures import breakdown_figure, heat_maps, pareto_figure
from sweeper.library import Library, builtin_specs
from sweeper.plan import make_plan
from sweeper.vocabulary import ATTRIBUTES, SWITCH_DEFAULTS

OBJECTIVES = {
    "utilisation": "maximise",
    "iteration_time_s": "minimise",
    "cost_efficiency_flops_per_usd": "maximise",
    "power_efficiency_flops_per_W": "maximise",
}
"""Metrics for which the best system is named, as far as a dataset has them."""

SYSTEM = ("chip", "topology", "memory", "link")
MAPPING = ("partitioning", "tensor_parallel", "pipeline_parallel", "data_parallel", "microbatch")


def best_systems(directory: str) -> str:
    """The best system for each workload and objective, as a table."""
    frame = scan(directory)
    names = frame.collect_schema().names()
    rows = []
    for metric, sense in OBJECTIVES.items():
        if metric in names and "workload" in names:
            found = best(feasible(frame), ["workload"], {metric: sense}).collect()
            shown = [name for name in ("workload", *SYSTEM, *MAPPING) if name in names]
            rows.append(
                found.select(
                    pl.col("workload").cast(pl.String),
                    pl.lit(f"{sense} {metric}").alias("objective"),
                    pl.col(metric).cast(pl.Float64).alias("value"),
                    *(pl.col(name).cast(pl.String) for name in shown[1:]),
                )
            )
    if not rows:
        return "no metric to rank by"
    table = pl.concat(rows).sort("workload", maintain_order=True)
    with pl.Config(
        tbl_rows=-1, tbl_cols=-1, tbl_width_chars=250, fmt_str_lengths=60, tbl_hide_dataframe_shape=True,
        tbl_hide_column_data_types=True, tbl_formatting="ASCII_MARKDOWN", float_precision=4,
    ):  # fmt: skip
        return str(table)


def draw(directory: str) -> list[Path]:
    """Heat maps, breakdown and Pareto figures of a dataset; beside the data, or in the working directory for a URI."""
    frame = scan(directory).collect()
    name = directory.rstrip("/").rsplit("/", 1)[-1]
    into = Path("figures") / name if "://" in directory else Path(directory) / "figures"
    study = name.rsplit("-", 1)[0]
    pictures = heat_maps(frame, into, study) + breakdown_figure(frame, into, study)
    return pictures + pareto_figure(
        frame, {"iteration_time_s": "minimise", "system_price_usd": "minimise"}, into, study
    )


@cache
def frame_of(study: str) -> pl.DataFrame:
    """Dataset of one of our studies, evaluated in this process."""
    plan = make_plan(builtin_specs() / "studies" / f"{study}.yaml")
    parts = [plan.evaluate(chunk) for chunk in range(plan.chunk_count)]
    return pl.concat([pl.DataFrame(part) for part in parts])


STUDIES = {
    "dfmodel": {
        "grid": ("dfmodel_published", "dse80"),
        "table6_sn10": ("table6_sn10", "table6_sn10_full"),
        "serving_llama3_8b": ("serving_llama3_8b", "serving_llama3_8b_full"),
    }
}
"""For each set of claims, the studies behind each dataset: as published, and with full physics."""


def published_claims(name: str) -> list[dict[str, object]]:
    """Published figures beside ours. Raises SweeperError for a set of claims that does not exist."""
    if name not in STUDIES:
        raise UsageFault(unknown("set of claims", name, STUDIES))
    studies = STUDIES[name]
    before = {dataset: frame_of(pair[0]) for dataset, pair in studies.items()}
    after = {dataset: frame_of(pair[1]) for dataset, pair in studies.items()}
    return claims(name, before, after)


def catalogue(library_dirs: Iterable[str]) -> dict[str, list[dict[str, str]]]:
    """Everything a study may name, by kind."""
    library = Library.load([*(Path(path) for path in library_dirs), builtin_specs()])
    kinds = ("chip", "memory", "link", "topology", "workload")
    found = {
        kind: [{"name": entry.name, "description": entry.description} for entry in library.select(kind)]
        for kind in kinds
    }
    found["study"] = [
        {"name": path.stem, "description": ""} for path in sorted((builtin_specs() / "studies").glob("*.yaml"))
    ]
    found["assumption"] = [{"name": name, "description": f"default {value}"} for name, value in SWITCH_DEFAULTS.items()]
    found["attribute"] = [
        {"name": f"{kind}.{name}", "description": f"{attribute.about} [{attribute.unit}]"}
        for kind, attributes in ATTRIBUTES.items()
        for name, attribute in attributes.items()
    ]
    outputs = {output.name: output for equation in EQUATIONS for output in equation.outputs if not output.shape}
    found["column"] = [
        {"name": name, "description": f"{output.about} [{output.unit}]"} for name, output in outputs.items()
    ]
    return found
