"""Best designs found again for other numbers: elasticities against searches of their own, draws, what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from sweeper.designs.package_draws import evaluate_design
from sweeper.errors import Misuse, SpecError, SweeperError
from sweeper.library.library import Library, builtin_specs
from sweeper.library.packages.reader import read_package
from sweeper.planning.plan import Plan, make_plan
from sweeper.planning.sensitivity.parameters import check_varied
from sweeper.planning.sensitivity.perturbed import KEPT, REOPTIMISED, ROBUST, spread_out
from sweeper.study.perturb import Perturbation
from sweeper.study.study import perturbed
from sweeper.views.sensitivity.answer import elasticities, sensitivity
from sweeper.words.columns import engine_column
from tests.planning.test_optimize import BOTH, optima, rows, time_s, write

TIME = "iteration_time_s"
ALONE = Perturbation((0.8, 1.2), draws=0)
STEP = 0.2
WHOLE = {"starts": 10, "steps": 100}
NO_STACK = {"stack": None, "memory": "hbm2e"}
LISTED = {"template": None, "stack": None, "chip": "a100_sxm_80gb", "memory": "hbm2e"}
"""A box whose chip and memory are listed: nothing is searched."""


def perturbed_plan(path: Path, perturbation: Perturbation, chosen: str | None = None, **changes: Any) -> Plan:
    plan = Plan(perturbed(make_plan(write(path, **changes)).study, perturbation, chosen))
    plan.check()
    return plan


def elasticity(plan: Plan, frame: pl.DataFrame) -> dict[str, float]:
    found = elasticities(frame.with_columns(_best=TIME), plan.contents.varied)
    return dict(found.select("parameter", "elasticity").iter_rows())


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, pl.DataFrame]:
    """The small study, every number alone."""
    plan = perturbed_plan(tmp_path_factory.mktemp("alone"), ALONE, optimize=WHOLE, axes=NO_STACK)
    return plan, rows(plan)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, pl.DataFrame]:
    """The same in draws of a few numbers, at two nodes."""
    perturbation = Perturbation(draws=12, only=("technology.*", "template.power", "link.bandwidth"))
    axes = {"technology": ["public_n5_from_n7", "public_n3_from_n7"]}
    plan = perturbed_plan(tmp_path_factory.mktemp("drawn"), perturbation, axes=axes)
    return plan, rows(plan)


# ---- each number alone


@pytest.mark.parametrize(
    ("name", "unit", "off"),
    [
        pytest.param("template.power", "W", 0.02, marks=pytest.mark.nightly),
        pytest.param("link.bandwidth", "B/s", 0.002, marks=pytest.mark.nightly),
        ("memory.bandwidth", "B/s", 0.002),
    ],
)
def test_elasticities_are_differences_of_searches_of_their_own(
    tmp_path: Path, alone: tuple[Plan, pl.DataFrame], name: str, unit: str, off: float
) -> None:
    """Power moves the steps of whole cores, so that a search may miss 0.4 % of its best; that is 0.01 of a difference
    over 40 %, and two searches differ. Bandwidths of what is listed move nothing."""
    plan, frame = alone
    nominal = frame.filter((pl.col("parameter") == "") & (pl.col("draw") == 0))[engine_column(name)][0]
    ends = [f"{nominal * factor!r} {unit}" for factor in (1.0 - STEP, 1.0 + STEP)]
    times = [time_s(optima(tmp_path, axes={**NO_STACK, name: end}, optimize=WHOLE)) for end in ends]
    difference = np.log(times[1] / times[0]) / np.log((1.0 + STEP) / (1.0 - STEP))
    assert elasticity(plan, frame)[name] == pytest.approx(difference, abs=off)


def test_what_is_listed_changes_by_what_its_equations_say(tmp_path: Path) -> None:
    """No design: the differences are those of the study with other values, to the bit."""
    changes: dict[str, Any] = {"optimize": None}
    plan = perturbed_plan(tmp_path, replace(ALONE, only=("memory.bandwidth", "chip.peak*")), axes=LISTED, **changes)
    frame = rows(plan)
    nominal = frame.filter(pl.col("parameter") == "")
    assert nominal.height == 1 and nominal["design"].to_list() == [REOPTIMISED]
    for row in frame.filter(pl.col("parameter") == "memory.bandwidth").iter_rows(named=True):
        axes = {**LISTED, "memory.bandwidth": f"{row['memory_bandwidth_Bps']!r} B/s"}
        assert row[TIME] == time_s(rows(make_plan(write(tmp_path / "one", axes=axes, **changes))))
    assert elasticity(plan, frame)["memory.bandwidth"] < 0.0


def test_a_number_that_cannot_be_more_is_only_less(alone: tuple[Plan, pl.DataFrame]) -> None:
    _, frame = alone
    values = frame.filter(pl.col("parameter") == "template.register_utilisation")["template_register_utilisation"]
    assert len(values) in (0, 2) and (values <= 1.0).all()


def test_a_searched_axis_is_searched_again_for_every_value(tmp_path: Path) -> None:
    """Of two links the cheap search takes the faster one, however little faster it is."""
    axes = {**LISTED, "link": None, "link.latency": "1 us"}
    search = {"search": {"link": ["nvlink3", "nvlink4"]}, "optimize": None}
    plan = perturbed_plan(tmp_path, replace(ALONE, only=("link.bandwidth",)), axes=axes, **search)
    frame = rows(plan)
    assert frame["link"].cast(pl.String).unique().to_list() == ["nvlink4"]
    assert plan.row_count == 1 and frame.height == 3


# ---- packages

PACKAGED = {**LISTED, "chip_cost": "package", "package": "a100"}
PRICED: dict[str, Any] = {"optimize": None, "objective": {"minimise": "package_cost_usd"}}


def test_draws_of_a_package_are_those_of_its_cost(tmp_path: Path) -> None:
    """All that is uncertain of it is drawn, as `sweeper cost` draws it; what is not stays."""
    plan = perturbed_plan(tmp_path, Perturbation(draws=6, spread=0.0), axes=PACKAGED, **PRICED)
    frame = rows(plan)
    drawn = frame.filter((pl.col("design") == REOPTIMISED) & (pl.col("parameter") == "")).sort("draw")
    stock = Library.load([builtin_specs()])
    design = read_package(stock.find("package", "a100"), stock)
    alone = evaluate_design(design, stock, {}, range(7))
    assert len({*drawn["package_cost_usd"]}) == 7
    np.testing.assert_allclose(drawn["package_cost_usd"], alone.cost_usd, rtol=1e-12)


def test_a_number_of_a_package_is_varied_by_its_path(tmp_path: Path) -> None:
    names = ("assembly/cowos_s/alignment_yield", "assembly/cowos_s/package_price")
    perturbation = replace(ALONE, only=("assembly/cowos_s/*", "package.*"))
    plan = perturbed_plan(tmp_path, perturbation, axes=PACKAGED, **PRICED)
    assert {*names, "package.unit_area"} <= {*plan.contents.varied}
    frame = rows(plan)
    for name in names:
        told = frame.filter(pl.col("parameter") == name).sort(engine_column(name))
        assert told.height == 2
        for value, cost in told.select(engine_column(name), "package_cost_usd").iter_rows():
            unit = " usd" if name.endswith("price") else ""
            axes = {**PACKAGED, name: f"{value!r}{unit}"}
            one = rows(make_plan(write(tmp_path / "one", axes=axes, **PRICED)))
            assert one["package_cost_usd"][0] == pytest.approx(cost, rel=1e-12)
    found = elasticities(frame.with_columns(_best="package_cost_usd"), plan.contents.varied)
    elasticity = dict(found.select("parameter", "elasticity").iter_rows())
    assert -0.1 < elasticity["assembly/cowos_s/alignment_yield"] < 0.0 < elasticity["assembly/cowos_s/package_price"]


# ---- draws


@pytest.mark.nightly
def test_designs_of_draws_are_no_worse_than_those_that_are_kept(drawn: tuple[Plan, pl.DataFrame]) -> None:
    _, frame = drawn
    wide = frame.filter(pl.col("draw") > 0).pivot("design", index=["combination", "draw"], values=TIME)
    assert wide.height == 24
    assert (wide[REOPTIMISED] <= wide[KEPT] * (1.0 + 1e-12)).all()
    assert (wide[REOPTIMISED] <= wide[ROBUST] * (1.0 + 1e-12)).all()
    for _, its in wide.group_by("combination"):
        assert its[ROBUST].quantile(0.95, "higher") <= its[KEPT].quantile(0.95, "higher")


def test_draws_lie_within_intervals_and_spreads(drawn: tuple[Plan, pl.DataFrame]) -> None:
    plan, frame = drawn
    draws = frame.filter(pl.col("draw") > 0)
    entry = plan.study.library.find("technology", "public_n3_from_n7").values["lane_energy"]
    assert entry.low < entry.high
    nominal = frame.filter((pl.col("parameter") == "") & (pl.col("draw") == 0))["template_power_W"][0]
    assert draws["template_power_W"].is_between(0.9 * nominal, 1.1 * nominal).all()
    assert draws["template_power_W"].n_unique() == 12
    logic = draws.filter(pl.col("technology") == "public_n3_from_n7")["technology_logic_area"]
    value = plan.study.library.find("technology", "public_n3_from_n7").values["logic_area"]
    ends = (value.low, value.high) if value.low < value.high else (0.9 * value.number, 1.1 * value.number)
    assert logic.is_between(*ends).all()


def test_the_answer_says_whether_a_step_is_a_gain(drawn: tuple[Plan, pl.DataFrame]) -> None:
    plan, frame = drawn
    answer = sensitivity(plan, frame)
    (step,) = answer.steps
    assert (step.before, step.after, step.pairs) == ("public_n5_from_n7", "public_n3_from_n7", 1)
    assert step.p05 <= step.p95 and step.sure_gain + step.unsure + step.sure_loss == 1
    assert answer.combinations == 2 and answer.infeasible == 0
    assert {policy.design for policy in answer.policies} == {KEPT, ROBUST}
    assert all(policy.p95 >= policy.p50 >= 1.0 - 1e-9 for policy in answer.policies)
    shown = {each.parameter for each in answer.elasticities}
    assert shown.isdisjoint(answer.idle) and shown | set(answer.idle) == set(plan.contents.varied)


def test_chunks_give_the_same_bytes_in_any_order(drawn: tuple[Plan, pl.DataFrame]) -> None:
    plan, _ = drawn
    again = Plan(plan.study)
    assert again.evaluate(0).equals(plan.evaluate(0)) and again.hash == plan.hash


def test_designs_to_begin_from_are_good_and_apart() -> None:
    x = np.array([[0.5, 0.5], [0.5, 0.5], [0.9, 0.1], [0.1, 0.9]])
    assert spread_out(x, np.array([1.0, 1.0, 1.2, 9.0])).tolist() == [[0.5, 0.5], [0.9, 0.1]]


# ---- mistakes


@pytest.mark.parametrize(
    ("changes", "objective", "fragment"),
    [
        ({"objective": None, "optimize": None}, None, "nothing to find the best of"),
        ({"objective": BOTH}, None, "several objectives"),
        ({"objective": BOTH}, "iteration_time", "did you mean 'iteration_time_s'"),
        ({"axes": {"draw": [0, 1]}}, None, "draws by itself"),
    ],
)
def test_what_cannot_be_varied_is_refused(
    tmp_path: Path, changes: dict[str, Any], objective: str | None, fragment: str
) -> None:
    with pytest.raises(SweeperError, match=fragment):
        perturbed_plan(tmp_path, ALONE, objective, **changes)


def test_a_pattern_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match=r"^the objective reads no number facility\.\*"):
        perturbed_plan(tmp_path, replace(ALONE, only=("template.*", "facility.*")))


def test_a_study_without_numbers_to_vary_is_told_where_its_objective_stands(tmp_path: Path) -> None:
    study = perturbed(make_plan(write(tmp_path)).study, ALONE)
    with pytest.raises(SpecError, match=r"yaml:\d+:\d+: .*reads no number of the hardware"):
        check_varied(study, ())


def test_boxes_may_vary_different_numbers(tmp_path: Path) -> None:
    """Of two boxes one has links of its own to other nodes: rows of the other have no such number."""
    boxes = [{"axes": {"outer_link": "infiniband_hdr"}}, {"axes": {"outer_link.bandwidth": "10 GB/s"}}]
    axes = {**LISTED, "outer_link": None}
    only = replace(ALONE, only=("outer_link.bandwidth", "memory.bandwidth"))
    plan = perturbed_plan(tmp_path, only, boxes=boxes, axes=axes, optimize=None)
    frame = rows(plan)
    answer = sensitivity(plan, frame)
    assert frame.height == 10 and answer.combinations == 2
    nominal = frame.filter(pl.col("parameter") == "").sort("combination")
    plain = rows(make_plan(write(tmp_path / "plain", boxes=boxes, axes=axes, optimize=None)))
    assert nominal[TIME].to_list() == plain[TIME].to_list()


def test_a_number_that_the_study_gives_is_not_that_of_the_role_that_stands_in(tmp_path: Path) -> None:
    axes = {**LISTED, "outer_link": None, "outer_link.bandwidth": "10 GB/s"}
    plan = perturbed_plan(tmp_path, replace(ALONE, only=("link.*",)), axes=axes, optimize=None)
    nominal = rows(plan).filter(pl.col("parameter") == "")
    assert time_s(nominal) == time_s(rows(make_plan(write(tmp_path / "plain", axes=axes, optimize=None))))
    assert "outer_link_bandwidth_Bps" not in plan.contents.varied_columns


def test_a_box_in_which_nothing_is_varied_has_its_values_alone(tmp_path: Path) -> None:
    boxes = [{"axes": {"outer_link": "infiniband_hdr", "zero_stage": 1}}, {"axes": {"zero_stage": 1}}]
    axes = {**LISTED, "outer_link": None, "zero_stage": None}
    only = replace(ALONE, only=("outer_link.bandwidth",))
    frame = rows(perturbed_plan(tmp_path, only, boxes=boxes, axes=axes, optimize=None))
    assert frame.group_by("combination").len().sort("combination")["len"].to_list() == [3, 1]


def test_voltages_that_a_standard_fixes_are_not_varied(tmp_path: Path) -> None:
    """The voltage of HBM is its least and its highest: with any of the three alone there would be no such device."""
    only = replace(ALONE, only=("stack.*", "template.nominal_voltage"))
    plan = perturbed_plan(tmp_path, only, axes={"stack": "hbm2e", "memory": None})
    names = set(plan.contents.varied)
    assert "stack.wire_rate" in names and "template.nominal_voltage" in names
    assert not [name for name in names if name.startswith("stack.") and "voltage" in name]
    said = perturbed_plan(tmp_path, only, axes={"stack": "hbm2e", "memory": None, "stack.maximum_voltage": "1.4 V"})
    assert "stack.nominal_voltage" in said.contents.varied
