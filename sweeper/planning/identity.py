"""What the bytes of a dataset depend on: the study, the library values and equations it uses, and how it is evaluated.

Pictures, the command line and comments are not among it: they may change and finished runs stay valid, as they do when
the equations of another family change.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from sweeper.engine.compilation.sources import closure, code_digest
from sweeper.engine.program import Program
from sweeper.engine.space import Grid
from sweeper.inputs.numbers import values_of
from sweeper.study.study import Study
from sweeper.words.system import OPTIONAL_ROLES, ROLES

ROOMS = ("engine", "inputs", "planning", "study", "library", "reading", "words")
"""Rooms whose modules decide what is evaluated, and how."""
BESIDE = frozenset(
    {"sweeper.engine.compilation.cache", "sweeper.engine.compilation.sources", "sweeper.planning.identity"}
)
"""Modules of these rooms that decide nothing about the bytes."""
NUMBERS_ONLY = ("sweeper.kernels.codes", "sweeper.kernels.draws", "sweeper.kernels.equation", "sweeper.kernels.reduce")
"""Kernels that every evaluation uses."""


def code_used(programs: Iterable[Program]) -> dict[str, Any]:
    """The code behind some programs: their equations, and digests of the modules of these and of the engine."""
    equations = {e.name: e for program in programs for stage in program.stages for e in stage.fusion.equations}
    kernels = closure([*NUMBERS_ONLY, *{equation.function.__module__ for equation in equations.values()}])
    evaluation = closure(["sweeper.planning.plan"], _decides)
    return {
        "equations": sorted(equations),
        "kernels": {name: code_digest(name) for name in kernels},
        "evaluation": hashlib.sha256("".join(map(code_digest, evaluation)).encode()).hexdigest(),
    }


def _decides(module: str) -> bool:
    package, _, inside = module.partition(".")
    return package == "sweeper" and inside.partition(".")[0] in ROOMS and module not in BESIDE


def library_used(study: Study, grids: Sequence[Grid]) -> dict[str, Any]:
    """Library entries that a study names, with their values."""
    named = {
        (kind, str(value))
        for grid in grids
        for role, kind in ROLES.items()
        if role in grid.columns or role not in OPTIONAL_ROLES
        for value in values_of(grid, role)
    }
    named = named.union(*(design.entries for design in study.packages.values()))
    return {f"{kind}/{name}": study.library.find(kind, name).resolved() for kind, name in sorted(named)}
