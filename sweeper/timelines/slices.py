"""Slices of a timeline: what each stage computes and sends, from when to when."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sweeper.timelines.schedule import FORWARD, WEIGHT, Done, Played, Task
from sweeper.timelines.step import Block, Step

COMPUTE, NETWORK = "compute", "network"
"""Tracks of a stage."""


class Slice(NamedTuple):
    """Something on a track of a stage. `kind` says what it is drawn as: a pass, `message`, `gradients of replicas`,
    `optimizer`, `host`, or `operator`, `collective` and `layer` inside a pass; `limited_by` what limits an operator."""

    stage: int
    track: str
    kind: str
    name: str
    start_s: float
    seconds: float
    microbatch: int = -1
    limited_by: str = ""


@dataclass
class Cursor:
    """How far the network of a stage is busy."""

    network_s: float = 0.0


def slices(step: Step, played: Played, detail: int) -> Iterator[Slice]:
    """All slices of a step: passes and messages, the operators of the first `detail` microbatches, and what follows the
    pipeline."""
    for stage, done in enumerate(played.done):
        cursor = Cursor()
        for each in done:
            yield from cell_slices(step, stage, each, detail, cursor)
        yield from after_slices(step, stage, played.total_s)


def cell_slices(step: Step, stage: int, done: Done, detail: int, cursor: Cursor) -> Iterator[Slice]:
    """The tasks of a cell, one after the other, and what is sent of them."""
    positions, start_s = step.stages * step.chunks_of_stage, done.start_s
    for task in done.cell:
        seconds = step.times.of(task, positions, step.chunks_of_stage)
        chunk = f", chunk {task.position // step.stages}" if step.chunks_of_stage > 1 else ""
        name = f"{task.kind} of microbatch {task.microbatch}{chunk}"
        if seconds > 0.0:
            yield Slice(stage, COMPUTE, task.kind, name, start_s, seconds, task.microbatch)
        if task.microbatch < detail:
            yield from inside(step, stage, task, start_s, seconds, cursor)
        start_s += seconds
    if done.end_s > done.worked_s:
        cursor.network_s = done.end_s
        yield Slice(stage, NETWORK, "message", "to the neighbouring stage", done.worked_s, done.end_s - done.worked_s,
                    done.cell[0].microbatch)  # fmt: skip


def blocks_of(step: Step, task: Task) -> list[Block]:
    """Layers of a task, and what the ends of the model have beyond them, in the order of the pass."""
    last = task.position == step.stages * step.chunks_of_stage - 1
    count = max((step.last_layers if last else step.layers) // step.chunks_of_stage, 1)
    blocks = [step.layer[task.kind]] * count
    if task.kind != WEIGHT:
        blocks = [step.first[task.kind]] * (task.position == 0) + blocks + [step.last[task.kind]] * last
    return blocks if task.kind == FORWARD else blocks[::-1]


def inside(step: Step, stage: int, task: Task, start_s: float, seconds: float, cursor: Cursor) -> Iterator[Slice]:
    """Layers of a task with their operators."""
    at_s, end_s = start_s, start_s + seconds
    for number, block in enumerate(blocks_of(step, task)):
        lasts_s = min(block.seconds, end_s - at_s)
        if lasts_s <= 0.0:
            continue
        name = f"{block.name} {number}" if block.name == "layer" else block.name
        yield Slice(stage, COMPUTE, "layer", name, at_s, lasts_s, task.microbatch)
        yield from operators(block, stage, task.microbatch, at_s, lasts_s, cursor)
        at_s += lasts_s


def exposed_share(block: Block) -> float:
    """Share of its collectives that a block waits for: what is left of its time beside its compute and what it computes
    again."""
    computing_s = sum(span.seconds for span in block.spans if not span.collective)
    sending_s = sum(span.seconds for span in block.spans if span.collective)
    if sending_s <= 0.0:
        return 0.0
    return min(max((block.seconds - block.again_s - computing_s) / sending_s, 0.0), 1.0)


def operators(
    block: Block, stage: int, microbatch: int, start_s: float, seconds: float, cursor: Cursor
) -> Iterator[Slice]:
    """Operators of a block. Compute waits for the share of every collective that nothing hides; the rest runs beside
    what comes next. What a layer takes beyond its operators is told as one slice: recomputation, waiting for the host
    or for weights, adding gradients up."""
    share, end_s, at_s = exposed_share(block), start_s + seconds, start_s
    if block.spans and block.again_s > 0.0:
        yield Slice(stage, COMPUTE, "operator", "recomputation", at_s, block.again_s, microbatch)
        at_s += block.again_s
    for span in block.spans:
        if span.collective:
            begins_s = max(at_s, cursor.network_s)
            lasts_s = min(span.seconds, end_s - begins_s)
            if lasts_s > 0.0:
                yield Slice(stage, NETWORK, "collective", span.name, begins_s, lasts_s, microbatch, span.limited_by)
                cursor.network_s = begins_s + lasts_s
            at_s += share * span.seconds
        elif (lasts_s := min(span.seconds, end_s - at_s)) > 0.0:
            yield Slice(stage, COMPUTE, "operator", span.name, at_s, lasts_s, microbatch, span.limited_by)
            at_s += lasts_s
    if block.spans and end_s - at_s > 1e-9 * seconds:
        yield Slice(stage, COMPUTE, "operator", "beyond operators", at_s, end_s - at_s, microbatch)


def after_slices(step: Step, stage: int, start_s: float) -> Iterator[Slice]:
    """What follows the pipeline. Messages end with the part of them that is waited for, and so begin before the end of
    the pipeline by as much as the last passes hide."""
    for name, seconds, whole_s in step.after:
        if whole_s > 0.0:
            yield Slice(
                stage, NETWORK, name, name, max(start_s + seconds - whole_s, 0.0), min(whole_s, start_s + seconds)
            )
        elif seconds > 0.0:
            yield Slice(stage, COMPUTE, name, name, start_s, seconds)
        start_s += seconds
