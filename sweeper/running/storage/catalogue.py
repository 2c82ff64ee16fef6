"""Which runs lie in a folder, how far each is, and which may go."""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.errors import NoDataset
from sweeper.running.storage.folders import Folder
from sweeper.running.storage.listing import read_receipts
from sweeper.running.storage.lock import FILE, Lock
from sweeper.running.storage.places import folder
from sweeper.running.storage.resolved import RESOLVED, read_resolved
from sweeper.running.storage.store import DATA, MANIFEST, RECEIPTS, SUCCESS

COMPLETE, UNFINISHED, DAMAGED = "complete", "unfinished", "damaged"
IS_NAMED = re.compile(r".+-[0-9a-f]{12}")
"""How run directories are named: after a study and its hash."""
IS_PART = re.compile(r"part-[0-9]{8}\.parquet")


@dataclass(frozen=True)
class RunEntry:
    """A run as a catalogue lists it: of which study, how far, how large, and when it was last changed (seconds since
    1970). Runs with the same `code` were computed by the same equations and libraries; rows are those of a complete
    run. What it is of: the study itself, or numbers of it that were `varied` (a sensitivity, a break-even)."""

    run: str
    study: str
    state: str
    points: int
    rows: int | None
    feasible_rows: int | None
    bytes: int
    changed: float
    code: str
    of: str = ""


VARIED = "varied numbers"


def of_what(resolved: Any) -> str:
    """What a run is of, by what it says of itself: "" for the study itself. Raises what damaged words raise."""
    return VARIED if resolved["study"].get("perturbation") is not None else ""


def runs_in(where: str | Path | Folder) -> list[RunEntry]:
    """The runs of a folder, the latest first; no dataset is opened.

    A run is a directory that is named after a study and a hash and holds what only runs do: a `resolved.json` or
    `manifest.json` of that hash, parts or receipts, or nothing, as one that was killed as it began. It is damaged if
    anything else that a run needs cannot be read, and none if its `resolved.json` is of another hash.
    """
    place = folder(where)
    found = (_entry(place.inside(name)) for name in place.folders() if IS_NAMED.fullmatch(name))
    return sorted((entry for entry in found if entry is not None), key=lambda entry: (-entry.changed, entry.run))


def strangers(where: str | Path | Folder, runs: Iterable[RunEntry]) -> list[str]:
    """Names of the directories that look like runs, by their name or a `resolved.json`, and are none of its `runs`."""
    place, known = folder(where), {entry.run for entry in runs}
    others = (name for name in place.folders() if name not in known)
    return [name for name in others if IS_NAMED.fullmatch(name) or RESOLVED in place.inside(name).entries("")]


def _is_run(run: Folder) -> bool:
    """Whether a directory that is named as a run holds what only runs do, or nothing but their lock."""
    return (
        (run.entries("").keys() <= {FILE} and not run.folders())
        or any(_is_of_hash(run, file) for file in (RESOLVED, MANIFEST))
        or any(IS_PART.fullmatch(name) for name in run.entries(DATA))
        or bool(read_receipts(run))
    )


def _is_of_hash(run: Folder, file: str) -> bool:
    """Whether a file says the hash that a directory is named after."""
    try:
        return _is_named_after(run, json.loads(run.get(file) or b""))
    except (ValueError, KeyError, TypeError):
        return False


def _is_named_after(run: Folder, told: Any) -> bool:
    """Whether a directory is named after the hash that is told. Raises what damaged words raise."""
    return bool(run.name.endswith(f"-{told['hash'][:12]}"))


def _entry(run: Folder) -> RunEntry | None:
    """What a catalogue says of a directory that is named as a run; nothing if it is none."""
    files = run.entries("")
    changed = max((file.modified for file in files.values()), default=0.0)
    try:
        resolved = read_resolved(run)
        if not _is_named_after(run, resolved):
            return None
        text = json.dumps(resolved["study"].get("code"), sort_keys=True)
        code = hashlib.sha256(text.encode()).hexdigest()[:8]
        known = {"study": resolved["name"], "code": code, "of": of_what(resolved)}
        if SUCCESS in files:
            told = json.loads(run.get(MANIFEST) or b"")
            size = {"points": told["points"], "rows": told["rows"], "feasible_rows": told["feasible"]}
            return RunEntry(run.name, state=COMPLETE, bytes=told["bytes"], changed=changed, **known, **size)
    except (ValueError, KeyError, TypeError, AttributeError, NoDataset):
        return _damaged(run) if _is_run(run) else None
    receipts = [receipt for receipt in read_receipts(run).values() if receipt.piece_of is None]
    sums = {"points": sum(each.points for each in receipts), "bytes": sum(each.bytes for each in receipts)}
    changed = max([changed, *(each.at for each in receipts)])
    done: dict[str, Any] = {"state": UNFINISHED, "rows": None, "feasible_rows": None, **sums}
    return RunEntry(run.name, changed=changed, **known, **done)


def _damaged(run: Folder) -> RunEntry:
    """What a catalogue says of a run that cannot be read: its name tells of which study it is."""
    files = (file for place in ("", DATA, RECEIPTS) for file in run.entries(place).values())
    changed = max((file.modified for file in files), default=0.0)
    return RunEntry(run.name, run.name.rpartition("-")[0], DAMAGED, 0, None, None, 0, changed, code="")


def disposable(entries: Iterable[RunEntry], before: float, keep: int) -> Iterator[RunEntry]:
    """Of a catalogue, the runs last changed before a time (seconds since 1970; `inf`: whenever) that are not among the
    latest `keep` of their study, of which those of varied numbers count by themselves. Those that are not complete do
    not count: they stay or go with the complete one before them."""
    seen: defaultdict[tuple[str, str], int] = defaultdict(int)
    for entry in sorted(entries, key=lambda entry: -entry.changed):
        kept = seen[entry.study, entry.of] < keep
        seen[entry.study, entry.of] += entry.state == COMPLETE
        if entry.changed < before and not kept:
            yield entry


def remove_run(where: str | Path | Folder, name: str) -> None:
    """Remove a run with its dataset. Raises OutputConflict if somebody is writing it."""
    run = folder(where).inside(name)
    with Lock(run):
        # A run that is not all there any more must not look complete, and is listed as long as anything of it is.
        run.remove(SUCCESS)
        for place in run.folders():
            run.inside(place).clear()
        run.clear()
