"""A timeline as a trace in Chrome's format, which Perfetto (ui.perfetto.dev) and chrome://tracing open."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sweeper.files import whole
from sweeper.timelines.slices import TRACKS, Slice
from sweeper.timelines.step import Step

MICRO = 1e6
"""Microseconds of a second: the format's unit."""


def write_trace(path: Path, step: Step, found: Iterable[Slice], about: dict[str, Any]) -> int:
    """Write slices at `path`, a line each, with what the trace is of (`about`); gives their number. A stage is a
    process, its tracks are threads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with whole(path) as draft, draft.open("w", encoding="utf-8") as file:
        file.write(
            '{"displayTimeUnit": "ms", "otherData": ' + json.dumps(about, allow_nan=False) + ', "traceEvents": ['
        )
        for count, event in enumerate((*names(step), *map(event_of, found)), 1):
            file.write(("\n" if count == 1 else ",\n") + json.dumps(event, allow_nan=False))
        file.write("\n]}\n")
    return count


def names(step: Step) -> Iterator[dict[str, Any]]:
    """Names and order of processes and threads."""
    alike = " x ".join(f"{name} {number}" for name, number in step.alike.items())
    chips = f" ({alike} alike)" if alike else ""
    for stage in range(step.stages):
        named = {
            "process_name": {"name": f"stage {stage} of {step.stages}{chips}"},
            "process_sort_index": {"sort_index": stage},
        }
        yield from ({"name": name, "ph": "M", "pid": stage, "tid": 0, "args": args} for name, args in named.items())
        for thread, track in enumerate(TRACKS):
            yield {"name": "thread_name", "ph": "M", "pid": stage, "tid": thread, "args": {"name": track}}


def event_of(each: Slice) -> dict[str, Any]:
    """A slice as a complete event."""
    args: dict[str, Any] = {"microbatch": each.microbatch} if each.microbatch >= 0 else {}
    if each.limited_by:
        args["limited_by"] = each.limited_by
    if each.share < 1.0:
        args["share_of_layers"] = each.share
    return {"name": each.name, "cat": each.kind, "ph": "X", "pid": each.stage, "tid": TRACKS.index(each.track),
            "ts": each.start_s * MICRO, "dur": each.seconds * MICRO, "args": args}  # fmt: skip
