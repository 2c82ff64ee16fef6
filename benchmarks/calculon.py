"""Calculon's whole search for GPT-3 175B against Calculon, and against its equations in plain Python.

`python -m benchmarks.calculon` lists the hundred best executions with both numbers.
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import sweeper
from benchmarks.studies import shipped, variant
from benchmarks.table import Row, Target
from benchmarks.timing import cpu_s
from benchmarks.twins import twin
from sweeper.kernels.calculon.system import Curves
from sweeper.library.curves import read_curves
from sweeper.planning.plan import Plan

STUDY = "calculon_search"
THEIR_RATE = 252.0
"""Executions per second and core of Calculon (caa4b11) on this search: 20,000 of them drawn uniformly, on another
machine (2 cores of an AMD EPYC), processor time. The whole search is 7.9 core-hours at this rate."""
RATE, SECONDS, AGREEMENT = Target(10e6, at_least=True), Target(10.0, at_least=False), Target(0.01, at_least=False)
SAMPLE = 2000
BEST = 100

FIELDS = {
    "tensor_par": "tensor_parallel",
    "pipeline_par": "pipeline_parallel",
    "data_par": "data_parallel",
    "pipeline_interleaving": "virtual_stages",
    "microbatch_size": "microbatch",
    "tensor_par_net": "tensor_tier",
    "pipeline_par_net": "pipeline_tier",
    "data_par_net": "data_tier",
    "tensor_par_overlap": "tensor_overlap_style",
    "seq_par_ag_redo": "gather_redo",
    "data_par_overlap": "data_overlap",
    "optimizer_sharding": "optimizer_sharding",
    "weight_offload": "weight_offload",
    "activations_offload": "activation_offload",
    "optimizer_offload": "optimizer_offload",
    "activation_recompute": "recompute",
    "tensor_par_comm_type": "tensor_communication",
}
"""Fields of an execution of Calculon, and our columns."""
WORDS = {"selective": "attn_only", "all_reduce": "ar"}
"""Choices that it names otherwise."""


def oracle() -> Any:
    """Calculon's equations in plain Python, from the tests."""
    return twin("calculon_oracle")


def execution(plan: Plan, row: Mapping[str, Any]) -> dict[str, Any]:
    """A point as an execution of Calculon; `row` has the columns that vary."""
    values = {theirs: row[ours] for theirs, ours in FIELDS.items()}
    return {
        "num_procs": int(plan.contents.constants["chips"]),
        "batch_size": int(plan.contents.constants["batch_size"]),
        "datatype": "float16",
        "fused_activation": True,
        "attention_type": "multihead",
        "training": True,
        **{name: WORDS.get(value, value) if isinstance(value, str) else int(value) for name, value in values.items()},
    }


def numbers_of(plan: Plan, role: str, kind: str) -> dict[str, float]:
    """Numbers of the one entry that fills a role, or what the study says instead."""
    found = plan.study.library.find(kind, str(plan.contents.constants[role])).values
    return {name: float(plan.contents.constants.get(f"{role}.{name}", value.number)) for name, value in found.items()}


def application(plan: Plan) -> dict[str, int]:
    """The study's model as Calculon takes it."""
    found = numbers_of(plan, "workload", "workload")
    names = {"hidden": "hidden", "feedforward": "feed_forward", "seq_size": "sequence"}
    names |= {"attn_heads": "heads", "attn_size": "head_size", "num_blocks": "layers"}
    return {theirs: int(found[ours]) for theirs, ours in names.items()}


def system(plan: Plan) -> dict[str, Any]:
    """The study's system as Calculon takes it."""
    constants = plan.contents.constants
    chip, memory = numbers_of(plan, "chip", "chip"), numbers_of(plan, "memory", "memory")
    calibration = numbers_of(plan, "calibration", "calibration")
    entry = plan.study.library.find("calibration", str(constants["calibration"]))
    curves = dict(zip(Curves._fields, read_curves(entry), strict=True))

    def curve(name: str, unit: float) -> list[list[float]]:
        return [[float(least) / unit, float(share)] for least, share in curves[name]]

    def network(role: str, size: float, attained: float, filled: bool) -> dict[str, Any]:
        link = numbers_of(plan, role, "link")
        gather, reduce = [link["gather_traffic"], -link["own_share"]], [link["all_reduce_traffic"], -link["own_share"]]
        return {
            "bandwidth": link["bandwidth"] / 1e9,
            "efficiency": attained,
            "size": size,
            "latency": link["latency"],
            "must_be_filled": filled,
            "processor_usage": link["processor_share"],
            "ops": {"p2p": [1.0, None], "reduce_scatter": gather, "all_gather": gather, "all_reduce": reduce},
        }

    return {
        "matrix": {"float16": {"tflops": chip["peak_flops"] / 1e12, "gflops_efficiency": curve("matrix", 1e9)}},
        "vector": {"float16": {"tflops": chip["vector_flops"] / 1e12, "gflops_efficiency": curve("vector", 1e9)}},
        "mem1": {
            "GiB": memory["capacity"] / 2**30,
            "GBps": memory["bandwidth"] / 1e9,
            "MB_efficiency": curve("memory", 1e6),
        },
        "mem2": {
            "GiB": float(constants["offload_capacity"]) / 2**30,
            "GBps": float(constants["offload_bandwidth"]) / 1e9,
            "MB_efficiency": curve("offload", 1e6),
        },
        "processing_mode": "roofline" if constants["overlap"] == "full" else "no_overlap",
        "networks": [
            network("link", float(constants["dim_x"]), calibration["link_efficiency"], True),
            network("outer_link", float(constants["chips"]), calibration["outer_link_efficiency"], False),
        ],
    }


def points(plan: Plan, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Values of the varying columns at some points."""
    grid = plan.grid_of(numbers[0])
    digits = grid.digits(np.array(numbers) - grid.offset)
    columns = {name: grid.columns[name] for name in FIELDS.values()}
    return [
        {name: column.values[column.codes[digits[column.axis][at]]] for name, column in columns.items()}
        for at in range(len(numbers))
    ]


def hundred_best(plan: Plan, directory: str) -> pl.DataFrame:
    """The fastest executions of a run's dataset, with the time that the equations in plain Python give."""
    found = sweeper.scan(directory).sort("iteration_time_s", "point_id").head(BEST).collect()
    rows = points(plan, found["point_id"].to_list())
    evaluate, model, chips = oracle().evaluate, application(plan), system(plan)
    theirs = [evaluate(model, execution(plan, row), chips)["total_s"] for row in rows]
    return found.with_columns(pl.Series("oracle_time_s", theirs))


def difference(found: pl.DataFrame) -> float:
    """Largest relative difference of the two times."""
    return float((found["iteration_time_s"] / found["oracle_time_s"] - 1.0).abs().max() or 0.0)  # type: ignore[arg-type]


def keep_few(study: dict[str, Any]) -> None:
    """Leave but some mappings in the search."""
    few = {"tensor_parallel": {"powers_of_two": [8, 16]}, "pipeline_parallel": {"powers_of_two": [16, 32]}}
    study["axes"]["mapping"]["values"] |= few


def measure(directory: Path, quick: bool) -> list[Row]:
    """The search from study to Parquet; its rate and that of the plain equations; how far the two differ.

    `quick` searches a few of the mappings."""
    plan = variant(directory, STUDY, keep_few) if quick else shipped(STUDY)
    rounds = 1 if quick else 3
    chunks = list(range(plan.chunk_count))
    share = sum(plan.chunk_points(chunk) for chunk in chunks)
    plan.evaluate(0)
    ours_s = statistics.median(cpu_s(lambda: [plan.evaluate(chunk) for chunk in chunks]) for _ in range(rounds))
    started, before = time.monotonic(), time.process_time()
    result = sweeper.run(plan, out=directory / "local", quiet=True)
    wall_s, spent_s = time.monotonic() - started, time.process_time() - before
    numbers = np.random.default_rng(0).integers(0, plan.point_count, 200 if quick else SAMPLE).tolist()
    executions = [execution(plan, row) for row in points(plan, numbers)]
    evaluate, model, chips = oracle().evaluate, application(plan), system(plan)
    oracle_s = cpu_s(lambda: [evaluate(model, each, chips) for each in executions])
    rate, oracle_rate = share / ours_s, len(executions) / oracle_s
    note = f"{result.points:,} executions, {result.rows:,} feasible rows in Parquet; {spent_s:.1f} CPU s"
    rows = [
        Row("whole search, this process, with files", wall_s, "s", SECONDS, note),
        Row("from chunk number to rows", rate, "points/s", RATE, f"one core, CPU time, median of {rounds}"),
        Row("the same / Calculon", rate / THEIR_RATE, "x", note=f"{THEIR_RATE:.0f}/s: measured once, other machine"),
        Row("Calculon's equations in plain Python", oracle_rate, "points/s", note=f"{len(executions):,} points"),
        Row("the same / plain Python", rate / oracle_rate, "x CPU"),
        Row(
            f"largest relative difference, {BEST} best",
            difference(hundred_best(plan, result.directory)),
            "",
            AGREEMENT,
            "iteration time against plain Python",
        ),
    ]
    if not quick:
        started = time.monotonic()
        sweeper.run(plan, out=directory / "ray", backend="ray", workers=2, quiet=True)
        both_s = time.monotonic() - started
        rows.insert(1, Row("whole search, two Ray workers, with files", both_s, "s", SECONDS, "start of Ray included"))
    return rows


def main() -> None:
    """Run the search and list its hundred best."""
    plan = shipped(STUDY)
    found = hundred_best(plan, sweeper.run(plan, quiet=True).directory)
    names = ["point_id", *FIELDS.values(), "memory_need_B", "iteration_time_s", "oracle_time_s"]
    with pl.Config(tbl_rows=BEST, tbl_cols=len(names), tbl_width_chars=400, float_precision=6):
        print(found.select(names))
    print(f"largest relative difference: {difference(found):.2e}")


if __name__ == "__main__":
    main()
