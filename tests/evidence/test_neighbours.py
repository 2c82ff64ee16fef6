"""Spread of readings of nearly the same work, by hand."""

import math

import pytest

from sweeper.evidence.baselines.neighbours import spread, work_of
from sweeper.evidence.statistics import Ideal, Scored
from sweeper.evidence.tables import set_readings


def read(power: float, m: int, kernel: str = "a", kind: str = "power of products", predicted: float = 1.0) -> Scored:
    row = {"kernel": kernel, "m": str(m), "power_w": str(power), "tflops": str(power * 7.0)}
    ideal = Ideal(kind, "h200", kernel, 1.0) if kind else None
    return Scored(row, "g", power, predicted, None, None, "", ideal=ideal)


def test_work_is_words_and_sizes_without_what_was_read() -> None:
    words, sizes = work_of(read(500.0, 7).row)
    assert words == ("a",) and sizes == pytest.approx([math.log(8.0)])


def test_a_row_is_compared_with_the_nearest_of_its_words() -> None:
    """63 and 127 are a step of two apart (64 and 128); 1023 is three from the next; another kernel is no neighbour."""
    rows = [read(400.0, 63), read(500.0, 127), read(900.0, 1023), read(10.0, 64, kernel="b")]
    found = spread(rows)
    assert found is not None and (found["rows"], found["near"]) == (4, 2)
    # 400 is 20 % below 500, which is 25 % above.
    assert found["median_ape"] == pytest.approx(22.5)
    assert found["p90_ape"] == pytest.approx(24.5)


def test_rows_of_equal_work_are_each_others_neighbours() -> None:
    found = spread([read(100.0, 63), read(200.0, 63), read(200.0, 63)])
    assert found is not None and found["near"] == 3


def test_other_sets_have_none_and_lone_rows_no_figure() -> None:
    assert spread([read(400.0, 63, kind="products"), read(1.0, 63, kind="")]) is None
    assert spread([]) is None
    lone = spread([read(400.0, 63)])
    assert lone == {"rows": 1, "near": 0, "median_ape": None, "p90_ape": None, "ours": pytest.approx(99.75)}


def test_the_scoreboard_prints_sets_that_have_neighbours() -> None:
    near, lone = spread([read(400.0, 63), read(500.0, 127)]), spread([read(400.0, 63)])
    text = set_readings({
        "power": {"readings": {"near": near, "lone": lone}},
        "times": {"readings": {}},
    })  # fmt: skip
    assert "near" in text and "22.50" in text and "99.78" in text and "lone" not in text and "times" not in text
