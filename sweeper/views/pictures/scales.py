"""How the numbers of a column stand on an axis: in which unit, linear or logarithmic, with which ticks."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sweeper.shown import FEWEST, engineering, telling
from sweeper.views.pictures.labels import QUANTITIES, label

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.ticker import Formatter

UNITS = {"Bps": "B/s", "flops": "flop/s", "usd": "USD", **{unit: unit for unit in ("s", "B", "W", "J", "flop", "Hz")}}
"""Units that a column of one may be named after."""
WIDE = 20.0
"""Ratio of the ends from which on a scale is logarithmic."""
MOST_TICKS = 8
"""Values of an axis up to which each has a tick of its own."""


def unit(column: str) -> str:
    """The unit that a column ends in; "" if it has none, or one that is made of several."""
    parts = column.split("_")
    return "" if "per" in parts[-3:] else UNITS.get(parts[-1], "")


def words(column: str) -> str:
    """A column without its unit, for a title or beside an axis whose numbers have it.

    >>> words("link_bandwidth_Bps"), words("cost_efficiency_flops_per_usd"), words("memory_speed_per_W")
    ('link bandwidth', 'cost efficiency', 'memory speed per W')
    """
    if column in QUANTITIES:
        return QUANTITIES[column].name.lower()
    return (column.rpartition("_")[0] if unit(column) else column).replace("_", " ")


def axis_words(column: str) -> str:
    """What stands beside an axis: a column, with its unit unless its numbers have that."""
    own = "" if unit(column) or column not in QUANTITIES else QUANTITIES[column].unit
    return f"{words(column)} ({own})" if own else words(column)


def scale(column: str) -> float:
    """What one of the unit that is shown is in the dataset's unit."""
    return 1.0 if unit(column) or column not in QUANTITIES else QUANTITIES[column].scale


def value_words(column: str, value: object, digits: int = FEWEST) -> str:
    """A value of a column, as a legend or a title has it, in so many significant digits.

    >>> value_words("memory", "ddr4"), value_words("link_Bps", 2e9), value_words("batch_size", 8.0)
    ('DDR4', '2 GB/s', '8')
    """
    if isinstance(value, str):
        return label(value)
    if not isinstance(value, int | float):
        return "none" if value is None else str(value)
    if not unit(column):
        return f"{value:.{digits}g}"
    return engineering(value, unit(column), digits=digits)


def is_wide(values: npt.NDArray[np.float64]) -> bool:
    """Whether positive numbers span so much that a linear scale would hide the small ones."""
    return bool(0.0 < WIDE * values.min() < values.max())


def set_scale(axis: "Axis", values: npt.NDArray[np.float64], logarithmic: bool, of_unit: str = "") -> None:
    """Give an axis its scale and ticks for some numbers, as they are shown; `of_unit` stands with each tick."""
    from matplotlib.ticker import AutoLocator, LogLocator, NullFormatter, NullLocator

    sizes = np.abs(values[values != 0.0])
    if logarithmic:
        (axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale)("log")
        ratio = sizes.max() / sizes.min()
        # A label for every decade, three where there are few, and those of a linear axis within one.
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if ratio < 50.0 else (1.0,)) if ratio >= 10.0
                               else AutoLocator())  # fmt: skip
        axis.set_minor_formatter(NullFormatter())
        if ratio < 10.0:
            axis.set_minor_locator(NullLocator())
    plain = not of_unit and bool(sizes.size == 0 or (1e-4 <= sizes.max() < 1e6 and sizes.min() >= 1e-6))
    axis.set_major_formatter(_ticks(_plain if plain else partial(_prefixed, of_unit)))


def _prefixed(of_unit: str, value: float, digits: int) -> str:
    return engineering(value, of_unit, digits=digits)


def _plain(value: float, digits: int) -> str:
    from matplotlib.ticker import Formatter

    return Formatter.fix_minus(f"{value:.{digits}g}")


def _ticks(written: Callable[[float, int], str]) -> "Formatter":
    """What writes the ticks of an axis, in the digits that tell them apart."""
    from matplotlib.ticker import Formatter

    class Ticks(Formatter):
        def __call__(self, value: float, pos: int | None = None) -> str:
            return written(value, FEWEST)

        def format_ticks(self, values: list[float]) -> list[str]:
            digits = telling(map(float, values))
            return [written(value, digits) for value in values]

    return Ticks()


def tick_at(axis: "Axis", values: npt.NDArray[np.float64]) -> None:
    """Put the ticks of an axis at the values that were swept, if these are few."""
    from matplotlib.ticker import FixedLocator, NullLocator

    if len(values) <= MOST_TICKS:
        axis.set_major_locator(FixedLocator(values.tolist()))
        axis.set_minor_locator(NullLocator())
