"""Packages that CATCH has priced, as tables of our kernel.

Source: CATCH (UCLA), commit d60dafb. A file of designs holds all inputs of a package and what the program found of its
root; a file of dies what it found of every die.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from replications.published_tables import Inputs
from replications.tables import PackageTables, tables
from sweeper.kernels.packages.wafer import GRID, ROWS

YEAR_S = 31_536_000.0
GIGA, MEGA, PICO = 1e9, 1e6, 1e-12

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
    chips = [(parent, chip)]
    for child in chip["children"]:
        chips += chips_of(child, before, before + len(chips))
    return chips


def catch_die(parent: int, chip: Inputs, library: Inputs) -> tuple[dict[str, int], dict[str, float], list[Any]]:
    """Codes, numbers and layers of a chip."""
    wafer = library["wafer"][chip["wafer_process"]]
    numbers_ = {
        "wafer_dies_per_wafer": float(GRID if value_of(wafer["wafer_fill_grid"]) else ROWS),
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
