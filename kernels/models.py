"""The whole model: every equation that the engine may use, by family of workloads.

The families are dataflow graphs of kernels, tables of operators (transformers), models whose layers are such graphs
and all else such a table, and tables that are read as Calculon does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from sweeper.kernels import calculon, chips, graphs, packages, transformers
from sweeper.kernels.equation import Equation, declared
from sweeper.kernels.graphs import (
    allocation,
    conversions,
    elimination,
    fitting,
    loads,
    mapping,
    partition,
    sharding,
    stage_times,
    units,
)
from sweeper.kernels.graphs.metrics import chip_work, roofline
from sweeper.kernels.graphs.partition import AMORTISED
from sweeper.kernels.graphs.pipeline import weights_fit, weights_resident
from sweeper.kernels.graphs.rates import kernel_together
from sweeper.kernels.layers import links, relaxed
from sweeper.kernels.layers import pipeline as whole_layers
from sweeper.kernels.layers import rates as calibrated
from sweeper.kernels.layers import sums as layer_sums
from sweeper.kernels.shared import (
    band,
    chip,
    contention,
    dimensions,
    energy,
    feasibility,
    metrics,
    network,
    one_phase,
    ownership,
    price,
    rated_power,
    tokens,
)
from sweeper.kernels.transformers.rates import attainable_rates

GENERATING = declared(chips)
"""Equations that generate a chip, where a study names what it is generated from."""

SHARED = (*declared(chip, network, price, feasibility, packages, metrics, ownership), *GENERATING)
"""Equations of every family."""


def instead(own: Iterable[Equation], others: Iterable[Equation]) -> tuple[Equation, ...]:
    """Equations, and those of the others that write none of their columns."""
    mine = tuple(own)
    written = {output.name for equation in mine for output in equation.outputs}
    return (*mine, *(other for other in others if written.isdisjoint(output.name for output in other.outputs)))


ON_CHIP = (
    *declared(allocation, conversions, elimination, fitting, loads, mapping, sharding, units),
    *(equation for equation in declared(partition, stage_times) if AMORTISED not in equation.outputs),
    *(kernel_together, weights_fit, weights_resident, chip_work, roofline),
)
"""Equations of a graph on one chip of a tensor group: how it is split, cut and run."""

LAYERS = (
    *(replace(equation, when=None) for equation in declared(calibrated)),
    *declared(whole_layers, layer_sums),
)
"""Equations of a layer that is a graph: it runs at calibrated rates, whatever the choice for other graphs."""

MODELS: dict[str, tuple[Equation, ...]] = {
    "graph": instead(
        (*declared(contention, dimensions, one_phase, graphs, energy, calibrated, links), attainable_rates),
        SHARED,
    ),
    "operators": (*SHARED, *declared(transformers, tokens, band, energy)),
    "layers": instead(
        LAYERS,
        (*SHARED, *declared(transformers, tokens, band, energy), *ON_CHIP),
    ),
    "calculon": (*SHARED, *declared(calculon, rated_power)),
}
"""The whole model, by family of workloads."""


class Relaxation(NamedTuple):
    """Equations that stand in for lengthy ones, so that no point is worse in some columns than it really is.

    That holds under some choices of switches. `hope_holds` and `room_is_certain` tell of a point whether it does there,
    and whether the reason why it cannot run is the same; a reason that the stand-ins find is always the same.
    """

    equations: tuple[Equation, ...]
    under: Mapping[str, tuple[str, ...]]
    columns: frozenset[str]


ALONE = {
    "unit_allocation": ("ideal",),
    "unit_placement": ("ideal",),
    "contention": ("none",),
    "sharding": ("given", "least_bytes", "least_time"),
}
"""Choices under which partitions and messages do not depend on each other."""
BY_TIME = frozenset({"iteration_time_s", "utilisation", "samples_per_s", "cost_efficiency_flops_per_usd"})
MAPPED = (relaxed.unstaged, relaxed.passes_apart, relaxed.hoped_loads)
RELAXED = {
    "graph": Relaxation((*MAPPED, relaxed.hope_of_graphs), ALONE, BY_TIME),
    "layers": Relaxation((*MAPPED, relaxed.hope_of_layers), ALONE, BY_TIME),
}
"""What a search evaluates before it looks for mappings, by family of workloads."""
UNRELAXED = (relaxed.nothing_hoped,)
"""What it evaluates besides where there is nothing to look for."""
HOPED = (relaxed.HOPE.name, relaxed.ROOMY.name)

EQUATIONS: tuple[Equation, ...] = tuple(
    dict.fromkeys(
        equation
        for family in (*MODELS.values(), *(relaxation.equations for relaxation in RELAXED.values()), UNRELAXED)
        for equation in family
    )
)
"""Every equation."""
