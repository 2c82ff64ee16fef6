"""Compute units of a chip given to the kernels of a partition: as a fluid, or as whole units with whole tiles.

A partition runs its kernels side by side as a pipeline; it is as slow as its slowest kernel. A unit is a core with an
array of lanes x stages cells. A product may spread over a x b units, the rows over a, the columns over b; an
elementwise kernel spreads its rows over lanes and uses one column of every array (DFModel B.4, mode 2).
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.codes import SWITCHES
from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.graphs.sharding import PRODUCTS, TYPE

INTEGER = float(SWITCHES["unit_allocation"].index("integer"))
ROWS, DEPTH, COLUMNS = range(3)
"""Columns of `kernel_shapes`."""


class Units(NamedTuple):
    """The compute units of a chip: cores with an array of lanes x stages cells, and their clock period."""

    chip_cores: float
    chip_lanes: float
    chip_stages: float
    unit_cycle_s: float


@compiled
def cycles_each(shape: np.ndarray, kind: int) -> float:
    """Whole cycles of one pass of a unit over the inner dimension."""
    return np.ceil(PRODUCTS[kind] * shape[DEPTH])


@compiled
def kernel_cycles(shape: np.ndarray, kind: int, across: float, along: float, units: Units) -> float:
    """Cycles of a kernel on `across` x `along` units."""
    passes = np.ceil(shape[ROWS] / (across * units.chip_lanes))
    if PRODUCTS[kind] == 0.0:
        return passes * shape[COLUMNS]
    return passes * np.ceil(shape[COLUMNS] / (along * units.chip_stages)) * cycles_each(shape, kind)


@compiled
def units_needed(shape: np.ndarray, kind: int, cycles: float, units: Units) -> float:
    """Fewest units with which a kernel takes no more than so many cycles; infinite where none suffice."""
    if PRODUCTS[kind] == 0.0:
        passes = np.floor(cycles / shape[COLUMNS])
        return np.ceil(shape[ROWS] / (passes * units.chip_lanes)) if passes >= 1.0 else np.inf
    products = np.floor(cycles / cycles_each(shape, kind))
    fewest = np.inf
    row_passes = 1.0
    while row_passes <= products:
        across = np.ceil(shape[ROWS] / (row_passes * units.chip_lanes))
        along = np.ceil(shape[COLUMNS] / (np.floor(products / row_passes) * units.chip_stages))
        fewest = min(fewest, across * along)
        if across == 1.0:
            break
        row_passes = np.ceil(shape[ROWS] / ((across - 1.0) * units.chip_lanes))
    return fewest


@compiled
def fits(members: np.ndarray, count: int, shapes: np.ndarray, traits: np.ndarray, cycles: float, units: Units) -> bool:
    """Whether the chip has the units with which each of `count` members takes no more than so many cycles."""
    needed = 0.0
    for j in range(count):
        i = members[j]
        needed += units_needed(shapes[i], traits[i, TYPE], cycles, units)
        if needed > units.chip_cores:
            return False
    return True


@compiled
def bottleneck_cycles(members: np.ndarray, count: int, shapes: np.ndarray, traits: np.ndarray, units: Units) -> float:
    """Fewest cycles of the slowest member over all allocations, by bisection; infinite with more members than units."""
    low = 0.0
    high = 0.0
    for j in range(count):
        i = members[j]
        high = max(high, kernel_cycles(shapes[i], traits[i, TYPE], 1.0, 1.0, units))
    if not fits(members, count, shapes, traits, high, units):
        return np.inf
    # Beyond 2^53 whole numbers are further apart than one.
    while high - low > max(1.0, high * 2.0**-52):
        middle = np.floor((low + high) / 2.0)
        if fits(members, count, shapes, traits, middle, units):
            high = middle
        else:
            low = middle
    return high


COMPUTE = Output("partition_compute_s", "s", "compute of each partition for one microbatch", ("partition",))
CYCLE = Output("unit_cycle_s", "s", "time in which every cell of a unit does one multiply-add")


@equation(CYCLE, source="DFModel A.2: GFLOPS = 2 lanes stages cores frequency")
def unit_cycle(chip_peak_flops: float, chip_cores: float, chip_lanes: float, chip_stages: float) -> float:
    """The clock period, also where the library gives the peak and no clock."""
    return 2.0 * chip_cores * chip_lanes * chip_stages / chip_peak_flops


@equation(COMPUTE, source="DFModel B.4, compute mode 1", when=("unit_allocation", ("ideal",)))
@allocating
def ideal_compute(
    partition_of: np.ndarray, kernel_together_s: np.ndarray, kernel_alone_s: np.ndarray, partition_compute_s: np.ndarray
) -> None:
    """Units are shared out in proportion to work, without a remainder; a kernel alone has the chip for itself."""
    partition_compute_s[:] = 0.0
    members = np.zeros(len(partition_compute_s), np.int64)
    for i in range(len(partition_of)):
        partition_compute_s[partition_of[i]] += kernel_together_s[i]
        members[partition_of[i]] += 1
    for i in range(len(partition_of)):
        if members[partition_of[i]] == 1:
            partition_compute_s[partition_of[i]] = kernel_alone_s[i]


@equation(COMPUTE, source="DFModel B.4, compute mode 2", when=("unit_allocation", ("integer",)))
@allocating
def allocated_compute(
    partition_of: np.ndarray,
    kernel_shapes: np.ndarray,
    kernel_traits: np.ndarray,
    units: Units,
    partition_compute_s: np.ndarray,
) -> None:
    """The slowest kernel under the best allocation of whole units."""
    kernels = partition_of.shape[0]
    members = np.empty(kernels, np.int64)
    for p in range(partition_compute_s.shape[0]):
        count = 0
        for i in range(kernels):
            if partition_of[i] == p:
                members[count] = i
                count += 1
        cycles = bottleneck_cycles(members, count, kernel_shapes, kernel_traits, units)
        partition_compute_s[p] = cycles * units.unit_cycle_s
