"""A training step of a point as it is played: its schedule, the times of its stages, and what a layer is made of.

Everything is read from the columns of the point (`sweeper explain`), so that what is played is what the model says.
Only what the closed form of the schedule sums up is played out instead.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kernels.codes import CHOICES, PLACES, SCHEDULES
from kernels.transformers.operators import BOUNDS, COLLECTIVE, TIME, TRAIT, D
from kernels.transformers.sums import DENSE, FIRST, LAST, LAYER
from sweeper.errors import UsageFault
from sweeper.planning.plan import Plan
from sweeper.timelines.schedule import FORWARD, GRADIENT, WEIGHT, Played, Times, simulate
from sweeper.views.lineage import explain, operator_names

INFERENCE = CHOICES["task"].index("inference")
MOST_TASKS = 500_000
"""Tasks of a schedule that are played; more of them no picture shows."""
ENDS = (FIRST, LAST)
"""Places of operators that only the first or the last stage has."""


class Span(NamedTuple):
    """An operator in one pass of one layer: seconds, whether it is a collective, and what limits it."""

    name: str
    seconds: float
    collective: bool
    limited_by: str


@dataclass(frozen=True)
class Block:
    """A layer, or what an end of the model has beyond layers, in one pass: the seconds that it takes on its stage, the
    part of them for recomputation, and its operators."""

    name: str
    seconds: float
    again_s: float
    spans: tuple[Span, ...]


Blocks = Mapping[str, Block]
"""A block by pass."""


@dataclass(frozen=True)
class Step:
    """A training step: what is played, what follows the pipeline, and what the model says that both take together.

    `alike` says how many chips of each parallelism do the same at the same time on every stage. `after` are the parts
    behind the pipeline, in order, each with whether it is a collective and how long that is as a whole: what runs
    beside the last passes is hidden.
    """

    schedule: str
    stages: int
    microbatches: int
    chunks: int
    times: Times
    layers: int
    last_layers: int
    layer: Blocks
    first: Blocks
    last: Blocks
    after: tuple[tuple[str, float, float], ...]
    alike: Mapping[str, int]
    pipeline_time_s: float
    iteration_time_s: float
    infeasible_reason: str

    def played(self) -> Played:
        """The pipeline, task by task."""
        return simulate(self.schedule, self.stages, self.microbatches, self.chunks, self.times)

    @property
    def chunks_of_stage(self) -> int:
        """Chunks that a stage has: only the interleaved schedule cuts stages."""
        return self.chunks if self.schedule == "interleaved" else 1

    @property
    def after_s(self) -> float:
        """Seconds behind the pipeline."""
        return sum(seconds for _, seconds, _ in self.after)


def step_of(plan: Plan, point_id: int) -> Step:
    """The training step of a point. Raises UsageFault for points of which there is none to play: of inference, of
    graphs of kernels, with microbatches that are not whole, of very many tasks."""
    rows = explain(plan, point_id)
    given = {row["column"]: row["value"] for row in rows}
    if given.get("task") == INFERENCE or "stage_input_gradient_s" not in given:
        raise UsageFault(f"point {point_id} is no training step of a model of layers, which is what a timeline shows")
    number = {name: float(value) for name, value in given.items() if isinstance(value, (int, float))}
    stages, microbatches = int(number["pipeline_parallel"]), number["microbatches"]
    schedule = SCHEDULES[int(number["schedule"])] if stages > 1 else "one_f_one_b"
    reason = str(given["infeasible_reason"])
    if microbatches < 1.0 or not microbatches.is_integer():
        raise UsageFault(f"point {point_id} has {microbatches:g} microbatches, which cannot be played: {reason}")
    if schedule == "dual_pipe":
        if stages % 2:
            raise UsageFault(f"point {point_id} has {stages} stages: DualPipe takes an even number")
        microbatches = 2 * max(math.ceil(microbatches / 2), stages)
    passes = stages * microbatches * number["virtual_stages"]
    if passes > MOST_TASKS:
        raise UsageFault(f"point {point_id} has {passes:,.0f} passes of stages; at most {MOST_TASKS:,} are played")
    names = operator_names(plan, point_id)
    layers = number["layers_per_stage"]
    return Step(
        schedule,
        stages,
        int(microbatches),
        int(number["virtual_stages"]),
        times_of(number, stages),
        int(layers),
        int(number["last_stage_layers"]) if stages > 1 else int(layers),
        layer_blocks(number, given, names),
        end_blocks("embedding", FIRST, "first", number, given, names),
        end_blocks("head", LAST, "last", number, given, names),
        behind(number),
        {name: int(number[f"{name}_parallel"]) for name in ("tensor", "context", "expert", "data")
         if number.get(f"{name}_parallel", 1.0) > 1.0},
        number["pipeline_time_s"],
        number["iteration_time_s"],
        reason,
    )  # fmt: skip


def times_of(number: Mapping[str, float], stages: int) -> Times:
    """What a schedule is played with. A single stage has the work of both ends."""
    return Times(
        number["stage_forward_s"],
        number["stage_input_gradient_s"],
        number["stage_weight_gradient_s"],
        number["first_forward_s"],
        number["first_backward_s"],
        number["last_extra_forward_s"],
        number["last_extra_backward_s"],
        number["stage_transfer_s"] if stages > 1 else 0.0,
    )


def behind(number: Mapping[str, float]) -> tuple[tuple[str, float, float], ...]:
    """What follows the pipeline: the part of the replicas' messages that nothing hides, the update, the host."""
    update_s = max(number["optimizer_time_s"], number["offload_optimizer_s"])
    parts = (
        ("gradients of replicas", number["gradient_time_s"], number["gradient_all_reduce_s"]),
        ("optimizer", update_s, 0.0),
        ("host", number["calibration_iteration_host_s"], 0.0),
    )
    return tuple(part for part in parts if max(part[1:]) > 0.0)


def layer_blocks(number: Mapping[str, float], given: Mapping[str, Any], names: tuple[str, ...]) -> Blocks:
    """The mean layer: operators that only some layers have count by their share."""
    layers = number["layers_per_stage"]
    share = number.get("expert_layers", 0.0) / number["layers"]
    of_place = {place: (1.0 - share if place == DENSE else 1.0 if place == LAYER else share)
                for place in range(len(PLACES)) if place not in ENDS}  # fmt: skip
    again_s = number.get("recompute_time_s", 0.0) / (number["microbatches"] * layers)
    return {
        kind: Block("layer", number[f"stage_{column}_s"] / layers, again_s if kind == GRADIENT else 0.0,
                    spans(given, names, kind, of_place))
        for kind, column in ((FORWARD, "forward"), (GRADIENT, "input_gradient"), (WEIGHT, "weight_gradient"))
    }  # fmt: skip


def end_blocks(
    name: str, place: int, prefix: str, number: Mapping[str, float], given: Mapping[str, Any], names: tuple[str, ...]
) -> Blocks:
    """What an end of the model has; both gradients are one pass there."""
    back = (*spans(given, names, GRADIENT, {place: 1.0}), *spans(given, names, WEIGHT, {place: 1.0}))
    return {
        FORWARD: Block(name, number[f"{prefix}_forward_s"], 0.0, spans(given, names, FORWARD, {place: 1.0})),
        GRADIENT: Block(name, number[f"{prefix}_backward_s"], 0.0, back),
    }


COLUMNS = {FORWARD: TIME.forward, GRADIENT: TIME.input_gradient, WEIGHT: TIME.weight_gradient}
"""Columns of `operator_times`, and of the bounds beside them."""


def spans(
    given: Mapping[str, Any], names: tuple[str, ...], kind: str, share_of: Mapping[int, float]
) -> tuple[Span, ...]:
    """Operators of some places in one pass, in their order, backwards in a backward pass; none where layers are graphs
    of kernels."""
    if "operator_times" not in given:
        return ()
    times, traits, dims, bounds = (
        np.array(given[f"operator_{what}"]) for what in ("times", "traits", "dims", "bounds")
    )
    seconds = times[:, COLUMNS[kind]] * dims[:, D.count]
    found = [
        Span(
            name,
            float(seconds[at] * share_of[int(traits[at, TRAIT.place])]),
            sent := bool(traits[at, TRAIT.type] == COLLECTIVE),
            "network" if sent else BOUNDS[int(bounds[at, COLUMNS[kind]])],
        )
        for at, name in enumerate(names)
        if seconds[at] > 0.0 and share_of.get(int(traits[at, TRAIT.place]), 0.0) > 0.0
    ]
    return tuple(found if kind == FORWARD else found[::-1])
