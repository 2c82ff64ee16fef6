"""No text of a picture overlaps another or is cut: how that is measured, and that it holds for every chart."""

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import polars as pl
import pytest
from matplotlib.figure import Figure

from sweeper.views import charts
from sweeper.views.frames import frame_of
from sweeper.views.pictures import canvas, texts
from sweeper.views.pictures.plot import Chosen, plot_figure
from tests.support.examples import first_of


def wrong(figure: Figure) -> list[str]:
    """What is wrong with the texts of a figure as it is."""
    figure.draw_without_rendering()
    return texts.misplaced(figure).lines()


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Mistakes in the pictures that are drawn from now on, each measured as it is written."""
    found: list[str] = []
    write: Callable[[Figure, Path], Path] = canvas._write

    def watched(figure: Figure, path: Path) -> Path:
        found.extend(f"{path.name}: {line}" for line in wrong(figure))
        return write(figure, path)

    monkeypatch.setattr(canvas, "_write", watched)
    return found


def test_two_texts_on_one_spot_are_found() -> None:
    figure = Figure(figsize=(4.0, 3.0))
    figure.text(0.5, 0.5, "here")
    assert wrong(figure) == []
    figure.text(0.5, 0.5, "there")
    assert wrong(figure) == ["'here' overlaps 'there'"]
    texts.settle(figure)  # Neither turning nor growing helps, and it ends.
    assert wrong(figure) == ["'here' overlaps 'there'"]
    assert figure.get_size_inches().tolist() == [4.0, 3.0]


def test_a_text_over_the_edge_is_found_and_gets_room() -> None:
    figure = Figure(figsize=(2.0, 2.0))
    figure.text(0.5, 0.5, "a_name_that_is_longer_than_the_figure_is_wide", ha="center")
    assert wrong(figure) == ["'a_name_that_is_longer_than_the_figure_is_wide' is cut by the edge"]
    texts.settle(figure)
    assert wrong(figure) == []
    assert figure.get_size_inches()[0] > 2.0


def test_what_is_not_drawn_takes_no_room() -> None:
    """Labels of ticks out of view, empty and invisible texts, axes switched off, notes at places out of view."""
    figure = Figure(figsize=(4.0, 3.0))
    shown, off = figure.subplots(1, 2)
    shown.set_xticks([0.0, 1.0, 1.01], ["in view", "also", "also not"])
    shown.set_xlim(-0.5, 1.005)
    shown.annotate("beyond", (5.0, 0.5))
    off.set_axis_off()
    for text, visible in ((" ", True), ("unseen", False)):
        figure.text(0.5, 0.5, text, visible=visible)
    figure.draw_without_rendering()
    found = [each.text.get_text() for each in texts.printed(figure)]
    assert {"in view", "also"} <= set(found)
    assert not {"also not", "beyond", " ", "unseen"} & set(found)
    assert len(found) == 2 + 6  # numbers of the one other axis that is drawn, 0.0 to 1.0


def test_crowded_names_are_turned_and_crowded_numbers_thinned() -> None:
    figure = Figure(figsize=(3.0, 3.0), layout="constrained")
    above, below = figure.subplots(2, 1)
    above.set_xticks(range(6), ["a rather long name"] * 6)
    below.set_xticks([0.0, 0.01, 1.0])
    assert wrong(figure)
    texts.settle(figure)
    assert wrong(figure) == []
    assert {label.get_rotation() for label in above.get_xticklabels()} == {90.0}
    assert below.get_xticks().tolist() == [0.0, 1.0]
    assert figure.get_size_inches()[0] == 3.0


def test_a_long_title_is_broken_into_lines_of_like_length() -> None:
    figure = Figure(figsize=(3.0, 3.0), layout="constrained")
    title = figure.suptitle("Share of compute, memory and network in the busy time, mean over all topologies")
    texts.settle(figure)
    assert wrong(figure) == []
    lengths = [len(line) for line in title.get_text().split("\n")]
    assert len(lengths) > 1 and min(lengths) > 0.5 * max(lengths)


def systems(count: int, chips: list[str]) -> pl.DataFrame:
    """A dataset that has every chart: `count` systems, of chips in turn."""
    numbers = range(count)
    names = {
        "workload": ["a_workload_with_quite_a_long_name" for _ in numbers],
        "chip": [chips[n % len(chips)] for n in numbers],
        "topology": ["torus_2d" if n // len(chips) % 2 else "a_hierarchical_dragonfly_of_rings" for n in numbers],
        "memory": [f"memory_{n // (2 * len(chips))}" for n in numbers],
        "link": ["link" for _ in numbers],
        "partitioning": ["kernel_by_kernel" for _ in numbers],
    }
    metrics = {
        name: [scale * (1.0 + 0.37 * (n * step % 11)) for n in numbers]
        for step, (name, scale) in enumerate(
            {
                "iteration_time_s": 1e-2, "system_price_usd": 3e6, "utilisation": 0.05,
                "cost_efficiency_flops_per_usd": 1e9, "power_efficiency_flops_per_W": 2e10, "compute_time_s": 1e-3,
                "memory_time_s": 2e-3, "network_time_s": 1e-3, "attained_flops": 1e14,
                "memory_intensity_flop_per_B": 80.0, "network_intensity_flop_per_B": 900.0, "graph_time_s": 1e-3,
                "graph_compute_time_s": 4e-4, "graph_memory_time_s": 6e-4, "graph_network_time_s": 7e-4,
            }.items(),
            start=1,
        )
    }  # fmt: skip
    feasible = {"feasible": [True for _ in numbers], "infeasible_reason": ["" for _ in numbers]}
    return pl.DataFrame({"point_id": numbers, **names, **feasible, **metrics})


LONG = [f"an_accelerator_with_a_very_long_name_indeed_{n}" for n in range(8)]


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(systems(1, ["a"]), id="one bar", marks=pytest.mark.nightly),
        pytest.param(systems(1, LONG), id="one bar with a long name"),
        pytest.param(systems(4, ["a"]), id="equal names", marks=pytest.mark.nightly),
        pytest.param(systems(12, [f"chip_{n}" for n in range(10)]), id="many categories"),
        pytest.param(systems(6, LONG[:6]), id="long names", marks=pytest.mark.nightly),
        pytest.param(systems(60, [f"chip_{n}" for n in range(60)]), id="60 values", marks=pytest.mark.nightly),
    ],
)
def test_every_chart_of_made_up_systems(frame: pl.DataFrame, measured: list[str], tmp_path: Path) -> None:
    for name, chart in charts.CHARTS.items():
        assert list(chart.draw(frame, tmp_path, "made_up")), name
    assert measured == []


@pytest.mark.parametrize(
    "chosen",
    [
        Chosen(),
        Chosen(x="chip", y="utilisation", colour="topology"),
        Chosen(x="system_price_usd", y="iteration_time_s", colour="topology", log="xy"),
        Chosen(x="memory", by="topology", log="none"),
    ],
)
def test_chosen_charts_of_made_up_systems(chosen: Chosen, measured: list[str], tmp_path: Path) -> None:
    for frame in (systems(1, LONG), systems(60, [f"chip_{n}" for n in range(30)])):
        assert plot_figure(frame, tmp_path, "made_up", chosen, {"utilisation": "maximise"})
    assert measured == []


@pytest.mark.parametrize(
    "study", first_of(["table6_sn10", "rail_only", "a100_serving", "imec_topologies", "llama_405b_formats"], 2)
)
def test_every_chart_of_our_studies(study: str, measured: list[str], tmp_path: Path) -> None:
    frame = frame_of(study)
    drawn = [
        path
        for chart in charts.CHARTS.values()
        if chart.needs <= set(frame.columns)
        for path in chart.draw(frame, tmp_path, study)
    ]
    drawn += plot_figure(frame, tmp_path, study, Chosen(), {})
    assert drawn
    assert measured == []


def test_equal_figures_settle_alike() -> None:
    with mpl.rc_context(canvas.STYLE):
        sizes = []
        for _ in range(2):
            figure = Figure(figsize=(2.0, 2.0), layout="constrained")
            figure.subplots().set_yticks(range(20), [f"name {n}" for n in range(20)])
            texts.settle(figure)
            sizes.append(figure.get_size_inches().tolist())
    assert sizes[0] == sizes[1] and sizes[0][1] > 2.0
