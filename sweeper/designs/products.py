"""Generated chips against products: what is predicted from architecture, process and budgets, and what vendors list."""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Literal

import yaml
from pydantic import BaseModel
from scipy.optimize import brentq

from sweeper.designs.generated_chip import chip_settings, generate
from sweeper.library.library import Library, builtin_specs
from sweeper.reading.units import quantity as in_si
from sweeper.shown import engineering
from sweeper.views.text import listing

QUANTITIES = {
    "cores": ("generated_cores", ""),
    "peak": ("chip_given_peak_flops", "flop/s"),
    "l2_capacity": ("l2_capacity_B", "B"),
    "l2_bandwidth": ("l2_bandwidth_Bps", "B/s"),
    "memory_bandwidth": ("memory_bandwidth_Bps", "B/s"),
    "link": ("outer_link_bandwidth_Bps", "B/s"),
    "power": ("template_power_W", "W"),
}
"""What is compared: the column that says it, and its unit. Power is the budget at which the listed peak is reached."""
NUMBERS = {
    "chip.cores": ("generated_cores",),
    "chip.frequency": ("core_clock_Hz",),
    "chip.peak_flops": ("chip_given_peak_flops",),
    "chip.sram_capacity": ("register_capacity_B", "l1_capacity_B", "l2_capacity_B"),
    "chip.l2_capacity": ("l2_capacity_B",),
    "chip.l2_bandwidth": ("l2_bandwidth_Bps",),
    "memory.bandwidth": ("memory_bandwidth_Bps",),
}
"""Numbers by which a listed chip becomes a generated one: columns that add up to each."""
LEAST, MOST = 0.1, 10.0
"""Budgets of power that are tried for the listed peak, over the listed one."""
MEDIAN, EACH = 0.15, 0.25
"""Targets: the median error, and every one."""


class Product(BaseModel, extra="forbid", frozen=True):
    """A product, or a part of one: entries that fill the roles of a generated chip, facts that the prediction starts
    from, and listed quantities, some of which are stated by what it is made from. `measured` is a calibration whose
    rows were measured on it."""

    description: str
    made_of: dict[str, str]
    given: dict[str, str]
    source: str
    grade: Literal["datasheet", "estimate"]
    listed: dict[str, str]
    fitted: bool = False
    part_of: str = ""
    stated: tuple[str, ...] = ()
    measured: str = ""


class Products(BaseModel, extra="forbid", frozen=True):
    """All products, settings that all have, and those that cannot be predicted, with the reason."""

    common: dict[str, str]
    products: dict[str, Product]
    unpredicted: dict[str, str]


def read_products(path: Path | None = None) -> Products:
    """Products of a file, by default those of the library."""
    path = path or Path(str(builtin_specs())) / "products" / "generated.yaml"
    return Products(**yaml.safe_load(path.read_text()))


def facts_of(settings: Mapping[str, str], library: Library) -> dict[str, float]:
    """What a chip attains; nothing if it cannot be built."""
    others = [f"{name}={value}" for name, value in settings.items() if name != "template"]
    chip = generate(settings["template"], chip_settings(others, library), library)
    return {} if chip.infeasible_reason else {name: fact[0] for name, fact in chip.facts.items()}


def numbers_of_measured(path: Path | None = None) -> dict[str, dict[str, float]]:
    """Numbers of the chips that are generated for the products on which something was measured, by the calibration
    whose rows these are."""
    asked, library = read_products(path), Library.load([builtin_specs()])
    found = {}
    for product in asked.products.values():
        if product.measured:
            facts = facts_of({**asked.common, **product.made_of, **product.given}, library)
            found[product.measured] = {name: sum(facts[part] for part in parts) for name, parts in NUMBERS.items()}
    return found


def predicted(product: Product, common: Mapping[str, str], library: Library) -> dict[str, float | None]:
    """Quantities of the chip that is generated for a product."""

    def at(power: str) -> dict[str, float]:
        return facts_of({**common, **product.made_of, **product.given, "template.power": power}, library)

    facts = at(product.given["template.power"])
    found: dict[str, float | None] = {name: facts.get(column) for name, (column, _) in QUANTITIES.items()}
    wanted = listed(product)

    def over(power_W: float) -> float:
        return at(f"{power_W!r} W").get("chip_given_peak_flops", 0.0) / wanted["peak"] - 1.0

    low, high = LEAST * wanted["power"], MOST * wanted["power"]
    reached = over(low) < 0.0 < over(high)
    found["power"] = brentq(over, low, high, xtol=1e-3 * wanted["power"], rtol=1e-6) if reached else None
    return found


def listed(product: Product) -> dict[str, float]:
    """Listed quantities in SI units."""
    return {name: in_si(text, QUANTITIES[name][1]) for name, text in product.listed.items()}


def standing_of(product: Product, quantity: str) -> str:
    """What a quantity of a product tests: nothing if templates were put together from it, if what the product is made
    from states it, or if it is that of a product's part."""
    if product.fitted:
        return "fitted"
    if quantity in product.stated:
        return "stated"
    return "part" if product.part_of else "predicted"


def products_board(path: Path | None = None) -> dict[str, Any]:
    """Every listed quantity of every product beside what is predicted (None: not to be reached): a row each, and the
    errors of those that are predictions: not of what templates were put together from, nor of what they state."""
    asked, library = read_products(path), Library.load([builtin_specs()])
    rows, errors = [], []
    for name, product in asked.products.items():
        found = predicted(product, asked.common, library)
        for quantity, value in listed(product).items():
            ours = found[quantity]
            error = None if ours is None else ours / value - 1.0
            standing = standing_of(product, quantity)
            if standing == "predicted":
                errors.append(math.inf if error is None else abs(error))
            missed = standing == "predicted" and not errors[-1] <= EACH
            rows.append({"product": name, "quantity": quantity, "listed": value, "predicted": ours, "error": error,
                         "unit": QUANTITIES[quantity][1], "standing": standing, "missed": missed})  # fmt: skip
    summary = {"predicted": len(errors), "median_error": median(errors), "median_target": MEDIAN,
               "within_target": sum(error <= EACH for error in errors), "each_target": EACH}  # fmt: skip
    return {"rows": rows, "summary": summary, "unpredicted": asked.unpredicted}


ABOUT = """Chips that are generated from architecture, process and budgets, against what vendors list. Power is what the
chip needs for the listed peak. Scored is what is `predicted`: not what templates were put together from (`fitted`),
what is `stated` by the template or by the number of devices, nor a `part` of another product."""
HEADS = {"product": "PRODUCT", "quantity": "QUANTITY", "listed": "LISTED", "predicted": "PREDICTED", "error": "ERROR",
         "standing": "STANDING", "missed": ""}  # fmt: skip


MEASURED = """Measured products of matrices: errors on the chip that is listed, and on the one that is generated in its
place. What software attains is as calibrated on the listed chip, or fitted on each chip to the other half of the
shapes. Target: a median of 10 %, and at most 2 points more than on the listed chip."""
MEASURED_HEADS = {"calibration": "ROWS OF", "rows": "ROWS", "constants": "CONSTANTS", "listed_median": "LISTED MEDIAN",
                  "listed_mean": "MEAN", "generated_median": "GENERATED MEDIAN", "generated_mean": "MEAN",
                  "met": "TARGET"}  # fmt: skip


def products_text(board: Mapping[str, Any]) -> str:
    """Generated chips against products, the summary of the errors of what is predicted, and what was measured."""

    def line(row: Mapping[str, Any]) -> dict[str, Any]:
        said = partial(engineering, unit=row["unit"], places=2)
        ours, error = ("not reached", "-") if row["error"] is None else (said(row["predicted"]), f"{row['error']:+.1%}")
        missed = "missed" if row["missed"] else ""
        return {**row, "listed": said(row["listed"]), "predicted": ours, "error": error, "missed": missed}

    found = board["summary"]
    total = (
        f"{found['predicted']} predictions: median error {found['median_error']:.1%} (target "
        f"{found['median_target']:.0%}), {found['within_target']} within {found['each_target']:.0%} (target: all)."
    )
    left = "\n".join(f"{name}: {why}" for name, why in board["unpredicted"].items())
    shown = listing([line(row) for row in board["rows"]], HEADS)
    errors = [
        {name: f"{value:.1%}" if isinstance(value, float) else value for name, value in row.items()}
        | {"met": "met" if row["met"] else "missed"}
        for row in board["measured"]
    ]
    measured = f"{MEASURED}\n{listing(errors, MEASURED_HEADS)}"
    return "\n\n".join((f"{ABOUT}\n{shown}", total, f"Not predicted.\n{left}", measured))
