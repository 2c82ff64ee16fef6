"""The layout of servers under load: requests in flight, mean time to the first token and between tokens.

Of every row three things were measured, or follow from what was: it is read three times.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from sweeper.errors import unknown
from sweeper.evidence.layouts.batches import cache_format
from sweeper.evidence.measured_rows import (
    Apart,
    ColumnValues,
    MeasuredPoint,
    MeasuredRow,
    Refusal,
    Served,
    Unmodelled,
    number,
    positive,
)
from sweeper.evidence.registry import nearest, our_library, platform_entry, split_columns, stack, without_stack
from sweeper.library.shelf import NoEntry
from sweeper.serving.load import Admission
from sweeper.serving.traffic import Traffic

SPREAD = 0.2
"""Lengths are drawn evenly from 0.8 of the nominal ones on (`--random-range-ratio 0.8` of InferenceMAX)."""
MOST_CLIENTS, MOST_TOKENS = 20_000, 2_000_000
"""Requests in flight, and tokens of a request, beyond which a number is a slip of the pen."""
PROMPTS_A_CLIENT = 10
"""Requests in all over those in flight (`--num-prompts`)."""


TUNED = re.compile(
    r"instruct|chat|it|thinking|base|hf|preview|terminus|bf16|fp8|fp4|nvfp4|mxfp4|int[48]|w\d+a\d+|awq|gptq|dynamic|block"
    r"|v\d+|\d{4}",
    re.IGNORECASE,
)
"""Words behind the name of a model that say how its weights were tuned or narrowed, or of which version or day they
are."""


def workload(name: str) -> str:
    """The model of the library that goes by the name of its weights, whoever published them, or by the beginning of it
    where the further words (`TUNED`) leave it the same. Raises Unmodelled for others.

    >>> workload("nvidia/Llama-3.1-70B-Instruct-FP8")
    'llama3_70b'
    """
    words = name.rpartition("/")[2].split("-")
    for count in range(len(words), 0, -1):
        with suppress(NoEntry):
            found = our_library().find("workload", "-".join(words[:count])).name
            others = [word for word in words[count:] if not TUNED.fullmatch(word)]
            if not others:
                return found
            raise Unmodelled(f"unknown model {name!r}: {found} is none with {'-'.join(others)}", Refusal.WORD)
    raise Unmodelled(f"unknown model {name!r}", Refusal.WORD)


class Names(NamedTuple):
    """Columns of a table that say over which chips a server is spread."""

    tensor: str
    pipeline: str
    data: str
    expert_tensor: str
    expert: str


WHOLE = Names("tp", "pp", "attention_dp", "moe_tp", "moe_ep")
PREFILL, DECODE = (
    Names(*(f"{part}_{name}_size" for name in ("tp", "pp", "attention_dp", "moe_tp", "moe_ep")))
    for part in ("prefill", "decode")
)
NODE = 8.0
"""Chips of a node where the registry names no larger domain."""


def server(row: MeasuredRow, known: Mapping[str, Any], names: Names = WHOLE) -> ColumnValues:
    """Columns of a server. Raises Unmodelled for what is none of ours."""
    if row.get("suspect"):
        raise Unmodelled(f"its table suspects it: {row['suspect']}", Refusal.EXCLUDED)
    if positive(row, names.pipeline, 1.0) > 1.0:
        raise Unmodelled("stages of a pipeline under load", Refusal.LOAD)
    if number(row, "prefix", 0.0) > 0.0:
        raise Unmodelled("prompts of which a cache has the beginning", Refusal.METHOD)
    device = platform_entry(known, row.get("device", ""))
    columns = dict(device["columns"]) | {"workload": workload(row.get("model", ""))}
    columns |= stack(known, "serving", row, ("backend", "device"), columns)
    columns |= stack(known, "quantised", row, ("model", "device", "quantisation"))
    columns["cache_format"] = cache_format(row.get("kv_assumed", ""))
    tensor, data = positive(row, names.tensor), positive(row, names.data, 1.0)
    split_columns(columns, tensor, 1.0, data, node=nearest(tensor * data, device.get("domain", NODE)))
    shared, whole = positive(row, names.expert_tensor, tensor), positive(row, names.expert, 1.0)
    if row.get(names.expert_tensor) and row.get(names.expert) and shared * whole != tensor * data:
        raise Unmodelled(f"experts on {shared * whole:g} chips, attention on {tensor * data:g}", Refusal.IMPOSSIBLE)
    if whole > 1.0 or shared != tensor:
        columns |= {"expert_parallel": whole, "expert_tensor_parallel": shared}
    return without_stack(columns) | {"task": "inference"}


def offered(row: MeasuredRow, known: Mapping[str, Any], replicas: float) -> Served:
    """The requests of one of the replicas, and which of them run. Raises Unmodelled where they cannot be shared."""
    clients = positive(row, "concurrency")
    if clients % replicas:
        raise Unmodelled(f"{clients:g} requests in flight on {replicas:g} replicas", Refusal.IMPOSSIBLE)
    traffic = closed_loop(row, int(clients / replicas))
    return Served(traffic, admission(row, known))


def admission(row: MeasuredRow, known: Mapping[str, Any]) -> Admission:
    """Which requests of a row run. Raises Unmodelled for a backend of which that is not known."""
    backend = row.get("backend", "")
    if backend not in known["admission"]:
        raise Unmodelled(unknown("backend", backend, known["admission"]), Refusal.WORD)
    return Admission(**known["admission"][backend])


def closed_loop(row: MeasuredRow, clients: int) -> Traffic:
    """Requests of so many of the clients of a row. Raises Unmodelled for numbers that are slips of the pen."""
    lengths = (positive(row, "input_length"), positive(row, "output_length"))
    if positive(row, "concurrency") > MOST_CLIENTS or max(lengths) > MOST_TOKENS:
        raise Unmodelled(f"{row.get('concurrency')} requests in flight of {max(lengths):g} tokens", Refusal.IMPOSSIBLE)
    return Traffic(PROMPTS_A_CLIENT * clients, *lengths, SPREAD, clients=clients)


def on_pools(row: MeasuredRow) -> bool:
    """Whether prompts and generated tokens had servers of their own."""
    return row.get("mode") == "disagg"


def together(row: MeasuredRow) -> bool:
    """Whether they had the same."""
    return not on_pools(row)


def served(measured: str, answer: str, value: Callable[[MeasuredRow], float]) -> Callable[..., MeasuredPoint]:
    """What makes a point of a row, of the quantity that is called `measured` and answered by the column `answer`."""

    def point(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
        if row.get("mode") != "agg":
            raise Unmodelled(f"a server that is {row.get('mode') or 'of no mode'}", Refusal.METHOD)
        columns = server(row, known)
        load = offered(row, known, float(columns["data_parallel"]))
        return MeasuredPoint(group_of(row, measured), columns, answer, value(row), load=load)

    return point


def apart(measured: str, answer: str, value: Callable[[MeasuredRow], float]) -> Callable[..., MeasuredPoint]:
    """The same of servers of which some take prompts, and some generate tokens."""

    def point(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
        counts = [int(positive(row, f"{part}_num_workers")) for part in ("prefill", "decode")]
        before, after = (server(row, known, names) for names in (PREFILL, DECODE))
        traffic = closed_loop(row, int(positive(row, "concurrency")))
        load = Served(traffic, admission(row, known), Apart(tuple(sorted(before.items())), *counts))
        return MeasuredPoint(group_of(row, f"apart {measured}"), after, answer, value(row), load=load)

    return point


def group_of(row: MeasuredRow, measured: str) -> str:
    """What was measured, of which model, where."""
    name = row.get("model", "").rpartition("/")[2]
    return f"{measured}, {name} on {row.get('device', '')} by {row.get('backend', '')}"


def first_s(row: MeasuredRow) -> float:
    """Mean seconds to the first token."""
    return positive(row, "ttft_ms") * 1e-3


def between_s(row: MeasuredRow) -> float:
    """Mean seconds between tokens."""
    return positive(row, "tpot_ms") * 1e-3


def rate(row: MeasuredRow) -> float:
    """Tokens per second and chip, by Little's law: of requests in flight, each of which takes its first token and the
    further ones of its mean length."""
    output = positive(row, "output_length") * (1.0 - 0.5 * SPREAD)
    request_s = first_s(row) + (output - 1.0) * between_s(row)
    chips = positive(row, "tp") * positive(row, "attention_dp", 1.0)
    return positive(row, "concurrency") * output / request_s / chips


served_first = served("TTFT", "time_to_first_token_s", first_s)
served_between = served("TPOT", "time_per_output_token_s", between_s)
served_rate = served("tokens/s/GPU", "output_tokens_per_s_per_chip", rate)
apart_first = apart("TTFT", "time_to_first_token_s", first_s)
apart_between = apart("TPOT", "time_per_output_token_s", between_s)
