"""The placer: legal places, the cost that it says, better with more moves, and the best of small boards."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.placement.annealing import Nets, Prices, Schedule, anneal, cost_of, scattered
from sweeper.kernels.placement.fabric import COMPUTE, MEMORY, Fabric, kind_of, neighbour
from sweeper.kernels.placement.routing import next_link
from tests.support.examples import examples

PRICES = Prices(1.0, 0.02)
USUAL = Schedule(2000, 1.0, 1e-3)


def random_nets(random: np.random.Generator, units: int) -> Nets:
    """Streams from each unit but the last to one or two others."""
    ends = [sorted(set(random.integers(0, units, 2).tolist()) - {unit}) for unit in range(units - 1)]
    ends = [each or [(unit + 1) % units] for unit, each in enumerate(ends)]
    first = np.cumsum([0, *map(len, ends)])
    flits = random.integers(1, 9, units - 1).astype(float)
    return Nets(np.arange(units - 1), flits, first, np.array([end for each in ends for end in each]))


def plain_cost(fabric: Fabric, nets: Nets, site: np.ndarray, prices: Prices) -> float:
    """Wire and congestion, counted link by link."""
    load: dict[int, float] = {}
    for stream, source in enumerate(nets.source):
        passed = set()
        for end in nets.sink[nets.first[stream] : nets.first[stream + 1]]:
            here = int(site[source])
            while here != site[end]:
                link = next_link(fabric, here, int(site[end]), 0)
                passed.add(link)
                here = neighbour(fabric, here, link % 4)
        for link in passed:
            load[link] = load.get(link, 0.0) + nets.flits[stream]
    squares = sum(value**2 for value in load.values()) / fabric.lanes
    return prices.wire * sum(load.values()) + prices.congestion * squares


@given(st.integers(0, 10**6))
@examples(30)
def test_units_lie_on_sites_of_their_kind_one_each_and_cost_what_is_said(seed: int) -> None:
    random = np.random.default_rng(seed)
    fabric = Fabric(int(random.integers(2, 5)), int(random.integers(4, 8)), int(random.integers(1, 3)), 1)
    kinds = np.array([COMPUTE] * int(random.integers(1, 4)) + [MEMORY] * int(random.integers(1, 3)) + [2] * 2)
    nets = random_nets(random, len(kinds))
    for moves in (0, 500):
        site = anneal(fabric, kinds, nets, PRICES, Schedule(moves, 1.0, 1e-3), np.uint64(seed))
        assert len(set(site.tolist())) == len(kinds)
        assert [kind_of(fabric, place) for place in site] == kinds.tolist()
        assert cost_of(fabric, nets, site, PRICES) == pytest.approx(plain_cost(fabric, nets, site, PRICES))
    again = anneal(fabric, kinds, nets, PRICES, Schedule(500, 1.0, 1e-3), np.uint64(seed))
    assert np.array_equal(again, site)
    other = anneal(fabric, kinds, nets, PRICES, Schedule(500, 1.0, 1e-3), np.uint64(seed + 1))
    assert cost_of(fabric, nets, other, PRICES) > 0.0


@pytest.mark.parametrize("seed", range(4))
def test_on_a_small_board_the_best_places_are_found(seed: int) -> None:
    fabric = Fabric(3, 5, 1, 1)
    kinds = np.array([COMPUTE] * 3 + [MEMORY] * 2)
    nets = random_nets(np.random.default_rng(seed), 5)
    compute, memory = ([site for site in range(15) if kind_of(fabric, site) == kind] for kind in (COMPUTE, MEMORY))
    best = min(
        plain_cost(fabric, nets, np.array([*units, *buffers]), PRICES)
        for units in permutations(compute, 3)
        for buffers in permutations(memory, 2)
    )
    found = [
        cost_of(fabric, nets, anneal(fabric, kinds, nets, PRICES, USUAL, np.uint64(key)), PRICES) for key in range(3)
    ]
    assert min(found) == pytest.approx(best)


def test_more_moves_find_cheaper_places() -> None:
    fabric, random = Fabric(6, 12, 2, 1), np.random.default_rng(0)
    kinds = np.array([COMPUTE] * 25 + [MEMORY] * 25)
    nets = random_nets(random, 50)

    def mean_cost(moves: int) -> float:
        schedule, keys = Schedule(moves, 1.0, 1e-3), map(np.uint64, range(4))
        sites = (anneal(fabric, kinds, nets, PRICES, schedule, key) for key in keys)
        return float(np.mean([cost_of(fabric, nets, site, PRICES) for site in sites]))

    costs = list(map(mean_cost, (0, 300, 3000, 30000)))
    assert costs[0] > 1.3 * costs[1] > 1.3 * costs[2] > costs[3]


def test_without_enough_sites_a_unit_has_none() -> None:
    site = scattered(Fabric(1, 3, 1, 1), np.array([COMPUTE, MEMORY, 2, 2, 2]), np.uint64(1))
    assert (site == -1).sum() == 2
