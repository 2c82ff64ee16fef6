"""Closed forms of the pipeline schedules against the event simulator, the literature's formulas, and limits.

Exact cases agree to 1e-9. Close ones are unequal stages and messages of the sizes that models have; the deviations
allowed are a little above the largest of some 15 000 random cases.
"""

import math
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import sweeper  # noqa: F401  # must come before kernels
from sweeper.kernels.codes import SCHEDULES
from sweeper.kernels.transformers import schedules
from sweeper.timelines.schedule import Times, simulate
from tests.support.examples import compared, examples

FAST = examples(150)
STAGES, MICROBATCHES, CHUNKS = st.integers(1, 6), st.integers(1, 12), st.integers(1, 3)
SECONDS = st.integers(1, 60).map(lambda n: n / 4)
Shape = tuple[int, int, int]


def pipeline_of(schedule: str, shape: Shape) -> schedules.Pipeline:
    """The record of the kernel."""
    return schedules.Pipeline(float(SCHEDULES.index(schedule)), *map(float, shape))


def closed(schedule: str, shape: Shape, times: Times) -> tuple[float, float]:
    """Total and bubble of the kernel."""
    forward_s, gradient_s, weight_s, *ends_s, transfer_s = (float(value) for value in vars(times).values())
    stage = schedules.Passes(forward_s, gradient_s, weight_s)
    first, last = schedules.BothWays(*ends_s[:2]), schedules.BothWays(*ends_s[2:])
    return schedules.pipeline_time.function(pipeline_of(schedule, shape), stage, first, last, transfer_s)


def in_flight(schedule: str, shape: Shape, stage: int) -> float:
    return schedules.in_flight(pipeline_of(schedule, shape), float(stage))


def deviation(schedule: str, shape: Shape, times: Times) -> float:
    """Kernel over simulator, less one."""
    return closed(schedule, shape, times)[0] / simulate(schedule, *shape, times).total_s - 1.0


@st.composite
def shapes(draw: st.DrawFn, schedule: str, whole_groups: bool = False) -> Shape:
    """Stages, microbatches and chunks that the schedule takes."""
    if schedule == "dual_pipe":
        stages = draw(st.sampled_from([2, 4, 6]))
        return stages, 2 * stages + 2 * draw(st.integers(0, 4)), 1
    stages, microbatches = draw(STAGES), draw(MICROBATCHES)
    return stages, stages * draw(st.integers(1, 3)) if whole_groups else microbatches, draw(CHUNKS)


@st.composite
def model_times(draw: st.DrawFn, ends: bool = True, messages: bool = True) -> Times:
    """Gradients of up to twice the forward pass, an embedding, a head of up to half a stage, short messages."""
    forward = draw(st.floats(1.0, 20.0))
    parts = [(1.0, 2.0), (0.5, 1.0), *([(0.0, 0.2), (0.0, 0.2), (0.0, 0.5), (0.0, 1.0)] if ends else [(0.0, 0.0)] * 4)]
    parts.append((0.0, 0.25 if messages else 0.0))
    return Times(forward, *(forward * draw(st.floats(*part)) for part in parts))


# exact


@pytest.mark.parametrize("schedule", SCHEDULES)
@compared()
@given(data=st.data())
def test_equal_stages_are_exact(schedule: str, data: st.DataObject) -> None:
    shape = data.draw(shapes(schedule, whole_groups=schedule == "interleaved"))
    times = Times(*(data.draw(SECONDS) for _ in range(3)))
    total, bubble = closed(schedule, shape, times)
    played = simulate(schedule, *shape, times)
    assert math.isclose(total, played.total_s, rel_tol=1e-9)
    assert all(math.isclose(bubble, idle, rel_tol=1e-9, abs_tol=1e-9) for idle in played.idle_s)


@FAST
@given(shape=st.tuples(STAGES, MICROBATCHES, CHUNKS), forward=SECONDS, gradient=SECONDS, weight=SECONDS)
def test_partial_groups_of_the_interleaved_schedule(
    shape: Shape, forward: float, gradient: float, weight: float
) -> None:
    """Exact below one group and for two chunks; for three, forward passes fill all but a third of the gaps."""
    stages, microbatches, chunks = shape
    assume(gradient + weight >= forward)
    times = Times(forward, gradient, weight)
    short = simulate("interleaved", *shape, times).total_s - closed("interleaved", shape, times)[0]
    gaps = (chunks - 1) * (-microbatches % stages) * forward / chunks
    most = gaps / 3 if chunks > 2 and microbatches > stages else 0.0
    assert -1e-9 <= short <= most + 1e-9


@FAST
@given(
    stages=st.sampled_from([2, 4, 6]), microbatches=st.integers(1, 20), times=model_times(ends=False, messages=False)
)
def test_dual_pipe_is_filled_up_with_empty_microbatches(stages: int, microbatches: int, times: Times) -> None:
    """To an even number, of at least two per stage."""
    filled = max(microbatches + microbatches % 2, 2 * stages)
    few, many = (closed("dual_pipe", (stages, count, 1), times)[0] for count in (microbatches, filled))
    assert math.isclose(few, many, rel_tol=1e-12)


@st.composite
def up_to_a_pass(draw: st.DrawFn) -> Times:
    """Extras and messages that are not longer than the pass that they prolong."""
    forward, gradient, weight = draw(SECONDS), draw(SECONDS), draw(SECONDS)
    backward = gradient + weight
    lengths = (forward, backward, forward, backward, min(forward, backward))
    shares = (draw(st.one_of(st.sampled_from([0.0, 0.25, 1.0]), st.floats(0.0, 1.0))) for _ in lengths)
    return Times(forward, gradient, weight, *(share * length for share, length in zip(shares, lengths)))


@example(shape=(4, 4, 1), times=Times(8.0, 1.0, 1.0, 8.0, 2.0, 2.0, 0.0, 0.0)).via(
    "needs all forward passes of stage 0"
)
@example(shape=(3, 3, 1), times=Times(6.0, 3.0, 1.0, 6.0, 2.0, 0.0, 0.0, 4.0)).via("needs a trip that turns early")
@FAST
@given(shape=shapes("one_f_one_b"), times=up_to_a_pass())
def test_one_f_one_b_is_exact_with_moderate_ends_and_messages(shape: Shape, times: Times) -> None:
    assert abs(deviation("one_f_one_b", shape, times)) < 1e-9


@FAST
@given(shape=shapes("zero_bubble_h1"), times=up_to_a_pass())
def test_zero_bubble_is_a_path(shape: Shape, times: Times) -> None:
    """Never above the schedule played out."""
    assert deviation("zero_bubble_h1", shape, times) < 1e-9


@FAST
@given(shape=shapes("gpipe"), times=st.builds(Times, *([SECONDS] * 8)))
def test_gpipe_is_exact_with_any_ends_and_messages(shape: Shape, times: Times) -> None:
    assert abs(deviation("gpipe", shape, times)) < 1e-9


@pytest.mark.parametrize("schedule", ["gpipe", "one_f_one_b"])
@FAST
@given(data=st.data(), times=model_times())
def test_the_bubble_is_what_the_busiest_stage_waits(schedule: str, data: st.DataObject, times: Times) -> None:
    shape = data.draw(shapes(schedule))
    waiting = min(simulate(schedule, *shape, times).waiting_s)
    assert math.isclose(closed(schedule, shape, times)[1], waiting, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("schedule", SCHEDULES)
@FAST
@given(data=st.data())
def test_forward_passes_alone_are_exact(schedule: str, data: st.DataObject) -> None:
    """With ends of any length, but for chunks."""
    shape = data.draw(st.tuples(STAGES, MICROBATCHES, CHUNKS))
    first, last = (0.0, 0.0) if schedule == "interleaved" else (data.draw(SECONDS), data.draw(SECONDS))
    times = Times(
        data.draw(SECONDS),
        first_extra_forward_s=first,
        last_extra_forward_s=last,
        transfer_s=data.draw(st.floats(0.0, 9.0)),
    )
    total, bubble = closed(schedule, shape, times)
    played = simulate(schedule, *shape, times)
    assert math.isclose(total, played.total_s, rel_tol=1e-9)
    assert math.isclose(bubble, min(played.waiting_s), rel_tol=1e-9, abs_tol=1e-9)


# close

CLOSE = {
    "gpipe": (-1e-9, 1e-9),
    "one_f_one_b": (-1e-9, 1e-9),
    "interleaved": (-0.03, 0.065),
    "zero_bubble_h1": (-0.01, 1e-9),
    "dual_pipe": (-0.055, 0.015),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@FAST
@given(data=st.data())
def test_models_are_close(schedule: str, data: st.DataObject) -> None:
    least, most = CLOSE[schedule]
    assert least <= deviation(schedule, data.draw(shapes(schedule)), data.draw(model_times())) <= most


@FAST
@given(shape=shapes("interleaved", whole_groups=True), times=model_times(ends=False))
def test_interleaved_messages_are_close(shape: Shape, times: Times) -> None:
    assert -0.015 <= deviation("interleaved", shape, times) <= 1e-9


@FAST
@given(shape=shapes("dual_pipe"), times=model_times(ends=False))
def test_dual_pipe_messages_are_close(shape: Shape, times: Times) -> None:
    assert -1e-9 <= deviation("dual_pipe", shape, times) <= 0.015


@FAST
@given(shape=shapes("interleaved"), times=model_times(), embedding=st.booleans())
def test_interleaved_forward_passes_with_ends(shape: Shape, times: Times, embedding: bool) -> None:
    """Exact with a head alone, close with an embedding too."""
    first = times.first_extra_forward_s if embedding else 0.0
    passes = Times(times.forward_s, 0.0, 0.0, first, 0.0, times.last_extra_forward_s, 0.0, times.transfer_s)
    least, most = (-0.04, 0.075) if embedding else (-1e-9, 1e-9)
    assert least <= deviation("interleaved", shape, passes) <= most


# literature


@pytest.mark.parametrize(("stages", "microbatches"), [*product((2, 4, 8), (16, 32))])
def test_published_bubbles(stages: int, microbatches: int) -> None:
    """Narayanan 2021, Qi 2024 table 2 and DeepSeek-V3 table 2, which draws F = B."""
    f, b, w, chunks = 3.0, 3.0, 2.0, 4
    p, whole = stages, b + w
    published = {
        "gpipe": (p - 1) * (f + whole),
        "one_f_one_b": (p - 1) * (f + whole),
        "interleaved": (p - 1) * (f + whole) / chunks,
        "zero_bubble_h1": (p - 1) * (f + b - w),
        "dual_pipe": (p / 2 - 1) * (f + whole + whole - 3 * w),
    }
    for schedule, bubble in published.items():
        found = closed(schedule, (stages, microbatches, chunks), Times(f, b, w))
        assert found == pytest.approx((microbatches * (f + whole) + bubble, bubble), rel=1e-12, abs=1e-12)


def test_calculon_counts_messages_of_all_boundaries_alike() -> None:
    """Calculon 2023 charges every stage a message per pass, also the last one: an upper bound of 1F1B."""
    times = Times(2.0, 2.0, 2.0, transfer_s=0.5)
    assert closed("one_f_one_b", (4, 16, 1), times)[0] == 16 * 7.0 + 3 * 7.0 - 3 * 0.5
    assert closed("one_f_one_b", (4, 16, 1), times)[0] < (16 + 3) * 7.0


# activations and parameters


@pytest.mark.parametrize("schedule", SCHEDULES)
@compared()
@given(data=st.data())
def test_in_flight_equals_the_simulator(schedule: str, data: st.DataObject) -> None:
    shape = data.draw(shapes(schedule, whole_groups=schedule == "interleaved"))
    kept = simulate(schedule, *shape, Times(2.0, 3.0, 2.0)).kept
    assert kept == pytest.approx([in_flight(schedule, shape, stage) for stage in range(shape[0])], rel=1e-12)


@FAST
@given(shape=st.tuples(STAGES, MICROBATCHES, CHUNKS))
def test_partial_groups_keep_less(shape: Shape) -> None:
    kept = simulate("interleaved", *shape, Times(2.0, 3.0, 2.0)).kept
    for stage, most in enumerate(kept):
        assert most <= in_flight("interleaved", shape, stage) + 1e-12 <= most + 2.0 + 1e-9


def test_in_flight_of_the_first_stage() -> None:
    """Narayanan 2021 as Korthikanti 2022, section 4.2.3, counts it: p (1 + (p - 1)/(p v)) microbatches."""
    assert in_flight("interleaved", (8, 64, 4), 0) == 8 * (1 + 7 / (8 * 4))


def test_parameter_copies() -> None:
    copies = [schedules.parameter_copies(float(code)) for code in range(len(SCHEDULES))]
    assert dict(zip(SCHEDULES, copies)) == {**dict.fromkeys(SCHEDULES, 1.0), "dual_pipe": 2.0}


# limits


@pytest.mark.parametrize("schedule", SCHEDULES)
@FAST
@given(data=st.data(), times=model_times(), alone=st.booleans())
def test_limits(schedule: str, data: st.DataObject, times: Times, alone: bool) -> None:
    """No stage is faster than its work; one stage has neither bubble nor messages; all that is longer takes longer."""
    stages, microbatches, chunks = data.draw(st.tuples(STAGES, MICROBATCHES, CHUNKS))
    shape = (1 if alone else stages, microbatches, chunks)
    total, bubble = closed(schedule, shape, times)
    assert 0.0 <= bubble < total
    assert total - bubble >= microbatches * (times.forward_s + times.input_gradient_s + times.weight_gradient_s) - 1e-9
    if shape[0] == 1:
        work = sum(vars(times).values()) - times.transfer_s
        assert (total, bubble) == (pytest.approx(microbatches * work, rel=1e-12), 0.0)
        assert closed(schedule, shape, replace(times, transfer_s=99.0)) == (total, bubble)
    for name, value in vars(times).items():
        assert closed(schedule, shape, replace(times, **{name: value + 1.0}))[0] >= total - 1e-9 * total


def test_dual_pipe_pads_what_it_cannot_run() -> None:
    """Fewer microbatches than two per stage cost as many as that, all of it beyond the work counted as bubble."""
    times = Times(2.0, 2.0, 1.0)
    total, bubble = closed("dual_pipe", (4, 3, 1), times)
    assert total == closed("dual_pipe", (4, 8, 1), times)[0]
    assert bubble == total - 3 * 5.0
