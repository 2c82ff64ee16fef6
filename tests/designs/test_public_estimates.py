"""Packages of the library beside public figures: what the scoreboard says, and that it can say the opposite."""

import json
import math
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from sweeper.cli import main
from sweeper.designs.package_draws import evaluate_design
from sweeper.designs.public_estimates import NEAR, carbon_board, costs_board, found_of, read_estimates
from sweeper.library.library import Library, builtin_specs
from sweeper.library.packages.reader import read_package
from sweeper.study.columns import Stock
from tests.places import ROOT

MOST_LINES = 60


def test_every_public_total_is_met() -> None:
    """All that have one, within a fifth; and no headline lies outside the middle half of its own draws."""
    board = costs_board()
    totals = [row for row in board["rows"] if row["quantity"] == "total"]
    assert {row["package"] for row in totals} == {"h100", "h200", "b200", "gb200", "mi300x"}
    assert all(abs(row["error"]) <= NEAR for row in totals)
    assert board["summary"]["centred"] == board["summary"]["accelerators"] == 11
    assert board["unpriced"].keys() | {row["package"] for row in totals} == set(read_estimates().accelerators)


def test_published_footprints_are_within_the_factor() -> None:
    board = carbon_board()
    assert board["summary"]["within"] == board["summary"]["published"] >= 3


def test_a_figure_that_is_not_met_counts_as_missed(tmp_path: Path) -> None:
    asked = yaml.safe_load((builtin_specs() / "products" / "packages.yaml").read_text())
    for row in asked["costs"]:
        row["value"] = "1 usd" if row["package"] == "h100" else row["value"]
    path = tmp_path / "packages.yaml"
    path.write_text(yaml.safe_dump(asked))
    assert costs_board(path)["summary"]["near"] == costs_board()["summary"]["near"] - 1
    asked["carbon"][0]["value"] = "1 kg"
    path.write_text(yaml.safe_dump(asked))
    assert not carbon_board(path)["rows"][0]["within"]


def test_quantities_are_those_of_the_tree() -> None:
    """By hand: five stacks at their price, one die at its own; both are less than the total."""
    found = found_of("a100")
    stack = Library.load([builtin_specs()]).find("part", "hbm2e_16gb").values["price"].number
    assert found["memory"][0] == pytest.approx(5 * stack)
    assert found["dies"][0] == pytest.approx(found["memory"][0] + found["logic"][0])
    assert found["dies"][0] < found["total"][0]


def test_an_interposer_with_bridges_yields() -> None:
    """2,800 mm2 of redistribution layers."""
    library = Library.load([builtin_specs()])
    design = read_package(library.find("package", "b200"), library)
    found, row = evaluate_design(design, library, {}), design.dies.index("interposer")
    assert 2700 < found.of("area_mm2", row)[0] < 2900
    assert found.of("true_yield", row)[0] > 0.85


@pytest.mark.parametrize(("name", "areas"), [("b200", ("800 mm^2", "40 mm^2")), ("mi300x", ("115 mm^2", "370 mm^2"))])
def test_packages_from_scratch_are_short(name: str, areas: tuple[str, ...]) -> None:
    """Sixty lines at most, with the results of the library's own, and no area twice."""
    text = (ROOT / "examples" / "my_library" / "packages" / f"{name}_like.yaml").read_text()
    assert len(text.splitlines()) <= MOST_LINES
    assert all(text.count(area) == 1 for area in areas)
    library = Library.load([ROOT / "examples" / "my_library", builtin_specs()])
    stock = Stock(library)
    own, ours = (evaluate_design(stock.package(each), library, {}).cost_usd[0] for each in (f"{name}_like", name))
    assert own == pytest.approx(ours, rel=1e-12)


@pytest.mark.parametrize(
    ("flags", "boards"),
    [((), {"public", "carbon"}), (("--public",), {"public"}), (("--carbon",), {"carbon"})],
)
def test_the_command_shows_what_is_asked(flags: tuple[str, ...], boards: set[str]) -> None:
    found = CliRunner().invoke(main, ["cost-check", *flags, "--json"])
    assert found.exit_code == 0
    assert json.loads(found.stdout).keys() == boards
    text = CliRunner().invoke(main, ["cost-check", *flags]).stdout
    assert ("public total" in text) == ("public" in boards)
    assert ("factor of 1.5" in text) == ("carbon" in boards)


def test_listed_chips_have_carbon() -> None:
    """All but the one that stands for a generated chip, with a band; and so have their memories."""
    library = Library.load([builtin_specs()])
    for kind, name in (("chip", "carbon"), ("memory", "carbon_per_capacity")):
        for entry in (library.find(kind, each) for each in library.names(kind)):
            value = entry.values[name]
            assert entry.name == "generated" or value.low < value.number < value.high, entry.name
            assert (entry.name == "generated") == math.isnan(value.number)
