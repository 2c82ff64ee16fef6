"""Power and price of a chip over its rate: figure 9 of DFModel, a quadratic through its four accelerators.

    python -m replications.silicon_curves

The paper prints power = 3e-7 X^2 ? 4.3e-4 X + 0.04 in kW for X TFLOP/s; the sign is lost in print, and is a plus. Of
price it says that the trend is alike and shows nothing. Neither curve is used: chips have the price and power of their
entries.
"""

from typing import NamedTuple

import numpy as np

from sweeper.library.library import Library, builtin_specs
from sweeper.views.text import shown_table

CHIPS = ("tpu_v4", "sn30", "h100_sxm", "wse_2")
"""The accelerators of its table V."""
PUBLISHED_KW = (3e-7, 4.3e-4, 0.04)
"""Coefficients as printed, the second one's sign aside."""


class Chip(NamedTuple):
    """A point of the figure."""

    name: str
    tflops: float
    power_kW: float
    price_kusd: float


class Curve(NamedTuple):
    """square X^2 + linear X + constant, for X TFLOP/s."""

    square: float
    linear: float
    constant: float

    def at(self, tflops: float) -> float:
        """The curve's value."""
        return self.square * tflops**2 + self.linear * tflops + self.constant


def chips() -> list[Chip]:
    """The four accelerators as the library has them."""
    library = Library.load([builtin_specs()])
    found = []
    for name in CHIPS:
        values = {key: value.number for key, value in library.find("chip", name).values.items()}
        cells = values["cores"] * values["lanes"] * values["stages"]
        tflops = 2e-12 * cells * values["frequency"]
        found.append(Chip(name, tflops, 1e-3 * values["power"], 1e-3 * values["price"]))
    return found


def curve(points: list[tuple[float, float]]) -> Curve:
    """Least squares of a quadratic."""
    x, y = np.array(points).T
    return Curve(*np.polyfit(x, y, 2))


def power_curve() -> Curve:
    """kW over TFLOP/s."""
    return curve([(chip.tflops, chip.power_kW) for chip in chips()])


def price_curve() -> Curve:
    """Thousand USD over TFLOP/s."""
    return curve([(chip.tflops, chip.price_kusd) for chip in chips()])


def main() -> None:
    """Print both curves and what they say of the four chips."""
    power, price = power_curve(), price_curve()
    heads = ("CHIP", "TFLOP/s", "kW", "CURVE kW", "kUSD", "CURVE kUSD")
    rows = [(*chip[:3], power.at(chip.tflops), chip.price_kusd, price.at(chip.tflops)) for chip in chips()]
    print(shown_table(heads, rows))
    print(f"power: {power.square:.3g} X^2 + {power.linear:.3g} X + {power.constant:.3g} kW")
    printed = " ".join(f"{coefficient:g}" for coefficient in PUBLISHED_KW)
    print(f"       printed coefficients, whatever the second one's sign: {printed}")
    print(f"price: {price.square:.3g} X^2 + {price.linear:.3g} X + {price.constant:.3g} thousand USD")


if __name__ == "__main__":
    main()
