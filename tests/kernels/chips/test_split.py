"""Balanced chips: parts that fit each other, within all budgets, at one clock."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sweeper.kernels.chips.feeding import Array, feeding
from sweeper.kernels.codes import REASONS
from sweeper.words.chips import EDGE_PARTS, LEVELS
from tests.kernels.chips.test_generator import Columns, design, generate, switched
from tests.support.examples import examples

MANY = examples(60)
OF_PRODUCTS = ("gpu_n7", "volta", "hopper", "blackwell", "cdna3")
TECHNOLOGIES = ("as_template", "achieved_n16", "achieved_n5", "achieved_n3")


@st.composite
def chips(draw: st.DrawFn) -> Columns:
    """Any architecture in any process, of any size and power."""
    technology, stack = draw(st.sampled_from(TECHNOLOGIES)), draw(st.sampled_from(("hbm2e", "hbm3", "hbm4")))
    found = design(draw(st.sampled_from(OF_PRODUCTS)), technology, stack, draw(st.sampled_from(("nvlink3", "nvlink5"))))
    area = draw(st.floats(200.0, 850.0))
    found |= {"template_chip_area_mm2": area, "template_power_W": draw(st.floats(150.0, 1500.0))}
    found |= {"template_package_area_mm2": area + draw(st.floats(130.0, 1500.0))}
    return switched(found, chip_split="balanced", generated_counts=draw(st.sampled_from(("whole", "continuous"))))


@MANY
@given(chips())
def test_a_balanced_chip_keeps_its_budgets_and_its_cores_are_whole(columns: Columns) -> None:
    """Every core has the registers and the L1 that the template says. Memory, links and leakage alone exceed power."""
    chip = generate(columns)
    assert REASONS[int(chip["chip_reason"])] != "area_exceeded"
    assert chip["generated_used_mm2"] <= chip["template_chip_area_mm2"] * (1 + 1e-9)
    besides = sum(chip[f"{part}_draw_W"] for part in EDGE_PARTS) + sum(chip[f"{level}_idle_W"] for level in LEVELS)
    assert chip["generated_draw_W"] <= max(chip["template_power_W"], besides) * (1 + 1e-9)
    assume(chip["core_area_share"] > 0)
    built = chip["core_area_share"] * chip["template_chip_area_mm2"] * (1 - chip["template_other_area_share"])
    built /= chip["template_units_per_core"] * chip["template_unit_area_mm2"] * chip["technology_logic_area"]
    for level in ("register", "l1"):
        assert chip[f"{level}_capacity_B"] == pytest.approx(built * chip[f"template_core_{level}_B"], rel=1e-6)


@MANY
@given(chips())
def test_all_parts_of_a_balanced_chip_have_one_clock(columns: Columns) -> None:
    """Registers deliver what the units ask for at their clock, and no more; L1 does up to the nominal clock."""
    chip = generate(columns)
    assume(chip["generated_units"] > 0 and chip["generated_counts"] == 1.0)
    array = Array(chip["template_array_rows"], chip["template_array_columns"])
    per_flop, _ = feeding(chip["generated_units"], array, chip["register_capacity_B"])
    asked_Bps = per_flop * chip["core_flops"]
    assert chip["register_bandwidth_Bps"] >= asked_Bps * (1 - 1e-9)
    if chip["core_voltage_V"] > chip["template_threshold_voltage_V"] + chip["template_voltage_margin_V"]:
        assert chip["register_bandwidth_Bps"] == pytest.approx(asked_Bps, rel=1e-6)
    if chip["core_clock_Hz"] <= chip["template_nominal_frequency_Hz"]:
        assert chip["chip_given_peak_flops"] == pytest.approx(chip["core_flops"], rel=1e-6)


@MANY
@given(chips(), st.floats(1.0, 2.0))
def test_more_power_and_more_area_never_make_a_balanced_chip_slower(columns: Columns, more: float) -> None:
    """Where counts need not be whole, and what stands beside the chip stays."""
    columns = switched(columns, generated_counts="continuous")
    base = generate(columns)
    beside = columns["template_package_area_mm2"] - columns["template_chip_area_mm2"]
    power = generate({**columns, "template_power_W": more * columns["template_power_W"]})
    assert power["chip_given_peak_flops"] >= base["chip_given_peak_flops"] * (1 - 1e-9)
    area = more * columns["template_chip_area_mm2"]
    larger = generate({**columns, "template_chip_area_mm2": area, "template_package_area_mm2": area + beside})
    assert larger["l2_capacity_B"] >= base["l2_capacity_B"] * (1 - 1e-9)
    assert larger["core_area_share"] * area >= base["core_area_share"] * columns["template_chip_area_mm2"] * (1 - 1e-9)


def test_a_balanced_a100_is_the_a100() -> None:
    """What the template was put together from comes out of its architecture, too."""
    columns = design("gpu_n7", "as_template", "hbm2e", "nvlink3")
    given_shares, balanced = (generate(switched(columns, chip_split=how)) for how in ("given", "balanced"))
    assert balanced["generated_cores"] == given_shares["generated_cores"] == 108
    for column in ("chip_given_peak_flops", "l2_bandwidth_Bps", "memory_bandwidth_Bps", "generated_draw_W"):
        assert balanced[column] == pytest.approx(given_shares[column], rel=0.01), column
    assert [balanced[f"{level}_capacity_B"] for level in LEVELS] == [
        given_shares[f"{level}_capacity_B"] for level in LEVELS
    ]


def test_a_template_without_a_core_makes_no_balanced_chip() -> None:
    columns = design("deepflow_v100", "deepflow_n14", "deepflow_hbm2_4gb", "deepflow_inter")
    assert columns["template_core_register_B"] == 0.0
    chip = generate(switched(columns, chip_split="balanced"))
    assert chip["generated_cores"] == chip["chip_given_peak_flops"] == 0.0 and chip["chip_reason"] > 0.0


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"template_chip_area_mm2": 900.0}, "reticle_exceeded"),
        ({"template_chip_area_mm2": 900.0, "template_dies": 2.0}, ""),
        ({"template_chip_area_mm2": 900.0, "template_reticle_area_mm2": 46225.0}, ""),
        ({"template_io_area_mm2": 1000.0, "template_package_area_mm2": 1900.0}, "reticle_exceeded"),
        ({"template_io_area_mm2": 1000.0, "template_io_dies": 2.0, "template_package_area_mm2": 1900.0}, ""),
        ({"template_package_area_mm2": 9000.0}, ""),
        ({"template_interposer_area_mm2": 900.0}, "interposer_exceeded"),
        ({"template_interposer_area_mm2": 0.0}, ""),
        ({"template_package_area_mm2": 700.0}, "area_exceeded"),
        ({"template_chip_area_mm2": 5000.0, "template_reticle_area_mm2": 46225.0, "template_package_area_mm2": 6000.0},
         "interposer_exceeded"),
        ({"template_bump_pitch_mm": 0.2}, "bumps_exceeded"),
        ({"template_maximum_frequency_Hz": 1e9}, "clock_exceeded"),
        ({"template_maximum_frequency_Hz": 0.0, "template_nominal_frequency_Hz": 1e11}, ""),
        ({"template_temperature_rise_K": 10.0}, "too_hot"),
    ],
)  # fmt: skip
def test_limits(columns: Columns, reason: str) -> None:
    """Each by itself, and its override."""
    base = design("gpu_n7", "as_template", "hbm2e", "nvlink3") | {"template_package_area_mm2": 1500.0}
    assert generate(base)["chip_reason"] == 0.0
    found = generate({**base, **columns})
    assert REASONS[int(found["chip_reason"])] == reason


def test_interfaces_of_a_chip_on_io_dies_take_none_of_its_area() -> None:
    """Memory and wires lie below: the cores have the room, and the perimeter is that of the larger die."""
    alone = switched(design("cdna3", "achieved_n5", "hbm3", "pcie5"), chip_split="balanced")
    alone |= {"template_chip_area_mm2": 800.0, "template_package_area_mm2": 2000.0}
    stacked = generate({**alone, "template_io_area_mm2": 1400.0})
    found = generate(alone)
    assert stacked["generated_cores"] > found["generated_cores"]
    assert stacked["generated_interface_mm2"] == stacked["memory_used_mm2"] + stacked["outer_lane_used_mm2"]
    assert found["generated_interface_mm2"] == 0.0


def test_memory_that_lies_on_the_chip_heats_it() -> None:
    base = design("gpu_n7", "as_template", "dram_3d", "nvlink3")
    found = generate(base)
    watts = found["chip_power_W"] + found["memory_draw_W"] + found["lane_draw_W"] + found["outer_lane_draw_W"]
    assert found["memory_draw_W"] > 1.0
    rise_K = watts / base["template_chip_area_mm2"] * base["template_thermal_resistance_mm2K_per_W"]
    assert found["die_temperature_rise_K"] == pytest.approx(rise_K, rel=1e-12)


def test_the_way_to_the_l2_costs_energy_and_time_by_the_size_of_the_die() -> None:
    base = design("gpu_n7", "as_template", "hbm2e", "nvlink3")
    whole, split = (generate({**base, "template_dies": 4.0, "template_l2_per_die": own}) for own in (0.0, 1.0))
    bank = base["template_l2_energy_J_per_B"] * (1.0 + (512.0 / 960.0) ** 0.5)
    wires_s = [chip["l2_latency_s"] - 125e-9 for chip in (whole, split)]
    assert wires_s[0] == pytest.approx(2 * wires_s[1], rel=1e-6) == pytest.approx(826**0.5 * 0.6e-9, rel=1e-6)
    assert whole["l2_energy_J_per_B"] - bank == pytest.approx(2 * (split["l2_energy_J_per_B"] - bank), rel=1e-12)
    assert whole["l2_energy_J_per_B"] * 1e12 / 8 == pytest.approx(1.1, rel=1e-3)  # pJ per bit, as before


@pytest.mark.parametrize(("bank_KiB", "pJ"), [(8, 7.5), (32, 8.5), (1024, 14.0)])
def test_energy_of_a_bank_is_near_that_of_published_memories(bank_KiB: int, pJ: float) -> None:
    """Jouppi et al., ISCA 2021: words of 64 bits of SRAMs at 7 nm."""
    base = design("gpu_n7", "as_template", "hbm2e", "nvlink3") | {"template_wire_energy_J_per_B_per_mm": 0.0}
    chip = generate({**base, "template_l2_bank_B": bank_KiB * 1024.0})
    assert chip["l2_energy_J_per_B"] == pytest.approx(pJ * 1e-12 / 8, rel=0.04)


@pytest.mark.parametrize(
    ("limit", "expected_B"),
    [
        # 0.7 of what banks deliver: 80 of 64 B; of 108 ports of 32 B; of 108 reads of 1 KiB every 142.245 ns.
        ({}, 0.7 * 80 * 64 * 1.41e9),
        ({"template_core_l2_width_B": 32.0}, 0.7 * 108 * 32 * 1.41e9),
        ({"template_core_in_flight_B": 1024.0}, 0.7 * 108 * 1024 / 142.2448e-9),
    ],
)
def test_what_limits_the_l2_counted_by_hand(limit: Columns, expected_B: float) -> None:
    base = design("gpu_n7", "as_template", "hbm2e", "nvlink3") | {"template_l2_power_share": 0.16}
    assert generate({**base, **limit})["l2_bandwidth_Bps"] == pytest.approx(expected_B, rel=1e-5)


@MANY
@given(chips(), st.floats(1.0, 40.0))
def test_an_l2_that_serves_more_area_is_slower_dearer_and_asked_less(columns: Columns, factor: float) -> None:
    """Per core, by Little's law: what a core has under way comes back later."""
    area = columns["template_chip_area_mm2"]
    reticle = {"template_reticle_area_mm2": 1e5, "template_package_area_mm2": 1e6}
    less = generate({**columns, **reticle})
    more = generate({**columns, **reticle, "template_chip_area_mm2": area * factor})
    assume(less["generated_cores"] > 0)
    assert more["l2_latency_s"] >= less["l2_latency_s"] and more["l2_energy_J_per_B"] >= less["l2_energy_J_per_B"]
    for chip in (less, more):
        under_way = chip["l2_bandwidth_Bps"] / chip["template_l2_utilisation"] * chip["l2_latency_s"]
        assert under_way <= chip["generated_cores"] * chip["template_core_in_flight_B"] * (1 + 1e-9)


@MANY
@given(chips(), st.sampled_from(("register", "l1")), st.floats(1.0, 16.0))
def test_cores_that_hold_more_pay_more_for_every_byte(columns: Columns, level: str, factor: float) -> None:
    held = f"template_core_{level}_B"
    less, more = generate(columns), generate({**columns, held: columns[held] * factor})
    assume(min(less["generated_cores"], more["generated_cores"]) > 0)
    assert more[f"{level}_energy_J_per_B"] >= less[f"{level}_energy_J_per_B"] * (1 - 1e-12)
