"""Wafers that packages take of each node, and how long it takes to have them where a foundry starts only so many.

A wafer's way through the line takes the `cycle_time` of its node however many there are; started one after the other,
the last of them comes so much later as it takes to start them all. Source: Ning, Tziantzioulis and Wentzlaff, "Supply
Chain Aware Computer Architecture", ISCA 2023 (TTM-CAS): time of a node is its latency and wafers over its rate.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from sweeper.designs.cost_draws import made_of
from sweeper.designs.package_draws import evaluate_design, own_numbers, with_numbers
from sweeper.kernels.packages.layout import DIE_CODES, DIE_NUMBERS, LAYER_NUMBERS, RESULT
from sweeper.library.library import Library
from sweeper.library.packages.design import PackageDesign, Quoted
from sweeper.study.settings import Settings


def layers_of(design: PackageDesign, row: int) -> list[int]:
    """Places of the numbers of a die's layers, from the lowest layer on."""
    first, count = (int(design.die_codes[row, DIE_CODES.index(code)]) for code in ("first_layer", "layers"))
    start = len(design.dies) * len(DIE_NUMBERS)
    return [start + (first + number) * len(LAYER_NUMBERS) for number in range(count)]


def node_at(design: PackageDesign, place: int, settings: Settings) -> str:
    """Node of the layer whose numbers start at a place."""
    cell = design.cells[place]
    return cell.entry if isinstance(cell, Quoted) else str(settings["node"])


def own_layers(design: PackageDesign) -> Iterable[tuple[int, int]]:
    """Row and place of every layer that is made for the package, not bought."""
    made = (row for row in range(len(design.dies)) if not design.bought[row])
    return ((row, place) for row in made for place in layers_of(design, row))


def nodes_of(design: PackageDesign, settings: Settings, library: Library) -> frozenset[str]:
    """Nodes of which the dies of one package take wafers; layers of dies of which it has none take none. Raises Misuse
    as `evaluate_design` does."""
    copies = evaluate_design(design, library, settings).results.view(RESULT)[0, :, 0]["copies"]
    return frozenset(node_at(design, place, settings) for row, place in own_layers(design) if copies[row] > 0.0)


def wafers_of(design: PackageDesign, settings: Settings, library: Library) -> dict[str, float]:
    """Wafers (and panels) of each node that one package that works takes: those of faulty dies and of what is lost in
    assembly among them."""
    named = evaluate_design(design, library, settings).results.view(RESULT)[0, :, 0]
    parents = design.die_codes[:, DIE_CODES.index("parent")]
    pieces = named["copies"] * made_of(parents.tolist(), named) / named["quality"][0]
    taken: dict[str, float] = {}
    for row, place in own_layers(design):
        if pieces[row] > 0.0:
            node = node_at(design, place, settings)
            wafers = pieces[row] / (named["test_yield"][row] * named["dies_per_wafer"][row])
            taken[node] = taken.get(node, 0.0) + float(wafers)
    return taken


def lead_time_s(design: PackageDesign, settings: Settings, library: Library, waits: Mapping[str, float]) -> float:
    """Time until a package is made whose wafers have waited, s, by node; those of a die's layers wait together."""
    numbers = own_numbers(design, library, settings)
    waited: dict[int, float] = {}
    for row, place in own_layers(design):
        waited[row] = max(waited.get(row, 0.0), waits.get(node_at(design, place, settings), 0.0))
    later: dict[int, float] = {}
    for row, wait in waited.items():
        stated = row * len(DIE_NUMBERS) + DIE_NUMBERS.index("given_lead_time_s")
        found = layers_of(design, row)[0] + LAYER_NUMBERS.index("cycle_time_s")
        at = found if np.isnan(numbers.at(stated)[0]) else stated
        later[at] = float(numbers.at(at)[0]) + wait
    return float(evaluate_design(with_numbers(design, later), library, settings).of("lead_time_s")[0])


def waits_s(
    taken: Sequence[Mapping[str, float]], volumes: Sequence[float], supply: Mapping[str, float]
) -> dict[str, float]:
    """Time to start all wafers of each node of which a supply is known, per s, for volumes of several packages."""
    wafers = total_of(taken, volumes)
    return {node: wafers[node] / rate for node, rate in supply.items() if node in wafers}


def total_of(taken: Sequence[Mapping[str, float]], volumes: Sequence[float]) -> dict[str, float]:
    """Wafers of each node that all packages take together."""
    total: dict[str, float] = {}
    for wafers, volume in zip(taken, volumes, strict=True):
        for node, each in wafers.items():
            total[node] = total.get(node, 0.0) + each * volume
    return total
