"""How many examples Hypothesis draws: one place for all tests.

pytest                                  the same examples in every run, so that a fault once found is found again
pytest --hypothesis-profile=nightly     50 times as many
--hypothesis-profile=faults             5 times as many; the first failure is enough (`python -m tests.mutate`)
--hypothesis-profile=faults_seeded      the same, with other examples for every `--hypothesis-seed`
"""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import Phase, settings

FEW, USUAL, MANY = 20, 100, 1000
"""Examples of a test that does not say how many: where somebody waits for all tests, where a fault is looked for, and
at night. A test that says how many has as many of USUAL, and in the same proportion fewer or more."""

COMPARED = 500
"""Examples of a comparison of a kernel with its twin, of USUAL."""


def register() -> None:
    """Make the profiles known, and load the usual one. First calls compile, so no deadline."""
    first_failure = {"phases": (Phase.explicit, Phase.generate), "database": None}
    settings.register_profile("same", derandomize=True, deadline=None, max_examples=FEW)
    settings.register_profile("nightly", derandomize=True, deadline=None, max_examples=MANY)
    for name, same in (("faults", True), ("faults_seeded", False)):
        settings.register_profile(name, derandomize=same, deadline=None, max_examples=USUAL, **first_failure)
    settings.load_profile("same")


def waited_for() -> bool:
    """Whether somebody waits for all tests, so that long ones are left out."""
    return settings().max_examples < USUAL


def nightly() -> bool:
    """Whether the tests may take as long as a night."""
    return settings().max_examples > USUAL


def first_of(cases: Sequence[Any], enough: int = 1) -> list[Any]:
    """Cases of a test of which the first, or so many, are enough where somebody waits for all tests."""
    others = (case if isinstance(case, tuple) else (case,) for case in cases[enough:])
    return [*cases[:enough], *(pytest.param(*case, marks=pytest.mark.nightly) for case in others)]


def examples(usual: int) -> settings:
    """Settings of a test that draws so many examples of USUAL; in the profile that is loaded now."""
    return settings(max_examples=usual * settings().max_examples // USUAL)


def compared() -> settings:
    """Settings of a comparison of a kernel with its twin."""
    return examples(COMPARED)
