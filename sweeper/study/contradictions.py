"""What a study says against itself, or against what its library entries say: a mistake, unless it is meant."""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sweeper.errors import Place, Problem, Problems
from sweeper.library.entries import Entry
from sweeper.study.columns import Stock
from sweeper.study.drafts import BoxDraft, WrittenAxis
from sweeper.study.implied_node import ITSELF, node_of
from sweeper.words.columns import default
from sweeper.words.system import ROLES

DIMENSIONS = ("dim_x", "dim_y", "dim_z")


class Pair(NamedTuple):
    """An entry in the role `part` may say which entry in the role `of` it belongs to; `override` allows any other."""

    part: str
    of: str
    override: str


PAIRS = (
    Pair("chip", "memory", "memory"),
    Pair("chip", "node", "node"),
    Pair("calibration", "chip", "calibration"),
    Pair("package", "chip", "package"),
    Pair("workload", "chip", "chip"),
    Pair("workload", "template", "template"),
    Pair("technology", "template", "technology"),
    Pair("technology", "node", "node"),
    Pair("fabric", "chip", "fabric"),
    Pair("unit_model", "fabric", "unit_model"),
)


def check_contradictions(
    draft: BoxDraft, owners: Mapping[str, WrittenAxis], stock: Stock, problems: Problems
) -> Iterator[Place]:
    """Problems of a box that contradicts itself; yields the places of overrides that allow something in it."""
    problems.extend(_of_dimensions(draft, owners, stock))
    problems.extend(_of_state(draft, owners))
    problems.extend(_of_contention(draft, owners, stock))
    problems.extend(_of_servers(draft, owners))
    for column, message in (*_of_entries(draft, stock), *_of_own_process(draft, stock)):
        if column in draft.overrides:
            yield draft.overrides[column]
        else:
            problems.append(
                _place(draft, owners, column).problem(f"{message}; say override: [{column}] if this is meant")
            )


def _place(draft: BoxDraft, owners: Mapping[str, WrittenAxis], column: str) -> Place:
    """Where a box says something of a column, or the box."""
    return owners[column].place if column in owners else draft.node.place


def _of_dimensions(draft: BoxDraft, owners: Mapping[str, WrittenAxis], stock: Stock) -> Iterator[Problem]:
    """The extents of the network's dimensions must multiply to the chips, along dimensions that the topology has."""
    if not draft.names("chips") or not draft.names("dim_x"):
        return
    for chips, *extents in draft.combinations(("chips", *DIMENSIONS)):
        if math.prod(map(float, extents)) != chips:
            unlike = f"{' x '.join(f'{extent:g}' for extent in extents)} is not {chips:g}"
            advice = "give them in a table with where: dim_x*dim_y*dim_z == chips"
            yield owners["dim_x"].place.problem(f"the dimensions do not hold the chips: {unlike}; {advice}")
            break
    for topology, *extents in draft.combinations(("topology", *DIMENSIONS)) if draft.names("topology") else ():
        count = len(stock.library.find("topology", str(topology)).dimensions)
        beyond = [name for name, extent in zip(DIMENSIONS[count:], extents[count:], strict=True) if extent != 1]
        if beyond:
            yield owners[beyond[0]].place.problem(f"topology {topology} has {count} dimensions; {beyond[0]} must be 1")
            return


OF_SERVERS = ("max_batched_tokens", "expert_format")
"""What only servers have."""


def _of_servers(draft: BoxDraft, owners: Mapping[str, WrittenAxis]) -> Iterator[Problem]:
    """Training passes whole microbatches, and keeps experts in the format of all weights."""
    for column in OF_SERVERS:
        if column not in owners:
            continue
        if any(task == "training" and value != default(column) for task, value in draft.combinations(("task", column))):
            yield owners[column].place.problem(
                f"nothing reads {column} in training; leave it out, or say task: inference"
            )


STATE = ("optimizer_state", "optimizer", "moment_format")
"""Who says how many bytes the state of an optimizer has: a number, or what it is made of."""


def _of_state(draft: BoxDraft, owners: Mapping[str, WrittenAxis]) -> Iterator[Problem]:
    """A state of so many bytes, and one of so many moments in a format, would be two answers to one question."""
    for state, *made_of in draft.combinations(STATE):
        said = [f"{name}: {value}" for name, value in zip(STATE[1:], made_of, strict=True) if value != default(name)]
        if state != default(STATE[0]) and said:
            message = f"optimizer_state is {state:g} B, but {' and '.join(said)} says what it is made of"
            yield owners["optimizer_state"].problem(f"{message}; leave one of the two out")
            return


OVERSUBSCRIPTION = {"oversubscription_y": 1, "oversubscription_z": 2}
"""Numbers of levels of switches, and the dimension of each."""


def _of_contention(draft: BoxDraft, owners: Mapping[str, WrittenAxis], stock: Stock) -> Iterator[Problem]:
    """Only switches are oversubscribed; links that routed groups share are not counted twice."""
    for name, axis in OVERSUBSCRIPTION.items():
        for topology, number in draft.combinations(("topology", name)) if draft.names("topology") else ():
            kinds = stock.library.find("topology", str(topology)).dimensions
            if number != 1 and kinds[axis : axis + 1] != ("switch",):
                message = f"topology {topology} has no switch in dimension {axis + 1}: {name} must be 1"
                yield _place(draft, owners, name).problem(message)
                break
    if ("max_min", "routed") in draft.combinations(("contention", "device_mapping")):
        message = "device_mapping: routed counts the links that groups share by itself: leave contention out"
        yield _place(draft, owners, "contention").problem(message)


def _of_entries(draft: BoxDraft, stock: Stock) -> Iterator[tuple[str, str]]:
    """Column and message of entries that belong to others than those that the box names beside them."""
    for pair in PAIRS:
        if not draft.names(pair.part) or not draft.names(pair.of):
            continue
        found = [
            (part, of)
            for part, of in (
                (_entry(stock, pair.part, str(left)), _entry(stock, pair.of, str(right)))
                for left, right in draft.combinations((pair.part, pair.of))
            )
            if not part.belongs_to(of)
        ]
        if found:
            part, of = found[0]
            more = f" (and {len(found) - 1} other combinations)" if len(found) > 1 else ""
            belongs = " or ".join(part.fits[of.kind]) or "none of the library"
            yield (
                pair.override,
                f"{pair.part} {part.name} goes with {pair.of} {belongs}, found {of.name}{more}",
            )


def _of_own_process(draft: BoxDraft, stock: Stock) -> Iterator[tuple[str, str]]:
    """The same of templates at the process for which their numbers hold, beside another node that a package reads."""
    reads = any(stock.package(name).reads("node") for name in draft.names("package"))
    if not reads or not draft.names("template") or not draft.names("node"):
        return
    named = draft.names("technology")
    for template, node, *technology in draft.combinations(("template", "node", *(["technology"] if named else []))):
        own = node_of(stock.library, ITSELF, str(template))
        itself = all(_entry(stock, "technology", str(each)).name == ITSELF for each in technology)
        if itself and own is not None and own != _entry(stock, "node", str(node)).name:
            of = f"technology {ITSELF} of" if named else "no technology is named that leads to another, and"
            yield "technology" if named else "node", f"{of} template {template} goes with node {own}, found {node}"
            return


def _entry(stock: Stock, role: str, name: str) -> Entry:
    return stock.library.find(ROLES[role], name)
