"""Templates of a workload's kernels: fields checked, repeats written out, producers before consumers."""

import heapq
import math
import re
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import product
from typing import Any

import numpy as np

from sweeper.errors import Problems, SpecError, brief, unknown
from sweeper.kernels.codes import CHANNELS, KERNEL_TYPES, PHASES, SHARDS
from sweeper.reading import checks
from sweeper.reading.expressions import Expression, is_symbol
from sweeper.reading.nodes import Node, error
from sweeper.reading.steps import ExpressionError

MAX_KERNELS = 5000

Known = Mapping[str, float | np.ndarray]
"""Parameters, and all values of the indices of a template."""

_TILES = ("none", "m", "k", "n")
_SPLITS = ("m", "k", "n")
_REDUCED = ("none", "m", "n")
_REQUIRED = ("name", "type", "m", "n")
_KEYS = (
    *_REQUIRED,
    "phase", "outer", "k", "weight", "tile", "inputs", "shard", "split", "dram", "operations", "kept", "causal",
    "collectives", "gradient", "repeat", "reduces", "of", "carried",
)  # fmt: skip
_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, eq=False)
class KernelTemplate:
    """A kernel of the entry, its fields checked, before its repeats are written out."""

    node: Node
    name: Node
    fields: dict[str, Any]
    inputs: tuple[Node, ...]
    carried: tuple[Node, ...]
    of: Node | None
    repeats: dict[str, range]
    counting: frozenset[str]
    """Parameters in the ends of its repeats."""

    @property
    def skeleton(self) -> str:
        """The name without what its braces hold: equal for all kernels of a template."""
        return _BRACES.sub("{}", self.name.text)


@dataclass(frozen=True, eq=False)
class KernelCopy:
    """A kernel whose inputs are still names, as is the one whose weight it shares; an input outside the repeats of its
    template is left out."""

    name: str
    template: KernelTemplate
    fields: dict[str, Any]
    inputs: tuple[tuple[str, Node], ...]
    carried: tuple[tuple[str, Node], ...]
    of: str


def read_template(node: Node, symbols: Set[str], parameters: Mapping[str, float]) -> KernelTemplate:
    """Check the fields of one kernel. Raises SpecError with all its mistakes."""
    written = checks.fields(node, "a kernel", _KEYS, _REQUIRED)
    repeats, counting = written.read("repeat", read_repeats, symbols, parameters, default=({}, frozenset()))
    names = symbols | repeats.keys()
    known = {**parameters, **index_values(repeats)}
    fields: dict[str, Any] = {
        "type": written.read("type", checks.choice, "type of kernel", KERNEL_TYPES, default=""),
        "phase": written.read("phase", checks.choice, "phase", PHASES, default="forward"),
        **{
            key: written.read(key, checks.amount, key, names, known, default=Expression(default))
            for key, default in _EXPRESSIONS.items()
        },
        "weight": written.read("weight", checks.boolean, "weight", default=False),
        "tile": written.read("tile", checks.choice, "tile", _TILES, default="none"),
        "shard": written.read("shard", checks.choice, "shard", SHARDS, default="none"),
        "split": written.read("split", _split, names, known, default=()),
        "collectives": written.read("collectives", _collectives, names, known, default=()),
        "causal": written.read("causal", checks.boolean, "causal", default=False),
        "gradient": written.read("gradient", checks.boolean, "gradient", default=False),
        "reduces": written.read("reduces", checks.choice, "reduces", _REDUCED, default="none"),
    }
    written.read("name", checks.text, "the name of a kernel", default="")
    inputs = written.read("inputs", _inputs, default=())
    carried = written.read("carried", _inputs, default=())
    of = written.read("of", _kernel_name, default=None)
    written.problems.raise_any()
    if fields["reduces"] != "none" and fields["type"] != "elementwise":
        raise error(written["reduces"], "only elementwise kernels reduce: a product sums over k")
    return KernelTemplate(node, written["name"], fields, inputs, carried, of, repeats, counting)


_EXPRESSIONS = {"outer": "1", "m": "1", "k": "1", "n": "1", "dram": "0", "operations": "1", "kept": "0"}
"""Fields that are expressions, and what they are where they may be left out."""


def _inputs(node: Node) -> tuple[Node, ...]:
    checks.texts(node, "inputs")
    return node.value if isinstance(node.value, tuple) else (node,)


def _kernel_name(node: Node) -> Node:
    checks.text(node, "the kernel whose weight it shares")
    return node


def index_values(repeats: Mapping[str, range]) -> dict[str, np.ndarray]:
    """All values of the indices, such that those of several broadcast."""
    values = (np.array(numbers, np.float64) for numbers in repeats.values())
    return dict(zip(repeats, np.meshgrid(*values, sparse=True)))


def index_choices(repeats: Mapping[str, range]) -> list[dict[str, int]]:
    """Values of the indices of every copy; of one copy without any where there are none."""
    return [dict(zip(repeats, numbers)) for numbers in product(*repeats.values())]


def read_repeats(
    node: Node, symbols: Collection[str], parameters: Mapping[str, float]
) -> tuple[dict[str, range], frozenset[str]]:
    """Ranges of the indices of a template, and the entry's parameters in them; both ends count and are expressions."""
    ranges: dict[str, range] = {}
    counting: set[str] = set()
    problems = Problems()
    for name, bounds in checks.mapping(node, "repeat").items():
        with problems.collecting():
            if not is_symbol(name) or name in symbols:
                raise SpecError([node.key_problem(name, f"{brief(name)} cannot name an index; use a new letter")])
            ends = checks.sized(bounds, "a repeat", 2, "values; a repeat is [first, last]")
            expressions = [checks.expression(end, "an end of a repeat", parameters) for end in ends]
            low, high = (_end(end, expression, parameters) for end, expression in zip(ends, expressions, strict=True))
            counting.update(*(expression.symbols for expression in expressions))
            if low > high:
                raise error(bounds, f"an empty repeat: {low} is greater than {high}")
            ranges[name] = range(low, high + 1)
    problems.raise_any()
    count = math.prod(map(len, ranges.values()))
    if count > MAX_KERNELS:
        raise error(node, f"{count} kernels; a workload has at most {MAX_KERNELS}")
    return ranges, frozenset(counting)


def _end(node: Node, expression: Expression, parameters: Mapping[str, float]) -> int:
    value = float(expression.evaluate(parameters))
    if value != value // 1 or not 0 <= value <= 10**6:
        raise error(node, f"{brief(node.text)} gives {value:g}; an end of a repeat must be a whole number, 0 to 10^6")
    return int(value)


def _split(node: Node, names: Set[str], known: Known) -> tuple[tuple[str, Expression], ...]:
    divisors = checks.fields(node, "split", _SPLITS)
    return tuple((key, checks.amount(value, f"split of {key}", names, known)) for key, value in divisors.items())


def _collectives(node: Node, names: Set[str], known: Known) -> tuple[tuple[str, Expression], ...]:
    bytes_by_channel: dict[str, Expression] = {}
    for item in checks.items(node, "collectives") if node.value != () else ():
        written = checks.fields(item, "a collective", ("channel", "bytes"), ("channel", "bytes"))
        channel = checks.choice(written["channel"], "channel", CHANNELS)
        if channel in bytes_by_channel:
            raise error(written["channel"], f"{channel} is given twice; add the bytes up")
        bytes_by_channel[channel] = checks.amount(written["bytes"], "bytes", names, known)
    return tuple(bytes_by_channel.items())


def written_out(templates: Sequence[KernelTemplate], problems: Problems) -> list[KernelCopy]:
    """Write out the repeats of every template."""
    copies: dict[str, KernelCopy] = {}
    for template in templates:
        with problems.collecting():
            for values in index_choices(template.repeats):
                name = numbered(template.name, values)
                if name in copies:
                    first = copies[name].template.name
                    raise error(template.name, f"duplicate kernel {brief(name)} (first at line {first.line})")
                inputs, carried = (
                    tuple((numbered(node, values), node) for node in nodes)
                    for nodes in (template.inputs, template.carried)
                )
                of = numbered(template.of, values) if template.of else ""
                copies[name] = KernelCopy(name, template, _bound(template.fields, values), inputs, carried, of)
                if len(copies) > MAX_KERNELS:
                    raise error(template.node, f"more than {MAX_KERNELS} kernels; a workload has at most so many")
    return list(copies.values())


def numbered(node: Node, values: Mapping[str, int], what: str = "the name of a kernel") -> str:
    """A name with the indices in braces put in: `mlp_{i-1}` -> `mlp_3`."""

    def number(match: re.Match[str]) -> str:
        try:
            value = Expression(match.group(1)).evaluate(values)
        except ExpressionError as fault:
            raise error(node, fault.message, match.start(1) + fault.offset) from None
        if isinstance(value, str) or value != value // 1:
            raise error(node, f"{match.group()} gives {value!r}; an index must be a whole number")
        return str(int(value))

    name = _BRACES.sub(number, node.text)
    if "{" in name or "}" in name:
        raise error(node, f"unbalanced braces in {brief(node.text)}")
    if not checks.is_name(name):
        raise error(node, checks.misnamed(name, what))
    return name


def _bound(fields: Mapping[str, Any], values: Mapping[str, int]) -> dict[str, Any]:
    """Fields of a kernel with the indices put into its expressions."""

    def bind(value: Any) -> Any:
        if isinstance(value, Expression):
            return value.bind(values)
        if isinstance(value, tuple):
            return tuple((key, expression.bind(values)) for key, expression in value)
        return value

    return {key: bind(value) for key, value in fields.items()}


def sorted_copies(
    copies: list[KernelCopy], templates: Sequence[KernelTemplate], problems: Problems
) -> list[KernelCopy]:
    """The kernels with producers before consumers, otherwise as written. Unknown inputs and cycles are problems."""
    number = {copy.name: index for index, copy in enumerate(copies)}
    skeletons = {template.skeleton for template in templates if template.repeats}
    sorter = TopologicalSorter[int](dict.fromkeys(range(len(copies)), ()))
    for index, copy in enumerate(copies):
        for name, node in copy.inputs:
            if name in number:
                sorter.add(index, number[name])
            elif _BRACES.sub("{}", node.text) not in skeletons:
                problems.append(node.problem(unknown("kernel", name, number)))
    order: list[KernelCopy] = []
    ready: list[int] = []
    try:
        sorter.prepare()
    except CycleError as fault:
        cycle = sorted(set(fault.args[1]))
        names = ", ".join(copies[index].name for index in cycle[:5])
        problems.append(copies[cycle[0]].template.node.problem(f"the inputs form a cycle through {names}"))
        return order
    while sorter.is_active():
        for index in sorter.get_ready():
            heapq.heappush(ready, index)
        index = heapq.heappop(ready)
        order.append(copies[index])
        sorter.done(index)
    return order
