"""The libraries of the cost model that come with the package: sourced, ordered, and equal to what they quote."""

import math
from itertools import pairwise

import pytest

from sweeper.library.entries import Entry
from sweeper.library.library import Library, builtin_specs
from sweeper.words.system import GRADES

KINDS = ("node", "wafer", "assembly", "test", "interface")
WORDS = {
    "yield_model": ("negative_binomial", "poisson", "murphy", "seeds", "bose_einstein"),
    "dies_per_wafer": ("grid", "rows", "analytic", "area"),
}
LOGIC = ("n180", "n130", "n90", "n65", "n40", "n28", "n20", "n16", "n10", "n7", "n5", "n3", "n2")
WAFER_MM2 = math.pi * 150.0**2


@pytest.fixture(scope="module")
def library() -> Library:
    return Library.load([builtin_specs()])


def number(library: Library, kind: str, name: str, key: str) -> float:
    return library.find(kind, name).values[key].number


def entries(library: Library) -> list[Entry]:
    return [entry for kind in KINDS for entry in library.select(kind)]


def test_there_are_enough(library: Library) -> None:
    counts = {kind: len(library.names(kind)) for kind in KINDS}
    assert all(counts[kind] >= least for kind, least in zip(KINDS, (60, 10, 20, 20, 35), strict=True)), counts


def test_numbers_have_source_grade_and_range(library: Library) -> None:
    for entry in entries(library):
        for key, value in entry.values.items():
            assert value.source and value.grade in GRADES, (entry.name, key)
            assert math.isnan(value.number) or value.low <= value.number <= value.high, (entry.name, key)


def test_words_are_known(library: Library) -> None:
    for entry in entries(library):
        for key, node in entry.body.items():
            assert node.plain() in WORDS[key], (entry.name, key)
    assert {entry.kind for entry in entries(library) if entry.body} == {"node", "wafer"}


def test_public_nodes_say_what_the_model_needs(library: Library) -> None:
    needed = ("wafer_price", "defect_density", "clustering", "litho_share", "mask_set", "transistor_density",
              "design_price", "chip_design_price", "chip_fixed_price", "carbon", "fab_energy")  # fmt: skip
    for name in LOGIC:
        values = library.find("node", name).values
        for key in needed:
            assert values[key].number > 0, (name, key)
            assert values[key].source != "default of the vocabulary", (name, key)


@pytest.mark.parametrize(
    "key", ["wafer_price", "mask_set", "transistor_density", "design_price", "chip_fixed_price", "carbon"]
)
def test_finer_nodes_cost_more_per_area(library: Library, key: str) -> None:
    for bound in ("low", "number", "high"):
        found = [getattr(library.find("node", name).values[key], bound) for name in LOGIC]
        assert all(coarse <= fine for coarse, fine in pairwise(found)), (bound, found)


def test_finer_nodes_take_more_electricity(library: Library) -> None:
    found = [number(library, "node", name, "fab_energy") for name in LOGIC]
    assert all(coarse <= fine for coarse, fine in pairwise(found))


def test_finer_nodes_cost_less_per_transistor_until_3_nm(library: Library) -> None:
    per_transistor = [
        number(library, "node", name, "wafer_price") / number(library, "node", name, "transistor_density")
        for name in LOGIC[:10]
    ]
    assert all(coarse > fine for coarse, fine in pairwise(per_transistor))


def test_design_is_split_as_actuary_does(library: Library) -> None:
    for name in LOGIC:
        module, chip, fixed = (
            number(library, "node", name, key) for key in ("design_price", "chip_design_price", "chip_fixed_price")
        )
        assert module / chip == pytest.approx(5 / 3, rel=0.01)
        assert fixed / module == pytest.approx(0.2 / (0.5 / 300), rel=0.01)


@pytest.mark.parametrize("alias", ["n14", "n12", "n22", "n45", "n4", "n6", "lsi_bridge", "hbm4_base", "hbm3e_base"])
def test_aliases_of_nodes(library: Library, alias: str) -> None:
    assert library.find("node", alias).name != alias


def test_carriers_have_no_transistors(library: Library) -> None:
    passive = {entry.name for entry in library.select("node") if entry.values["active"].number == 0}
    assert passive >= {"silicon_interposer", "silicon_bridge", "rdl_interposer", "cowos_l_interposer", "dummy_silicon",
                       "organic_interposer", "organic_substrate", "glass_interposer", "glass_core_substrate",
                       "catch_combined_interposer_silicon", "actuary_si", "actuary_rdl", "actuary_organic"}  # fmt: skip
    assert passive.isdisjoint((*LOGIC, "hbm3e_dram", "hbm_base", "catch_combined_5nm", "actuary_7"))


def test_public_carbon_of_7_nm_is_that_of_act(library: Library) -> None:
    values = library.find("node", "n7").values
    assert values["fab_energy"].number == pytest.approx(2.15 * 3.6e6 / 100)
    assert (values["carbon"].low, values["carbon"].high) == pytest.approx((0.7e-2, 0.85e-2))


@pytest.mark.parametrize(
    ("name", "price_usd_per_mm2", "wafer_usd"),
    [
        ("combined_3nm", 0.29461, 20825),
        ("combined_5nm", 0.25024, 17688),
        ("combined_7nm", 0.132219, 9346),
        ("combined_10nm", 0.084769, 5992),
        ("combined_12nm", 0.05636207, 3984),
        ("combined_40nm", 0.033497, 2368),
        ("combined_hbm_7nm", 1.10136, 77850),
        ("combined_interposer_silicon", 0.021905, 1548),
        ("combined_interposer_organic", 5.382e-7, 0.04),
        ("organic_substrate", 1e-4, 7),
        ("5nm_global_metal", 0.01, 707),
    ],
)
def test_catch_wafers(library: Library, name: str, price_usd_per_mm2: float, wafer_usd: float) -> None:
    values = library.find("node", f"catch_{name}").values
    assert values["wafer_price"].number == price_usd_per_mm2 * math.pi * 150.0**2
    assert values["wafer_price"].number == pytest.approx(wafer_usd, abs=1)
    assert values["price_diameter"].number == 300


@pytest.mark.parametrize(
    ("kind", "name", "key", "expected"),
    [
        ("node", "catch_combined_5nm", "defect_density", 0.005),
        ("node", "catch_combined_5nm", "critical_area_ratio", 0.67),
        ("node", "catch_combined_5nm", "clustering", 2),
        ("node", "catch_combined_5nm", "transistor_density", 117.3e6),
        ("node", "catch_combined_5nm", "litho_share", 0.3),
        ("node", "catch_combined_5nm", "mask_set", 3e6),
        ("node", "catch_combined_3nm_0.01", "defect_density", 0.01),
        ("node", "catch_combined_interposer_silicon", "defect_density", 1e-5),
        ("node", "catch_5nm_advanced_metal", "stitching_yield", 0.95),
        ("wafer", "catch_process_1", "scribe", 0.13),
        ("wafer", "catch_process_1", "logic_design_price", 1e5),
        ("wafer", "catch_maskless_interposer_process", "diameter", 600),
        ("wafer", "catch_maskless_interposer_process", "reticle_y", 200),
        ("assembly", "catch_silicon_individual_bonding", "pick_machine_price", 1.8e6),
        ("assembly", "catch_silicon_individual_bonding", "pick_machine_life", 5 * 31536000),
        ("assembly", "catch_silicon_individual_bonding", "pick_operator_price", 1e5 / 31536000),
        ("assembly", "catch_silicon_individual_bonding", "pitch", 0.01),
        ("assembly", "catch_organic_simultaneous_bonding", "bond_group", 64),
        ("assembly", "catch_organic_simultaneous_bonding", "current_density", 100),
        ("assembly", "catch_w2w_hybrid_bonding", "bond_yield", 0.99999999),
        ("assembly", "catch_w2w_hybrid_bonding", "bond_defect_density", 1e-4),
        ("assembly", "catch_dummy_assembly_process", "pick_machine_life", 31536000),
        ("test", "catch_KGD_free_test", "self_patterns", 0),
        ("test", "catch_free_test_0.36", "self_coverage", 0.5),
        ("test", "catch_free_test_0.99", "self_chain_length", 5e5),
        ("test", "catch_notest", "assembly_tested", 0),
        ("interface", "catch_UCIe_advanced", "tx_area", 0.4055184),
        ("interface", "catch_UCIe_advanced", "bandwidth", 4.096e12),
        ("interface", "catch_UCIe_advanced", "energy", 1e-24),
        ("interface", "catch_2Gbs_500vCDM_2mm", "rx_area", 0.00019785),
        ("interface", "catch_2Gbs_100vCDM_20mm", "reach", 20),
        ("interface", "catch_2Gbs_100vCDM_20mm", "energy", 1e-15),
        ("node", "actuary_3", "wafer_price", 30000),
        ("node", "actuary_7", "defect_density", 0.0009),
        ("node", "actuary_7", "clustering", 10),
        ("node", "actuary_7", "design_price", 0.5 * 29.8e7 / 300),
        ("node", "actuary_7", "chip_design_price", 0.3 * 29.8e7 / 300),
        ("node", "actuary_7", "chip_fixed_price", 0.2 * 29.8e7),
        ("node", "actuary_55", "design_price", 0.5 * 2.8e7 / 300),
        ("node", "actuary_si", "clustering", 6),
        ("node", "actuary_rdl", "wafer_price", 1200),
        ("node", "actuary_organic", "wafer_price", 0.005 * WAFER_MM2),
        ("node", "actuary_organic_1_75", "wafer_price", 0.005 * 1.75 * WAFER_MM2),
        ("wafer", "actuary_wafer", "edge_exclusion", 5),
        ("assembly", "actuary_si", "alignment_yield", 0.95),
        ("assembly", "actuary_si", "fixed_price", 6.72e6),
        ("assembly", "actuary_os", "area_factor", 4),
        ("assembly", "actuary_fo_chip_first", "chip_first", 1),
        ("interface", "ucie_advanced", "energy", 0.3e-12),
        ("interface", "hbm2e_phy", "tx_area", 10.45),
        ("interface", "nvlink3_port", "tx_area", 1.888),
    ],
)
def test_values_as_quoted(library: Library, kind: str, name: str, key: str, expected: float) -> None:
    assert number(library, kind, name, key) == pytest.approx(expected, rel=1e-15)


def test_catch_computes_what_it_is_not_given(library: Library) -> None:
    values = library.find("test", "catch_self_test_only_KGD_free_test").values
    assert math.isnan(values["self_patterns"].number)
    assert values["assembly_patterns"].number == 0


@pytest.mark.parametrize(("name", "GBps_per_mm"), [("ucie_standard", 224), ("ucie_advanced", 1317)])
def test_edge_density_is_that_of_the_standard(library: Library, name: str, GBps_per_mm: float) -> None:
    values = library.find("interface", name).values
    assert values["bandwidth"].number / 8e9 / values["shoreline"].number == pytest.approx(GBps_per_mm, rel=1e-3)
