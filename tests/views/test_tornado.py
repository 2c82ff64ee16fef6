"""`sweeper tornado`: each bar is what the study says with that number written into it."""

import math
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

import sweeper
from sweeper.cli import main
from sweeper.errors import NoSuchPoint, UsageFault
from sweeper.views.sensitivity.tornado import MOST, Tornado, text, tornado, tornado_figure

STUDY, POINT = "table6_sn10", 3


@cache
def found() -> Tornado:
    return tornado(sweeper.plan(STUDY), POINT)


@pytest.mark.parametrize("at", range(7))
def test_a_bar_is_what_the_study_says_with_that_number(at: int) -> None:
    bar = found().bars[at]
    for number, metric in ((bar.low, bar.at_low), (bar.high, bar.at_high)):
        written = sweeper.plan(STUDY, settings=[f"{bar.parameter}={number!r} {bar.unit}".strip()])
        told = written.points([POINT], [found().metric, "infeasible_reason"])
        runs = told["infeasible_reason"][0] == 0
        assert math.isnan(metric) is not bool(runs)
        assert not runs or told[found().metric][0] == pytest.approx(metric, rel=1e-12)


SERVED = {
    "study": "served",
    "axes": {
        "workload": "llama3_8b",
        "task": "inference",
        "chip": "h100_sxm5_80gb",
        "memory": "hbm3_h100",
        "link": "nvlink4",
        "topology": "switch",
        "chips": 8,
        "dim_x": 8,
        "tensor_parallel": 8,
        "sequence_length": 2048,
        "output_length": 256,
        "requests": {"columns": ["batch_size", "microbatch"], "rows": [[16, 16]]},
    },
    "objective": {"minimise": "iteration_time_s"},
}


def test_numbers_that_a_model_makes_its_operators_from_move_these_too() -> None:
    found_of = tornado(sweeper.plan(SERVED), 0)
    bars = {bar.parameter: bar for bar in found_of.bars}
    assert {"sequence_length", "output_length", "memory.bandwidth", "calibration.kernel_overhead"} <= {*bars}
    assert "calibration.flash_attention" not in {*bars, *found_of.idle}, "a trait is no measured number"
    for bar in bars.values():
        written = sweeper.plan(SERVED, settings=[f"{bar.parameter}={bar.low!r} {bar.unit}".strip()])
        metric = written.points([0], ["iteration_time_s"])["iteration_time_s"][0]
        assert metric == pytest.approx(bar.at_low, rel=1e-12), bar.parameter


def test_what_does_not_move_it_is_idle_and_the_others_come_by_their_reach() -> None:
    reaches = [bar.reach(found().value) for bar in found().bars]
    assert reaches == sorted(reaches, reverse=True) and min(reaches) > 0.0
    assert not {bar.parameter for bar in found().bars} & {*found().idle}
    idle = sweeper.plan(STUDY, settings=[f"{found().idle[0]}=0.9"]) if "efficiency" in found().idle[0] else None
    assert idle is None or idle.points([POINT], [found().metric])[found().metric][0] == pytest.approx(found().value)


def test_a_batch_is_whole_and_stays() -> None:
    answer = tornado(sweeper.plan("lstm_parallelism"), 90)
    assert "batch_size" not in {*answer.idle, *(bar.parameter for bar in answer.bars)}
    assert answer.bars[0].parameter == "chip.peak_flops" and not answer.bars[0].cannot


def test_numbers_stay_within_what_is_possible() -> None:
    (efficiency,) = (bar for bar in found().bars if bar.parameter == "memory_efficiency")
    assert (efficiency.value, efficiency.low, efficiency.high) == (1.0, 0.8, 1.0)
    assert efficiency.at_high == found().value


def test_a_price_depends_on_prices() -> None:
    price = tornado(sweeper.plan(STUDY), POINT, "system_price_usd")
    assert price.unit == "usd" and "chip.price" in {bar.parameter for bar in price.bars}
    assert all(bar.at_high > bar.at_low for bar in price.bars if not bar.cannot)
    assert not any("efficiency" in bar.parameter for bar in price.bars)


def test_a_package_moves_with_what_it_is_made_of() -> None:
    """Prices and yields of the library by their paths, of the selected node, and parameters of the design."""
    four = "package.chiplets=4"
    plan = sweeper.plan("chiplet_count", settings=[four])
    cost = tornado(plan, 0, "package_cost_usd")
    bars = {bar.parameter: bar for bar in cost.bars}
    assert {"node.wafer_price", "assembly/cowos_s/package_price", "package.silicon_area"} <= {*bars}
    assert not {"node.price_diameter", "wafer/wafer_300/diameter"} & {*bars, *cost.idle}
    metal = bars["assembly/cowos_s/alignment_yield"]
    lost = 1.0 - metal.value
    assert (metal.low, metal.high) == pytest.approx((1.0 - lost / 0.8, 1.0 - lost / 1.2), rel=1e-12)
    for name in ("assembly/cowos_s/alignment_yield", "assembly/cowos_s/package_price", "package.silicon_area"):
        for number, usd in ((bars[name].low, bars[name].at_low), (bars[name].high, bars[name].at_high)):
            written = sweeper.plan("chiplet_count", settings=[four, f"{name}={number!r} {bars[name].unit}".strip()])
            assert written.points([0], ["package_cost_usd"])["package_cost_usd"][0] == pytest.approx(usd, rel=1e-12)


def test_a_die_that_outgrows_the_reticle_cannot_be_made() -> None:
    """One of 800 mm2, and a fifth more."""
    bars = {bar.parameter: bar for bar in tornado(sweeper.plan("chiplet_count"), 0, "package_cost_usd").bars}
    assert "die_exceeds_reticle" in bars["package.silicon_area"].cannot


def test_a_node_that_is_selected_and_named_is_varied_apart() -> None:
    """One package of the study has dies of the node by its name, the other one has them of the selected node."""
    axes = {**SERVED["axes"], "chip_cost": "package", "package": ["a100", "chiplets"], "node": "n7"}
    plan = sweeper.plan({**SERVED, "axes": axes, "override": ["package", "node"]})
    assert not any("/" in bar.parameter for bar in tornado(plan, 0, "iteration_time_s").bars)
    for point, own in enumerate(("node/n7/wafer_price", "node.wafer_price")):
        bars = {bar.parameter for bar in tornado(plan, point, "package_cost_usd").bars}
        assert {own} == bars & {"node/n7/wafer_price", "node.wafer_price"}


def test_counts_of_dies_are_whole_whatever_they_are_called() -> None:
    axes = {**SERVED["axes"], "chip_cost": "package", "package": "epyc_7742"}
    found = tornado(sweeper.plan({**SERVED, "axes": axes}), 0, "package_cost_usd")
    assert "package.dies" not in {bar.parameter for bar in found.bars} | {*found.idle}
    assert "package.power" in {bar.parameter for bar in found.bars} | {*found.idle}


@pytest.mark.parametrize(
    ("study", "point", "metric", "message"),
    [
        ("dse80", 0, None, "point 0 of dse80 cannot run: memory_capacity"),
        (STUDY, POINT, "utilization", "unknown metric of the study 'utilization'"),
        ("node_scaling", 0, None, "ask sweeper sensitivity"),
    ],
)
def test_what_has_no_tornado_is_refused(study: str, point: int, metric: str | None, message: str) -> None:
    with pytest.raises(UsageFault, match=message):
        tornado(sweeper.plan(study), point, metric)
    with pytest.raises(NoSuchPoint):
        tornado(sweeper.plan(STUDY), 10**6)


def test_the_command_prints_and_draws(tmp_path: Path) -> None:
    picture = tmp_path / "tornado.svg"
    ran = CliRunner().invoke(main, ["tornado", STUDY, str(POINT), "--figure", str(picture)])
    assert ran.exit_code == 0 and "memory.bandwidth" in ran.output and "cannot run: sram_capacity" in ran.output
    assert "memory.bandwidth" in picture.read_text()
    assert tornado_figure(found(), tmp_path / "again.svg").read_bytes() == picture.read_bytes()


def test_long_answers_are_cut_and_say_so() -> None:
    bars = tuple(bar for bar in found().bars for _ in range(MOST))
    long = Tornado(**{**vars(found()), "bars": bars})
    assert f"{len(bars) - MOST} more move it less" in text(long)


def test_a_study_of_bands_has_one_of_its_numbers() -> None:
    said = sweeper.load("a100_hbm_count").written.plain()
    axes = {axis: value for axis, value in said["axes"].items() if axis != "draw"}
    search = {"draw": {"range": [0, 9, 1]}}
    output = {**said["output"], "mode": "bands"}
    banded = sweeper.plan({**said, "axes": axes, "search": search, "output": output})
    answer = tornado(banded, 0, "iteration_time_s")
    assert answer.unit == "s" and answer.bars
