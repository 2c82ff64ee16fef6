"""Templates, technologies, stacks and lanes that come with the package: sourced, ordered, equal to what they quote, and
generating what they say."""

import math
from collections.abc import Mapping
from itertools import pairwise

import pytest

from sweeper.engine.program import choose
from sweeper.kernels.codes import SWITCHES
from sweeper.kernels.models import GENERATING
from sweeper.library.library import Library, builtin_specs
from sweeper.words.chips import AREA_PARTS, EDGE_PARTS, LANE, STACK, TECHNOLOGY, TEMPLATE
from sweeper.words.system import GRADES

KINDS = ("template", "technology", "stack", "lane")
GIB = 2**30

pytestmark = pytest.mark.skipif(not builtin_specs().is_dir(), reason="no built-in library")


@pytest.fixture(scope="module")
def library() -> Library:
    return Library.load([builtin_specs()])


def number(library: Library, kind: str, name: str, key: str) -> float:
    return library.find(kind, name).values[key].number


def ladder(library: Library, tag: str, kind: str = "technology") -> list[str]:
    """Entries of a ladder, first step first."""
    return [entry.name for entry in library.select(kind, tags=(tag,))]


def test_numbers_have_source_grade_and_range(library: Library) -> None:
    for kind in KINDS:
        for entry in library.select(kind):
            assert (entry.description and entry.tags) or entry.name == "as_template", entry.name
            for key, value in entry.values.items():
                assert value.source and value.grade in GRADES, (entry.name, key)
                unknown = math.isnan(value.number) and "price" in key
                assert unknown or value.low <= value.number <= value.high, (entry.name, key)


def test_what_the_vocabulary_requires_or_a_chip_depends_on_is_said_by_the_entries(library: Library) -> None:
    for kind, attributes in (("template", TEMPLATE), ("stack", STACK), ("lane", LANE)):
        needed = [key for key, attribute in attributes.items() if attribute.default is None]
        needed += [key for key in ("latency", "wires_per_mm", "voltage_margin") if key in attributes]
        needed += [f"{part}_area_share" for part in AREA_PARTS] if kind == "template" else []
        for name in library.names(kind):
            values = library.find(kind, name).values
            assert all(values[key].source != "default of the vocabulary" for key in needed), name


# Ladders: the stated factors of a step, multiplied again.

PAPER = {"logic_area": 1 / 1.8, "logic_power": 1 / 1.3, "sram_area": 1 / 1.8, "sram_energy": 1 / 1.3,
         "port_area": 1 / 1.8, "port_power": 1 / 1.3}  # fmt: skip
"""DeepFlow, section 9: area 1.8x and power 1.3x per node."""
DEEPFLOW = {"logic_area": 0.67, "logic_power": 0.54, "voltage": 0.9, "sram_area": 0.67, "sram_energy": 0.54,
            "port_area": 0.67, "port_power": 0.54, "controller_area": 0.9}  # fmt: skip
"""Its program: tech-node-scaling.py."""


@pytest.mark.parametrize(("tag", "step"), [("paper_ladder", PAPER), ("deepflow_ladder", DEEPFLOW)])
def test_every_step_of_a_regular_ladder_multiplies_by_its_factors(
    library: Library, tag: str, step: Mapping[str, float]
) -> None:
    names = ladder(library, tag)
    assert len(names) == 7
    for i, name in enumerate(names):
        for key in TECHNOLOGY:
            assert number(library, "technology", name, key) == pytest.approx(step.get(key, 1.0) ** i, rel=1e-9)


def test_the_stalled_ladder_is_the_papers_but_for_cells_beyond_n5(library: Library) -> None:
    for i, (paper, stalled) in enumerate(
        zip(ladder(library, "paper_ladder"), ladder(library, "paper_stalled_ladder"), strict=True)
    ):
        for key in TECHNOLOGY:
            steps = min(i, 2) if key == "sram_area" else i
            assert number(library, "technology", stalled, key) == pytest.approx(PAPER.get(key, 1.0) ** steps, rel=1e-9)
            if key != "sram_area":
                assert number(library, "technology", stalled, key) == number(library, "technology", paper, key)


def test_the_ladder_of_published_cells_has_the_papers_logic(library: Library) -> None:
    """From N7; cells in um2, the energy of an access by their side, crossbars half logic and half wires."""
    cells = {"n12": 0.074, "n7": 0.027, "n5": 0.021, "n3": 0.021, "n2": 0.0175, "n1_4": 0.0175, "n1": 0.0175}
    names = ladder(library, "paper_cells_ladder")
    assert names == [f"paper_cells_{node}" for node in cells]
    for i, (name, cell_um2) in enumerate(zip(names, cells.values(), strict=True)):
        steps, cell = i - 1, cell_um2 / cells["n7"]
        expected = {key: PAPER[key] ** steps for key in ("logic_area", "logic_power")}
        expected |= {key: PAPER[key] ** (steps / 2) for key in ("port_area", "port_power")}
        expected |= {"sram_area": cell, "sram_energy": cell**0.5}
        for key in TECHNOLOGY:
            assert number(library, "technology", name, key) == pytest.approx(expected.get(key, 1.0), rel=1e-6), key


CLAIMS: dict[str, tuple[str, float, float, float, float]] = {
    "n10": ("n16", 2.0, 0.65, 0.042, 0.75),
    "n7": ("n10", 1.6, 0.60, 0.027, 0.75),
    "n5": ("n7", 1.84, 0.70, 0.021, 0.75),
    "n3": ("n5", 1.6, 0.66, 0.021, 0.75),
    "n2": ("n3", 1.15, (0.70 + 0.75) / 2, 0.0175, 0.70),
    "a16": ("n2", (1.07 + 1.10) / 2, (0.90 + 0.95) / 2 * (0.80 + 0.85) / 2, 0.0175, 0.70),
    "a14": ("n2", 1.23, (0.70 + 0.75) / 2, 0.0175, 0.70),
}
"""TSMC's processes: the one compared with, logic density and power against it, cell in um2, nominal voltage."""
FIRST_CELL_UM2, FIRST_VOLTAGE = 0.074, 0.8
"""Those of N16."""


def since(node: str, first: str) -> list[str]:
    """Processes from the one after `first` to `node`."""
    return [] if node == first else [*since(CLAIMS[node][0], first), node]


@pytest.mark.parametrize(
    ("tag", "first", "suffix"), [("public_ladder", "n16", ""), ("public_n7_ladder", "n7", "_from_n7")]
)
def test_the_public_ladder_multiplies_the_claims(library: Library, tag: str, first: str, suffix: str) -> None:
    names = ladder(library, tag)
    wanted = [name for name in ("n16", *CLAIMS) if name == first or first in [CLAIMS[n][0] for n in since(name, "n16")]]
    assert names == [f"public_{name}{suffix}" for name in wanted]
    cell, voltage = CLAIMS[first][3:] if first in CLAIMS else (FIRST_CELL_UM2, FIRST_VOLTAGE)
    for name, entry in zip(wanted[1:], names[1:], strict=True):
        steps = [CLAIMS[step] for step in since(name, first)]
        area = math.prod(1 / step[1] for step in steps)
        power = math.prod(step[2] for step in steps)
        smaller, volts = steps[-1][3] / cell, steps[-1][4] / voltage
        found = {key: value.number for key, value in library.find("technology", entry).values.items()}
        expected = {
            "logic_area": area, "logic_power": power, "voltage": volts, "sram_area": smaller,
            "sram_energy": math.sqrt(smaller) * volts**2, "port_area": math.sqrt(area), "port_power": math.sqrt(power),
        }  # fmt: skip
        for key, value in expected.items():
            assert found[key] == pytest.approx(value, rel=1e-5), (entry, key)


@pytest.mark.parametrize(
    "tag", ["paper_ladder", "paper_stalled_ladder", "deepflow_ladder", "public_ladder", "public_n7_ladder"]
)
def test_finer_nodes_are_never_larger_and_never_take_more(library: Library, tag: str) -> None:
    names = ladder(library, tag)
    for key in TECHNOLOGY:
        found = [number(library, "technology", name, key) for name in names]
        assert found[0] == 1.0
        assert all(coarse >= fine for coarse, fine in pairwise(found)), (tag, key, found)
    for key in ("logic_area", "logic_power"):
        found = [number(library, "technology", name, key) for name in names]
        assert all(coarse > fine for coarse, fine in pairwise(found)), (tag, key, found)


def test_memory_cells_stall_in_the_public_ladder(library: Library) -> None:
    sram = {
        name: number(library, "technology", f"public_{name}", "sram_area") for name in ("n7", "n5", "n3", "n2", "a16")
    }
    logic = {name: number(library, "technology", f"public_{name}", "logic_area") for name in sram}
    assert sram["n3"] == sram["n5"]
    assert sram["a16"] == sram["n2"]
    assert 0.8 < sram["n2"] / sram["n3"] < 1.0
    assert all(sram[fine] / sram["n7"] > logic[fine] / logic["n7"] for fine in ("n5", "n3", "n2", "a16"))


def test_interfaces_shrink_less_than_logic(library: Library) -> None:
    for tag in ("public_ladder", "public_n7_ladder"):
        for name in ladder(library, tag)[1:]:
            values = library.find("technology", name).values
            for key in ("controller_area", "lane_area", "lane_energy"):
                assert values[key].number > values["logic_area"].number, (name, key)


# Devices and wires.


def stack_Bps(library: Library, name: str) -> float:
    return number(library, "stack", name, "wires") * number(library, "stack", name, "wire_rate")


@pytest.mark.parametrize(
    ("name", "rate_GBps"),
    [("hbm1", 128), ("hbm2", 256), ("hbm2e", 409.6), ("hbm3", 819.2), ("hbm3e", 1177.6), ("hbm4", 2048), ("ddr4", 25.6),
     ("ddr5", 51.2), ("lpddr5x", 68.264), ("gddr5", 32), ("gddr6", 64), ("gddr6x", 84), ("gddr7", 128),
     ("dram_3d", 153.6)],
)  # fmt: skip
def test_devices_have_the_bandwidth_of_their_standard(library: Library, name: str, rate_GBps: float) -> None:
    assert stack_Bps(library, name) == pytest.approx(rate_GBps * 1e9)


def test_generations_of_stacks_get_faster_and_larger(library: Library) -> None:
    generations = ("hbm1", "hbm2", "hbm2e", "hbm3", "hbm3e", "hbm4")
    assert set(generations) == set(ladder(library, "hbm_ladder", "stack"))
    for old, new in pairwise(generations):
        assert stack_Bps(library, old) < stack_Bps(library, new)
        for key in ("capacity", "area", "controller_area", "price"):
            assert number(library, "stack", old, key) <= number(library, "stack", new, key), (old, new, key)
        assert number(library, "stack", old, "energy") >= number(library, "stack", new, "energy"), (old, new)


def test_only_stacks_on_the_chip_need_no_edge(library: Library) -> None:
    for name in library.names("stack"):
        on_chip = number(library, "stack", name, "on_chip") == 1.0
        assert on_chip == (number(library, "stack", name, "wires_per_mm") == 0.0) == name.startswith("dram_3d")


@pytest.mark.parametrize(
    ("lane", "count", "link"),
    [("nvlink2", 48, "nvlink2"), ("nvlink3", 48, "nvlink3"), ("nvlink4", 36, "nvlink4"), ("nvlink5", 36, "nvlink5"),
     ("pcie4", 16, "pcie4"), ("pcie5", 16, "pcie5_x16"), ("pcie6", 16, "pcie6"), ("pcie7", 16, "pcie7"),
     ("ucie_standard", 16, "ucie_standard"), ("ucie_advanced", 64, "ucie_advanced"), ("ndr_lane", 8, "ndr_x8"),
     ("xdr_lane", 8, "xdr_x8"), ("gdr_lane", 8, "gdr_x8"), ("gdr_lane", 4, "gdr")],
)  # fmt: skip
def test_lanes_add_up_to_the_links_of_the_library(library: Library, lane: str, count: int, link: str) -> None:
    values = library.find("lane", lane).values
    rate = count * values["wire_rate"].number * values["utilisation"].number
    assert rate == pytest.approx(number(library, "link", link, "bandwidth"), rel=0.02)


def test_the_networks_of_the_papers(library: Library) -> None:
    found = [number(library, "link", f"infiniband_{name}_x8", "bandwidth") for name in ("ndr", "xdr", "gdr")]
    assert found == [100e9, 200e9, 400e9]


def test_wires_cost_less_energy_the_shorter_they_are(library: Library) -> None:
    for kind in (("pluggable_200g", "cpo_200g"), ("pcb", "mcm", "interposer", "wafer_scale")):
        found = [number(library, "lane", name, "energy") for name in kind]
        assert all(far > near for far, near in pairwise(found)), kind


# Templates.


def test_shares_of_a_template_fit_its_budgets(library: Library) -> None:
    for name in library.names("template"):
        values = {key: value.number for key, value in library.find("template", name).values.items()}
        assert sum(values[f"{part}_area_share"] for part in AREA_PARTS) <= 1.0, name
        assert sum(values[f"{part}_power_share"] for part in AREA_PARTS) <= 1.0 + 1e-12, name
        edges = sum(values[f"{part}_edge_share"] for part in EDGE_PARTS)
        assert edges == pytest.approx(1.2) if name == "deepflow_p4" else edges <= 1.0, name
        assert values["nominal_voltage"] > values["threshold_voltage"] + values["voltage_margin"], name


PUBLISHED = dict.fromkeys(SWITCHES, 0.0)
AS_IN_2021 = {**PUBLISHED, "voltage_floor": 1.0, "cache_network": 1.0, "memory_devices": 1.0}
"""Codes of switches: first choices, and those of DeepFlow's program."""


def generated(library: Library, switches: Mapping[str, float], **roles: str) -> dict[str, float]:
    """All columns of the generator for entries that fill its roles."""
    columns = dict(switches)
    for role, name in roles.items():
        kind, vocabulary = {
            "template": ("template", TEMPLATE), "technology": ("technology", TECHNOLOGY), "stack": ("stack", STACK),
            "lane": ("lane", LANE), "outer_lane": ("lane", LANE),
        }[role]  # fmt: skip
        values = library.find(kind, name).values
        columns |= {f"{role}_{vocabulary[key].column}": values[key].number for key in vocabulary}
    columns |= {"dim_x": 1.0, "dim_y": 1.0, "dim_z": 1.0, "link_bandwidth_Bps": 0.0, "outer_link_bandwidth_Bps": 0.0}
    waiting = set(choose({"chip_split": "given"}, GENERATING).values())
    while ready := {equation for equation in waiting if all(name in columns for name in equation.inputs)}:
        for equation in ready:
            results = equation(columns)
            results = results if isinstance(results, tuple) else (results,)
            columns |= {output.name: value for output, value in zip(equation.outputs, results, strict=True)}
        waiting -= ready
    return columns


@pytest.mark.parametrize(
    ("stack", "printed_TiBps"),
    [("deepflow_hbm1", 0.9), ("deepflow_hbm2", 1.3), ("deepflow_hbm2e_8", 1.5), ("deepflow_hbm2e_12", 2.5),
     ("deepflow_hbm2e_16", 3.9)],
)  # fmt: skip
def test_the_stacks_of_deepflow_give_the_bandwidths_that_it_prints(
    library: Library, stack: str, printed_TiBps: float
) -> None:
    chip = generated(library, AS_IN_2021, template="deepflow_v100", technology="as_template", stack=stack)
    assert round(chip["memory_bandwidth_Bps"] / 2**40, 1) == printed_TiBps


def a100(library: Library, technology: str) -> dict[str, float]:
    return generated(
        library, PUBLISHED, template="gpu_n7", technology=technology, stack="hbm2e", lane="interposer",
        outer_lane="nvlink3",
    )  # fmt: skip


@pytest.fixture(scope="module")
def a100_like(library: Library) -> dict[str, float]:
    return a100(library, "as_template")


@pytest.mark.parametrize(
    ("column", "real", "tolerance"),
    [
        ("generated_units", 432, 0.0),
        ("generated_cores", 108, 0.0),
        ("core_clock_Hz", 1.41e9, 0.01),
        ("chip_given_peak_flops", 312e12, 0.01),
        ("register_capacity_B", 27 * 2**20, 0.0),
        ("l1_capacity_B", 20.25 * 2**20, 0.0),
        ("l1_bandwidth_Bps", 19.49e12, 0.01),
        ("l2_capacity_B", 40 * 2**20, 0.0),
        ("l2_bandwidth_Bps", 5.0e12, 0.05),
        ("memory_stacks", 5, 0.0),
        ("memory_capacity_B", 80 * GIB, 0.0),
        ("memory_bandwidth_Bps", 2039e9, 0.01),
        ("outer_link_bandwidth_Bps", 300e9, 0.01),
        ("generated_draw_W", 400, 0.01),
    ],
)
def test_the_public_template_generates_an_a100(
    a100_like: Mapping[str, float], column: str, real: float, tolerance: float
) -> None:
    assert a100_like[column] == pytest.approx(real, rel=tolerance, abs=0.0)


def test_the_public_template_keeps_its_budgets_and_leaves_the_spare_area(a100_like: Mapping[str, float]) -> None:
    assert a100_like["chip_reason"] == 0.0
    spare = 476.25 - 108 * 3.75 + 119.31 * 16 / 96 + 40.0
    parts = a100_like["generated_used_mm2"] - a100_like["template_other_area_share"] * 826
    assert 826 - parts == pytest.approx(spare + 58 / 6 + 31.77 / 6, abs=5.0)


def test_finer_nodes_generate_faster_chips_within_the_same_budgets(library: Library) -> None:
    chips = [a100(library, name) for name in ladder(library, "public_n7_ladder")]
    assert all(chip["chip_reason"] == 0.0 for chip in chips)
    leakage = 1e-3  # of further banks, which takes from the bandwidth where energies do not fall
    for key, loss in (("core_flops", 0.0), ("l2_capacity_B", 0.0), ("l2_bandwidth_Bps", leakage)):
        assert all(coarse[key] * (1.0 - loss) <= fine[key] for coarse, fine in pairwise(chips)), key
