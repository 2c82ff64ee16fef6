"""The layout of papers on experts and on attention: single layers, single kernels, and training of small models."""

from collections.abc import Mapping
from typing import Any

from sweeper.evidence.layouts.microbenchmarks import attention_columns
from sweeper.evidence.measured_kernels import one_chip
from sweeper.evidence.measured_rows import (
    ColumnValue,
    MeasuredPoint,
    MeasuredRow,
    Refusal,
    Unmodelled,
    number,
    positive,
)
from sweeper.evidence.measured_runs import training

KEYS = ("group", "framework", "accelerator")
"""Columns whose words tell which software ran."""
TF32: dict[str, ColumnValue] = {
    "compute_format": "tf32", "activation_format": "fp32", "weight_format": "fp32", "gradient_format": "fp32",
}  # fmt: skip


def feed_forward(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """Both passes of a feed-forward part with its experts, and a step of SGD."""
    columns = one_chip(known, {**row, "system": row.get("accelerator", "")}, "layer", KEYS) | TF32
    columns |= {
        "workload": "feed_forward_layer",
        "workload.tokens": positive(row, "tokens_per_rank"),
        "workload.hidden": positive(row, "hidden"),
        "workload.feed_forward": positive(row, "ffn_hidden"),
        "workload.experts": number(row, "n_experts", 0.0),
        "workload.experts_per_token": number(row, "moe_topk", 0.0),
        "task": "training",
    }
    return MeasuredPoint(f"layer {row.get('framework', '')}", columns, "layer_time_s", positive(row, "time_s"))


def attention(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """Both passes of attention with the batch, heads and length of a model."""
    columns = one_chip(known, {**row, "system": row.get("accelerator", "")}, "layer", KEYS)
    shape = {"seq_len": row.get("seq_len", ""), "batch": row.get("micro_batch_seq", ""), "causal": "true"}
    columns |= attention_columns({**row, **shape}) | {"task": "training"}
    return MeasuredPoint(f"{row.get('framework', '')} attention", columns, "layer_time_s", positive(row, "time_s"))


def paper(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """A figure of a paper: seconds of an iteration, of a layer or of a kernel."""
    if row.get("speedup_vs_baseline") and not (row.get("time_s") or row.get("tokens_per_s_per_accel")):
        raise Unmodelled("a speed-up over a baseline, no time", Refusal.METHOD)
    if row.get("time_basis", "").startswith("time to target"):
        raise Unmodelled("a time to an accuracy, no time of an iteration", Refusal.METHOD)
    if row.get("tokens_per_rank"):
        return feed_forward(row, known)
    if row.get("workload", "").startswith("attention"):
        return attention(row, known)
    return training({**row, "iter_time_s": row.get("time_s", "")}, known)
