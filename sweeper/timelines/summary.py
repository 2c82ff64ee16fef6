"""What a timeline tells: how long a step takes as played and as the closed form says, and what stages do meanwhile."""

from dataclasses import asdict, dataclass

from sweeper.timelines.schedule import Played
from sweeper.timelines.slices import held_s
from sweeper.timelines.step import Step
from sweeper.views.text import listing


@dataclass(frozen=True)
class StageTime:
    """Seconds of a stage in its passes, in messages to its neighbours, and in waiting: without either, or keeping the
    pace of fuller stages, while the pipeline runs."""

    stage: int
    working_s: float
    sending_s: float
    waiting_s: float


@dataclass(frozen=True)
class Summary:
    """A step as it was played, beside what closed forms say of it."""

    study: str
    point_id: int
    schedule: str
    stages: int
    microbatches: int
    played_microbatches: int
    chunks: int
    played_s: float
    iteration_time_s: float
    pipeline_played_s: float
    pipeline_time_s: float
    after: dict[str, float]
    infeasible_reason: str
    note: str
    by_stage: tuple[StageTime, ...]


def summary(study: str, point_id: int, step: Step, played: Played) -> Summary:
    """What was played of a step."""
    held = [sum(held_s(step, task) for each in done for task in each.cell) for done in played.done]
    stages = tuple(
        StageTime(stage, played.total_s - idle - paced, idle - waiting, waiting + paced)
        for stage, (idle, waiting, paced) in enumerate(zip(played.idle_s, played.waiting_s, held, strict=True))
    )
    return Summary(
        study,
        point_id,
        step.schedule,
        step.stages,
        step.real,
        step.microbatches,
        step.chunks,
        played.total_s + step.after_s,
        step.iteration_time_s,
        played.total_s,
        step.pipeline_time_s,
        {part.name: part.seconds for part in step.after},
        step.infeasible_reason,
        step.note,
        stages,
    )


HEADS = {
    "stage": "STAGE",
    "working_s": "PASSES s",
    "sending_s": "MESSAGES s",
    "waiting_s": "WAITING s",
    "share": "WAITING",
}


def text(found: Summary) -> str:
    """The summary for people."""
    chunks = f" of {found.chunks} chunks" if found.chunks > 1 else ""
    padded = f", padded to {found.played_microbatches}" if found.played_microbatches > found.microbatches else ""
    size = f"{found.stages} stages{chunks}, {found.microbatches} microbatches{padded}"
    rows = [
        {**{name: f"{value:.6g}" for name, value in asdict(each).items()},
         "share": f"{each.waiting_s / found.pipeline_played_s:.1%}"}
        for each in found.by_stage
    ]  # fmt: skip
    after = [f"{name} {seconds:.6g} s" for name, seconds in found.after.items()]
    longer = found.played_s / found.iteration_time_s - 1.0
    lines = [
        f"{found.study}, point {found.point_id}: {found.schedule}, {size}",
        *([found.note] if found.note else []),
        *([f"not feasible: {found.infeasible_reason}"] if found.infeasible_reason else []),
        f"step {found.played_s:.6g} s as played, {found.iteration_time_s:.6g} s by closed forms ({longer:+.2%})",
        f"pipeline {found.pipeline_played_s:.6g} s as played, {found.pipeline_time_s:.6g} s by closed forms",
        f"behind it: {', '.join(after) or 'nothing'}",
    ]
    return "\n".join([*lines, listing(rows, HEADS)])
