"""A better number never hurts what it is for: every number of a generated chip that has a better side, a property each.

Everything else stays: shares, budgets, switches. All units run (`throttled`), so that a change of power is no change of
their number.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.codes import REASON
from sweeper.words.chips import LEVELS
from tests.kernels.chips.test_generator import (
    GROWTH,
    OF_CORE,
    OWN_AREA,
    Columns,
    design,
    designs,
    generate,
    never_less,
    switched,
)
from tests.support.examples import examples

SOME = examples(40)
MORE, LESS = 1.0, -1.0
"""Which side is the better one."""
Case = tuple[str, float, tuple[str, ...]]
BANDWIDTHS = tuple(f"{level}_bandwidth_Bps" for level in LEVELS)
CAPACITIES = tuple(f"{level}_capacity_B" for level in LEVELS)
LINKS = {"lane": ("link_bandwidth_Bps",), "outer_lane": ("outer_link_bandwidth_Bps",)}

OF_UNITS: list[Case] = [
    ("template_unit_flops", MORE, ("core_flops",)),
    ("template_unit_area_mm2", LESS, OF_CORE),
    ("template_unit_power_W", LESS, ("core_flops", "core_clock_Hz")),
    ("template_nominal_frequency_Hz", MORE, ("core_flops", "core_clock_Hz", *BANDWIDTHS)),
    ("template_maximum_voltage_V", MORE, ("core_flops", "core_voltage_V")),
]
OF_LEVELS: list[Case] = [
    case
    for level in LEVELS
    for case in (
        (f"template_{level}_cell_area_mm2_per_B", LESS, (f"{level}_capacity_B",)),
        (f"template_{level}_overhead", LESS, (f"{level}_capacity_B",)),
        (f"template_{level}_port_area_mm2", LESS, (f"{level}_capacity_B",)),
        (f"template_{level}_port_power_W", LESS, (f"{level}_bandwidth_Bps",)),
        (f"template_{level}_energy_J_per_B", LESS, (f"{level}_bandwidth_Bps",)),
        (f"template_{level}_static_power_W_per_B", LESS, (f"{level}_bandwidth_Bps",)),
        (f"template_{level}_bank_width_B", MORE, (f"{level}_bandwidth_Bps",)),
    )
]
OF_DISTANCE: list[Case] = [
    ("template_wire_energy_J_per_B_per_mm", LESS, BANDWIDTHS),
    ("template_energy_doubling_bank_B", MORE, BANDWIDTHS),
    ("template_wire_delay_s_per_mm", LESS, ("l2_bandwidth_Bps",)),
    ("template_l2_access_s", LESS, ("l2_bandwidth_Bps",)),
    ("template_core_in_flight_B", MORE, ("l2_bandwidth_Bps",)),
    ("template_core_l2_width_B", MORE, ("l2_bandwidth_Bps",)),
]
OF_STACKS: list[Case] = [
    ("stack_capacity_B", MORE, ("memory_capacity_B",)),
    ("stack_area_mm2", LESS, OWN_AREA["memory"]),
    ("stack_controller_area_mm2", LESS, OWN_AREA["memory"]),
    ("stack_wires_per_mm", MORE, OWN_AREA["memory"]),
    ("stack_wire_rate_Bps", MORE, ("memory_bandwidth_Bps",)),
    ("stack_energy_J_per_B", LESS, ("memory_bandwidth_Bps",)),
    ("stack_static_power_W_per_B", LESS, ("memory_bandwidth_Bps",)),
]
OF_LANES: list[Case] = [
    case
    for lane, carried in LINKS.items()
    for case in (
        (f"{lane}_area_mm2", LESS, carried),
        (f"{lane}_wires_per_mm", MORE, carried),
        (f"{lane}_wire_rate_Bps", MORE, carried),
        (f"{lane}_energy_J_per_B", LESS, carried),
    )
]
OF_PROCESS: list[Case] = [
    ("technology_logic_area", LESS, OF_CORE),
    ("technology_logic_power", LESS, ("core_flops", "core_clock_Hz")),
    ("technology_sram_area", LESS, CAPACITIES),
    ("technology_sram_energy", LESS, BANDWIDTHS),
    ("technology_sram_static_power", LESS, BANDWIDTHS),
    ("technology_port_area", LESS, CAPACITIES),
    ("technology_port_power", LESS, BANDWIDTHS),
    ("technology_controller_area", LESS, OWN_AREA["memory"]),
    ("technology_lane_area", LESS, (*LINKS["lane"], *LINKS["outer_lane"])),
    ("technology_lane_energy", LESS, (*LINKS["lane"], *LINKS["outer_lane"])),
]
NUMBERS = [*OF_UNITS, *OF_LEVELS, *OF_DISTANCE, *OF_STACKS, *OF_LANES, *OF_PROCESS]
LIMITS: list[tuple[str, float]] = [
    ("template_reticle_area_mm2", MORE),
    ("template_interposer_area_mm2", MORE),
    ("template_bump_pitch_mm", LESS),
    ("template_bump_current_A", MORE),
    ("template_maximum_frequency_Hz", MORE),
    ("template_temperature_rise_K", MORE),
    ("template_thermal_resistance_mm2K_per_W", LESS),
    ("template_dies", MORE),
]


@pytest.mark.parametrize(("name", "better", "bought"), NUMBERS, ids=[name for name, *_ in NUMBERS])
@SOME
@given(columns=designs(voltage_floor="throttled"), factor=GROWTH)
def test_a_better_number_never_hurts(
    name: str, better: float, bought: tuple[str, ...], columns: Columns, factor: float
) -> None:
    never_less(generate(columns), generate({**columns, name: columns[name] * factor**better}), bought)


@st.composite
def limited(draw: st.DrawFn) -> Columns:
    """An A100-like chip near its limits."""
    found = design("gpu_n7", "as_template", "hbm2e", "nvlink3") | {"template_package_area_mm2": 1500.0}
    around = st.floats(0.3, 3.0)
    scaled = {name: found[name] * draw(around) for name, _ in LIMITS if name != "template_dies"}
    return switched({**found, **scaled, "template_power_W": 400.0 * draw(around)}, chip_split="balanced")


@pytest.mark.parametrize(("name", "better"), LIMITS, ids=[name for name, _ in LIMITS])
@SOME
@given(columns=limited(), factor=st.sampled_from([1.5, 2.0, 4.0]))
def test_a_wider_limit_never_forbids(name: str, better: float, columns: Columns, factor: float) -> None:
    """More dies are smaller ones."""
    wider = factor if name != "template_dies" else 2.0
    before, after = (generate({**columns, name: value}) for value in (columns[name], columns[name] * wider**better))
    if before["generated_limit"] == REASON.feasible:
        assert after["generated_limit"] == REASON.feasible


def test_there_are_as_many_properties_as_numbers_with_a_better_side() -> None:
    assert len(NUMBERS) + len(LIMITS) >= 60
    assert len({name for name, *_ in NUMBERS}) == len(NUMBERS)
