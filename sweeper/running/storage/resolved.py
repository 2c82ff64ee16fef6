"""What a run says of itself: which study it is of, and all that its bytes depend on."""

import json
from typing import Any

from sweeper.digests import content_hash
from sweeper.errors import NoDataset
from sweeper.running.storage.folders import Folder

RESOLVED = "resolved.json"
NAMED = ("name", "hash", "points", "chunks")
"""What tells the run of a plan from those of others."""
AGAIN = "put it back, or remove that file and run the same study by the same code, which keeps what is committed"
"""What to do where it is not what it was: of changed code, a study gets another run."""


def read_resolved(run: Folder) -> dict[str, Any]:
    """Name, hash, points and chunks of the study of a run, and under `study` what was resolved of it.

    Raises NoDataset where there is no run, and where that is not what the run was begun with.
    """
    text = run.get(RESOLVED)
    if text is None:
        raise NoDataset(f"{run} is no run directory: it holds no {RESOLVED}")
    try:
        told = json.loads(text)
        found = {key: told[key] for key in (*NAMED, "study")}
    except (ValueError, KeyError, TypeError) as error:
        raise NoDataset(f"{run} holds a {RESOLVED} that cannot be read ({error!r}): {AGAIN}") from None
    if content_hash(found["study"]) != found["hash"]:
        raise NoDataset(f"{run} holds a {RESOLVED} that was changed since the run began: {AGAIN}")
    return found
