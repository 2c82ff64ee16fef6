"""Operator tables: a model as the list of operators that one chip runs, with shapes as expressions.

A table stands for a stack of equal layers between an embedding and a head. Expressions are in the parameters of the
model, in the definitions that stand before them, and in every number that the space gives (`tensor_parallel`,
`calibration_flash_attention`, `activation_B`, ...).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sweeper.errors import EnvironmentFault, Problems, unknown
from sweeper.kernels.calculon import table as calculon
from sweeper.kernels.codes import (
    BLOCK_RECOMPUTE_CLASSES,
    GROUPS,
    NAMED_FORMATS,
    OPERATIONS,
    OPERATOR_TYPES,
    PLACES,
    RECOMPUTE_CLASSES,
    RECOMPUTE_MODULES,
)
from sweeper.kernels.transformers.operators import DEFAULTS, Traits
from sweeper.kernels.transformers.rates import PRECISIONS
from sweeper.library.entries import Entry
from sweeper.library.kernel_templates import index_choices, index_values, numbered, read_repeats
from sweeper.plugins import find, named
from sweeper.reading import checks
from sweeper.reading.definitions import Definitions, read_definitions
from sweeper.reading.expressions import Expression
from sweeper.reading.nodes import Node, error
from sweeper.words.columns import USUAL_PARTITIONING, engine_column, format_column, role_columns
from sweeper.words.defaults import NAMED
from sweeper.words.models import BLOCK_SCALARS, TABLE_SCALARS, USUAL_SCALARS
from sweeper.words.numbers import NUMBERS

WORDS = {
    "type": OPERATOR_TYPES,
    "place": PLACES,
    "group": GROUPS,
    "operation": OPERATIONS,
    "recompute": RECOMPUTE_CLASSES,
    "module": RECOMPUTE_MODULES,
    "made_by": RECOMPUTE_MODULES,
    "precision": PRECISIONS,
}
"""Fields of an operator that are words, and the words allowed; the first is the default."""

PASSES = ("forward", "input_gradient", "weight_gradient")
"""Passes beside which a collective may run."""

TRAINED = "trained"
"""Field of an operator that is the definition of this name where the operator does not say it and the table has one."""

DECODING = "decoding"
"""Symbol that is 1 when the table is evaluated for one generated token, 0 for a training or prefill pass."""

POSITIONS = "workload.learned_positions"
"""Override of the number of rows of a model's table of positions."""
CHIP_NUMBERS = ("chip.cores", "chip.frequency", "chip.core_sram", "chip.l2_capacity", "chip.l2_bandwidth")
"""Numbers of a chip that expressions may use: what a probe of its memory is laid out by."""

NO_PARAMETERS: Mapping[str, float] = {}
"""What the ends of a repeat may name: how many operators there are does not depend on a point."""

SPACE_SYMBOLS = frozenset(
    {
        DECODING,
        *map(engine_column, (*NUMBERS, "memory.bandwidth", "link.bandwidth", *CHIP_NUMBERS)),
        *NAMED,
        *role_columns("calibration"),
        *map(format_column, NAMED_FORMATS),
    }
)
"""Numbers of the space that expressions may use."""


@dataclass(frozen=True)
class OperatorLayout:
    """What the operators of a family of tables say: words with those allowed (the first is the default), numbers with
    their defaults; and what the definitions of a table must give."""

    words: Mapping[str, tuple[str, ...]]
    fields: Mapping[str, str]
    scalars: Mapping[str, tuple[str, str]]

    @cached_property
    def usual(self) -> dict[str, Expression]:
        """The numbers of an operator that says none."""
        return {name: Expression(default) for name, default in self.fields.items()}


TRANSFORMER = OperatorLayout(WORDS, DEFAULTS, TABLE_SCALARS)
"""The layout of tables that are read as transformers."""
LAYOUTS = {
    "operators": TRANSFORMER,
    "layers": TRANSFORMER,
    "calculon": OperatorLayout(
        {"type": OPERATOR_TYPES, "recompute": BLOCK_RECOMPUTE_CLASSES, "collective": calculon.COLLECTIVES},
        calculon.DEFAULTS,
        BLOCK_SCALARS,
    ),
}
"""Our families of tables, by the key `family` of a workload; without the key it is the first, or that of a model whose
layers are graphs of kernels."""
USUAL_FAMILY = next(iter(LAYOUTS))
assert (*TRANSFORMER.words, "beside", "beside_pass") == Traits._fields
LAYERED = "layers"
assert tuple(LAYOUTS["calculon"].words) == calculon.Traits._fields


@dataclass(frozen=True)
class Operator:
    """A row of the table: its words as codes, and its fields as expressions."""

    name: str
    words: Mapping[str, int]
    beside: tuple[str, str] | None
    fields: Mapping[str, Expression]


@dataclass(frozen=True, eq=False)
class OperatorTable:
    """A model: parameters in SI, definitions in order, operators in the order in which a chip runs them."""

    name: str
    parameters: dict[str, float]
    definitions: Definitions
    operators: tuple[Operator, ...]
    family: str = USUAL_FAMILY
    layout: OperatorLayout = TRANSFORMER
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: {USUAL_PARTITIONING: ()})


def positions_of(model: object) -> float:
    """Tokens of a sequence of which a model has learned the positions; 0: any number."""
    return model.parameters.get(POSITIONS.partition(".")[2], 0.0) if isinstance(model, OperatorTable) else 0.0


def sequence_of(model: object) -> float:
    """Tokens of a sample or prompt of a model where a study does not say how many; 0: not known."""
    return model.parameters.get("sequence", 0.0) if isinstance(model, OperatorTable) else 0.0


def read_table(entry: Entry) -> OperatorTable:
    """The operator table of a workload entry. Raises SpecError with all its mistakes."""
    body = checks.Fields(entry.body, problems := Problems())
    parameters = {name: value.number for name, value in entry.values.items()}
    for name in sorted(parameters.keys() & SPACE_SYMBOLS):
        problems.append(body["parameters"].key_problem(name, f"{name!r} is a column; choose another name"))
    symbols = {*parameters, *SPACE_SYMBOLS}
    definitions = body.read("definitions", read_definitions, symbols, SPACE_SYMBOLS, default=Definitions())
    known = {*symbols, *body.read("definitions", checks.mapping, "definitions", default={})}
    usual_scalars = {name: USUAL_SCALARS[name] for name in USUAL_SCALARS if name not in known}
    usual = LAYERED if "kernels" in entry.body else USUAL_FAMILY
    family = body.read("family", checks.choice, "family", named("families", LAYOUTS), default=usual)
    layout = layout_of(family)
    if layout.scalars is TABLE_SCALARS:
        definitions = definitions.and_constants(usual_scalars)
    absent = [name for name in layout.scalars if name not in known and name not in usual_scalars]
    if absent:
        problems.append(entry.node.problem(f"workload {entry.name!r} lacks the definitions {', '.join(absent)}"))
    values = definitions.added({name: np.array(value) for name, value in parameters.items()})
    operators: list[Operator] = []
    for name, node in body.read("definitions", checks.mapping, "definitions", default={}).items():
        if name in layout.scalars:
            with problems.collecting():
                checks.amount(node, name, known, values)
    with problems.collecting():
        for node in checks.items(body["operators"], "operators"):
            with problems.collecting():
                operators += _operators(node, known, layout, values)
        _check_names(operators, body["operators"])
    problems.raise_any()
    return OperatorTable(entry.name, parameters, definitions, tuple(operators), family, layout)


def layout_of(family: str) -> OperatorLayout:
    """What the operators of a family of tables say; a family of a plug-in is read like one of ours.

    Raises EnvironmentFault if that is like none.
    """
    if family in LAYOUTS:
        return LAYOUTS[family]
    like = getattr(find("families", LAYOUTS, family), "like", "")
    if like not in LAYOUTS:
        raise EnvironmentFault(f"the plug-in {family!r} (family) is like no table: {unknown('family', like, LAYOUTS)}")
    return LAYOUTS[like]


def _operators(
    node: Node, symbols: Collection[str], layout: OperatorLayout, values: Mapping[str, np.ndarray]
) -> list[Operator]:
    """The operators that an entry of the table stands for: one, or one for every value of its indices."""
    keys = ("name", *layout.words, *layout.fields, "beside", "repeat")
    written = checks.fields(node, "an operator", keys, ("name", "type"))
    repeats, _ = written.read("repeat", read_repeats, symbols, NO_PARAMETERS, default=({}, frozenset()))
    known, names = {**values, **index_values(repeats)}, {*symbols, *repeats}
    inherited = {TRAINED: Expression(TRAINED)} if TRAINED in symbols and TRAINED in layout.fields else {}
    usual = layout.usual | inherited
    words = {key: written.read(key, checks.position, key, allowed, default=0) for key, allowed in layout.words.items()}
    fields = usual | {
        key: written.read(key, checks.amount, key, names, known, default=usual[key])
        for key in written
        if key in layout.fields
    }
    beside = written.read("beside", _beside, default=None)
    written.problems.raise_any()
    return [
        Operator(
            numbered(written["name"], at, "the name of an operator"),
            words,
            None if beside is None else (numbered(beside[0], at, "an operator"), beside[1]),
            {key: value.bind(at) for key, value in fields.items()},
        )
        for at in index_choices(repeats)
    ]


def _beside(node: Node) -> tuple[Node, str]:
    operator, during = checks.sized(node, "beside", 2, "words; need [operator, pass]")
    checks.text(operator, "an operator")
    return operator, checks.choice(during, "pass", PASSES)


def _check_names(operators: Iterable[Operator], node: Node) -> None:
    """Every operator has a name of its own, and an asynchronous collective runs beside one of the table."""
    names = [operator.name for operator in operators]
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise error(
            node, f'operator {twice!r} stands twice; a repeat needs its index in the name, as in "update_{{i}}"'
        )
    for operator in operators:
        if operator.beside is not None and operator.beside[0] not in names:
            raise error(node, unknown("operator", operator.beside[0], names))
