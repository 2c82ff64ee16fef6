"""Fair rates against linear programs, routes and shares against what is known of them."""

import math
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import sweeper
from sweeper.kernels.codes import DIMENSION_KINDS
from sweeper.kernels.shared.contention.fair_shares import fair_shares
from sweeper.kernels.shared.contention.groups import MOST_CHIPS, Digits, Span, exchange_share, fair_share
from sweeper.kernels.shared.contention.hiding import Beside, Sending, waiting_s
from sweeper.kernels.shared.contention.max_min import Ways, max_min_rates
from sweeper.kernels.shared.contention.routes import AXES, Wires, capacities, chips_below, ways_of
from tests.support.examples import examples
from tests.twins import naive_contention as naive
from tests.twins.naive import call

RATE = 4e9


def wires(
    kinds: str, extents: Sequence[int], over: Sequence[float] = (1, 1), rates: Sequence[float] = (RATE, RATE, RATE),
    shared: bool = True, both_ways: bool = False,
) -> Wires:  # fmt: skip
    """A network, by the names of its dimensions' kinds."""
    codes = [float(DIMENSION_KINDS.index(kind)) for kind in kinds.split()]
    padded, sizes = (*codes, 0.0, 0.0)[:3], (*extents, 1, 1)[:3]
    return Wires(padded, sizes, tuple(map(float, rates)), (1.0, float(over[0]), float(over[1])), shared, both_ways)


def digits(*along: Sequence[tuple[int, bool]]) -> Digits:
    """Digits of all dimensions, filled up with ones."""
    padded = [*along, *[()] * (AXES - len(along))]
    most = max(map(len, padded))
    full = [[*line, *[(1, False)] * (most - len(line))] for line in padded]
    return Digits(
        np.array([[radix for radix, _ in line] for line in full], np.int64),
        np.array([[inside for _, inside in line] for line in full]),
    )


# max-min fair rates


def by_programs(uses: np.ndarray, limits: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Max-min fair rates by linear programs: the least rate is made as high as it can be; flows that cannot have more
    keep it, and the least of the others is next. `uses` has a row per link, a column per flow."""
    count = uses.shape[1]
    fixed: dict[int, float] = {}

    def highest(aim: Sequence[int], floor: float | None) -> tuple[float, np.ndarray]:
        """The most that all of `aim` can have together; others that are not fixed have `floor` at least."""
        bounds = [(fixed[i], fixed[i]) if i in fixed else (floor or 0.0, limits[i]) for i in range(count)] + [(0, None)]
        rows = [[*row, 0.0] for row in uses] + [[*(-1.0 * (np.arange(count) == i)), 1.0] for i in aim]
        found = linprog([*[0.0] * count, -1.0], rows, [*room, *[0.0] * len(aim)], bounds=bounds, method="highs")
        assert found.status == 0
        return found.x[-1], found.x[:-1]

    while len(fixed) < count:
        free = [i for i in range(count) if i not in fixed]
        level, _ = highest(free, None)
        stuck = [i for i in free if highest([i], level * (1 - 1e-12))[0] <= level * (1 + 1e-7)]
        assert stuck
        fixed |= dict.fromkeys(stuck, level)
    return np.array([fixed[i] for i in range(count)])


def random_network(seed: int) -> tuple[Wires, np.ndarray, np.ndarray, np.ndarray]:
    """A small network of random kinds, some of its messages, and limits of their rates."""
    chance = Random(seed)
    kinds = [chance.choice(DIMENSION_KINDS[1:]) for _ in range(chance.randint(1, 3))]
    sizes = [chance.randint(2, 4) for _ in kinds]
    rates = [chance.choice([1.0, 2.0, 3.5]) for _ in range(3)]
    over = [chance.choice([1.0, 2.0, 3.0]) for _ in range(2)]
    net = wires(" ".join(kinds), sizes, over, rates, chance.random() < 0.7)
    pairs = [chance.sample(range(math.prod(sizes)), 2) for _ in range(chance.randint(2, 9))]
    limits = np.array([chance.choice([0.3, 0.9, 2.0, 100.0]) for _ in pairs])
    return net, np.array([a for a, _ in pairs]), np.array([b for _, b in pairs]), limits


@pytest.mark.parametrize("batch", range(10))
def test_rates_are_those_of_linear_programs(batch: int) -> None:
    """200 networks."""
    for seed in range(20 * batch, 20 * batch + 20):
        net, origins, targets, limits = random_network(seed)
        ways, room = ways_of(net, origins, targets), capacities(net)
        uses = np.zeros((len(room), len(origins)))
        for flow in range(len(origins)):
            for link in ways.links[ways.starts[flow] : ways.starts[flow + 1]]:
                uses[link, flow] += 1.0
        used = uses.any(axis=1)
        got = max_min_rates(ways, limits, room)
        assert np.allclose(got, by_programs(uses[used], limits, room[used]), rtol=1e-9, atol=0.0)


@given(st.integers(0, 10**9))
@examples(60)
def test_every_message_has_a_reason_not_to_have_more(seed: int) -> None:
    """It is at its limit, or goes over a full link on which nobody has more."""
    net, origins, targets, limits = random_network(seed)
    ways, room = ways_of(net, origins, targets), capacities(net)
    rates = max_min_rates(ways, limits, room)
    load, most = np.zeros(len(room)), np.zeros(len(room))
    paths = [ways.links[ways.starts[i] : ways.starts[i + 1]] for i in range(len(rates))]
    for path, rate in zip(paths, rates):
        load[path] += rate
        most[path] = np.maximum(most[path], rate)
    assert (load <= room * (1 + 1e-9)).all()
    for path, rate, limit in zip(paths, rates, limits):
        full = (load[path] >= room[path] * (1 - 1e-9)) & (most[path] <= rate * (1 + 1e-9))
        assert rate == limit or full.any()


def test_a_flow_without_links_has_its_limit() -> None:
    ways = Ways(np.zeros(2, np.int64), np.zeros(0, np.int64))
    assert max_min_rates(ways, np.array([7.0]), np.zeros(0)).tolist() == [7.0]


# shares


@pytest.mark.parametrize(("kind", "size", "stride", "members"), [
    ("ring", 8, 2, 4), ("ring", 12, 3, 4), ("ring", 16, 4, 2), ("mesh", 8, 2, 4), ("mesh", 12, 4, 3),
])  # fmt: skip
def test_groups_that_lie_interleaved_share_links(kind: str, size: int, stride: int, members: int) -> None:
    """One way round, every link of a dimension carries a message of each of the `stride` groups."""
    line = [(stride, False), (members, True), (size // stride // members, False)]
    assert fair_share(wires(kind, [size]), digits(line), Span(0, 1)) == 1 / stride


@pytest.mark.parametrize("kind", ["ring", "mesh", "switch", "fully_connected"])
def test_neighbouring_groups_share_nothing(kind: str) -> None:
    net = wires(f"{kind} {kind}", [4, 8], shared=False)
    for size in (1, 2, 4):
        assert fair_share(net, digits([(size, True), (4 // size, False)], [(8, False)]), Span(0, 1)) == 1.0


def test_halves_both_ways_are_a_chain_on_part_of_a_ring_and_a_ring_on_all_of_it() -> None:
    net = wires("ring", [8], both_ways=True)
    assert fair_share(net, digits([(4, True), (2, False)]), Span(0, 1)) == 0.5
    assert fair_share(net, digits([(8, True)]), Span(0, 1)) == 1.0
    assert fair_share(net, digits([(2, False), (4, True)]), Span(0, 1)) == 0.5
    assert fair_share(net, digits([(2, False), (2, True), (2, False)]), Span(0, 1)) == 0.25
    assert fair_share(wires("mesh", [2], both_ways=True), digits([(2, True)]), Span(0, 1)) == 1.0


@pytest.mark.parametrize("over", [1, 2, 4, 8, 16])
def test_oversubscription_of_a_fat_tree(over: int) -> None:
    """Leaves of 4 nodes of 8 chips. Rings over all nodes cross between leaves once in 4 steps; in a phase of its own
    along the third dimension everybody crosses, in an all-to-all 12 of 15 messages do."""
    net = wires("switch switch switch", [8, 4, 4], [1, over])
    all_nodes = digits([(8, False)], [(4, True)], [(4, True)])
    assert fair_share(net, all_nodes, Span(1, 2)) == 1.0
    assert fair_share(net, all_nodes, Span(2, 3)) == 1 / over
    assert fair_share(net, all_nodes, Span(1, 3)) == min(1.0, 4 / over)
    exchange = min(1.0, 15 / 12 / over) / min(1.0, 4 / over)
    assert exchange_share(net, all_nodes, Span(1, 3)) == pytest.approx(exchange, rel=1e-12)


def test_blocks_share_their_uplinks() -> None:
    """Rails of their own leave nothing to share; ports that a node shares (4 of 8) halve what its chips have."""
    along_y = digits([(8, False)], [(4, True)])
    assert fair_share(wires("ring switch", [8, 4]), along_y, Span(1, 2)) == 1.0
    assert fair_share(wires("ring switch", [8, 4], [2, 1]), along_y, Span(1, 2)) == 0.5


def test_local_hops_of_a_dragonfly() -> None:
    """In groups of 4 chips with a link to each of 4 other groups, every chip sends to all groups: its local links carry
    a message on the way out of the group and one from each way in, and more where links to groups end at one chip."""
    net = wires("fully_connected fully_connected", [4, 5], rates=(1.0, 1.0, 1.0))
    between = digits([(4, False)], [(5, True)])
    ways = ways_of(net, np.array([1]), np.array([4 * 3 + 2]))
    assert len(ways.links) <= 3
    assert fair_share(net, between, Span(1, 2)) == 0.5
    assert fair_share(net._replace(rates_Bps=(2.0, 1.0, 1.0)), between, Span(1, 2)) == 1.0
    assert fair_share(net._replace(shared=False), between, Span(1, 2)) == 1.0


@given(naive.networks())
@examples(30)
def test_routes_are_those_of_the_twin(given_: dict[str, float]) -> None:
    """As many links to every chip, and the same loads, from which ever chip."""
    sizes = tuple(int(given_[f"dim_{axis}"]) for axis in "xyz")
    kinds = naive.kinds_of(given_)
    rates = tuple(given_[f"bandwidth_{axis}_Bps"] for axis in "xyz")
    over = (1.0, given_["oversubscription_y"], given_["oversubscription_z"])
    shared = naive.shared_links(given_)
    net = naive.Net(kinds, sizes, rates, over, shared)
    own = Wires(tuple(float(DIMENSION_KINDS.index(kind)) for kind in kinds), sizes, rates, over, shared, False)
    chips = [(x, y, z) for z in range(sizes[2]) for y in range(sizes[1]) for x in range(sizes[0])]
    assert len(chips) == chips_below(own, AXES)
    pairs = [(a, b) for a in range(len(chips)) for b in range(len(chips)) if a != b][:400]
    if not pairs:
        return
    ways = ways_of(own, np.array([a for a, _ in pairs]), np.array([b for _, b in pairs]))
    room = capacities(own)
    named: dict[int, object] = {}
    for i, (a, b) in enumerate(pairs):
        links, names = ways.links[ways.starts[i] : ways.starts[i + 1]], net.way(chips[a], chips[b])
        assert len(links) == len(names)
        assert sorted(room[links]) == pytest.approx(sorted(net.capacity(name) for name in names))
    load = np.bincount(ways.links, minlength=len(room))
    wanted = naive.Counter(name for a, b in pairs for name in net.way(chips[a], chips[b]))
    assert sorted(load[load > 0]) == sorted(wanted.values())
    assert not named


def test_networks_that_are_too_large_are_not_known() -> None:
    columns = dict.fromkeys(fair_shares.inputs, 1.0) | {"topology_kind_x": 2.0, "dim_x": MOST_CHIPS + 1.0}
    assert all(math.isnan(value) for value in call(fair_shares, columns).values())


# what a reduction costs the pass beside it


@given(*[st.floats(0.01, 10.0)] * 3, st.booleans())
@examples(60)
def test_links_that_two_share_are_busy_for_both(reduce_s: float, pass_s: float, part: float, serial: bool) -> None:
    """Of one link that both need, each has half: it is then busy for the sum of both."""
    sent_s = min(part, 1.0) * pass_s
    idle_s = 0.0 if serial else pass_s - sent_s
    found = waiting_s(reduce_s, pass_s, Sending(sent_s, idle_s), Beside(0.5, 0.5))
    alone_s = max(reduce_s - pass_s, 0.0)
    assert found >= -1e-12 * pass_s
    assert alone_s + found <= sent_s + alone_s + 1e-9
    if not serial and 2.0 * sent_s <= pass_s:
        assert alone_s + found == pytest.approx(max(reduce_s + sent_s - pass_s, 0.0), abs=1e-9)
    if serial and reduce_s >= pass_s:
        assert alone_s + found == pytest.approx(reduce_s + sent_s - pass_s, abs=1e-9)
    if serial and reduce_s < pass_s:
        assert found == pytest.approx(sent_s * reduce_s / pass_s)


def test_nothing_waits_on_links_of_its_own() -> None:
    assert waiting_s(3.0, 2.0, Sending(1.0, 0.0), Beside(1.0, 1.0)) == 0.0
    assert waiting_s(0.0, 2.0, Sending(1.0, 0.0), Beside(0.5, 0.5)) == 0.0
    assert waiting_s(3.0, 2.0, Sending(0.0, 0.0), Beside(0.5, 0.5)) == 0.0


# in a study

TORUS = """\
study: torus
axes:
  workload: gpt3_1t
  chip: h100_sxm
  memory: hbm3
  link: nvlink4
  topology: torus_2d
  chips: 1024
  dim_x: 32
  dim_y: 32
  tensor_parallel: 8
  pipeline_parallel: 8
  data_parallel: 16
  latency: ignored
  contention: [none, max_min]
output: {columns: [transfer_time_s, network_time_s, iteration_time_s, data_share_y, tensor_share_x, pipeline_share_x]}
"""


def test_stages_that_lie_interleaved_take_as_much_longer(tmp_path: Path) -> None:
    """Tensor groups of 8 lie side by side, so that 8 chains of stages share every link along x, 2 rings one along y."""
    path = tmp_path / "torus.yaml"
    path.write_text(TORUS)
    alone, shared = pl.DataFrame(sweeper.plan(path).evaluate(0)).to_dicts()
    assert shared["transfer_time_s"] == 8.0 * alone["transfer_time_s"]
    assert shared["network_time_s"] == alone["network_time_s"]
    assert shared["iteration_time_s"] > alone["iteration_time_s"]
    assert (shared["tensor_share_x"], shared["pipeline_share_x"], shared["data_share_y"]) == (1.0, 0.125, 0.5)
