"""Boxes: products of axes, read from their drafts."""

from sweeper.engine.space import Axis, Box
from sweeper.errors import Problems, SpecError
from sweeper.reading import checks
from sweeper.study.axes import Constants, axis_columns, depends, read_axis
from sweeper.study.box_checks import check_generated, check_joint, check_parameters, check_partitionings
from sweeper.study.columns import REQUIRED, Stock, about
from sweeper.study.drafts import BoxDraft, WrittenAxis
from sweeper.words.columns import DEFAULTS
from sweeper.words.system import GENERATED_FROM


def read_box(draft: BoxDraft, stock: Stock, problems: Problems) -> Box:
    """Read the axes of a box: first those that stand alone, then those that depend on their single values."""
    before = len(problems)
    owners = _owners(draft, problems)
    assumed = {name: Axis(name, (name,), ((value,),), False)
               for name, value in draft.assumed.items() if name not in owners}  # fmt: skip
    draft.read |= assumed
    for later in (False, True):
        constants = _constants(draft)
        for written in draft.written.values():
            # What failed before would be reported as unknown by the axes that depend on it.
            if depends(written.node) == later and (not later or (draft.whole and len(problems) == before)):
                with problems.collecting():
                    draft.read[written.name] = read_axis(written.name, written.node, written.searched, stock, constants)
    for column in REQUIRED:
        generated = GENERATED_FROM.get(column) in owners
        if column not in owners and draft.whole and not generated:
            problems.append(checks.absent(draft.node, column, f"{draft.title} lacks the column {column!r} "
                                          f"({about(column)}); give it under axes"))  # fmt: skip
    check_partitionings(draft, owners, stock, problems)
    check_joint(draft, owners, problems)
    check_generated(draft, owners, problems)
    check_parameters(draft, owners, stock, problems)
    axes = [draft.read[name] for name in draft.written if name in draft.read]
    return Box((*(a for a in axes if not a.searched), *assumed.values(), *(a for a in axes if a.searched)))


def _owners(draft: BoxDraft, problems: Problems) -> dict[str, WrittenAxis]:
    """Axis that gives each column of a box; a column that two axes give is a problem."""
    owners: dict[str, WrittenAxis] = {}
    for written in draft.written.values():
        with problems.collecting():
            for column in axis_columns(written.name, written.node):
                if column in owners:
                    first = owners[column]
                    message = (f"in {draft.title}, column {column!r} comes from axis {written.name!r} and from axis "
                               f"{first.name!r} (line {first.home.marks[first.name][0]})")  # fmt: skip
                    raise SpecError([written.problem(message)])
                owners[column] = written
    return owners


def _constants(draft: BoxDraft) -> Constants:
    """Columns with a single value among the axes read so far, the defaults of the vocabulary included."""
    values = dict(DEFAULTS)
    counts: dict[str, int] = {}
    dependent = {column for axis in draft.written.values() if depends(axis.node) for column in _columns(axis)}
    for axis in draft.read.values():
        for position, column in enumerate(axis.columns):
            distinct = {row[position] for row in axis.rows}
            counts[column] = len(distinct)
            if len(distinct) == 1:
                values[column] = distinct.pop()
    varying = {column for column, count in counts.items() if count > 1}
    return Constants({name: value for name, value in values.items() if name not in varying | dependent}, counts)


def _columns(written: WrittenAxis) -> tuple[str, ...]:
    try:
        return axis_columns(written.name, written.node)
    except SpecError:
        return ()
