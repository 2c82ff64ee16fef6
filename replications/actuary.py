"""Packages that Chiplet Actuary has priced, as tables of our kernel.

Source: Chiplet Actuary (Feng and Ma, DAC'22), commit 2c91fb9. A file of packages holds the recurring cost of each
package of a portfolio in five parts, and its shares of design cost.
"""

import math
from collections.abc import Mapping
from typing import Any

from replications.published_tables import Inputs
from replications.tables import PackageTables, tables
from sweeper.designs.portfolio import shares, unit_prices, volumes_of
from sweeper.kernels.packages.wafer import ANALYTIC, AREA

CM2_PER_MM2 = 0.01

_WIDE_MM = 10_000.0
"""Diameter of a wafer on which every substrate fits: their price per area knows no wafer."""

_D2D = "d2dlink"
"""The module of which an interface has one for each mm2."""

_D2D_DESIGNED_MM2 = 20.0
"""Area that is designed for it, once per node."""

_NO_TEST = {
    f"test_{place}_{name}": value
    for place in ("self", "assembly")
    for name, value in (("coverage", 1.0), ("tested", 1.0), ("patterns", 0.0), ("chain_per_mm2", 0.0))
}
"""Tests that cost nothing and miss nothing."""

CARRIERS: Mapping[str, Mapping[str, str]] = {
    "FO": {
        "wafer": "cost_wafer_rdl",
        "density": "defect_density_rdl",
        "clustering": "critical_level_rdl",
        "scale": "rdl_area_scale_factor",
        "bond": "bonding_yield_rdl",
        "design": "fo_NRE_cost_factor",
        "fixed": "fo_NRE_cost_fixed",
    },
    "SI": {
        "wafer": "cost_wafer_si",
        "density": "defect_density_si",
        "clustering": "critical_level_si",
        "scale": "si_area_scale_factor",
        "bond": "bonding_yield_si",
        "design": "si_NRE_cost_factor",
        "fixed": "si_NRE_cost_fixed",
    },
}
"""Parameters of fan-out and of silicon interposers."""

Key = tuple[Any, ...]


def modules_of(chip: Inputs) -> dict[Key, float]:
    """How many of each module, (name, node, area), a chip holds; of the interface of its node, its area in mm2."""
    held: dict[Key, float] = {}
    for name, node, area, count in chip.get("modules", ()):
        key = (_D2D, node) if name == _D2D else (name, node, area)
        held[key] = held.get(key, 0.0) + count
    return {**held, (_D2D, chip["node"]): chip["d2d"]} if chip.get("d2d") else held


def chip_area(chip: Inputs) -> float:
    """Area of a chip with its interfaces, mm2."""
    modules = sum(area * count for _, _, area, count in chip.get("modules", ()))
    return float(chip.get("area", 0.0) + modules + chip.get("d2d", 0.0))


def chip_key(chip: Inputs) -> Key:
    """What tells chips apart: name, node and area."""
    return chip.get("name", "dummy"), chip.get("node"), chip_area(chip)


def module_price(key: Key, spec: Inputs) -> float:
    """Design of a module, USD."""
    area = key[2] if len(key) == 3 else _D2D_DESIGNED_MM2
    return float(spec["Module_NRE_Cost_Factor"][key[1]] * area)


def design_shares(inputs: Inputs) -> tuple[list[float], list[float]]:
    """What one unit of each package of a portfolio bears of the designs of modules and of chips, USD."""
    packages, spec = inputs["pk"], inputs["spec"]
    volumes = [package["volume"] for package in packages]
    module_uses = [uses_of_modules(package) for package in packages]
    modules = {key: module_price(key, spec) for held in module_uses for key in held}
    chips = {chip_key(chip): chip_price(chip, spec) for package in packages for chip in package["chips"]}
    chip_uses = [uses_of_chips(package) for package in packages]
    return shares(modules, module_uses, volumes), shares(chips, chip_uses, volumes)


def chip_price(chip: Inputs, spec: Inputs) -> float:
    """Design of a chip around its modules, USD; none for a dummy."""
    if chip["kind"] == "dummy":
        return 0.0
    node = chip["node"]
    return float(spec["Chip_NRE_Cost_Factor"][node] * chip_area(chip) + spec["Chip_NRE_Cost_Fixed"][node])


def uses_of_chips(package: Inputs) -> dict[Key, float]:
    """How many of each chip a package holds."""
    held: dict[Key, float] = {}
    for chip in package["chips"]:
        held[chip_key(chip)] = held.get(chip_key(chip), 0.0) + chip["count"]
    return held


def uses_of_modules(package: Inputs) -> dict[Key, float]:
    """How many of each module the chips of a package hold together."""
    held: dict[Key, float] = {}
    for chip in package["chips"]:
        for key, count in modules_of(chip).items():
            held[key] = held.get(key, 0.0) + count * chip["count"]
    return held


def silicon_area(package: Inputs) -> float:
    """Area of all chips of a package, mm2."""
    return sum(chip_area(chip) * chip["count"] for chip in package["chips"])


def carrier_area(package: Inputs, spec: Inputs) -> float:
    """Area of fan-out layer or interposer, mm2; that of the chips where there is none."""
    carrier = CARRIERS.get(package["type"])
    return silicon_area(package) * (spec[carrier["scale"]] if carrier else 1.0)


def package_area(package: Inputs, spec: Inputs) -> float:
    """Area of the substrate, mm2."""
    return float(carrier_area(package, spec) * spec["os_area_scale_factor"])


def substrate_layers(dies: float, area_mm2: float) -> float:
    """Price of an organic substrate under several chips over that of the simplest, by its area."""
    if dies == 1:
        return 1.0
    return 2.0 if area_mm2 > 900 else 1.75 if area_mm2 > 289 else 1.5


def _wafer(spec: Inputs) -> dict[str, float]:
    """Round wafers, exposed in one field."""
    return {
        "wafer_diameter_mm": spec["wafer_diameter"],
        "wafer_edge_exclusion_mm": spec["edge_loss"],
        "wafer_scribe_mm": spec["scribe_lane"],
        "wafer_reticle_x_mm": spec["wafer_diameter"],
        "wafer_reticle_y_mm": spec["wafer_diameter"],
        "wafer_dies_per_wafer": float(ANALYTIC),
    }


def _wafer_mm2(spec: Inputs) -> float:
    return math.pi * spec["wafer_diameter"] ** 2 / 4


def _chip_row(chip: Inputs, parent: int, spec: Inputs, made: float, modules_usd: float) -> Any:
    """A kind of chip. `modules_usd` is what its modules' design adds to one chip; `made` are such chips in all."""
    own = {"count": chip["count"], "core_area_mm2": chip_area(chip), "quantity": made, "design_usd": modules_usd * made}
    codes = {"parent": parent}
    if chip["kind"] == "dummy":
        return codes, {**own, **_wafer(spec), **_NO_TEST}, [{}]
    node = chip["node"]
    layer = {
        "price_usd_per_mm2": spec["Cost_Wafer_Die"][node] / _wafer_mm2(spec),
        "defect_density_per_mm2": spec["Defect_Density_Die"][node] * CM2_PER_MM2,
        "clustering": spec["critical_level"],
        "chip_design_price_usd_per_mm2": spec["Chip_NRE_Cost_Factor"][node],
        "chip_fixed_price_usd": spec["Chip_NRE_Cost_Fixed"][node],
    }
    return codes, {**own, **_wafer(spec), **_NO_TEST}, [layer]


def _substrate(spec: Inputs, made: float, layers: float, assembly: Mapping[str, float]) -> Any:
    """The organic substrate, which is the root."""
    codes = {"parent": -1, "carrier": 1}
    own = {
        "wafer_dies_per_wafer": float(AREA),
        "quantity": made,
        "assembly_area_factor": spec["os_area_scale_factor"],
        "assembly_alignment_yield": spec["bonding_yield_os"],
        "wafer_diameter_mm": _WIDE_MM,
        "wafer_reticle_x_mm": _WIDE_MM,
        "wafer_reticle_y_mm": _WIDE_MM,
    }
    layer = {"price_usd_per_mm2": spec["cost_factor_os"] * layers, "active": 0.0}
    return codes, {**own, **_NO_TEST, **assembly}, [layer]


def _carrier(package: Inputs, spec: Inputs, made: float) -> Any:
    """Fan-out layer or interposer, with its bumps to the substrate."""
    names = CARRIERS[package["type"]]
    own = {
        "quantity": made,
        "finish_usd_per_mm2": spec["c4_bump_cost_factor"],
        "assembly_area_factor": spec[names["scale"]],
        "assembly_bump_price_usd_per_mm2": spec["u_bump_cost_factor"],
        # Where chips come first there is no bonding of chips onto a carrier.
        "assembly_alignment_yield": spec[names["bond"]] if package["chip_last"] else 1.0,
        "assembly_chip_first": 0.0 if package["chip_last"] else 1.0,
        "assembly_design_price_usd_per_mm2": spec[names["design"]],
        "assembly_fixed_price_usd": spec[names["fixed"]],
    }
    wiring = {
        "price_usd_per_mm2": spec[names["wafer"]] / _wafer_mm2(spec),
        "defect_density_per_mm2": spec[names["density"]] * CM2_PER_MM2,
        "clustering": spec[names["clustering"]],
        "active": 0.0,
    }
    codes = {"parent": 0, "carrier": 1}
    return codes, {**own, **_wafer(spec), **_NO_TEST}, [wiring]


def actuary_tables(inputs: Inputs) -> list[PackageTables]:
    """Tables of the packages of a portfolio, whose inputs hold `pk` (packages) and `spec` (prices)."""
    packages, spec = inputs["pk"], inputs["spec"]
    volumes = [package["volume"] for package in packages]
    module_uses = [uses_of_modules(package) for package in packages]
    module_prices = {key: module_price(key, spec) for held in module_uses for key in held}
    per_module = unit_prices(module_prices, module_uses, volumes)
    chips_made = volumes_of([uses_of_chips(package) for package in packages], volumes)
    # Packages of equal area share their design, whatever their type.
    packages_made = volumes_of([{package_area(package, spec): 1.0} for package in packages], volumes)

    def of_package(package: Inputs) -> PackageTables:
        made = packages_made[package_area(package, spec)]
        advanced = package["type"] in CARRIERS
        chips = [
            _chip_row(
                chip,
                int(advanced),
                spec,
                chips_made[chip_key(chip)],
                sum(per_module[key] * count for key, count in modules_of(chip).items()),
            )
            for chip in package["chips"]
        ]
        if advanced:
            carriers = [_substrate(spec, made, 1.0, {}), _carrier(package, spec, made)]
            return tables([*carriers, *chips], [], ["bumps_once", "carrier_in_design"])
        layers = substrate_layers(sum(chip["count"] for chip in package["chips"]), package_area(package, spec))
        design = {
            "assembly_bump_price_usd_per_mm2": spec["c4_bump_cost_factor"],
            "assembly_design_price_usd_per_mm2": spec["os_NRE_cost_factor"] * layers,
            "assembly_fixed_price_usd": spec["os_NRE_cost_fixed"],
        }
        return tables([_substrate(spec, made, layers, design), *chips], [], [])

    return [of_package(package) for package in packages]
