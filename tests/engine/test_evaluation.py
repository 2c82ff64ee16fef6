"""Folding: combinations whose inputs are equal bit by bit are one, and only those."""

import numpy as np
import pytest

from sweeper.engine.evaluation import Combinations, fold, index_at, index_of


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_alike_if_all_keys_are(seed: int) -> None:
    """Keys of few values; both zeros, which are equal and differ in bits, are told apart."""
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 200))
    keys = [random.choice([0.0, -0.0, 1.0, np.nan][: 2 + seed % 3], count) for _ in range(1 + seed % 3)]
    rows, number = fold(count, keys)
    bits = list(zip(*(key.view(np.int64).tolist() for key in keys), strict=True))
    first = list(dict.fromkeys(bits))
    assert [bits[row] for row in rows] == first
    assert [bits.index(alike) for alike in first] == rows.tolist()
    assert [first[at] for at in number] == bits


def test_one_key_that_agrees_does_not_make_rows_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should rows that differ ever be mixed to the same number, nothing is folded."""

    def careless(mix: np.ndarray, rows: np.ndarray, number: np.ndarray) -> int:
        rows[0] = number[:] = 0
        return 1

    monkeypatch.setattr("sweeper.engine.evaluation.alike", careless)
    rows, number = fold(3, [np.array([1.0, 1.0, 1.0]), np.array([1.0, 2.0, 1.0])])
    assert (rows.tolist(), number.tolist()) == ([0, 1, 2], [0, 1, 2])
    assert fold(2, [np.array([1.0, 1.0])])[0].tolist() == [0]


def test_without_keys_all_rows_are_one() -> None:
    rows, number = fold(4, [])
    assert (rows.tolist(), number.tolist()) == ([0], [0, 0, 0, 0])


def combined(*factors: tuple[list[int], list[int]]) -> Combinations:
    """Per factor: a row that has each combination, and the number of each row's combination."""
    rows, numbers = zip(*factors, strict=True)
    return Combinations(tuple(map(np.array, rows)), tuple(map(np.array, numbers)))


def test_an_index_leads_from_a_combination_to_that_of_fewer_columns() -> None:
    """Two factors of four and three rows. The child tells apart all of them, the parent pairs of the first."""
    child = combined(([0, 1, 2, 3], [0, 1, 2, 3]), ([0, 1, 2], [0, 1, 2]))
    parent = combined(([0, 2], [0, 0, 1, 1]), ([0, 1, 2], [0, 1, 2]))
    expected = [3 * (first // 2) + second for first in range(4) for second in range(3)]
    assert index_of(child, parent).tolist() == expected
    alone = combined(([0], [0, 0, 0, 0]), ([0, 1, 2], [0, 1, 2]))
    assert index_of(child, alone).tolist() == [0, 1, 2] * 4
    digits = (np.array([3, 1]), np.array([2, 0]))
    assert index_at(digits, parent).tolist() == [5, 0]
    assert index_at(digits, alone).tolist() == [2, 0]
