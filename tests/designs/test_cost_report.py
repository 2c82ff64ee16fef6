"""The cost of a package: sums, attribution, bands, comparisons, pictures, and the command."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.stats
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from matplotlib.figure import Figure
from matplotlib.text import Text

from sweeper.cli import main
from sweeper.commands.shared import without_nan
from sweeper.designs import package_draws
from sweeper.designs.cost_draws import CostDraws, attributed, draw_costs
from sweeper.designs.cost_figure import cost_figure
from sweeper.designs.cost_report import PARTS, CostReport, as_json, cost_comparison, cost_report
from sweeper.designs.cost_settings import named_design, read_settings, settable
from sweeper.designs.cost_text import text
from sweeper.designs.package_draws import evaluate_design
from sweeper.kernels.packages.layout import DIE_CODES, RESULTS
from sweeper.library.library import Library, builtin_specs
from sweeper.study.columns import Stock
from sweeper.views.uncertainty import bands, by_chance, compare, probability_less, rank_correlations
from tests.support.examples import examples

LIBRARY = Library.load([builtin_specs()])
STOCK = Stock(LIBRARY)
DESIGNS = [name for name in LIBRARY.names("package") if name != "generated_accelerator"]  # of a chip of a study


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["cost", *map(str, arguments)])


def with_node(name: str) -> dict[str, float | str]:
    """What a design needs to have a cost."""
    roles = {"node": "n5", "template": "gpu_n7", "technology": "as_template"}
    return {role: entry for role, entry in roles.items() if role in settable(named_design(STOCK, name))}


@cache
def drawn(name: str, draws: int = 200) -> CostDraws:
    return draw_costs(named_design(STOCK, name), LIBRARY, with_node(name), draws)


@cache
def reported(name: str) -> CostReport:
    return cost_report(drawn(name))


# Sums


@pytest.mark.slow
@pytest.mark.parametrize("name", DESIGNS)
def test_dies_and_their_mounting_add_up_to_the_price(name: str) -> None:
    design = named_design(STOCK, name)
    results = evaluate_design(design, LIBRARY, with_node(name), range(60)).results
    own, mounting = attributed(design.die_codes[:, DIE_CODES.index("parent")].tolist(), results)
    np.testing.assert_allclose((own + mounting).sum(axis=1), results[:, 0, RESULTS.index("price_usd")], rtol=1e-12)
    assert (own >= 0.0).all()
    assert (mounting >= 0.0).all()


@pytest.mark.parametrize("name", DESIGNS)
def test_parts_and_dies_add_up_to_the_total(name: str) -> None:
    report = reported(name)
    parts = {part.name: part.value for part in report.parts}
    assert sum(parts.values()) == pytest.approx(report.total.value, rel=1e-12)
    price = sum(die.die_usd + die.mounting_usd for die in report.dies)
    assert price + parts["package_escapes_usd"] + parts["package_design_usd"] == pytest.approx(
        report.total.value, rel=1e-12
    )
    assert sum(die.design_usd for die in report.dies) == pytest.approx(parts["package_design_usd"], rel=1e-12)
    totals = sum(drawn(name).columns[part] for part in PARTS)
    np.testing.assert_allclose(totals, drawn(name).total_usd, rtol=1e-12)


@examples(30)
@given(
    chiplets=st.integers(1, 40),
    area=st.floats(20.0, 1200.0),
    density=st.floats(0.0, 0.01),
    node=st.sampled_from(["n28", "n7", "n3"]),
)
def test_any_design_adds_up(chiplets: int, area: float, density: float, node: str) -> None:
    design = named_design(STOCK, "chiplets")
    given_ = {"package.chiplets": float(chiplets), "package.silicon_area": area, "node": node}
    report = cost_report(draw_costs(design, LIBRARY, {**given_, "node.defect_density": density}, 2))
    assert sum(part.value for part in report.parts) == pytest.approx(report.total.value, rel=1e-12)
    price = sum(die.die_usd + die.mounting_usd for die in report.dies)
    escapes, own_design = (part.value for part in report.parts[-2:])
    assert price == pytest.approx(report.total.value - escapes - own_design, rel=1e-12)


def test_a_price_enters_in_proportion_to_what_is_attributed_to_it() -> None:
    """The price of a package is linear in that of the memory stacks it buys."""
    design = named_design(STOCK, "a100")
    at = [evaluate_design(design, LIBRARY, {"part/hbm2e_16gb/price": usd}).of("price_usd")[0] for usd in (100.0, 300.0)]
    dies = {die.name: die for die in reported("a100").dies}
    assert dies["hbm"].die_usd == pytest.approx(dies["hbm"].each_usd * (at[1] - at[0]) / 200.0, rel=1e-9)
    assert math.isnan(dies["hbm"].true_yield)
    assert 0.0 < dies["gpu"].true_yield <= dies["gpu"].test_yield < 1.0


def test_dies_that_a_design_lacks_are_not_listed() -> None:
    design = named_design(STOCK, "a100")
    report = cost_report(draw_costs(design, LIBRARY, {"package.memory_stacks": 4.0}, 2))
    assert [die.name for die in report.dies] == ["substrate", "interposer", "gpu", "hbm"]
    assert [die.depth for die in report.dies] == [0, 1, 2, 2]
    assert report.dies[3].count == 4.0


def test_a_package_that_cannot_be_built_says_why() -> None:
    design = named_design(STOCK, "chiplets")
    found = draw_costs(design, LIBRARY, {"node": "n5", "package.silicon_area": 80000.0}, 20)
    report = cost_report(found)
    assert (report.status, report.status_die, report.buildable_share) == ("die_exceeds_wafer", "chiplet", 0.0)
    assert report.hinges == ()
    assert "no cost\ncannot be built: die exceeds wafer (chiplet)" in text(report)
    comparison = cost_comparison(found, drawn("a100", 20))
    assert math.isnan(comparison.probability_cheaper) and comparison.buildable_share == 0.0
    assert "can be built, and so in 100.0 % of the draws" in text(comparison)
    assert "both can be built in no draw: their costs are not compared" in text(comparison)
    assert "usd more than" not in text(comparison) and "Too few draws" not in text(reported("a100"))


def test_a_comparison_counts_draws_in_which_both_can_be_built_and_says_so() -> None:
    """Draws of a package that lies at a limit, of which about half can be built."""
    some, other = drawn("b200_cowos_s"), drawn("b200")
    both = (some.status[1:] == 0.0) & (other.status[1:] == 0.0)
    comparison = cost_comparison(some, other)
    assert 0.2 < comparison.buildable_share == both.mean() < 0.8
    cheaper = (some.total_usd < other.total_usd)[1:][both].mean()
    assert comparison.probability_cheaper == cheaper
    words = text(comparison)
    share = f"{100.0 * both.mean():.1f} % of the draws: these count"
    assert f"both can be built in {share}" in words and f"in {100.0 * cheaper:.1f} % of these draws" in words
    assert f"Within {by_chance(int(both.sum())):.2f} of 0" in words
    assert by_chance(int(both.sum())) > 1.2 * by_chance(len(both))


def test_what_is_cheaper_costs_less() -> None:
    words = [text(cost_comparison(drawn(one), drawn(other))) for one, other in (("a100", "b200"), ("b200", "a100"))]
    assert "usd less than b200" in words[0] and "usd more than a100" in words[1] and "costs -" not in "".join(words)
    found = cost_comparison(drawn("b200"), drawn("a100"))
    refused = replace(found, difference=replace(found.difference, value=math.nan))
    assert "by their own values they are not compared with a100, as one of them cannot be built" in text(refused)


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({"assembly/cowos_s/alignment_yield": 0.0}, "never_works"),
        ({"package.unit_area": 50.0}, "blocks_exceed_die"),
        ({"package.spares": 200.0}, "blocks_exceed_die"),
    ],
)
def test_what_no_package_can_be_is_said(settings: dict[str, float], status: str) -> None:
    report = cost_report(draw_costs(named_design(STOCK, "a100"), LIBRARY, settings, 20))
    assert (report.status, report.buildable_share) == (status, 0.0)
    assert math.isnan(report.total.p5) and not report.hinges


def test_what_is_built_in_no_draw_has_a_price_on_condition_and_no_band() -> None:
    lines = call("h100", "--set", "package.power=9000 W", "--draws", 50).stdout.splitlines()
    assert lines[0].endswith(" usd if it could be built, as it can in no draw") and "%" not in lines[0]
    assert lines[1].startswith("cannot be built: ")


def test_what_nothing_reads_is_not_what_a_cost_hinges_on() -> None:
    """In few draws any number goes along with the cost by chance."""
    report = cost_report(drawn("a100", 10))
    assert report.hinges == () and "None goes beyond chance in these draws." in text(report)


@pytest.mark.parametrize("volume", [1e4, 1e5, 1e6])
@pytest.mark.parametrize("name", ["a100", "b200", "h100"])
def test_the_total_lies_in_its_band_whatever_the_volume(name: str, volume: float) -> None:
    report = cost_report(draw_costs(named_design(STOCK, name), LIBRARY, {"package.volume": volume}, 300))
    assert report.total.p5 < report.total.value < report.total.p95
    (design,) = (part for part in report.parts if part.name == "package_design_usd")
    assert design.p5 < design.value < design.p95


def test_bands_are_of_draws_that_can_be_built() -> None:
    found = draw_costs(named_design(STOCK, "b200_cowos_s"), LIBRARY, {}, 200)
    built, report = found.status[1:] == 0.0, cost_report(found)
    assert 0.0 < report.buildable_share < 1.0
    assert report.total.p50 == pytest.approx(np.median(found.total_usd[1:][built]))
    other = drawn("b200", 200)
    both = built & (other.status[1:] == 0.0)
    cheaper = cost_comparison(found, other).probability_cheaper
    assert cheaper == pytest.approx(np.mean((found.total_usd < other.total_usd)[1:][both]))


def test_what_is_not_known_is_not_nothing() -> None:
    facts = {fact.name: fact for fact in cost_report(drawn("a100_catch", 20)).facts}
    assert all(math.isnan(facts[name].value) for name in ("package_carbon_kg", "package_lead_time_s"))


def test_a_setting_that_changes_nothing_is_told() -> None:
    found = call("a100", "--set", "test/memory_test/price=999 usd/s", "--set", "package.memory_stacks=6", "--draws", 2)
    assert found.exit_code == 0
    assert "warning: test/memory_test/price changes nothing of a100" in found.stderr
    assert "memory_stacks changes nothing" not in found.stderr


@pytest.mark.parametrize(
    ("name", "setting"),
    [("a100", "assembly/cowos_s/largest_carrier=100 mm^2"), ("a100", "assembly/cowos_s/power_density=0.01 W/mm^2")],
)
def test_a_setting_that_forbids_the_package_changes_something(name: str, setting: str) -> None:
    """Its cost is the same."""
    found = call(name, "--set", setting, "--draws", 2)
    assert "cannot be built" in found.stdout and "changes nothing" not in found.stderr


def test_a_number_of_the_selected_node_that_changes_nothing_is_told() -> None:
    found = call("chiplets", "--node", "n5", "--set", "node.wiring_layers=3", "--draws", 2)
    assert "warning: node.wiring_layers changes nothing of chiplets" in found.stderr


# Draws


def test_draws_are_the_same_however_they_are_grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = drawn("a100")
    monkeypatch.setattr(package_draws, "BLOCK", 7 * len(whole.design.dies) * len(RESULTS))
    again = draw_costs(whole.design, LIBRARY, {}, 40)
    np.testing.assert_array_equal(again.total_usd, whole.total_usd[:41])
    np.testing.assert_array_equal(again.results, whole.results)
    assert all((values == whole.inputs[name][:41]).all() for name, values in again.inputs.items())
    assert np.ptp(whole.total_usd[1:]) > 0.0


def test_values_are_those_of_the_studies_equations() -> None:
    found = drawn("a100")
    by_itself = evaluate_design(found.design, LIBRARY, {}, range(5))
    np.testing.assert_allclose(found.columns["package_cost_usd"][:5], by_itself.cost_usd, rtol=1e-14)
    np.testing.assert_array_equal(found.columns["package_area_mm2"][:5], by_itself.of("area_mm2"))
    low, middle, high = bands(found.total_usd[1:])
    total = reported("a100").total
    assert (total.p5, total.p50, total.p95) == (low, middle, high)
    assert low < middle < high


def test_a_design_against_itself_and_against_a_dearer_one() -> None:
    same = cost_comparison(drawn("a100"), drawn("a100"))
    assert same.probability_cheaper == 0.5
    assert same.difference.p5 == same.difference.p95 == 0.0
    assert same.hinges == ()
    dearer = draw_costs(named_design(STOCK, "a100"), LIBRARY, {"package.memory_stacks": 6.0}, 200)
    # Every draw has the same prices on both sides, so one more stack costs more in every one of them.
    assert cost_comparison(drawn("a100"), dearer).probability_cheaper == 1.0
    assert cost_comparison(dearer, drawn("a100")).probability_cheaper == 0.0
    assert probability_less(drawn("a100").total_usd[1:], np.roll(dearer.total_usd[1:], 1)) < 1.0


def test_what_the_cost_hinges_on() -> None:
    report = cost_report(drawn("a100", 1000))
    found = {hinge.name: hinge for hinge in report.hinges}
    assert len(found) == 10
    assert [abs(hinge.correlation) for hinge in report.hinges] == sorted(
        (abs(hinge.correlation) for hinge in report.hinges), reverse=True
    )
    stacks = found["part/hbm2e_16gb/price"]
    assert stacks.correlation > by_chance(1000)
    assert (stacks.low, stacks.high, stacks.unit, stacks.grade) == (112.0, 250.0, "usd", "estimate")
    assert "LLMCompass" in stacks.source
    set_price = draw_costs(named_design(STOCK, "a100"), LIBRARY, {"part/hbm2e_16gb/price": 160.0}, 200)
    assert drawn("a100").inputs.keys() - set_price.inputs.keys() == {"part/hbm2e_16gb/price"}
    fixed = cost_report(set_price)
    assert "part/hbm2e_16gb/price" not in {hinge.name for hinge in fixed.hinges}
    assert fixed.total.value == pytest.approx(report.total.value, rel=1e-12)


# Statistics

numbers = hnp.arrays(np.float64, 25, elements=st.integers(-4, 4).map(float))


@given(first=numbers, second=numbers, outcome=numbers)
def test_rank_correlations_are_spearmans(first: np.ndarray, second: np.ndarray, outcome: np.ndarray) -> None:
    found = rank_correlations({"first": first, "second": second}, outcome)
    for name, values in {"first": first, "second": second}.items():
        if np.ptp(values) == 0.0 or np.ptp(outcome) == 0.0:
            assert math.isnan(found[name])
        else:
            assert found[name] == pytest.approx(scipy.stats.spearmanr(values, outcome).statistic, abs=1e-12)
    sizes = [abs(value) for value in found.values() if not math.isnan(value)]
    assert sizes == sorted(sizes, reverse=True)
    assert not math.isnan(next(iter(found.values()))) or len(sizes) == 0


def test_rank_correlations_leave_out_draws_without_an_outcome() -> None:
    outcome = [1.0, math.nan, 2.0, 3.0]
    assert rank_correlations({"up": pl.Series([1, 9, 2, 3]), "down": [3, 0, 2, 1]}, outcome) == pytest.approx(
        {"down": -1.0, "up": 1.0}
    )
    assert all(math.isnan(value) for value in rank_correlations({"a": [1.0, 2.0]}, [math.nan] * 2).values())


@given(first=numbers, second=numbers)
def test_probability_less_counts_ties_half(first: np.ndarray, second: np.ndarray) -> None:
    wins = sum(1.0 if a < b else 0.5 if a == b else 0.0 for a, b in zip(first, second, strict=True))
    assert probability_less(first, second) == pytest.approx(wins / len(first), abs=1e-12)
    assert probability_less(first, second) + probability_less(second, first) == pytest.approx(1.0)


def test_statistics_of_nothing_and_of_gaps() -> None:
    assert bands([3.0, math.nan, 1.0], (0.0, 0.5, 1.0)) == (1.0, 2.0, 3.0)
    assert all(math.isnan(value) for value in bands([math.nan]))
    assert probability_less([1.0, math.nan], [2.0, 0.0]) == 1.0
    assert math.isnan(probability_less([math.nan], [1.0]))


def dataset(changes: Mapping[str, object] | None = None) -> pl.DataFrame:
    """Two packages on two nodes in five draws and draw 0; one point is infeasible."""
    rows = [
        {"package": package, "node": node, "draw": float(draw), "cost": cost + draw, "feasible": True}
        for package, cost in (("small", 10.0), ("large", 12.0))
        for node in ("n5", "n7")
        for draw in range(6)
    ]
    frame = pl.DataFrame(rows).with_columns(
        feasible=~((pl.col("package") == "small") & (pl.col("node") == "n7") & (pl.col("draw") == 5.0)),
        cost=pl.when((pl.col("package") == "small") & (pl.col("draw") == 1.0)).then(100.0).otherwise(pl.col("cost")),
    )
    return frame.with_columns(**(changes or {}))


def test_compare_matches_draws() -> None:
    shuffled = dataset().sample(fraction=1.0, shuffle=True, seed=1)
    found = compare(shuffled, "cost", ["node"], {"package": "small"}, pl.col("package") == "large").to_dicts()
    assert [(row["node"], row["draws"], row["probability_less"]) for row in found] == [("n5", 5, 0.8), ("n7", 4, 0.75)]
    assert found[0]["difference_p50"] == -2.0
    assert found[0]["a_p50"] == 14.0
    assert found[0]["b_p5"] == pytest.approx(13.2)
    one = compare(
        dataset().lazy().filter(pl.col("node") == "n5"), "cost", [], {"package": "small"}, {"package": "large"}
    )
    assert one["probability_less"].to_list() == [0.8]


def test_compare_refuses_several_points_in_a_draw() -> None:
    with pytest.raises(ValueError, match="a has several points in a draw"):
        compare(dataset(), "cost", [], {"package": "small"}, {"package": "large"})


# The command


def test_json_holds_the_report_and_is_the_same_again() -> None:
    first = call("a100", "--draws", 200, "--json")
    assert first.exit_code == 0, first.output
    found = json.loads(first.stdout)
    assert found == json.loads(json.dumps(without_nan(as_json(reported("a100")))))
    assert sum(part["share"] for part in found["parts"]) == pytest.approx(1.0, rel=1e-12)
    assert {die["name"]: die["true_yield"] for die in found["dies"]}["hbm"] is None
    assert call("a100", "--draws", 200, "--json").stdout == first.stdout


@pytest.mark.parametrize(
    ("settings", "headed"),
    [
        (("--set", "node.defect_density=0.2 1/cm^2"), "chiplets, node n5, node.defect_density 0.002 1/mm^2: "),
        (("--set", "wafer/wafer_300/diameter=20 cm"), "chiplets, node n5, wafer/wafer_300/diameter 200 mm: "),
        (("--set", "package.silicon_area=5 cm^2"), "chiplets, node n5, package.silicon_area 500 mm^2: "),
        (("--set", "package.chiplets=2"), "chiplets, node n5, package.chiplets 2: "),
    ],
)
def test_a_cost_is_headed_by_its_settings_with_their_units(settings: tuple[str, str], headed: str) -> None:
    assert call("chiplets", "--node", "n5", "--draws", 2, *settings).output.startswith(headed)


def test_settings_reach_the_design() -> None:
    def usd(*arguments: object) -> dict[str, float]:
        shown = json.loads(call("chiplets", "--node", "n5", "--draws", 2, "--json", *arguments).stdout)
        return {part["part"]: part["value"] for part in shown["parts"]}

    plain = usd()
    assert usd("--set", "node.defect_density=0.4 1/cm^2")["defects"] > plain["defects"]
    assert usd("--set", "package.chiplets=16")["test"] > plain["test"]
    given_ = call("a100", "--draws", 2, "--set", "package.memory_stacks=6")
    assert given_.stdout.startswith("a100, package.memory_stacks 6: ")


def test_text_shows_the_tree_and_the_dollars() -> None:
    shown = call("a100", "--draws", 1000)
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert any(line.startswith("    hbm  ") for line in lines)
    for label in (*PARTS.values(), "total"):
        assert any(line.startswith(label) for line in lines), label
    report = cost_report(drawn("a100", 1000))
    assert f"{report.total.value:,.2f}" in lines[0]
    assert any(line.startswith(report.hinges[0].name) for line in lines)


def test_versus() -> None:
    found = json.loads(call("chiplets", "--node", "n5", "--versus", "a100", "--draws", 200, "--json").stdout)
    totals = drawn("chiplets").total_usd[1:], drawn("a100").total_usd[1:]
    assert found["versus"]["probability_cheaper"] == np.mean(totals[0] < totals[1])
    assert found["versus"]["second"]["design"] == "a100"
    assert found["versus"]["second"]["settings"] == {}
    assert found["versus"]["difference"]["p50"] == pytest.approx(np.median(totals[0] - totals[1]))
    same = json.loads(call("a100", "--versus", "a100", "--draws", 20, "--json").stdout)
    assert same["versus"]["probability_cheaper"] == 0.5
    words = call("chiplets", "--node", "n5", "--versus", "a100", "--draws", 20).stdout
    assert "VERSUS a100: " in words
    assert "chiplets is the cheaper one in " in words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a10",), "unknown package 'a10', did you mean 'a100'?"),
        (("a100", "--versus", "a10"), "unknown package 'a10'"),
        (("chiplets",), "chiplets needs node: give --set node=NAME"),
        (("chiplets", "--node", "n55x"), "node: unknown node 'n55x', did you mean 'n55'?"),
        (("a100", "--node", "n5"), "unknown setting of a100 'node'"),
        (("a100", "--set", "memory_stacks=6"), "did you mean 'package.memory_stacks'?"),
        (("a100", "--set", "package.chiplets=6"), "unknown setting of a100 'package.chiplets'"),
        (("a100", "--set", "package.power=6"), "package.power: 6 needs a unit, e.g. 700 W"),
        (("a100", "--set", "package.power=6 GB"), "package.power: '6 GB' is in B"),
        (("a100", "--set", "package.memory_stacks=-1"), "memory stacks must be 0 or a whole number from 1 to 1e6"),
        (("a100", "--set", "package.memory_stacks={a: b}"), "must be a single value"),
        (("a100", "--set", "package.memory_stacks"), "write NAME=VALUE"),
        (("a100", "--set", "package.memory_stacks="), "write NAME=VALUE"),
        (("a100", "--set", "package.units=2", "--set", "package.units=3"), "package.units is given twice"),
        (("a100", "--draws", "1"), "1 is not in the range"),
        (("a100", "--figure", "{}/cost.pdf"), "a picture is .png or .svg"),
        (("a100", "--library", "{}/none"), "does not exist"),
    ],
)
def test_mistakes_write_nothing(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    figure = () if "--figure" in arguments else ("--figure", f"{tmp_path}/cost.svg")
    found = call(
        *(argument.format(tmp_path) if argument.startswith("{}") else argument for argument in arguments), *figure
    )
    assert found.exit_code == 2
    assert message in found.stderr
    assert found.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_setting_of_either_design_is_taken() -> None:
    designs = [named_design(STOCK, name) for name in ("a100", "chiplets")]
    found = read_settings(["node=n5", "package.memory_stacks=6", "package.power=300 W"], LIBRARY, designs)
    assert found == ({"package.memory_stacks": 6.0, "package.power": 300.0}, {"node": "n5", "package.power": 300.0})


# Pictures


def test_pictures_are_written_and_the_same_again(tmp_path: Path) -> None:
    found = call("a100", "--draws", 50, "--figure", tmp_path / "new" / "cost.svg")
    assert found.exit_code == 0, found.output
    assert f"wrote {tmp_path / 'new' / 'cost.svg'}" in found.stderr
    again = cost_figure(cost_report(drawn("a100", 50)), tmp_path / "again.svg")
    assert again.read_bytes() == (tmp_path / "new" / "cost.svg").read_bytes()
    assert cost_figure(reported("a100"), tmp_path / "cost.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("pair", [("a100",), ("a100_built_up",), ("chiplets", "a100")])
def test_no_text_of_a_picture_lies_on_another(
    pair: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Figure] = []

    def kept(figure: Figure, file: Path, **_: object) -> None:
        shown.append(figure)
        file.touch()

    monkeypatch.setattr(Figure, "savefig", kept)
    found = cost_comparison(*map(drawn, pair)) if len(pair) == 2 else reported(*pair)
    cost_figure(found, tmp_path / "cost.png")
    (figure,) = shown
    figure.draw_without_rendering()
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    boxes = [text.get_window_extent() for text in texts]
    assert len(boxes) > 25
    for (one, box), (other, beside) in combinations(zip(texts, boxes, strict=True), 2):
        assert not box.overlaps(beside), (one.get_text(), other.get_text())
    for box in boxes:
        assert figure.bbox.contains(box.x0, box.y0)
        assert figure.bbox.contains(box.x1, box.y1)


def test_the_package_of_a_generated_chip_is_priced_in_a_study() -> None:
    shown = CliRunner().invoke(main, ["cost", "generated_accelerator", "--set", "node=n5"])
    assert shown.exit_code == 2 and "price it there, with chip_cost: package" in shown.output
