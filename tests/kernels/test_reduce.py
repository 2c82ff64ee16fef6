"""Reductions of a search against sorting and against comparison of all pairs."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.codes import REASONS
from sweeper.kernels.pareto import pareto
from sweeper.kernels.reduce import alike, stand_in, top_k
from tests.support.examples import compared, examples
from tests.support.quick import quick
from tests.twins import naive

QUICK = examples(200)
SCORE = st.sampled_from([0.0, 1.0, 1.0, 2.0, 2.5, math.inf]) | st.floats(0.0, 1e6)
REASON = st.sampled_from([0.0, 0.0, 0.0, *(float(code) for code in range(len(REASONS)))])


@st.composite
def tables(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Scores and reasons of some rows of equal length; some rows without any feasible point."""
    rows, points = draw(st.integers(1, 4)), draw(st.integers(1, 12))
    scores = [draw(st.lists(SCORE, min_size=points, max_size=points)) for _ in range(rows)]
    reasons = [
        draw(st.lists(draw(st.sampled_from([REASON, REASON, st.integers(1, 8).map(float)])), min_size=points,
                      max_size=points))
        for _ in range(rows)
    ]  # fmt: skip
    return np.array(scores), np.array(reasons)


def chosen(scores: np.ndarray, reasons: np.ndarray, k: int) -> list[list[int]]:
    found = np.full((len(scores), k), -7, np.int64)
    top_k(scores, reasons, found)
    return found.tolist()


@given(quick(tables()), st.integers(1, 14))
@compared()
def test_top_k_is_the_head_of_the_sorted_feasible_points(table: tuple[np.ndarray, np.ndarray], k: int) -> None:
    scores, reasons = table
    want = [naive.top_k(a, b, k) for a, b in zip(scores.tolist(), reasons.tolist())]
    assert chosen(scores, reasons, k) == want


@given(quick(tables()), st.integers(1, 14), st.integers(0, 2**32 - 1))
@compared()
def test_a_score_that_is_no_number_is_never_chosen(table: tuple[np.ndarray, np.ndarray], k: int, seed: int) -> None:
    scores, reasons = table
    unknown = np.random.default_rng(seed).random(scores.shape) < 0.4
    infeasible = np.where(unknown, np.maximum(reasons, 1.0), reasons)
    found, want = chosen(np.where(unknown, np.nan, scores), reasons, k), chosen(scores, infeasible, k)
    for row, known in enumerate((infeasible == 0.0).any(axis=1)):
        assert found[row] == (want[row] if known else [stand_in(reasons[row])] + [-1] * (k - 1))


@given(tables())
@QUICK
def test_best_is_the_first_of_the_least(table: tuple[np.ndarray, np.ndarray]) -> None:
    scores, reasons = table
    for row, [best] in enumerate(chosen(scores, reasons, 1)):
        feasible = reasons[row] == 0
        if feasible.any():
            assert feasible[best]
            assert best == np.flatnonzero(feasible & (scores[row] == scores[row][feasible].min()))[0]
        else:
            assert best == reasons[row].argmax() == stand_in(reasons[row])


@given(tables(), st.integers(1, 6), st.integers(0, 12))
@QUICK
def test_best_of_two_cuts_is_the_best_of_the_whole(table: tuple[np.ndarray, np.ndarray], k: int, cut: int) -> None:
    """A search may be cut anywhere: reducing the parts and then their results gives the same positions."""
    scores, reasons = (column[:1] for column in table)
    cut = min(cut, scores.shape[1])
    kept: list[int] = []
    for start, stop in ((0, cut), (cut, scores.shape[1])):
        if start < stop:
            part = chosen(scores[:, start:stop].copy(), reasons[:, start:stop].copy(), k)[0]
            kept += [start + i for i in part if i >= 0]
    again = chosen(scores[:, kept].copy(), reasons[:, kept].copy(), k)[0]
    assert [kept[i] if i >= 0 else -1 for i in again] == chosen(scores, reasons, k)[0]


@st.composite
def clouds(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Points with several scores, many of them equal."""
    objectives, points = draw(st.integers(1, 3)), draw(st.integers(1, 15))
    row = st.tuples(*[SCORE] * objectives)
    reason = draw(st.sampled_from([REASON, REASON, st.integers(1, 8).map(float)]))
    scores = draw(st.lists(row, min_size=points, max_size=points))
    return np.array(scores), np.array(draw(st.lists(reason, min_size=points, max_size=points)))


def front_of(scores: np.ndarray, reasons: np.ndarray) -> list[int]:
    return pareto(scores, reasons).tolist()


@given(clouds())
@compared()
def test_pareto_keeps_what_no_other_point_beats(cloud: tuple[np.ndarray, np.ndarray]) -> None:
    assert front_of(*cloud) == naive.pareto(cloud[0].tolist(), cloud[1].tolist())


@given(st.integers(1, 5), st.integers(2, 160), st.sampled_from([2, 8, 12, 40]), st.integers(0, 2**32 - 1))
@compared()
def test_pareto_of_many_points(objectives: int, points: int, levels: int, seed: int) -> None:
    """So many that they are divided by every score; few levels make ties, many none.

    They lie near a plane of equal sums, so that fronts are large: sets of a few are compared point by point.
    """
    random = np.random.default_rng(seed)
    scores = random.integers(0, levels, (points, objectives)).astype(float)
    scores[:, -1] = -scores[:, :-1].sum(axis=1)
    scores += random.random(scores.shape) < 0.1
    reasons = (random.random(points) < 0.1).astype(float)
    assert front_of(scores, reasons) == naive.pareto(scores.tolist(), reasons.tolist())


@given(clouds(), st.randoms(use_true_random=False))
@QUICK
def test_pareto_scores_do_not_depend_on_the_order_of_points(cloud: tuple[np.ndarray, np.ndarray], random: Any) -> None:
    scores, reasons = cloud
    order = list(range(len(scores)))
    random.shuffle(order)
    one = scores[front_of(scores, reasons)]
    other = scores[order][front_of(scores[order], reasons[order])]
    if (reasons == 0).any():
        assert sorted(one.tolist()) == sorted(other.tolist())


@given(clouds())
@QUICK
def test_front_of_one_score_is_its_best_point(cloud: tuple[np.ndarray, np.ndarray]) -> None:
    scores, reasons = cloud[0][:, :1].copy(), cloud[1]
    assert front_of(scores, reasons) == chosen(scores.T.copy(), reasons[None], 1)[0]


def test_ties_go_to_the_earlier_point() -> None:
    assert chosen(np.array([[3.0, 1.0, 1.0, 1.0, 2.0]]), np.zeros((1, 5)), 3) == [[1, 2, 3]]
    assert front_of(np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]]), np.zeros(3)) == [0, 1]


def test_infeasible_rows_show_the_point_that_came_farthest() -> None:
    reasons = np.array([[3.0, 8.0, 8.0, 1.0]])
    assert chosen(np.zeros((1, 4)), reasons, 2) == [[1, -1]]
    assert front_of(np.zeros((4, 2)), reasons[0]) == [1]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_infinite_scores_are_the_last_of_the_feasible(k: int) -> None:
    scores, reasons = np.array([[math.inf, 5.0, math.inf]]), np.array([[0.0, 0.0, 4.0]])
    assert chosen(scores, reasons, k) == [[1, 0, -1][:k]]


COLLIDING = st.integers(0, 12).map(lambda value: value * (2**32 + 1))


@given(st.lists(COLLIDING | st.integers(0, 2**64 - 1), max_size=60))
@compared()
def test_like_values_get_one_number(mix: list[int]) -> None:
    rows, number = np.empty(len(mix), np.int64), np.empty(len(mix), np.uint32)
    count = alike(np.array(mix, np.uint64), rows, number)
    first, which = naive.alike(mix)
    assert rows[:count].tolist() == first
    assert number.tolist() == which
