"""Of many problems those are left that have the best points, whatever their first points promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.engine.search import racing
from sweeper.engine.search.budgets import SharedBudgets
from sweeper.engine.search.descent import DESCENT
from sweeper.engine.search.evolution import EVOLUTION
from sweeper.engine.search.methods import Method
from sweeper.engine.search.racing import race, steps_of_race
from tests.support.examples import examples

BUDGETS = SharedBudgets(((0, 1, 2),), {3: (1.0, 100.0)}, 1e-3)


class Problems:
    """Bottlenecks, the largest of costs over shares, each times a scale; counts the points that are asked for."""

    def __init__(self, seed: int, count: int) -> None:
        generator = np.random.default_rng(seed)
        self.costs = generator.uniform(0.1, 3.0, (count, 3))
        self.wanted = generator.uniform(2.0, 90.0, count)
        self.asked = 0

    @property
    def least(self) -> np.ndarray:
        """Least score of each: shares in proportion to the costs, the last variable as wanted."""
        return self.costs.sum(axis=1)

    def __call__(self, x: np.ndarray, problem: np.ndarray) -> np.ndarray:
        self.asked += len(x)
        away = np.abs(np.log(x[:, 3] / self.wanted[problem]))
        return (self.costs[problem] / x[:, :3]).max(axis=1) * (1.0 + away)


def starts(seed: int, problems: int, each: int) -> np.ndarray:
    x = BUDGETS.random(problems * each, np.random.default_rng((seed, 1)))
    return x.reshape(problems, each, -1)


@pytest.mark.parametrize("method", [DESCENT, EVOLUTION], ids=["descents", "evolutions"])
@pytest.mark.parametrize("seed", range(5))
def test_the_best_problems_are_left_though_others_start_better(seed: int, method: Method) -> None:
    problems = Problems(seed, 200)
    left, state = race(method, problems, BUDGETS, starts(seed, 200, 2), 5, seed)
    assert len(left) == 5 and problems.least[left[0]] <= np.sort(problems.least)[1]
    found = state.history[-1].reshape(5, 2).min(axis=1)
    assert (found >= problems.least[left] * (1.0 - 1e-9)).all()
    assert found[0] <= 1.1 * problems.least.min()


def test_a_race_ends_at_once_where_few_run() -> None:
    problems = Problems(0, 3)
    left, state = race(DESCENT, problems, BUDGETS, starts(0, 3, 2), 3)
    assert left.tolist() == [0, 1, 2] and len(state.history) == 1
    assert len(DESCENT.further(lambda x, start: problems(x, left[start // 2]), BUDGETS, state, 4).history) == 5


@examples(30)
@given(
    st.sampled_from([DESCENT, EVOLUTION]),
    st.integers(1, 60),
    st.integers(1, 8),
    st.integers(0, 99),
    st.sampled_from([40, 1 << 16]),
)
def test_as_many_points_are_asked_for_as_is_said(
    method: Method, count: int, most: int, seed: int, at_once: int
) -> None:
    """Every start at the beginning twice, then every step, in however many lots."""
    problems = Problems(seed, count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(racing, "AT_ONCE", at_once)
        left, state = race(method, problems, BUDGETS, starts(seed, count, 1), most, seed)
    assert state.evaluations == problems.asked
    assert problems.asked == 2 * count + steps_of_race(method, count, most) * method.points_per_step(BUDGETS)
    assert len(left) == min(count, most) == len(state.best)
    best = state.best[np.arange(len(left))]
    again = Problems(seed, count)
    assert np.allclose(again(best, left), state.history[-1], rtol=1e-12)


def test_a_design_that_suits_one_problem_is_tried_for_others() -> None:
    """All alike, of which one alone begins near the best point, with a start that is no better than any other."""
    problems = Problems(1, 12)
    problems.costs[:], problems.wanted[:] = problems.costs[0], problems.wanted[0]
    x = np.tile(starts(3, 1, 2), (12, 1, 1))
    x[7, 0] = [*problems.costs[0] / problems.costs[0].sum(), problems.wanted[0]]
    left, state = race(DESCENT, problems, BUDGETS, x, 3)
    assert left[0] == 7 and state.evaluations == problems.asked
    assert (state.history[-1].reshape(3, 2).min(axis=1) <= problems.least[0] * 1.01).all()
