"""Objectives and constraints that nobody can know: they read a number that an entry of the library does not give."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from sweeper.engine.program import InputColumn, Program
from sweeper.engine.space import Grid
from sweeper.errors import Place, Problems, listed
from sweeper.inputs.numbers import values_of
from sweeper.library.library import Library
from sweeper.planning.columns import Columns, structures
from sweeper.words.columns import role_columns
from sweeper.words.system import PLACEHOLDER, ROLES

PRICED = ("chip", "memory")
"""Roles whose entries must have a price where an objective or a constraint counts money."""
CONCERNS = {
    "usd": ("usd",),
    "kg": ("kg",),
    "J": ("_J", "_W", "energy", "power", "counted_tokens", "training_run", "usd", "kg"),
}
"""What of a unit matters to which goals, by a part of their names, though an equation may write others besides."""
ONE_IS_ENOUGH = ("memory_price_usd_per_Bps", "memory_price_usd_per_B")
"""Numbers of which one may be unknown."""
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
            uncounted = _uncounted(grid, study.library)
            for message in (*_unknown(grid, program, goal, uncounted), *_unpriced(grid, program, goal)):
                problems[study.place(goal), f"{goal} {message}"] = None
    return Problems(place.problem(message) for place, message in problems)


def _unknown(grid: Grid, program: Program, goal: str, uncounted: tuple[str, ...]) -> Iterator[str]:
    """Entries some of whose numbers are NaN that the goal depends on."""
    lacking: dict[str, list[str]] = {}
    for name in sorted(program.inputs_read):
        column = program.inputs[name]
        of_goal = all(any(part in goal for part in parts) for kind, parts in CONCERNS.items() if kind in column.unit)
        if of_goal and not column.array and len(column.needs) <= 1 and not name.startswith(uncounted):
            others = _instead(name)
            if not all(other in program.inputs for other in others):
                continue  # It is computed, from what is asked itself.
            instead = [by_value(grid, program.inputs[other]) for other in others]
            for label, value in by_value(grid, column).items():
                if np.isnan(value) and all(np.isnan(_at(other, label)) for other in instead):
                    lacking.setdefault(label, []).append(f"{name} ({column.about})")
    for label, names in lacking.items():
        yield f"cannot be known: {label} says nothing of {', '.join(names)}; {ADVICE}"


def _instead(name: str) -> tuple[str, ...]:
    """Numbers that do in the place of one that is not known."""
    return tuple(other for other in ONE_IS_ENOUGH if other != name) if name in ONE_IS_ENOUGH else ()


def _at(values: Mapping[str, float], label: str) -> float:
    """A number of an entry; of one that the study gives apart from entries, the least."""
    return values[label] if label in values else min(values.values())


def _uncounted(grid: Grid, library: Library) -> tuple[str, ...]:
    """Beginnings of columns of what a box has none of: links of one chip, ports of four, other dimensions."""
    chips = max(float(value) for value in values_of(grid, "chips"))
    flat = all(len(library.find("topology", str(name)).dimensions) == 1 for name in values_of(grid, "topology"))
    rules = (
        (chips <= 1.0, ("link_", "outer_link_")),
        (chips <= 4.0, ("link_switch_price", "outer_link_switch_price")),
        (flat, ("outer_link_",)),
    )
    return tuple(beginning for holds, beginnings in rules if holds for beginning in beginnings)


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
    """Values of an input, by what the columns say on which it depends."""
    if not column.needs:
        (selector,) = [name for name in sorted(column.made_of) if name in ROLES][:1] or [column.name]
        labels = [str(value) for value in values_of(grid, selector)[:1]] if selector in ROLES else ["the study"]
        return dict(zip(labels, column.build({}, 1).tolist(), strict=False))
    given = {name: grid.columns[name] for name in sorted(column.needs)}
    each = [np.arange(float(len(g.values))) if isinstance(g.values[0], str) else g.numbers for g in given.values()]
    every = [part.reshape(-1) for part in np.meshgrid(*each, indexing="ij")]
    values = column.build(dict(zip(given, every, strict=True)), len(every[0]))
    told = (", ".join(map(str, said)) for said in product(*(g.values for g in given.values())))
    return dict(zip(told, values.tolist(), strict=True))
