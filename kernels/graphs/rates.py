"""How fast kernels run: as the published exploration has it, all at one share of the peak of the matrix units."""

import numpy as np

from kernels.equation import Output, equation
from kernels.graphs.allocation import INTEGER
from kernels.graphs.loads import FLOPS

COSTS = Output(
    "kernel_costs", "", "operations of the matrix units in whose time one of each kernel is done", ("kernel",)
)
ALONE = Output("kernel_alone_s", "s", "compute of each kernel that has the chip for itself, or its launch", ("kernel",))


@equation(COSTS, source="DFModel A.1: elementwise kernels run as fast as products", when=("efficiencies", ("listed",)))
def equal_costs(kernel_traits: np.ndarray, kernel_costs: np.ndarray) -> None:
    """Any operation counts as one of a product."""
    kernel_costs[: len(kernel_traits)] = 1.0


@equation(
    Output("kernel_together_s", "s", "compute of each kernel among others, all units at work", ("kernel",)),
    source="DFModel B.4, compute mode 1; whole units never do better than all cells at work",
)
def kernel_together(
    kernel_loads: np.ndarray,
    kernel_costs: np.ndarray,
    unit_allocation: float,
    chip_peak_flops: float,
    attainable_flops: float,
    kernel_together_s: np.ndarray,
) -> None:
    """Operations over the rate; where units are allocated whole, at the peak: the allocation says what is lost."""
    rate_flops = chip_peak_flops if unit_allocation == INTEGER else attainable_flops
    for i in range(len(kernel_together_s)):
        kernel_together_s[i] = kernel_loads[i, FLOPS] * kernel_costs[i] / rate_flops


@equation(ALONE, source="DFModel B.4: the same alone and among others", when=("efficiencies", ("listed",)))
def alone_as_together(kernel_together_s: np.ndarray, kernel_alone_s: np.ndarray) -> None:
    """Nothing is lost to tiles or launches."""
    for i in range(len(kernel_alone_s)):
        kernel_alone_s[i] = kernel_together_s[i]
