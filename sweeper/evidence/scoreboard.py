"""The scoreboard: measured rows evaluated by the same engine as studies, and errors per set."""

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sweeper.errors import UsageFault
from sweeper.evidence.baselines.efficiency import BASELINES, compared, with_baselines
from sweeper.evidence.baselines.ideals import columns_for, ideal_of
from sweeper.evidence.baselines.neighbours import spread
from sweeper.evidence.calibration import calibrations_by_stack, constants_of
from sweeper.evidence.measured import LAYOUTS, check_columns, measured_point, readings_of, rows_about
from sweeper.evidence.measured_rows import MeasuredPoint, MeasuredRow, Refusal, Unmodelled, read_rows
from sweeper.evidence.predictions import OtherConstants, evaluate_settled, settle
from sweeper.evidence.registry import lent, registry
from sweeper.evidence.statistics import Scored, coverage, error_statistics, scored_rows, statistics
from sweeper.files import whole
from sweeper.library.library import builtin_specs


def score(
    rows: Sequence[MeasuredRow], layout: str, constants: OtherConstants | None = None, table: str = ""
) -> list[Scored]:
    """Every row of a table of some layout, in order; rows that cannot be modelled carry the reason.

    `table` is the file that they are from; rows of one of ours may have been fitted to.
    """
    known = registry()
    ours = [entry for entry in known["tables"] if entry["file"] == table]
    calculated = any(entry.get("calculated") for entry in ours)  # no measurement: nothing is learned from it
    title = f"{table} ({layout})"
    points = [measured_point(row, layout, known) for row in rows]
    settled = settle([point for point in points if isinstance(point, MeasuredPoint)], constants or {})
    answers = zip(settled, evaluate_settled(settled, constants or {}, columns_for), strict=True)
    stacks, lent_to = calibrations_by_stack() if ours else {}, lent(known)
    scored = []
    for row, given in zip(rows, points, strict=True):
        if isinstance(given, Unmodelled):
            group, reason = row.get(LAYOUTS[layout].refused, "") or layout, str(given)
            scored.append(Scored(row, group, math.nan, math.nan, None, None, reason, given.kind, title))
            continue
        point, answer = next(answers)
        finite = math.isfinite(answer.value) and answer.value > 0.0
        stack = str(point.columns.get("calibration", ""))
        scored.append(
            Scored(
                row,
                point.group,
                point.measured,
                answer.value,
                point.feasible,
                answer.fits,
                "" if finite else "the model gives no finite number",
                None if finite else Refusal.NO_NUMBER,
                title,
                stack,
                tuple(c.name for c in stacks.get(stack, []) if c.has_seen(table, layout, row, point)),
                None if calculated else ideal_of(point, answer.others),
                lent=(stack, str(point.columns["chip"])) in lent_to,
            )
        )
    return scored


def by_group(scored: Sequence[Scored]) -> dict[str, list[Scored]]:
    """Rows by their group, in the order of the table."""
    groups: dict[str, list[Scored]] = {}
    for s in scored:
        groups.setdefault(s.group, []).append(s)
    return groups


def by_set(scored: Sequence[Scored]) -> dict[str, list[Scored]]:
    """Rows by their set, in the order of the registry: of the groups that it names, or whose names begin as it says; a
    group that is in no set is one by itself."""
    groups = by_group(scored)
    sets = {
        entry["name"]: [s for name in groups_of(entry, groups) for s in groups.pop(name, [])]
        for entry in registry()["sets"]
    }
    return {name: rows for name, rows in sets.items() if rows} | groups


def groups_of(entry: Mapping[str, Any], groups: Iterable[str]) -> list[str]:
    """Which of some groups a set of the registry holds."""
    found = [*groups]
    begin = [name for name in found if "begin" in entry and name.startswith(entry["begin"])]
    return [name for name in entry.get("groups", []) if name in found] + begin


def bundled() -> list[Scored]:
    """Every row of the bundled tables."""
    folder = builtin_specs() / "measurements"
    tables = [(table["file"], table["layout"]) for table in registry()["tables"]]
    rows = ((file, layout, rows_about(read_rows(folder / file), layout)) for file, layout in tables)
    return with_baselines([s for file, layout, about in rows for s in score(about, layout, table=file)])


def scored_files(paths: Iterable[Path]) -> list[Scored]:
    """Every row of somebody's tables, without what was said of it before (`SAID`). Raises UsageFault for a table
    that is given twice, without rows or without a known layout, and SpecError for columns that nobody knows."""
    scored: list[Scored] = []
    given: dict[Path, Path] = {}
    for path in paths:
        rows = [{name: cell for name, cell in row.items() if name not in SAID} for row in read_rows(path)]
        if not rows:
            raise UsageFault(f"{path}: no rows")
        whole = path.resolve()
        if whole in given:
            raise UsageFault(f"{path}: given twice, its rows would count twice; it is the file {given[whole]}")
        given[whole] = path
        ours = whole.parent == (builtin_specs() / "measurements").resolve()
        layouts = readings_of(rows, path)
        check_columns(path, layouts[0], beside=SAID)
        for layout in layouts:
            scored += score(rows_about(rows, layout), layout, table=path.name if ours else str(whole))
    return with_baselines(scored)


def scoreboard(scored: Sequence[Scored]) -> dict[str, Any]:
    """Everything that is said of scored rows: of every set, with its target and what others report on it; of the groups
    of sets that are many of a kind; of every table; refusals by kind; and the constants of the stacks that answered."""
    known = {entry["name"]: entry for entry in registry()["sets"]}
    sets = {
        name: statistics(rows)
        | compared(rows)
        | {"readings": {group: found for group, alike in by_group(rows).items() if (found := spread(alike))}}
        | {"target": known.get(name, {}).get("target", ""), "peers": known.get(name, {}).get("peers", [])}
        for name, rows in by_set(scored).items()
    }
    answers = [s for s in scored if s.calibration and not s.refusal]
    stacks, lent = Counter(s.calibration for s in answers), Counter(s.calibration for s in answers if s.lent)
    return {
        "sets": sets,
        "parts": {
            group: {"rows": len(alike), **error_statistics(np.array([s.error for s in alike]))}
            for name, rows in by_set(scored).items()
            if "begin" in known.get(name, {})
            for group, alike in sorted(by_group(scored_rows(rows)).items())
        },
        "tables": {name: coverage(rows) for name, rows in by_table(scored).items()},
        "refused": dict(Counter(str(s.refusal) for s in scored if s.reason).most_common()),
        "calibrations": {
            name: {"rows": count, "lent": lent[name], **constants_of(name)} for name, count in stacks.items()
        },
    }


def score_files(*paths: str | Path) -> dict[str, Any]:
    """What is said of measurements, somebody's or, without a path, all of ours: of each set, table and stack.

    Raises UsageFault for a file without rows or without a known layout.

    >>> board = score_files(builtin_specs() / "measurements" / "measured_moe_flash.csv")
    >>> sorted(board)
    ['calibrations', 'parts', 'refused', 'sets', 'tables']
    """
    return scoreboard(scored_files(map(Path, paths)) if paths else bundled())


def by_table(scored: Sequence[Scored]) -> dict[str, list[Scored]]:
    """Rows by the file that they are from and how it was read."""
    tables: dict[str, list[Scored]] = {}
    for s in scored:
        tables.setdefault(s.table, []).append(s)
    return tables


def write_predictions(path: Path, scored: Sequence[Scored]) -> None:
    """A CSV file with the columns of the rows, in their order, and what is said of each row (`SAID`)."""
    columns = list(dict.fromkeys(name for s in scored for name in s.row))
    with whole(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, *SAID])
        for s in scored:
            writer.writerow([*(s.row.get(name, "") for name in columns), *(say(s) for say in SAID.values())])


def said(value: float | None) -> str:
    """A number as it is written; nothing where there is none."""
    return repr(value) if value is not None and math.isfinite(value) else ""


def baseline(name: str, scored: Scored) -> str:
    """What a baseline says of a row."""
    return said(scored.baselines.get(name))


SAID: Mapping[str, Callable[[Scored], str]] = {
    "predicted": lambda s: "" if s.reason else said(s.predicted),
    "error": lambda s: "" if s.reason else said(s.error),
    "reason": lambda s: s.reason,
    "refusal": lambda s: str(s.refusal or ""),
    "misfit": lambda s: "yes" if s.misfit else "",
    "inferred": lambda s: "yes" if s.inferred else "",
    "calibration": lambda s: s.calibration,
    "lent": lambda s: "yes" if s.lent else "",
    "fitted_in": lambda s: "; ".join(s.fitted_in),
    **{name: partial(baseline, name) for name in BASELINES},
}
"""What is said of a row beside its own columns; the baselines by their names."""
