"""What a night leaves behind: a record of each study, of the night, and where they lie.

<out>/runs/<study>-<hash12>/        run directories, shared by all nights: what did not change is there already
<out>/nights/<when>/summary.json    what came of a night, the same as Markdown and HTML beside it
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Any

from sweeper.errors import OutputConflict
from sweeper.nights.winners import Winner
from sweeper.running.storage.folders import Folder
from sweeper.running.storage.places import folder

RUNS, NIGHTS, SUMMARY = "runs", "nights", "summary.json"

_COMMIT = re.compile(r"[0-9a-f]{7,40}(-dirty)?")

COMPLETE, UNFINISHED, FAILED, INFEASIBLE, REFUSED = "complete", "unfinished", "failed", "infeasible", "refused"
"""States of a study: all computed; not yet, for lack of time, in use by another, damaged or out of reach; chunks
failed; no row is feasible; no plan was made."""


@dataclass(frozen=True)
class StudyRecord:
    """What came of a study in a night.

    `run` is the name of its run directory; `keys` are the columns that tell its rows apart; `problem` is why it is not
    as it should be. `computed_chunks` is 0 for what was there already.
    """

    name: str
    source: str
    state: str
    run: str = ""
    problem: str = ""
    points: int = 0
    rows: int = 0
    feasible_rows: int | None = None
    chunks: int = 0
    computed_chunks: int = 0
    failed_chunks: int = 0
    worker_seconds: float = 0.0
    worker_peak_B: int = 0
    tried: Mapping[str, int] = field(default_factory=dict)
    keys: Sequence[str] = ()
    winners: Sequence[Winner] = ()

    @property
    def unchanged(self) -> bool:
        """Whether nothing had to be computed."""
        return self.state in (COMPLETE, INFEASIBLE) and not self.computed_chunks


@dataclass(frozen=True)
class NightRecord:
    """What came of a night: `when` is its name, `baseline` the earlier one that it is compared with ("" if none);
    `conditions` that hold, each in a study, and in how many studies each was `checked`; `commit` that was checked out
    ("" if none); studies of the night before that are `gone`."""

    when: str
    version: str
    seconds: float
    baseline: str
    studies: Sequence[StudyRecord]
    conditions: Sequence[str] = ()
    checked: Sequence[str] = ()
    commit: str = ""
    gone: Sequence[str] = ()

    def of(self, study: str) -> StudyRecord | None:
        """The record of a study that was completed, by its name."""
        done = (record for record in self.studies if record.name == study and record.state == COMPLETE)
        return next(done, None)

    @property
    def problems(self) -> list[str]:
        """What is not as it should be, in words: of studies first, then conditions that hold."""
        return [f"{study.name}: {study.problem}" for study in self.studies if study.problem] + list(self.conditions)

    @property
    def remarks(self) -> list[str]:
        """What is worth telling and no problem, in words."""
        return [f"{study}: in the night of {self.baseline}, not in this one" for study in self.gone]

    @property
    def exit_code(self) -> int:
        """0 if there is no problem, else 1."""
        return int(bool(self.problems))

    def plain(self) -> dict[str, Any]:
        """As it is written."""
        return {**asdict(self), "problems": self.problems, "exit_code": self.exit_code}


def as_record(text: bytes) -> NightRecord:
    """A night as it was written. Raises ValueError, KeyError or TypeError for what is none."""
    told = json.loads(text)
    studies = [
        StudyRecord(**{**study, "winners": [Winner(**winner) for winner in study["winners"]]})
        for study in told["studies"]
    ]
    names = ("when", "version", "seconds", "baseline", "conditions", "checked")
    later = {name: told[name] for name in ("commit", "gone") if name in told}  # that earlier versions did not write
    return NightRecord(studies=studies, **later, **{name: told[name] for name in names})


def night_at(where: str) -> tuple[Folder, NightRecord] | None:
    """The night in a directory, and the place that it is of; None where there is none.

    Raises OutputConflict for one that cannot be read.
    """
    path, mark, options = where.partition("?")
    if Path(path).is_file():  # a study, say
        return None
    full = path if "://" in path else str(Path(path).absolute())
    text = folder(f"{full}{mark}{options}").get(SUMMARY)
    if text is None:
        return None
    return folder(f"{full.rstrip('/').rsplit('/', 2)[0]}{mark}{options}"), _read(text, where)


def night_of_commit(commit: str, where: str) -> tuple[Folder, NightRecord] | None:
    """The latest night of a place whose commit begins so, which may be cut to seven letters; None if there is none."""
    if not _COMMIT.fullmatch(commit):
        return None
    place = folder(where)
    return next(((place, night) for night in nights(place) if night.commit.startswith(commit)), None)


def runs_of_nights(runs: str) -> frozenset[str]:
    """Names of the runs that nights have which lie beside a folder of runs; none if it is not that of nights."""
    path, mark, options = runs.partition("?")
    full = path.rstrip("/") if "://" in path else str(Path(path).absolute())
    parent, _, name = full.rpartition("/")
    known = nights(folder(f"{parent}{mark}{options}")) if name == RUNS else ()
    return frozenset(study.run for night in known for study in night.studies)


def night_before(out: Folder) -> NightRecord | None:
    """The latest night, in which every study is as the latest night left it that completed it; None for the first."""
    known = list(nights(out))
    done: dict[str, StudyRecord] = {}
    for study in (study for record in known for study in record.studies if study.state == COMPLETE):
        done.setdefault(study.name, study)
    return replace(known[0], studies=list(done.values())) if known else None


IS_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ")
"""How names of nights begin."""


def new_name(out: Folder) -> str:
    """What a night that ends now is called: the time, or that of the last one if the clock was put back; in any case
    after the name of every other one."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    last = max((name for name in out.inside(NIGHTS).folders() if IS_TIME.match(name)), default="")
    time = max(now, last[: len(now)])
    return next(name for name in chain([time], (f"{time}-{number:03d}" for number in count(2))) if name > last)


def nights(out: Folder) -> Iterator[NightRecord]:
    """The nights of a place, the latest first. Raises OutputConflict for one that cannot be read."""
    place = out.inside(NIGHTS)
    for name in reversed(place.folders()):
        text = place.inside(name).get(SUMMARY)
        if text is None:  # a night that was killed while it was written
            continue
        yield _read(text, str(place.inside(name)))


def _read(text: bytes, where: str) -> NightRecord:
    try:
        return as_record(text)
    except (ValueError, KeyError, TypeError) as error:
        raise OutputConflict(f"{where}/{SUMMARY} cannot be read ({error!r}); remove it") from None
