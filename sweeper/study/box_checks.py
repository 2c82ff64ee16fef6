"""What must hold between the axes of a box."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sweeper.errors import Place, Problem, Problems, listed, unknown
from sweeper.kernels.codes import RECOMPUTE_MODULES
from sweeper.library.graph_workload import OPTIMAL
from sweeper.library.table_workload import POSITIONS, positions_of, sequence_of
from sweeper.reading.nodes import Node
from sweeper.study.columns import PARTITIONING, Stock
from sweeper.study.drafts import BoxDraft, WrittenAxis
from sweeper.words.chips import EDGE_PARTS, SHARES
from sweeper.words.columns import default
from sweeper.words.system import GENERATED_FROM, OPTIONAL_ROLES, PLACEHOLDER


def check_partitionings(draft: BoxDraft, owners: Mapping[str, WrittenAxis], stock: Stock, problems: Problems) -> None:
    """A partitioning must exist for every workload that it meets."""
    owner = owners.get(PARTITIONING)
    if owner is None or owner.name not in draft.read:
        return
    for workload, partitioning in draft.combinations(("workload", PARTITIONING)) if draft.names("workload") else ():
        allowed = stock.workload(str(workload)).partitions
        if partitioning not in allowed:
            message = (
                f"{unknown('partitioning', str(partitioning), allowed)} for workload {workload!r} in {draft.title}"
            )
            problems.append(_value_node(owner.node, str(partitioning)).problem(message))


def check_joint(draft: BoxDraft, owners: Mapping[str, WrittenAxis], problems: Problems) -> None:
    """A sharding chosen together with the partition needs a partition that is chosen."""
    for sharding, partitioning in draft.combinations(("sharding", PARTITIONING)):
        if sharding == "joint" and partitioning != OPTIMAL:
            node = _value_node(owners["sharding"].node, "joint") if "sharding" in owners else draft.node
            message = f"sharding 'joint' needs partitioning {OPTIMAL!r}, found {partitioning!r} in {draft.title}"
            problems.append(node.problem(message))


MICROBATCH = "microbatch"

BALANCED_BY = ("core_register", "core_l1", "l1_bank_width", "l2_bank_width")
"""Numbers of a template from which the parts of a chip are made to fit each other; 0: not known."""
UNREAD_IF_BALANCED = SHARES.keys() - {
    "l2_area_share", "lane_area_share", "outer_lane_area_share", *(f"{part}_edge_share" for part in EDGE_PARTS)
}  # fmt: skip
"""Shares of a template that a balanced chip finds for itself."""
BESIDE = {"stack": ("stack",), "lane or an outer_lane": ("lane", "outer_lane")}
"""What must be generated with a balanced chip, as it takes area and power from the cores, and roles that name it."""


def unbalanced(values: Mapping[str, float], named: Collection[str]) -> str:
    """What a balanced chip lacks, given the numbers of its template and the roles that are named; empty if nothing."""
    lacking = [f"template.{name} above 0" for name in BALANCED_BY if not values[name] > 0.0]
    return " and ".join([*lacking, *(f"a {what}" for what, roles in BESIDE.items() if set(roles).isdisjoint(named))])


def check_balanced(draft: BoxDraft, owners: Mapping[str, WrittenAxis], stock: Stock, problems: Problems) -> None:
    """A balanced chip needs a template that says what a core holds and what banks deliver, a box that does, and what
    lies beside the cores; and crossbars that share ports."""
    columns = ("template", "chip_split", "cache_network", *(f"template.{name}" for name in BALANCED_BY))
    for template, split, network, *given in draft.combinations(columns) if draft.names("template") else ():
        if split != "balanced":
            continue
        node = owners["chip_split"].node if "chip_split" in owners else draft.node
        listed = stock.library.find("template", str(template)).values
        numbers = {name: listed[name].number for name in BALANCED_BY}
        numbers |= {name: float(value) for name, value in zip(BALANCED_BY, given) if f"template.{name}" in owners}
        if lacking := unbalanced(numbers, owners.keys()):
            message = f"chip_split: balanced with template {template!r} needs {lacking}, in {draft.title}"
            problems.append(node.problem(message))
        elif network != "shared_ports":
            message = f"chip_split: balanced needs cache_network: shared_ports, found {network}, in {draft.title}"
            problems.append(node.problem(message))
    splits = {split for (split,) in draft.combinations(("chip_split",))} if draft.names("template") else set()
    for name in sorted(UNREAD_IF_BALANCED) if splits == {"balanced"} else ():
        if f"template.{name}" in owners:
            message = (
                f"nothing reads template.{name} in {draft.title}: a balanced chip finds it for itself; leave it out"
            )
            problems.append(owners[f"template.{name}"].problem(message))


def check_priced_dies(draft: BoxDraft, owners: Mapping[str, WrittenAxis], stock: Stock, problems: Problems) -> None:
    """Packages of generated chips price the chip's own dies, not those of its interfaces."""
    owner = owners.get("template.io_area")
    columns = ("template", "chip_cost", "template.io_area")
    for template, cost, given in draft.combinations(columns) if draft.names("template") else ():
        listed_mm2 = stock.library.find("template", str(template)).values["io_area"].number
        if cost == "package" and (given if owner is not None else listed_mm2) != 0.0:
            node = draft.node if owner is None else owner.node
            message = f"chip_cost: package does not know the dies of template.io_area, in {draft.title}; leave one out"
            problems.append(node.problem(message))
            return


@dataclass(frozen=True)
class Above:
    """Numbers above another."""

    least: float

    def __contains__(self, value: object) -> bool:
        return isinstance(value, float | int) and value > self.least

    def __str__(self) -> str:
        return f"above {self.least:g}"


@dataclass(frozen=True)
class OneOf:
    """Some values."""

    values: tuple[float | str, ...]

    def __contains__(self, value: object) -> bool:
        return value in self.values

    def __str__(self) -> str:
        return " or ".join(f"{value:g}" if isinstance(value, float) else value for value in self.values)


PARTS = tuple(f"recompute_{part}" for part in RECOMPUTE_MODULES[1:])
TRAINED = (
    "optimizer", "moment_format", "optimizer_state", "gradient_format", "zero_stage", "recompute", "schedule",
    "activation_offload", "optimizer_offload", "workload.loss_chunks",
)  # fmt: skip
IN_TRAINING, IN_FULL, IN_PARTS = (
    {column: OneOf((value,))}
    for column, value in (("task", "training"), ("recompute", "full"), ("recompute", "selective"))
)
DRAFTED_BY = ("draft_layers", "draft_time")
DRAFTED = {"speculated_tokens": Above(0.0)}
AWAY = {f"{part}_offload": Above(0.0) for part in ("weight", "activation", "optimizer")}
READ_WITH: Mapping[str, Mapping[str, Above | OneOf]] = {
    **dict.fromkeys(TRAINED, IN_TRAINING),
    **dict.fromkeys(("recompute_share", "checkpoint_interval", "kept_results"), IN_FULL),
    **dict.fromkeys(PARTS, IN_PARTS),
    "shard_group": {"zero_stage": OneOf((3.0,))},
    "gradient_bucket": {"zero_stage": OneOf((0.0, 1.0, 2.0))},
    "parameter_bucket": {"zero_stage": OneOf((1.0, 2.0))},
    "virtual_stages": {"schedule": OneOf(("interleaved",))},
    "cache_format": {"task": OneOf(("inference",))},
    "context_exchange": {"context_parallel": Above(1.0)},
    **dict.fromkeys(("offload_bandwidth", "offload_capacity"), AWAY),
    **dict.fromkeys(("acceptance_rate", "acceptance_law", *DRAFTED_BY), DRAFTED),
    "sequence_parallel": {"tensor_rows": OneOf((1.0,))},  # a grid splits norms and residuals anyway
    "workload.nodes_per_token": {"expert_dispatch": OneOf(("per_chip",))},
}
"""Columns that count only where one of some other columns has one of some values."""


def check_read_with(draft: BoxDraft, owners: Mapping[str, WrittenAxis], problems: Problems) -> None:
    """What a box asks of a column counts somewhere: beside the choice that it belongs to."""
    for column, others in READ_WITH.items():
        if column not in owners:
            continue
        asked = [beside for value, *beside in draft.combinations((column, *others)) if value != default(column)]
        if asked and not any(one in values for each in asked for one, values in zip(each, others.values())):
            wanted = ", or ".join(f"{other}: {values}" for other, values in others.items())
            message = f"nothing reads {column} in {draft.title}: it counts with {wanted} only"
            problems.append(owners[column].problem(f"{message}; give that too, or leave {column} out"))


OF_EXPERTS = (
    "expert_parallel", "expert_tensor_parallel", "expert_imbalance", "expert_overlap", "expert_dispatch",
    "expert_format", "expert_compute_format", "calibration.expert_efficiency", "calibration.expert_launches",
    "workload.experts_per_token", "workload.expert_feed_forward", "workload.capacity_factor", "workload.dense_layers",
    "workload.expert_interval",
)  # fmt: skip
"""Columns that only layers with routed experts read."""


def check_experts(draft: BoxDraft, owners: Mapping[str, WrittenAxis], stock: Stock, problems: Problems) -> None:
    """What a box asks of routed experts counts in some model: one that has them."""
    for column in OF_EXPERTS:
        if column not in owners or owners[column].name not in draft.read:
            continue
        asked = [
            (str(workload), float(experts))
            for workload, value, experts in draft.combinations(("workload", column, "workload.experts"))
            if column.partition(".")[1] or value != default(column)
        ]
        if asked and not any(_experts(stock, workload, given) > 0.0 for workload, given in asked):
            without = listed(sorted({workload for workload, _ in asked}))
            message = f"nothing reads {column} in {draft.title}: {without} has no routed experts"
            problems.append(owners[column].problem(f"{message}; leave {column} out"))


def _experts(stock: Stock, workload: str, given: float) -> float:
    """Routed experts of a layer: as many as a box gives, or else the workload's own."""
    own: float = getattr(stock.workload(workload), "parameters", {}).get("experts", 0.0)
    return own if math.isnan(given) else given


SCANS = ("scan_layers", "scan_heads", "attention_free_layers")


class _Scans(NamedTuple):
    """What a box makes of a model's recurrent layers: whether it replaces a number of theirs, how many there are and
    their heads, and how many layers have no attention."""

    workload: str
    replaces: bool
    layers: float
    heads: float
    free: float


def _scans(draft: BoxDraft, stock: Stock, column: str) -> Iterator[_Scans]:
    """One for every value of a column that replaces a number of recurrent layers."""
    given = [f"workload.{name}" for name in SCANS]
    for workload, asked, *numbers in draft.combinations(("workload", column, *given)):
        own = getattr(stock.workload(str(workload)), "parameters", {})
        found = [
            own.get(name, 0.0) if math.isnan(float(number)) else float(number)
            for name, number in zip(SCANS, numbers, strict=True)
        ]
        yield _Scans(str(workload), asked != own.get(column.partition(".")[2]), *found)


def check_scans(draft: BoxDraft, owners: Mapping[str, WrittenAxis], stock: Stock, problems: Problems) -> None:
    """What a box asks of recurrent layers counts in some: they need heads, and layers without attention to stand in."""
    for column, owner in owners.items():
        if not column.startswith("workload.scan_") or owner.name not in draft.read:
            continue
        found = list(_scans(draft, stock, column))
        for each in (each for each in found if each.layers > each.free):
            message = f"{each.layers:g} recurrent layers of workload {each.workload!r} in {draft.title}, but"
            advice = "no layer has both; give workload.attention_free_layers"
            problems.append(owner.problem(f"{message} {each.free:g} without attention: {advice}"))
            break
        for workload in dict.fromkeys(each.workload for each in found if each.replaces):
            if not any(each.layers * each.heads > 0 for each in found if each.workload == workload):
                message = f"nothing reads {column} for workload {workload!r} in {draft.title}"
                problems.append(owner.problem(f"{message}: it has no recurrent layers with heads; leave it out"))


def check_served(draft: BoxDraft, owners: Mapping[str, WrittenAxis], problems: Problems) -> None:
    """A server takes the requests of a microbatch together, and microbatches one after another: that of a batch of
    several is said, not assumed."""
    if MICROBATCH in owners or MICROBATCH in draft.assumed:
        return
    asked = draft.combinations(("task", "batch_size"))
    sizes = [float(size) for task, size in asked if task == "inference" and float(size) > 1.0]
    if sizes:
        node = owners["batch_size"].node if "batch_size" in owners else draft.node
        both = f"{{columns: [batch_size, microbatch], rows: [[{min(sizes):g}, {min(sizes):g}]]}}"
        message = (
            f"microbatch is 1 where a study does not say, so that {min(sizes):g} requests would be served one after "
            f"another; say which are served together, e.g. served: {both}, or microbatch: 1"
        )
        problems.append(node.problem(message))


def check_drafts(draft: BoxDraft, owners: Mapping[str, WrittenAxis], problems: Problems) -> None:
    """What drafts tokens for a server takes time: that it takes none is said, not assumed."""
    if any(name in owners or name in draft.assumed for name in DRAFTED_BY):
        return
    asked = draft.combinations(("task", "speculated_tokens"))
    if any(task == "inference" and float(tokens) > 0.0 for task, tokens in asked):
        place: Place = owners["speculated_tokens"].place if "speculated_tokens" in owners else draft.node.place
        message = (
            f"nothing says how long drafting takes in {draft.title}: give draft_layers (of the model itself), or "
            "draft_time (of a draft model; 0 s where tokens are looked up in the prompt)"
        )
        problems.append(place.problem(message))


def lone_samples(draft: BoxDraft, owners: Mapping[str, WrittenAxis]) -> Problem | None:
    """What is worth a remark: a training study that leaves microbatches at one sample, of which a replica has several.
    It is no mistake, but costs time that a study of larger microbatches would not."""
    if MICROBATCH in owners or MICROBATCH in draft.assumed:
        return None
    asked = draft.combinations(("task", "batch_size", "data_parallel"))
    counts = [float(size) / float(replicas) for task, size, replicas in asked if task == "training"]
    if max(counts, default=0.0) <= 1.0:
        return None
    place: Place = owners["batch_size"].place if "batch_size" in owners else draft.node.place
    return place.problem(
        f"microbatch is 1 where a study does not say: up to {max(counts):g} microbatches of one sample pass one after "
        "another; say microbatch: 1 if that is meant, or sweep it, e.g. microbatch: [1, 2, 4]"
    )


def beyond_positions(draft: BoxDraft, owners: Mapping[str, WrittenAxis], stock: Stock) -> Problem | None:
    """What else is worth a remark: sequences longer than the learned table of positions of their model, which is then
    another model."""
    columns = ["workload", "task", "sequence_length", "output_length", *({POSITIONS} & owners.keys())]
    longest = (0.0, 0.0, "")
    for workload, task, prompt, output, *said in draft.combinations(columns):
        table = stock.workload(str(workload))
        known = float(said[0]) if said else positions_of(table)
        length = (float(prompt) or sequence_of(table)) + (float(output) if task == "inference" else 0.0)
        if 0.0 < known < length:
            longest = max(longest, (length, known, str(workload)))
    length, known, name = longest
    if not name:
        return None
    at = owners.get("sequence_length") or owners.get("output_length") or owners["workload"]
    return at.problem(
        f"{name} knows {known:g} positions, and sequences have up to {length:g} tokens: say "
        f"{POSITIONS} of the model that is meant"
    )


def check_generated(draft: BoxDraft, owners: Mapping[str, WrittenAxis], problems: Problems) -> None:
    """Memory and links are generated for a chip that is generated too, and nothing is both listed and generated."""
    for column in GENERATED_FROM:
        if PLACEHOLDER in draft.names(column):
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


NEEDED_ROLES = {
    "node": "n5",
    "wafer": "wafer_300",
    "assembly": "cowos_s",
    "test": "package_test",
    "interface": "ucie_advanced_32g",
    "part": "hbm3_16gb",
    "template": "gpu_n7",
}
"""Roles that a package may leave to the study, with an entry for each."""


def check_parameters(draft: BoxDraft, owners: Mapping[str, WrittenAxis], stock: Stock, problems: Problems) -> None:
    """A parameter of a model or a package may be overridden only where every one of the box has it."""
    for column, owner in owners.items():
        role, _, parameter = column.partition(".")
        if role not in ("workload", "package") or not parameter or owner.name not in draft.read:
            continue
        for name in draft.names(role):
            allowed = stock.parameters(role, name)
            if parameter not in allowed:
                message = unknown(f"parameter of {role} {name!r} that a study may override", parameter, allowed)
                problems.append(owner.problem(message))
    for column, owner in owners.items():
        role, _, attribute = column.partition(".")
        if role in OPTIONAL_ROLES and attribute and not draft.names(role):
            problems.append(owner.problem(f"nothing has this without an axis {role}"))
    for name in draft.names("package"):
        for role, example in NEEDED_ROLES.items():
            if stock.package(name).reads(role) and role not in owners and not draft.names(role):
                message = f"package {name!r} takes its {role} from the study; add an axis such as {role}: {example}"
                problems.append(owners["package"].problem(message))
        if stock.package(name).reads("chip") and "template" in owners:
            message = f"package {name!r} reads numbers of a chip of the library, but a template generates the chip"
            problems.append(owners["package"].problem(message))


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
