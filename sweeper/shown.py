"""Objects that print as what they are, in a terminal and in a notebook, and numbers with their units."""

import math
from collections.abc import Iterable, Mapping
from html import escape

FEWEST, MOST = 6, 12
"""Significant digits of a number that is shown, and those beyond which numbers differ by rounding alone."""


def telling(values: Iterable[object]) -> int:
    """As many significant digits, six or more, as tell the numbers among some values apart that differ by more than
    rounding.

    >>> telling([3.2e12, 1 / 3]), telling([3.2e12, 3.2000001e12]), telling(["a", None])
    (6, 8, 6)
    """
    numbers = {value for value in values if isinstance(value, int | float) and math.isfinite(value)}
    told = [len({f"{number:.{digits}g}" for number in numbers}) for digits in range(FEWEST, MOST + 1)]
    return FEWEST + told.index(told[-1])


class Shown:
    """An object with a few facts about it that somebody who looks at it wants to know."""

    def facts(self) -> Mapping[str, object]:
        """What to show, by the words for it; whole numbers are shown in groups of three digits."""
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}: {_text(value)}" for name, value in self.facts().items())
        return f"<{type(self).__name__} {facts}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(_text(value))}</td></tr>" for name, value in self.facts().items()
        )
        return f"<table style='text-align:left'><caption>{type(self).__name__}</caption>{rows}</table>"


def _text(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


PREFIXED = ("mm", "kg")
"""Beginnings of units that have a prefix already, and perhaps a power, which would hold for a second prefix as well."""


def engineering(value: float, unit: str, places: int | None = None, digits: int = FEWEST) -> str:
    """A number with a prefix to its unit, and so many decimal places, or so many significant digits at least.

    >>> engineering(2.5e9, "B/s"), engineering(0.5, "mm^2", 3), engineering(2.16e-7, "mm^2/B", 3)
    ('2.5 GB/s', '0.500 mm^2', '2.16e-07 mm^2/B')
    >>> engineering(3.2e12, "B/s", digits=8), engineering(3.2000001e12, "B/s", digits=8)
    ('3.2000000 TB/s', '3.2000001 TB/s')
    """
    if unit.startswith(PREFIXED):
        small = abs(value) < 10.0 ** -(places or 0)
        return f"{value:.{digits}g} {unit}" if places is None or small else f"{value:,.{places}f} {unit}"
    from matplotlib.ticker import EngFormatter  # loads slowly

    return EngFormatter(unit, places=digits - 1 if places is None and digits > FEWEST else places)(value)
