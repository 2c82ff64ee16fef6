"""What a measured row would take if chips did nothing but its operations at their peak and its bytes at full rate.

This is the measure of the baselines: what a spreadsheet knows. Operations of runs are model operations, nothing is
computed twice, nothing is waited for; of a generated token every weight that it needs and the cache are read once; the
stages of a pipeline that serves one batch work in turn; operands and results of a kernel are moved once. A board has
one power, and a small message one time, whatever it is.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sweeper.evidence.measured_kernels import LARGE_MESSAGE_B
from sweeper.evidence.measured_rows import ColumnValue, MeasuredPoint, is_rate
from sweeper.evidence.statistics import Ideal
from sweeper.kernels.codes import FORMAT_B, FORMATS

Values = Mapping[str, Any]
"""Columns of a point, those that the engine gives among them."""

PEAKS = ("format_peak_flops", "memory_bandwidth_Bps", "link_bandwidth_Bps")
TRAINED = ("work_flops", "chips", "format_peak_flops", "layers", "tokens_per_iteration")
SERVED = (
    "chips",
    "format_peak_flops",
    "memory_bandwidth_Bps",
    "model_flops_per_token",
    "model_flops_per_output_token",
    "tokens_per_sample",
    "weights_B",
    "cache_memory_B",
    "parameters",
    "active_parameters",
)


def wide_B(name: str) -> float:
    """Bytes of a number in a format."""
    return FORMAT_B[FORMATS.index(name)]


def iteration_s(v: Values) -> float:
    """All chips at their peak."""
    return float(v["work_flops"] / (v["chips"] * v["format_peak_flops"]))


def layer_s(v: Values) -> float:
    """The mean layer of an iteration."""
    return float(iteration_s(v) / v["layers"])


def tokens_per_s(v: Values) -> float:
    """Of a chip."""
    return float(v["tokens_per_iteration"] / iteration_s(v) / v["chips"])


def prompts_s(v: Values) -> float:
    """The prompts of a batch, on the chips of one stage after the other."""
    flops = v["batch_size"] * v["tokens_per_sample"] * v["model_flops_per_token"]
    return float(flops / (v["chips"] / v["pipeline_parallel"] * v["format_peak_flops"]))


def token_s(v: Values) -> float:
    """A token of every request: operations, or the weights that it needs and the cache, whichever take longer."""
    flops = v["batch_size"] * v["model_flops_per_output_token"]
    read_B = v["weights_B"] * v["active_parameters"] / v["parameters"] + v["cache_memory_B"]
    computed_s = flops / (v["chips"] / v["pipeline_parallel"] * v["format_peak_flops"])
    return float(max(computed_s, v["pipeline_parallel"] * read_B / v["memory_bandwidth_Bps"]))


def request_s(v: Values) -> float:
    """The prompts, and every further token."""
    return prompts_s(v) + (v["output_length"] - 1.0) * token_s(v)


def loaded_token_s(v: Values) -> float:
    """The same with as many requests in flight, each of whose prompts pass once for its tokens."""
    return token_s(v) + prompts_s(v) / v["output_length"]


def prompt_s(v: Values) -> float:
    """One prompt, on the chips of a replica."""
    return prompts_s(v) / v["batch_size"] * v["data_parallel"]


def loaded_rate(v: Values) -> float:
    """Tokens per second and chip, by Little's law."""
    return float(v["batch_size"] / loaded_token_s(v) / v["chips"])


def roofline_s(flops: float, moved_B: float, v: Values) -> float:
    """Operations or bytes, whichever take longer."""
    return float(max(flops / v["format_peak_flops"], moved_B / v["memory_bandwidth_Bps"]))


def product_s(v: Values) -> float:
    """(m x k)(k x n), activations and results in 16 bits."""
    m, n, k = (v[f"workload.{size}"] for size in "mnk")
    moved_B = n * k * wide_B(v.get("weight_format", "bf16")) + m * (n + k) * wide_B("bf16")
    return roofline_s(2.0 * m * n * k, moved_B, v)


def attention_s(v: Values) -> float:
    """m new tokens to the n that are there then, each to those before it and itself unless nothing is masked; queries
    and results in 16 bits."""
    m, n, heads, kv_heads, size = (v[f"workload.{name}"] for name in ("m", "n", "heads", "kv_heads", "head_size"))
    pairs = m * (n - v.get("workload.causal", 1.0) * (m - 1.0) / 2.0)
    moved_B = 2.0 * size * (n * kv_heads * wide_B(v.get("cache_format", "bf16")) + m * heads * wide_B("bf16"))
    return roofline_s(4.0 * v["batch_size"] * heads * size * pairs, v["batch_size"] * moved_B, v)


def solver_s(v: Values) -> float:
    """A dense system: two thirds of the cube of its order, all chips at their peak."""
    return float(2.0 / 3.0 * v["workload.n"] ** 3 / (v["chips"] * v["format_peak_flops"]))


def transform_s(v: Values) -> float:
    """A cube of points read and written in each of three directions by all chips."""
    return float(6.0 * v["workload.n"] ** 3 * v["workload.word"] / (v["chips"] * v["memory_bandwidth_Bps"]))


def small_message(v: Values) -> bool:
    """Whether what it costs to start decides the time of a collective."""
    return float(v.get("workload.message", math.inf)) <= LARGE_MESSAGE_B


def collective_s(v: Values) -> float:
    """What a rank sends in a ring at the rate of its links (twice in an all-reduce, operation 0); a small message takes
    one time."""
    if small_message(v):
        return 1.0
    rounds = 2.0 if v["workload.operation"] == 0.0 else 1.0
    ranks = v["tensor_parallel"]
    return float(rounds * (ranks - 1.0) / ranks * v["workload.message"] / v["link_bandwidth_Bps"])


class Rule(NamedTuple):
    """What kind of rows an ideal compares, the columns that the engine gives for it, and its value."""

    kind: str
    columns: tuple[str, ...]
    value: Callable[[Values], float]


RUNS = {
    "iteration_time_s": Rule("training", TRAINED, iteration_s),
    "layer_time_s": Rule("training", TRAINED, layer_s),
    "tokens_per_s_per_chip": Rule("training", TRAINED, tokens_per_s),
    "request_time_s": Rule("inference", SERVED, request_s),
    "time_to_first_token_s": Rule("inference", SERVED, prompts_s),
    "time_per_output_token_s": Rule("inference", SERVED, token_s),
}
"""Runs of models, by the column that answers them."""
LOADED = {
    "time_to_first_token_s": Rule("first tokens under load", SERVED, prompt_s),
    "time_per_output_token_s": Rule("tokens under load", SERVED, loaded_token_s),
    "output_tokens_per_s_per_chip": Rule("throughput under load", SERVED, loaded_rate),
}
"""Servers under load, by the column that answers them."""
KERNELS = {
    "single_gemm": Rule("products", PEAKS, product_s),
    "single_attention": Rule("attention", PEAKS, attention_s),
    "single_collective": Rule("collectives", PEAKS, collective_s),
    "linpack": Rule("solvers", PEAKS, solver_s),
    "fft_3d": Rule("transforms", PEAKS, transform_s),
}
"""Single kernels, and workloads that are timed as one, by workload."""
MEASURES = {"layer_forward_s": "", "energy_J": "energy of ", "average_power_W": "power of "}
"""Columns that answer kernels, and how their kind is called; energy goes with time, and power is one number."""

OTHERS = frozenset({"dlrm_criteo", "feed_forward_layer"})
"""Workloads that are no language models, of which each has an efficiency of its own."""
RUN = ("workload", *(f"workload.{size}" for size in ("hidden", "layers", "heads", "feed_forward", "experts")))
MODELS = {
    "single_gemm": ("workload.n", "workload.k"),
    "single_attention": ("workload.heads", "workload.kv_heads", "workload.head_size"),
    "single_collective": ("workload.operation", "tensor_parallel"),
    "linpack": ("workload.n", "chips"),
    "fft_3d": ("workload.n", "workload.exchanges", "chips"),
}
"""Columns that say which model, or which shape of a kernel, a row is of; of runs those of `RUN`."""


def columns_for(answer: str) -> tuple[str, ...]:
    """What to ask of the engine beside a column that answers rows."""
    rule = LOADED.get(answer) or RUNS.get(answer)
    return rule.columns if rule else PEAKS if answer in MEASURES else ()


def ideal_of(point: MeasuredPoint, asked: Mapping[str, ColumnValue]) -> Ideal | None:
    """The ideal of a point, given what the engine says of it; None for rows of which there is none."""
    workload = str(point.columns["workload"])
    rule = (RUNS if point.load is None else LOADED).get(point.answer)
    if rule is None:
        if point.answer not in MEASURES or workload not in KERNELS:
            return None
        rule = KERNELS[workload]
    if any(not asked.get(name, 1.0) for name in PEAKS):  # nothing is to be had at a rate of 0
        return None
    value = 1.0 if point.answer == "average_power_W" else rule.value({**point.columns, **asked})
    small = "small " if small_message(point.columns) else ""
    if not (math.isfinite(value) and value > 0.0):
        return None
    kind = workload if workload in OTHERS else MEASURES.get(point.answer, "") + small + rule.kind
    model = tuple(point.columns.get(name) for name in MODELS.get(workload, RUN))
    return Ideal(kind, str(point.columns["chip"]), model, value, is_rate(point.answer))
