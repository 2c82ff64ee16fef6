"""What a study chooses among: its axes, those together that only change together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeper.library.uncertain import DRAW
from sweeper.study.output import BANDS, OPTIMIZED, SEARCHING
from sweeper.words.columns import engine_column

REDUCING = (*SEARCHING, BANDS, OPTIMIZED)
"""Modes that keep rows for some values of a searched axis only."""


@dataclass(frozen=True)
class Choice:
    """Axes of a dataset whose values go together. `compared`: whether the rows have the best of each of their values;
    where a search kept its winner, the others are not known. `said`: whether the study gives them several values."""

    axes: tuple[str, ...]
    compared: bool = True
    said: bool = False

    @property
    def name(self) -> str:
        """What it is called."""
        return " + ".join(self.axes)


def choices(study: Mapping[str, Any], axes: Sequence[str]) -> list[Choice]:
    """The choices of a resolved study among the axes of its dataset, in their order; draws are none.

    Axes that stand in one table change together, and so do those that differ between parts of a study (its boxes) but
    not within any of them.
    """
    groups: list[set[str]] = []
    searched: set[str] = set()
    for box in study["boxes"]:
        for *names, how, rows in box:
            own = {engine_column(name) for name in names} & {*axes}
            if len(rows) < 2 or not own:
                continue
            searched |= own if how == "searched" else set()
            apart = [group for group in groups if not group & own]
            groups = [*apart, own.union(*(group for group in groups if group & own))]
    said = set().union(*groups)
    between = {axis for axis in axes if axis not in said}
    reduces = study["output"][0] in REDUCING
    found = [
        Choice(tuple(axis for axis in axes if axis in group), not (reduces and group & searched), group != between)
        for group in [*groups, between]
        if group and group != {DRAW}
    ]
    return sorted(found, key=lambda choice: axes.index(choice.axes[0]))
