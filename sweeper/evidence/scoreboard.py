"""The scoreboard: measured rows evaluated by the same engine as studies, and errors per set."""

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sweeper.errors import UsageFault
from sweeper.evidence.measured import LAYOUTS, layout_of, measured_point
from sweeper.evidence.measured_rows import MeasuredPoint, MeasuredRow, read_rows
from sweeper.evidence.predictions import OtherConstants, evaluate
from sweeper.evidence.registry import registry
from sweeper.evidence.statistics import Scored, statistics
from sweeper.library.library import builtin_specs


def score(rows: Sequence[MeasuredRow], layout: str, constants: OtherConstants | None = None) -> list[Scored]:
    """Every row of a table of some layout, in order; rows that cannot be modelled carry the reason."""
    known = registry()
    points = [measured_point(row, layout, known) for row in rows]
    modelled = [point for point in points if isinstance(point, MeasuredPoint)]
    answers = iter(evaluate(modelled, constants or {}))
    scored = []
    for row, point in zip(rows, points, strict=True):
        if isinstance(point, str):
            name = row.get(LAYOUTS[layout].refused, "") or layout
            scored.append(Scored(row, name, math.nan, math.nan, None, None, point))
            continue
        predicted, fits = next(answers)
        reason = "" if math.isfinite(predicted) and predicted > 0.0 else "the model gives no finite number"
        scored.append(Scored(row, point.group, point.measured, predicted, point.feasible, fits, reason))
    return scored


def by_group(scored: Sequence[Scored]) -> dict[str, list[Scored]]:
    """Rows by their group, in the order of the table."""
    groups: dict[str, list[Scored]] = {}
    for s in scored:
        groups.setdefault(s.group, []).append(s)
    return groups


def by_set(scored: Sequence[Scored]) -> dict[str, list[Scored]]:
    """Rows by their set, in the order of the registry; a group that is in no set is one by itself."""
    groups = by_group(scored)
    sets = {
        entry["name"]: [s for name in entry["groups"] for s in groups.pop(name, [])] for entry in registry()["sets"]
    }
    return {name: rows for name, rows in sets.items() if rows} | groups


def bundled() -> list[Scored]:
    """Every row of the bundled tables."""
    folder = builtin_specs() / "measurements"
    return [s for table in registry()["tables"] for s in score(read_rows(folder / table["file"]), table["layout"])]


def scored_files(paths: Iterable[Path]) -> list[Scored]:
    """Every row of somebody's tables. Raises UsageFault for one without rows or without a known layout."""
    scored: list[Scored] = []
    for path in paths:
        rows = read_rows(path)
        if not rows:
            raise UsageFault(f"{path}: no rows")
        scored += score(rows, layout_of(rows, path))
    return scored


def scoreboard(scored: Sequence[Scored]) -> dict[str, dict[str, Any]]:
    """Statistics of every set, with its target and what others report on it."""
    known = {entry["name"]: entry for entry in registry()["sets"]}
    return {
        name: statistics(rows)
        | {"target": known.get(name, {}).get("target", ""), "peers": known.get(name, {}).get("peers", [])}
        for name, rows in by_set(scored).items()
    }


def write_predictions(path: Path, scored: Sequence[Scored]) -> None:
    """A CSV file with the columns of the rows, and `predicted`, `error` (relative) and `reason`; in their order."""
    columns = list(dict.fromkeys(name for s in scored for name in s.row))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, "predicted", "error", "reason"])
        for s in scored:
            error = repr(s.error) if math.isfinite(s.error) else ""
            answer = ["", ""] if s.reason else [repr(s.predicted), error]
            writer.writerow([*(s.row.get(name, "") for name in columns), *answer, s.reason])
