"""What a study optimizes: continuous columns beside its axes, how they are searched, and weights of its objectives."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations, pairwise
from math import comb
from typing import Any

from sweeper.errors import Problems, SpecError, unknown
from sweeper.reading import checks
from sweeper.reading.nodes import Node, error
from sweeper.words import ranges
from sweeper.words.attributes import free
from sweeper.words.chips import AREA_PARTS, EDGE_PARTS, SHARES
from sweeper.words.columns import input_column
from sweeper.words.system import GENERATED_FROM, OVERRIDES, STAND_INS

METHODS = ("portfolio", "global")
"""Descents and evolutions from many starts, or differential evolution."""

PARTS_OF = {"memory": "stack", "lane": "lane", "outer_lane": "outer_lane"}
"""Parts of a chip that exist only where a box fills a role."""
BUDGETS = {"area": AREA_PARTS, "power": AREA_PARTS, "edge": EDGE_PARTS}
"""Budgets of a template, and the parts that share each."""
SHARES_OF = {budget: tuple(f"template.{part}_{budget}_share" for part in parts) for budget, parts in BUDGETS.items()}
"""The columns of their shares."""

BOUNDS = {"starts": (1, 100_000), "steps": (1, 100_000), "seed": (0, 2**31 - 1), "candidates": (1, 10_000)}
"""Least and largest value of each number of a search."""
MOST_DIVISIONS, MOST_WEIGHTS = 1_000, 10_000

WEIGHT = free("", "weight of an objective", limits=ranges.WEIGHT)


@dataclass(frozen=True)
class Optimize:
    """A continuous search, done once for each combination of the swept axes.

    `shares` are shares of a template's budgets (None: all that the box has), `ranges` other columns with their least
    and largest value. The combinations of the searched axes that do best in short searches, `candidates` of them, are
    searched: `starts` starts, the best of many short ones, make `steps` steps more. `weights` has a row per wanted
    optimum and a weight per objective.
    """

    shares: tuple[str, ...] | None
    ranges: Mapping[str, tuple[float, float]]
    starts: int
    steps: int
    seed: int
    candidates: int
    method: str
    weights: tuple[tuple[float, ...], ...]

    def resolved(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {**{field.name: getattr(self, field.name) for field in fields(self)}, "ranges": dict(self.ranges)}

    def columns(self, named: Collection[str]) -> tuple[str, ...]:
        """Continuous columns of a box that names these columns: its axes win over the search."""
        allowed = shares_of(named)
        wanted = allowed if self.shares is None else self.shares
        shares = [name for name in wanted if name in allowed and name not in named]
        return (*shares, *(name for name in self.ranges if name not in named))


def shares_of(named: Collection[str]) -> list[str]:
    """Shares of the budgets of a generated chip that has what a box names."""
    return [
        f"template.{part}_{budget}_share"
        for budget, parts in BUDGETS.items()
        for part in parts
        if PARTS_OF.get(part, "template") in named
    ]


def lattice(objectives: int, divisions: int) -> tuple[tuple[float, ...], ...]:
    """Weights of several objectives, evenly spread: all multiples of 1/divisions that sum to 1 (Scheffé)."""
    cuts = combinations(range(divisions + objectives - 1), objectives - 1)
    bounds = [(-1, *cut, divisions + objectives - 1) for cut in cuts]
    return tuple(tuple((high - low - 1) / divisions for low, high in pairwise(bound)) for bound in bounds)


def read_optimize(node: Node, objectives: int) -> Optimize:
    """The key `optimize` of a study with so many objectives, at least one. Raises SpecError with all its mistakes."""
    written = checks.known_fields(node, "optimize", [field.name for field in fields(Optimize)] + ["front"], Problems())
    usual = usual_optimize(objectives)
    if "weights" in written and "front" in written:
        written.problems.append(node.key_problem("front", "front chooses weights; give one of the two"))
    front = written.read("front", _front, objectives, default=usual.weights)
    optimize = Optimize(
        written.read("shares", _shares, default=usual.shares),
        written.read("ranges", _ranges, default=usual.ranges),
        **{
            name: written.read(name, checks.whole, name, least, most, default=getattr(usual, name))
            for name, (least, most) in BOUNDS.items()
        },
        method=written.read("method", checks.choice, "method", METHODS, default=usual.method),
        weights=written.read("weights", _weights, objectives, default=front),
    )
    written.problems.raise_any()
    return optimize


def usual_optimize(objectives: int) -> Optimize:
    """What holds of a study with so many objectives that says nothing about its search."""
    return Optimize(None, {}, 10, 100, 0, 4, METHODS[0], ((1.0,) * objectives,))


def _front(node: Node, objectives: int) -> tuple[tuple[float, ...], ...]:
    """Weights that spread evenly over the front of the objectives."""
    divisions = checks.whole(node, "front", 1, MOST_DIVISIONS)
    rows = comb(divisions + objectives - 1, objectives - 1)
    if rows > MOST_WEIGHTS:
        raise error(node, f"{rows} rows of weights; at most {MOST_WEIGHTS}")
    return lattice(objectives, divisions)


def share_names() -> list[str]:
    """Columns of the shares of a generated chip's budgets."""
    return [f"template.{name}" for name in SHARES]


def ranged() -> list[str]:
    """Columns that may have a range: numbers of entries that are neither whole nor shares nor of what is named, nor the
    area of no part, which no search may spend."""
    shares = {*share_names(), "template.other_area_share"}
    return [
        name
        for name, attribute in OVERRIDES.items()
        if name.partition(".")[0] not in ("workload", "package") and name not in shares and not attribute.integer
    ]


def _shares(node: Node) -> tuple[str, ...]:
    allowed = share_names()
    items = checks.items(node, "shares") if node.value != () else ()
    return checks.distinct(items, lambda item: checks.choice(item, "share", allowed))


def _ranges(node: Node) -> dict[str, tuple[float, float]]:
    """Least and largest value of columns that replace a number of an entry."""
    allowed = ranged()
    ranges: dict[str, tuple[float, float]] = {}
    problems = Problems()
    for name, item in checks.mapping(node, "ranges").items():
        with problems.collecting():
            if name not in allowed:
                raise SpecError([node.key_problem(name, unknown("column with a range", name, allowed))])
            pair = checks.sized(item, "[least, largest]", 2, "values; need [least, largest]")
            low, high = (checks.number(end, OVERRIDES[name]) for end in pair)
            if not 0.0 < low < high:
                raise error(item, f"found {pair[0].text} and {pair[1].text}; need two numbers above 0, the less first")
            ranges[name] = (low, high)
    problems.raise_any()
    return ranges


def _weights(node: Node, objectives: int) -> tuple[tuple[float, ...], ...]:
    """Rows of weights, one for each optimum."""
    rows: list[tuple[float, ...]] = []
    for row in checks.items(node, "weights"):
        values = tuple(checks.number(item, WEIGHT) for item in checks.items(row, "weights of the objectives"))
        if len(values) != objectives or not any(values):
            raise error(row, f"found {len(values)} weights; need {objectives}, one per objective, not all of them 0")
        rows.append(values)
    return tuple(rows)


def design_columns(names: Sequence[str], named: Collection[str]) -> dict[str, int]:
    """Engine's columns that continuous columns give, each by the position of the one that gives it: a role that another
    fills, because the box does not name it nor what it is generated from, has the other's numbers, but for those that
    the box gives."""
    positions = {name: i for i, name in enumerate(names)}
    for absent, role in STAND_INS.items():
        if absent not in named and GENERATED_FROM.get(absent) not in named:
            same = {name.replace(f"{role}.", f"{absent}.", 1): i for name, i in positions.items()
                    if name.startswith(f"{role}.")}  # fmt: skip
            positions = {**{name: i for name, i in same.items() if name not in named}, **positions}
    return {input_column(name): i for name, i in positions.items()}


def budget_groups(columns: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Positions of the columns that share a budget, budget by budget, of the budgets that some share."""
    groups = (tuple(i for i, name in enumerate(columns) if name in shares) for shares in SHARES_OF.values())
    return tuple(group for group in groups if group)


def given_shares(columns: Collection[str], named: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """Of every such budget, shares of a chip that has what a box names which are not among these columns."""
    present = set(shares_of(named))
    return tuple(
        tuple(name for name in shares if name in present and name not in columns)
        for shares in SHARES_OF.values()
        if any(name in columns for name in shares)
    )
