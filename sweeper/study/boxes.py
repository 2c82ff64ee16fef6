"""Boxes: products of axes, read from their drafts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sweeper.engine.space import Axis, Box, Row
from sweeper.errors import Place, Problem, Problems, SpecError, brief
from sweeper.library.table_workload import TRANSFORMER, OperatorTable
from sweeper.reading import checks
from sweeper.study.axes import Constants, axis_columns, columns_written, depends, read_axis
from sweeper.study.box_checks import (
    beyond_positions,
    check_balanced,
    check_drafts,
    check_experts,
    check_generated,
    check_joint,
    check_parameters,
    check_partitionings,
    check_priced_dies,
    check_read_with,
    check_scans,
    check_served,
    lone_samples,
)
from sweeper.study.columns import REQUIRED, Stock, about
from sweeper.study.contradictions import check_contradictions
from sweeper.study.default_calibration import DEFAULT, default_calibration
from sweeper.study.drafts import Asked, BoxDraft, WrittenAxis
from sweeper.study.implied_node import imply_nodes
from sweeper.words.columns import DEFAULTS
from sweeper.words.system import GENERATED_FROM, ROLES


@dataclass(frozen=True)
class ReadBox:
    """A box, where each of its columns is given, which of its overrides allow something in it, and remarks about what
    is no mistake."""

    box: Box
    asked: Mapping[str, Asked]
    overriding: frozenset[Place]
    remarks: tuple[Problem | None, ...] = ()


def read_box(draft: BoxDraft, stock: Stock, problems: Problems) -> ReadBox:
    """Read the axes of a box: first those that stand alone, then those that depend on their single values."""
    before = len(problems)
    owners = _owners(draft, problems)
    assumed = {name: Axis(name, (name,), ((given.value,),), False)
               for name, given in draft.assumed.items() if name not in owners}  # fmt: skip
    draft.read |= assumed
    for later in (False, True):
        constants = _constants(draft)
        for written in draft.written.values():
            # What failed before would be reported as unknown by the axes that depend on it.
            readable = not later or (draft.whole and len(problems) == before)
            if depends(written.name, written.node) == later and readable:
                with problems.collecting():
                    draft.read[written.name] = read_axis(written.name, written.node, written.searched, stock, constants)
    for column in REQUIRED:
        generated = GENERATED_FROM.get(column) in owners
        if column not in owners and draft.whole and not generated:
            problems.append(checks.absent(draft.node, column, f"{draft.title} lacks the column {column!r} "
                                          f"({about(column)}); give it under axes{_choices(column)}"))  # fmt: skip
    imply_nodes(draft, stock)
    check_partitionings(draft, owners, stock, problems)
    check_joint(draft, owners, problems)
    check_generated(draft, owners, problems)
    check_balanced(draft, owners, stock, problems)
    check_priced_dies(draft, owners, stock, problems)
    if has_tables(draft, stock):
        check_read_with(draft, owners, problems)
        check_served(draft, owners, problems)
        check_drafts(draft, owners, problems)
        check_scans(draft, owners, stock, problems)
        check_experts(draft, owners, stock, problems)
    check_parameters(draft, owners, stock, problems)
    # What could not be read would contradict by its absence.
    overriding = frozenset(check_contradictions(draft, owners, stock, problems) if len(problems) == before else ())
    axes = [draft.read[name] for name in draft.written if name in draft.read]
    axes = axes if "calibration" in owners else [with_calibration(axis, draft, stock) for axis in axes]
    box = Box((*(a for a in axes if not a.searched), *assumed.values(), *(a for a in axes if a.searched)))
    asked = {name: Asked(owner.place) for name, owner in owners.items()}
    asked |= {name: draft.assumed[name].asked for name in assumed}
    remarks: tuple[Problem | None, ...] = ()
    if len(problems) == before and has_tables(draft, stock):
        remarks = (lone_samples(draft, owners), beyond_positions(draft, owners, stock))
    return ReadBox(box, asked, overriding, remarks)


def check_apart(drafts: Sequence[BoxDraft], boxes: Sequence[Box], reduced: bool, problems: Problems) -> None:
    """A point is in one box: in two of them it would count twice in every sum and mean of the dataset. Where searches
    are `reduced` to what they find, boxes may search the same in other spaces, and each keeps its own."""
    for later, second in enumerate(boxes):
        for earlier, first in enumerate(boxes[:later]):
            if reduced and not _same_searches(first, second):
                continue
            if shared := common_point(first, second):
                differing = {column for axis in first.axes if len(axis.rows) > 1 for column in axis.columns}
                told = ", ".join(f"{name}: {brief(value)}" for name, value in shared.items() if name in differing)
                example = f", e.g. {told}" if told else ""
                message = f"{drafts[earlier].title} has points of {drafts[later].title} too{example}"
                problems.append(drafts[later].node.problem(f"{message}; leave them out of one"))
                return


def _same_searches(first: Box, second: Box) -> bool:
    """Whether two boxes search the same values."""
    ours, theirs = ([axis for axis in box.axes if axis.searched] for box in (first, second))
    return len(ours) == len(theirs) and all(axis in theirs for axis in ours)


def common_point(first: Box, second: Box) -> dict[str, float | str]:
    """A point of two boxes, what only one of them gives having its default in the other; nothing if there is none, or
    if that has no default.

    >>> chips = [Box((Axis("chip", ("chip",), rows, False),)) for rows in ((("a",), ("b",)), (("b",), ("c",)))]
    >>> common_point(*chips)
    {'chip': 'b'}
    """
    named = [{column for axis in box.axes for column in axis.columns} for box in (first, second)]
    if not (named[0] ^ named[1]) <= DEFAULTS.keys():
        return {}
    ours, theirs = (
        [*box.axes, *(Axis(name, (name,), ((DEFAULTS[name],),), False) for name in sorted(others - own))]
        for box, own, others in zip((first, second), named, reversed(named))
    )
    # Axes that both have alike share their columns with no other.
    shared = {name: value for axis in ours if axis in theirs for name, value in zip(axis.columns, axis.rows[0])}
    rest = [axis for axis in ours if axis not in theirs] + [axis for axis in theirs if axis not in ours]
    while rest:
        points = rest.pop(0)
        while linked := next((axis for axis in rest if not set(axis.columns).isdisjoint(points.columns)), None):
            rest.remove(linked)
            points = _joined(points, linked)
        if not points.rows:
            return {}
        shared |= dict(zip(points.columns, points.rows[0], strict=True))
    return shared


def _joined(points: Axis, axis: Axis) -> Axis:
    """Rows of both that agree in the columns that they share."""
    shared = [name for name in axis.columns if name in points.columns]
    further = [name for name in axis.columns if name not in shared]
    found: dict[Row, list[Row]] = {}
    for row in axis.rows:
        said = dict(zip(axis.columns, row, strict=True))
        key = tuple(said[name] for name in shared)
        found.setdefault(key, []).append(tuple(said[name] for name in further))
    places = [points.columns.index(name) for name in shared]
    rows = tuple((*row, *more) for row in points.rows for more in found.get(tuple(row[place] for place in places), ()))
    return Axis(points.name, (*points.columns, *further), rows, points.searched)


def _choices(column: str) -> str:
    """What lists the values that a column may have, as the end of a message; "" for one of numbers."""
    return f", with one of: sweeper list {ROLES[column]}" if column in ROLES else ""


def with_calibration(axis: Axis, draft: BoxDraft, stock: Stock) -> Axis:
    """An axis of chips with the default calibration of each, where a model of the box reads it; no change where all
    chips have the default of all chips."""
    if "chip" not in axis.columns or not has_tables(draft, stock):
        return axis
    at = axis.columns.index("chip")
    found = tuple(default_calibration(stock.library, str(row[at])) for row in axis.rows)
    if set(found) == {DEFAULT}:
        return axis
    rows = tuple((*row, name) for row, name in zip(axis.rows, found, strict=True))
    return replace(axis, columns=(*axis.columns, "calibration"), rows=rows)


def has_tables(draft: BoxDraft, stock: Stock) -> bool:
    """Whether a box has a model that is read as a transformer."""
    workloads = map(stock.workload, dict.fromkeys(draft.names("workload")))
    return any(isinstance(workload, OperatorTable) and workload.layout == TRANSFORMER for workload in workloads)


def _owners(draft: BoxDraft, problems: Problems) -> dict[str, WrittenAxis]:
    """Axis that gives each column of a box; a column that two axes give is a problem."""
    owners: dict[str, WrittenAxis] = {}
    for written in draft.written.values():
        with problems.collecting():
            for column in axis_columns(written.name, written.node):
                if column in owners:
                    first = owners[column]
                    message = (f"in {draft.title}, column {column!r} comes from axis {written.name!r} and from axis "
                               f"{first.name!r} (line {first.home.marks[first.name][0]}); leave one out")  # fmt: skip
                    raise SpecError([written.problem(message)])
                owners[column] = written
    return owners


def _constants(draft: BoxDraft) -> Constants:
    """Columns with a single value among the axes read so far, the defaults of the vocabulary included."""
    values = dict(DEFAULTS)
    counts: dict[str, int] = {}
    later = (axis for axis in draft.written.values() if depends(axis.name, axis.node))
    dependent = {column for axis in later for column in columns_written(axis.name, axis.node)}
    for axis in draft.read.values():
        for position, column in enumerate(axis.columns):
            distinct = {row[position] for row in axis.rows}
            counts[column] = len(distinct)
            if len(distinct) == 1:
                values[column] = distinct.pop()
    varying = {column for column, count in counts.items() if count > 1}
    return Constants({name: value for name, value in values.items() if name not in varying | dependent}, counts)
