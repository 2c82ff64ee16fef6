"""Numbers of the library with a range: how they are read, inherited and refused."""

from pathlib import Path

import pytest

from sweeper.errors import SpecError
from sweeper.kernels.draws import DISTRIBUTIONS
from sweeper.library.entries import Value
from sweeper.library.library import Library
from tests.support.small_specs import FILES, write_files

SOURCED = "source: s, grade: assumed"


def library(tmp_path: Path, text: str, path: str = "chips/more.yaml") -> Library:
    return Library.load([write_files(tmp_path, {**FILES, path: text})])


def price(tmp_path: Path, number: str) -> Value:
    text = f"gamma: {{extends: alpha, source: s, price: {number}}}\n"
    return library(tmp_path, text).find("chip", "gamma").values["price"]


def test_a_number_without_a_range_is_certain(tmp_path: Path) -> None:
    found = price(tmp_path, "900 usd")
    assert (found.low, found.number, found.high, found.distribution) == (900, 900, 900, "triangular")
    assert found == Value(900, "usd", "s", "datasheet")


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_range_has_the_unit_of_the_value(tmp_path: Path, distribution: str) -> None:
    found = price(tmp_path, f"{{value: 1 kusd, low: 900 usd, high: 0.002 Musd, distribution: {distribution}}}")
    assert found == Value(1000, "usd", "s", "datasheet", 900, 2000, distribution)


def test_one_bound_is_enough(tmp_path: Path) -> None:
    found = price(tmp_path, "{value: 1000 usd, high: 1500 usd}")
    assert (found.low, found.high) == (1000, 1500)


def test_a_range_may_be_a_point(tmp_path: Path) -> None:
    assert price(tmp_path, "{value: 1 usd, low: 1 usd, high: 1 usd}") == Value(1, "usd", "s", "datasheet")


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ("{value: 1 usd, low: 2 usd}", r"'1 usd' does not lie from low \(2\) to high \(1 usd\)"),
        ("{value: 3 usd, low: 1 usd, high: 2 usd}", r"'3 usd' does not lie from low \(1\) to high \(2 usd\)"),
        ("{value: 1 usd, high: 2 W}", "need a quantity in usd"),
        ("{value: 1 usd, low: -1 usd}", "must be 0 or from 1e-6 usd to 1e15 usd"),
        ("{value: 1 usd, high: 2}", "needs a unit"),
        ("{value: 1 usd, high: [2 usd]}", "must be a single value"),
        ("{value: 1 usd, distribution: normal}", "unknown distribution 'normal'"),
        ("{value: 1 usd, low: 0 usd, distribution: log_uniform}", "needs a low greater than 0"),
        ("{value: 1 usd, lo: 0 usd}", "did you mean 'low'"),
    ],
)
def test_a_faulty_range_is_one_error_at_its_line(tmp_path: Path, number: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as fault:
        price(tmp_path, number)
    assert [problem.line for problem in fault.value.problems] == [1]


BASE = "gamma: {extends: alpha, source: s, price: {value: 10 usd, low: 5 usd, high: 20 usd, distribution: uniform}}\n"


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ("30 usd", (30, 30, 30, "triangular")),
        ("{value: 30 usd}", (30, 30, 30, "triangular")),
        ("{value: 30 usd, high: 40 usd}", (30, 30, 40, "triangular")),
        ("{source: another}", (5, 10, 20, "uniform")),
        ("{low: 8 usd}", (8, 10, 20, "uniform")),
        ("{distribution: log_uniform}", (5, 10, 20, "log_uniform")),
    ],
)
def test_a_new_value_does_not_inherit_the_old_range(
    tmp_path: Path, number: str, expected: tuple[float, float, float, str]
) -> None:
    text = BASE + f"delta: {{extends: gamma, source: t, price: {number}}}\n"
    found = library(tmp_path, text).find("chip", "delta").values["price"]
    assert (found.low, found.number, found.high, found.distribution) == expected


def test_an_inherited_number_keeps_its_range(tmp_path: Path) -> None:
    made = library(tmp_path, BASE + "delta: {extends: gamma}\n")
    assert made.find("chip", "delta").values["price"] == made.find("chip", "gamma").values["price"]


def test_ranges_are_part_of_what_an_entry_means(tmp_path: Path) -> None:
    text = BASE + "delta: {extends: gamma, price: {high: 21 usd}}\n"
    made = library(tmp_path, text)
    first, second = (made.find("chip", name).resolved()["values"]["price"] for name in ("gamma", "delta"))
    assert first == [10, "usd", "s", "datasheet", 5, 20, "uniform", "", 0.0, ()]
    assert second == [10, "usd", "s", "datasheet", 5, 21, "uniform", "", 0.0, ()]


def test_parameters_have_ranges_of_one_unit(tmp_path: Path) -> None:
    numbers = "hidden: {value: 8, low: 4, high: 16}, word: {value: 2 B, high: 4 B}"
    text = f"wide: {{extends: toy, source: s, parameters: {{{numbers}}}}}\n"
    values = library(tmp_path, text, "workloads/more.yaml").find("workload", "wide").values
    assert (values["hidden"].low, values["hidden"].high) == (4, 16)
    assert (values["word"].low, values["word"].high) == (2, 4)
    text = "wide: {extends: toy, source: s, parameters: {word: {value: 2 B, high: 4 s}}}\n"
    with pytest.raises(SpecError, match="different units"):
        library(tmp_path / "second", text, "workloads/more.yaml").find("workload", "wide")


def test_nodes_wafers_and_packages_keep_their_words(tmp_path: Path) -> None:
    files = {
        "nodes/n.yaml": f"thin: {{{SOURCED}, yield_model: poisson, defect_density: 0.09 1/cm^2, wafer_price: 9 usd, "
        "mask_set: 0 usd, stitching_yield: 1, design_price: 0 usd/mm^2, chip_design_price: 0 usd/mm^2, "
        "chip_fixed_price: 0 usd}\n"
        "thinner: {extends: thin}\n",
        "wafers/w.yaml": f"round: {{{SOURCED}, dies_per_wafer: grid, scribe: 100 um, process_yield: 1}}\n",
        "packages/p.yaml": f"pair: {{{SOURCED}, parameters: {{die_area: 2 cm^2, power: {{value: 90 W, low: 80 W}}}}, "
        "dies: [{name: a}], conventions: {bumps_once: 1}}\n"
        f"bigger: {{extends: pair, {SOURCED}, parameters: {{die_area: 300 mm^2}}}}\n",
    }
    made = Library.load([write_files(tmp_path, files)])
    node = made.find("node", "thinner")
    assert node.body["yield_model"].plain() == "poisson"
    assert node.values["defect_density"] == Value(0.0009, "1/mm^2", "s", "assumed")
    assert made.find("wafer", "round").body["dies_per_wafer"].plain() == "grid"
    assert made.find("wafer", "round").values["scribe"].number == 0.1
    package = made.find("package", "bigger")
    assert package.values["die_area"].number == 300
    assert package.values["power"].low == 80
    assert package.body["dies"].plain() == [{"name": "a"}]
    assert package.body.keys() == {"parameters", "dies", "conventions"}
