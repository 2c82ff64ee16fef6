"""A number that the vocabulary knows: unit, name, meaning and what is possible."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import overload

import numpy as np

from sweeper.words.ranges import BY_UNIT, ONE, SHARE, Range

RATES = {"B/s": "Bps", "b/s": "bps", "flop/s": "flops"}
"""Units that names of columns abbreviate."""


@dataclass(frozen=True)
class Attribute:
    """A number that a library entry or a study may give.

    `unit` is a pint unit in SI; `default` is None when the number must be given, NaN when nothing stands in for it.
    `limits` are the least and the largest possible value, those of the unit unless it says others; numbers that are not
    `positive` may be 0 besides. `column` is the suffix of the engine's column.
    """

    unit: str
    about: str
    default: float | None = None
    limits: Range | None = None
    positive: bool = True
    integer: bool = False
    column: str = ""

    def __post_init__(self) -> None:
        if self.limits is None and self.unit not in BY_UNIT:
            raise ValueError(f"{self.about!r} has no unit that tells its limits; say limits=(least, largest)")
        low, high = self.range
        if not 0.0 < low <= high < math.inf:
            raise ValueError(f"{self.about!r} needs limits above 0 and below infinity, the less first; free() allows 0")
        if self.default is not None and not (math.isnan(self.default) or self.allows(self.default)):
            raise ValueError(f"the default of {self.about!r} is not possible")

    @property
    def range(self) -> Range:
        """Least and largest possible value, besides 0 where that is allowed."""
        return BY_UNIT[self.unit] if self.limits is None else self.limits

    @overload
    def allows(self, number: float) -> bool: ...
    @overload
    def allows(self, number: np.ndarray) -> np.ndarray: ...
    def allows(self, number: float | np.ndarray) -> bool | np.ndarray:
        """Whether a number is possible, or each of several."""
        low, high = self.range
        inside = (low <= number) & (number <= high)
        inside = inside if self.positive else inside | (number == 0)
        return inside & (number == number // 1) if self.integer else inside


def free(
    unit: str, about: str, default: float | None = 0.0, column: str = "", limits: Range | None = None
) -> Attribute:
    """A number that may be 0."""
    return Attribute(unit, about, default, limits, positive=False, column=column)


def whole(about: str, limits: Range, default: float | None = None, column: str = "") -> Attribute:
    """A whole number of at least 1."""
    return Attribute("", about, default, limits, integer=True, column=column)


def fraction(about: str, default: float | None = 0.0, column: str = "") -> Attribute:
    """A number from 0 to 1."""
    return Attribute("", about, default, SHARE, positive=False, column=column)


def count(about: str, limits: Range, default: float | None = 0.0, column: str = "") -> Attribute:
    """A whole number that may be 0."""
    return Attribute("", about, default, limits, positive=False, integer=True, column=column)


def flag(about: str, default: float = 0.0) -> Attribute:
    """0 or 1."""
    return count(about, ONE, default)


def vocabulary(**attributes: Attribute) -> dict[str, Attribute]:
    """Attributes by name, each with its column: its name with its unit, unless it says another.

    >>> vocabulary(wire_rate=free("B/s", "rate of a wire"))["wire_rate"].column
    'wire_rate_Bps'
    """
    return {
        name: attribute if attribute.column else replace(attribute, column=f"{name}{ending(attribute.unit)}")
        for name, attribute in attributes.items()
    }


def repeated(parts: Iterable[str], attributes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """The same attributes of several parts, with the part before their names."""
    return {
        f"{part}_{name}": replace(attribute, column=attribute.column and f"{part}_{attribute.column}")
        for part in parts
        for name, attribute in attributes.items()
    }


def ending(unit: str) -> str:
    """A unit as the ending of a column: `_usd_per_mm2` for `usd/mm^2`."""
    for rate, short in RATES.items():
        unit = unit.replace(rate, short)
    ending = unit.translate(str.maketrans("", "", "()^")).replace("1/", "per_").replace("/", "_per_")
    return f"_{ending}" if ending else ""
