"""Models that constants have not seen: halves of a stack's models, by hand, and what a format gains."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from sweeper.evidence.calibration import Calibration, Sample
from sweeper.evidence.measured_rows import MeasuredPoint
from sweeper.evidence.statistics import Ideal, Scored
from sweeper.evidence.unseen import generated
from sweeper.evidence.unseen import halves as by_halves
from sweeper.evidence.unseen.contrasts import speedups
from sweeper.evidence.unseen.generated import measured_on
from sweeper.evidence.unseen.halves import by_other_half, first_guess, halves, unseen
from sweeper.evidence.unseen.runs import Run, by_stack, connected, errors_of, machine_runs

STACK = Calibration(name="h100_dgxc", files=[], fit=["gemm_efficiency"])


def run(model: str, measured: float, predicted: float = 1.0, stack: Calibration | None = STACK, **columns: Any) -> Run:
    ideal = Ideal("training", "h100", model, 1.0)
    scored = Scored({"framework": "any"}, "source", measured, predicted, None, True, "", ideal=ideal)
    return Run(
        "table.csv", scored, MeasuredPoint("source", {"chip": "h100", **columns}, "iteration_time_s", measured), stack
    )


def test_models_are_dealt_out_in_turn_and_never_split() -> None:
    assert halves(["b", "a", "c", "b", "d", "a"]) == [1, 0, 0, 1, 1, 0]
    assert halves(["a", "a"]) == [0, 0]


@pytest.fixture
def mean_of_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with one constant, whose prediction it is; its best fit is the mean of the measured values."""

    def fitted(calibration: Calibration, points: Sequence[MeasuredPoint]) -> Mapping[str, Mapping[str, float]]:
        return {"constants": {"mean": sum(point.measured for point in points) / len(points)}}

    def evaluated(points: Sequence[MeasuredPoint], constants: Any) -> list[tuple[float, bool]]:
        return [(constants["constants"]["mean"], True) for _ in points]

    monkeypatch.setattr(by_halves, "fitted_to", fitted)
    monkeypatch.setattr(by_halves, "evaluate", evaluated)


@pytest.mark.usefixtures("mean_of_half")
def test_each_half_is_answered_by_what_was_fitted_to_the_other() -> None:
    stack = [run("a", 1.0), run("a", 3.0), run("b", 10.0), run("b", 20.0), run("c", 5.0)]
    told = {(each.model, each.scored.measured): each.scored.predicted for each in by_other_half(STACK, stack)}
    assert told == {("a", 1.0): 15.0, ("a", 3.0): 15.0, ("c", 5.0): 15.0, ("b", 10.0): 3.0, ("b", 20.0): 3.0}


@pytest.mark.usefixtures("mean_of_half")
def test_a_stack_of_one_model_or_of_too_few_rows_says_nothing_of_unseen_ones() -> None:
    assert by_other_half(STACK, [run("a", 1.0), run("a", 2.0), run("a", 3.0)]) == []
    assert by_other_half(STACK, [run("a", 1.0), run("a", 2.0), run("b", 3.0)]) == []
    alone = run("b", 4.0, 3.0, None)
    assert unseen([run("a", 1.0), alone]) == [alone]  # as it stands: nothing is fitted to it
    assert list(by_stack([run("a", 1.0), alone])) == ["h100_dgxc", "source"]
    assert errors_of([alone])["median_ape"] == pytest.approx(25.0)


def test_a_fit_starts_from_the_stated_default() -> None:
    assert first_guess(STACK) == {"gemm_efficiency": 0.75}
    tied = Calibration(name="x", files=[], fit=["link_efficiency"], tie={"outer_link_efficiency": "link_efficiency"})
    assert first_guess(tied) == {"link_efficiency": 0.8, "outer_link_efficiency": 0.8}
    assert first_guess(Calibration(name="x", files=[], fit=["host_launch"])) == {"host_launch": 0.0}


def test_formats_are_compared_on_the_same_model_and_chips() -> None:
    wide, narrow = run("a", 2.0, 3.0, chips=8.0), run("a", 1.0, 2.0, chips=8.0, compute_format="fp8")
    strangers = [
        run("b", 9.0, 9.0, chips=8.0, compute_format="fp8"),  # no run of it in 16 bits
        run("a", 9.0, 9.0, chips=16.0, compute_format="fp8"),  # other chips
    ]
    (found,) = speedups([wide, narrow, *strangers])
    assert (found["source"], found["chip"], found["format"], found["pairs"]) == ("source", "h100", "fp8", 1)
    assert (found["measured"], found["predicted"]) == pytest.approx((2.0, 1.5))
    assert found["signed"] == pytest.approx(-25.0)


def test_rates_gain_the_other_way_round() -> None:
    def rate(value: float, **columns: Any) -> Run:
        of = run("a", value, value, **columns)
        point = MeasuredPoint("source", of.point.columns, "tokens_per_s_per_chip", value)
        return Run(of.file, of.scored, point, STACK)

    (found,) = speedups([rate(100.0), rate(150.0, compute_format="mxfp8")])
    assert found["measured"] == pytest.approx(1.5)


def listed(system: str, time: str, measured: float = 1.0) -> dict[str, str]:
    return {"system": system, "time_s": time, "measured": str(measured)}


def test_rows_that_share_a_system_or_a_time_are_of_one_system() -> None:
    rows = [listed("b", "1"), listed("c", "1"), listed("c", "2"), listed("a", "2"), listed("d", ""), listed("e", "")]
    assert connected(rows, ("system", "time_s")) == ["a", "a", "a", "a", "d", "e"]
    assert connected(rows, ("system",)) == ["b", "c", "c", "a", "d", "e"]


def test_machines_are_dealt_out_by_system() -> None:
    """Dense solvers, transforms and recommendation: every run has a system, and no time stands in two of them."""
    found = by_stack(machine_runs())
    assert {"p100_hpl", "v100_hpl", "v100_staged_fft", "a100_dlrm", "v100_dlrm"} == set(found)
    for stack in found.values():
        assert all(run.model == run.system != "" for run in stack)
        times = {(run.scored.row["time_s"], run.system) for run in stack if run.scored.row["time_s"]}
        assert len(times) == len({time for time, _ in times})


def test_products_on_a_generated_chip_are_answered_by_the_other_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every shape is in one of the two halves, and constants are fitted to the one in which it is not."""
    seen: list[tuple[set[float], set[float]]] = []
    fitted: list[set[float]] = []

    def fit(_: Any, points: Any) -> dict[str, dict[str, float]]:
        fitted.append({point.measured for point in points})
        return {}

    def evaluated(points: Any, constants: Any) -> list[tuple[float, bool]]:
        if fitted:
            seen.append((fitted[-1], {point.measured for point in points}))
        return [(point.measured, True) for point in points]

    monkeypatch.setattr(generated, "fitted_to", fit)
    monkeypatch.setattr(generated, "evaluate", evaluated)
    monkeypatch.setattr(generated, "sample_of", lambda _: Sample(tuple(by_shape(at) for at in range(8)), ()))
    rows = generated.measured_on("v100_deepbench", {})
    assert [row["generated_median"] for row in rows] == [0.0, 0.0]
    others = [(a, b) for a, b in seen if len(b) == 4]
    assert len(others) == 4 and all(a.isdisjoint(b) and len(a | b) == 8 for a, b in others)


def by_shape(at: int) -> MeasuredPoint:
    """A product of its own shape."""
    columns = {f"workload.{name}": float(at) for name in "mnk"}
    return MeasuredPoint("products", columns, "layer_forward_s", 1.0 + at)


def test_a_generated_chip_that_is_the_listed_one_has_its_errors_and_a_slower_one_more() -> None:
    same, slower = (measured_on("v100_deepbench", made) for made in ({}, {"chip.peak_flops": 60e12}))
    assert [row["constants"] for row in same] == ["as calibrated", "of the other half"]
    assert all(row["generated_median"] == row["listed_median"] and row["rows"] == 98 for row in same)
    assert slower[0]["generated_median"] > 2 * slower[0]["listed_median"] == 2 * same[0]["listed_median"]
    assert not slower[0]["met"]
