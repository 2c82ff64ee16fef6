"""What of a run is committed, and whether it is still what was committed: the way in for all that read a run.

The list of parts is the manifest of a complete run, for which `_SUCCESS` vouches, and the latest receipts of an
unfinished one. A part that is missing, has another size or another content, and a file that is not on the list, are
told by name and nothing is read.

A content is taken for unchanged if the part was last changed before the list was written. A directory tells this by
the time that nobody can set back (ctime), an object store by that of its own clock; whatever is younger, as in a copied
directory, is read and its checksum compared. `verify` does so for all.
"""

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from sweeper.errors import NoDataset, OutputConflict, listed
from sweeper.running.plans import RunnablePlan
from sweeper.running.storage.folders import Folder, StoredFile
from sweeper.running.storage.lock import FILE
from sweeper.running.storage.places import folder
from sweeper.running.storage.resolved import RESOLVED, read_resolved
from sweeper.running.storage.store import (
    DATA,
    FAILURES,
    MANIFEST,
    PIECES,
    RECEIPTS,
    SUCCESS,
    Part,
    Receipt,
    assert_own,
    feasible_in,
    marker_bytes,
    part_name,
)


def read_receipts(run: Folder) -> dict[int, Receipt]:
    """The latest receipt of every chunk; lines that cannot be read are left out."""
    receipts: dict[int, Receipt] = {}
    for name in sorted(run.entries(RECEIPTS)):
        for line in (run.get(f"{RECEIPTS}/{name}") or b"").splitlines():
            try:
                receipt = Receipt(**json.loads(line))
            except (ValueError, TypeError):
                continue
            receipts[receipt.chunk] = receipt
    return receipts


def open_pieces(receipts: Mapping[int, Receipt]) -> list[Receipt]:
    """Receipts of pieces whose chunk has none yet."""
    return [each for each in receipts.values() if each.piece_of is not None and each.piece_of not in receipts]


def intact(run: Folder, plan: RunnablePlan, verify: bool = False) -> dict[int, Receipt]:
    """Receipts whose part or piece is there as it was committed; every other one has to be computed.

    Raises OutputConflict if the data folder holds files that are no parts of this plan, as other tools would read them
    along with the dataset.
    """
    entries = run.entries(DATA)
    strays = _strays(entries, plan.chunk_count)
    if strays:
        raise OutputConflict(f"{run}/{DATA} holds {strays[0]!r}, which is no part of this study; remove it")
    places = {DATA: entries, PIECES: run.entries(PIECES)}
    return {
        chunk: receipt
        for chunk, receipt in {**_vouched(run), **read_receipts(run)}.items()
        if not _fault(run, receipt, places[DATA if receipt.piece_of is None else PIECES], receipt.at, verify)
    }


def _vouched(run: Folder) -> dict[int, Receipt]:
    """Parts for which the marker of a run vouches, as receipts of its time, which do not tell how they were made."""
    success = run.entries("").get(SUCCESS)
    if success is None:
        return {}
    try:
        known = _manifest(run)
    except NoDataset:
        return {}
    at = success.modified
    return {part.chunk: Receipt(**vars(part), seconds=0.0, host="", pid=0, peak_B=0, at=at) for part in known}


def complete_parts(run: Folder, plan: RunnablePlan, verify: bool = False) -> Sequence[Part]:
    """Parts of a run of a plan that is complete, as it was committed, and in use by nobody; of any other run nothing.

    It needs no lock: who writes a run takes the marker away before anything else, and removes the lock last.
    """
    if {SUCCESS, FILE} & run.entries("").keys() != {SUCCESS}:
        return ()
    try:
        assert_own(run, plan)
        return parts(run, verify=verify)
    except (NoDataset, OutputConflict):  # Told, if it cannot be mended, by who holds the lock.
        return ()


def lost(run: Folder, known: Iterable[Part]) -> list[str]:
    """What of a run is not there any more, or has another size than was committed, in words; no content is read.

    What a listing lacks is opened, too: on network file systems, one may be of a while ago."""
    entries = run.entries(DATA)
    faults = ((part, _fault(run, part, entries, math.inf, verify=False)) for part in known)
    head = [] if RESOLVED in run.entries("") else [f"{RESOLVED} is missing"]
    return head + [f"{part.file} {fault}" for part, fault in faults if fault and not _is_whole(run, part)]


def _is_whole(run: Folder, part: Part) -> bool:
    """Whether a part can be opened and has the size that was committed."""
    try:
        with run.open(part.file) as file:
            return bool(file.seek(0, os.SEEK_END) == part.bytes)
    except FileNotFoundError:
        return False


def parts(where: str | Path | Folder, partial: bool = False, verify: bool = False) -> Sequence[Part]:
    """Committed parts of a run in the order of their chunks, each as it was committed.

    `where` is a run directory or its URI; `partial` takes a run that is unfinished, too. Raises NoDataset for one that
    is not there or unfinished, and names the files that differ from what was committed.
    """
    run = folder(where)
    top = run.entries("")
    success = top.get(SUCCESS)
    head = read_resolved(run)
    if success is None and not partial:
        raise NoDataset(
            f"{run} has no {SUCCESS}: the run is unfinished; resume it, or read what is committed with "
            "partial=True (--partial)"
        )
    if success is not None:
        known: Sequence[Part] = _manifest(run)
        entries = run.entries(DATA)
        since = dict.fromkeys((part.file for part in known), success.modified)
        strays = sorted(entries.keys() - {Path(part.file).name for part in known})
    else:
        receipts = read_receipts(run)
        entries = run.entries(DATA)  # After the receipts: a run that goes on commits parts meanwhile.
        known = [receipts[chunk] for chunk in sorted(receipts) if receipts[chunk].piece_of is None]
        since = {receipt.file: receipt.at for receipt in receipts.values()}
        strays = _strays(entries, head["chunks"])
    _refuse(run, [f"{DATA}/{name} is no part of the dataset: remove it" for name in strays])
    if not known:
        raise NoDataset(f"{run} holds no committed part yet")
    _refuse(run, list(_faults(run, known, entries, since, verify)))
    return known


def status(directory: str | Path | Folder, verify: bool = False) -> dict[str, Any]:
    """How far a run is: counts of chunks, points and rows, failures, and whether it is complete.

    Raises OutputConflict if there is no run in the directory, and NoDataset if files differ from what was committed.
    """
    run = folder(directory)
    head = _head(run)
    try:
        failed = len(json.loads(run.get(FAILURES) or b"[]"))
    except (ValueError, TypeError) as error:
        raise OutputConflict(f"{run} holds a {FAILURES} that cannot be read ({error!r})") from None
    receipts = read_receipts(run)
    complete = run.get(SUCCESS) is not None
    pieces = [] if complete else open_pieces(receipts)
    any_part = complete or any(receipt.piece_of is None for receipt in receipts.values())
    known = parts(run, partial=True, verify=verify) if any_part else []
    return {
        "name": head["name"],
        "hash": head["hash"],
        "complete": complete,
        "chunks": head["chunks"],
        "committed_chunks": len(known),
        "committed_pieces": len(pieces),
        "failed_chunks": failed,
        "points": head["points"],
        "committed_points": sum(part.points for part in [*known, *pieces]),
        "rows": sum(part.rows for part in known),
        "feasible_rows": feasible_in(known),
        "bytes": sum(part.bytes for part in known),
        "worker_seconds": round(sum(receipt.seconds for receipt in receipts.values()), 1),
        "worker_peak_B": max((receipt.peak_B for receipt in receipts.values()), default=0),
    }


def _head(run: Folder) -> dict[str, Any]:
    """Name, hash, chunks and points of the study of a run. Raises OutputConflict where there is no run."""
    try:
        return read_resolved(run)
    except NoDataset as error:
        raise OutputConflict(str(error)) from None


def _manifest(run: Folder) -> list[Part]:
    """Parts of a complete run. Raises NoDataset unless the manifest is the one that the marker vouches for."""
    text = run.get(MANIFEST) or b""
    try:
        if marker_bytes(text) != run.get(SUCCESS):
            raise ValueError("checksum or counts differ")
        names = [field.name for field in fields(Part)]
        return [Part(**{name: part[name] for name in names}) for part in json.loads(text)["parts"]]
    except (ValueError, KeyError, TypeError) as error:
        what = f"the {MANIFEST} does not belong to the {SUCCESS} ({error}); {_AGAIN}"
        raise NoDataset(f"{run}: {what}") from None


_AGAIN = "run the study again to restore what is lost"


def _refuse(run: Folder, faults: Sequence[str]) -> None:
    """Raise NoDataset if there are any."""
    if faults:
        raise NoDataset(f"{run} is not as it was committed: {listed(faults)}")


def _strays(entries: Mapping[str, StoredFile], chunks: int) -> list[str]:
    """Files of a data folder that cannot be parts of a study of so many chunks."""

    def is_part(name: str) -> bool:
        digits = name.removeprefix("part-").removesuffix(".parquet")
        return digits.isdecimal() and int(digits) < chunks and name == part_name(int(digits))

    return sorted(name for name in entries if not is_part(name))


def _faults(
    run: Folder, known: Sequence[Part], entries: Mapping[str, StoredFile], since: Mapping[str, float], verify: bool
) -> Iterator[str]:
    """What is wrong with parts, each with its name."""
    for part in known:
        fault = _fault(run, part, entries, since[part.file], verify)
        if fault:
            yield f"{part.file} {fault} ({_AGAIN})"


def _fault(run: Folder, part: Part, entries: Mapping[str, StoredFile], since: float, verify: bool) -> str:
    """What is wrong with a part that was listed at a time; nothing if it is as it was committed."""
    entry = entries.get(part_name(part.chunk))
    if entry is None:
        return "is missing"
    if entry.size != part.bytes:
        return f"has {entry.size:,} bytes instead of {part.bytes:,}"
    young = entry.modified >= since
    return "has another content" if (verify or young) and run.sha256(part.file) != part.sha256 else ""
