"""Packages that CATCH and Chiplet Actuary have priced, as tables of our kernel.

Sources: CATCH (UCLA), commit d60dafb, and Chiplet Actuary (Feng and Ma, DAC'22), commit 2c91fb9. A file of designs
holds all inputs of a package and what the program found of its root; a file of dies what it found of every die; a
file of packages the recurring cost of each package of a portfolio in five parts, and its shares of design cost.
"""

import csv
import gzip
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from kernels.packages.layout import (
    CONVENTIONS,
    DIE_CODES,
    DIE_NUMBERS,
    LAYER_NUMBERS,
    LINK_CODES,
    LINK_NUMBERS,
)
from kernels.packages.wafer import ANALYTIC, AREA, GRID, ROWS
from replications.portfolio import shares, unit_prices, volumes_of
from sweeper.errors import EnvironmentFault, UsageFault
from sweeper.library.package_tables import PackageTables

Row = dict[str, str]
Inputs = Mapping[str, Any]

Tables = TypeVar("Tables")

LONGEST_FIELD = 1 << 30
"""Characters; all inputs of a design stand in one field."""

YEAR_S = 31_536_000.0
GIGA, MEGA, PICO = 1e9, 1e6, 1e-12
CM2_PER_MM2 = 0.01


# files


def read_table(path: Path, columns: Sequence[str]) -> list[Row]:
    """Rows of a CSV file, plain or compressed with gzip. Raises UsageFault if one of `columns` is not in it."""
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8", newline="") as file:
            csv.field_size_limit(LONGEST_FIELD)
            rows = list(csv.DictReader(file))
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as fault:
        raise EnvironmentFault(f"{path}: {fault}") from None
    absent = [column for column in columns if not rows or rows[0].get(column) is None]
    if absent:
        raise UsageFault(f"{path}: a table of another layout: it has no {', '.join(absent)}")
    return rows


def tables_of(build: Callable[[Inputs], Tables], row: Row, where: str) -> Tables:
    """What is built of the inputs of a row. Raises UsageFault if they are of another layout."""
    try:
        return build(json.loads(row["inputs_json"]))
    except (KeyError, ValueError, TypeError, AttributeError) as fault:
        raise UsageFault(f"{where}: inputs_json is of another layout: {fault!r}") from None


# rows of the tables

_ONE = frozenset(
    {
        "count",
        "aspect_ratio",
        "voltage_V",
        "quantity",
        "gate_flop_ratio",
        "reticle_share",
        "wafer_process_yield",
        "assembly_pick_machine_life_s",
        "assembly_pick_uptime",
        "assembly_pick_group",
        "assembly_bond_machine_life_s",
        "assembly_bond_uptime",
        "assembly_bond_group",
        "assembly_current_density_A_per_mm2",
        "assembly_pitch_mm",
        "assembly_tsv_pitch_mm",
        "assembly_alignment_yield",
        "assembly_bond_yield",
        "assembly_tsv_yield",
        "test_samples",
        "critical_area_ratio",
        "clustering",
        "critical_levels",
        "stitching_yield",
        "active",
    }
)


def neutral(name: str) -> float:
    """What a number is where nothing is said of it: not given, a factor of 1, or none."""
    return math.nan if name.startswith("given_") else float(name in _ONE)


def numbers(names: Sequence[str], values: Mapping[str, float]) -> list[float]:
    """One row of a table with columns `names`. Raises KeyError for a value that has no column."""
    if not values.keys() <= set(names):
        raise KeyError(sorted(values.keys() - set(names)))
    return [float(values.get(name, neutral(name))) for name in names]


def table(rows: Iterable[Sequence[float]], columns: Sequence[str], kind: type) -> np.ndarray:
    """Rows as an array that has its columns even where there is no row."""
    return np.array(list(rows), dtype=kind).reshape(-1, len(columns))


def tables(
    dies: Sequence[tuple[Mapping[str, int], Mapping[str, float], Sequence[Mapping[str, float]]]],
    links: Sequence[tuple[int, int, Mapping[str, float]]],
    conventions: Iterable[str],
) -> PackageTables:
    """Tables of a package: its dies (codes, numbers, layers), its links (source, target, numbers), conventions."""
    first = np.cumsum([0, *(len(layers) for _, _, layers in dies)])
    coded = [
        {"first_layer": int(start), "layers": len(layers), **codes}
        for start, (codes, _, layers) in zip(first, dies, strict=False)
    ]
    ordered = sorted(links, key=lambda link: link[2]["reach_mm"])
    chosen = set(conventions)
    return PackageTables(
        die_codes=table(([code.get(name, 0) for name in DIE_CODES] for code in coded), DIE_CODES, np.int64),
        die_numbers=table((numbers(DIE_NUMBERS, values) for _, values, _ in dies), DIE_NUMBERS, np.float64),
        layer_numbers=table(
            (numbers(LAYER_NUMBERS, layer) for _, _, layers in dies for layer in layers), LAYER_NUMBERS, np.float64
        ),
        link_codes=table(((source, target) for source, target, _ in ordered), LINK_CODES, np.int64),
        link_numbers=table((numbers(LINK_NUMBERS, values) for _, _, values in ordered), LINK_NUMBERS, np.float64),
        conventions=np.array([float(name in chosen) for name in CONVENTIONS]),
    )


# CATCH

CATCH_CONVENTIONS = (
    "cells_at_both_ends",
    "leaving_bonds_only",
    "flawless_carriers",
    "uptime_multiplies",
    "quality_before_assembly",
    "own_signals_only",
    "silent_reaches",
    "all_pads_are_vias",
    "samples_differ",
    "lost_rows",
    "fields_by_area",
    "late_process_yield",
    "bought_dies_designed",
    "whole_groups",
    "bare_dies_tested_twice",
    "own_pads",
)

_Fields = Mapping[str, tuple[str, float]]

_DIE: _Fields = {
    "core_area_mm2": ("core_area", 1.0),
    "aspect_ratio": ("aspect_ratio", 1.0),
    "power_W": ("power", 1.0),
    "voltage_V": ("core_voltage", 1.0),
    "given_area_mm2": ("bb_area", 1.0),
    "given_price_usd": ("bb_cost", 1.0),
    "given_quality": ("bb_quality", 1.0),
    "given_power_W": ("bb_power", 1.0),
    "memory_share": ("fraction_memory", 1.0),
    "logic_share": ("fraction_logic", 1.0),
    "analog_share": ("fraction_analog", 1.0),
    "gate_flop_ratio": ("gate_flop_ratio", 1.0),
    "reticle_share": ("reticle_share", 1.0),
    "quantity": ("quantity", 1.0),
}
_WAFER: _Fields = {
    "wafer_diameter_mm": ("wafer_diameter", 1.0),
    "wafer_edge_exclusion_mm": ("edge_exclusion", 1.0),
    "wafer_scribe_mm": ("dicing_distance", 1.0),
    "wafer_reticle_x_mm": ("reticle_x", 1.0),
    "wafer_reticle_y_mm": ("reticle_y", 1.0),
    "wafer_process_yield": ("wafer_process_yield", 1.0),
}
_STEP = {
    f"assembly_{step}_{ours}": (f"{theirs}_{field}", factor)
    for step, theirs in (("pick", "picknplace"), ("bond", "bonding"))
    for ours, field, factor in (
        ("machine_price_usd", "machine_cost", 1.0),
        ("machine_life_s", "machine_lifetime", YEAR_S),
        ("uptime", "machine_uptime", 1.0),
        ("operator_price_usd_per_s", "technician_yearly_cost", 1 / YEAR_S),
        ("time_s", "time", 1.0),
        ("group", "group", 1.0),
    )
}
_ASSEMBLY: _Fields = {
    "assembly_material_price_usd_per_mm2": ("materials_cost_per_mm2", 1.0),
    **_STEP,
    "assembly_separation_mm": ("die_separation", 1.0),
    "assembly_edge_mm": ("edge_exclusion", 1.0),
    "assembly_current_density_A_per_mm2": ("max_pad_current_density", 1.0),
    "assembly_pitch_mm": ("bonding_pitch", 1.0),
    "assembly_alignment_yield": ("alignment_yield", 1.0),
    "assembly_bond_yield": ("bonding_yield", 1.0),
    "assembly_bond_defect_density_per_mm2": ("dielectric_bond_defect_density", 1.0),
    "assembly_tsv_area_mm2": ("tsv_area", 1.0),
    "assembly_tsv_pitch_mm": ("tsv_pitch", 1.0),
    "assembly_tsv_yield": ("tsv_yield", 1.0),
}
_TEST: _Fields = {
    "test_cycle_s": ("time_per_test_cycle", 1.0),
    "test_samples": ("samples_per_input", 1.0),
    "test_price_usd_per_s": ("cost_per_second", 1.0),
    **{
        f"test_{place}_{ours}": (theirs.format(place), 1.0)
        for place in ("self", "assembly")
        for ours, theirs in (
            ("coverage", "{}_defect_coverage"),
            ("patterns", "bb_{}_pattern_count"),
            ("chain_per_mm2", "bb_{}_scan_chain_length"),
            ("chains", "{}_num_scan_chains"),
            ("pads_per_chain", "{}_num_io_per_scan_chain"),
            ("pads", "{}_num_test_io_offset"),
            ("tested", "test_{}"),
        )
    },
}
_LAYER: _Fields = {
    "price_usd_per_mm2": ("cost_per_mm2", 1.0),
    "defect_density_per_mm2": ("defect_density", 1.0),
    "critical_area_ratio": ("critical_area_ratio", 1.0),
    "clustering": ("clustering_factor", 1.0),
    "litho_share": ("litho_percent", 1.0),
    "mask_set_usd": ("nre_mask_cost", 1.0),
    "stitching_yield": ("stitching_yield", 1.0),
    "transistor_density_per_mm2": ("transistor_density", MEGA),
    "active": ("active", 1.0),
}
# Its shoreline is left out: CATCH reads and never uses it.
_INTERFACE: _Fields = {
    "tx_area_mm2": ("tx_area", 1.0),
    "rx_area_mm2": ("rx_area", 1.0),
    "bandwidth_bps": ("bandwidth", GIGA),
    "wires": ("wire_count", 1.0),
    "bidirectional": ("bidirectional", 1.0),
    "energy_J_per_b": ("energy_per_bit", PICO),
    "reach_mm": ("reach", 1.0),
}
_LINK: _Fields = {
    "count": ("bb_count", 1.0),
    "demand_bps": ("bandwidth", GIGA),
    "utilisation": ("average_bandwidth_utilization", 1.0),
}

_BLANK_IS_ONE = frozenset({"aspect_ratio"})


def value_of(entry: Any, blank: float = math.nan) -> float:
    """A number, "True" or "False" as CATCH writes it; `blank` for an empty one."""
    named = {"": blank, "True": 1.0, "False": 0.0}
    return named[entry] if isinstance(entry, str) and entry in named else float(entry)


def fields(entry: Inputs, wanted: _Fields) -> dict[str, float]:
    """Our numbers of an entry of CATCH, in our units."""
    return {
        ours: factor * value_of(entry[theirs], 1.0 if ours in _BLANK_IS_ONE else math.nan)
        for ours, (theirs, factor) in wanted.items()
    }


def design_prices(wafer: Inputs) -> dict[str, float]:
    """Price of designing an area, front and back end, by the kind of circuits."""
    return {
        f"wafer_{kind}_design_price_usd_per_mm2": sum(
            value_of(wafer[f"nre_{end}_end_cost_per_mm2_{kind}"]) for end in ("front", "back")
        )
        for kind in ("memory", "logic", "analog")
    }


def stacked_layers(stackup: str) -> Iterator[str]:
    """Names of the layers of a stack such as "1:active,3:metal", each as often as it occurs."""
    for part in stackup.split(","):
        count, name = part.split(":", 1)
        yield from [name] * int(count)


def chips_of(chip: Inputs, parent: int = -1, before: int = 0) -> list[tuple[int, Inputs]]:
    """A chip and all below it, each with its parent's position; parents first."""
    found = [(parent, chip)]
    for child in chip["children"]:
        found += chips_of(child, before, before + len(found))
    return found


def catch_die(parent: int, chip: Inputs, library: Inputs) -> tuple[dict[str, int], dict[str, float], list[Any]]:
    """Codes, numbers and layers of a chip."""
    wafer = library["wafer"][chip["wafer_process"]]
    numbers_ = {
        **fields(chip, _DIE),
        **fields(wafer, _WAFER),
        **design_prices(wafer),
        **fields(library["assembly"][chip["assembly_process"]], _ASSEMBLY),
        **fields(library["test"][chip["test_process"]], _TEST),
    }
    codes = {
        "parent": parent,
        "back": int(chip["stack_side"] == "back"),
        "face_up": int(chip["orientation"] == "face-up"),
        "buried": int(value_of(chip["buried"])),
        "dies_per_wafer": GRID if value_of(wafer["wafer_fill_grid"]) else ROWS,
        "carrier": int(bool(chip["children"]) and not numbers_["core_area_mm2"]),
    }
    return codes, numbers_, [fields(library["layer"][name], _LAYER) for name in stacked_layers(chip["stackup"])]


def catch_link(net: Inputs, library: Inputs) -> dict[str, float]:
    """Numbers of a net. One of no links carries nothing, whatever it is asked for."""
    link = {**fields(library["io"][net["type"]], _INTERFACE), **fields(net, _LINK)}
    return {**link, "demand_bps": 0.0} if link["count"] == 0 else link


def catch_tables(inputs: Inputs) -> PackageTables:
    """Tables of a design of CATCH, whose inputs hold `chip` (a tree), `nets` and `lib`; dies in its order."""
    chips = chips_of(inputs["chip"])
    position = {chip["name"]: place for place, (_, chip) in enumerate(chips)}
    links = [
        (position.get(net["block0"], -1), position.get(net["block1"], -1), catch_link(net, inputs["lib"]))
        for net in inputs["nets"]
    ]
    return tables([catch_die(parent, chip, inputs["lib"]) for parent, chip in chips], links, CATCH_CONVENTIONS)


# Chiplet Actuary

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
    }


def _wafer_mm2(spec: Inputs) -> float:
    return math.pi * spec["wafer_diameter"] ** 2 / 4


def _chip_row(chip: Inputs, parent: int, spec: Inputs, made: float, modules_usd: float) -> Any:
    """A kind of chip. `modules_usd` is what its modules' design adds to one chip; `made` are such chips in all."""
    own = {"count": chip["count"], "core_area_mm2": chip_area(chip), "quantity": made, "design_usd": modules_usd * made}
    codes = {"parent": parent, "dies_per_wafer": ANALYTIC}
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
    codes = {"parent": -1, "carrier": 1, "dies_per_wafer": AREA}
    own = {
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
    codes = {"parent": 0, "carrier": 1, "dies_per_wafer": ANALYTIC}
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
