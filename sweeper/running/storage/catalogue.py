"""Which runs lie in a folder, how far each is, and which may go."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.errors import NoDataset
from sweeper.running.storage.folders import Folder
from sweeper.running.storage.listing import read_receipts
from sweeper.running.storage.lock import Lock
from sweeper.running.storage.places import folder
from sweeper.running.storage.resolved import RESOLVED, read_resolved
from sweeper.running.storage.store import MANIFEST, SUCCESS

COMPLETE, UNFINISHED, DAMAGED = "complete", "unfinished", "damaged"


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
    """The runs of a folder, the latest first; no dataset is opened."""
    place = folder(where)
    found = (_entry(place.inside(name)) for name in place.folders())
    return sorted((entry for entry in found if entry is not None), key=lambda entry: (-entry.changed, entry.run))


def _entry(run: Folder) -> RunEntry | None:
    files = run.entries("")
    if RESOLVED not in files:
        return None
    changed = max(file.modified for file in files.values())
    nothing: dict[str, Any] = {"points": 0, "rows": None, "feasible_rows": None, "bytes": 0, "changed": changed}
    try:
        resolved = read_resolved(run)
        text = json.dumps(resolved["study"].get("code"), sort_keys=True)
        code = hashlib.sha256(text.encode()).hexdigest()[:8]
        known = {"study": resolved["name"], "code": code, "of": of_what(resolved)}
        if SUCCESS in files:
            told = json.loads(run.get(MANIFEST) or b"")
            size = {"points": told["points"], "rows": told["rows"], "feasible_rows": told["feasible"]}
            return RunEntry(run.name, state=COMPLETE, bytes=told["bytes"], changed=changed, **known, **size)
    except (ValueError, KeyError, TypeError, AttributeError, NoDataset):
        # Its name tells of which study it is.
        return RunEntry(run.name, study=run.name.rpartition("-")[0], code="", state=DAMAGED, **nothing)
    receipts = [receipt for receipt in read_receipts(run).values() if receipt.piece_of is None]
    done = {"points": sum(each.points for each in receipts), "bytes": sum(each.bytes for each in receipts)}
    changed = max([changed, *(each.at for each in receipts)])
    return RunEntry(run.name, state=UNFINISHED, **known, **{**nothing, **done, "changed": changed})


def disposable(entries: Iterable[RunEntry], before: float | None = None, keep: int | None = None) -> Iterator[RunEntry]:
    """Of a catalogue, the runs last changed before a time, and those beyond the latest `keep` of their study, of which
    those of varied numbers count by themselves. Those that are not complete do not count: they stay or go with the
    complete one before them."""
    seen: defaultdict[tuple[str, str], int] = defaultdict(int)
    for entry in sorted(entries, key=lambda entry: -entry.changed):
        kept = keep is None or seen[entry.study, entry.of] < keep
        seen[entry.study, entry.of] += entry.state == COMPLETE
        if (before is not None and entry.changed < before) or not kept:
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
