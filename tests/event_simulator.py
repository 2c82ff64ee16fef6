"""Pipeline schedules played out, task by task, in plain Python: what the closed forms of kernels.schedules must equal.

A stage has a prescribed order of cells and never deviates from it. A cell is one task, or a forward and a backward
task that run interwoven; it starts when the cell before it on its stage is over and everything that its tasks need
has arrived, and what it makes is there when it ends. Sending occupies the sender for the time of a message; a
receiver waits until the message is complete, and finds it in a buffer if it comes later.

Positions are the places of a microbatch's way through the model: stages, or chunks of stages. Orders follow Huang 2019
(GPipe), Narayanan 2021 sections 2.2.1 and 2.2.2 (1F1B, interleaved), Qi 2024 figure 3 (ZB-H1), and DeepSeek-V3's report
section 3.2.1 with the eight steps of its published scheduler (DualPipe).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

FORWARD, BACKWARD, WEIGHT = "forward", "backward", "weight"


class Task(NamedTuple):
    """Work on one microbatch at one position. `backward` leaves out the weights if `weight` tasks do them."""

    kind: str
    microbatch: int
    position: int


Cell = tuple[Task, ...]
Order = list[Cell]


@dataclass(frozen=True)
class Stages:
    """Seconds of one microbatch on a full stage, and what the first and the last position have beyond it."""

    forward_s: float
    input_gradient_s: float
    weight_gradient_s: float
    first_extra_forward_s: float = 0.0
    first_extra_backward_s: float = 0.0
    last_extra_forward_s: float = 0.0
    last_extra_backward_s: float = 0.0
    transfer_s: float = 0.0

    @property
    def forward_only(self) -> bool:
        """Without gradients there is no backward pass, and nothing is sent back."""
        backward = self.first_extra_backward_s + self.last_extra_backward_s
        return self.input_gradient_s + self.weight_gradient_s + backward == 0.0


@dataclass(frozen=True)
class Played:
    """Seconds until the last task is over, and per stage: seconds without work, and most full-stage activations kept
    at one time. Activations of a microbatch live from the start of its forward to the end of its last gradient."""

    total_s: float
    idle_s: list[float]
    kept: list[float]


def needs(task: Task, positions: int) -> Iterator[Task]:
    """Tasks that must be over before."""
    kind, microbatch, position = task
    if kind == FORWARD and position > 0:
        yield Task(FORWARD, microbatch, position - 1)
    if kind == BACKWARD:
        yield Task(FORWARD, microbatch, position)
        if position < positions - 1:
            yield Task(BACKWARD, microbatch, position + 1)
    if kind == WEIGHT:
        yield Task(BACKWARD, microbatch, position)


def play(orders: Sequence[Order], positions: int, seconds: Callable[[Task], float], sent: Callable[[Task], float]) -> Played:
    """Play the orders of all stages. `seconds` is a task's work, `sent` the time that its message takes."""
    over: dict[Task, float] = {}
    clock = [0.0] * len(orders)
    work = [0.0] * len(orders)
    reached = [0] * len(orders)
    while any(at < len(order) for at, order in zip(reached, orders)):
        before = list(reached)
        for stage, order in enumerate(orders):
            while reached[stage] < len(order):
                cell = order[reached[stage]]
                inputs = [need for task in cell for need in needs(task, positions)]
                if not all(need in over for need in inputs):
                    break
                length = sum(seconds(task) + sent(task) for task in cell)
                clock[stage] = max([clock[stage], *(over[need] for need in inputs)]) + length
                work[stage] += sum(seconds(task) for task in cell)
                over.update((task, clock[stage]) for task in cell)
                reached[stage] += 1
        assert reached != before, "the orders of the stages wait for each other"
    total = max(clock)
    return Played(total, [total - busy for busy in work], [kept(order) * len(orders) / positions for order in orders])


def kept(order: Order) -> int:
    """Most activations of one position that live at one time; in a cell, new ones join those that then go."""
    tasks = [task for cell in order for task in cell]
    split = any(task.kind == WEIGHT for task in tasks)
    last = {(task.microbatch, task.position): at for at, cell in enumerate(order) for task in cell}
    most = now = 0
    for at, cell in enumerate(order):
        now += sum(task.kind == FORWARD for task in cell)
        most = max(most, now)
        now -= sum(task.kind == (WEIGHT if split else BACKWARD) or last[task[1:]] == at for task in cell if task.kind != FORWARD and last[task[1:]] == at)
    return most
