"""What placement takes from a partition: the share of its bound that it reaches on the units of a dataflow fabric.

At the bound every unit is busy all the time. Placed, a partition has whole units, each with a whole block of an
operator, and streams that share lanes and ports: `sweeper.kernels.placement` simulates that, and
`sweeper.kernels.shared.demand` tells it from the operators alone, which is what a sweep of millions of points can
afford.
"""

from typing import Annotated

import numpy as np

from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.graphs.allocation import COLUMNS as TOKENS
from sweeper.kernels.graphs.allocation import DEPTH
from sweeper.kernels.graphs.allocation import ROWS as OUTPUTS
from sweeper.kernels.graphs.sharding import PRODUCTS, TYPE, WEIGHT
from sweeper.kernels.shared.demand import (
    BY_COLUMNS,
    BY_INNER,
    BY_ROWS,
    COLUMNS,
    CYCLES,
    DEMANDS,
    FIELDS,
    INNER,
    ROWS,
    STREAMED,
    Sites,
    UnitModel,
    demands,
    share_by_rules,
    share_learned,
    unit_cycles,
    vector_of,
    within,
)

SAMPLE_ROWS = 64.0
"""Tokens (columns of a kernel's result) that pass a partition together, at most."""
HALVINGS = 40
"""Steps in which units are shared out."""


@compiled
def sample_of(kernel_shapes: np.ndarray, kernel_traits: np.ndarray, cycles: float, operators: np.ndarray) -> None:
    """Write kernels as operators on one sample, not yet cut.

    Where a kernel has fewer tokens than another, as one that works on every sequence of a microbatch by itself, the
    others count as columns.
    """
    tokens = kernel_shapes[:, TOKENS].max()
    together = min(SAMPLE_ROWS, tokens)
    for i in range(len(operators)):
        shape, operator = kernel_shapes[i], operators[i]
        vectors = PRODUCTS[kernel_traits[i, TYPE]] == 0.0
        operator[ROWS] = min(together, shape[TOKENS])
        operator[COLUMNS] = np.ceil(shape[OUTPUTS] * (shape[TOKENS] / tokens) * (together / operator[ROWS]))
        operator[INNER] = 0.0 if vectors else shape[DEPTH]
        operator[CYCLES] = cycles if vectors else 0.0
        operator[STREAMED] = 0.0 if vectors or kernel_traits[i, WEIGHT] == 1 else 1.0


@compiled
def cut(operators: np.ndarray, count: int, sites: Sites) -> None:
    """Share the compute units of a fabric out among operators so that the slowest takes least: by columns first, which
    costs no sums, then along the inner dimension, then by rows."""
    units = np.floor(sites.rows * sites.columns / 2.0)
    least, most = 0.0, 0.0
    for i in range(count):
        least += unit_cycles(operators[i], sites) / units
        most = max(most, unit_cycles(operators[i], sites))
    for _ in range(HALVINGS):
        cycles, needed = (least + most) / 2.0, 0.0
        for i in range(count):
            needed += max(1.0, np.ceil(unit_cycles(operators[i], sites) / cycles))
        if needed <= units:
            most = cycles
        else:
            least = cycles
    for i in range(count):
        operator = operators[i]
        many = max(1.0, np.ceil(unit_cycles(operator, sites) / most))
        width = sites.compute_stages if operator[INNER] > 0.0 else vector_of(sites)
        deep = np.ceil(operator[INNER] / sites.compute_lanes) if operator[INNER] > 0.0 else 1.0
        operator[BY_COLUMNS] = min(many, np.ceil(operator[COLUMNS] / width))
        operator[BY_INNER] = min(np.floor(many / operator[BY_COLUMNS]), deep)
        operator[BY_ROWS] = min(np.floor(many / (operator[BY_COLUMNS] * operator[BY_INNER])), operator[ROWS])


@equation(
    Output("partition_demands", "", "what a partition asks of its units: sweeper.kernels.shared.demand.DEMANDS",
           ("partition", len(DEMANDS))),
    source="operators cut as sweeper.placing does it; Prabhakar et al., Plasticine, ISCA 2017",
)  # fmt: skip
@allocating
def partition_demands(
    partition_of: np.ndarray,
    kernel_shapes: np.ndarray,
    kernel_traits: np.ndarray,
    sites: Annotated[Sites, "fabric_{}"],
    partition_demands: np.ndarray,
) -> None:
    """Demands of every partition; 0 of one without kernels. What works on vectors counts as an activation."""
    kernels = len(partition_of)
    sample, members = np.empty((kernels, FIELDS)), np.empty((kernels, FIELDS))
    sample_of(kernel_shapes, kernel_traits, sites.activation_cycles, sample)
    for p in range(len(partition_demands)):
        count = 0
        for i in range(kernels):
            if partition_of[i] == p:
                members[count] = sample[i]
                count += 1
        partition_demands[p] = 0.0
        if count > 0:
            cut(members, count, sites)
            demands(members, count, sites, partition_demands[p])


SHARE = Output("partition_share", "", "share of its bound that a partition reaches on its units", ("partition",))
KNOWN = Output("unit_placement_known", "", "0 if a partition is not such as its unit model was trained on")


@equation(SHARE, KNOWN, source="DFModel B.4: every unit is busy all the time", when=("unit_placement", ("ideal",)))
def ideal_share(partition_share: np.ndarray) -> float:
    """Partitions run at their bounds."""
    partition_share[:] = 1.0
    return 1.0


@equation(SHARE, KNOWN, source="the busiest part decides", when=("unit_placement", ("rules",)))
def share_of_rules(partition_demands: np.ndarray, partition_share: np.ndarray) -> float:
    """A unit, its ports, the lanes on average, or ways; nothing was trained."""
    for p in range(len(partition_share)):
        partition_share[p] = share_by_rules(partition_demands[p])
    return 1.0


@equation(
    SHARE, KNOWN, source="trained on simulated placements: sweeper fit-units", when=("unit_placement", ("learned",))
)
def share_of_model(
    partition_demands: np.ndarray, model: Annotated[UnitModel, "unit_model_{}"], partition_share: np.ndarray
) -> float:
    """As the unit model says; demands outside its training count as those at its edge."""
    known = 1.0
    for p in range(len(partition_share)):
        partition_share[p] = share_learned(partition_demands[p], model)
        # A slot without kernels has no units and asks for nothing.
        if partition_demands[p].any() and not within(partition_demands[p], model.ranges):
            known = 0.0
    return known


@equation(
    Output("unit_share", "", "what placement leaves of the rate of compute at the bound of its units"),
    source="times of all partitions at their bounds, over those as placed",
)
def unit_share(partition_compute_s: np.ndarray, partition_share: np.ndarray) -> float:
    """1 where nothing computes."""
    bound_s, placed_s = 0.0, 0.0
    for p in range(len(partition_share)):
        bound_s += partition_compute_s[p]
        placed_s += partition_compute_s[p] / partition_share[p]
    return bound_s / placed_s if placed_s > 0.0 else 1.0
