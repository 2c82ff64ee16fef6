"""How many examples Hypothesis draws: one place for all tests.

pytest                                  the same examples in every run, so that a fault once found is found again
pytest --hypothesis-profile=nightly     ten times as many
--hypothesis-profile=faults             the first failure is enough (`python -m tests.mutate`)
--hypothesis-profile=faults_seeded      the same, with other examples for every `--hypothesis-seed`
"""

from hypothesis import Phase, settings

USUAL = 100
"""Examples of a test that does not say how many; profiles with more have more of all."""

COMPARED = 500
"""Usual examples of a comparison of a kernel with its twin."""


def register() -> None:
    """Make the profiles known, and load the usual one. First calls compile, so no deadline."""
    first_failure = {"phases": (Phase.explicit, Phase.generate), "database": None}
    settings.register_profile("same", derandomize=True, deadline=None, max_examples=USUAL)
    settings.register_profile("nightly", derandomize=True, deadline=None, max_examples=10 * USUAL)
    settings.register_profile("faults", derandomize=True, deadline=None, **first_failure)
    settings.register_profile("faults_seeded", derandomize=False, deadline=None, **first_failure)
    settings.load_profile("same")


def nightly() -> bool:
    """Whether the tests may take as long as a night."""
    return settings().max_examples > USUAL


def examples(usual: int) -> settings:
    """Settings of a test that usually draws so many examples; of the profile that is loaded now."""
    return settings(max_examples=usual * settings().max_examples // USUAL)


def compared() -> settings:
    """Settings of a comparison of a kernel with its twin."""
    return examples(COMPARED)
