"""Workloads as data: kernels with dimensions as expressions, edges between them, partitions of the graph.

A kernel of a workload entry may be a template with a `repeat`, which stands for several kernels. The kernels of a
`Workload` stand in a stable topological order: as written wherever the edges allow it.
"""

import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from kernels.codes import CHANNELS, KERNEL_TYPES, PHASES, SHARDS
from sweeper.errors import Problems, SpecError, brief, unknown
from sweeper.library.entries import WORKLOAD_KEYS, Entry
from sweeper.reading import checks
from sweeper.reading.expressions import Expression, ExpressionError, is_symbol
from sweeper.reading.nodes import Node, error
from sweeper.words.system import NUMBERS

KERNEL_BY_KERNEL = "kernel_by_kernel"
SINGLE = "single"
OPTIMAL = "optimal"
BUILTIN_PARTITIONS = (KERNEL_BY_KERNEL, SINGLE, OPTIMAL)
"""Partitions of every workload: each kernel alone, all kernels together, and the best for every system."""

MAX_KERNELS = 5000

_TILES = ("none", "m", "k", "n")
_SPLITS = ("m", "k", "n")
_REQUIRED = ("name", "type", "m", "n")
_KEYS = (
    *_REQUIRED,
    "phase", "outer", "k", "weight", "tile", "inputs", "shard", "split", "dram", "collectives", "gradient", "repeat",
)  # fmt: skip
_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Kernel:
    """One operator: its result is (outer x m) x n, summed over k where the type is a product of matrices.

    `weight` says that the first operand is a weight, `tile` which dimension is streamed, `inputs` which kernels
    produce the operands, `shard` which dimension the tensor-parallel group split in the published mapping, `split`
    fixed divisors of dimensions that replace such sharding, `dram` further bytes of memory traffic per microbatch,
    `collectives` bytes sent by channel, and `gradient` that the result is all-reduced over the replicas.
    """

    name: str
    type: str
    phase: str
    outer: Expression
    m: Expression
    k: Expression
    n: Expression
    weight: bool
    tile: str
    inputs: tuple[int, ...]
    shard: str
    split: tuple[tuple[str, Expression], ...]
    dram: Expression
    collectives: tuple[tuple[str, Expression], ...]
    gradient: bool


@dataclass(frozen=True, eq=False)
class Workload:
    """A graph of kernels that a model repeats `layers` times for `batch` samples.

    Expressions are in the parameters and in the names of `vocabulary.NUMBERS`; `word` is bytes per element, `steps`
    optimizer steps that share a batch, `stage_boundary` bytes per microbatch between pipeline stages, `tiles` slices
    per tensor, `resident` bytes that every chip keeps besides weights and activations. `partitions` gives each
    kernel's partition, by partitioning; nothing for the one that the model finds.
    """

    name: str
    parameters: dict[str, float]
    layers: Expression
    batch: Expression
    word: Expression
    stage_boundary: Expression
    tiles: Expression
    resident: Expression
    steps: Expression
    kernels: tuple[Kernel, ...]
    partitions: dict[str, tuple[int, ...]]


_DEFAULTS = {"steps": "1", "stage_boundary": "0", "tiles": "1", "resident": "0"}
"""Expressions of a workload that may be left out; layers, batch and word may not."""


@dataclass(frozen=True, eq=False)
class _Template:
    """A kernel of the entry, its fields checked, before its repeats are written out."""

    node: Node
    name: Node
    fields: dict[str, Any]
    inputs: tuple[Node, ...]
    repeats: dict[str, range]

    @property
    def skeleton(self) -> str:
        """The name without what its braces hold: equal for all kernels of a template."""
        return _BRACES.sub("{}", self.name.text.strip())


@dataclass(frozen=True, eq=False)
class _Copy:
    """A kernel whose inputs are still names; an input outside the repeats of its template is left out."""

    name: str
    template: _Template
    fields: dict[str, Any]
    inputs: tuple[tuple[str, Node], ...]


def read_workload(entry: Entry) -> Workload:
    """The workload of a library entry. Raises SpecError with all its mistakes."""
    problems = Problems()
    parameters = _parameters(entry, problems)
    symbols = parameters.keys() | NUMBERS.keys()
    scalars = _scalars(entry, symbols, problems)
    templates: list[_Template] = []
    with problems.collecting():
        for node in checks.items(_body(entry, "kernels"), "kernels"):
            with problems.collecting():
                templates.append(_template(node, symbols, parameters))
    # Edges to a kernel that could not be read would be reported as unknown: mend the kernels first.
    problems.raise_any()
    copies = _sorted_copies(_copies(templates, problems), templates, problems)
    problems.raise_any()
    kernels = _kernels(copies)
    partitions = {KERNEL_BY_KERNEL: tuple(range(len(kernels))), SINGLE: (0,) * len(kernels), OPTIMAL: ()}
    with problems.collecting():
        given = checks.mapping(entry.body["partitions"], "partitions") if "partitions" in entry.body else {}
        for name, node in given.items():
            with problems.collecting():
                if name in BUILTIN_PARTITIONS:
                    raise error(node, f"{name!r} exists for every workload and cannot be redefined")
                partitions[name] = _partition(node, kernels)
    problems.raise_any()
    return Workload(entry.name, parameters, **scalars, kernels=kernels, partitions=partitions)


def _body(entry: Entry, key: str) -> Node:
    if key not in entry.body:
        message = f"workload {entry.name!r} lacks {key!r}"
        raise SpecError([checks.absent(entry.node, key, message)])
    return entry.body[key]


def _parameters(entry: Entry, problems: Problems) -> dict[str, float]:
    """Parameters by name in SI; their names must not hide other names."""
    for name in sorted(entry.values.keys() & NUMBERS.keys()):
        message = f"{name!r} is a column of the mapping ({NUMBERS[name].about}); choose another name"
        problems.append(entry.body["parameters"].key_problem(name, message))
    return {name: value.number for name, value in entry.values.items()}


def _scalars(entry: Entry, symbols: set[str], problems: Problems) -> dict[str, Expression]:
    found: dict[str, Expression] = {}
    for key in WORKLOAD_KEYS:
        if key in ("kernels", "partitions"):
            continue
        with problems.collecting():
            if key in entry.body or key not in _DEFAULTS:
                found[key] = checks.expression(_body(entry, key), key, symbols)
            else:
                found[key] = Expression(_DEFAULTS[key])
    return found


def _template(node: Node, symbols: set[str], parameters: Mapping[str, float]) -> _Template:
    """Check the fields of one kernel. Raises SpecError with all its mistakes."""
    given = checks.fields(node, "a kernel", _KEYS, _REQUIRED)
    problems = Problems()
    repeats: dict[str, range] = {}
    with problems.collecting():
        if "repeat" in given:
            repeats = _repeats(given["repeat"], symbols, parameters)
    names = symbols | repeats.keys()
    found: dict[str, Any] = {}
    for key, read in {
        "type": lambda at: checks.choice(at, "type of kernel", KERNEL_TYPES),
        "phase": lambda at: checks.choice(at, "phase", PHASES),
        "outer": lambda at: checks.expression(at, "outer", names),
        "m": lambda at: checks.expression(at, "m", names),
        "k": lambda at: checks.expression(at, "k", names),
        "n": lambda at: checks.expression(at, "n", names),
        "weight": lambda at: checks.boolean(at, "weight"),
        "tile": lambda at: checks.choice(at, "tile", _TILES),
        "shard": lambda at: checks.choice(at, "shard", SHARDS),
        "split": lambda at: _split(at, names),
        "dram": lambda at: checks.expression(at, "dram", names),
        "collectives": lambda at: _collectives(at, names),
        "gradient": lambda at: checks.boolean(at, "gradient"),
    }.items():
        with problems.collecting():
            found[key] = read(given[key]) if key in given else _KERNEL_DEFAULTS.get(key)
    with problems.collecting():
        checks.text(given["name"], "the name of a kernel")
    inputs: tuple[Node, ...] = ()
    with problems.collecting():
        if "inputs" in given:
            checks.texts(given["inputs"], "inputs")
            value = given["inputs"].value
            inputs = value if isinstance(value, tuple) else (given["inputs"],)
    problems.raise_any()
    return _Template(node, given["name"], found, inputs, repeats)


_KERNEL_DEFAULTS: dict[str, Any] = {
    "phase": "forward",
    "outer": Expression("1"),
    "k": Expression("1"),
    "weight": False,
    "tile": "none",
    "shard": "none",
    "split": (),
    "dram": Expression("0"),
    "collectives": (),
    "gradient": False,
}


def _repeats(node: Node, symbols: set[str], parameters: Mapping[str, float]) -> dict[str, range]:
    """Ranges of the indices of a template; both ends count, and may be expressions in the entry's parameters."""
    found: dict[str, range] = {}
    problems = Problems()
    for name, bounds in checks.mapping(node, "repeat").items():
        with problems.collecting():
            if not is_symbol(name) or name in symbols:
                raise SpecError([node.key_problem(name, f"{brief(name)} cannot name an index; use a new letter")])
            low, high = _ends(bounds, parameters)
            if low > high:
                raise error(bounds, f"an empty repeat: {low} is greater than {high}")
            found[name] = range(low, high + 1)
    problems.raise_any()
    count = 1
    for values in found.values():
        count *= len(values)
    if count > MAX_KERNELS:
        raise error(node, f"{count} kernels; a workload has at most {MAX_KERNELS}")
    return found


def _ends(node: Node, parameters: Mapping[str, float]) -> tuple[int, int]:
    ends = checks.items(node, "a repeat")
    if len(ends) != 2:
        raise error(node, f"found {len(ends)} values; a repeat is [first, last]")
    low, high = (_end(end, parameters) for end in ends)
    return low, high


def _end(node: Node, parameters: Mapping[str, float]) -> int:
    value = float(checks.expression(node, "an end of a repeat", parameters).evaluate(parameters))
    if value != value // 1 or not 0 <= value <= 10**6:
        raise error(node, f"{brief(node.text)} gives {value:g}; an end of a repeat must be a whole number, 0 to 10^6")
    return int(value)


def _split(node: Node, names: set[str]) -> tuple[tuple[str, Expression], ...]:
    given = checks.fields(node, "split", _SPLITS)
    return tuple((key, checks.expression(value, f"split of {key}", names)) for key, value in given.items())


def _collectives(node: Node, names: set[str]) -> tuple[tuple[str, Expression], ...]:
    found: dict[str, Expression] = {}
    for item in checks.items(node, "collectives") if node.value != () else ():
        given = checks.fields(item, "a collective", ("channel", "bytes"), ("channel", "bytes"))
        channel = checks.choice(given["channel"], "channel", CHANNELS)
        if channel in found:
            raise error(given["channel"], f"{channel} is given twice; add the bytes up")
        found[channel] = checks.expression(given["bytes"], "bytes", names)
    return tuple(found.items())


def _copies(templates: Sequence[_Template], problems: Problems) -> list[_Copy]:
    """Write out the repeats of every template."""
    found: dict[str, _Copy] = {}
    for template in templates:
        with problems.collecting():
            for indices in product(*template.repeats.values()):
                values = dict(zip(template.repeats, indices))
                name = _substituted(template.name, values)
                if name in found:
                    first = found[name].template.name
                    raise error(template.name, f"duplicate kernel {brief(name)} (first at line {first.line})")
                inputs = tuple((_substituted(node, values), node) for node in template.inputs)
                found[name] = _Copy(name, template, _bound(template.fields, values), inputs)
                if len(found) > MAX_KERNELS:
                    raise error(template.node, f"more than {MAX_KERNELS} kernels; a workload has at most so many")
    return list(found.values())


def _substituted(node: Node, values: Mapping[str, int]) -> str:
    """A name with the indices in braces put in: `mlp_{i-1}` -> `mlp_3`."""

    def number(match: re.Match[str]) -> str:
        try:
            value = Expression(match.group(1)).evaluate(values)
        except ExpressionError as fault:
            raise error(node, fault.message, match.start(1) + fault.offset) from None
        if isinstance(value, str) or value != value // 1:
            raise error(node, f"{match.group()} gives {value!r}; an index must be a whole number")
        return str(int(value))

    name = _BRACES.sub(number, node.text.strip())
    if "{" in name or "}" in name:
        raise error(node, f"unbalanced braces in {brief(node.text)}")
    return name


def _bound(given: Mapping[str, Any], values: Mapping[str, int]) -> dict[str, Any]:
    """Fields of a kernel with the indices put into its expressions."""

    def bind(value: Any) -> Any:
        if isinstance(value, Expression):
            return value.bind(values)
        if isinstance(value, tuple):
            return tuple((key, expression.bind(values)) for key, expression in value)
        return value

    return {key: bind(value) for key, value in given.items()}


def _sorted_copies(copies: list[_Copy], templates: Sequence[_Template], problems: Problems) -> list[_Copy]:
    """The kernels with producers before consumers, otherwise as written. Unknown inputs and cycles are problems."""
    number = {copy.name: index for index, copy in enumerate(copies)}
    skeletons = {template.skeleton for template in templates if template.repeats}
    consumers: list[list[int]] = [[] for _ in copies]
    waiting = [0] * len(copies)
    for index, copy in enumerate(copies):
        for name, node in copy.inputs:
            if name in number:
                consumers[number[name]].append(index)
                waiting[index] += 1
            elif _BRACES.sub("{}", node.text.strip()) not in skeletons:
                problems.append(node.problem(unknown("kernel", name, number)))
    ready = [index for index, count in enumerate(waiting) if not count]
    order: list[_Copy] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(copies[index])
        for consumer in consumers[index]:
            waiting[consumer] -= 1
            if not waiting[consumer]:
                heapq.heappush(ready, consumer)
    if len(order) < len(copies):
        stuck = [copy for index, copy in enumerate(copies) if waiting[index]]
        names = ", ".join(copy.name for copy in stuck[:5])
        problems.append(stuck[0].template.node.problem(f"the inputs form a cycle through {names}"))
    return order


def _kernels(copies: Sequence[_Copy]) -> tuple[Kernel, ...]:
    number = {copy.name: index for index, copy in enumerate(copies)}
    return tuple(
        Kernel(
            name=copy.name,
            inputs=tuple(number[name] for name, _ in copy.inputs if name in number),
            **copy.fields,
        )
        for copy in copies
    )


def _partition(node: Node, kernels: Sequence[Kernel]) -> tuple[int, ...]:
    """Partition of every kernel. Raises SpecError if one is missing, stands twice, or comes before its producer."""
    number = {kernel.name: index for index, kernel in enumerate(kernels)}
    found: dict[int, int] = {}
    problems = Problems()
    for group, part in enumerate(checks.items(node, "a partitioning")):
        with problems.collecting():
            for item in checks.items(part, "a partition"):
                with problems.collecting():
                    for index in _range(item, number):
                        if index in found:
                            raise error(item, f"{kernels[index].name!r} is already in partition {found[index] + 1}")
                        found[index] = group
    problems.raise_any()
    missing = [kernel.name for index, kernel in enumerate(kernels) if index not in found]
    if missing:
        raise error(node, f"{len(missing)} kernel(s) stand in no partition: {', '.join(missing[:10])}")
    for index, kernel in enumerate(kernels):
        for producer in kernel.inputs:
            if found[producer] > found[index]:
                message = (f"{kernel.name!r} is in partition {found[index] + 1}, but its input "
                           f"{kernels[producer].name!r} in the later partition {found[producer] + 1}")  # fmt: skip
                raise error(node, message)
    return tuple(found[index] for index in range(len(kernels)))


def _range(node: Node, number: Mapping[str, int]) -> range:
    """Kernels that `a` or `a..b` names, in the order of the kernels."""
    ends = [end.strip() for end in checks.text(node, "a kernel of a partition").split("..")]
    if len(ends) > 2:
        raise error(node, f"found {brief(node.text)}; a range is first..last")
    for end in ends:
        if end not in number:
            raise error(node, unknown("kernel", end, number))
    first, last = number[ends[0]], number[ends[-1]]
    if first > last:
        raise error(node, f"an empty range: {ends[0]!r} comes after {ends[-1]!r}")
    return range(first, last + 1)
