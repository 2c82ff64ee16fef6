"""What keeping results costs: encoding, writing and syncing Parquet parts, next to evaluating their rows."""

import time
from pathlib import Path

from benchmarks.studies import dense, points_of, spread
from benchmarks.table import Row
from sweeper.planning.plan import Plan
from sweeper.running.storage.places import folder
from sweeper.running.storage.store import encode, run_name, write_part

BEST_POINTS = 5e6


def measure(directory: Path, quick: bool) -> list[Row]:
    """A study that keeps a million points, and one that keeps the best of each search."""
    axis = 2 if quick else 3
    every = dense(directory, axis, axis, "all")
    best = dense(directory, 16, 16, "best")
    return [
        *_cost(directory, every, list(range(1 if quick else every.chunk_count))),
        *_cost(directory, best, [0] if quick else spread(best, BEST_POINTS)),
    ]


def _cost(directory: Path, plan: Plan, chunks: list[int]) -> list[Row]:
    mode = plan.study.output.mode
    run = folder(directory / f"storage_{mode}")
    plan.evaluate(chunks[0])
    schema = plan.schema
    evaluating = encoding = writing = 0.0
    rows = size = 0
    for chunk in chunks:
        started = time.process_time()
        table = plan.evaluate(chunk)
        evaluated, wall = time.process_time(), time.perf_counter()
        _, part, _ = write_part(run, chunk, encode(table, run_name(plan), schema, plan.encoding))
        evaluating += evaluated - started
        encoding += time.process_time() - evaluated
        writing += time.perf_counter() - wall
        rows += table.num_rows
        size += part
    points = points_of(plan, chunks)
    each = 1e6 / rows
    what = f"mode {mode}"
    scale = (
        f"{points:,} points, {rows:,} rows of {len(schema)} columns in {len(chunks)} parts, {size / rows:.1f} B per row"
    )
    return [
        Row(f"{what}: evaluating a row", each * evaluating, "us CPU", note=scale),
        Row(f"{what}: writing a row", each * encoding, "us CPU", note="encode, compress, checksum, put"),
        Row(f"{what}: writing a row, with the wait for fsync", each * writing, "us wall"),
        Row(f"{what}: writing / evaluating", encoding / evaluating, "x CPU"),
    ]
