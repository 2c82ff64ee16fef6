"""The estimate inside a placer: the schedule on its own routing, whatever was moved before; and places made better."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sweeper.kernels.placement.annealing import Schedule
from sweeper.kernels.placement.fabric import kind_of, resources
from sweeper.kernels.placement.judging.candidates import Subject, by_schedule
from sweeper.kernels.placement.judging.estimate import (
    MARKS,
    Loads,
    Outline,
    by_estimate,
    interval_of,
    no_loads,
    outline,
    passes,
    put,
    put_all,
    without_links,
)
from sweeper.kernels.placement.judging.refining import refined
from sweeper.library.library import Library, builtin_specs
from sweeper.placing.blocks import block
from sweeper.placing.cutting import Cutting, bound_cycles
from sweeper.placing.place import units_of
from sweeper.ranking.search import candidates
from sweeper.ranking.search import subject_of as judged_subject
from tests.support.examples import examples
from tests.support.random_pipelines import Placed, random_placed
from tests.twins import naive_schedule
from tests.twins.naive_estimate import Sent, ways
from tests.twins.naive_features import Actor, Hop, Sink, Stream
from tests.twins.naive_schedule import Timed

SEEDS = st.integers(0, 10**6)


def subject_of(placed: Placed, lanes: int = 1) -> tuple[Subject, np.ndarray]:
    """A random graph with so many lanes per link as a placer sees it, and the sites of its units."""
    fabric = placed.fabric._replace(lanes=lanes)
    setting = placed.setting._replace(resources=resources(fabric))
    sites, unit = np.unique(placed.site, return_inverse=True)
    none = np.zeros(len(unit), np.int64)
    kinds = np.array([kind_of(fabric, site) for site in sites])
    subject = Subject(
        fabric, setting, kinds, unit, placed.role, none, none, placed.actors, placed.streams, placed.sinks, 1.0
    )
    return subject, sites


def on_links(subject: Subject, known: Outline, sites: np.ndarray) -> tuple[Loads, int]:
    """All streams on their links."""
    loads = no_loads(subject.fabric, known)
    return loads, put_all(subject.fabric, known, sites, loads)


def as_timed(subject: Subject, sites: np.ndarray) -> Timed:
    """The same graph for the twin, on ways that it finds itself; ports are those of the kernel."""
    line, columns = without_links(subject), subject.fabric.columns
    at = [divmod(int(site), columns) for site in sites[subject.unit]]
    first = line.streams.first_sink.tolist()
    ends = [range(first[number], first[number + 1]) for number in range(len(first) - 1)]
    reader = line.sinks.actor.tolist()
    source, flits = line.streams.source.tolist(), line.streams.flits.tolist()
    sent = [Sent(at[source[i]], [at[reader[sink]] for sink in own], flits[i]) for i, own in enumerate(ends)]
    taken = ways(sent)
    ports = zip(line.hops.resource.tolist(), line.hops.sink.tolist(), line.links.stream_of_hop.tolist())
    hops = [Hop(-1, ("port", port), sink, stream, taken[stream][1]) for port, sink, stream in ports]
    hops += [Hop(-1, link, -1, stream, order) for stream, (own, order) in enumerate(taken) for link in own]
    return Timed(
        [Actor(*row) for row in zip(*(column.tolist() for column in line.actors))],
        [Sink(*row) for row in zip(*(column.tolist() for column in line.sinks))],
        [Stream(source[i], flits[i], own) for i, own in enumerate(ends)],
        hops,
        line.setting.bursts,
        line.setting.hop_cycles,
        line.setting.queue,
    )


@given(SEEDS)
@examples(80)
def test_it_is_the_schedule_of_the_twin_on_ways_of_the_twin(seed: int) -> None:
    subject, sites = subject_of(random_placed(seed))
    twin = as_timed(subject, sites)
    assume(not twin.circular)
    known = outline(subject)
    loads, _ = on_links(subject, known, sites)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(naive_schedule, "TURNS", 2)
        assert interval_of(known, loads) == pytest.approx(twin.schedule[0], rel=1e-9)


@given(SEEDS)
@examples(60)
def test_what_was_moved_leaves_no_trace(seed: int) -> None:
    """Loads are sums of whole numbers: streams taken off and put back leave exactly what was there."""
    subject, sites = subject_of(random_placed(seed))
    known, random = outline(subject), np.random.default_rng(seed)
    loads, mark = on_links(subject, known, sites)
    before, orders = loads.own.copy(), loads.order.copy()
    elsewhere = random.permutation(sites)
    moved = random.permutation(len(known.segment))[:3]
    for stream in moved:
        passes(subject.fabric, known, stream, sites, loads, -1.0, mark)
        put(subject.fabric, known, stream, elsewhere, loads, mark + 1)
        passes(subject.fabric, known, stream, elsewhere, loads, -1.0, mark + 1 + MARKS)
        loads.order[stream] = orders[stream]
        passes(subject.fabric, known, stream, sites, loads, 1.0, mark + 2 + MARKS)
        mark += 3 + MARKS
    assert np.array_equal(loads.own, before)
    assert np.array_equal(loads.total, before.sum(1))
    for stream in range(len(known.segment)):
        passes(subject.fabric, known, stream, sites, loads, -1.0, mark + stream)
    assert not loads.own[: len(loads.own) - len(known.shared)].any()


@given(SEEDS)
@examples(40)
def test_lanes_divide_the_load_of_a_link(seed: int) -> None:
    loads = []
    for lanes in (1, 4):
        subject, sites = subject_of(random_placed(seed), lanes)
        loads.append(on_links(subject, outline(subject), sites)[0])
    many = np.flatnonzero(loads[1].lanes == 4.0)
    assert np.array_equal(loads[0].total[many] / 4.0, loads[1].total[many] / loads[1].lanes[many])


@given(SEEDS, st.integers(0, 300))
@examples(30)
def test_refined_places_are_places(seed: int, moves: int) -> None:
    """Every unit has a site of its kind and of its own; the same key finds the same; without a move nothing moves."""
    subject, sites = subject_of(random_placed(seed))
    found = refined(subject, sites, Schedule(moves, 0.02, 0.001), np.uint64(seed))
    assert len(set(found.tolist())) == len(sites)
    assert [kind_of(subject.fabric, site) for site in found] == subject.kinds.tolist()
    assert np.array_equal(found, refined(subject, sites, Schedule(moves, 0.02, 0.001), np.uint64(seed)))
    if moves == 0:
        assert np.array_equal(found, sites)


@pytest.mark.nightly
def test_random_places_get_better() -> None:
    """As the estimate says, and as the schedule says of what is routed."""
    entry = Library.load([builtin_specs()]).find("fabric", "plasticine_narrow")
    units = units_of(entry)
    operators = block("mlp", {"rows": 32, "width": 384, "depth": 3}, {"columns": 6, "samples": 1})
    graph = Cutting(units, operators).cut()
    subject = judged_subject(entry, graph, bound_cycles(units, operators, graph))
    scattered = candidates(subject, graph, 4, 0)
    found = np.stack([refined(subject, site, Schedule(5000, 0.02, 0.001), np.uint64(1)) for site in scattered])
    better = by_estimate(subject, found) / by_estimate(subject, scattered)
    assert (better > 1.0).all() and better.mean() > 1.1
    assert np.mean(by_schedule(subject, found) / by_schedule(subject, scattered)) > 1.1
