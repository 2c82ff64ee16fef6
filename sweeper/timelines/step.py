"""A training step of a point as it is played: its schedule, the times of its stages, and what a layer is made of.

Everything is read from the columns of the point (`sweeper explain`), so that what is played is what the model says.
Only what the closed form of the schedule sums up is played out instead.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sweeper.errors import UsageFault
from sweeper.kernels.codes import PLACES
from sweeper.kernels.transformers.groups import G
from sweeper.kernels.transformers.operators import BOUNDS, COLLECTIVE, TIME, TRAIT, D
from sweeper.kernels.transformers.stages import Hiding, hidden_s
from sweeper.kernels.transformers.sums import DENSE, FIRST, LAST, LAYER, S
from sweeper.planning.plan import Plan
from sweeper.timelines.schedule import FORWARD, GRADIENT, WEIGHT, Played, Times, simulate
from sweeper.views.lineage import explain, operator_names

OF_GRAPHS = "table_sums"
"""Column of points whose layers are graphs of kernels."""
MOST_TASKS = 500_000
"""Tasks of a schedule that are played; more of them no picture shows."""


class Span(NamedTuple):
    """An operator in one pass of the mean layer: seconds, times the `share` of the layers that have it; whether it is a
    collective, and the share of it that compute waits for; what limits it."""

    name: str
    seconds: float
    collective: bool
    waited_share: float
    limited_by: str
    share: float


class Beside(NamedTuple):
    """Seconds of a block that run beside its operators: weights gathered and gradients scattered over the replicas that
    shard them, and traffic of the second memory."""

    gather_s: float = 0.0
    scatter_s: float = 0.0
    offload_s: float = 0.0


NOTHING = Beside()
"""Nothing runs beside the operators."""


@dataclass(frozen=True)
class Block:
    """A layer, or what an end of the model has beyond layers, in one pass: the seconds that it takes on its stage, the
    part of them for what is computed again, the factor by which hidden collectives slow its compute, its operators,
    what runs beside them, and what the rest of the seconds is spent on."""

    name: str
    seconds: float
    again_s: float = 0.0
    slowed: float = 1.0
    spans: tuple[Span, ...] = ()
    beside: Beside = NOTHING
    rest: str = "waits for the host"


Blocks = Mapping[str, Block]
"""A block by pass."""


class Part(NamedTuple):
    """Something behind the pipeline: the seconds that it takes of the step, those of its messages, and whether these
    end with it, having begun beside the last passes, or begin with it, and end beside the next step."""

    name: str
    seconds: float
    messages_s: float = 0.0
    before: bool = True


@dataclass(frozen=True)
class Step:
    """A training step: what is played, what follows the pipeline, and what the model says that both take together.

    `alike` says how many chips of each parallelism do the same at the same time on every stage. Of `microbatches`,
    `real` are the point's: DualPipe pads them. `note` says of what design the step is.
    """

    schedule: str
    stages: int
    microbatches: int
    real: int
    chunks: int
    times: Times
    layers: int
    last_layers: int
    layer: Blocks
    first: Blocks
    last: Blocks
    after: tuple[Part, ...]
    alike: Mapping[str, int]
    pipeline_time_s: float
    iteration_time_s: float
    infeasible_reason: str
    note: str

    def played(self) -> Played:
        """The pipeline, task by task."""
        return simulate(self.schedule, self.stages, self.microbatches, self.chunks, self.times)

    @property
    def after_s(self) -> float:
        """Seconds behind the pipeline."""
        return sum(part.seconds for part in self.after)


def step_of(plan: Plan, point_id: int) -> Step:
    """The training step of a point. Raises UsageFault for points of which there is none to play: of inference, of
    graphs of kernels, that have no time, with microbatches that are not whole, of very many tasks."""
    rows = explain(plan, point_id)
    given = {row["column"]: row["value"] for row in rows}
    if given.get("task") == "inference" or "stage_input_gradient_s" not in given:
        raise UsageFault(f"point {point_id} is no training step of a model of layers, which is what a timeline shows")
    number = {name: float(value) for name, value in given.items() if isinstance(value, (int, float))}
    stages, real, reason = int(number["pipeline_parallel"]), number["microbatches"], str(given["infeasible_reason"])
    if real < 1.0 or not real.is_integer():
        raise UsageFault(f"point {point_id} has {real:g} microbatches, which cannot be played: {reason}")
    if not math.isfinite(number["iteration_time_s"]):
        raise UsageFault(f"point {point_id} has no time that could be played: {reason}")
    schedule = str(given["schedule"]) if stages > 1 else "one_f_one_b"
    chunks = int(number["virtual_stages"]) if schedule == "interleaved" else 1
    microbatches = int(real)
    if schedule == "dual_pipe":
        if stages % 2:
            raise UsageFault(f"point {point_id} has {stages} stages: DualPipe takes an even number")
        microbatches = 2 * max(math.ceil(real / 2), stages)
    if stages * microbatches * chunks > MOST_TASKS:
        found = f"{stages * microbatches * chunks:,} passes of stages"
        raise UsageFault(f"point {point_id} has {found}; at most {MOST_TASKS:,} are played")
    names, layers = operator_names(plan, point_id), int(number["layers_per_stage"])
    searched = plan.study.optimize is not None
    return Step(
        schedule,
        stages,
        microbatches,
        int(real),
        chunks,
        times_of(number, stages),
        layers,
        int(number["last_stage_layers"]) if stages > 1 else layers,
        layer_blocks(number, given, names),
        end_blocks("embedding", FIRST, "first", number, given, names),
        end_blocks("head", LAST, "last", number, given, names),
        behind(number, given),
        {
            name: int(number[f"{name}_parallel"])
            for name in ("tensor", "context", "data")
            if number.get(f"{name}_parallel", 1.0) > 1.0
        },
        number["pipeline_time_s"],
        number["iteration_time_s"],
        reason,
        "of the template's own design: what a search of this study would find is not in it" if searched else "",
    )


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


def behind(number: Mapping[str, float], given: Mapping[str, Any]) -> tuple[Part, ...]:
    """What follows the pipeline: the part of the gradients' messages that nothing hides, the update, the host, and the
    part of the new weights' gathering that the next forward pass does not hide."""
    gather_s, exposed_s = number["gradient_gather_s"], number["gradient_time_s"]
    reduce_s = number["gradient_all_reduce_s"] - gather_s
    hidden_s = number["stage_forward_s"] if given["gradient_all_reduce"] == "overlapped" else 0.0
    late_gather_s = min(max(gather_s - hidden_s, 0.0), exposed_s)
    sent = given["gradient_all_reduce"] != "ignored"
    parts = (
        Part("gradients of replicas", exposed_s - late_gather_s, reduce_s if sent else 0.0),
        Part("optimizer", max(number["optimizer_time_s"], number["offload_optimizer_s"])),
        Part("host", number["calibration_iteration_host_s"]),
        Part("new weights", late_gather_s, gather_s if sent else 0.0, before=False),
    )
    return tuple(part for part in parts if part.seconds > 0.0 or part.messages_s > 0.0)


class Pass(NamedTuple):
    """Columns of a pass: of the stage's and the layer's seconds, and of the sums over a layer's operators of compute,
    collectives, and those of experts; gathers, scatters and offloads beside it."""

    column: str
    device: int
    sent: int
    expert: int
    gathers: float
    scatters: float
    offload: str


PASSES = {
    FORWARD: Pass("forward", S.forward, S.network_forward, S.expert_forward, 1.0, 0.0, "offload_forward_s"),
    GRADIENT: Pass("input_gradient", S.input_gradient, S.network_backward, S.expert_backward, 1.0, 1.0,
                   "offload_backward_s"),
}  # fmt: skip
TIMES = {FORWARD: TIME.forward, GRADIENT: TIME.input_gradient, WEIGHT: TIME.weight_gradient}
"""Columns of `operator_times`, and of the bounds beside them."""


def layer_blocks(number: Mapping[str, float], given: Mapping[str, Any], names: tuple[str, ...]) -> Blocks:
    """The mean layer: operators that only some layers have count by their share. Where layers are graphs of kernels it
    has none: the table of the model is read for its ends alone."""
    layers = number["layers_per_stage"]
    if OF_GRAPHS in given:
        return {kind: Block("layer", seconds / layers) for kind, seconds in
                ((FORWARD, number["stage_forward_s"]), (GRADIENT, number["stage_input_gradient_s"]),
                 (WEIGHT, number["stage_weight_gradient_s"]))}  # fmt: skip
    experts = number.get("expert_layers", 0.0) / number["layers"]
    shares = {place: experts for place in range(len(PLACES)) if place not in (FIRST, LAST)}
    shares |= {LAYER: 1.0, DENSE: 1.0 - experts}
    sharded = given["gradient_all_reduce"] != "ignored"
    found = {}
    for kind, its in PASSES.items():
        hiding = Hidden.of(number, given, its, shares)
        repeats = kind == GRADIENT and given["recompute"] != "none"
        again_s = max(number[f"layer_{its.column}_s"] - hiding.own_s, 0.0) if repeats else 0.0
        beside = Beside(
            its.gathers * number["sharded_gather_s"] * sharded,
            its.scatters * number["sharded_scatter_s"] * sharded,
            number[its.offload],
        )
        rest = "waits for weights" if sum(beside) > 0.0 else "waits for the host"
        found[kind] = Block("layer", number[f"stage_{its.column}_s"] / layers, again_s, hiding.slowed,
                            spans(given, names, kind, shares, hiding), beside, rest)  # fmt: skip
    found[WEIGHT] = Block("layer", number["stage_weight_gradient_s"] / layers, rest="adds gradients up",
                          spans=spans(given, names, WEIGHT, shares, Hidden()))  # fmt: skip
    return found


def end_blocks(
    name: str, place: int, prefix: str, number: Mapping[str, float], given: Mapping[str, Any], names: tuple[str, ...]
) -> Blocks:
    """What an end of the model has; both gradients are one pass there."""
    hiding = [Hidden.of(number, given, its, {place: 1.0}) for its in PASSES.values()]
    back = (
        *spans(given, names, GRADIENT, {place: 1.0}, hiding[1]),
        *spans(given, names, WEIGHT, {place: 1.0}, Hidden()),
    )
    return {
        FORWARD: Block(name, number[f"{prefix}_forward_s"], 0.0, hiding[0].slowed,
                       spans(given, names, FORWARD, {place: 1.0}, hiding[0])),
        GRADIENT: Block(name, number[f"{prefix}_backward_s"], 0.0, hiding[1].slowed, back),
    }  # fmt: skip


@dataclass(frozen=True)
class Hidden:
    """How a pass hides its collectives: the shares of those of experts and of the others that compute hides, the share
    that is left of those beside an operator's own pass, by what hidden ones slow compute, and the seconds of the pass
    without what is computed again."""

    expert: float = 0.0
    other: float = 0.0
    left: float = 1.0
    slowed: float = 1.0
    own_s: float = 0.0

    @classmethod
    def of(
        cls, number: Mapping[str, float], given: Mapping[str, Any], its: Pass, shares: Mapping[int, float]
    ) -> "Hidden":
        """Of a pass over what stands in some places, with these shares of the layers."""
        sums = sum(share * np.array(given["place_sums"])[place] for place, share in shares.items())
        device_s, sent_s, expert_s = float(sums[its.device]), float(sums[its.sent]), float(sums[its.expert])
        overlaps = (number["tensor_overlap"], number["expert_overlap"])
        hides_s = hidden_s(Hiding(*overlaps, number["overlap_slowdown"]), device_s, sent_s, expert_s)
        hideable_s = overlaps[0] * (sent_s - expert_s) + overlaps[1] * expert_s
        scale = hides_s / hideable_s if hideable_s > 0.0 else 0.0
        slowed = 1.0 + hides_s * number["overlap_slowdown"] / device_s if device_s > 0.0 else 1.0
        times, beside = collective_times(given, its, shares), asynchronous(given)
        besides_s = float(times[beside].sum())
        left = min(max((sent_s - float(times[~beside].sum())) / besides_s, 0.0), 1.0) if besides_s > 0.0 else 1.0
        return cls(overlaps[1] * scale, overlaps[0] * scale, left, slowed, device_s * slowed + sent_s - hides_s)

    def waited(self, of_experts: bool, beside: bool) -> float:
        """Share of a collective that compute waits for."""
        return (1.0 - (self.expert if of_experts else self.other)) * (self.left if beside else 1.0)


def collective_times(given: Mapping[str, Any], its: Pass, shares: Mapping[int, float]) -> np.ndarray:
    """Seconds of every operator that is a collective in a pass; of the others 0."""
    traits, dims = np.array(given["operator_traits"]), np.array(given["operator_dims"])
    column = TIMES[FORWARD if its.column == "forward" else GRADIENT]
    times = np.array(given["operator_times"])[:, column] * np.maximum(dims[:, D.count], 0.0)
    of_place = np.array([shares.get(int(place), 0.0) for place in traits[:, TRAIT.place]])
    found: np.ndarray = np.where(traits[:, TRAIT.type] == COLLECTIVE, times * of_place, 0.0)
    return found


def asynchronous(given: Mapping[str, Any]) -> np.ndarray:
    """Which operators are collectives that count only by what exceeds the pass beside them."""
    traits = np.array(given["operator_traits"])
    beside = (float(given["calibration_async_tensor"]) > 0.0) | (traits[:, TRAIT.group] == G.context)
    found: np.ndarray = (traits[:, TRAIT.type] == COLLECTIVE) & (traits[:, TRAIT.beside] >= 0) & beside
    return found


def spans(
    given: Mapping[str, Any], names: tuple[str, ...], kind: str, shares: Mapping[int, float], hiding: Hidden
) -> tuple[Span, ...]:
    """Operators of some places in one pass, in their order, backwards in a backward pass."""
    times, traits, dims, bounds = (
        np.array(given[f"operator_{what}"]) for what in ("times", "traits", "dims", "bounds")
    )
    beside, seconds = asynchronous(given), times[:, TIMES[kind]] * dims[:, D.count]
    found = []
    for at, name in enumerate(names):
        share = shares.get(int(traits[at, TRAIT.place]), 0.0)
        if seconds[at] <= 0.0 or share <= 0.0:
            continue
        sent = bool(traits[at, TRAIT.type] == COLLECTIVE)
        waited = hiding.waited(bool(traits[at, TRAIT.group] == G.expert), bool(beside[at])) if sent else 1.0
        limit = "network" if sent else BOUNDS[int(bounds[at, TIMES[kind]])]
        found.append(Span(name, float(seconds[at] * share), sent, waited, limit, share))
    return tuple(found if kind == FORWARD else found[::-1])
