"""Runs of tables that a test gives, committed as a run commits them."""

import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from sweeper.digests import content_hash
from sweeper.running.storage import store
from sweeper.running.storage.folders import LocalFolder
from sweeper.running.storage.store import Receipt, ReceiptLog


def commit(directory: Path, tables: Sequence[pa.Table], unfinished: bool = False) -> Path:
    """Commit tables as the parts of a run in a directory; one that is unfinished lacks a chunk more."""
    place, points = LocalFolder(directory), sum(table.num_rows for table in tables)
    plan: Any = SimpleNamespace(
        name="toy", hash=content_hash({}), point_count=points, chunk_count=len(tables) + unfinished, resolved={}
    )
    store.claim(place, plan)
    log, receipts = ReceiptLog(place), {}
    for chunk, table in enumerate(tables):
        file, size, digest = store.write_part(place, chunk, store.encode(table, "toy", table.schema, {}))
        rows = table.num_rows
        receipts[chunk] = Receipt(
            chunk, file, rows, rows, None, {}, size, digest, seconds=0.0, host="", pid=0, peak_B=0, at=time.time()
        )
        log.add(receipts[chunk])
    log.flush()
    if not unfinished:
        store.complete(place, plan, receipts)
    return directory
