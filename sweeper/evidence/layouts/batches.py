"""The layout of served batches: static ones, and requests that are all there at once."""

import math
import re
from collections.abc import Mapping
from typing import Any

from sweeper.errors import unknown
from sweeper.evidence.measured_rows import (
    INFERRED,
    ColumnValues,
    MeasuredPoint,
    MeasuredRow,
    Refusal,
    Served,
    Unmodelled,
    number,
    positive,
)
from sweeper.evidence.measured_runs import WIDE_FORMATS, guesses_model, model_columns
from sweeper.evidence.registry import occurs, platform, split_columns, stack, without_stack
from sweeper.serving.load import Admission
from sweeper.serving.traffic import Traffic

BEYOND = {
    "beam_width": "beam search",
    "dp": "replicas of which each may have had a batch, or a share of it",
    "ep": "experts spread over accelerators",
}
"""What is not modelled of a batch if there is more than one of it."""
MODES = {
    **dict.fromkeys(("", "static-batch", "static-batch first token", "single-stream decode"), False),
    **dict.fromkeys(("offline-max-throughput", "in-flight", "in-flight batching"), True),
}
"""Whether requests are queued, by the words of tables before a comma or bracket; others are served as one batch."""


def is_queued(row: MeasuredRow) -> bool:
    """Whether all requests were there at once, and ran as others ended. Raises Unmodelled for an unknown mode."""
    mode = re.split(r"[(,]", row.get("mode", ""))[0].strip().lower()
    if mode not in MODES:
        raise Unmodelled(unknown("mode", mode, filter(None, MODES)), Refusal.WORD)
    return MODES[mode]


def inference(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """Static batches served to their last token, or to their first."""
    columns = model_columns(row, known) | (hardware := platform(known, row.get("accelerator", "")))
    for name, method in BEYOND.items():
        if number(row, name, 1.0) > 1.0:
            raise Unmodelled(method, Refusal.METHOD)
    tensor, pipe = positive(row, "tp", 1.0), positive(row, "pp", 1.0)
    if row.get("n_accel") and tensor * pipe * positive(row, "dp", 1.0) != positive(row, "n_accel"):
        raise Unmodelled("dp x tp x pp is not the number of accelerators", Refusal.IMPOSSIBLE)
    if is_queued(row):
        return queued(row, known, columns)
    if row.get("concurrency"):
        raise Unmodelled("requests in flight by a software of which nothing is known", Refusal.LOAD)
    batch, prompt = positive(row, "batch_size", 1.0), positive(row, "input_len")
    output = positive(row, "output_len", 1.0)
    software = "engine" if row.get("engine") else "group"  # a source that ran several says which
    columns |= stack(known, "inference", row, (software, "accelerator"), hardware)
    split_columns(columns, tensor, pipe, 1.0)
    columns.update(task="inference", microbatch=batch, batch_size=batch, sequence_length=prompt, output_length=output)
    columns |= served_formats(row)
    columns = without_stack(columns)
    group = row.get("group", "") + (INFERRED if guesses_model(row, known) else "")
    for name, column in SERVED.items():
        if row.get(name):
            return MeasuredPoint(group, columns, column, positive(row, name))
    raise Unmodelled("neither a latency nor a time of tokens is given", Refusal.INCOMPLETE)


MOST_DIGITS, MOST_TOKENS = 6, 2_000_000
"""Digits of a number of requests, and tokens of a request, beyond which it is a slip of the pen."""
QUEUED = re.compile(r"(\d+) requests queued at once")
"""What notes say of a benchmark of throughput."""


def queued(row: MeasuredRow, known: Mapping[str, Any], columns: ColumnValues) -> MeasuredPoint:
    """As many tokens as a server delivers of requests that are all there at once."""
    if positive(row, "pp", 1.0) > 1.0:
        raise Unmodelled("stages of a pipeline under load", Refusal.LOAD)
    requests = QUEUED.search(row.get("notes", ""))
    if requests is None:
        raise Unmodelled("how many requests there were is not given", Refusal.INCOMPLETE)
    columns |= stack(known, "serving", row, ("engine", "accelerator"), columns)
    columns = without_stack(columns | served_formats(row) | {"task": "inference"})
    split_columns(columns, positive(row, "tp", 1.0), 1.0, 1.0)
    lengths = (positive(row, "input_len"), positive(row, "output_len"))
    if len(requests[1]) > MOST_DIGITS or max(lengths) > MOST_TOKENS:
        raise Unmodelled(f"{requests[1]} requests of {max(lengths):g} tokens", Refusal.IMPOSSIBLE)
    traffic = Traffic(int(requests[1]), *lengths, rate=math.inf, variation=0.0)
    load = Served(traffic, Admission(**known["admission"]["trtllm"]))
    measured = positive(row, "output_tokens_per_s")
    group = row.get("group", "") + (INFERRED if guesses_model(row, known) else "")
    return MeasuredPoint(group, columns, "output_tokens_per_s", measured, load=load)


SERVED = {
    "e2e_latency_s": "request_time_s",
    "ttft_s": "time_to_first_token_s",
    "tpot_s": "time_per_output_token_s",
}
"""What tables of static batches measure, the first that is given, and our columns."""
SERVED_FORMATS = {
    "nvfp4": {"compute_format": "nvfp4", "weight_format": "nvfp4"},
    "fp8": {"compute_format": "fp8", "weight_format": "fp8"},
    "int8 weight-only": {"weight_format": "int8"},
    "int4 weight-only g32": {"weight_format": "nvfp4"},
}
"""Formats of products and weights by their words; the first that occurs counts. Weights of 4 bits with a scale of 16
for 32 of them take as many bytes as those with one of 8 for 16."""
CACHES = {
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2"), "fp8"),
    "int8": "int8",
    **dict.fromkeys(("bf16", "bfloat16", "fp16", "float16", "auto", ""), "bf16"),
}
"""Formats of the cache by their words; `auto` is that of activations."""


def cache_format(word: str) -> str:
    """Format of the cache by its word, whatever its case. Raises Unmodelled for one that is not known."""
    if word.lower() not in CACHES:
        raise Unmodelled(f"precision of the cache {word.lower()!r}", Refusal.WORD)
    return CACHES[word.lower()]


def served_formats(row: MeasuredRow) -> ColumnValues:
    """Columns of the number formats that a server names; 16 bits are the default. Raises Unmodelled for words of which
    none is known."""
    word, cache = row.get("precision", "").lower(), cache_format(row.get("kv_precision", ""))
    if word and not any(occurs(name, word) for name in (*SERVED_FORMATS, *WIDE_FORMATS)):
        raise Unmodelled(f"precision {word!r}", Refusal.WORD)
    narrow = next((formats for name, formats in SERVED_FORMATS.items() if occurs(name, word)), {})
    return {**narrow, "cache_format": cache}
