"""Architectures: the areas of their units add up, and each changes what its notes say and nothing else."""

import pytest

from sweeper.library.library import Library, builtin_specs

LIBRARY = Library.load([builtin_specs()])
FMA, FP32, INT32, FP64 = 650e-6, 1066e-6, 530e-6, 2574e-6
"""Areas in mm2 at N7, as the notes of specs/templates/architectures.yaml say."""
UNITS = {"gpu_n7": (256, 16, 16, 8), "volta": (128, 16, 16, 8), "hopper": (512, 32, 16, 16),
         "blackwell": (1024, 32, 32, 16), "cdna3": (256, 32, 32, 16)}  # fmt: skip
"""16-bit multiply-adds, and lanes of fp32, int32 and fp64, of a unit."""
PJ_PER_FMA, CLOCK_HZ = 0.59, 1.41e9


def number(template: str, name: str) -> float:
    return LIBRARY.find("template", template).values[name].number


def arithmetic(template: str) -> float:
    return sum(count * area for count, area in zip(UNITS[template], (FMA, FP32, INT32, FP64), strict=True))


@pytest.mark.parametrize("template", UNITS)
def test_units_add_up(template: str) -> None:
    rest = number("gpu_n7", "unit_area") - arithmetic("gpu_n7")
    assert number(template, "unit_area") == pytest.approx(arithmetic(template) + rest, abs=6e-5)
    assert number(template, "unit_flops") == 2 * UNITS[template][0]
    watts = UNITS[template][0] * PJ_PER_FMA * 1e-12 * CLOCK_HZ
    assert number(template, "unit_power") == pytest.approx(watts, abs=6e-5)


@pytest.mark.parametrize("template", UNITS)
def test_a_core_moves_128_bytes_of_l1_per_clock(template: str) -> None:
    banks = number(template, "core_l1") / number(template, "l1_bank")
    assert banks * number(template, "l1_bank_width") == pytest.approx(128.0, rel=1e-5)


def test_the_achieved_ladder_claims_less_than_the_public_one() -> None:
    for node in ("n5", "n3"):
        ours, claimed = (
            LIBRARY.find("technology", name).values for name in (f"achieved_{node}", f"public_{node}_from_n7")
        )
        assert ours["logic_area"].number > claimed["logic_area"].number
        same = ours.keys() - {"logic_area", "port_area", "port_power"}
        assert all(ours[name].number == pytest.approx(claimed[name].number, rel=1e-5) for name in same)
    back = LIBRARY.find("technology", "achieved_n16").values
    assert back["logic_area"].number < 1.0 / LIBRARY.find("technology", "public_n7").values["logic_area"].number


def test_cells_of_the_achieved_ladder_have_their_published_areas() -> None:
    cells = {"achieved_n16": 0.074, "achieved_n5": 0.021, "achieved_n3": 0.021}
    for name, um2 in cells.items():
        factor = LIBRARY.find("technology", name).values["sram_area"].number
        assert factor == pytest.approx(um2 / 0.027, rel=1e-5), name
