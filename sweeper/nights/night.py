"""A night: all studies in one pool, a record of what came of each, and what is kept of earlier nights."""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version

from sweeper.errors import NoDataset, OutputConflict, SweeperError
from sweeper.nights.checkout import commit
from sweeper.nights.conditions import Condition, Held
from sweeper.nights.inputs import keys_of
from sweeper.nights.pages import pages
from sweeper.nights.records import (
    COMPLETE,
    FAILED,
    INFEASIBLE,
    NIGHTS,
    REFUSED,
    RUNS,
    SUMMARY,
    UNFINISHED,
    NightRecord,
    StudyRecord,
    new_name,
    night_before,
    nights,
)
from sweeper.nights.winners import winners
from sweeper.running.execution import Demanded, run_all
from sweeper.running.limits import USUAL, Limits
from sweeper.running.plans import RunnablePlan
from sweeper.running.progress import Progress, phase
from sweeper.running.states import NOTHING_FEASIBLE, RunResult
from sweeper.running.storage.catalogue import remove_run
from sweeper.running.storage.folders import Folder
from sweeper.running.storage.listing import read_receipts
from sweeper.running.storage.store import SUCCESS, run_name

CHUNK_S = 2.0
"""Seconds that a chunk takes of a study that was never run; plans cut their chunks for about that."""
UNHURRIED = 0.0
"""A budget without end."""


@dataclass(frozen=True)
class Wanted:
    """What a night is asked for, beside its studies: where chunks are computed, and within which limits; seconds after
    which none is begun; conditions that must not hold; how many nights are kept, all if 0."""

    how: Demanded
    limits: Limits = USUAL
    verify: bool = False
    budget_s: float = UNHURRIED
    conditions: Sequence[Condition] = ()
    keep: int = 0


def night(
    studies: Mapping[str, Callable[[], RunnablePlan]], out: Folder, wanted: Wanted, progress: Progress
) -> NightRecord:
    """Run studies, given by their sources with what plans them, and write down what came of it.

    A study that cannot be planned spoils no other one. Raises what `running.run_all` does, and UsageFault for a
    condition that no study can answer.
    """
    begun = time.monotonic()
    with phase(f"planning {len(studies)} studies", progress.note):
        plans, refused = planned(studies)
    for condition in wanted.conditions:
        condition.check([plan.schema for plan in plans.values()], others=bool(refused))
    runs = out.inside(RUNS)
    before, last = night_before(out), next(nights(out), None)
    deadline = begun + wanted.budget_s
    results = run_all(
        list(plans.values()),
        runs,
        wanted.how,
        limits=wanted.limits,
        verify=wanted.verify,
        progress=progress,
        costs=[expected_s(plan, before) for plan in plans.values()],
        until=lambda: wanted.budget_s != UNHURRIED and time.monotonic() > deadline,
    )
    stopped = wanted.limits.fail_fast and any(isinstance(each, RunResult) and each.failed for each in results)
    why = "a chunk has failed" if stopped else "time is over"
    done = [
        record_of(source, plan, result, runs.inside(run_name(plan)), why)
        for (source, plan), result in zip(plans.items(), results, strict=True)
    ]
    conditions = [checked(condition, done, runs, before) for condition in wanted.conditions]
    every = sorted([*done, *refused], key=lambda study: study.name)
    record = NightRecord(
        when=new_name(out),
        version=version("sweeper"),
        seconds=round(time.monotonic() - begun, 1),
        baseline=before.when if before else "",
        studies=every,
        conditions=[held for holding, _ in conditions for held in holding],
        checked=[told for _, told in conditions],
        commit=commit(),
        gone=gone_of(last, every) if last else [],
    )
    place = out.inside(NIGHTS).inside(record.when)
    for name, text in pages(record, before).items():
        place.put(name, text.encode())
    # The record comes last: a night without it was not finished.
    place.put(SUMMARY, (json.dumps(record.plain(), indent=1, ensure_ascii=False) + "\n").encode())
    if wanted.keep:
        forget(out, wanted.keep)
    return record


def planned(
    studies: Mapping[str, Callable[[], RunnablePlan]],
) -> tuple[dict[str, RunnablePlan], list[StudyRecord]]:
    """Plans by source, and records of the studies of which there is none, or that have the name of another one: by
    that a study is known from one night to the next."""
    plans: dict[str, RunnablePlan] = {}
    known: dict[str, str] = {}
    refused = []
    for source, plan_of in studies.items():
        try:
            plan = plan_of()
        except SweeperError as error:
            refused.append(StudyRecord(source, source, REFUSED, problem=str(error)))
            continue
        same = known.setdefault(plan.name, source)
        if same == source:
            plans[source] = plan
        else:
            what = "the same study" if run_name(plans[same]) == run_name(plan) else "a study of the same name"
            refused.append(StudyRecord(plan.name, source, REFUSED, problem=f"{source}: {same} is {what}"))
    return plans, refused


def gone_of(last: NightRecord, studies: Sequence[StudyRecord]) -> list[str]:
    """Names of the studies of the last night that are not among those of this one. What could not be read then had no
    name; what cannot be read now has none but its source."""
    names, sources = {study.name for study in studies}, {study.source for study in studies}
    return [
        study.name
        for study in last.studies
        if (study.source not in sources if study.state == REFUSED else names.isdisjoint((study.name, study.source)))
    ]


def _is_baseline(record: NightRecord, later: Sequence[NightRecord]) -> bool:
    """Whether a night completed a study that no later one did."""
    completed = (study.name for study in record.studies if study.state == COMPLETE)
    return any(all(night.of(name) is None for night in later) for name in completed)


def expected_s(plan: RunnablePlan, before: NightRecord | None) -> float:
    """Seconds that a point of a study is expected to take: what it took in the night before."""
    earlier = before.of(plan.name) if before else None
    if earlier is not None and earlier.worker_seconds:
        return earlier.worker_seconds / earlier.points
    return CHUNK_S * (plan.chunk_count + plan.piece_count) / max(plan.point_count, 1)


def record_of(source: str, plan: RunnablePlan, result: RunResult | SweeperError, run: Folder, why: str) -> StudyRecord:
    """What came of a study that was run, or kept from being complete by an error; `why` it is unfinished, if it is."""
    if isinstance(result, SweeperError):
        return StudyRecord(plan.name, source, UNFINISHED, run=run_name(plan), problem=str(result))
    receipts = read_receipts(run).values()
    record = StudyRecord(
        name=plan.name,
        source=source,
        state=COMPLETE,
        run=run_name(plan),
        points=result.points,
        rows=result.rows,
        feasible_rows=result.feasible,
        chunks=plan.chunk_count,
        computed_chunks=result.computed_chunks,
        failed_chunks=len(result.failed),
        worker_seconds=round(sum(receipt.seconds for receipt in receipts), 3),
        worker_peak_B=max((receipt.peak_B for receipt in receipts), default=0),
        tried=result.tried,
        keys=[name for name in keys_of(plan.resolved) if name in plan.schema.names],
    )
    if result.failed:
        return replace(record, state=FAILED, problem=f"{len(result.failed)} chunks failed; {result.failed[0]}")
    if result.missing:
        told = f"{result.missing} of {plan.chunk_count} chunks are left; {why}"
        return replace(record, state=UNFINISHED, problem=told)
    if result.exit_code == NOTHING_FEASIBLE:
        counts = Counter(result.tried)
        told = ", ".join(f"{count:,} {reason}" for reason, count in counts.most_common() if reason != "feasible")
        return replace(record, state=INFEASIBLE, problem=f"no row is feasible: {told}")
    objectives = dict(plan.resolved.get("objectives") or [])
    try:
        return replace(record, winners=winners(run, objectives))
    except NoDataset as damage:  # Done since it was completed, while other studies ran.
        return replace(record, state=UNFINISHED, problem=str(damage))


def checked(
    condition: Condition, studies: Sequence[StudyRecord], runs: Folder, before: NightRecord | None
) -> tuple[list[str], str]:
    """Where a condition holds, in words, a line for each study; and in how many studies it could be checked, and of how
    many rows there is nothing earlier to compare them with."""
    complete = [study for study in studies if study.state == COMPLETE]
    told = [(study.name, _held(condition, study, runs, before)) for study in complete]
    found = [held for _, held in told if held is not None]
    first = "; there is no earlier night" if condition.compares and before is None else ""
    return (
        [f"{name}: {held.where}" for name, held in told if held is not None and held.where],
        f"{condition.text}: checked in {len(found)} of {len(studies)} studies{first}{_new_rows(found)}",
    )


def _new_rows(found: Sequence[Held]) -> str:
    """How many rows a condition was asked of that compares them with earlier ones, where some have none."""
    rows, new = sum(held.rows for held in found), sum(held.new for held in found)
    has = "has" if new == 1 else "have"
    return f", in {rows - new:,} of {rows:,} rows; {new:,} {has} no earlier row to be compared with" if new else ""


def _held(condition: Condition, study: StudyRecord, runs: Folder, before: NightRecord | None) -> Held | None:
    old = before.of(study.name) if before else None
    keys = list(dict.fromkeys([*study.keys, *(old.keys if old else ())]))
    try:
        if condition.compares and old is not None and SUCCESS not in runs.inside(old.run).entries(""):
            raise NoDataset(f"{old.run}, with which it is compared, is gone or incomplete")
        return condition.held(runs.inside(study.run), runs.inside(old.run) if old else None, keys)
    except SweeperError as error:
        return Held(str(error), 0)


def forget(out: Folder, keep: int) -> None:
    """Remove all nights but the latest ones and those that are still needed: the last that completed a study, which the
    latest may not even have. With them go the runs that no other night had."""
    known = list(nights(out))
    stays = [record for at, record in enumerate(known) if at < keep or _is_baseline(record, known[:at])]
    kept = {study.run for record in stays for study in record.studies}
    for record in known:
        if record in stays:
            continue
        # The runs first: who is killed between, or meets a run in use, finds the night, and with it the runs, again.
        with suppress(OutputConflict):
            for study in record.studies:
                if study.run and study.run not in kept:
                    remove_run(out.inside(RUNS), study.run)
            out.inside(NIGHTS).inside(record.when).clear()
