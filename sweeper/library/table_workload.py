"""Operator tables: a model as the list of operators that one chip runs, with shapes as expressions.

A table stands for a stack of equal layers between an embedding and a head. Expressions are in the parameters of the
model, in the definitions that stand before them, and in every number that the space gives (`tensor_parallel`,
`calibration_flash_attention`, `activation_B`, ...).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kernels.calculon import table as calculon
from kernels.codes import GROUPS, NAMED_FORMATS, OPERATIONS, OPERATOR_TYPES, PLACES, RECOMPUTE_CLASSES
from kernels.transformers.operators import DEFAULTS, PRECISIONS, Traits
from sweeper.errors import Problems, unknown
from sweeper.library.entries import Entry
from sweeper.reading import checks
from sweeper.reading.expressions import Expression
from sweeper.reading.nodes import Node, error
from sweeper.words.defaults import NAMED
from sweeper.words.models import BLOCK_SCALARS, TABLE_SCALARS
from sweeper.words.numbers import NUMBERS
from sweeper.words.system import ATTRIBUTES

WORDS = {
    "type": OPERATOR_TYPES,
    "place": PLACES,
    "group": GROUPS,
    "operation": OPERATIONS,
    "recompute": RECOMPUTE_CLASSES,
    "precision": PRECISIONS,
}
"""Fields of an operator that are words, and the words allowed; the first is the default."""

BACKWARD_PASSES = ("input_gradient", "weight_gradient")
"""Passes beside which a collective may run."""

DECODING = "decoding"
"""Symbol that is 1 when the table is evaluated for one generated token, 0 for a training or prefill pass."""

GIVEN_SYMBOLS = frozenset(
    {
        DECODING,
        *(attribute.column for attribute in NUMBERS.values()),
        *NAMED,
        *(f"calibration_{attribute.column}" for attribute in ATTRIBUTES["calibration"].values()),
        *(f"{name}_B" for name in NAMED_FORMATS),
        "memory_bandwidth_Bps",
        "link_bandwidth_Bps",
    }
)
"""Numbers of the space that expressions may use."""


@dataclass(frozen=True)
class Layout:
    """What the operators of a family of tables say: words with those allowed (the first is the default), numbers with
    their defaults; and what the definitions of a table must give."""

    words: Mapping[str, tuple[str, ...]]
    fields: Mapping[str, str]
    scalars: Mapping[str, tuple[str, str]]


LAYOUTS = {
    "operators": Layout(WORDS, DEFAULTS, TABLE_SCALARS),
    "calculon": Layout(
        {"type": OPERATOR_TYPES, "recompute": RECOMPUTE_CLASSES, "collective": calculon.COLLECTIVES},
        calculon.DEFAULTS,
        BLOCK_SCALARS,
    ),
}
"""Families of tables, by the key `family` of a workload; without the key it is the first."""
assert (*LAYOUTS["operators"].words, "beside", "beside_pass") == Traits._fields
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
    definitions: tuple[tuple[str, Expression], ...]
    operators: tuple[Operator, ...]
    family: str = "operators"
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: {"kernel_by_kernel": ()})


def read_table(entry: Entry) -> OperatorTable:
    """The operator table of a workload entry. Raises SpecError with all its mistakes."""
    problems = Problems()
    parameters = {name: value.number for name, value in entry.values.items()}
    known = {*parameters, *GIVEN_SYMBOLS}
    for name in sorted(parameters.keys() & GIVEN_SYMBOLS):
        problems.append(entry.body["parameters"].key_problem(name, f"{name!r} is a column; choose another name"))
    definitions: tuple[tuple[str, Expression], ...] = ()
    with problems.collecting():
        nodes = checks.mapping(entry.body["definitions"], "definitions") if "definitions" in entry.body else {}
        known.update(nodes)
        definitions = checks.definitions(nodes, known, GIVEN_SYMBOLS)
    family = "operators"
    with problems.collecting():
        family = checks.choice(entry.body["family"], "family", LAYOUTS) if "family" in entry.body else family
    layout = LAYOUTS[family]
    absent = [name for name in layout.scalars if name not in known]
    if absent:
        problems.append(entry.node.problem(f"workload {entry.name!r} lacks the definitions {', '.join(absent)}"))
    operators: list[Operator] = []
    with problems.collecting():
        for node in checks.items(entry.body["operators"], "operators"):
            with problems.collecting():
                operators.append(_operator(node, known, layout))
        _check_beside(operators, entry.body["operators"])
    problems.raise_any()
    return OperatorTable(entry.name, parameters, definitions, tuple(operators), family)


def _operator(node: Node, symbols: Iterable[str], layout: Layout) -> Operator:
    given = checks.fields(node, "an operator", ("name", *layout.words, *layout.fields, "beside"), ("name", "type"))
    problems = Problems()
    words: dict[str, int] = {}
    fields: dict[str, Expression] = {}
    name = checks.text(given["name"], "the name of an operator")
    for key, allowed in layout.words.items():
        with problems.collecting():
            words[key] = allowed.index(checks.choice(given[key], key, allowed)) if key in given else 0
    for key, default in layout.fields.items():
        with problems.collecting():
            fields[key] = checks.expression(given[key], key, symbols) if key in given else Expression(default)
    beside: tuple[str, str] | None = None
    with problems.collecting():
        if "beside" in given:
            pair = checks.items(given["beside"], "beside")
            if len(pair) != 2:
                raise error(given["beside"], f"found {len(pair)} words; need [operator, pass]")
            beside = (checks.text(pair[0], "an operator"), checks.choice(pair[1], "pass", BACKWARD_PASSES))
    problems.raise_any()
    return Operator(name, words, beside, fields)


def _check_beside(operators: Iterable[Operator], node: Node) -> None:
    """An asynchronous collective runs beside an operator of the table."""
    names = [operator.name for operator in operators]
    for operator in operators:
        if operator.beside is not None and operator.beside[0] not in names:
            raise error(node, unknown("operator", operator.beside[0], names))
