"""Columns that a study asks for and nothing writes: what it lacks, or who has them."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sweeper.engine.program import UnknownColumn
from sweeper.engine.space import Grid
from sweeper.errors import Problem
from sweeper.inputs.packages import PACKAGE_TABLES
from sweeper.kernels.models import EQUATIONS
from sweeper.kernels.shared.demand import UnitModel
from sweeper.study.drafts import Asked
from sweeper.study.study import Study
from sweeper.words.columns import role_columns


class Lack(NamedTuple):
    """A role that a choice of a switch needs: what columns come from it, and what to say where it is empty."""

    role: str
    switch: str
    of: Callable[[str], bool]
    message: str


LACKS = (
    Lack(
        "package",
        "chip_cost",
        PACKAGE_TABLES.__contains__,
        "costs of packages need a package; add an axis such as package: a100",
    ),
    Lack(
        "fabric",
        "unit_placement",
        role_columns("fabric").__contains__,
        "partitions are placed on a fabric; add an axis such as fabric: sn10_like",
    ),
    Lack(
        "unit_model",
        "unit_placement",
        [f"unit_model_{part}" for part in UnitModel._fields].__contains__,
        "what is learned is a unit model; add an axis such as unit_model: dataflow_units",
    ),
)


def absent_column(
    study: Study, grid: Grid, asked: Mapping[str, Asked], structure: Mapping[str, str], error: UnknownColumn
) -> Problem:
    """What is wrong where a box asks for a column, for its own sake or for what reads it, that no equation writes."""
    for lack in LACKS:
        if lack.of(error.column) and lack.role not in grid.columns:
            switch = asked.get(lack.switch)
            place = switch.place if switch else study.place(error.wanted)
            return place.problem(lack.message)
    return study.place(error.wanted).problem(_elsewhere(error.column, structure) or str(error))


def _elsewhere(column: str, structure: Mapping[str, str]) -> str:
    """What is said of a column that other workloads, tasks or choices have; nothing if none has."""
    if not any(column == output.name for equation in EQUATIONS for output in equation.outputs):
        return ""
    here = ", ".join(f"{name} {structure[name]}" for name in ("workload", "task") if name in structure)
    return f"'{column}' is a column of other workloads, tasks or choices: nothing tells it of {here}"
