"""Hostile numbers in valid specs: refused with file, line and column, or evaluated to numbers."""

import re
from pathlib import Path

import pytest

from tests.support.examples import first_of
from tests.support.numeric_mutants import STUDIES, mutant, outcome, places

SEEDS = 200
PLACE = re.compile(r"(?P<file>.+?):(?P<line>[0-9]+):(?P<column>[0-9]+): .+", re.DOTALL)


@pytest.mark.parametrize("part", first_of(range(4)))
def test_a_hostile_number_is_refused_or_gives_numbers(tmp_path: Path, part: int) -> None:
    refused = 0
    for seed in range(part, SEEDS, 4):
        case = mutant(seed)
        found = outcome(case, tmp_path / "mutant")
        if isinstance(found, set):
            assert found == set(), case
            continue
        for message in found.splitlines():
            told = PLACE.fullmatch(message)
            assert told is not None, (case, message)
            assert Path(told["file"]).is_file(), (case, message)
        refused += 1
    assert 0 < refused < SEEDS // 4


def test_mutants_are_of_many_studies_and_of_their_libraries() -> None:
    cases = [mutant(seed) for seed in range(SEEDS)]
    assert {case.study for case in cases} == set(STUDIES)
    assert len({case.file.parent.name for case in cases}) > 5
    assert all(len(places(case.study)) > 10 for case in cases)
