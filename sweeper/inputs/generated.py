"""Chips that a study generates: which equations take the place of what the library would give."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache

from sweeper.engine.program import InputColumn
from sweeper.inputs.numbers import Surroundings, constant
from sweeper.kernels.equation import Equation
from sweeper.kernels.models import GENERATING
from sweeper.words.columns import engine_column, role_columns
from sweeper.words.system import ATTRIBUTES, OPTIONAL_ROLES, ROLES


@cache
def roles_read(equation: Equation) -> frozenset[str]:
    """Roles that may be empty, of which an equation reads a number."""
    return frozenset(role for role in OPTIONAL_ROLES if role_columns(role).keys() & set(equation.inputs))


def generating(around: Surroundings) -> tuple[Equation, ...]:
    """Equations that generate a chip, its memory and its links from what the box names.

    A number of an entry that the study replaces stays: what is generated in its place gets another name.
    """
    named = around.grid.columns.keys()
    if "template" not in named:
        return ()
    replaced = {
        engine_column(f"{role}.{name}")
        for role, kind in ROLES.items()
        for name in ATTRIBUTES.get(kind, {})
        if f"{role}.{name}" in named
    }
    return tuple(_beside(equation, replaced) for equation in GENERATING if roles_read(equation) <= named)


def _beside(equation: Equation, replaced: Collection[str]) -> Equation:
    """An equation that leaves some columns alone."""
    outputs = (replace(o, name=f"replaced_{o.name}") if o.name in replaced else o for o in equation.outputs)
    return replace(equation, outputs=tuple(outputs))


def equations_of(around: Surroundings, model: Iterable[Equation]) -> list[Equation]:
    """Equations of a family that apply to a box; those that generate its chip come last and so win."""
    return [*(equation for equation in model if equation not in GENERATING), *generating(around)]


def with_generated(around: Surroundings, inputs: Mapping[str, InputColumn]) -> dict[str, InputColumn]:
    """Input columns less those that are generated. Parts that a generated chip does without take nothing."""
    equations = generating(around)
    if not equations:
        return {**inputs, "chip_reason": constant("chip_reason", 0.0, "", "a listed chip exists")}
    written = {output.name for equation in equations for output in equation.outputs}
    kept = {name: column for name, column in inputs.items() if name not in written}
    parts = [o for equation in GENERATING for o in equation.outputs if o.name not in written]
    return {**{o.name: constant(o.name, 0.0, o.unit, o.about) for o in parts}, **kept}
