"""Draws of two designs compared by hand: ties, draws that one of them lacks, draw 0."""

import math

import polars as pl
import pytest

from sweeper.views.uncertainty import by_chance, compare


def test_draws_are_compared_where_both_designs_have_them_and_ties_count_half() -> None:
    """Draw 0 is the values; in draw 5 the second cannot be built, in draw 6 the first has no number."""
    first = {0: 1.0, 1: 1.0, 2: 2.0, 3: 5.0, 4: 4.0, 5: 1.0, 6: math.nan}
    second = {0: 9.0, 1: 2.0, 2: 2.0, 3: 4.0, 4: 4.0, 5: 9.0, 6: 9.0}
    rows = [
        {"design": name, "draw": float(draw), "cost": cost, "feasible": (name, draw) != ("second", 5)}
        for name, costs in (("first", first), ("second", second))
        for draw, cost in costs.items()
    ]
    (found,) = compare(pl.DataFrame(rows), "cost", [], {"design": "first"}, {"design": "second"}).to_dicts()
    assert found["draws"] == 4
    assert found["probability_less"] == pytest.approx((1 + 2 * 0.5) / 4)
    assert (found["a_p50"], found["b_p50"], found["difference_p50"]) == (3.0, 3.0, 0.0)
    # differences -1, 0, 1, 0: between the least two lies a twentieth of the way from place 0 to place 3
    assert found["difference_p5"] == pytest.approx(-1.0 + 0.15)


def test_chance_is_three_standard_errors() -> None:
    assert by_chance(101) == pytest.approx(0.3)
    assert by_chance(1) == math.inf
