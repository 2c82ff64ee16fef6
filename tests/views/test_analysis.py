"""Analysis of a dataset: what each verb promises, first as a property, then as pictures."""

import itertools
import math
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from sweeper.errors import Misuse
from sweeper.views.analysis import best, breakdown, heatmap, pareto, ratios
from sweeper.views.lineage import explain
from sweeper.views.pictures.figures import breakdown_figure, folded, heat_maps, pareto_figure

GOALS = {"iteration_time_s": "minimise", "utilisation": "maximise", "system_price_usd": "minimise"}
TIME_AND_PRICE = {"iteration_time_s": "minimise", "system_price_usd": "minimise"}

# Few distinct values, so that equal points and partial ties are common.
COST = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5, math.inf])
POSITIVE = st.floats(min_value=1e-6, max_value=1e6)


def points(rows: list[tuple[float, ...]], names: list[str]) -> pl.DataFrame:
    """A frame of float columns with a `point_id`."""
    schema = dict.fromkeys(names, pl.Float64)
    return pl.DataFrame(rows, schema=schema, orient="row").with_row_index("point_id")


def dominates(one: dict, other: dict, goals: dict[str, str]) -> bool:
    """Whether `one` is nowhere worse than `other`, and somewhere better."""
    signs = {"minimise": 1.0, "maximise": -1.0}
    pairs = [(signs[sense] * one[name], signs[sense] * other[name]) for name, sense in goals.items()]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


# pareto


@given(st.lists(st.tuples(COST, COST, COST), max_size=40), st.integers(min_value=1, max_value=3))
def test_pareto_keeps_what_nothing_dominates_and_drops_the_rest(rows: list[tuple[float, ...]], count: int) -> None:
    goals = dict(itertools.islice(GOALS.items(), count))
    frame = points(rows, list(GOALS))
    kept = pareto(frame, goals)
    every, front = frame.rows(named=True), kept.rows(named=True)
    assert not any(dominates(one, other, goals) for one in every for other in front)
    dropped = frame.filter(~pl.col("point_id").is_in(kept["point_id"].to_list())).rows(named=True)
    assert all(any(dominates(one, other, goals) for one in front) for other in dropped)


@given(st.lists(st.tuples(COST, COST), max_size=30), st.randoms(use_true_random=False))
def test_pareto_does_not_depend_on_row_order(rows: list[tuple[float, ...]], random: object) -> None:
    goals = {"iteration_time_s": "minimise", "utilisation": "maximise"}
    frame = points(rows, list(goals))
    order = list(range(frame.height))
    random.shuffle(order)  # type: ignore[attr-defined]
    assert_frame_equal(pareto(frame[order], goals), pareto(frame, goals))


def test_pareto_ignores_infeasible_points_and_missing_numbers() -> None:
    frame = pl.DataFrame(
        {
            "point_id": [0, 1, 2, 3, 4],
            "iteration_time_s": [1.0, 2.0, 3.0, math.nan, None],
            "system_price_usd": [1.0, 3.0, 2.0, 0.0, 0.0],
            "feasible": [False, True, True, True, True],
        }
    )
    front = pareto(frame, TIME_AND_PRICE)
    assert front["point_id"].to_list() == [1, 2]


def test_pareto_takes_integers_and_a_lazy_frame() -> None:
    frame = pl.LazyFrame({"chips": [8, 4, 8], "tokens": [5, 3, 4]})
    assert pareto(frame, {"chips": "minimise", "tokens": "maximise"}).rows() == [(4, 3), (8, 5)]


@pytest.mark.parametrize(("goals", "words"), [({}, "none"), ({"utilisation": "max"}, "'utilisation': 'max'")])
def test_pareto_refuses_unclear_objectives(goals: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        pareto(points([(1.0,)], ["utilisation"]), goals)


def test_what_has_no_numbers_is_refused_in_a_line() -> None:
    frame = points([(1.0,), (0.0,)], ["utilisation"]).with_columns(
        chip=pl.lit("h100_sxm"), lost=pl.lit(None, pl.Float64)
    )
    with pytest.raises(Misuse, match="unknown column of numbers 'chip'"):
        pareto(frame, {"chip": "minimise"})
    with pytest.raises(Misuse, match="unknown column of numbers 'chip'"):
        ratios(frame, "chip", pl.lit(True), pl.lit(True))
    with pytest.raises(Misuse, match="no feasible point has a number in lost"):
        pareto(frame, {"lost": "minimise"})
    assert pareto(frame.with_columns(feasible=False), {"lost": "minimise"}).is_empty()
    with pytest.raises(Misuse, match="unknown value of chip 'h100', did you mean 'h100_sxm'"):
        ratios(frame, "utilisation", {"chip": "h100"}, pl.lit(True))
    with pytest.raises(Misuse, match="1 of the values of utilisation are not above 0"):
        ratios(frame, "utilisation", {"chip": "h100_sxm"}, pl.lit(True))
    with pytest.raises(Misuse, match=r"explain takes a plan, not 'close\.yaml'"):
        explain("close.yaml", 6)  # type: ignore[arg-type]


# best


@given(st.lists(st.tuples(st.sampled_from([1.0, 2.0, 3.0]), COST), max_size=40))
def test_best_is_the_smallest_of_each_group(rows: list[tuple[float, ...]]) -> None:
    frame = points(rows, ["chip", "iteration_time_s"])
    winners = best(frame, ["chip"], {"iteration_time_s": "minimise"}).collect()
    assert winners["chip"].to_list() == sorted({chip for chip, _ in rows})
    for row in winners.rows(named=True):
        mine = frame.filter(pl.col("chip") == row["chip"])
        assert row["iteration_time_s"] == mine["iteration_time_s"].min()
        equals = mine.filter(pl.col("iteration_time_s") == row["iteration_time_s"])
        assert row["point_id"] == equals["point_id"].min()


def test_best_of_all_and_ties_by_a_second_objective() -> None:
    frame = points([(2.0, 1.0), (1.0, 5.0), (1.0, 3.0)], ["iteration_time_s", "system_price_usd"])
    goals = {"iteration_time_s": "minimise", "system_price_usd": "maximise"}
    assert best(frame, [], goals).collect()["point_id"].to_list() == [1]


# ratios

VALUES = st.lists(st.tuples(st.sampled_from([0.0, 1.0]), POSITIVE), min_size=1, max_size=20)


@given(VALUES, POSITIVE)
def test_ratios_do_not_change_with_the_unit_of_the_value(rows: list[tuple[float, float]], scale: float) -> None:
    frame = points(rows, ["side", "value"])
    scaled = frame.with_columns(value=pl.col("value") * scale)
    one, other = (ratios(each, "value", {"side": 0.0}, {"side": 1.0}).collect().item(0, 0) for each in (frame, scaled))
    assert (one is None) == (other is None) == (len({side for side, _ in rows}) < 2)
    assert one is None or one == pytest.approx(other, rel=1e-9)


@given(VALUES)
def test_the_ratio_turned_round_is_its_inverse(rows: list[tuple[float, float]]) -> None:
    frame = points(rows, ["side", "value"])
    there = ratios(frame, "value", {"side": 0.0}, {"side": 1.0}).collect().item(0, "ratio")
    back = ratios(frame, "value", pl.col("side") == 1.0, pl.col("side") == 0.0).collect().item(0, "ratio")
    assert there is None or there * back == pytest.approx(1.0)


def test_ratios_per_workload_with_lists_of_values_and_counts() -> None:
    frame = pl.DataFrame(
        {
            "workload": ["b", "b", "b", "a", "a", "a"],
            "chip": ["x", "y", "z", "x", "y", "z"],
            "value": [8.0, 2.0, 0.5, 3.0, 1.0, 9.0],
            "feasible": [True, True, True, True, True, False],
        }
    )
    answer = ratios(frame, "value", {"chip": "x"}, {"chip": ["y", "z"]}, by=["workload"]).collect()
    assert answer.columns == ["workload", "ratio", "group_cells", "versus_cells"]
    assert answer["workload"].to_list() == ["a", "b"]
    assert answer["ratio"].to_list() == pytest.approx([3.0, 8.0])
    assert answer["versus_cells"].to_list() == [1, 2]


# heatmap


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("abc"), st.sampled_from("pq"), st.sampled_from("xyz")), POSITIVE, min_size=1
    )
)
def test_every_point_is_in_its_cell_and_the_other_cells_are_empty(cells: dict[tuple[str, str, str], float]) -> None:
    rows = [(*place, value) for place, value in cells.items()]
    frame = pl.DataFrame(rows, schema=["chip", "memory", "link", "value"], orient="row")
    table = heatmap(frame, ["chip"], ["memory", "link"], "value")
    found = {
        (row["chip"], *name.split(" ")): value
        for row in table.rows(named=True)
        for name, value in row.items()
        if name != "chip" and value is not None
    }
    assert found == cells
    assert table.columns[1:] == sorted(table.columns[1:])
    assert table["chip"].to_list() == sorted(table["chip"])


def test_an_infeasible_point_is_an_empty_cell() -> None:
    frame = pl.DataFrame({"chip": ["a", "b"], "link": ["x", "x"], "value": [1.0, 2.0], "feasible": [True, False]})
    assert heatmap(frame, ["chip"], ["link"], "value")["x"].to_list() == [1.0, None]


def test_two_points_in_a_cell_are_refused() -> None:
    frame = pl.DataFrame({"chip": ["a", "a"], "link": ["x", "x"], "value": [1.0, 2.0]})
    with pytest.raises(ValueError, match="heatmap of value: 1 points too many for one per cell"):
        heatmap(frame, ["chip"], ["link"], "value")


# breakdown


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), *[st.floats(min_value=0.0, max_value=1e3)] * 3), max_size=20))
def test_shares_are_shares(rows: list[tuple[float, ...]]) -> None:
    frame = points(rows, ["chip", "compute_time_s", "memory_time_s", "network_time_s"])
    table = breakdown(frame, ["chip"]).collect()
    assert table["points"].sum() == sum(sum(times) > 0.0 for _, *times in rows)
    for row in table.rows(named=True):
        shares = [row[f"{name}_share"] for name in ("compute", "memory", "network")]
        assert sum(shares) == pytest.approx(1.0)
        assert all(0.0 <= share <= 1.0 + 1e-12 for share in shares)


def test_a_slow_point_counts_as_much_as_a_fast_one() -> None:
    rows = [(1.0, 1.0, 0.0, 0.0), (1.0, 0.0, 0.0, 99.0)]
    table = breakdown(points(rows, ["chip", "compute_time_s", "memory_time_s", "network_time_s"]), ["chip"]).collect()
    assert (table.item(0, "compute_share"), table.item(0, "network_share")) == (0.5, 0.5)


def systems() -> pl.DataFrame:
    """Two workloads (one in two sizes) on eight systems, one of them infeasible."""
    axes = {
        "chip": ["h100_sxm", "wse_2"],
        "topology": ["dragonfly", "my_mesh"],
        "memory": ["hbm3", "ddr4"],
        "link": ["pcie5"],
    }
    rows = [dict(zip(axes, values)) for values in itertools.product(*axes.values())]
    grid = pl.concat(
        pl.DataFrame(rows).with_columns(workload=pl.lit(workload)).filter(pl.col("chip").is_in(chips))
        for workload, chips in (("hpl_1m", ["h100_sxm"]), ("hpl_5m", ["wse_2"]), ("my_model", ["h100_sxm", "wse_2"]))
    ).with_row_index("point_id")
    number = pl.col("point_id").cast(pl.Float64) + 1.0
    return grid.with_columns(
        feasible=pl.col("point_id") != 3,
        utilisation=number / 20.0,
        cost_efficiency_flops_per_usd=1e9 * number,
        power_efficiency_flops_per_W=1e9 * number**2,
        iteration_time_s=1.0 / number,
        system_price_usd=1e6 * number,
        compute_time_s=number,
        memory_time_s=2.0 * number,
        network_time_s=pl.lit(1.0),
    )


def draw(directory: Path) -> list[Path]:
    frame = systems()
    return [
        *heat_maps(frame, directory, "toy"),
        *pareto_figure(frame, TIME_AND_PRICE, directory, "toy"),
        *breakdown_figure(frame.lazy(), directory, "toy"),
    ]


def test_figures_are_written_and_equal_frames_give_equal_bytes(tmp_path: Path) -> None:
    one, other = draw(tmp_path / "one"), draw(tmp_path / "other")
    stems = ["heat_map_hpl", "heat_map_my_model", "pareto_hpl", "pareto_my_model", "breakdown"]
    assert [path.name for path in one] == [f"{stem}.{kind}" for stem in stems for kind in ("png", "svg")]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]


def test_figures_name_the_chip_that_was_computed_with_half_its_cores(tmp_path: Path) -> None:
    halved = systems().with_columns(pl.col("chip").replace("h100_sxm", "h100_sxm_half"))
    plain, noted = heat_maps(systems(), tmp_path / "plain")[1], heat_maps(halved, tmp_path / "noted")[1]
    note = "H100 on the dragonfly: computed with half of its cores, as published."
    assert note not in plain.read_text(encoding="utf-8")
    assert note in noted.read_text(encoding="utf-8")


def test_titles_name_the_axes_over_which_rows_fall_together(tmp_path: Path) -> None:
    assert folded(systems(), ["workload", "chip", "memory", "link"]) == ["topology"]
    assert "mean over topology -->" in breakdown_figure(systems(), tmp_path)[1].read_text()
    one = systems().filter(topology="dragonfly")
    rates = [one.with_columns(memory_Bps=pl.lit(rate), decided=pl.lit(str(rate))) for rate in (1e12, 2e12)]
    swept = pl.concat(rates).select(
        "point_id", "memory_Bps", "decided", pl.exclude("point_id", "memory_Bps", "decided")
    )
    assert "busy time, mean over memory -->" in breakdown_figure(swept, tmp_path)[1].read_text()
    assert "in the busy time -->" in breakdown_figure(one, tmp_path)[1].read_text()


def test_a_front_names_what_tells_its_points_apart_and_lists_a_part_of_many(tmp_path: Path) -> None:
    one = systems().filter(topology="dragonfly", workload="my_model", chip="h100_sxm", memory="ddr4")
    sizes = [float(at + 1) for at in range(100)]
    many = pl.concat(
        one.with_columns(load_B=pl.lit(size), iteration_time_s=pl.lit(size), system_price_usd=pl.lit(-size))
        for size in sizes
    ).select("point_id", "load_B", pl.exclude("point_id", "load_B"))
    for count, head in ((2, "on the front"), (100, "40 of 100 on the front")):
        drawing = pareto_figure(many.head(count), TIME_AND_PRICE, tmp_path)[1].read_text()
        assert f"<!-- {head}" in drawing.replace("\n", " ")
        assert "DDR4, PCIe 5, load 1 B" in drawing and f"load {count} B" in drawing


def test_figures_of_a_study_without_feasible_points(tmp_path: Path) -> None:
    frame = systems().with_columns(feasible=False)
    assert len(heat_maps(frame, tmp_path)) == 4
    assert pareto_figure(frame, TIME_AND_PRICE, tmp_path) == breakdown_figure(frame, tmp_path) == []
