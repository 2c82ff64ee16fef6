"""A study: its boxes, what it searches for, and what it keeps, read from YAML with every mistake reported at once."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from sweeper.errors import Problems, SpecError, unknown
from sweeper.library.graph_workload import KERNEL_BY_KERNEL, OPTIMAL, Workload
from sweeper.library.library import Library, builtin_specs
from sweeper.library.packages import PackageDesign
from sweeper.library.table_workload import OperatorTable
from sweeper.library.uncertain import DRAW
from sweeper.reading import checks
from sweeper.reading.nodes import Node, error, read_yaml
from sweeper.study.axes import Axis, Constants, axis_columns, depends, is_table, read_axis
from sweeper.study.columns import ALL, ASSUMABLE, PARTITIONING, REQUIRED, Stock, about, read_value, unknown_column
from sweeper.study.optimize import Optimize, read_optimize, shares_of
from sweeper.words.system import GENERATED_FROM, NAMED_DEFAULTS, NUMBERS, OPTIONAL_ROLES, PLACEHOLDER

__all__ = ["Axis", "Box", "Objective", "Output", "Study", "load_study"]

BANDS = "bands"
"""Mode that reduces the searched axes, draws above all, to quantiles of every column."""
OPTIMIZED = "optimized"
"""Mode that searches continuous columns too; a study has it if it says what to optimize."""
MODES = ("all", "feasible", "best", "top_k", "pareto", BANDS, OPTIMIZED)
SEARCHING = ("best", "top_k", "pareto")
"""Modes that reduce the searched axes by the objectives."""

MAX_BOXES = 10_000
MAX_TOP_K = 1_000_000

_KEYS = ("study", "title", "description", "assumptions", "axes", "boxes", "search", "objective", "optimize", "output")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")


@dataclass(frozen=True)
class Box:
    """A product of axes: the swept ones in the order of the file, then the searched ones."""

    axes: tuple[Axis, ...]


@dataclass(frozen=True)
class Objective:
    """A column to minimise or maximise."""

    column: str
    sense: str


@dataclass(frozen=True)
class Output:
    """What a study keeps: rows by `mode`, the metric `columns` (None: the usual ones), in float32 if asked."""

    mode: str
    columns: tuple[str, ...] | None
    float32: bool
    top_k: int


@dataclass(frozen=True, eq=False)
class Study:
    """A study with all its names resolved; `workloads` are those that it names, by their canonical names."""

    name: str
    title: str
    boxes: tuple[Box, ...]
    objectives: tuple[Objective, ...]
    output: Output
    library: Library
    workloads: Mapping[str, Workload | OperatorTable]
    path: Path
    packages: Mapping[str, PackageDesign] = field(default_factory=dict)
    optimize: Optimize | None = None


@dataclass(frozen=True)
class _Given:
    """An axis as written; `home` is the mapping that has it as a key."""

    name: str
    node: Node
    home: Node
    searched: bool


@dataclass
class _Draft:
    """A box while it is read: axes as written, then as read, and where the box stands.

    `whole` is false if some axes are unknown or unreadable, so that no column can be said to be missing.
    """

    node: Node
    title: str
    whole: bool
    given: dict[str, _Given]
    assumed: dict[str, float | str]
    read: dict[str, Axis] = field(default_factory=dict)


def load_study(path: Path | str, library_dirs: Sequence[Path | str] = ()) -> Study:
    """Read a study; its library is `library_dirs`, earlier ones first, and then the built-in one.

    Raises SpecError with all mistakes of the study and of the library entries that it names.
    """
    path = Path(path)
    root = read_yaml(path)
    problems = Problems()
    stock = Stock(Library.load([*map(Path, library_dirs), builtin_specs()]))
    given = checks.known_fields(root, "a study", _KEYS, problems)
    name = ""
    with problems.collecting():
        name = _name(root, given)
    title = ""
    with problems.collecting():
        title = checks.text(given["title"], "title") if "title" in given else ""
    with problems.collecting():
        if "description" in given:
            checks.text(given["description"], "description")
    boxes = [_box(draft, stock, problems) for draft in _drafts(root, given, stock, problems)]
    objectives: tuple[Objective, ...] = ()
    with problems.collecting():
        objectives = _objectives(given["objective"]) if "objective" in given else ()
    searched = {name for box in boxes for axis in box.axes if axis.searched for name in axis.columns}
    optimize: Optimize | None = None
    with problems.collecting():
        optimize = read_optimize(given["optimize"], max(len(objectives), 1)) if "optimize" in given else None
    output = Output("all", None, False, 10)
    with problems.collecting():
        usual = OPTIMIZED if optimize else "best" if objectives and searched else "all"
        output = _output(given.get("output"), usual)
    # A study whose axes could not be read has not failed to give them.
    if not problems:
        problems.extend(_unfit(root, given, output, objectives, searched))
        if output.mode == OPTIMIZED:
            problems.extend(_unoptimized(given, boxes, optimize, objectives))
    problems.raise_any()
    return Study(name, title, tuple(boxes), objectives, output, stock.library, stock.workloads, path, stock.packages,
                 optimize if output.mode == OPTIMIZED else None)  # fmt: skip


def optimized(study: Study, settings: Mapping[str, Any]) -> Study:
    """A study that searches continuous columns too, as it says itself or by default, with some settings replaced.

    Raises SpecError if it has nothing to optimize.
    """
    node = read_yaml(study.path)
    given = checks.mapping(node, "a study")
    plain = Optimize(None, {}, 10, 100, 0, 4, "gradient", ((1.0,) * len(study.objectives),), ())
    said = read_optimize(given["optimize"], len(study.objectives)) if "optimize" in given else plain
    found = replace(said, **settings)
    problems = _unoptimized({"optimize": node, **given}, study.boxes, found, study.objectives)
    problems.raise_any()
    return replace(study, optimize=found, output=replace(study.output, mode=OPTIMIZED))


def _unoptimized(
    given: Mapping[str, Node], boxes: Sequence[Box], optimize: Optimize | None, objectives: Sequence[Objective]
) -> Problems:
    """Problems of a search over continuous columns."""
    problems = Problems()
    node = given.get("optimize", given.get("output"))
    assert node is not None
    if optimize is None:
        problems.append(node.problem(f"mode {OPTIMIZED} needs the key optimize, e.g. optimize: {{starts: 10}}"))
    if not objectives:
        problems.append(node.problem("nothing to optimize; add e.g. objective: {minimise: iteration_time_s}"))
    absent = set(optimize.shares or ()) if optimize is not None else set()
    for number, box in enumerate(boxes, 1):
        named = {name for axis in box.axes for name in axis.columns}
        absent -= {*shares_of(named)}
        if DRAW in {name for axis in box.axes if axis.searched for name in axis.columns}:
            problems.append(given.get("search", node).problem("the best draw is luck: sweep draws"))
        if optimize is not None and not optimize.columns(named):
            problems.append(node.problem(f"box {number} leaves no column to optimize; it needs an axis template"))
        for name in optimize.ranges if optimize is not None else ():
            role = name.partition(".")[0]
            if role in OPTIONAL_ROLES and role not in named:
                problems.append(node.problem(f"box {number}: nothing has {name} without an axis {role}"))
            if GENERATED_FROM.get(role) in named:
                message = f"box {number}: {name} is generated from the {GENERATED_FROM[role]}; give that a range"
                problems.append(node.problem(message))
    for name in sorted(absent):
        problems.append(node.problem(f"no chip of the study has the part of {name}"))
    return problems


def _name(root: Node, given: Mapping[str, Node]) -> str:
    if "study" not in given:
        raise SpecError([checks.absent(root, "study", "the study has no name; write study: my_study")])
    name = checks.text(given["study"], "the study's name")
    if not _NAME.match(name):
        raise error(given["study"], f"found {name!r}; a study's name has letters, digits, and _ . - after the first")
    return name


def _drafts(root: Node, given: Mapping[str, Node], stock: Stock, problems: Problems) -> Iterator[_Draft]:
    """The boxes as written, with the axes and assumptions that all of them share."""
    before = len(problems)
    shared = _axes(given, problems)
    whole = len(problems) == before
    assumed = _assumptions(given.get("assumptions"), stock, problems)
    if "boxes" not in given:
        yield _Draft(root, "the study", whole, shared, assumed)
        return
    nodes: tuple[Node, ...] = ()
    with problems.collecting():
        nodes = checks.items(given["boxes"], "boxes")
        if len(nodes) > MAX_BOXES:
            raise error(given["boxes"], f"{len(nodes)} boxes; a study has at most {MAX_BOXES}")
    for number, node in enumerate(nodes, 1):
        before = len(problems)
        own = checks.known_fields(node, "a box", ("axes", "search", "assumptions"), problems)
        axes = {**shared, **_axes(own, problems)}
        readable = whole and len(problems) == before
        more = _assumptions(own.get("assumptions"), stock, problems)
        yield _Draft(node, f"box {number}", readable, axes, {**assumed, **more})


def _axes(given: Mapping[str, Node], problems: Problems) -> dict[str, _Given]:
    """Axes of the study or of a box by name."""
    found: dict[str, _Given] = {}
    for key, searched in (("axes", False), ("search", True)):
        with problems.collecting():
            if key not in given:
                continue
            home = given[key]
            for name, node in checks.mapping(home, key).items():
                if not is_table(node) and name not in ALL:
                    problems.append(home.key_problem(name, unknown_column(name)))
                    continue
                if name in found:
                    problems.append(home.key_problem(name, f"axis {name!r} is both swept and searched"))
                found[name] = _Given(name, node, home, searched)
    return found


def _assumptions(node: Node | None, stock: Stock, problems: Problems) -> dict[str, float | str]:
    """Columns that assumptions give, by name: named sets and mappings, later ones over earlier ones."""
    found: dict[str, float | str] = {}
    if node is None:
        return found
    with problems.collecting():
        for part in checks.items(node, "assumptions") if isinstance(node.value, tuple) else (node,):
            with problems.collecting():
                values = part
                if not isinstance(part.value, dict):
                    entry = stock.library.find_at("assumptions", part)
                    if "values" not in entry.body:
                        raise error(entry.node, f"the assumptions {entry.name!r} lack the key 'values'")
                    values = entry.body["values"]
                for name, value in checks.known_fields(values, "assumptions", ASSUMABLE, problems).items():
                    with problems.collecting():
                        found[name] = read_value(name, value, stock)
    return found


def _box(draft: _Draft, stock: Stock, problems: Problems) -> Box:
    """Read the axes of a box: first those that stand alone, then those that depend on their single values."""
    before = len(problems)
    owners = _owners(draft, problems)
    assumed = {name: Axis(name, (name,), ((value,),), False)
               for name, value in draft.assumed.items() if name not in owners}  # fmt: skip
    draft.read |= assumed
    for later in (False, True):
        constants = _constants(draft)
        for given in draft.given.values():
            # What failed before would be reported as unknown by the axes that depend on it.
            if depends(given.node) == later and (not later or (draft.whole and len(problems) == before)):
                with problems.collecting():
                    draft.read[given.name] = read_axis(given.name, given.node, given.searched, stock, constants)
    for column in REQUIRED:
        generated = GENERATED_FROM.get(column) in owners
        if column not in owners and draft.whole and not generated:
            problems.append(checks.absent(draft.node, column, f"{draft.title} lacks the column {column!r} "
                                          f"({about(column)}); give it under axes"))  # fmt: skip
    _check_partitionings(draft, owners, stock, problems)
    _check_joint(draft, owners, problems)
    _check_generated(draft, owners, problems)
    _check_parameters(draft, owners, stock, problems)
    swept = [draft.read[name] for name in draft.given if name in draft.read and not draft.given[name].searched]
    searched = [draft.read[name] for name in draft.given if name in draft.read and draft.given[name].searched]
    return Box((*swept, *assumed.values(), *searched))


def _owners(draft: _Draft, problems: Problems) -> dict[str, _Given]:
    """Axis that gives each column of a box; a column that two axes give is a problem."""
    owners: dict[str, _Given] = {}
    for given in draft.given.values():
        with problems.collecting():
            for column in axis_columns(given.name, given.node):
                if column in owners:
                    first = owners[column]
                    message = (f"in {draft.title}, column {column!r} comes from axis {given.name!r} and from axis "
                               f"{first.name!r} (line {first.home.marks[first.name][0]})")  # fmt: skip
                    raise SpecError([given.home.key_problem(given.name, message)])
                owners[column] = given
    return owners


def _constants(draft: _Draft) -> Constants:
    """Columns with a single value among the axes read so far, the defaults of the vocabulary included."""
    values: dict[str, float | str] = {
        name: attribute.default for name, attribute in NUMBERS.items() if attribute.default is not None
    }
    values |= NAMED_DEFAULTS
    counts: dict[str, int] = {}
    given = {column for axis in draft.given.values() if depends(axis.node) for column in _columns(axis)}
    for axis in draft.read.values():
        for position, column in enumerate(axis.columns):
            found = {row[position] for row in axis.rows}
            counts[column] = len(found)
            if len(found) == 1:
                values[column] = found.pop()
    varying = {column for column, count in counts.items() if count > 1}
    return Constants({name: value for name, value in values.items() if name not in varying | given}, counts)


def _columns(given: _Given) -> tuple[str, ...]:
    try:
        return axis_columns(given.name, given.node)
    except SpecError:
        return ()


def _check_partitionings(draft: _Draft, owners: Mapping[str, _Given], stock: Stock, problems: Problems) -> None:
    """A partitioning must exist for every workload that it meets."""
    owner = owners.get(PARTITIONING)
    if owner is None or owner.name not in draft.read:
        return
    axis = draft.read[owner.name]
    source = next((other for other in draft.read.values() if "workload" in other.columns), None)
    if source is None:
        return
    for workload, partitioning in sorted(_meetings(source, "workload", axis, PARTITIONING)):
        allowed = stock.workload(workload).partitions
        if partitioning not in allowed:
            message = f"{unknown('partitioning', partitioning, allowed)} for workload {workload!r} in {draft.title}"
            problems.append(_value_node(owner.node, partitioning).problem(message))


def _check_joint(draft: _Draft, owners: Mapping[str, _Given], problems: Problems) -> None:
    """A sharding chosen together with the partition needs a partition that is chosen."""
    source = next((axis for axis in draft.read.values() if "sharding" in axis.columns), None)
    if source is None or not any("joint" in row for row in source.rows):
        return
    axis = next((other for other in draft.read.values() if PARTITIONING in other.columns), None)
    met = {("joint", KERNEL_BY_KERNEL)} if axis is None else _meetings(source, "sharding", axis, PARTITIONING)
    for sharding, partitioning in sorted(met):
        if sharding == "joint" and partitioning != OPTIMAL:
            node = _value_node(owners["sharding"].node, "joint") if "sharding" in owners else draft.node
            message = f"sharding 'joint' needs partitioning {OPTIMAL!r}, found {partitioning!r} in {draft.title}"
            problems.append(node.problem(message))


def _check_generated(draft: _Draft, owners: Mapping[str, _Given], problems: Problems) -> None:
    """Memory and links are generated for a chip that is generated too, and nothing is both listed and generated."""

    def complain(column: str, message: str) -> None:
        problems.append(owners[column].home.key_problem(owners[column].name, message))

    for column in GENERATED_FROM:
        if PLACEHOLDER in _names(draft, column):
            complain(column, f"{PLACEHOLDER!r} stands for a {column} that is generated; leave {column} out")
    if "template" not in owners:
        for role in sorted({"technology", *GENERATED_FROM.values()} & owners.keys()):
            example = "add an axis such as template: deepflow_v100"
            complain(role, f"a {role} needs a chip that is generated too; {example}")
        return
    for column, role in GENERATED_FROM.items():
        if column in owners and role in owners:
            complain(column, f"the {role} generates the {column.replace('_', ' ')}; leave one of the two out")
    if "lane" in owners and not {"outer_lane", "outer_link"} & owners.keys():
        complain("lane", "lanes serve the first dimension; say what serves the others: outer_lane or outer_link")


def _check_parameters(draft: _Draft, owners: Mapping[str, _Given], stock: Stock, problems: Problems) -> None:
    """A parameter of a model or a package may be overridden only where every one of the box has it."""
    for column, owner in owners.items():
        role, _, parameter = column.partition(".")
        if role not in ("workload", "package") or not parameter or owner.name not in draft.read:
            continue
        for name in _names(draft, role):
            if parameter not in stock.parameters(role, name):
                message = f"{role} {name!r} has no parameter {parameter!r} that a study may override"
                problems.append(owner.home.key_problem(owner.name, message))
    for column, owner in owners.items():
        role, _, attribute = column.partition(".")
        if role in OPTIONAL_ROLES and attribute and not _names(draft, role):
            problems.append(owner.home.key_problem(owner.name, f"nothing has this without an axis {role}"))
    for name in _names(draft, "package"):
        for role, example in (("node", "n5"), ("template", "gpu_n7")):
            if stock.package(name).reads(role) and not _names(draft, role):
                message = f"package {name!r} takes its {role} from the study; add an axis such as {role}: {example}"
                problems.append(owners["package"].home.key_problem(owners["package"].name, message))
        if stock.package(name).reads("chip") and "template" in owners:
            message = f"package {name!r} reads numbers of a chip of the library, but a template generates the chip"
            problems.append(owners["package"].home.key_problem(owners["package"].name, message))


def _names(draft: _Draft, role: str) -> tuple[str, ...]:
    """Entries that fill a role in the box."""
    source = next((axis for axis in draft.read.values() if role in axis.columns), None)
    if source is None:
        return ()
    position = source.columns.index(role)
    return tuple(dict.fromkeys(str(row[position]) for row in source.rows))


def _meetings(first: Axis, left: str, second: Axis, right: str) -> set[tuple[str, str]]:
    """Pairs of values of two columns that occur together: columns of one axis meet only in its rows."""
    lefts = [str(row[first.columns.index(left)]) for row in first.rows]
    rights = [str(row[second.columns.index(right)]) for row in second.rows]
    return set(zip(lefts, rights)) if first is second else set(product(set(lefts), set(rights)))


def _value_node(node: Node, text: str) -> Node:
    """The first scalar inside a node that has this text; the node itself if there is none."""
    pending = [node]
    while pending:
        at = pending.pop(0)
        if isinstance(at.value, dict):
            pending.extend(at.value.values())
        elif isinstance(at.value, tuple):
            pending.extend(at.value)
        elif at.text.strip() == text:
            return at
    return node


def _objectives(node: Node) -> tuple[Objective, ...]:
    found: dict[str, Objective] = {}
    for item in checks.items(node, "objective") if isinstance(node.value, tuple) else (node,):
        given = checks.fields(item, "an objective", ("minimise", "maximise"))
        if len(given) != 1:
            raise error(item, "an objective is {minimise: column} or {maximise: column}")
        for sense, value in given.items():
            column = checks.text(value, "the column of an objective")
            if column in found:
                raise error(value, f"column {column!r} is an objective already")
            found[column] = Objective(column, sense)
    return tuple(found.values())


def _output(node: Node | None, mode: str) -> Output:
    """What to keep; the mode is `mode` if none is given."""
    if node is None:
        return Output(mode, None, False, 10)
    given = checks.fields(node, "output", ("mode", "columns", "float32", "top_k"))
    problems = Problems()
    columns: tuple[str, ...] | None = None
    float32, top_k = False, 10
    with problems.collecting():
        mode = checks.choice(given["mode"], "output mode", MODES) if "mode" in given else mode
    with problems.collecting():
        columns = checks.texts(given["columns"], "columns") if "columns" in given else None
    with problems.collecting():
        float32 = "float32" in given and checks.boolean(given["float32"], "float32")
    with problems.collecting():
        top_k = checks.whole(given["top_k"], "top_k", 1, MAX_TOP_K) if "top_k" in given else 10
    problems.raise_any()
    return Output(mode, columns, float32, top_k)


def _unfit(
    root: Node, given: Mapping[str, Node], output: Output, objectives: Sequence[Objective], searched: Collection[str]
) -> Problems:
    """Problems of a mode that does not go with the objectives and the search."""
    problems = Problems()
    node = given.get("output", root)
    if output.mode not in (*SEARCHING, BANDS):
        return problems
    if output.mode == BANDS and set(searched) - {DRAW}:
        problems.append(node.problem("mode bands searches draws only: a quantile over choices says nothing"))
    if output.mode != BANDS and DRAW in searched:
        problems.append(node.problem("the best draw is luck: sweep draws, or take mode bands"))
    if output.mode == BANDS and objectives:
        problems.append(given["objective"].problem("mode bands keeps quantiles of all points and takes no objective"))
    if output.mode != BANDS and not objectives:
        problems.append(node.problem(f"mode {output.mode} needs an objective, e.g. objective: {{minimise: "
                                     "iteration_time_s}"))  # fmt: skip
    if not searched:
        problems.append(node.problem(f"mode {output.mode} needs at least one axis under 'search' in every box"))
    if len(objectives) > 1 and output.mode != "pareto":
        problems.append(given["objective"].problem(f"found {len(objectives)} objectives; mode {output.mode} takes "
                                                   "one, mode pareto several"))  # fmt: skip
    return problems
