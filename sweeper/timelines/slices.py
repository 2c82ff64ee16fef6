"""Slices of a timeline: what each stage computes and sends, from when to when."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sweeper.timelines.schedule import FORWARD, WEIGHT, Done, Played, Task
from sweeper.timelines.step import Block, Step

COMPUTE, COLLECTIVES, NEIGHBOURS, REPLICAS, OFFLOAD = TRACKS = (
    "compute", "collectives in layers", "messages to stages", "replicas", "second memory",
)  # fmt: skip
"""Tracks of a stage."""


class Slice(NamedTuple):
    """Something on a track of a stage. `kind` says what it is drawn as: a pass, `message`, a part behind the pipeline,
    or `layer`, `operator`, `collective`, `weights`, `offload` inside a pass; `limited_by` what limits an operator, and
    `share` in which share of the layers it is."""

    stage: int
    track: str
    kind: str
    name: str
    start_s: float
    seconds: float
    microbatch: int = -1
    limited_by: str = ""
    share: float = 1.0


@dataclass
class Busy:
    """Until when the tracks beside compute are busy on a stage: what is hidden may run on beside the next layer."""

    collectives_s: float = 0.0
    replicas_s: float = 0.0
    offload_s: float = 0.0


def slices(step: Step, played: Played, detail: int) -> Iterator[Slice]:
    """All slices of a step: passes and messages, the operators of the first `detail` microbatches, and what follows the
    pipeline."""
    for stage, done in enumerate(played.done):
        busy = Busy()
        for each in done:
            yield from cell_slices(step, stage, each, detail, busy)
        yield from after_slices(step, stage, played.total_s, busy)


def cell_slices(step: Step, stage: int, done: Done, detail: int, busy: Busy) -> Iterator[Slice]:
    """The tasks of a cell, one after the other, and what is sent of them."""
    positions, start_s = step.stages * step.chunks, done.start_s
    for task in done.cell:
        seconds = step.times.of(task, positions, step.chunks)
        if seconds > 0.0:
            yield Slice(stage, COMPUTE, task.kind, task_name(step, task), start_s, seconds, task.microbatch)
        if task.microbatch < detail:
            yield from inside(step, stage, task, start_s, seconds, busy)
        start_s += seconds
    if done.end_s > done.worked_s:
        sending_s, microbatch = done.end_s - done.worked_s, done.cell[0].microbatch
        yield Slice(stage, NEIGHBOURS, "message", "to the neighbouring stage", done.worked_s, sending_s, microbatch)


def task_name(step: Step, task: Task) -> str:
    """What a pass is called; microbatches that DualPipe adds are padding, at the end of those from each side."""
    half = step.microbatches // 2
    if step.real < step.microbatches and task.microbatch % half >= (step.real + 1) // 2:
        return f"{task.kind} of padding"
    chunk = f", chunk {task.position // step.stages}" if step.chunks > 1 else ""
    return f"{task.kind} of microbatch {task.microbatch}{chunk}"


def blocks_of(step: Step, task: Task) -> list[tuple[str, Block]]:
    """Layers of a task by their number in the model, and what its ends have beyond them, in the order of the pass."""
    last = task.position == step.stages * step.chunks - 1
    whole = step.layers // step.chunks
    count = whole - (step.layers - step.last_layers) if last else whole
    block, first = step.layer[task.kind], task.position * whole
    blocks = [(f"{block.name} {first + at}", block) for at in range(max(count, 0))]
    if task.kind != WEIGHT:
        ends = [(end[task.kind].name, end[task.kind]) for end in (step.first, step.last)]
        blocks = ends[:1] * (task.position == 0) + blocks + ends[1:] * last
    return blocks if task.kind == FORWARD else blocks[::-1]


def held_s(step: Step, task: Task) -> float:
    """Seconds of a pass in which its stage only keeps the pace of the fullest one: the last has fewer layers."""
    seconds = step.times.of(task, step.stages * step.chunks, step.chunks)
    held = seconds - sum(block.seconds for _, block in blocks_of(step, task))
    return held if held > 1e-9 * seconds else 0.0


def inside(step: Step, stage: int, task: Task, start_s: float, seconds: float, busy: Busy) -> Iterator[Slice]:
    """Layers of a task with their operators."""
    at_s, end_s = start_s, start_s + seconds
    for name, block in blocks_of(step, task):
        lasts_s = min(block.seconds, end_s - at_s)
        if lasts_s > 0.0:
            yield Slice(stage, COMPUTE, "layer", name, at_s, lasts_s, task.microbatch)
            yield from operators(block, stage, task.microbatch, at_s, lasts_s, busy)
            at_s += lasts_s
    if held_s(step, task) > 0.0:
        yield Slice(stage, COMPUTE, "layer", "keeps the pace of fuller stages", at_s, end_s - at_s, task.microbatch)


def operators(block: Block, stage: int, microbatch: int, start_s: float, seconds: float, busy: Busy) -> Iterator[Slice]:
    """Operators of a block. Compute waits for the share of every collective that nothing hides; the rest runs beside
    what comes next. What a layer takes beyond its operators is told as one slice."""
    end_s, at_s = start_s + seconds, start_s
    yield from beside(block, stage, microbatch, start_s, busy)
    if block.again_s > 0.0:
        lasts_s = min(block.again_s, seconds)
        yield Slice(stage, COMPUTE, "operator", "computes again, with its collectives", at_s, lasts_s, microbatch)
        at_s += lasts_s
    for span in block.spans:
        if span.collective:
            begins_s = max(at_s, busy.collectives_s)
            of = (microbatch, span.limited_by, span.share)
            yield Slice(stage, COLLECTIVES, "collective", span.name, begins_s, span.seconds, *of)
            busy.collectives_s = begins_s + span.seconds
            at_s += span.waited_share * span.seconds
        elif (lasts_s := min(span.seconds * block.slowed, end_s - at_s)) > 0.0:
            yield Slice(stage, COMPUTE, "operator", span.name, at_s, lasts_s, microbatch, span.limited_by, span.share)
            at_s += lasts_s
    if block.spans and end_s - at_s > 1e-6 * seconds:
        yield Slice(stage, COMPUTE, "operator", block.rest, at_s, end_s - at_s, microbatch)


def beside(block: Block, stage: int, microbatch: int, start_s: float, busy: Busy) -> Iterator[Slice]:
    """What runs beside the operators of a block: weights that are gathered, gradients that are scattered, offloads."""
    for name, seconds in (("gathers weights", block.beside.gather_s), ("scatters gradients", block.beside.scatter_s)):
        if seconds > 0.0:
            begins_s = max(start_s, busy.replicas_s)
            yield Slice(stage, REPLICAS, "weights", name, begins_s, seconds, microbatch)
            busy.replicas_s = begins_s + seconds
    if block.beside.offload_s > 0.0:
        begins_s = max(start_s, busy.offload_s)
        yield Slice(
            stage, OFFLOAD, "offload", "to and from the second memory", begins_s, block.beside.offload_s, microbatch
        )
        busy.offload_s = begins_s + block.beside.offload_s


def after_slices(step: Step, stage: int, start_s: float, busy: Busy) -> Iterator[Slice]:
    """What follows the pipeline. Messages of gradients end with the part of them that is waited for, and so begin
    before the end of the pipeline by as much as the last passes hide; new weights are gathered from the update on,
    beside the next step."""
    for part in step.after:
        if part.messages_s > 0.0:
            begins_s = max(start_s + part.seconds - part.messages_s, busy.replicas_s) if part.before else start_s
            lasts_s = start_s + part.seconds - begins_s if part.before else part.messages_s
            yield Slice(stage, REPLICAS, part.name, part.name, begins_s, lasts_s)
        elif part.seconds > 0.0:
            yield Slice(stage, COMPUTE, part.name, part.name, start_s, part.seconds)
        start_s += part.seconds
