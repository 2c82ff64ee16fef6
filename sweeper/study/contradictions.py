"""What a study says against itself, or against what its library entries say: a mistake, unless it is meant."""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kernels.codes import RECOMPUTE
from sweeper.errors import Place, Problem, Problems
from sweeper.library.entries import Entry
from sweeper.library.table_workload import OperatorTable
from sweeper.study.columns import Stock
from sweeper.study.drafts import BoxDraft, WrittenAxis
from sweeper.words.system import ROLES

DIMENSIONS = ("dim_x", "dim_y", "dim_z")
ALWAYS_SUPPORTED = ("bf16", "fp16")
"""Formats that `peak_flops` is for; the others have a peak of their own, 0 where a chip does not support them."""
UNSCALED = {"mxfp8": "fp8", "mxfp4": "fp4", "nvfp4": "fp4"}
"""Formats with scales of blocks, which compute at the peak of another."""


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
    problems.extend(_of_recomputation(draft, owners, stock))
    for override, column, message in (*_of_entries(draft, stock), *_of_formats(draft, stock)):
        if override in draft.overrides:
            yield draft.overrides[override]
        else:
            place = owners[column].place if column in owners else draft.node.place
            problems.append(place.problem(f"{message}; say override: [{override}] if this is meant"))


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


def _of_recomputation(draft: BoxDraft, owners: Mapping[str, WrittenAxis], stock: Stock) -> Iterator[Problem]:
    """Only a table that says what its operators make can keep some of it: not those of Calculon, or of LSTMs."""
    if draft.names("recompute") and draft.names("workload"):
        for workload, recompute in draft.combinations(("workload", "recompute")):
            table = stock.workload(str(workload))
            if isinstance(table, OperatorTable) and not table.names_results and recompute not in RECOMPUTE[:3]:
                advice = f"recompute may be {', '.join(RECOMPUTE[:3])}"
                yield owners["recompute"].place.problem(
                    f"operators of {workload} name no result that {recompute} could keep; {advice}"
                )
                return


def _of_entries(draft: BoxDraft, stock: Stock) -> Iterator[tuple[str, str, str]]:
    """Override, column and message of entries that belong to others than those that the box names beside them."""
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
            belongs = " or ".join(part.fits[of.kind])
            yield (
                pair.override,
                pair.override,
                f"{pair.part} {part.name} goes with {pair.of} {belongs}, found {of.name}{more}",
            )


def _entry(stock: Stock, role: str, name: str) -> Entry:
    return stock.library.find(ROLES[role], name)


def _of_formats(draft: BoxDraft, stock: Stock) -> Iterator[tuple[str, str, str]]:
    """Override, column and message of a format in which a chip cannot compute."""
    for column in filter(draft.names, ("compute_format", "attention_format")):
        for chip, number_format in draft.combinations(("chip", column)):
            if not draft.names("chip") or number_format in ALWAYS_SUPPORTED:
                continue
            peak = f"peak_flops_{UNSCALED.get(str(number_format), number_format)}"
            entry = stock.library.find("chip", str(chip))
            if not draft.names(f"chip.{peak}") and entry.values[peak].number == 0.0:
                yield "format", column, f"chip {chip} does not compute in {number_format}: its {peak} is 0"
                return
