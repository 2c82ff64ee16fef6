"""What a partition asks of its units again, in plain Python: written from `sweeper.placing.cutting`, piece by piece.

Every piece of an operator is listed with what it reads and makes; demands are the greatest of these over the time of
the slowest operator at the peak of its units.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from sweeper.kernels.codes import KERNEL_TYPES
from sweeper.kernels.shared.demand import DEMANDS, HIDDEN
from tests.twins.naive import BY_PARTITION, FOR_EQUATION, SPECIAL, Outputs, tables, twin

TOKENS = 64
"""Tokens that pass together, at most."""
BURSTS = 64
"""Bursts of a sample."""


@dataclass(frozen=True)
class Unit:
    """A compute unit, a vector, and a memory unit of a fabric."""

    lanes: int
    stages: int
    vector: int
    accumulator: float
    memory_words: float


@dataclass(frozen=True)
class Operator:
    """A product, or what works on vectors (`inner` 0), and its pieces along rows, columns and the inner dimension."""

    rows: int
    columns: int
    inner: int
    cycles: float
    streamed: bool
    by: tuple[int, int, int] = (1, 1, 1)

    @property
    def pieces(self) -> int:
        return math.prod(self.by)

    def alone(self, unit: Unit) -> float:
        """Cycles on one unit at its peak."""
        if self.inner:
            return self.rows * self.columns * self.inner / (unit.lanes * unit.stages)
        return self.rows * self.columns * self.cycles / unit.vector

    def loads(self, unit: Unit) -> dict[str, float]:
        """Of the largest piece."""
        rows, columns, inner = (-(-size // by) for size, by in zip((self.rows, self.columns, self.inner), self.by))
        made = rows * -(-columns // unit.vector)
        if not self.inner:
            return {"busy": self.cycles * made, "entering": made, "left": made, "right": 0, "result": made}
        passes = -(-columns // unit.stages)
        left, right = passes * rows * -(-inner // unit.vector), inner * columns / unit.vector
        return {
            "busy": passes * -(-inner // unit.lanes) * max(rows, unit.stages),
            "entering": left + right,
            "left": left / math.ceil(2 * rows * inner / unit.memory_words),
            "right": right / math.ceil((2 if self.streamed else 1) * inner * columns / unit.memory_words),
            "result": made * (unit.accumulator if self.by[2] > 1 else 1),
        }


def unit_of(sites: dict[str, float]) -> Unit:
    vector = int(sites["vector_B"] // sites["word_B"])
    words = sites["memory_capacity_B"] / sites["word_B"]
    return Unit(int(sites["compute_lanes"]), int(sites["compute_stages"]), vector, sites["accumulator"], words)


def asked(operators: Sequence[Operator], sites: dict[str, float]) -> dict[str, float]:
    """Demands of operators that are cut."""
    unit = unit_of(sites)
    units = sum(each.pieces for each in operators)
    bound = max(each.alone(unit) / each.pieces for each in operators)
    loads = [each.loads(unit) for each in operators]
    most = {name: max(load[name] for load in loads) / bound for name in loads[0]}
    readers = [each.by[1] if each.inner and not each.streamed else 1 for each in operators]
    way = math.sqrt(2 * units)
    lanes = sum(
        each.pieces * (load["left"] * (1 + way / many) + load["right"] + load["result"] * way)
        for each, load, many in zip(operators, loads, readers)
    )
    return {
        "pieces": math.log2(units),
        "filled": units / (sites["rows"] * sites["columns"] / 2),
        "operators": math.log2(len(operators)),
        **most,
        "entering": most["entering"] / sites["ports"],
        "lane_load": lanes / (8 * units * sites["lanes"] * bound),
        "latency": BURSTS * way * sites["hop_cycles"] / (sites["input_bursts"] * bound),
        "fan_out": math.log2(max(readers)),
        "streamed": sum(each.pieces for each in operators if each.streamed) / units,
        "sums": math.log2(max(each.by[2] for each in operators)),
        "piece_rows": math.log2(min(-(-each.rows // each.by[0]) for each in operators)),
        **{name: sites[name] for name in ("lanes", "ports", "hop_cycles", "queue_bursts", "input_bursts")},
    }


def shared_out(work: Sequence[float], units: int) -> list[int]:
    """Units of each so that the slowest takes least: of all times that some number of units gives, the least that
    suffices for all."""

    def needed(cycles: float) -> list[int]:
        return [max(1, math.ceil(each / cycles - 1e-7)) for each in work]

    times = sorted({each / count for each in work for count in range(1, units + 1)})
    return next((needed(cycles) for cycles in times if sum(needed(cycles)) <= units), [1] * len(work))


def with_pieces(operator: Operator, many: int, unit: Unit) -> Operator:
    """Cut by columns, then along the inner dimension, then by rows."""
    width = unit.stages if operator.inner else unit.vector
    by_columns = min(many, math.ceil(operator.columns / width))
    by_inner = min(many // by_columns, math.ceil(operator.inner / unit.lanes)) if operator.inner else 1
    by_rows = min(many // (by_columns * by_inner), operator.rows)
    return Operator(
        operator.rows, operator.columns, operator.inner, operator.cycles, operator.streamed,
        (by_rows, by_columns, by_inner),
    )  # fmt: skip


def samples(given: dict[str, Any]) -> Iterator[Operator]:
    """Kernels on one sample of as many tokens as go together."""
    tokens = max(shape[2] for shape in given["kernel_shapes"])
    together = min(TOKENS, tokens)
    for shape, traits in zip(given["kernel_shapes"], given["kernel_traits"]):
        vectors = KERNEL_TYPES[traits[0]] in ("elementwise", "scan", "gather")
        rows = min(together, shape[2])
        columns = math.ceil(shape[0] * (shape[2] / tokens) * (together / rows))
        cycles = given["fabric_activation_cycles"] if vectors else 0.0
        streamed = not vectors and not traits[2]
        yield Operator(int(rows), columns, 0 if vectors else int(shape[1]), cycles, streamed)


@twin
def partition_demands(**given: Any) -> Outputs:
    sites = {name.removeprefix("fabric_"): value for name, value in given.items() if name.startswith("fabric_")}
    unit, operators = unit_of(sites), list(samples(given))
    rows = []
    for p in range(max(given["partition_of"]) + 1):
        members = [each for each, part in zip(operators, given["partition_of"]) if part == p]
        units = shared_out([each.alone(unit) for each in members], int(sites["rows"] * sites["columns"] // 2))
        cut = [with_pieces(each, many, unit) for each, many in zip(members, units)]
        found = asked(cut, sites) if cut else dict.fromkeys(DEMANDS, 0.0)
        rows.append([found[name] for name in DEMANDS])
    return {"partition_demands": rows}


@twin
def ideal_share(**given: Any) -> Outputs:
    return {"partition_share": [1.0], "unit_placement_known": 1.0}


@twin
def share_of_rules(partition_demands: list[list[float]]) -> Outputs:
    return {"partition_share": [by_rules(row) for row in partition_demands], "unit_placement_known": 1.0}


def by_rules(row: Sequence[float]) -> float:
    """The busiest of a unit, its ports, the lanes and the ways."""
    asked = dict(zip(DEMANDS, row))
    return 1.0 / max(1.0, *(asked[name] for name in ("busy", "entering", "lane_load", "latency")))


@twin
def share_of_model(**given: Any) -> Outputs:
    ranges = given["unit_model_ranges"]
    shares, known = [], True
    for row in given["partition_demands"]:
        inside = [min(max(value, low), high) for value, (low, high) in zip(row, ranges)]
        known &= inside == row or not any(row)
        layer = [math.tanh(sum(w * x for w, x in zip(node, inside)) + node[-1]) for node in given["unit_model_hidden"]]
        beyond = sum(w * x for w, x in zip(given["unit_model_last"], layer)) + given["unit_model_last"][-1]
        busy = row[DEMANDS.index("busy")]
        shares.append(min(by_rules(row) * math.exp(beyond), 1.0 / max(1.0, busy)))
    return {"partition_share": shares, "unit_placement_known": float(known)}


@twin
def unit_share(partition_compute_s: list[float], partition_share: list[float]) -> Outputs:
    placed = sum(time / share for time, share in zip(partition_compute_s, partition_share))
    return {"unit_share": sum(partition_compute_s) / placed if placed else 1.0}


AMOUNTS = st.one_of(st.just(0.0), st.floats(0.01, 8.0))
BY_PARTITION["partition_demands"] = lambda rows: st.one_of(
    tables(rows, *[AMOUNTS] * len(DEMANDS)), tables(rows, *[st.just(0.0)] * len(DEMANDS))
)
WEIGHTS = st.floats(-1.0, 1.0)
SPECIAL["unit_model_ranges"] = tables(len(DEMANDS), st.floats(0.0, 1.0), st.floats(1.0, 9.0))
SPECIAL["unit_model_hidden"] = tables(HIDDEN, *[WEIGHTS] * (len(DEMANDS) + 1))
SPECIAL["unit_model_last"] = tables(HIDDEN + 1, WEIGHTS)
FOR_EQUATION["partition_demands"] = st.fixed_dictionaries(
    {
        **{f"fabric_{name}": st.integers(1, 6).map(float) for name in ("lanes", "ports", "hop_cycles")},
        **{f"fabric_{name}": st.integers(1, 6).map(float) for name in ("queue_bursts", "input_bursts")},
        "fabric_rows": st.sampled_from([2.0, 3.0, 8.0]),
        "fabric_columns": st.sampled_from([2.0, 5.0, 8.0]),
        "fabric_word_B": st.sampled_from([1.0, 2.0, 4.0]),
        "fabric_vector_B": st.sampled_from([4.0, 7.0, 64.0]),
        "fabric_compute_lanes": st.sampled_from([1.0, 4.0, 32.0]),
        "fabric_compute_stages": st.sampled_from([1.0, 6.0]),
        "fabric_accumulator": st.sampled_from([1.0, 2.0]),
        "fabric_activation_cycles": st.sampled_from([0.5, 1.0, 3.0]),
        "fabric_memory_capacity_B": st.sampled_from([64.0, 4096.0, 2.0**19]),
    }
)
