"""Branches side by side that are alike, and the search that looks at one order of them only."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.graphs.mapping.branches import Branches, ahead, alike_branches, in_order
from sweeper.kernels.graphs.mapping.case import Case
from sweeper.kernels.graphs.mapping.ideals import all_ideals, ascending, has, predecessors
from sweeper.kernels.graphs.mapping.partitions import cuts_of
from sweeper.kernels.graphs.mapping.paths import MOST_IDEALS, path_over, times_to_end
from sweeper.kernels.graphs.mapping.search import best_first, without_buffers
from tests.kernels.graphs.test_mapping import SAME, case_of, found
from tests.support.examples import examples
from tests.twins.mapping_oracle import Instance, brute_force, evaluate, instances, random_instance


def with_branches(branches: int, length: int, seed: int, **values: Any) -> Instance:
    """A kernel that feeds chains side by side, and one that reads their ends. Numbers are random, and those of equal
    places on the chains the same."""
    random = np.random.default_rng(seed)
    kernels = 2 + branches * length
    plain = random_instance(random, kernels)

    def alike(name: str) -> tuple[float, ...]:
        own = getattr(plain, name)
        return (own[0], *(own[1 + place] for place in range(length) for _ in range(branches)), own[-1])

    numbers = ("flops_s", "network_s", "column_s", "row_s", "dram_B", "weight_B", "output_B")
    ends = [(0, 1 + b) for b in range(branches)] + [(kernels - 1 - branches + b, kernels - 1) for b in range(branches)]
    chains = [(1 + i, 1 + i + branches) for i in range(branches * (length - 1))]
    of_all = replace(
        plain,
        **{name: alike(name) for name in numbers},
        edges=tuple(sorted(ends + chains)),
        forward=(True,) * kernels,
        gradient=(False,) * kernels,
        gradient_B=(0.0,) * kernels,
        units=kernels,
    )
    return replace(of_all, **values)


def searched(case: Case, branches: Branches, known_s: float) -> tuple[float, float]:
    """What the search says that nothing can beat, and the time of the mapping that it names."""
    kernels = len(case.kernels)
    guess, partition_of = np.empty(kernels, np.int64), np.empty(kernels, np.int64)
    bound = best_first(case, predecessors(case.edges, case.group_of), branches, known_s, guess)
    if guess.min() < 0:
        return bound, math.inf
    return bound, path_over(case, cuts_of(guess), partition_of)


def least_time(case: Case) -> float:
    """The best of all sequences of several partitions."""
    ideals = all_ideals(predecessors(case.edges, case.group_of), ascending(case.group_of), MOST_IDEALS)
    return float(times_to_end(case, ideals)[0])


def no_branches(case: Case) -> Branches:
    """As if no branches were alike."""
    none = np.full(len(case.kernels), -1)
    return Branches(none, none)


@given(instances(9))
@examples(200)
def test_best_first_finds_what_enumeration_finds(instance: Instance) -> None:
    case = case_of(instance)
    best = least_time(case)
    bound, time = searched(case, no_branches(case), math.inf)
    assert bound == pytest.approx(best, **SAME)
    assert time == pytest.approx(best, **SAME)
    if best < math.inf:
        # nothing is better than what is known to be best, and what is known to be worse does no harm
        assert searched(case, no_branches(case), best) == (best, math.inf)
        assert searched(case, no_branches(case), 1.5 * best)[0] == pytest.approx(best, **SAME)


@given(st.integers(2, 3), st.integers(1, 2), st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
@examples(200)
def test_order_of_alike_branches_does_not_matter(
    branches: int, length: int, seed: int, overlap: bool, per_tensor: bool
) -> None:
    """The search with branches in order is as good as any without buffers, and no mapping with buffers is better."""
    instance = with_branches(branches, length, seed, overlap=overlap, per_tensor=per_tensor)
    case = case_of(instance)
    of = alike_branches(case, predecessors(case.edges, case.group_of))
    assert (of.twin >= 0).sum() == (branches - 1) * length
    easier = without_buffers(case)
    bound, time = searched(easier, of, math.inf)
    assert bound == pytest.approx(least_time(easier), **SAME)
    assert time == pytest.approx(bound, **SAME)
    assert bound <= least_time(case) * (1 + 1e-9)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["flops_s", "weight_B", "output_B", "edges"]))
@examples(100)
def test_branches_that_differ_are_told_apart(seed: int, what: str) -> None:
    """One number or one edge of one of three branches."""
    instance = with_branches(3, 2, seed)
    own = getattr(instance, what)
    changed = (*own, (0, 5)) if what == "edges" else (*own[:5], own[5] + 1.0, *own[6:])
    case = case_of(replace(instance, **{what: tuple(sorted(changed)) if what == "edges" else changed}))
    of = alike_branches(case, predecessors(case.edges, case.group_of))
    assert of.twin.tolist() == [-1, -1, -1, 1, -1, -1, 4, -1]


@given(st.integers(0, 2**32 - 1))
@examples(100)
def test_branches_are_put_in_order(seed: int) -> None:
    """As many kernels of every place of the chains as before, those of the first branches first; and every kernel is
    found at its place."""
    random = np.random.default_rng(seed)
    case = case_of(with_branches(4, 3, seed))
    before = predecessors(case.edges, case.group_of)
    of = alike_branches(case, before)
    ideals = all_ideals(before, ascending(case.group_of), MOST_IDEALS)
    ideal = ideals[random.integers(len(ideals))]
    ordered, whose = ideal.copy(), np.arange(len(case.kernels))
    in_order(ordered, of, whose)
    assert sorted(whose) == list(range(len(whose)))
    assert all(has(ordered, place) == has(ideal, own) for place, own in enumerate(whose))
    assert all(ahead(ordered, of, start) <= 0 for start in (2, 3, 4))
    assert any((ordered == other).all() for other in ideals)


def test_experts_side_by_side_are_mapped_best() -> None:
    """Eight chains of four kernels have 390,627 ideals; three chains of two have what enumeration finds."""
    proved = 0
    for seed in range(20):
        instance = with_branches(8, 4, seed, overlap=True, reconfiguration_s=0.0, live_budget_B=math.inf, tiles=1024)
        optimum, bound = found(instance)
        assert evaluate(instance, optimum.assignment) == pytest.approx(optimum.time_s, **SAME)
        assert bound <= optimum.time_s * (1 + 1e-9)
        proved += optimum.time_s <= bound * (1 + 1e-9)
        small = with_branches(3, 2, seed, overlap=True)
        assert found(small)[0].time_s == pytest.approx(brute_force(small).time_s, **SAME)
    assert proved >= 15
