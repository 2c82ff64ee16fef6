"""Rules of the Ray backend, on a Ray without processes and a clock that tests set: suspects, pauses, verdicts, ends."""

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sweeper.errors import EnvironmentFault
from sweeper.running.chunk import Failure
from sweeper.running.limits import Limits
from sweeper.running.on_ray.driver import together
from sweeper.running.on_ray.family import STOPPED, state
from sweeper.running.on_ray.pace import Pace
from sweeper.running.on_ray.scheduler import (
    DRAIN_S,
    LONGEST_PAUSE_S,
    NO_PROCESSOR,
    PAUSE_S,
    START_ATTEMPTS,
    START_S,
    STRAGGLES_S,
    VERDICT_S,
    WAIT_NOTE_S,
)
from sweeper.running.on_ray.session import CHECK_CLUSTER_S, STANDSTILL_S, Membership, Vitals
from sweeper.running.on_ray.slots import FirstActors, Slot
from sweeper.running.on_ray.telling import last_words
from sweeper.running.queue import ChunkQueue, Outcome
from sweeper.running.storage.store import Receipt
from tests.support.fake_ray import (
    CHUNK_S,
    NEVER,
    ONE_BY_ONE,
    ActorDiedError,
    ActorUnavailableError,
    Call,
    FakeClock,
    FakeRay,
    RayTaskError,
    executor,
    outcomes,
    receipt,
)


def one_by_one(**limits: Any) -> Limits:
    """Limits of a run whose chunks are handed out one by one, whatever they take."""
    return replace(ONE_BY_ONE, **limits)


def deadly(*chunks: int, times: int = 1, error: type[Exception] = ActorDiedError, threads: int = 1) -> FakeRay:
    """A Ray where some chunks kill their workers so many times."""
    return FakeRay(
        lambda chunk, attempt: error("killed") if chunk in chunks and attempt <= times else receipt(chunk), threads
    )


def received(found: list[tuple[float, Any]]) -> list[int]:
    """Chunks of the receipts, in order."""
    return [outcome.chunk for _, outcome in found if isinstance(outcome, Receipt)]


def said(found: list[tuple[float, Any]], words: str) -> list[float]:
    """When a note with these words came."""
    return [at for at, outcome in found if isinstance(outcome, str) and words in outcome]


# --- which chunk comes next -----------------------------------------------------------------------------------------


def test_workers_have_two_chunks_each_in_the_order_of_the_study() -> None:
    ray = FakeRay()
    ray.place = ("node", "other").__getitem__  # each compiles for itself, so that both begin at once
    assert sorted(received(outcomes(ray, range(6), slots=2))) == list(range(6))
    assert ray.order == list(range(6))
    assert [len(flying) for _, flying in ray.given[:4]] == [1, 1, 2, 2]


def test_chunks_that_killed_a_worker_come_last_and_each_alone_on_its_worker() -> None:
    ray = deadly(1, 4)
    found = outcomes(ray, range(8))
    assert sorted(received(found)) == list(range(8))
    assert ray.order[-2:] == [1, 4]
    assert [flying for _, flying in ray.given[-2:]] == [(1,), (4,)]
    assert len(said(found, "tried again alone")) == 2


def test_chunks_behind_a_deadly_one_are_innocent_and_come_next() -> None:
    ray = deadly(2)
    outcomes(ray, range(6))
    assert ray.order == [0, 1, 2, 3, 3, 4, 5, 2]
    assert ray.tries[3] == 2  # with a limit of one crash it would still be computed
    assert received(outcomes(deadly(2), range(6), limits=one_by_one(crashes=1))) == [0, 1, 3, 4, 5]


def test_a_chunk_is_given_up_when_it_has_killed_as_many_workers_as_it_may() -> None:
    for crashes in (1, 2, 3):
        ray = deadly(0, times=9)
        found = outcomes(ray, range(3), limits=one_by_one(crashes=crashes))
        (failure,) = [outcome for _, outcome in found if isinstance(outcome, Failure)]
        assert (failure.chunk, failure.attempts, ray.tries[0]) == (0, crashes, crashes)
        assert received(found) == [1, 2]


def test_a_chunk_that_raises_is_tried_again_after_the_others() -> None:
    ray = FakeRay(lambda chunk, attempt: RayTaskError("odd") if chunk == 0 and attempt <= 2 else receipt(chunk))
    found = outcomes(ray, range(4), limits=one_by_one(retries=2))
    assert received(found) == [1, 2, 3, 0] and ray.tries[0] == 3
    assert len(said(found, "failed and will be tried again")) == 2
    found = outcomes(FakeRay(ray.behave), range(4), limits=one_by_one(retries=1))
    assert [outcome.attempts for _, outcome in found if isinstance(outcome, Failure)] == [2]


def test_the_queue_keeps_suspects_apart_whatever_becomes_of_them() -> None:
    work = ChunkQueue([0, 1, 2, 3], one_by_one(retries=2, crashes=3))
    assert [work.take(), work.take()] == [0, 1]
    work.crashed(0, "killed")
    assert work.is_suspect(0) and not work.is_suspect(1)
    assert work.take() == 2  # a suspect waits for the others
    assert [work.take(), work.take(idle=False), work.take()] == [3, None, 0]
    work.done(Failure(0, "odd"))  # an error of a suspect leaves it one
    work.give_back([1, 2])
    assert [work.take(), work.take(), work.take(idle=False), work.take()] == [1, 2, None, 0]
    work.give_back([0])  # so does the loss of its machine
    assert [work.take(idle=False), work.take()] == [None, 0]
    assert len(work) == 0


def test_a_worker_of_two_threads_has_three_chunks_and_ends_the_shorter_first() -> None:
    ray = FakeRay(threads=2)
    ray.seconds = lambda chunk, attempt: 3.5 if chunk == 0 else 1.0
    assert received(outcomes(ray, range(5))) == [1, 2, 3, 0, 4]
    assert max(len(flying) for _, flying in ray.given) == 3


def test_of_two_threads_either_may_have_killed_the_worker_but_not_the_chunk_behind_them() -> None:
    for crashes, expected in ((2, [2, 3, 4, 5, 0, 1]), (1, [2, 3, 4, 5])):
        ray = deadly(1, threads=2)
        ray.seconds = lambda chunk, attempt: 3.5 if chunk == 0 else 1.0
        assert received(outcomes(ray, range(6), limits=one_by_one(crashes=crashes))) == expected
        assert [ray.tries[chunk] for chunk in (2, 3, 4, 5)] == [2, 1, 1, 1]
        assert all(flying == (chunk,) for chunk, flying in ray.given[7:])


@pytest.mark.parametrize("together_s", [0.0, 20.0])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_every_chunk_ends_once_and_suspects_are_alone(
    seed: int, threads: int, together_s: float
) -> None:
    """Chunks of any length that raise or kill at random, on three workers."""
    random = np.random.default_rng(seed)
    fate = random.choice(["good", "error", "death"], (20, 12), p=[0.5, 0.3, 0.2])
    answers = {"error": RayTaskError("odd"), "death": ActorDiedError("killed")}
    ray = FakeRay(lambda chunk, attempt: answers.get(fate[chunk, attempt - 1], receipt(chunk)), threads)
    seconds = random.uniform(0.2, 6.0, (20, 12))
    ray.seconds = lambda chunk, attempt: float(seconds[chunk, attempt - 1])
    ray.place = lambda number: ("node", "other")[number % 2]
    ray.alive = {"node", "other"}
    found = outcomes(ray, range(20), slots=3, limits=Limits(retries=3, crashes=3, chunk_seconds=together_s))
    ended = [outcome.chunk for _, outcome in found if isinstance(outcome, Receipt | Failure)]
    assert sorted(ended) == list(range(20))
    assert ray.died and ray.crowded == []
    given_up = [outcome for _, outcome in found if isinstance(outcome, Failure)]
    assert all(failure.attempts == (3 if "its workers died" in failure.error else 4) for failure in given_up)


def test_errors_of_storage_are_final() -> None:
    failure = ChunkQueue([0], one_by_one(retries=5)).done(Failure(0, "full", storage=True))
    assert isinstance(failure, Failure) and failure.attempts == 1


# --- several chunks at a time ---------------------------------------------------------------------------------------


def test_short_chunks_go_out_many_at_a_time_and_fewer_towards_the_end() -> None:
    ray = FakeRay()
    ray.seconds = lambda chunk, attempt: 0.1
    found = outcomes(ray, range(300), slots=2, limits=Limits())
    assert sorted(received(found)) == list(range(300))
    sizes = [len(call) for call in ray.calls]
    assert sizes[0] == 1 and max(sizes) == 20 and sizes[-1] == 1
    assert sizes[-20:] == sorted(sizes[-20:], reverse=True)
    assert found[-1][0] == pytest.approx(15.0, abs=0.5)


def test_chunks_that_turn_out_longer_go_back_instead_of_keeping_a_worker() -> None:
    ray = FakeRay()
    ray.seconds = lambda chunk, attempt: 0.1 if chunk < 40 else 5.0
    found = outcomes(ray, range(60), slots=2, limits=Limits())
    assert sorted(received(found)) == list(range(60)) and max(ray.tries.values()) == 1
    waits = np.diff([at for at, outcome in found if isinstance(outcome, Receipt)])
    assert max(waits) <= 5.0 + 2.0


def test_a_worker_is_not_replaced_for_chunks_that_it_has_given_back() -> None:
    ray = FakeRay()
    ray.seconds = lambda chunk, attempt: 0.01 if chunk < 60 else 3.0
    assert sorted(received(outcomes(ray, range(90), limits=Limits(recycle=100)))) == list(range(90))
    assert sum(map(len, ray.calls)) > 100 and len(ray.actors) == 1


def test_many_workers_are_given_more_so_that_the_driver_can_follow() -> None:
    pace = Pace(2.0)
    assert pace.chunks(8, 10_000_000) == 1
    pace.learn(0.5)
    assert [pace.chunks(actors, 10_000_000) for actors in (8, 400, 10_000)] == [4, 4, 100]
    assert [pace.chunks(8, waiting) for waiting in (0, 1, 33, 64)] == [1, 1, 2, 4]


def test_of_several_chunks_only_the_one_that_kills_is_blamed() -> None:
    ray = deadly(50, times=9)
    ray.seconds = lambda chunk, attempt: 0.1
    found = outcomes(ray, range(100), limits=Limits(crashes=1))
    assert sorted(received(found)) == [chunk for chunk in range(100) if chunk != 50]
    assert [outcome.chunk for _, outcome in found if isinstance(outcome, Failure)] == [50]
    assert len(said(found, "which will be tried one by one")) == 1
    assert (50,) in ray.calls


def test_of_several_chunks_only_the_one_that_raises_is_tried_again() -> None:
    """Here it is Ray that raises, so nothing is known of any of them."""
    ray = FakeRay(lambda chunk, attempt: RayTaskError("odd") if chunk == 50 else receipt(chunk))
    ray.seconds = lambda chunk, attempt: 0.1
    found = outcomes(ray, range(100), limits=Limits(retries=1))
    assert sorted(received(found)) == [chunk for chunk in range(100) if chunk != 50]
    (failure,) = [outcome for _, outcome in found if isinstance(outcome, Failure)]
    assert (failure.chunk, failure.attempts) == (50, 2)
    assert len(said(found, "will be tried one by one")) == 1


def test_of_several_chunks_only_the_one_that_hangs_is_given_up() -> None:
    ray = FakeRay(lambda chunk, attempt: NEVER if chunk == 50 else receipt(chunk))
    ray.seconds = lambda chunk, attempt: 0.1
    found = outcomes(ray, range(100), limits=Limits(retries=0, chunk_timeout_s=30.0))
    assert sorted(received(found)) == [chunk for chunk in range(100) if chunk != 50]
    assert [outcome.chunk for _, outcome in found if isinstance(outcome, Failure)] == [50]
    assert found[-1][0] < 30.0 + 2.0 + 30.0 + 20.0


LOG = "[2026-11-30 08:09:57,828 E 29601 29999] core_worker.cc:609: "


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("", ""),
        (f"{LOG}:info_message: Attempting to recover 1 lost objects by resubmitting their tasks.\n", ""),
        ("\x1b[33m(raylet)\x1b[0m The node has been marked dead. This can happen when a\n\t(1) raylet crashes\n", ""),
        (f"{LOG}Failed to connect to GCS.\n{LOG}:info_message: Attempting to recover\n", "Failed to connect to GCS."),
        ("Traceback (most recent call last):\n  File 'x'\nMemoryError: no more\n\n", "MemoryError: no more"),
        ("x" * 1000, "x" * 300),
    ],
)
def test_why_ray_has_ended_is_told_by_no_line_of_what_it_does_about_it(said: str, words: str) -> None:
    assert last_words(said) == words


def test_a_lost_machine_gives_all_its_chunks_back() -> None:
    ray = deadly(50)
    ray.seconds = lambda chunk, attempt: 0.1
    ray.place = lambda number: "other" if number == 0 else "node"  # `other` is dead from the start
    found = outcomes(ray, range(100), limits=Limits(crashes=1))
    assert sorted(received(found)) == list(range(100)) and not said(found, "died")
    (words,) = [each for _, each in found if isinstance(each, str)]
    assert re.fullmatch(r"lost a machine; another one computes \d+ chunks from chunk \d+ to chunk \d+", words)


def test_threads_are_given_no_more_than_they_have_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where many actors make calls long; a worker is replaced after so many chunks as it has computed."""
    monkeypatch.setattr("sweeper.running.on_ray.pace.DRIVER_S", 0.05)
    for threads in (1, 4):
        ray = FakeRay(threads=threads)
        ray.seconds = lambda chunk, attempt: 0.01
        found = outcomes(ray, range(6000), slots=4, limits=Limits(recycle=300))
        assert sorted(received(found)) == list(range(6000))
        assert sum(map(len, ray.calls)) <= 6100 and len(ray.actors) <= 6000 // 300 + 4


def test_workers_with_several_chunks_are_told_to_stop() -> None:
    ray, stop = FakeRay(), SimpleNamespace(requested=False)
    ray.seconds = lambda chunk, attempt: 0.1
    found = executor(ray, 100, limits=Limits()).outcomes(range(100), stop)
    while not ray.calls or len(ray.calls[-1]) == 1:
        next(found)
    stop.requested = True
    list(found)
    assert ray.stopped == ray.actors


# --- pauses ---------------------------------------------------------------------------------------------------------


def test_pauses_double_with_deaths_in_a_row_up_to_half_a_minute() -> None:
    ray = deadly(0, times=9)
    outcomes(ray, [0], limits=one_by_one(crashes=10))
    expected = [min(PAUSE_S * 2.0**deaths, LONGEST_PAUSE_S) + CHUNK_S for deaths in range(9)]
    assert ray.pauses == pytest.approx(expected)
    assert expected[-1] == 31.0


def test_a_chunk_that_succeeds_ends_the_row_of_deaths() -> None:
    ray = deadly(0, 2, times=1)
    outcomes(ray, range(4))
    # chunk 0 dies; 1 succeeds; 2 dies; the pause after both deaths is the first of a row
    assert ray.pauses == pytest.approx([CHUNK_S + PAUSE_S, 2.0 * CHUNK_S + PAUSE_S])


# --- machines -------------------------------------------------------------------------------------------------------


def test_a_chunk_of_a_lost_machine_is_not_blamed() -> None:
    ray = deadly(1)
    ray.place = lambda number: "other" if number == 0 else "node"  # `other` is dead from the start
    found = outcomes(ray, range(3), limits=one_by_one(crashes=1))
    assert sorted(received(found)) == [0, 1, 2]
    assert said(found, "lost a machine; another one computes chunk 1") and not said(found, "died")


def test_an_unreachable_worker_is_blamed_only_when_its_machine_has_had_time_to_vanish() -> None:
    ray = deadly(0, error=ActorUnavailableError)
    (blamed,) = said(outcomes(ray, range(2)), "tried again alone")
    assert VERDICT_S <= blamed - CHUNK_S <= VERDICT_S + 2.0
    dead = deadly(0, error=ActorDiedError)
    assert said(outcomes(dead, range(2)), "tried again alone") == [CHUNK_S]


def test_a_machine_that_vanishes_within_that_time_takes_the_blame() -> None:
    ray = deadly(0, error=ActorUnavailableError)
    nodes = ray.nodes
    lost = SimpleNamespace(at=ray.clock.now + 50.0)
    ray.nodes = lambda: nodes() if ray.clock.now < lost.at else []  # type: ignore[method-assign]
    found = outcomes(ray, range(2), limits=one_by_one(crashes=1))
    assert sorted(received(found)) == [0, 1]
    (noticed,) = said(found, "lost a machine")
    assert 50.0 <= noticed <= 52.0


# --- starting -------------------------------------------------------------------------------------------------------


def test_the_first_worker_of_each_machine_has_kernels_compiled_ahead() -> None:
    ray = FakeRay()
    ray.place = lambda number: ("node", "node", "other", "other")[number]
    assert sorted(received(outcomes(ray, range(9), slots=4))) == list(range(9))
    assert [actor.first for actor in ray.actors] == [True, False, True, False]
    leader = ray.actors[0]
    assert [actor.takes for actor in ray.actors] == [[], [], [leader], [leader]]


def test_another_machine_compiles_for_those_that_join_once_the_first_one_is_gone() -> None:
    first = FirstActors()
    slots = [Slot(actor=FakeRay().remote(), node=node) for node in ("a", "b", "b")]
    assert [first.takes(slot) for slot in slots] == [True, True, False]
    assert [first.kernels(slot) for slot in slots] == [[], [slots[0].actor], [slots[0].actor]]
    slots[0].actor, slots[0].node = FakeRay().remote(), ""  # started again, nobody knows where
    late = Slot(actor=FakeRay().remote(), node="c")
    assert first.takes(late) and first.kernels(late) == [slots[1].actor]
    slots[0].node = "b"
    assert not first.takes(slots[0]) and first.kernels(slots[0]) == []
    back = Slot(actor=FakeRay().remote(), node="a")
    assert first.takes(back) and list(first) == [back, slots[1], late]
    assert first.kernels(late) == [back.actor]
    slots[1].state = "working"  # it has kernels, `back` may never have any
    assert first.kernels(late) == [slots[1].actor]


@pytest.mark.parametrize("dies", ["at its preparation", "at its chunk", "after its time"])
def test_another_one_is_the_first_worker_of_a_machine_after_that_has_ended(dies: str) -> None:
    ray = deadly(*[0] if dies == "at its chunk" else [])
    if dies == "at its preparation":
        ray.prepare = lambda actor: ActorDiedError("odd") if actor is ray.actors[0] else None
    limits = one_by_one(recycle=3 if dies == "after its time" else 0)
    assert sorted(received(outcomes(ray, range(9), slots=2, limits=limits))) == list(range(9))
    assert [actor.first for actor in ray.actors[:3]] == [True, False, True]


def test_workers_that_never_start_end_the_run() -> None:
    ray = FakeRay()
    ray.hello = lambda actor: ActorDiedError("no room")
    with pytest.raises(EnvironmentFault, match="no worker can be started: ActorDiedError: no room"):
        outcomes(ray, range(2), slots=2)
    assert len(ray.actors) == 2 * START_ATTEMPTS


def test_a_worker_that_starts_is_forgiven_its_bad_starts() -> None:
    """Two bad starts, a good one, a death, and again two bad ones: never three in a row."""
    ray = deadly(0)
    ray.prepare = lambda actor: ActorDiedError("odd") if ray.actors.index(actor) in (0, 1, 3, 4) else None
    assert sorted(received(outcomes(ray, range(2)))) == [0, 1]
    assert len(ray.actors) == 6


def test_waiting_for_processors_is_told_every_ten_seconds() -> None:
    ray = FakeRay()
    ray.hello = lambda actor: NEVER if len(ray.actors) == 1 and ray.clock.now < 2000.0 else actor.node
    stop = SimpleNamespace(requested=False)
    assert len(said(outcomes(ray, range(1), stop=Until(ray, 1060.0, stop)), NO_PROCESSOR)) == 5


def test_what_is_compiled_is_told_every_ten_seconds_until_a_chunk_is_done() -> None:
    ray = FakeRay()
    ray.seconds = lambda chunk, attempt: 35.0
    ray.told = lambda actor: Call(0.0, f"compiling at {ray.clock.now:.0f}" if actor.first else "not I")
    noted = said(outcomes(ray, range(4), slots=2), "compiling at")
    assert len(noted) == 3
    assert all(WAIT_NOTE_S < at - before <= WAIT_NOTE_S + 1.0 for before, at in zip([0.0, *noted], noted, strict=False))


@pytest.mark.parametrize("answer", ["", RayTaskError("odd"), ActorDiedError("gone")])
def test_who_cannot_tell_what_is_compiled_is_not_quoted(answer: Any) -> None:
    ray = FakeRay()
    ray.seconds = lambda chunk, attempt: 35.0
    ray.told = lambda actor: Call(0.0, answer)
    assert [outcome.chunk for _, outcome in outcomes(ray, range(2))] == [0, 1]


# --- ends -----------------------------------------------------------------------------------------------------------


class Until:
    """A request to stop that comes at some time."""

    def __init__(self, ray: FakeRay, at: float, stop: SimpleNamespace) -> None:
        self._ray, self._at, self._stop = ray, at, stop

    @property
    def requested(self) -> bool:
        return self._ray.clock.now >= self._at or self._stop.requested


def test_a_stopped_run_hands_out_nothing_more_and_waits_for_what_is_in_flight() -> None:
    ray = FakeRay()
    found = outcomes(ray, range(20), stop=Until(ray, 1000.0 + 2.0 * CHUNK_S, SimpleNamespace(requested=False)))
    assert received(found) == [0, 1, 2, 3][: len(received(found))]
    assert set(received(found)) == set(ray.order)
    assert 2 <= len(ray.order) <= 4


def test_a_stopped_run_does_not_wait_for_ever() -> None:
    ray = FakeRay(lambda chunk, attempt: NEVER)
    assert outcomes(ray, range(3), stop=Until(ray, 1010.0, SimpleNamespace(requested=False))) == []
    assert 10.0 + DRAIN_S < ray.clock.now - 1000.0 <= 10.0 + DRAIN_S + 2.0


def test_a_worker_is_replaced_after_its_chunks_and_has_none_in_flight_then() -> None:
    ray = FakeRay()
    assert received(outcomes(ray, range(7), limits=one_by_one(recycle=3))) == list(range(7))
    assert len(ray.actors) == 3
    assert all(not actor.flying for actor in ray.killed)


# --- chunks that do not end -----------------------------------------------------------------------------------------


def hanging(*chunks: int, times: int = 100, threads: int = 1) -> FakeRay:
    """A Ray where some chunks do not end so many times."""
    return FakeRay(lambda chunk, attempt: NEVER if chunk in chunks and attempt <= times else receipt(chunk), threads)


def test_a_chunk_that_hangs_is_given_up_and_all_others_are_computed() -> None:
    ray = hanging(2)
    found = outcomes(ray, range(6), limits=one_by_one(retries=1, chunk_timeout_s=50.0))
    assert sorted(received(found)) == [0, 1, 3, 4, 5]
    ((at, failure),) = [(at, each) for at, each in found if isinstance(each, Failure)]
    assert str(failure) == "chunk 2: it did not end within 50 s; --chunk-timeout allows more (attempts: 2)"
    assert 2 * 50.0 <= at < 2 * 50.0 + 20.0
    assert len(ray.killed) >= 2, "its workers are replaced"


def test_a_chunk_that_hangs_once_is_computed_by_another_worker() -> None:
    ray = hanging(1, times=1)
    found = outcomes(ray, range(4), limits=one_by_one(chunk_timeout_s=30.0))
    assert sorted(received(found)) == [0, 1, 2, 3]
    assert said(found, "chunk 1 failed and will be tried again: it did not end within 30 s")


def test_time_counts_from_when_a_worker_is_at_a_chunk_not_from_when_it_was_given_it() -> None:
    """Chunks of 8 seconds, two at a worker, in a limit of ten."""
    ray = FakeRay()
    ray.seconds = lambda chunk, attempt: 8.0
    found = outcomes(ray, range(6), limits=one_by_one(retries=0, chunk_timeout_s=10.0))
    assert sorted(received(found)) == list(range(6))


def test_a_chunk_beside_one_that_hangs_is_not_blamed() -> None:
    ray = hanging(0, threads=2)
    ray.seconds = lambda chunk, attempt: 20.0
    found = outcomes(ray, range(4), limits=one_by_one(retries=0, crashes=1, chunk_timeout_s=30.0))
    assert sorted(received(found)) == [1, 2, 3]
    assert [each.chunk for _, each in found if isinstance(each, Failure)] == [0]


def test_a_worker_that_never_takes_the_job_is_no_reason_to_wait() -> None:
    ray = FakeRay()
    ray.prepare = lambda actor: NEVER
    with pytest.raises(EnvironmentFault, match=f"it has not answered for {START_S:.0f} s"):
        outcomes(ray, range(3))
    assert len(ray.actors) == START_ATTEMPTS
    assert ray.clock.slept < START_ATTEMPTS * (START_S + LONGEST_PAUSE_S)


# --- chunks that take longer than others ---------------------------------------------------------------------------


def straggling(chunk: int, slow: float = 1000.0) -> FakeRay:
    """A Ray where a chunk takes a second like the others, but for the first worker."""
    ray = FakeRay()
    ray.place = ("node", "other", "node", "other").__getitem__
    ray.seconds = lambda each, attempt: slow if each == chunk and attempt == 1 else CHUNK_S
    return ray


def test_towards_the_end_a_slow_chunk_is_also_given_to_an_idle_worker() -> None:
    ray = straggling(3)
    found = outcomes(ray, range(8), slots=2)
    assert sorted(received(found)) == list(range(8)), "each is told once"
    assert found[-1][0] < STRAGGLES_S + 20.0
    assert ray.tries[3] == 2 and sum(ray.tries.values()) <= 10, "that, and the one behind it"


def test_of_several_chunks_those_at_the_end_are_given_to_an_idle_worker_first() -> None:
    """The others may be done, as the worker tells of all together."""
    ray = FakeRay()
    ray.place = ("node", "other").__getitem__
    ray.seconds = lambda chunk, attempt: 100.0 if (chunk, attempt) == (10, 1) else 0.1
    outcomes(ray, range(60), slots=2, limits=Limits())
    (held,) = [call for call in ray.calls if 10 in call and len(call) > 1]
    again = [call[0] for call in ray.calls[ray.calls.index(held) + 1 :] if len(call) == 1 and call[0] in held]
    assert again and again[0] == held[-1]


def test_a_chunk_is_given_to_one_more_worker_not_to_all() -> None:
    ray = straggling(0)
    ray.place = lambda number: f"node{number}"
    ray.seconds = lambda chunk, attempt: 100.0 if chunk == 0 else CHUNK_S
    found = outcomes(ray, range(8), slots=4)
    assert sorted(received(found)) == list(range(8))
    assert ray.tries[0] == 2


@pytest.mark.parametrize("late", [RayTaskError("late"), Failure(3, "late")])
def test_the_first_answer_counts_and_a_late_error_of_the_other_does_not(late: object) -> None:
    """Neither while the other is still at the chunk."""
    ray = straggling(3, slow=25.0)
    ray.behave = lambda chunk, attempt: late if (chunk, attempt) == (3, 2) else receipt(chunk)
    found = outcomes(ray, range(8), slots=2, limits=one_by_one(retries=0))
    assert sorted(received(found)) == list(range(8))
    assert not [each for _, each in found if isinstance(each, Failure)]


def test_a_helper_that_dies_leaves_the_chunk_to_the_other() -> None:
    ray = straggling(3, slow=60.0)
    ray.behave = lambda chunk, attempt: ActorDiedError("killed") if (chunk, attempt) == (3, 2) else receipt(chunk)
    found = outcomes(ray, range(8), slots=2, limits=one_by_one(crashes=1))
    assert sorted(received(found)) == list(range(8))


# --- Ray itself -----------------------------------------------------------------------------------------------------


def told(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    """Stop a process or let it go on, and wait until the system says so."""
    process.send_signal(number)
    while (state(process.pid) in STOPPED) is not (number == signal.SIGSTOP):
        time.sleep(0.01)


def test_a_process_of_ray_that_ends_or_stands_still_is_noticed() -> None:
    clock = FakeClock()
    with subprocess.Popen(["sleep", "1000"]) as process:
        vitals = Vitals({"raylet": process.pid}, clock)
        try:
            for _ in range(3):
                clock.now += 10.0
                vitals.check()
            told(process, signal.SIGSTOP)
            clock.now += 10.0
            vitals.check()
            clock.now += STANDSTILL_S - 1.0
            vitals.check()
            told(process, signal.SIGCONT)
            clock.now += 10.0
            vitals.check()
            told(process, signal.SIGSTOP)
            clock.now += 10.0
            vitals.check()
            clock.now += STANDSTILL_S
            with pytest.raises(EnvironmentFault, match="its raylet stands still"):
                vitals.check()
        finally:
            process.kill()
        process.wait()
        clock.now += 10.0
        with pytest.raises(EnvironmentFault, match="its raylet has ended"):
            vitals.check()


def test_a_machine_that_is_no_longer_of_the_cluster_is_noticed() -> None:
    ray = FakeRay()
    mine = SimpleNamespace(get_node_id=lambda: "node")
    asked = SimpleNamespace(nodes=ray.nodes, get_runtime_context=lambda: mine)
    membership = Membership(asked, ray.clock)
    membership.check()
    ray.alive = {"other"}
    membership.check()
    ray.clock.now += CHECK_CLUSTER_S
    with pytest.raises(EnvironmentFault, match="belongs to it no more"):
        membership.check()


# --- what the driver tells ------------------------------------------------------------------------------------------


def test_outcomes_are_told_at_every_tick_and_before_an_error() -> None:
    def some() -> Iterator[Outcome]:
        yield from ("a", None, None, "b", "c")
        raise EnvironmentFault("lost")

    told = together(some())
    assert [next(told) for _ in range(3)] == [["a"], [], ["b", "c"]]
    with pytest.raises(EnvironmentFault, match="lost"):
        next(told)
    assert list(together(["a", None, "b"])) == [["a"], ["b"]]
