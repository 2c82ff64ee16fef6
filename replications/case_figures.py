"""Pictures of the case studies: what each study of `CASES` shows, beside what the paper behind it states.

`python -m replications.case_figures [DIRECTORY]` evaluates all of them in this process and draws them.
"""

import sys
from functools import cache, partial
from pathlib import Path

import polars as pl

from replications.a100_study import REFERENCE, named, summary
from replications.panels import Bands, Bars, Curves, Panel, Products, draw_panels
from sweeper.kernels.codes import GROUPS, OPERATOR_TYPES, PLACES
from sweeper.kernels.transformers.operators import BOUNDS, TIME, D
from sweeper.library.table_workload import OperatorTable
from sweeper.views.frames import bundled_plan, frame_of
from sweeper.views.lineage import coordinates, explain

GIB = 2.0**30


def case_frame(study: str) -> pl.DataFrame:
    """Feasible and infeasible rows of a case study, names as text."""
    return frame_of(study).with_columns(pl.col(pl.Categorical).cast(pl.String))


@cache
def operator_frame(study: str, points: tuple[int, ...] | None = None, phase: str = "operator") -> pl.DataFrame:
    """Every operator that points of a study run (all of them unless named): the axes of the point, what the operator
    is, how often it stands in a layer (or at an end) and in how many layers, seconds of its passes over one
    microbatch, and what bounds the forward one. `phase` `decode` is the pass for one generated token."""
    plan = bundled_plan(study)
    rows = []
    for point in range(plan.point_count) if points is None else points:
        axes = coordinates(plan, point)
        table = plan.study.workloads[str(axes["workload"])]
        assert isinstance(table, OperatorTable)
        values = {row["column"]: row["value"] for row in explain(plan, point)}
        experts = values["expert_layers"]
        layers = {"layer": values["layers"], "dense": values["layers"] - experts, "expert": experts, "routed": experts}
        for operator, dims, times, bounds in zip(
            table.operators, values[f"{phase}_dims"], values[f"{phase}_times"], values[f"{phase}_bounds"], strict=True
        ):
            if dims[D.count] > 0.0:
                place = PLACES[operator.words["place"]]
                rows.append(
                    {
                        "point_id": point,
                        **axes,
                        "operator": operator.name,
                        "type": OPERATOR_TYPES[operator.words["type"]],
                        "group": GROUPS[operator.words["group"]],
                        "count": dims[D.count],
                        "layers": layers.get(place, 0.0),
                        "forward_s": times[TIME.forward],
                        "backward_s": times[TIME.input_gradient] + times[TIME.weight_gradient],
                        "bound": BOUNDS[bounds[0]],
                    }
                )
    return pl.DataFrame(rows, infer_schema_length=None)


def memory_parts() -> pl.DataFrame:
    """GiB of a chip by model and method."""
    parts = ("weights", "gradients", "optimizer", "activations", "working")
    return case_frame("optimus_memory").select(
        pl.format("{} {}", pl.col("workload").str.strip_prefix("megatron_"), "recompute").alias("label"),
        *(pl.col(f"{part}_B").alias(part) / GIB for part in parts),
    )


GENERATIONS = ("A100-HDR", "H100-NDR", "H100-NVS", "H200-NVS-L", "B200-NDR", "B200-NVS", "B200-NVS-L")
"""Systems of `optimus_generations` in its order, by the names of Figure 5."""


def generations(chunks: int = 1, gradients: str = "fp16", narrow: str = "all") -> pl.DataFrame:
    """Rows of `optimus_generations` in the order of `GENERATIONS`: with so many chunks per stage, gradients in that
    format, and `all` tensors or the `products` alone in the narrow format."""
    chosen = (pl.col("virtual_stages") == chunks) & (pl.col("gradient_format") == gradients)
    rows = case_frame("optimus_generations").filter(chosen).sort("point_id")
    if narrow == "all":
        return rows.head(len(GENERATIONS))
    # The first system has no format narrower than the others' widest, and is in one box.
    return pl.concat([rows.head(1), rows.tail(len(GENERATIONS) - 1)])


def generation_speeds(chunks: int = 1, gradients: str = "fp16", narrow: str = "all") -> dict[str, float]:
    """Samples per second over those of A100, by the names of `GENERATIONS`."""
    rows = generations(chunks, gradients, narrow)
    rates = rows["batch_size"] / rows["iteration_time_s"]
    return dict(zip(GENERATIONS, rates / rates[0], strict=True))


def generation_parts() -> pl.DataFrame:
    """Time per sample relative to B200 with the large batch, by part, of plain 1F1B."""
    frame = generations()
    per_sample = frame["iteration_time_s"] / frame["batch_size"]
    unit = float(per_sample[-1])
    other = pl.col("bubble_time_s") + pl.col("optimizer_time_s")
    network = pl.col("network_time_s") + pl.col("gradient_time_s") + pl.col("transfer_time_s")
    compute = pl.col("iteration_time_s") - other - network
    parts = {"compute": compute, "communication": network, "bubble and optimizer": other}
    return frame.select(
        pl.Series("label", GENERATIONS),
        *((part / pl.col("batch_size") / unit).alias(title) for title, part in parts.items()),
    )


def bound_shares(head_by_head: bool) -> pl.DataFrame:
    """Share of the forward time of a layer's products by what bounds it."""
    times = product_times(head_by_head)
    shares = times.group_by("chip", "batch_size", "bound", maintain_order=True).agg(pl.col("layer_s").sum())
    table = shares.pivot("bound", index=["chip", "batch_size"], values="layer_s", aggregate_function="sum").fill_null(
        0.0
    )
    bounds = [bound for bound in BOUNDS if bound in table.columns]
    total = pl.sum_horizontal(*bounds)
    label = pl.format("{}, B={}", pl.col("chip").str.split("_").list.first(), pl.col("batch_size").cast(pl.Int64))
    return table.sort("chip", "batch_size").select(label.alias("label"), *(pl.col(name) / total for name in bounds))


def product_times(head_by_head: bool) -> pl.DataFrame:
    """Products of a layer of `optimus_bounds`: `layer_s` is the forward time per layer. Attention's two products are
    one batched kernel each, or one kernel per head."""
    frame = operator_frame("optimus_bounds").filter(pl.col("type") == "gemm", pl.col("layers") > 0.0)
    attention = pl.col("operator").is_in(["scores", "values"])
    one_head = pl.col("workload.heads") == 1.0
    heads = frame["workload.heads"].max()
    chosen = (
        frame.filter((attention & one_head) | (~attention & ~one_head)) if head_by_head else frame.filter(~one_head)
    )
    factor = pl.when(attention & pl.lit(head_by_head)).then(pl.lit(heads)).otherwise(1.0)
    return chosen.with_columns(layer_s=pl.col("forward_s") * factor)


def latencies() -> pl.DataFrame:
    """Latency of a request by memory bandwidth."""
    name = pl.format(
        "{} {}, {}", "chips", pl.col("chip").str.split("_").list.first().str.to_uppercase(), pl.col("link")
    )
    return case_frame("optimus_memory_technology").select(
        name.alias("series"), (pl.col("memory_bandwidth_Bps") / 1e12).alias("x"), pl.col("request_time_s").alias("y")
    )


def flash_gains(keys: tuple[str, ...], slow: bool = False) -> pl.DataFrame:
    """Points of `imec_flash_attention` by `keys`, with tokens per second stored and flash; infeasible ones left out.
    With `slow` stored scores move at the share of bandwidth that PyTorch's kernels have."""
    frame = case_frame("imec_flash_attention").filter("feasible")
    flash, slowed = pl.col("calibration_flash_attention") == 1.0, pl.col("calibration_memory_efficiency").is_not_null()
    kinds = {"stored": ~flash & (slowed if slow else ~slowed), "flash": flash}
    kept, other = (frame.filter(kind).select(*keys, pl.col("tokens_per_s").alias(name)) for name, kind in kinds.items())
    return other.join(kept, on=list(keys), how="left", maintain_order="left")


FLASH_KEYS = ("workload", "chip", "sequence_length", "batch_size", "tensor_parallel")


def gain_by_context(slow: bool = False) -> pl.DataFrame:
    """Tokens per second with FlashAttention over those of stored scores at a context of 1024."""
    frame = flash_gains(FLASH_KEYS, slow).filter((pl.col("workload") != "gpt2_xl") & (pl.col("tensor_parallel") == 1))
    base = pl.col("stored").filter(pl.col("sequence_length") == 1024).first().over("workload")
    return frame.select(
        pl.col("workload").alias("series"), pl.col("sequence_length").alias("x"), (pl.col("flash") / base).alias("y")
    )


def gain_by_batch() -> pl.DataFrame:
    """Tokens per second with FlashAttention over those of stored scores, GPT-2 XL."""
    frame = flash_gains(FLASH_KEYS).filter(pl.col("workload") == "gpt2_xl").sort("chip", "batch_size")
    return frame.select(
        pl.col("chip").str.split("_").list.first().str.to_uppercase().alias("series"),
        pl.col("batch_size").alias("x"),
        (pl.col("flash") / pl.col("stored")).alias("y"),
    )


def gain_by_split() -> pl.DataFrame:
    """Tokens per second, stored and flash, over those of stored scores without tensor parallelism."""
    medium = (pl.col("workload") == "gpt2_medium") & (pl.col("sequence_length") == 1024)
    frame = flash_gains(FLASH_KEYS).filter(medium).sort("tensor_parallel")
    base = frame.filter(pl.col("tensor_parallel") == 1)["stored"].item()
    kinds = [
        frame.select(
            pl.lit(title).alias("series"), pl.col("tensor_parallel").cast(pl.Float64).alias("x"), pl.col(kind) / base
        ).rename({kind: "y"})
        for kind, title in (("flash", "FlashAttention"), ("stored", "stored scores"))
    ]
    return pl.concat(kinds)


def moe_parts() -> pl.DataFrame:
    """Time of the MoE's iteration over that of its compute, by network, stored scores."""
    frame = moe_communication().filter(pl.col("calibration_flash_attention") == 0.0)
    label = pl.format("{} / {} GB/s", (pl.col("link_bandwidth_Bps") / 1e9).cast(pl.Int64),
                      (pl.col("outer_link_bandwidth_Bps") / 1e9).cast(pl.Int64))  # fmt: skip
    parts = {"compute": "compute_s", "reductions": "reduction_s", "all-to-all": "all_to_all_s"}
    return frame.select(
        label.alias("label"), *((pl.col(part) / pl.col("compute_s")).alias(title) for title, part in parts.items())
    )


def moe_communication() -> pl.DataFrame:
    """Rows of `imec_moe` that are the MoE, with seconds per iteration of all-to-all, of all reductions and the rest.

    Dispatch and combination pass in the forward pass, its repetition, and backwards.
    """
    rows = case_frame("imec_moe").filter(pl.col("workload") == "moe_139b")
    exchanges = operator_frame("imec_moe", tuple(rows["point_id"])).filter(pl.col("group") == "expert")
    each = pl.col("count") * pl.col("layers") * (2.0 * pl.col("forward_s") + pl.col("backward_s"))
    microbatches = pl.col("batch_size") / pl.col("data_parallel") / pl.col("microbatch")
    return (
        rows.join(exchanges.group_by("point_id").agg(each.sum().alias("each_s")), on="point_id", maintain_order="left")
        .with_columns(all_to_all_s=microbatches * pl.col("each_s"))
        .with_columns(reduction_s=pl.col("network_time_s") - pl.col("all_to_all_s") + pl.col("gradient_time_s"))
        .with_columns(compute_s=pl.col("iteration_time_s") - pl.col("all_to_all_s") - pl.col("reduction_s"))
    )


def summit_times(study: str = "imec_experts_summit") -> pl.DataFrame:
    """Seconds of a batch by GPUs, baseline and optimised, as many experts as tensor groups."""
    line = pl.when(pl.col("sequence_parallel") == 1).then(pl.lit("optimised")).otherwise(pl.lit("baseline"))
    rows = case_frame(study).filter(pl.col("workload_experts") == pl.col("data_parallel"))
    return rows.select(line.alias("series"), pl.col("chips").alias("x"), pl.col("iteration_time_s").alias("y"))


def topology_latency(column: str) -> pl.DataFrame:
    """Seconds by topology and number of GPUs."""
    return case_frame("imec_topologies").select(
        pl.format("{}, {}", "topology", "chips").alias("label"), pl.col(column).alias(column.removesuffix("_s"))
    )


def all_reduce_times() -> pl.DataFrame:
    """Milliseconds by message, with and without loss."""
    share = pl.format("{} % of the link", (100.0 * pl.col("calibration_link_efficiency")).cast(pl.Int64))
    return case_frame("imec_all_reduce").sort("calibration_link_efficiency", "workload_message").select(
        share.alias("series"),
        (pl.col("workload_message") / 1e6).alias("x"),
        (pl.col("layer_forward_s") * 1e3).alias("y"),
    )  # fmt: skip


def accelerator_products(work: str, seconds: float) -> pl.DataFrame:
    """Cost and time of the A100-like designs; `seconds` is the unit of the time."""
    return summary(named(case_frame("a100_hbm_count"))).select(
        "design", "cost", "p5", "p95", "fits", time=pl.col(work) / seconds
    )


def chiplet_bands(defects_per_cm2: float) -> pl.DataFrame:
    """Cost of a package by number of chiplets, median and band, by node."""
    density = pl.col("node_defect_density_per_mm2")
    rows = case_frame("chiplet_count").filter((100.0 * density - defects_per_cm2).abs() < 1e-9)
    quantiles = {"p5": "p05", "p50": "p50", "p95": "p95"}
    return rows.sort("point_id").select(
        pl.col("node").alias("series"),
        pl.col("package_chiplets").alias("x"),
        *(pl.col(f"package_cost_usd_{column}").alias(name) for name, column in quantiles.items()),
    )


MEASURED_FLASH = {
    "GPT-2 small, measured (FlashAttention)": ((1024.0, 4.7 / 2.7), (2048.0, 4.7 / 3.0), (4096.0, 4.7 / 3.6)),
    "GPT-2 medium, measured (FlashAttention)": ((1024.0, 11.5 / 6.9),),
}
"""Days of training on 8 A100: Megatron-LM at a context of 1024 over FlashAttention (Dao et al. 2022, tables 2, 4)."""

CASES: dict[str, tuple[Panel, ...]] = {
    "optimus_memory": (Bars("Memory of one A100", "GiB", memory_parts, (80.0, "capacity, 80 GiB")),),
    "optimus_generations": (Bars("Time per sample of GPT-3 175B", "B200-NVS-L = 1", generation_parts),),
    "optimus_bounds": (
        Bars("Products of a layer, one kernel per head", "share of time", lambda: bound_shares(True)),
        Bars("The same, heads in one kernel", "share of time", lambda: bound_shares(False)),
    ),
    "optimus_memory_technology": (
        Curves("Llama2-13B, 200 + 200 tokens", "s", "memory bandwidth, TB/s", latencies, logarithmic="xy"),
    ),
    "imec_flash_attention": (
        Curves("Over stored scores at 1024", "speed-up", "context", gain_by_context, MEASURED_FLASH),
        Curves("GPT-2 XL, 16 GPUs", "speed-up", "batch", gain_by_batch),
        Curves("GPT-2 medium, 8 A100", "speed-up", "tensor parallelism", gain_by_split),
    ),
    "imec_moe": (Bars("MoE-139B, by network inside / between nodes", "compute = 1", moe_parts),),
    "imec_experts_summit": (
        Curves("6.7B with experts on Summit", "s per batch", "GPUs", summit_times, logarithmic="xy"),
    ),
    "imec_topologies": (
        Bars("Llama2-70B, whole request", "s", lambda: topology_latency("request_time_s")),
        Bars("Prompt only", "s", lambda: topology_latency("time_to_first_token_s")),
    ),
    "imec_all_reduce": (Curves("All-reduce on 16 V100", "ms", "message, MB", all_reduce_times, logarithmic="xy"),),
    "a100_hbm_count": (
        Products("Training", "s per iteration", lambda: accelerator_products("training", 1.0), REFERENCE),
        Products("Inference", "days for 10^9 requests", lambda: accelerator_products("inference", 86400.0), REFERENCE),
        Products("Both, half each", f"{REFERENCE} = 1", lambda: accelerator_products("combined", 1.0), REFERENCE),
    ),
    "chiplet_count": tuple(
        Bands(f"{defects} defects per cm2", "usd per package", "chiplets", partial(chiplet_bands, defects))
        for defects in (0.1, 0.2, 0.5)
    ),
}
"""Panels of each case study, side by side."""


def draw_case(study: str, directory: str | Path) -> list[Path]:
    """Evaluate a case study and draw its panels. Gives the files written, `<study>.png` and `.svg`."""
    return draw_panels(study, CASES[study], directory)


if __name__ == "__main__":
    for case in CASES:
        print(*draw_case(case, sys.argv[1] if len(sys.argv) > 1 else "results/case_studies"), sep="\n")
