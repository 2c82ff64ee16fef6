"""Evolution of splits: its constants by hand, exact optima, landscapes of steps, what it shares with other methods."""

from typing import Any

import numpy as np
import pytest

from sweeper.engine.search import portfolio
from sweeper.engine.search.budgets import SharedBudgets
from sweeper.engine.search.descent import DESCENT, descend
from sweeper.engine.search.differential import global_search
from sweeper.engine.search.evolution import EVOLUTION, NEARBY, rates_of
from sweeper.engine.search.methods import Method, first_points
from sweeper.engine.search.portfolio import EVOLVED, QUIET, SCOUTS, most_evaluations, resting, search, until_rest
from sweeper.engine.search.racing import abreast
from tests.support.examples import first_of

SHARES = SharedBudgets(((0, 1, 2, 3),), {4: (1.0, 100.0)}, 1e-3)


def wholes(x: np.ndarray, _: np.ndarray) -> np.ndarray:
    """Time of whole units: 24, 15, 9 and 40 of them fit in the whole budget; each kind works at its own pace."""
    units = np.floor(x[:, :4] * [24.0, 15.0, 9.0, 40.0])
    with np.errstate(divide="ignore"):
        times = np.array([6.0, 2.0, 3.0, 4.0]) / units
    return times.max(axis=1) + 0.3 * times.sum(axis=1) + 0.01 * np.abs(np.log(x[:, 4] / 20.0))


def test_constants_by_hand() -> None:
    """Ten coordinates: logarithms of 5.5 over 1 to 5, then table 1 of the source by a pocket calculator."""
    rates = rates_of(10)
    raw = [1.704748, 1.011601, 0.606136, 0.318454, 0.095310]
    assert rates.parents == 5 and len(rates.weights) == 10
    assert rates.weights[:5] == pytest.approx(np.array(raw) / 3.736249, rel=1e-5)
    assert rates.effective == pytest.approx(3.1673, rel=1e-4)
    assert rates.step_rate == pytest.approx(0.28443, rel=1e-4)
    assert rates.damping == pytest.approx(1.28443, rel=1e-4)
    assert rates.path_rate == pytest.approx((4.0 + 0.31673) / (14.0 + 0.63346), rel=1e-4)
    assert rates.rank_one == pytest.approx(0.015284, rel=1e-4)
    assert rates.rank_many == pytest.approx(0.023552, rel=1e-4)
    assert rates.expected == pytest.approx(3.0847, rel=1e-4)
    # The worse half takes away at most what the better half and the first path add.
    assert (rates.weights[5:] < 0.0).all() and -rates.weights.sum() * rates.rank_many <= rates.rank_one + 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_times_that_add_take_shares_by_their_square_roots(seed: int) -> None:
    costs = np.random.default_rng(seed).uniform(0.05, 20.0, 6)
    budgets = SharedBudgets((tuple(range(6)),))

    def evaluate(x: np.ndarray, _: np.ndarray) -> np.ndarray:
        return (costs / x).sum(axis=1)

    state = EVOLUTION.further(
        evaluate, budgets, EVOLUTION.begin(evaluate, budgets, first_points(budgets, 3, seed)), 250
    )
    optimum = np.sqrt(costs).sum() ** 2
    assert (state.history[-1] >= optimum * (1.0 - 1e-9)).all()
    assert (state.history[-1] <= optimum * 1.002).all()
    assert (state.step < 0.5).all()  # the clouds have settled


@pytest.mark.parametrize("seed", first_of(range(4)))
def test_steps_of_whole_units_do_not_stop_it(seed: int) -> None:
    """Of as many points it finds better wholes than descents do, and the two together what a global search finds."""
    x = first_points(SHARES, 8, seed)
    state = EVOLUTION.further(wholes, SHARES, EVOLUTION.begin(wholes, SHARES, x, seed), 100)
    alone = descend(lambda x: wholes(x, x), SHARES, 8, 100, seed)
    assert state.history[-1].min() <= alone.score.min() * (1.0 + 1e-3)
    found = search(wholes, SHARES, np.empty((0, 5)), 6, 60, seed)
    much = global_search(lambda x: wholes(x, x), SHARES, 100_000, seed)
    assert found.score.min() <= 1.002 * much.score.min()


def test_a_start_is_independent_of_its_neighbours_and_repeats() -> None:
    x = first_points(SHARES, 5, 1)
    together, alone = (EVOLUTION.begin(wholes, SHARES, points, 7) for points in (x, x[2:3]))
    together, alone = (EVOLUTION.further(wholes, SHARES, state, 12) for state in (together, alone))
    assert np.allclose(together.mean[2], alone.mean[0], rtol=1e-6, atol=1e-6)
    again = EVOLUTION.further(wholes, SHARES, EVOLUTION.begin(wholes, SHARES, x, 7), 12)
    assert np.array_equal(again.best, together.best) and np.array_equal(again.history, together.history)


def test_starts_without_a_feasible_point_begin_anew() -> None:
    def corner(x: np.ndarray, _: np.ndarray) -> np.ndarray:
        return np.where(x[:, 0] > 0.7, (1.0 / x).sum(axis=1), np.inf)

    budgets = SharedBudgets(((0, 1, 2),), floor=0.01)
    x = np.tile([0.1, 0.45, 0.45], (4, 1))
    state = EVOLUTION.further(corner, budgets, EVOLUTION.begin(corner, budgets, x), 120)
    assert np.isinf(state.history[0]).all()
    assert state.history[-1].min() == pytest.approx(1.0 / 0.7 + 2.0 / 0.15, rel=0.01)


def test_points_that_are_good_are_searched_closely() -> None:
    x = first_points(SHARES, 1, 3)
    far, close = (method.begin(wholes, SHARES, x) for method in (EVOLUTION, NEARBY))
    assert close.step[0] < far.step[0] and np.array_equal(close.best, far.best)


def test_starts_that_wait_stay_where_they_are() -> None:
    x = first_points(SHARES, 5, 1)
    before = EVOLUTION.further(wholes, SHARES, EVOLUTION.begin(wholes, SHARES, x, 7), 4)
    some = np.array([1, 4])
    after = before.where(some, EVOLUTION.further(wholes, SHARES, before.chosen(some), 3))
    whole = EVOLUTION.further(wholes, SHARES, before, 3)
    waiting = [0, 2, 3]
    for name, values in after.of_starts.items():
        assert np.array_equal(values[waiting], before.of_starts[name][waiting])
        assert np.allclose(values[some], whole.of_starts[name][some], rtol=1e-6, atol=1e-6)
    assert (after.history[4:, waiting] == before.history[-1, waiting]).all()
    assert after.history[:, some] == pytest.approx(whole.history[:, some])
    assert before.evaluations < after.evaluations < whole.evaluations


def test_who_rests_does_not_stop_the_others() -> None:
    begun = EVOLUTION.begin(wholes, SHARES, first_points(SHARES, 6, 2), 7)
    history = until_rest(EVOLUTION, wholes, SHARES, begun, 200).history
    first = next(steps for steps in range(1, len(history)) if resting(history[:steps]).any())
    rests = resting(history[:first])
    assert (history[first:, rests] == history[first - 1, rests]).all()
    assert (history[-1] < history[first - 1]).any() and resting(history).all()


def test_what_gains_no_more_rests() -> None:
    """A landscape with one basin: a search that may take twice as long evaluates no more, and finds the same."""
    budgets = SharedBudgets(((0, 1, 2),))

    def evaluate(x: np.ndarray, _: np.ndarray) -> np.ndarray:
        return (np.array([0.49, 0.04, 0.01]) / x).sum(axis=1)

    some, more = (search(evaluate, budgets, np.empty((0, 3)), 4, steps, 1) for steps in (100, 200))
    assert more.score.min() == pytest.approx(1.0, rel=1e-9)
    assert more.evaluations - some.evaluations < 0.2 * some.evaluations < 0.1 * most_evaluations(budgets, 4, 100)
    assert len(more.history) < 2 * QUIET + 100  # of 200 steps close to the best and those of the last descent


@pytest.mark.parametrize("method", [DESCENT, EVOLUTION], ids=["descents", "evolutions"])
def test_the_best_start_of_every_problem_goes_on(method: Method[Any]) -> None:
    """Three problems whose best shares differ: each ends near its own."""
    wanted = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
    budgets = SharedBudgets(((0, 1, 2),))

    def evaluate(x: np.ndarray, problem: np.ndarray) -> np.ndarray:
        return (wanted[problem] ** 2 / x).sum(axis=1)

    x = budgets.random(12, np.random.default_rng(2)).reshape(3, 4, 3)
    scores, points = abreast(method, evaluate, budgets, x, (10, 80))
    assert np.allclose(points, wanted, atol=0.03)
    assert scores == pytest.approx(evaluate(points, np.arange(3)))


@pytest.mark.parametrize("may_rest", [True, False])
def test_points_of_a_portfolio_are_counted_and_known_ones_are_not_lost(
    may_rest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def counting(x: np.ndarray, start: np.ndarray) -> np.ndarray:
        asked.append(len(x))
        return wholes(x, start)

    known = np.array([[0.3, 0.2, 0.4, 0.1, 20.0]])
    monkeypatch.setattr(portfolio, "QUIET", QUIET if may_rest else 1000)
    found = search(counting, SHARES, known, 4, 10, 1)
    first = 2 * (2 * SCOUTS + 2 * 4)
    most = most_evaluations(SHARES, 4, 10) + first
    assert found.evaluations == sum(asked)
    assert most / 2 < found.evaluations < most if may_rest else found.evaluations == most
    assert found.score.min() <= wholes(known, known)[0]
    assert (np.diff(found.history, axis=0) <= 0.0).all() and len(found.score) == 4
    assert len(found.apart) == EVOLVED and found.apart.max() > found.score.max()  # also those that do not go on
