"""Layouts of two tables of training runs of one software each: nanotron, and vTrain's of Megatron-DeepSpeed."""

import math
from collections.abc import Mapping
from typing import Any

from sweeper.evidence.measured_rows import (
    ColumnValues,
    MeasuredPoint,
    MeasuredRow,
    Refusal,
    Unmodelled,
    number,
    positive,
)
from sweeper.evidence.registry import platform, split_columns, stack

NANOTRON_WIDTHS = {2048.0: 8192.0, 3072.0: 8192.0, 4096.0: 14336.0, 8192.0: 28672.0}
"""Feed-forward width by hidden size, from the published totals of parameters."""


def nanotron_version(row: MeasuredRow, known: Mapping[str, Any]) -> str:
    """Which version of nanotron ran: by the mark of the table and by the bandwidth that the job itself measured."""
    piped, fixed = number(row, "pp") > 1.0, row.get("after_pp_fix", "True") == "True"
    gathered = number(row, "AllGather (GB/s)", 0.0)
    bands = known["nanotron_bands"].get(number(row, "nodes", 0.0)) if gathered else None
    unchecked = gathered >= bands["unchecked"] if bands else not (fixed or piped)
    if unchecked:
        return "fast"
    slow = not fixed or (bands is not None and gathered < bands["slow_messages"])
    return "checked, slow messages" if piped and slow else "checked"


def nanotron(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """Runs of HF nanotron: tokens per second and GPU, or out of memory."""
    hidden = positive(row, "hidden_size")
    if hidden not in NANOTRON_WIDTHS:
        raise Unmodelled(f"feed-forward width of hidden size {hidden:g} is not known", Refusal.INCOMPLETE)
    tensor, pipe, data = positive(row, "tp"), positive(row, "pp"), positive(row, "dp")
    heads, vocabulary = positive(row, "num_heads"), positive(row, "vocab_size")
    accumulation = number(row, "batch_accum", 0.0) or number(row, "gbs") / (number(row, "mbs") * data)
    hardware = platform(known, "H100-SXM5-80GB")
    columns: ColumnValues = {
        "workload": "eager_decoder",
        "workload.hidden": hidden,
        "workload.layers": positive(row, "num_layers"),
        "workload.heads": heads,
        "workload.kv_heads": positive(row, "num_kv_heads", heads),
        "workload.head_size": hidden / heads,
        "workload.feed_forward": NANOTRON_WIDTHS[hidden],
        "workload.vocabulary": vocabulary,
        "workload.tied_embeddings": 1.0 if pipe == 1.0 and hidden < 4096.0 else 0.0,
        **hardware,
        **stack(known, "nanotron", {"stack": nanotron_version(row, known)}, ("stack",), hardware),
        "microbatch": positive(row, "mbs"),
        "batch_size": positive(row, "mbs") * accumulation * data,
        "sequence_length": positive(row, "seq_len"),
        "sequence_parallel": 1.0,
        "zero_stage": number(row, "zero_stage", 0.0),
        # ZeRO-1 in nanotron reduces and gathers after the last backward pass; DDP beside it.
        "gradient_all_reduce": "exposed" if number(row, "zero_stage", 0.0) else "overlapped",
    }
    split_columns(columns, tensor, pipe, data)
    failed = row.get("status", "Success") == "OOM"
    measured = math.nan if failed else positive(row, "tok/s/gpu")
    return MeasuredPoint("nanotron", columns, "tokens_per_s_per_chip", measured, not failed)


GPT2_VOCABULARY = 50257.0
"""Words of GPT-2's tokenizer (Radford 2019)."""


def vtrain(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """GPT on one node of A100: milliseconds per iteration, which vTrain calculated from traces of a layer."""
    hidden, heads, sequence = positive(row, "hidden"), positive(row, "heads"), positive(row, "seq")
    tensor, pipe, data = positive(row, "tp"), positive(row, "pp"), positive(row, "dp")
    if tensor * pipe * data != positive(row, "n_gpus"):
        raise Unmodelled("dp x tp x pp is not the number of GPUs", Refusal.IMPOSSIBLE)
    hardware = platform(known, row.get("gpu", ""))
    columns: ColumnValues = {
        "workload": "decoder",
        "workload.hidden": hidden,
        "workload.layers": positive(row, "layers"),
        "workload.heads": heads,
        "workload.kv_heads": heads,
        "workload.head_size": hidden / heads,
        "workload.feed_forward": 4.0 * hidden,
        "workload.learned_positions": sequence,
        # Whole rows of the embedding per chip, not padded.
        "workload.vocabulary": tensor * math.floor(GPT2_VOCABULARY / tensor),
        **hardware,
        **stack(known, "vtrain", row, ("gpu",), hardware),
        "microbatch": positive(row, "micro_batch"),
        "batch_size": positive(row, "global_batch"),
        "sequence_length": sequence,
    }
    split_columns(columns, tensor, pipe, data)
    return MeasuredPoint("vtrain (calculated)", columns, "iteration_time_s", positive(row, "iter_time_ms") * 1e-3)
