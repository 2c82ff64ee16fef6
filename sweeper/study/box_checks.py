"""What must hold between the axes of a box."""

from collections.abc import Mapping
from itertools import product

from sweeper.engine.space import Axis
from sweeper.errors import Problems, unknown
from sweeper.library.graph_workload import KERNEL_BY_KERNEL, OPTIMAL
from sweeper.reading.nodes import Node
from sweeper.study.columns import PARTITIONING, Stock
from sweeper.study.drafts import BoxDraft, WrittenAxis
from sweeper.words.system import GENERATED_FROM, OPTIONAL_ROLES, PLACEHOLDER


def check_partitionings(draft: BoxDraft, owners: Mapping[str, WrittenAxis], stock: Stock, problems: Problems) -> None:
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


def check_joint(draft: BoxDraft, owners: Mapping[str, WrittenAxis], problems: Problems) -> None:
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


def check_generated(draft: BoxDraft, owners: Mapping[str, WrittenAxis], problems: Problems) -> None:
    """Memory and links are generated for a chip that is generated too, and nothing is both listed and generated."""
    for column in GENERATED_FROM:
        if PLACEHOLDER in _names(draft, column):
            problems.append(
                owners[column].problem(f"{PLACEHOLDER!r} stands for a {column} that is generated; leave {column} out")
            )
    if "template" not in owners:
        for role in sorted({"technology", *GENERATED_FROM.values()} & owners.keys()):
            example = "add an axis such as template: deepflow_v100"
            problems.append(owners[role].problem(f"a {role} needs a chip that is generated too; {example}"))
        return
    for column, role in GENERATED_FROM.items():
        if column in owners and role in owners:
            problems.append(
                owners[column].problem(f"the {role} generates the {column.replace('_', ' ')}; leave one of the two out")
            )
    if "lane" in owners and not {"outer_lane", "outer_link"} & owners.keys():
        problems.append(
            owners["lane"].problem(
                "lanes serve the first dimension; say what serves the others: outer_lane or outer_link"
            )
        )


def check_parameters(draft: BoxDraft, owners: Mapping[str, WrittenAxis], stock: Stock, problems: Problems) -> None:
    """A parameter of a model or a package may be overridden only where every one of the box has it."""
    for column, owner in owners.items():
        role, _, parameter = column.partition(".")
        if role not in ("workload", "package") or not parameter or owner.name not in draft.read:
            continue
        for name in _names(draft, role):
            if parameter not in stock.parameters(role, name):
                message = f"{role} {name!r} has no parameter {parameter!r} that a study may override"
                problems.append(owner.problem(message))
    for column, owner in owners.items():
        role, _, attribute = column.partition(".")
        if role in OPTIONAL_ROLES and attribute and not _names(draft, role):
            problems.append(owner.problem(f"nothing has this without an axis {role}"))
    for name in _names(draft, "package"):
        for role, example in (("node", "n5"), ("template", "gpu_n7")):
            if stock.package(name).reads(role) and not _names(draft, role):
                message = f"package {name!r} takes its {role} from the study; add an axis such as {role}: {example}"
                problems.append(owners["package"].problem(message))
        if stock.package(name).reads("chip") and "template" in owners:
            message = f"package {name!r} reads numbers of a chip of the library, but a template generates the chip"
            problems.append(owners["package"].problem(message))


def _names(draft: BoxDraft, role: str) -> tuple[str, ...]:
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
