"""A number that the vocabulary knows: unit, name, meaning and allowed range."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

RATES = {"B/s": "Bps", "b/s": "bps", "flop/s": "flops"}
"""Units that names of columns abbreviate."""


@dataclass(frozen=True)
class Attribute:
    """A number that a library entry or a study may give.

    `unit` is a pint unit in SI; `default` is None when the number must be given. Numbers are never negative, and not 0
    where `positive`; `maximum` is the largest allowed value. `column` is the suffix of the engine's column.
    """

    unit: str
    about: str
    default: float | None = None
    positive: bool = True
    integer: bool = False
    maximum: float = math.inf
    column: str = ""


def free(unit: str, about: str, default: float | None = 0.0, column: str = "") -> Attribute:
    """A number that may be 0."""
    return Attribute(unit, about, default, positive=False, column=column)


def whole(about: str, default: float | None = None, column: str = "") -> Attribute:
    """A whole number of at least 1."""
    return Attribute("", about, default, integer=True, column=column)


def fraction(about: str, default: float | None = 0.0, column: str = "") -> Attribute:
    """A number from 0 to 1."""
    return Attribute("", about, default, positive=False, maximum=1.0, column=column)


def flag(about: str, default: float = 0.0) -> Attribute:
    """0 or 1."""
    return Attribute("", about, default, positive=False, integer=True, maximum=1.0)


def vocabulary(**attributes: Attribute) -> dict[str, Attribute]:
    """Attributes by name, each with its column: its name with its unit, unless it says another.

    >>> vocabulary(wire_rate=free("B/s", "rate of a wire"))["wire_rate"].column
    'wire_rate_Bps'
    """
    return {
        name: attribute if attribute.column else replace(attribute, column=f"{name}{_ending(attribute.unit)}")
        for name, attribute in attributes.items()
    }


def repeated(parts: Iterable[str], attributes: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """The same attributes of several parts, with the part before their names."""
    return {
        f"{part}_{name}": replace(attribute, column=attribute.column and f"{part}_{attribute.column}")
        for part in parts
        for name, attribute in attributes.items()
    }


def _ending(unit: str) -> str:
    """A unit as the ending of a column: `_usd_per_mm2` for `usd/mm^2`."""
    for rate, short in RATES.items():
        unit = unit.replace(rate, short)
    ending = unit.translate(str.maketrans("", "", "()^")).replace("1/", "per_").replace("/", "_per_")
    return f"_{ending}" if ending else ""
