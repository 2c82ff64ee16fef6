"""Numbers of one entry that its other numbers, or its words, leave without a reader, or make impossible together."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from sweeper.errors import Problem
from sweeper.reading.nodes import Node

Numbers = Mapping[str, float]
Words = Mapping[str, Node]


USUAL = "negative_binomial"
"""Model of yield of a node that names none."""


class Rule(NamedTuple):
    """Numbers of a kind of entry that are mistakes, other than 0, where something `holds` of its numbers and words."""

    kind: str
    keys: Sequence[str]
    holds: Callable[[Numbers, Words], bool]
    why: str


def _modelled_otherwise(model: str) -> Callable[[Numbers, Words], bool]:
    return lambda numbers, words: (words["yield_model"].text if "yield_model" in words else USUAL) != model


def _is_zero(key: str) -> Callable[[Numbers, Words], bool]:
    return lambda numbers, words: numbers.get(key) == 0.0


def _rim_is_all(numbers: Numbers, words: Words) -> bool:
    """Whether the rim of a wafer or panel leaves nothing of it."""
    sides = [numbers.get(key, math.nan) for key in ("panel_x", "panel_y")]
    return 2.0 * numbers["edge_exclusion"] >= (min(sides) if all(sides) else numbers.get("diameter", math.nan))


RULES = (
    Rule("node", ["critical_levels"], _modelled_otherwise("bose_einstein"), "only the model bose_einstein reads it"),
    Rule("node", ["clustering"], _modelled_otherwise("negative_binomial"), "only the model negative_binomial reads it"),
    Rule("wafer", ["panel_y"], _is_zero("panel_x"), "a panel has a panel_x, too"),
    Rule("wafer", ["panel_x"], _is_zero("panel_y"), "a panel has a panel_y, too"),
    Rule(
        "wafer",
        ["diameter"],
        lambda numbers, words: numbers.get("panel_x", 0.0) > 0.0,
        "a panel has none: nothing reads it",
    ),
    Rule("wafer", ["edge_exclusion"], _rim_is_all, "such a rim on both sides leaves nothing"),
    *(
        rule
        for test in ("self", "assembly")
        for rule in (
            Rule(
                "test",
                [f"{test}_{key}" for key in ("coverage", "patterns", "chain_length", "time")],
                _is_zero(f"{test}_tested"),
                f"{test}_tested is 0: nothing reads it",
            ),
            Rule("test", [f"{test}_patterns"], _is_zero(f"{test}_chain_length"), f"{test}_chain_length is 0"),
            Rule("test", [f"{test}_chain_length"], _is_zero(f"{test}_patterns"), f"{test}_patterns is 0"),
        )
    ),
)
"""What does not agree within an entry."""


class _Numbered(Protocol):
    @property
    def number(self) -> float: ...


def disagreements(
    kind: str, stated: Mapping[str, Node], values: Mapping[str, _Numbered], words: Words
) -> Iterator[Problem]:
    """Numbers that an entry itself states and that what holds of it, with what it inherits, leaves without a reader or
    makes impossible."""
    numbers = {key: value.number for key, value in values.items()}
    for rule in (rule for rule in RULES if rule.kind == kind):
        for key in (key for key in rule.keys if key in stated and numbers.get(key, 0.0) != 0.0):
            if rule.holds(numbers, words):
                yield stated[key].problem(f"found {stated[key].kind}; {rule.why}")
