"""Wafers that packages take and how long they wait for them: by hand, and beside what the package's own results say."""

from dataclasses import replace

import numpy as np
import pytest

from sweeper.designs.package_draws import evaluate_design, with_numbers
from sweeper.designs.portfolio import Portfolio, portfolio_report, read_portfolio
from sweeper.designs.supply import lead_time_s, total_of, wafers_of, waits_s
from sweeper.kernels.packages.layout import DIE_NUMBERS
from sweeper.library.library import Library, builtin_specs
from sweeper.library.packages.design import PackageDesign
from sweeper.library.packages.reader import read_package
from tests.places import ROOT

DAY_S = 86_400.0


def library() -> Library:
    return Library.load([builtin_specs()])


def design_of(name: str) -> PackageDesign:
    stock = library()
    return read_package(stock.find("package", name), stock)


def test_wafers_and_waits_by_hand() -> None:
    taken, volumes = [{"a": 0.1}, {"a": 0.2, "b": 1.0}], [10.0, 20.0]
    assert total_of(taken, volumes) == pytest.approx({"a": 5.0, "b": 20.0})
    assert waits_s(taken, volumes, {"a": 0.5, "c": 1.0}) == pytest.approx({"a": 10.0})


def test_wafers_are_good_dies_over_yield_and_what_assembly_loses() -> None:
    """One die: of those mounted, `quality` of the packages that pass work and `assembled_test_yield` pass."""
    stock, design = library(), design_of("h100")
    found, gpu = evaluate_design(design, stock, {}), list(design.dies).index("gpu")
    dies = wafers_of(design, {}, stock)["n5"] * found.of("dies_per_wafer", gpu)[0] * found.of("test_yield", gpu)[0]
    passed = np.prod([found.of("assembled_test_yield", row)[0] for row in (0, list(design.dies).index("interposer"))])
    assert dies == pytest.approx(1.0 / passed / found.of("quality")[0] / found.of("assembled_test_yield", gpu)[0])
    assert 1.0 < dies < 1.2


def test_every_layer_of_a_stack_takes_wafers_and_bought_dies_none() -> None:
    stock, design = library(), design_of("mi300x")
    taken = wafers_of(design, {}, stock)
    found = evaluate_design(design, stock, {})
    assert {"n5", "n7"} <= taken.keys() and not any("hbm" in node or "dram" in node for node in taken)
    xcd = list(design.dies).index("xcd")
    per_wafer = found.of("dies_per_wafer", xcd)[0] * found.of("test_yield", xcd)[0]
    lost = np.prod([found.of("assembled_test_yield", row)[0] for row in range(3)])
    assert taken["n5"] * per_wafer == pytest.approx(8.0 / lost / found.of("quality")[0], rel=1e-9)


def test_a_wait_counts_from_where_the_node_is_the_latest() -> None:
    """N7 takes 18 weeks and N16 14: those of N16 may wait four weeks before anything is late."""
    stock, design = library(), design_of("epyc_7742")
    alone = lead_time_s(design, {}, stock, {})
    assert alone == pytest.approx(evaluate_design(design, stock, {}).of("lead_time_s")[0], rel=1e-12)
    assert lead_time_s(design, {}, stock, {"n7": 10.0 * DAY_S}) == pytest.approx(alone + 10.0 * DAY_S, rel=1e-12)
    assert lead_time_s(design, {}, stock, {"n16": 28.0 * DAY_S}) == pytest.approx(alone, rel=1e-12)
    assert lead_time_s(design, {}, stock, {"n16": 38.0 * DAY_S}) == pytest.approx(alone + 10.0 * DAY_S, rel=1e-12)


def test_a_die_of_a_stated_lead_time_waits_too() -> None:
    stock, design = library(), design_of("epyc_7742")
    row = list(design.dies).index("ccd")
    stated = with_numbers(design, {row * len(DIE_NUMBERS) + DIE_NUMBERS.index("given_lead_time_s"): 200.0 * DAY_S})
    alone = lead_time_s(stated, {}, stock, {})
    assert lead_time_s(stated, {}, stock, {"n7": 10.0 * DAY_S}) == pytest.approx(alone + 10.0 * DAY_S, rel=1e-12)


def test_more_supply_is_never_later() -> None:
    stock = library()
    portfolio = read_portfolio(ROOT / "examples" / "portfolio.yaml", stock)

    def last(supply: dict[str, float]) -> float:
        return max(row["last_weeks"] for row in portfolio_report(replace(portfolio, supply=supply), stock)["systems"])

    first = portfolio_report(portfolio, stock)["systems"][0]["first_weeks"]
    assert last({"n7": 1e-4}) > last({"n7": 1e-3}) >= last({}) == pytest.approx(first)
    assert isinstance(portfolio, Portfolio)
