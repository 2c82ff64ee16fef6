"""Packages of the library beside what others say that they cost to make and emit: specs/products/packages.yaml."""

import math
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml
from pydantic import BaseModel

from sweeper.designs.package_draws import evaluate_design
from sweeper.kernels.packages.layout import DIE_CODES, RESULT
from sweeper.library.library import Library, builtin_specs
from sweeper.library.packages.reader import read_package
from sweeper.reading.units import quantity as in_si
from sweeper.views.text import listing
from sweeper.words.system import ENTRY_DEFAULTS

DRAWS = 2000
"""Draws of which bands are found."""
NEAR = 0.2
"""Target: the median of the draws against the public figure."""
WANTED = 8
"""Target: accelerators that are so near."""
CENTRE = (0.25, 0.75)
"""Target: where in its own band the headline lies."""
FOOTPRINT_FACTOR = 1.5
"""Target: the headline over a published footprint, or the reverse."""


class Estimate(BaseModel, extra="forbid", frozen=True):
    """A public figure about a package: what it counts, the value with its range, the year and who says so; or about its
    ratio `over` another package."""

    package: str
    value: str
    year: int
    scope: str
    source: str
    quantity: Literal["total", "logic", "memory", "dies", "carbon"] = "carbon"
    low: str = ""
    high: str = ""
    over: str = ""


class Estimates(BaseModel, extra="forbid", frozen=True):
    """All public figures, the accelerators that ought to have one, and why some have no total."""

    accelerators: tuple[str, ...]
    costs: tuple[Estimate, ...]
    unpriced: dict[str, str]
    carbon: tuple[Estimate, ...]


def read_estimates(path: Path | None = None) -> Estimates:
    """Public figures of a file, by default those of the library."""
    path = path or Path(str(builtin_specs())) / "products" / "packages.yaml"
    return Estimates(**yaml.safe_load(path.read_text()))


@cache
def found_of(package: str, draws: int = DRAWS) -> Mapping[str, np.ndarray]:
    """What public figures count of a package, by quantity [draw], draw 0 the values: usd per package that works without
    design, usd of the good dies and stacks that it holds; kg with electricity."""
    library = Library.load([builtin_specs()])
    grid = library.find("facility", ENTRY_DEFAULTS["facility"]).values["fab_carbon_intensity"].number
    design = read_package(library.find("package", package), library)
    named = evaluate_design(design, library, {}, np.arange(draws + 1.0)).results.view(RESULT)[..., 0]
    own = np.where(named["copies"] > 0.0, named["copies"] * named["self_price_usd"], 0.0)
    carriers, bought = design.die_codes[:, DIE_CODES.index("carrier")] == 1, np.array(design.bought)
    root = named[:, 0]
    found = {
        "total": root["price_usd"] / root["quality"],
        "logic": own[:, ~carriers & ~bought].sum(axis=1),
        "memory": own[:, bought].sum(axis=1),
        "carbon": (root["carbon_kg"] + root["energy_J"] * grid) / root["quality"],
    }
    return {**found, "dies": found["logic"] + found["memory"]}


def scored(estimate: Estimate, unit: str) -> dict[str, Any]:
    """A public figure beside ours: value, band, where the value lies in it, and how far the median is off."""
    values = found_of(estimate.package)[estimate.quantity]
    if estimate.over:
        values, unit = values / found_of(estimate.over)[estimate.quantity], ""
    drawn = values[1:][np.isfinite(values[1:])]
    p25, median, p75 = np.quantile(drawn, (CENTRE[0], 0.5, CENTRE[1]))
    public = in_si(estimate.value, unit)
    low, high = (in_si(text, unit) if text else public for text in (estimate.low, estimate.high))
    return {
        "package": "/".join(filter(None, (estimate.package, estimate.over))),
        "quantity": estimate.quantity, "year": estimate.year,
        "public": public, "low": low, "high": high, "value": float(values[0]),
        "p25": float(p25), "median": float(median), "p75": float(p75), "error": float(median) / public - 1.0,
        "percentile": float(np.mean(drawn < values[0])), "scope": estimate.scope, "source": estimate.source,
    }  # fmt: skip


def costs_board(path: Path | None = None) -> dict[str, Any]:
    """Costs of packages beside public estimates; and every accelerator's place in its own band."""
    asked = read_estimates(path)
    rows = [scored(estimate, "usd") for estimate in asked.costs]
    priced = {row["package"]: row for row in rows if row["quantity"] == "total"}
    places = {name: _place(found_of(name)["total"]) for name in asked.accelerators}
    summary = {
        "accelerators": len(asked.accelerators), "priced": len(priced), "near_target": NEAR, "wanted": WANTED,
        "near": sum(abs(row["error"]) <= NEAR for row in priced.values()),
        "centred": sum(CENTRE[0] <= place <= CENTRE[1] for place in places.values()),
    }  # fmt: skip
    return {"rows": rows, "places": places, "summary": summary, "unpriced": asked.unpriced}


def carbon_board(path: Path | None = None) -> dict[str, Any]:
    """Carbon of packages beside published footprints."""
    asked = read_estimates(path)
    rows = [scored(estimate, "kg") for estimate in asked.carbon]
    for row in rows:
        row["within"] = abs(math.log(row["value"] / row["public"])) <= math.log(FOOTPRINT_FACTOR)
    within = sum(row["within"] for row in rows)
    return {"rows": rows, "summary": {"published": len(rows), "within": within, "factor": FOOTPRINT_FACTOR}}


def _place(values: np.ndarray) -> float:
    """Share of the draws below the value."""
    drawn = values[1:][np.isfinite(values[1:])]
    return float(np.mean(drawn < values[0]))


ABOUT = {
    "costs": "What packages cost to make, without design, and what others say. ERROR is of the median; PERCENTILE is\n"
    "where the value lies among its own draws. Logic and memory are good dies and stacks, before losses in assembly.",
    "carbon": "Carbon dioxide equivalent of making a package, electricity included, and published footprints.",
}
HEADS = {"package": "PACKAGE", "quantity": "QUANTITY", "year": "YEAR", "public": "PUBLIC", "range": "RANGE",
         "value": "VALUE", "p25": "P25", "median": "MEDIAN", "p75": "P75", "error": "ERROR",
         "percentile": "PERCENTILE", "scope": "SCOPE"}  # fmt: skip


def _table(rows: Iterable[Mapping[str, Any]]) -> str:
    def line(row: Mapping[str, Any]) -> dict[str, Any]:
        numbers = {
            name: f"{row[name]:,.0f}" if row["public"] >= 10.0 else f"{row[name]:.2f}"
            for name in ("public", "value", "p25", "median", "p75")
        }
        band = f"{row['low']:,.0f} to {row['high']:,.0f}" if row["low"] < row["high"] else ""
        more = {"range": band, "error": f"{row['error']:+.1%}", "percentile": f"{row['percentile']:.0%}"}
        return {**row, **numbers, **more}

    return listing([line(row) for row in rows], HEADS)


def costs_text(board: Mapping[str, Any]) -> str:
    """Costs beside public estimates, as text."""
    found = board["summary"]
    places = ", ".join(f"{name} {place:.0%}" for name, place in board["places"].items())
    total = (
        f"{found['near']} of {found['accelerators']} accelerators have a median within {found['near_target']:.0%} of a "
        f"public total (target: {found['wanted']}); {found['priced']} have a public total.\n"
        f"Values at the percentile of their own draws: {places};\n"
        f"{found['centred']} lie between P25 and P75 (target: all)."
    )
    unpriced = "\n".join(f"{name}: {why}" for name, why in board["unpriced"].items())
    return "\n\n".join((f"{ABOUT['costs']}\n{_table(board['rows'])}", total, f"Without a public total.\n{unpriced}"))


def carbon_text(board: Mapping[str, Any]) -> str:
    """Carbon beside published footprints, as text."""
    found = board["summary"]
    total = f"{found['within']} of {found['published']} values within a factor of {found['factor']:g}."
    return "\n\n".join((f"{ABOUT['carbon']}\n{_table(board['rows'])}", total))
