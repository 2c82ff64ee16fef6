"""Objects that print as what they are, in a terminal and in a notebook, and numbers with their units."""

from collections.abc import Mapping
from html import escape


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


def engineering(value: float, unit: str, places: int | None = None) -> str:
    """A number with a prefix to its unit, and so many decimal places.

    >>> engineering(2.5e9, "B/s"), engineering(0.5, "mm^2", 3), engineering(2.16e-7, "mm^2/B", 3)
    ('2.5 GB/s', '0.500 mm^2', '2.16e-07 mm^2/B')
    """
    if unit.startswith(PREFIXED):
        small = abs(value) < 10.0 ** -(places or 0)
        return f"{value:g} {unit}" if places is None or small else f"{value:,.{places}f} {unit}"
    from matplotlib.ticker import EngFormatter  # loads slowly

    return EngFormatter(unit, places=places)(value)
