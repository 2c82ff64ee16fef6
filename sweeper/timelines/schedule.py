"""Pipeline schedules played out, task by task: what the closed forms of `sweeper.kernels.transformers.schedules` must
equal.

A stage has a prescribed order of cells and never deviates from it. A cell is one task or several interwoven ones; it
starts when the cell before it on its stage is over and everything that its tasks need has arrived, and what it makes
is there when it ends. A whole backward pass is a cell of both gradients. Sending occupies the sender for the time of
a message; the receiver waits until the message is complete, and finds it in a buffer if it comes later.

Positions are the places on a microbatch's way through the model: stages, or chunks of stages. The orders are those of
Huang 2019 (GPipe), Narayanan 2021, sections 2.2.1 and 2.2.2 (1F1B, interleaved), Qi 2024, figure 3 (ZB-H1), and
DeepSeek-V3's report, section 3.2.1, with the eight steps of the scheduler published with it (DualPipe).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import NamedTuple

FORWARD, GRADIENT, WEIGHT = "forward", "input gradient", "weight gradient"


class Task(NamedTuple):
    """Work on one microbatch at one position."""

    kind: str
    microbatch: int
    position: int


Cell = tuple[Task, ...]
Order = list[Cell]


@dataclass(frozen=True)
class Times:
    """Seconds of one microbatch on one full stage, what the ends of the model have beyond it, and of one message."""

    forward_s: float
    input_gradient_s: float = 0.0
    weight_gradient_s: float = 0.0
    first_extra_forward_s: float = 0.0
    first_extra_backward_s: float = 0.0
    last_extra_forward_s: float = 0.0
    last_extra_backward_s: float = 0.0
    transfer_s: float = 0.0

    @property
    def forward_only(self) -> bool:
        """Nothing is sent back where no stage has a backward pass."""
        ends = self.first_extra_backward_s + self.last_extra_backward_s
        return self.input_gradient_s + self.weight_gradient_s + ends == 0.0

    def of(self, task: Task, positions: int, chunks: int) -> float:
        """Seconds of work. All backward extras count as gradients of inputs."""
        first, last = task.position == 0, task.position == positions - 1
        if task.kind == FORWARD:
            return self.forward_s / chunks + first * self.first_extra_forward_s + last * self.last_extra_forward_s
        if task.kind == WEIGHT:
            return self.weight_gradient_s / chunks
        ends = first * self.first_extra_backward_s + last * self.last_extra_backward_s
        return self.input_gradient_s / chunks + ends

    def message(self, task: Task, positions: int) -> float:
        """Seconds in which the result of a task goes to the neighbour that needs it, if there is one."""
        end = {FORWARD: positions - 1, GRADIENT: 0, WEIGHT: task.position}[task.kind]
        return 0.0 if task.position == end else self.transfer_s


class Done(NamedTuple):
    """A cell as it was played: when it started, when its work was over, and when all was sent."""

    cell: Cell
    start_s: float
    worked_s: float
    end_s: float


@dataclass(frozen=True)
class Played:
    """Seconds until all is over; per stage what it did, the seconds without work, the part of them in which it does not
    send either, and the most activations that it keeps at one time, in those of a microbatch on a full stage. They live
    until the last task of their microbatch there."""

    total_s: float
    done: list[list[Done]]
    idle_s: list[float]
    waiting_s: list[float]
    kept: list[float]


def simulate(schedule: str, stages: int, microbatches: int, chunks: int, times: Times) -> Played:
    """Play a schedule. `chunks` per stage count for the interleaved schedule only; with one chunk it is 1F1B. Without
    gradients microbatches follow each other in one direction."""
    chunks = chunks if schedule == "interleaved" else 1
    if chunks == 1 and schedule == "interleaved":
        schedule = "one_f_one_b"
    if times.forward_only and schedule == "dual_pipe":
        schedule = "gpipe"
    orders = [order_of(schedule, stages, microbatches, chunks, stage) for stage in range(stages)]
    if times.forward_only:
        orders = [[(task,) for cell in order for task in cell if task.kind == FORWARD] for order in orders]
    # A single stage has nobody to send to, not even between its chunks.
    return play(orders, stages * chunks, chunks, times if stages > 1 else replace(times, transfer_s=0.0))


def needs(cell: Cell, positions: int) -> Iterator[Task]:
    """Tasks of other cells that must be over before."""
    for kind, microbatch, position in cell:
        if kind == FORWARD and position > 0:
            yield Task(FORWARD, microbatch, position - 1)
        if kind == GRADIENT:
            yield Task(FORWARD, microbatch, position)
            if position < positions - 1:
                yield Task(GRADIENT, microbatch, position + 1)
        if kind == WEIGHT and Task(GRADIENT, microbatch, position) not in cell:
            yield Task(GRADIENT, microbatch, position)


def play(orders: Sequence[Order], positions: int, chunks: int, times: Times) -> Played:
    """Every stage goes through its order as far as the others let it, until all are through."""
    over: dict[Task, float] = {}
    clock, work, sent = ([0.0] * len(orders) for _ in range(3))
    done: list[list[Done]] = [[] for _ in orders]
    pending = [list(reversed(order)) for order in orders]
    while any(pending):
        stuck = True
        for stage, order in enumerate(pending):
            while order and all(need in over for need in needs(order[-1], positions)):
                cell = order.pop()
                busy = sum(times.of(task, positions, chunks) for task in cell)
                sending = sum(times.message(task, positions) for task in cell)
                start = max([clock[stage], *(over[need] for need in needs(cell, positions))])
                clock[stage] = start + busy + sending
                done[stage].append(Done(cell, start, start + busy, clock[stage]))
                work[stage] += busy
                sent[stage] += sending
                over.update((task, clock[stage]) for task in cell)
                stuck = False
        assert not stuck, "the stages wait for each other"
    total = max(clock)
    idle = [total - busy for busy in work]
    waiting = [without - sending for without, sending in zip(idle, sent)]
    return Played(total, done, idle, waiting, [most_kept(order) / chunks for order in orders])


def most_kept(order: Order) -> int:
    """Most activations of single positions that live at one time."""
    last = {task[1:]: at for at, cell in enumerate(order) for task in cell}
    most = now = 0
    for at, cell in enumerate(order):
        now += sum(task.kind == FORWARD for task in cell)
        most = max(most, now)
        now -= len({task[1:] for task in cell if last[task[1:]] == at})
    return most


def order_of(schedule: str, stages: int, microbatches: int, chunks: int, stage: int) -> Order:
    """What one stage does, in order."""
    if schedule == "gpipe":
        return alternating(stage_passes(stage, microbatches), microbatches)
    if schedule == "one_f_one_b":
        return alternating(stage_passes(stage, microbatches), stages - 1 - stage)
    if schedule == "interleaved":
        slots = interleaved_passes(stages, microbatches, chunks, stage)
        return alternating(slots, 2 * (stages - 1 - stage) + (chunks - 1) * stages)
    if schedule == "zero_bubble_h1":
        return delayed_weights(alternating(stage_passes(stage, microbatches), stages - 1 - stage), stage)
    return bidirectional(stages, microbatches, stage)


Passes = tuple[list[Cell], list[Cell]]
"""Forward and backward cells of one stage, each in order; an empty cell is an unused slot."""


def forward(microbatch: int, position: int) -> Cell:
    """A forward pass."""
    return (Task(FORWARD, microbatch, position),)


def backward(microbatch: int, position: int) -> Cell:
    """A whole backward pass."""
    return Task(GRADIENT, microbatch, position), Task(WEIGHT, microbatch, position)


def stage_passes(stage: int, microbatches: int) -> Passes:
    """One position per stage."""
    return [forward(k, stage) for k in range(microbatches)], [backward(k, stage) for k in range(microbatches)]


def interleaved_passes(stages: int, microbatches: int, chunks: int, stage: int) -> Passes:
    """As many microbatches as there are stages pass one chunk before the next; slots beyond the last stay empty."""
    groups = [range(start, start + stages) for start in range(0, microbatches, stages)]
    slots = [(k, chunk) for group in groups for chunk in range(chunks) for k in group]
    back = [(k, chunk) for group in groups for chunk in reversed(range(chunks)) for k in group]
    return (
        [forward(k, chunk * stages + stage) if k < microbatches else () for k, chunk in slots],
        [backward(k, chunk * stages + stage) if k < microbatches else () for k, chunk in back],
    )


def alternating(passes: Passes, warmup: int) -> Order:
    """Forward passes to warm up, then one forward and one backward pass in turn, then the backward passes left."""
    forwards, backwards = passes
    pairs = zip_longest(forwards[warmup:], backwards, fillvalue=())
    order = forwards[:warmup] + [cell for pair in pairs for cell in pair]
    return [cell for cell in order if cell]


def delayed_weights(order: Order, delay: int) -> Order:
    """The weights of a microbatch wait for the input gradients of `delay` later ones; the last ones end the order."""
    found: Order = []
    waiting: list[Cell] = []
    for cell in order:
        if cell[0].kind == FORWARD:
            found.append(cell)
            continue
        gradient, weight = cell
        found.append((gradient,))
        waiting.append((weight,))
        if len(waiting) > delay:
            found.append(waiting.pop(0))
    return found + waiting


def bidirectional(stages: int, microbatches: int, stage: int) -> Order:
    """DualPipe: each stage stands on both ways, one half of the microbatches comes from each end.

    `near` is the way whose first stage is closer. The published scheduler takes an even number of stages, and an even
    number of microbatches that is twice as large or larger.
    """
    assert stages % 2 == microbatches % 2 == 0
    assert microbatches >= 2 * stages
    depth = min(stage, stages - 1 - stage)
    half = stages // 2
    near_first = 0 if stage < half else microbatches // 2
    far_first = microbatches // 2 - near_first
    done = {(kind, way): 0 for kind in (FORWARD, GRADIENT) for way in (0, 1)}
    waiting: list[Cell] = []
    order: Order = []

    def place(kind: str, way: int) -> tuple[int, int]:
        k = done[kind, way]
        done[kind, way] += 1
        return (near_first + k, depth) if way == 0 else (far_first + k, stages - 1 - depth)

    def f(way: int) -> None:
        order.append(forward(*place(FORWARD, way)))

    def b(way: int, split: bool = False) -> None:
        gradient, weight = backward(*place(GRADIENT, way))
        order.append((gradient,) if split else (gradient, weight))
        if split:
            waiting.append((weight,))

    def fb(forward_way: int, backward_way: int) -> None:
        order.append(forward(*place(FORWARD, forward_way)) + backward(*place(GRADIENT, backward_way)))

    def w() -> None:
        order.append(waiting.pop(0))

    rest = half - depth - 1
    for _ in range(2 * rest):
        f(0)
    for _ in range(depth + 1):
        f(0)
        f(1)
    for _ in range(rest):
        b(1, split=True)
        w()
        f(1)
    for k in range(microbatches // 2 - stages + depth + 1):
        if k == 0 and rest == 0:
            f(0)
            b(1)
        else:
            fb(0, 1)
        fb(1, 0)
    for _ in range(rest):
        b(1)
        fb(1, 0)
    ends = [way for _ in range(depth + 1) for way in (1, 0)]
    for k, way in enumerate(ends):
        b(way, split=k > depth)
    for _ in range(rest):
        w()
        b(0, split=True)
    while waiting:
        w()
    return order
