"""Mutants of our studies and library entries are read or refused; `python -m tests.mutants` tries more of them."""

from pathlib import Path

import numpy as np
import pytest

import sweeper
from sweeper.errors import Problem, SpecError
from tests.support import mutants
from tests.support.examples import first_of
from tests.support.mutants import Mutant, lived, mutant

COUNT, BATCH = 120, 20


@pytest.mark.parametrize("first", first_of(range(0, COUNT, BATCH), 3))
def test_mutants_are_read_or_refused(first: int, tmp_path: Path) -> None:
    for number in range(first, first + BATCH):
        one = mutant(7, number)
        assert lived(one, tmp_path / str(number)) in (("refused", ""), ("evaluated", "")), f"{number}: {one.about}"


def test_a_mutant_depends_on_seed_and_number_alone() -> None:
    assert mutant(3, 4) == mutant(3, 4)
    assert len({mutant(3, number) for number in range(20)}) == 20


BUNDLED = Mutant((mutants.STUDIES[0]).read_bytes(), b"", "", "not mutated")


def test_faults_of_the_reader_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(error: Exception) -> object:
        def plan(*arguments: object) -> object:
            raise error

        return plan

    there = tmp_path / "misplaced" / "study.yaml"
    for name, error in (
        ("KeyError", KeyError("x")),
        ("Hang", mutants.Hang("60 s")),
        ("misplaced", SpecError([Problem(str(there), 10_000, 1, "", "m")])),
    ):
        monkeypatch.setattr(sweeper, "plan", raises(error))
        assert lived(BUNDLED, tmp_path / name)[0] == name
    monkeypatch.undo()
    monkeypatch.setattr(mutants, "not_numbers", lambda plan: "iteration_time_s")
    assert lived(BUNDLED, tmp_path / "numbers") == ("not a number", "iteration_time_s")


def test_a_feasible_row_without_a_number_is_seen() -> None:
    columns = {"feasible": np.array([True, False]), "a": np.array([np.inf, 1.0]), "b": np.array([1.0, np.nan])}
    assert mutants._not_finite(columns, {"a", "b", "c"}) == "a"
