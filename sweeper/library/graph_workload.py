"""Workloads as data: kernels with dimensions as expressions, edges between them, partitions of the graph.

A kernel of a workload entry may be a template with a `repeat`, which stands for several kernels. The kernels of a
`Workload` stand in a stable topological order: as written wherever the edges allow it.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from sweeper.errors import Problems, SpecError, brief, every, unknown
from sweeper.kernels.codes import SHARDS, SWITCHES
from sweeper.library.entries import SCALAR_KEYS, Entry
from sweeper.library.kernel_templates import KernelCopy, KernelTemplate, read_template, sorted_copies, written_out
from sweeper.reading import checks
from sweeper.reading.expressions import Expression
from sweeper.reading.nodes import Node, error
from sweeper.words.columns import USUAL_PARTITIONING
from sweeper.words.numbers import NUMBERS

KERNEL_BY_KERNEL = USUAL_PARTITIONING
SINGLE = "single"
OPTIMAL = "optimal"
COLUMNS = {name: attribute.about for name, attribute in NUMBERS.items()} | dict.fromkeys(SWITCHES, "a switch")
"""Columns that expressions may name, and what they are; a switch is the number of its choice, from 0."""
BUILTIN_PARTITIONS = (KERNEL_BY_KERNEL, SINGLE, OPTIMAL)
"""Partitions of every workload: each kernel alone, all kernels together, and the best for every system."""


@dataclass(frozen=True)
class Kernel:
    """One operator: its result is (outer x m) x n, summed over k where the type is a product of matrices.

    `weight` says that the first operand is a weight, `tile` which dimension is streamed, `inputs` which kernels
    produce the operands, `shard` which dimension the tensor-parallel group split in the published mapping, `split`
    fixed divisors of dimensions that replace such sharding, `dram` further bytes of memory traffic per microbatch,
    `operations` those of vector units for each element of the result, `kept` bytes that the backward pass reads for
    each of them besides the result, `causal` that attention is masked so,
    `collectives` bytes sent by channel, and `gradient` that the result is all-reduced over the replicas. `reduces` is
    the dimension over which a norm or softmax adds up, and `of` the forward kernel whose weight the kernel shares, or
    makes the gradient of. `carried` are kernels whose results of the previous repeat of the graph it reads too.
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
    operations: Expression
    kept: Expression
    causal: bool
    collectives: tuple[tuple[str, Expression], ...]
    gradient: bool
    reduces: str
    carried: tuple[int, ...]
    of: int | None


@dataclass(frozen=True, eq=False)
class Workload:
    """A graph of kernels that a model repeats `layers` times for `batch` samples.

    The `scalars` are expressions in the parameters and in the names of `COLUMNS`: besides
    `layers` and `batch`, `word` is bytes per element, `steps` optimizer steps that share a batch, `stage_boundary`
    bytes per microbatch between pipeline stages, `tiles` slices per tensor, `resident` bytes that every chip keeps
    besides weights and activations. `partitions` gives each kernel's partition, by partitioning; nothing for the one
    that the model finds. `counting` are the parameters that decide how many kernels there are.
    """

    name: str
    parameters: dict[str, float]
    scalars: dict[str, Expression]
    kernels: tuple[Kernel, ...]
    partitions: dict[str, tuple[int, ...]]
    counting: frozenset[str] = frozenset()


_DEFAULTS = {"steps": "1", "stage_boundary": "0", "tiles": "1", "resident": "0"}
"""Expressions of a workload that may be left out; layers, batch and word may not."""


def read_workload(entry: Entry) -> Workload:
    """The workload of a library entry. Raises SpecError with all its mistakes."""
    problems = Problems()
    parameters = _parameters(entry, problems)
    symbols = parameters.keys() | COLUMNS.keys()
    scalars = read_scalars(entry, SCALAR_KEYS, symbols, parameters, problems)
    return read_graph(entry, Workload(entry.name, parameters, scalars, (), {}), symbols, parameters, problems)


def read_graph(
    entry: Entry, bare: Workload, symbols: Set[str], known: Mapping[str, float], problems: Problems
) -> Workload:
    """A workload with the kernels and partitions of its entry, in expressions of these symbols, some of which are
    known. Raises SpecError with all mistakes."""
    templates: list[KernelTemplate] = []
    with problems.collecting():
        nodes = checks.items(_body(entry, "kernels"), "kernels")
        templates = every(nodes, lambda node: read_template(node, symbols, known))
    # Edges to a kernel that could not be read would be reported as unknown: mend the kernels first.
    problems.raise_any()
    copies = sorted_copies(written_out(templates, problems), templates, problems)
    problems.raise_any()
    number = {copy.name: index for index, copy in enumerate(copies)}
    carried = {copy.name: _carried(copy, copies, number, problems) for copy in copies}
    shared = {copy.name: _of(copy, copies, number, known, problems) for copy in copies if copy.of}
    problems.raise_any()
    kernels = tuple(
        Kernel(
            name=copy.name,
            inputs=tuple(number[name] for name, _ in copy.inputs if name in number),
            carried=carried[copy.name],
            of=shared.get(copy.name),
            **copy.fields,
        )
        for copy in copies
    )
    kernels = _resharded(kernels, entry, problems)
    partitions = {KERNEL_BY_KERNEL: tuple(range(len(kernels))), SINGLE: (0,) * len(kernels), OPTIMAL: ()}
    body = checks.Fields(entry.body, problems)
    for name, node in body.read("partitions", checks.named, "partitions", default={}).items():
        with problems.collecting():
            if name in BUILTIN_PARTITIONS:
                raise error(node, f"{name!r} exists for every workload and cannot be redefined")
            partitions[name] = _partition(node, kernels)
    problems.raise_any()
    counting = frozenset().union(*(template.counting for template in templates))
    return replace(bare, kernels=kernels, partitions=partitions, counting=counting)


def _carried(
    copy: KernelCopy, copies: Sequence[KernelCopy], number: Mapping[str, int], problems: Problems
) -> tuple[int, ...]:
    """Numbers of the kernels whose results of the previous repeat a kernel reads; others of its pass."""
    found = []
    for name, node in copy.carried:
        with problems.collecting():
            if name not in number:
                raise error(node, unknown("kernel", name, number))
            passes = {copies[number[each]].fields["phase"] == "forward" for each in (name, copy.name)}
            if name == copy.name or len(passes) > 1:
                raise error(node, f"{copy.name!r} cannot carry on {name!r}: only another kernel of the same pass")
            found.append(number[name])
    return tuple(found)


def _of(
    copy: KernelCopy,
    copies: Sequence[KernelCopy],
    number: Mapping[str, int],
    parameters: Mapping[str, float],
    problems: Problems,
) -> int | None:
    """Number of the forward kernel whose weight a kernel shares; what does not share it is a problem."""
    node = copy.template.of or copy.template.node
    with problems.collecting():
        if copy.of not in number:
            raise error(node, unknown("kernel", copy.of, number))
        forward = copies[number[copy.of]]
        if not forward.fields["weight"] or forward.fields["phase"] != "forward":
            raise error(node, f"{copy.of!r} is no forward kernel with a weight")
        known = {**dict.fromkeys(NUMBERS, 1.0), **parameters}
        weight, own = _weight_shape(forward, known), _weight_shape(copy, known)
        if own != weight:
            sizes = "; ".join(f"{rows:g} x {columns:g}" for rows, columns in (weight, own))
            raise error(node, f"{copy.name!r} and {copy.of!r} do not share a weight, theirs are: {sizes}")
        sharing = [other for other in copies if other.of == copy.of]
        sides = [_sides(other, known) for other in (forward, *sharing)]
        if not frozenset.intersection(*sides) and any(sides):
            names = ", ".join(other.name for other in sharing)
            raise error(node, f"no split is open to all that share the weight of {copy.of!r}: {names}")
        return number[copy.of]
    return None


def _weight_shape(copy: KernelCopy, known: Mapping[str, float]) -> tuple[float, float]:
    """Rows and columns of a kernel's weight, as the forward kernel has them: a backward kernel uses it transposed; the
    gradient, activation times gradient of the result, is transposed too."""
    phase = copy.fields["phase"]
    outer, m, other = (float(copy.fields[name].evaluate(known)) for name in ("outer", "m", _OTHER[phase]))
    return (outer * m, other) if phase == "forward" else (other, outer * m)


_OTHER = {"forward": "k", "backward": "k", "update": "n"}
"""Which dimension of a kernel the other one of its weight is."""


_SIDES = {"forward": "mk", "backward": "km", "update": "nm"}
"""Dimensions by which a kernel of each phase divides the rows and the columns of the forward kernel's weight."""


def _sides(copy: KernelCopy, known: Mapping[str, float]) -> frozenset[str]:
    """Sides of a weight that a split of the kernel may divide: not by a streamed dimension; copies of m go first."""
    dimensions = dict(zip(("rows", "columns"), _SIDES[copy.fields["phase"]]))
    copied = copy.fields["outer"].evaluate(known) > 1
    return frozenset(
        side
        for side, dimension in dimensions.items()
        if not copy.fields["split"] and (dimension == "m" if copied else copy.fields["tile"] != dimension)
    )


def _resharded(kernels: tuple[Kernel, ...], entry: Entry, problems: Problems) -> tuple[Kernel, ...]:
    """Kernels with the splits that `shards` gives by their names, as of another run of the same graph."""
    written = checks.Fields(entry.body, problems).read("shards", checks.named, "shards", default={})
    names = {kernel.name for kernel in kernels}
    shards: dict[str, str] = {}
    for name, node in written.items():
        with problems.collecting():
            if name not in names:
                raise error(node, unknown("kernel", name, names))
            shards[name] = checks.choice(node, "shard", SHARDS)
    return tuple(replace(kernel, shard=shards.get(kernel.name, kernel.shard)) for kernel in kernels)


def _body(entry: Entry, key: str) -> Node:
    if key not in entry.body:
        message = f"workload {entry.name!r} lacks {key!r}"
        raise SpecError([checks.absent(entry.node, key, message)])
    return entry.body[key]


def _parameters(entry: Entry, problems: Problems) -> dict[str, float]:
    """Parameters by name in SI; their names must not hide other names."""
    for name in sorted(entry.values.keys() & COLUMNS.keys()):
        message = f"{name!r} is a column of the mapping ({COLUMNS[name]}); choose another name"
        problems.append(entry.body["parameters"].key_problem(name, message))
    return {name: value.number for name, value in entry.values.items()}


def read_scalars(
    entry: Entry, keys: Iterable[str], symbols: Set[str], known: Mapping[str, float], problems: Problems
) -> dict[str, Expression]:
    """Numbers that an entry gives as expressions, or their defaults."""
    scalars: dict[str, Expression] = {}
    for key in keys:
        with problems.collecting():
            if key in entry.body or key not in _DEFAULTS:
                scalars[key] = checks.amount(_body(entry, key), key, symbols, known)
            else:
                scalars[key] = Expression(_DEFAULTS[key])
    return scalars


def _partition(node: Node, kernels: Sequence[Kernel]) -> tuple[int, ...]:
    """Partition of every kernel. Raises SpecError if one is missing, stands twice, or comes before its producer."""
    number = {kernel.name: index for index, kernel in enumerate(kernels)}
    part_of: dict[int, int] = {}
    problems = Problems()
    for group, part in enumerate(checks.items(node, "a partitioning")):
        with problems.collecting():
            for item in checks.items(part, "a partition"):
                with problems.collecting():
                    for index in _range(item, number):
                        if index in part_of:
                            raise error(item, f"{kernels[index].name!r} is already in partition {part_of[index] + 1}")
                        part_of[index] = group
    problems.raise_any()
    missing = [kernel.name for index, kernel in enumerate(kernels) if index not in part_of]
    if missing:
        raise error(node, f"{len(missing)} kernel(s) stand in no partition: {', '.join(missing[:10])}")
    for index, kernel in enumerate(kernels):
        for producer in kernel.inputs:
            if part_of[producer] > part_of[index]:
                message = (f"{kernel.name!r} is in partition {part_of[index] + 1}, but its input "
                           f"{kernels[producer].name!r} in the later partition {part_of[producer] + 1}")  # fmt: skip
                raise error(node, message)
    return tuple(part_of[index] for index in range(len(kernels)))


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
