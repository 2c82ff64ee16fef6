"""Requests that a file says: when they come, how long they are, and how their prompts begin."""

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sweeper.errors import UsageFault, unknown
from sweeper.serving.prefixes import Blocks
from sweeper.serving.traffic import MOST_S, Arrivals

TRACE = ("arrival_s", "prompt_tokens", "output_tokens")
"""Columns of a trace."""
HASHED = ("timestamp", "input_length", "output_length", "hash_ids")
"""Keys of a line of a trace with blocks: milliseconds, tokens, and numbers of blocks of `HASHED_TOKENS`, the last of
which may be cut short (Qin et al., "Mooncake", FAST 2025)."""
HASHED_TOKENS = 512
MOST_TOKENS = 10_000_000
"""Tokens of a prompt or an answer beyond which a trace says nonsense."""


class Asked(NamedTuple):
    """A request of a file: where it stands, when it arrives, tokens, and whole blocks with which its prompt begins."""

    where: str
    arrival_s: float
    prompt: float
    output: float
    blocks: list[int]


def read_trace(file: Path) -> Arrivals:
    """Requests of a CSV file with the columns `TRACE`, or of a file of JSON lines with the keys `HASHED`, in any order.
    Raises UsageFault for what is no such file, with the line."""
    hashed = file.suffix == ".jsonl"
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
        asked = list(_of_json(file, lines) if hashed else _of_csv(file, lines))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        kind = f"of JSON lines with {', '.join(HASHED)}" if hashed else f"with the columns {', '.join(TRACE)}"
        raise UsageFault(f"{file} is no trace {kind}: {error}") from None
    if not asked:
        raise UsageFault(f"{file}: a trace has requests")
    for each in asked:
        _assert_possible(each)
    asked.sort(key=lambda each: each.arrival_s)
    first, last = asked[0], asked[-1]
    if last.arrival_s - first.arrival_s > MOST_S:
        raise UsageFault(
            f"{last.where}: {last.arrival_s - first.arrival_s:g} s after the first; have at most {MOST_S:g}"
        )
    numbers = np.array([each[1:4] for each in asked], np.float64)
    prompts, outputs = (np.ascontiguousarray(column) for column in numbers[:, 1:].astype(np.int64).T)
    chains = [each.blocks for each in asked]
    blocks = Blocks.of(HASHED_TOKENS, chains) if any(chains) else Blocks.none(len(asked))
    return Arrivals(numbers[:, 0] - first.arrival_s, prompts, outputs, blocks)


def _assert_possible(asked: Asked) -> None:
    """Raises UsageFault for a request that cannot be."""
    for tokens in (asked.prompt, asked.output):
        if not (tokens >= 1.0 and tokens == round(tokens)):
            raise UsageFault(f"{asked.where}: {tokens:g} tokens; requests have whole numbers of tokens, at least one")
        if tokens > MOST_TOKENS:
            raise UsageFault(f"{asked.where}: {tokens:g} tokens are too many; have at most {MOST_TOKENS:,}")


def _of_csv(file: Path, lines: list[str]) -> Iterator[Asked]:
    """Requests of the lines of a table."""
    reader = csv.reader(lines)
    header = [name.strip() for name in next(reader, [])]
    _assert_keys(header, TRACE, f"{file}:1", "column")
    for row in reader:
        where = f"{file}:{reader.line_num}"
        if row and len(row) != len(header):
            raise UsageFault(f"{where}: {len(row)} values for {len(header)} columns")
        named = dict(zip(header, row, strict=False))
        if named:
            when, prompt, output = (_number(named, name, where, str) for name in TRACE)
            yield Asked(where, when, prompt, output, [])


def _of_json(file: Path, lines: list[str]) -> Iterator[Asked]:
    """Requests of JSON lines. A block stands for all tokens up to its end: the one before it is always the same."""
    before: dict[int, int | None] = {}
    for number, line in enumerate(lines, 1):
        where = f"{file}:{number}"
        if not line.strip():
            continue
        try:
            pairs = json.loads(line, object_pairs_hook=tuple)
        except ValueError as error:
            raise UsageFault(f"{where}: no JSON: {error}") from None
        if not isinstance(pairs, tuple):
            raise UsageFault(f"{where}: a request has {', '.join(HASHED)}")
        _assert_keys([name for name, _ in pairs], HASHED, where, "key")
        named = dict(pairs)
        when, prompt, output = (_number(named, name, where, int, float) for name in HASHED[:3])
        blocks = named[HASHED[3]]
        if not isinstance(blocks, list) or not all(type(block) is int for block in blocks):
            raise UsageFault(f"{where}: {HASHED[3]} are whole numbers of blocks")
        tokens = f"a prompt of {prompt:g} tokens, {HASHED_TOKENS} a block"
        if len(blocks) > -(-max(prompt, 0) // HASHED_TOKENS):
            raise UsageFault(f"{where}: {len(blocks)} {HASHED[3]} of {tokens}")
        if len(set(blocks)) < len(blocks):
            raise UsageFault(f"{where}: a block is named twice, though each stands for all tokens up to its end")
        for known, block in zip([None, *blocks], blocks, strict=False):
            if before.setdefault(block, known) != known:
                ends = f"{_told(known)} here, and {_told(before[block])} further up"
                raise UsageFault(
                    f"{where}: block {block} follows {ends}, though it stands for all tokens up to its end"
                )
        if blocks and len(blocks) < prompt // HASHED_TOKENS <= MOST_TOKENS:
            raise UsageFault(f"{where}: {len(blocks)} {HASHED[3]} of {tokens}; name all of them, or none")
        yield Asked(where, when / 1e3, prompt, output, blocks[: int(max(prompt, 0) // HASHED_TOKENS)])


def _told(block: int | None) -> str:
    return "no block" if block is None else f"block {block}"


def _assert_keys(found: Sequence[str], allowed: Sequence[str], where: str, what: str) -> None:
    """Raises UsageFault for a name that nothing reads, that stands there twice, or that is missing."""
    for place, name in enumerate(found):
        if name not in allowed:
            raise UsageFault(f"{where}: {unknown(what, name, allowed)}")
        if name in found[:place]:
            raise UsageFault(f"{where}: {name} is given twice")
    if len(found) < len(allowed):
        raise UsageFault(f"{where}: a request has {', '.join(allowed)}")


def _number(named: Mapping[str, Any], name: str, where: str, *kinds: type) -> float:
    """A finite number, written as one of these kinds."""
    try:
        number = float(named[name]) if type(named[name]) in kinds else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise UsageFault(f"{where}: {name} is {str(named[name])[:40]!r}, and no number")
    return number
