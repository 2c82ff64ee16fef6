"""The best cut of a graph of kernels into on-chip partitions, three times, in plain Python.

`exhaustive` enumerates every assignment, `brute_force` searches over order ideals, `solve_mip` states a mixed integer
program and has HiGHS solve it. The first two share the time of a partition. The program is a linear restatement of
its own, but for three cases in which nothing is left to decide and that it takes from there: everything in one
partition, the need of a kernel that is alone, the tiling of a weight that does not fit. These are tested by hand. They
are oracles for the optimiser, so clarity comes before speed.

Sizes in the random instances are whole numbers of bytes, buffers are split by powers of two, times are multiples of
1/8 s: sums are then exact in float64 whatever their order, and no limit is met or missed by rounding.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

TILINGS = ("free", "repeats_traffic", "least_traffic")
BEFORE, INSIDE, AFTER = -1, 0, 1  # where a kernel is, seen from one partition


@dataclass(frozen=True)
class Instance:
    """Kernels 0 .. n-1 in topological order, the tensors between them, and a chip. Seconds and bytes."""

    # Of each kernel.
    flops_s: tuple[float, ...]  # computing alone at full rate
    network_s: tuple[float, ...]
    column_s: tuple[float, ...]  # network time in one direction of the chip's grid; the other is row_s
    row_s: tuple[float, ...]
    dram_B: tuple[float, ...]  # explicit memory traffic
    weight_B: tuple[float, ...]
    gradient_B: tuple[float, ...]
    output_B: tuple[float, ...]
    forward: tuple[bool, ...]
    gradient: tuple[bool, ...]  # a weight gradient: its output is no tensor that leaves
    edges: tuple[tuple[int, int], ...]  # (producer, consumer), ordered by producer; a pair may appear twice
    # Of the chip and the model.
    bandwidth_Bps: float
    sram_B: float
    units: int  # most kernels in a partition
    tiles: int  # a buffer holds output_B / tiles
    overlap: bool  # a partition takes the longest of compute, memory and network; otherwise their sum
    per_tensor: bool  # a tensor is moved once per partition; otherwise once per edge
    weight_reads: float  # times that a weight is read per microbatch
    gradient_moves: int
    reconfiguration_s: float
    live_budget_B: float
    tiling: str
    alone_s: tuple[float, ...] = ()  # computing without other kernels on the chip; empty: no longer than among others
    streamed: bool = False  # with overlap, messages of a kernel that is alone in its partition follow it

    @property
    def kernels(self) -> int:
        return len(self.flops_s)

    @cached_property
    def producers(self) -> tuple[tuple[int, ...], ...]:
        """Of each kernel, the kernels that it reads from, each once."""
        return tuple(tuple(sorted({p for p, c in self.edges if c == i})) for i in range(self.kernels))

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """Of each kernel, the kernels that read its output, each once."""
        return tuple(tuple(sorted({c for p, c in self.edges if p == i})) for i in range(self.kernels))

    @cached_property
    def tile_B(self) -> tuple[float, ...]:
        return tuple(output / self.tiles for output in self.output_B)


class Optimum(NamedTuple):
    """Least time and the partition of each kernel; (inf, ()) if nothing is feasible."""

    time_s: float
    assignment: tuple[int, ...]


INFEASIBLE = Optimum(math.inf, ())


# one partition: place[i] is BEFORE, INSIDE or AFTER


def members(place: Sequence[int]) -> list[int]:
    return [i for i, where in enumerate(place) if where == INSIDE]


def moved_B(instance: Instance, place: Sequence[int], alone: bool) -> tuple[float, float]:
    """Bytes of tensors read from and written to memory, before tiling; alone: there is no other partition."""
    reads = writes = 0.0
    if not instance.per_tensor:
        for p, c in instance.edges:
            reads += instance.output_B[p] * (place[p] == BEFORE and place[c] == INSIDE)
            writes += instance.output_B[p] * (place[p] == INSIDE and place[c] == AFTER)
        return reads, writes
    for p in range(instance.kernels):
        used_at = {place[c] for c in instance.consumers[p]}
        reads += instance.output_B[p] * (place[p] == BEFORE and INSIDE in used_at)
        writes += instance.output_B[p] * (place[p] == INSIDE and AFTER in used_at)
    if alone:
        # what the other pass reads waits in memory
        for p in range(instance.kernels):
            if any(instance.forward[c] != instance.forward[p] for c in instance.consumers[p]):
                reads += instance.output_B[p]
                writes += instance.output_B[p]
    for i in members(place):
        if not alone and not instance.gradient[i]:
            reads += instance.output_B[i] * (not instance.producers[i])
            writes += instance.output_B[i] * (not instance.consumers[i])
    return reads, writes


def tiled_B(instance: Instance, weight_B: float, reads_B: float, writes_B: float) -> float:
    """Tensor traffic of a kernel alone in its partition: weights that do not fit are worked through in parts."""
    parts = max(1, math.ceil(weight_B / instance.sram_B))
    if instance.tiling == "repeats_traffic":
        return (reads_B + writes_B) * parts
    if instance.tiling == "least_traffic":
        input_parts = max(1, math.ceil(reads_B / instance.sram_B))
        return reads_B + writes_B + min((parts - 1) * reads_B, (input_parts - 1) * weight_B)
    return reads_B + writes_B


def memory_B(instance: Instance, place: Sequence[int], alone: bool) -> float:
    """All bytes that a partition moves to and from memory."""
    inside = members(place)
    weights_B = sum(instance.weight_B[i] for i in inside)
    gradients_B = sum(instance.gradient_B[i] for i in inside)
    reads_B, writes_B = moved_B(instance, place, alone)
    traffic_B = reads_B + writes_B
    if len(inside) == 1 and weights_B > instance.sram_B:
        traffic_B = tiled_B(instance, weights_B, reads_B, writes_B)
    traffic_B += sum(instance.dram_B[i] for i in inside)
    if alone and sram_need_B(instance, place) + (gradients_B if instance.gradient_moves else 0.0) <= instance.sram_B:
        return traffic_B  # weights and gradients stay on the chip
    return traffic_B + instance.weight_reads * weights_B + instance.gradient_moves * gradients_B


def sram_need_B(instance: Instance, place: Sequence[int]) -> float:
    """Weights and buffers of a partition."""
    need = sum(instance.weight_B[i] for i in members(place))
    if not instance.per_tensor:
        for p, c in instance.edges:
            ends_inside = (place[p] == INSIDE) + (place[c] == INSIDE)
            need += instance.tile_B[p] * (0, 2, c - p + 1)[ends_inside]
        return need
    for p, consumers in enumerate(instance.consumers):
        inside = [c for c in consumers if place[c] == INSIDE]
        if place[p] == INSIDE:
            depths = [c - p + 1 for c in inside] + [2] * (len(inside) < len(consumers))
            need += instance.tile_B[p] * max(depths, default=0)
        elif inside:
            need += instance.tile_B[p] * 2
    return need


def live_B(instance: Instance, place: Sequence[int]) -> float:
    """Bytes that are kept between partitions while this one runs.

    Ends in different partitions are ends with different places, as at least one end would be in this partition.
    """
    if not instance.per_tensor:
        return sum(instance.output_B[p] for p, c in instance.edges if place[p] <= INSIDE <= place[c] != place[p])
    live = 0.0
    for p in range(instance.kernels):
        same_kind = [place[c] for c in instance.consumers[p] if instance.forward[c] == instance.forward[p]]
        last = max(same_kind, default=place[p])
        live += instance.output_B[p] * (place[p] <= INSIDE <= last != place[p])
    return live


def feasible(instance: Instance, place: Sequence[int]) -> bool:
    """Whether a partition keeps within compute units, SRAM and the memory for live tensors."""
    size = len(members(place))
    fits = size == 1 or sram_need_B(instance, place) <= instance.sram_B
    return fits and size <= instance.units and live_B(instance, place) <= instance.live_budget_B


def partition_s(instance: Instance, place: Sequence[int], alone: bool) -> float:
    """Time of a partition; inf if it is not feasible."""
    if not feasible(instance, place):
        return math.inf
    compute, network, column, row = (
        sum(seconds[i] for i in members(place))
        for seconds in (instance.flops_s, instance.network_s, instance.column_s, instance.row_s)
    )
    if instance.alone_s and len(members(place)) == 1:
        compute = instance.alone_s[members(place)[0]]
    memory, sent = memory_B(instance, place, alone) / instance.bandwidth_Bps, network + max(column, row)
    time = max(compute, memory, sent) if instance.overlap else compute + memory + sent
    if instance.overlap and instance.streamed and len(members(place)) == 1:
        time = max(compute, memory) + sent
    return time + (0.0 if alone else instance.reconfiguration_s)


# all partitions


def ordered(instance: Instance, assignment: Sequence[int]) -> bool:
    """Whether partitions are numbered without gaps, follow the edges, and keep forward kernels apart and first."""
    partitions = max(assignment) + 1
    if set(assignment) != set(range(partitions)) or any(assignment[p] > assignment[c] for p, c in instance.edges):
        return False
    last_forward = max((k for k, forward in zip(assignment, instance.forward) if forward), default=-1)
    first_other = min((k for k, forward in zip(assignment, instance.forward) if not forward), default=partitions)
    return partitions == 1 or last_forward < first_other


def evaluate(instance: Instance, assignment: Sequence[int]) -> float:
    """Time of a given mapping, s; inf if it is not feasible."""
    if not ordered(instance, assignment):
        return math.inf
    partitions = max(assignment) + 1
    return sum(
        partition_s(instance, [(own > k) - (own < k) for own in assignment], alone=partitions == 1)
        for k in range(partitions)
    )


def lower_bound(instance: Instance) -> float:
    """No mapping is faster than its compute alone or its network alone, s."""
    network = sum(instance.network_s) + max(sum(instance.column_s), sum(instance.row_s))
    return max(sum(instance.flops_s), network)


def single(instance: Instance) -> Optimum:
    """Everything in one partition."""
    together = (0,) * instance.kernels
    time = evaluate(instance, together)
    return Optimum(time, together) if time < math.inf else INFEASIBLE


# enumeration


def assignments(instance: Instance, partitions: int) -> Iterator[tuple[int, ...]]:
    """All maps of kernels to that many partitions that follow the edges."""

    def extend(begun: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(begun) == instance.kernels:
            yield begun
            return
        first = max((begun[p] for p in instance.producers[len(begun)]), default=0)
        for k in range(first, partitions):
            yield from extend((*begun, k))

    return extend(())


def exhaustive(instance: Instance, most_partitions: int | None = None) -> Optimum:
    """The best of all mappings, each evaluated as a whole: for up to 6 kernels."""
    best = INFEASIBLE
    for partitions in range(1, (most_partitions or instance.kernels) + 1):
        for assignment in assignments(instance, partitions):
            time = evaluate(instance, assignment)
            if time < best.time_s:
                best = Optimum(time, assignment)
    return best


def order_ideals(instance: Instance) -> list[int]:
    """Sets of kernels (bit masks) that contain the producers of all their kernels, ascending."""
    found = {0}
    frontier = [0]
    while frontier:
        ideal = frontier.pop()
        for i in range(instance.kernels):
            larger = ideal | 1 << i
            if larger not in found and all(ideal >> p & 1 for p in instance.producers[i]):
                found.add(larger)
                frontier.append(larger)
    return sorted(found)


def step_s(instance: Instance, before: int, until: int) -> float:
    """Time of the partition between two ideals, one of several; inf if it is not feasible."""
    place = [BEFORE if before >> i & 1 else INSIDE if until >> i & 1 else AFTER for i in range(instance.kernels)]
    kinds = {instance.forward[i] for i in members(place)}
    forward_left = any(instance.forward[i] for i in range(instance.kernels) if place[i] != BEFORE)
    if len(kinds) > 1 or (kinds == {False} and forward_left):
        return math.inf
    return partition_s(instance, place, alone=False)


def brute_force(instance: Instance, most_partitions: int | None = None) -> Optimum:
    """The best path through the order ideals, all steps between them: for up to about 10 kernels."""
    ideals = order_ideals(instance)
    everything = ideals[-1]
    steps: dict[int, list[tuple[int, float]]] = {}
    for before in ideals:
        pairs = ((until, step_s(instance, before, until)) for until in ideals if until > before == until & before)
        steps[before] = [(until, time) for until, time in pairs if time < math.inf]
    best = single(instance)
    reached: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}  # ideal: time, ideals on the way
    for _ in range(most_partitions or instance.kernels):
        following: dict[int, tuple[float, tuple[int, ...]]] = {}
        for before, (time, path) in reached.items():
            for until, added in steps[before]:
                if until not in following or time + added < following[until][0]:
                    following[until] = (time + added, (*path, until))
        reached = following
        time, path = reached.get(everything, (math.inf, ()))
        if len(path) > 1 and time < best.time_s:
            partition = [sum(not ideal >> i & 1 for ideal in path) for i in range(instance.kernels)]
            best = Optimum(time, tuple(partition))
    return best


# mixed integer program

Linear = dict[int, float]  # variable: coefficient
Edge = tuple[int, int]


def total(*terms: tuple[float, Linear]) -> Linear:
    """Weighted sum of linear expressions."""
    result: Linear = {}
    for weight, expression in terms:
        for variable, coefficient in expression.items():
            result[variable] = result.get(variable, 0.0) + weight * coefficient
    return result


class Program:
    """Variables, rows and an objective, collected for HiGHS."""

    def __init__(self) -> None:
        self.bounds: list[tuple[float, float]] = []
        self.integral: list[bool] = []
        self.rows: list[tuple[Linear, float]] = []  # expression <= number

    def variable(self, lower: float = 0.0, upper: float = math.inf, integral: bool = False) -> Linear:
        self.bounds.append((lower, upper))
        self.integral.append(integral)
        return {len(self.bounds) - 1: 1.0}

    def at_most(self, expression: Linear, limit: float) -> None:
        self.rows.append((expression, limit))

    def below(self, smaller: Linear, larger: Linear) -> None:
        self.rows.append((total((1, smaller), (-1, larger)), 0.0))

    def minimise(self, objective: Linear) -> np.ndarray | None:
        """Values of the variables at the optimum; None if the program is infeasible."""
        entries = [(value, row, column) for row, (terms, _) in enumerate(self.rows) for column, value in terms.items()]
        values, rows, columns = zip(*entries)
        cost = np.zeros(len(self.bounds))
        cost[list(objective)] = list(objective.values())
        result = milp(
            cost,
            integrality=np.array(self.integral, int),
            bounds=Bounds(*np.array(self.bounds).T),
            constraints=LinearConstraint(
                csr_array((values, (rows, columns)), shape=(len(self.rows), len(self.bounds))),
                ub=[limit for _, limit in self.rows],
            ),
            options={"mip_rel_gap": 0.0},
        )
        if result.status not in (0, 2):  # neither optimal nor infeasible
            raise RuntimeError(result.message)
        return result.x


class Part(NamedTuple):
    """What is said of one partition, as expressions that are 0 or 1."""

    earlier: list[Linear]  # of each kernel: it is in a partition before this one
    reached: list[Linear]  # it is in a partition before this one or in this one
    own: list[Linear]  # it is in this one
    both: dict[Edge, Linear]  # both ends of an edge are in this one


class Flows(NamedTuple):
    """What the tensors ask of one partition, B."""

    moved: Linear
    buffers: Linear
    live: Linear


def ordered_parts(model: Program, instance: Instance, most: int) -> list[Part]:
    """Partitions that follow the edges, forward kernels before others.

    `until[k][i]` is 1 if kernel i is in one of the first k partitions.
    """
    n = instance.kernels
    until = [[model.variable(upper=min(k, 1.0), integral=True) for _ in range(n)] for k in range(most)]
    until.append([model.variable(lower=1.0, upper=1.0) for _ in range(n)])
    parts = []
    for earlier, reached in pairwise(until):
        own = [total((1, reached[i]), (-1, earlier[i])) for i in range(n)]
        both = {edge: model.variable(upper=1.0) for edge in instance.edges}
        forward_done = model.variable(upper=1.0)
        for i in range(n):
            model.below(earlier[i], reached[i])
            if instance.forward[i]:
                model.below(forward_done, earlier[i])
            else:
                model.below(reached[i], forward_done)
        for (p, c), together in both.items():
            model.below(reached[c], reached[p])
            model.below(together, own[p])
            model.below(together, own[c])
            model.at_most(total((1, own[p]), (1, own[c]), (-1, together)), 1.0)
        parts.append(Part(earlier, reached, own, both))
    return parts


def used_parts(model: Program, parts: Sequence[Part]) -> list[Linear]:
    """Of each partition, 1 if it has kernels; empty ones come last."""
    used = [model.variable(upper=1.0) for _ in parts]
    for part, one in zip(parts, used):
        model.below(one, total(*((1, own) for own in part.own)))
        for own in part.own:
            model.below(own, one)
    for one, following in pairwise(used):
        model.below(following, one)
    return used


def edge_flows(instance: Instance, part: Part) -> Flows:
    """Each edge is a tensor of its own."""
    moved, buffers, live = [], [], []
    for p, c in instance.edges:
        output, tile, both = instance.output_B[p], instance.tile_B[p], part.both[p, c]
        cut = total((1, part.own[p]), (1, part.own[c]), (-2, both))
        moved.append((output, cut))
        buffers += [(2 * tile, cut), ((c - p + 1) * tile, both)]
        live.append((output, total((1, part.reached[p]), (-1, part.earlier[c]), (-1, both))))
    return Flows(total(*moved), total(*buffers), total(*live))


def tensor_flows(model: Program, instance: Instance, part: Part) -> Flows:
    """Each output is one tensor, whatever the number of its consumers. The variables are no less than the truth."""
    moved, buffers, live = [], [], []
    for p, consumers in enumerate(instance.consumers):
        output, tile = instance.output_B[p], instance.tile_B[p]
        read, written, alive, depth = (model.variable() for _ in range(4))
        model.below(total((2, written)), depth)
        for c in consumers:
            both = part.both[p, c]
            model.below(total((1, part.own[c]), (-1, both)), read)
            model.below(total((1, part.own[p]), (-1, both)), written)
            model.below(total((c - p + 1, both)), depth)
            if instance.forward[c] == instance.forward[p]:
                model.below(total((1, part.reached[p]), (-1, part.earlier[c]), (-1, both)), alive)
        moved += [(output, read), (output, written)]
        buffers += [(2 * tile, read), (tile, depth)]
        live.append((output, alive))
    return Flows(total(*moved), total(*buffers), total(*live))


def alone_place(instance: Instance, kernel: int) -> list[int]:
    """Places seen from a partition of this kernel only; what it moves and needs does not depend on the others."""
    return [(i > kernel) - (i < kernel) for i in range(instance.kernels)]


def fixed_B(instance: Instance, kernel: int) -> float:
    """Memory traffic of a kernel that is the same in every partition, if there are two or more.

    The traffic of tiling is among it: a kernel whose weights exceed the SRAM is always alone, so its tensors are
    all read from and written to memory.
    """
    fixed = instance.dram_B[kernel] + instance.weight_reads * instance.weight_B[kernel]
    fixed += instance.gradient_moves * instance.gradient_B[kernel]
    if instance.per_tensor and not instance.gradient[kernel]:
        fixed += instance.output_B[kernel] * ((not instance.producers[kernel]) + (not instance.consumers[kernel]))
    if instance.weight_B[kernel] > instance.sram_B:
        reads_B, writes_B = moved_B(instance, alone_place(instance, kernel), alone=False)
        fixed += tiled_B(instance, instance.weight_B[kernel], reads_B, writes_B) - reads_B - writes_B
    return fixed


def limits(model: Program, instance: Instance, part: Part, flows: Flows) -> None:
    """SRAM, compute units and live tensors.

    A kernel that does not fit is alone: what a partition needs grows with its kernels, as an edge inside takes at
    least the two tiles of an edge that is cut. So the SRAM is exceeded by as much as that kernel does, or not at all.
    """
    model.at_most(total(*((1, own) for own in part.own)), instance.units)
    if instance.live_budget_B < math.inf:
        model.at_most(flows.live, instance.live_budget_B)
    need = [(1, flows.buffers), *zip(instance.weight_B, part.own)]
    for i, own in enumerate(part.own):
        excess = sram_need_B(instance, alone_place(instance, i)) - instance.sram_B
        if excess > 0:
            need.append((-excess, own))
            for other in part.own[:i] + part.own[i + 1 :]:
                model.at_most(total((1, own), (1, other)), 1.0)
    model.at_most(total(*need), instance.sram_B)


def time_of(model: Program, instance: Instance, part: Part, flows: Flows) -> Linear:
    """Time of a partition without its reconfiguration, s."""
    compute = total(*zip(instance.flops_s, part.own))
    fixed = total(*((fixed_B(instance, i), own) for i, own in enumerate(part.own)))
    memory = total((1 / instance.bandwidth_Bps, flows.moved), (1 / instance.bandwidth_Bps, fixed))
    network, time = model.variable(), model.variable()
    for direction in (instance.column_s, instance.row_s):
        model.below(total(*zip(instance.network_s, part.own), *zip(direction, part.own)), network)
    parts = [compute, memory, network]
    for bound in parts if instance.overlap else [total(*((1, part) for part in parts))]:
        model.below(bound, time)
    return time


def solve_mip(instance: Instance, most_partitions: int | None = None) -> Optimum:
    """The best mapping by mixed integer programming with HiGHS, a prefix formulation.

    Fast (a second) for up to 20 kernels in at most 6 partitions; without that limit, for up to 10 kernels.
    Everything in one partition, which has rules of its own, is evaluated apart. As one of several it would cost at
    least as much, so the program need not exclude it. The answer is evaluated again; a difference is an error.
    """
    model = Program()
    parts = ordered_parts(model, instance, min(most_partitions or instance.kernels, instance.kernels))
    objective = total(*((instance.reconfiguration_s, used) for used in used_parts(model, parts)))
    for part in parts:
        flows = tensor_flows(model, instance, part) if instance.per_tensor else edge_flows(instance, part)
        limits(model, instance, part, flows)
        objective = total((1, objective), (1, time_of(model, instance, part, flows)))
    solution = model.minimise(objective)
    if solution is None:
        return single(instance)

    def value(expression: Linear) -> float:
        return sum(coefficient * solution[variable] for variable, coefficient in expression.items())

    assignment = tuple(sum(round(value(part.earlier[i])) == 0 for part in parts) - 1 for i in range(instance.kernels))
    used = sorted(set(assignment))
    assignment = tuple(used.index(k) for k in assignment)
    time = evaluate(instance, assignment)
    if len(used) > 1 and not math.isclose(time, value(objective), rel_tol=1e-6):
        raise RuntimeError(f"HiGHS says {value(objective)} s for {assignment}, which takes {time} s")
    return min(single(instance), Optimum(time, assignment))


# random instances

Choose = Callable[[Sequence[Any]], Any]


def arbitrary(choose: Choose, kernels: int) -> Instance:
    """An instance, each of its properties taken by `choose` from a sequence of possible values."""

    def numbers(values: Sequence[float], scale: float = 1.0) -> tuple[float, ...]:
        return tuple(choose(values) * scale for _ in range(kernels))

    kind = choose(("inference", "training", "interleaved"))
    forwards = {"inference": kernels, "training": choose(range(kernels + 1)), "interleaved": 0}[kind]
    forward = tuple(i < forwards or (kind == "interleaved" and choose((True, False))) for i in range(kernels))
    edges = []
    for c in range(1, kernels):
        earlier = [p for p in range(c) if forward[p] or not forward[c]]
        for _ in range(choose((1, 1, 2, 0, 3)) if earlier else 0):
            edges.append((choose(earlier[-4:] if choose((True, True, False)) else earlier), c))
    trains = choose((False, True))
    return Instance(
        flops_s=numbers(range(65), 1 / 8),
        network_s=numbers((0, 0, 0, 10, 30), 1 / 8),
        column_s=numbers((0, 0, 9, 24), 1 / 8),
        row_s=numbers((0, 0, 12, 20), 1 / 8),
        dram_B=numbers((0.0, 0.0, 0.0, 16.0)),
        weight_B=numbers((0.0, 0.0, 4.0, 8.0, 24.0, 50.0)),
        gradient_B=numbers((0.0, 0.0, 10.0) if trains else (0.0,)),
        output_B=numbers(range(17), 1.0),
        forward=forward,
        gradient=tuple(not own and choose((False, False, True)) for own in forward),
        edges=tuple(sorted(edges)),
        bandwidth_Bps=choose((2.0, 4.0, 8.0, 32.0)),
        sram_B=choose((1e9, 200.0, 100.0, 60.0, 40.0, 20.0, 5.0)),
        units=choose((kernels, 1000, 5, 4, 3, 2, 1)),
        tiles=choose((1, 2, 4)),
        overlap=choose((True, False)),
        per_tensor=choose((True, False)),
        weight_reads=choose((0.0, 0.25, 1.0, 2.0)),
        gradient_moves=choose((0, 1, 2)),
        reconfiguration_s=choose((0.0, 0.5, 4.0)),
        live_budget_B=choose((math.inf, math.inf, 6.0 * kernels, 4.0 * kernels)),
        tiling=choose(TILINGS),
    )


def random_instance(rng: np.random.Generator, kernels: int, **settings: Any) -> Instance:
    """A random instance; settings replace fields of it."""
    return replace(arbitrary(lambda values: values[int(rng.integers(len(values)))], kernels), **settings)


@st.composite
def instances(draw: st.DrawFn, most_kernels: int = 9, **settings: Any) -> Instance:
    """Instances of 1 to `most_kernels` kernels; settings replace fields of them."""
    chosen = arbitrary(lambda values: draw(st.sampled_from(values)), draw(st.integers(1, most_kernels)))
    return replace(chosen, **settings)


@st.composite
def streams(draw: st.DrawFn, most_kernels: int = 7) -> Instance:
    """Instances whose kernels are slower alone than among others, and wait there for their messages."""
    chosen = draw(instances(most_kernels, overlap=True, streamed=draw(st.booleans())))
    longer = [draw(st.sampled_from([1.0, 1.0, 1.5, 3.0])) for _ in range(chosen.kernels)]
    return replace(chosen, alone_s=tuple(own * more for own, more in zip(chosen.flops_s, longer)))


def medium_instance(rng: np.random.Generator) -> tuple[Instance, int]:
    """12 to 20 kernels and a number of partitions, 4 to 6, with which most are feasible: for `solve_mip`."""
    kernels, partitions = int(rng.integers(12, 21)), int(rng.integers(4, 7))
    chosen = random_instance(rng, kernels)
    share = -(-kernels // partitions)
    bytes_B = (sum(chosen.weight_B) + 2 * sum(chosen.tile_B)) / partitions
    limited = replace(
        chosen,
        units=int(rng.choice([share + 2, share + 4, kernels])),
        sram_B=float(round(rng.choice([1.5, 2.0, 3.0]) * bytes_B)),
        live_budget_B=float(rng.choice([math.inf, math.inf, 8.0 * kernels])),
    )
    return limited, partitions
