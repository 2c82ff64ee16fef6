"""Grades of a package: shares by hand and by sorting dies one by one, one grade as the package costs, mistakes told."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from sweeper.cli import main
from sweeper.designs.grades import Grade, grades_report, read_grading, sorted_shares, speed_share, vain
from sweeper.designs.package_draws import evaluate_design
from sweeper.errors import Misuse
from sweeper.library.library import Library, builtin_specs
from sweeper.reading.nodes import parse_yaml
from tests.places import ROOT
from tests.support.examples import examples

EXAMPLE = ROOT / "examples" / "grades.yaml"


def library() -> Library:
    return Library.load([builtin_specs()])


def run(path: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["grades", str(path), "--draws", "20", *options])


def written(folder: Path, text: str) -> Path:
    path = folder / "g.yaml"
    path.write_text(text)
    return path


def test_shares_by_hand() -> None:
    """Half of the dies that may be mounted are whole, three tenths have a few bad blocks; half are fast enough."""
    grades = (Grade("whole", 0, 1.0, 9.0), Grade("cut", 2, 1.0, 6.0), Grade("slow", 5, 0.0, 3.0))
    yields = {0: np.array([0.4]), 2: np.array([0.64]), 5: np.array([0.8])}
    shares = sorted_shares(grades, yields, 0.1)
    assert [share[0] for share in shares] == pytest.approx([0.25, 0.15, 0.6], rel=1e-12)


def test_speed_by_hand() -> None:
    one_sigma = math.exp(0.1)
    assert speed_share(1.0, math.inf, 0.1) == pytest.approx(0.5)
    assert speed_share(one_sigma, math.inf, 0.1) == pytest.approx(0.15865525393145707)
    assert speed_share(0.0, one_sigma, 0.1) == pytest.approx(1 - 0.15865525393145707)
    assert speed_share(1.0, math.inf, 0.0) == 1.0 and speed_share(1.01, math.inf, 0.0) == 0.0
    assert speed_share(0.5, 0.9, 0.0) == 0.0 and speed_share(1.2, 1.0, 0.1) == 0.0


@examples(40)
@given(
    grades=st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.9, 1.0, 1.1])), min_size=1, max_size=5),
    spread=st.sampled_from([0.02, 0.1, 0.4]),
)
def test_dies_sorted_one_by_one(grades: list[tuple[int, float]], spread: float) -> None:
    """Every die goes to the first grade that it is good enough for, and none to two."""
    sold = tuple(Grade(f"g{number}", bad, speed, 10.0 - number) for number, (bad, speed) in enumerate(grades))
    chances = np.array([0.5, 0.2, 0.15, 0.1, 0.05])
    yields = {bad: chances[: bad + 1].sum() for bad, _ in grades}
    most = max(yields)
    counted = dict.fromkeys(range(len(sold)), 0.0)
    # Speeds lie between those that grades ask for: one of each interval stands for all in it.
    ends = [0.0, 0.9, 1.0, 1.1, math.inf]
    for bad in range(most + 1):
        for low, high in pairwise(ends):
            share = chances[bad] / yields[most] * speed_share(low, high, spread)
            fit = [number for number, grade in enumerate(sold) if bad <= grade.bad_blocks and low >= grade.speed]
            if fit:
                counted[fit[0]] += share
    found = sorted_shares(sold, {bad: np.array([share]) for bad, share in yields.items()}, spread)
    assert [share[0] for share in found] == pytest.approx(list(counted.values()), abs=1e-12)


def test_one_grade_as_the_library_harvests_costs_what_the_package_costs(tmp_path: Path) -> None:
    path = written(
        tmp_path, "grading: one\npackage: h100\ndie: gpu\ngrades: {all: {bad_blocks: 12, price: 30000 usd}}\n"
    )
    stock = library()
    grading = read_grading(path, stock)
    (row,) = grades_report(grading, stock, 10)["sold"]
    found = evaluate_design(grading.design, stock, {})
    assert row["cost_usd"] == pytest.approx(found.cost_usd[0], rel=1e-12)
    die = grading.row
    assert row["dies_per_wafer"] == pytest.approx(
        float(found.of("dies_per_wafer", die)[0] * found.of("test_yield", die)[0]), rel=1e-12
    )
    # Each of the dies that are mounted costs the same, and is lost where assembly fails.
    packages = row["profit_per_wafer_usd"] / (row["revenue_usd"] - row["cost_usd"])
    assert 0.8 * row["dies_per_wafer"] < packages < row["dies_per_wafer"]
    spent = (row["cost_usd"] - row["rest_usd"]) * packages
    assert spent == pytest.approx(row["dies_per_wafer"] * float(found.of("self_price_usd", die)[0]), rel=1e-9)


def test_dies_too_slow_are_paid_by_the_others() -> None:
    stock = library()
    grading = read_grading(EXAMPLE, stock)
    slow = replace(grading, grades=grading.grades[:1])
    free = replace(slow, speed_spread=0.0)
    with_slow, all_fast = (grades_report(each, stock, 4)["sold"][0] for each in (slow, free))
    share = speed_share(0.97, math.inf, 0.06)
    die = all_fast["cost_usd"] - all_fast["rest_usd"]
    assert with_slow["cost_usd"] - with_slow["rest_usd"] == pytest.approx(die / share, rel=1e-9)
    assert with_slow["dies_per_wafer"] == pytest.approx(all_fast["dies_per_wafer"] * share, rel=1e-9)


def test_two_dies_of_a_package_are_both_counted(tmp_path: Path) -> None:
    text = "grading: two\npackage: b200\ndie: gpu\ngrades: {all: {bad_blocks: 6, price: 30000 usd}}\n"
    (row,) = json.loads(run(written(tmp_path, text), "--json").stdout)["sold"]
    packages = row["profit_per_wafer_usd"] / (row["revenue_usd"] - row["cost_usd"])
    assert 0.4 * row["dies_per_wafer"] < packages < 0.5 * row["dies_per_wafer"]


def test_a_grade_that_brings_less_than_the_rest_is_not_worth_it() -> None:
    report = json.loads(run(EXAMPLE, "--json").stdout)
    grades = {grade["grade"]: grade for grade in report["grades"]}
    assert sum(grade["share"] for grade in grades.values()) == pytest.approx(1.0)
    assert grades["entry"]["above_rest_usd"] < 0.0 and report["best"] == "board"
    sold = report["sold"]
    assert sold[1]["profit_per_wafer_usd"] > max(sold[0]["profit_per_wafer_usd"], sold[2]["profit_per_wafer_usd"])
    assert all(row["p05"] < row["profit_per_wafer_usd"] < row["p95"] for row in sold)
    assert sum(row["best_share"] for row in sold) == pytest.approx(1.0)
    text = run(EXAMPLE).stdout
    assert "Most per wafer: sold down to board." in text and "-" in text


def test_what_cannot_be_sold_or_built_is_refused(tmp_path: Path) -> None:
    stock = library()
    grading = read_grading(EXAMPLE, stock)
    with pytest.raises(Misuse, match="no die comes to it in any draw"):
        grades_report(replace(grading, grades=(Grade("all", 12, 1.2, 1e4),), speed_spread=0.0), stock, 2)
    with pytest.raises(Misuse, match="144 of the 144 blocks of gpu"):
        grades_report(replace(grading, grades=(Grade("all", 144, 0.0, 1e4),)), stock, 2)
    text = EXAMPLE.read_text() + "set: {package.die_area: 2000 mm^2}\n"
    found = run(written(tmp_path, text))
    assert found.exit_code == 2 and "h100 cannot be built" in found.stderr


def test_draws_that_cannot_be_built_do_not_count(tmp_path: Path) -> None:
    text = "grading: g\npackage: b200_cowos_s\ndie: gpu\ngrades: {all: {bad_blocks: 6, price: 30000 usd}}\n"
    found = run(written(tmp_path, text))
    assert "It can be built in " in found.stdout and "others do not count" in found.stdout
    share = json.loads(run(written(tmp_path, text), "--json").stdout)["buildable_share"]
    assert 0.0 < share < 1.0


def test_a_spread_that_no_grade_reads_is_refused(tmp_path: Path) -> None:
    head = "grading: g\npackage: h100\ndie: gpu\nspeed_spread: 0.06\n"
    for speed in ("", "speed: 0, "):
        grades = f"grades: {{all: {{bad_blocks: 12, {speed}price: 30000 usd}}}}\n"
        found = run(written(tmp_path, head + grades))
        assert found.exit_code == 2 and "g.yaml:4:1: speed_spread: nothing reads it: no grade asks" in found.stderr
        assert run(written(tmp_path, head.replace("speed_spread: 0.06\n", "") + grades)).exit_code == 0


@examples(40)
@given(
    grades=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.9, 1.0, 1.1])), min_size=1, max_size=5),
    spread=st.sampled_from([0.0, 0.1]),
)
def test_grades_are_refused_to_which_no_die_comes_and_no_others(grades: list[tuple[int, float]], spread: float) -> None:
    sold = [Grade(f"g{number}", bad, speed, 10.0 - number) for number, (bad, speed) in enumerate(grades)]
    shares = sorted_shares(sold, {bad: np.array([(1.0 + bad) / 4.0]) for bad, _ in grades}, spread)
    got = {grade.name for grade, (share,) in zip(sold, shares, strict=True) if share > 0.0}
    node = parse_yaml("\n".join(["grades:", *(f"  {grade.name}: {{}}" for grade in sold)]), "g.yaml")
    assert isinstance(node.value, dict)
    refused = [problem.path.removeprefix("grades.") for problem in vain(node.value["grades"], sold, spread)]
    # Where all dies are as fast, a grade of less speed than theirs is one of any speed.
    assert {grade.name for grade in sold} - got == {*refused}


def test_no_grade_is_told_and_a_loss_is_not_called_best(tmp_path: Path) -> None:
    head = "grading: g\npackage: h100\ndie: gpu\n"
    none = run(written(tmp_path, head + "grades: {}\n"))
    assert none.exit_code == 2 and "g.yaml:4:9:" in none.stderr and "at least one" in none.stderr
    loss = written(tmp_path, head + "grades: {all: {bad_blocks: 12, price: 500 usd}}\n")
    assert json.loads(run(loss, "--json").stdout)["best"] is None
    assert "Every choice loses." in run(loss).stdout


FASTER = "0\ngrades:\n  fast: {bad_blocks: 12, speed: 1.01"
"""A grade that asks for more than the speed which all dies have."""


@pytest.mark.parametrize(
    ("old", "new", "line", "fragment"),
    [
        ("package: h100", "package: h1000", 4, "did you mean 'h100'?"),
        ("die: gpu", "die: hbm", 5, "unknown harvested die of h100 'hbm' (allowed: gpu)"),
        ("speed_spread: 0.06", "speed_spread: 6", 6, "speed_spread"),
        ("speed_spread: 0.06", "spread: 0.06", 6, "did you mean 'speed_spread'?"),
        ("price: 28000 usd", "price: 28000", 8, "needs a unit"),
        ("bad_blocks: 12", "bad_blocks: 1.5", 8, "whole number"),
        ("speed: 0.97, price", "sped: 0.97, price", 8, "did you mean 'speed'?"),
        ("bad_blocks: 30, ", "", 9, "lacks the key 'bad_blocks'"),
        ("speed_spread: 0.06\n", "", 3, "lacks the key 'speed_spread': grades.fast asks for a speed"),
        ("bad_blocks: 30, speed: 0.85", "bad_blocks: 12, speed: 0.97", 9, "grades.board: no die comes to it: fast"),
        ("speed: 0.97", "speed: 9", 8, "grades.fast: no die comes to it in any draw: fewer than 1e-06"),
        ("speed: 0.97", "speed: 1.5", 8, "have a speed of 1.5 and at most 12 bad blocks"),
        (
            "bad_blocks: 72",
            "bad_blocks: 200",
            10,
            "entry: bad_blocks: 200 of the 144 blocks of gpu; at most 143",
        ),
        ("price: 2000 usd", "price: 23000 usd", 9, "grades.board: no die comes to it: entry, which is not cheaper"),
        ("0.06\ngrades:\n  fast: {bad_blocks: 12, speed: 0.97", FASTER, 8, "all have a speed of 1, found 1.01"),
        ("die: gpu", "die: gpu\nset: {package.dice: 2}", 6, "unknown setting of h100 'package.dice'"),
        ("die: gpu", "die: gpu\nset: {package.spares: 60}", 6, "unknown setting of h100 'package.spares'"),
        ("die: gpu", "die: gpu\nset: {package.volume: 1}", 6, "unknown setting of h100 'package.volume'"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, old: str, new: str, line: int, fragment: str) -> None:
    text = EXAMPLE.read_text()
    assert old in text
    found = run(written(tmp_path, text.replace(old, new, 1)))
    assert found.exit_code == 2 and fragment in found.stderr
    assert f"g.yaml:{line}:" in found.stderr
