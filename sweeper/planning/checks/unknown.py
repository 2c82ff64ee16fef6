"""Objectives and constraints that nobody can know: they read a number that an entry of the library does not give."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from sweeper.engine.program import InputColumn, Program
from sweeper.engine.space import Grid
from sweeper.errors import Place, Problems, listed
from sweeper.inputs.numbers import values_of
from sweeper.planning.columns import Columns, structures
from sweeper.words.columns import role_columns
from sweeper.words.system import PLACEHOLDER, ROLES

PRICED = ("chip", "memory")
"""Roles whose entries must have a price where an objective or a constraint counts money."""
APART = ("usd", "kg")
"""In units: money matters to money only, and carbon to carbon, though an equation may write both and more."""
ADVICE = "say it in the library or the study, or ask for something else"


def unknown_goals(columns: Columns, grids: Sequence[Grid]) -> Problems:
    """What objectives and constraints read though a number of it is not known, or money of something without a
    price."""
    study = columns.study
    asked = dict.fromkeys(objective.column for objective in study.objectives)
    asked |= dict.fromkeys(name for constraint in study.constraints for name in sorted(constraint.symbols))
    problems: dict[tuple[Place, str], None] = {}
    for grid, structure in structures(grids):
        for goal in asked:
            program = columns.program(grid, structure, (goal,))
            for message in (*_unknown(grid, program, goal), *_unpriced(grid, program, goal)):
                problems[study.place(goal), f"{goal} {message}"] = None
    return Problems(place.problem(message) for place, message in problems)


def _unknown(grid: Grid, program: Program, goal: str) -> Iterator[str]:
    """Inputs that are NaN for some entry."""
    for name in sorted(program.inputs_read):
        column = program.inputs[name]
        concerns = all(kind in goal for kind in APART if kind in column.unit)
        if concerns and not column.array and len(column.needs) <= 1:
            absent = [label for label, value in by_value(grid, column).items() if np.isnan(value)]
            if absent:
                yield f"cannot be known: {listed(absent)} says nothing of {name} ({column.about}); {ADVICE}"


def _unpriced(grid: Grid, program: Program, goal: str) -> Iterator[str]:
    """Entries all of whose prices are 0, if the goal is money or per money."""
    if "usd" not in goal:
        return
    for role in PRICED:
        prices = [
            column
            for name in role_columns(role)
            if name in program.inputs_read and "usd" in (column := program.inputs[name]).unit and len(column.needs) <= 1
        ]
        by_entry = [by_value(grid, column) for column in prices]
        entries = [label for label in (by_entry[0] if by_entry else ()) if label != PLACEHOLDER]
        free = [label for label in entries if all(not by.get(label, 1.0) for by in by_entry)]
        if free:
            yield f"would count nothing for the {role} {listed(free)}, which has no price; {ADVICE}"


def by_value(grid: Grid, column: InputColumn) -> Mapping[str, float]:
    """Values of an input that depends on one column at most, by what that column says."""
    if not column.needs:
        (selector,) = [name for name in sorted(column.made_of) if name in ROLES][:1] or [column.name]
        labels = [str(value) for value in values_of(grid, selector)[:1]] if selector in ROLES else ["the study"]
        return dict(zip(labels, column.build({}, 1).tolist(), strict=False))
    (selector,) = column.needs
    given = grid.columns[selector]
    codes = np.arange(float(len(given.values)))
    values = column.build({selector: codes if isinstance(given.values[0], str) else given.numbers}, len(codes))
    return dict(zip(map(str, given.values), values.tolist(), strict=True))
