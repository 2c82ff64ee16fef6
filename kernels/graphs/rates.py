"""How fast kernels run: as the published exploration has it, all at one share of the peak of the matrix units."""

import numpy as np

from sweeper.kernels.equation import Output, equation
from sweeper.kernels.graphs.allocation import INTEGER
from sweeper.kernels.graphs.loads import FLOPS
from sweeper.kernels.graphs.sharding import FREE
from sweeper.kernels.shared.network import LINK_SHARES

LAUNCH = Output("collective_launch_s", "s", "fixed cost of a collective")
LISTED = ("efficiencies", ("listed",))

COSTS = Output(
    "kernel_costs", "", "operations of the matrix units in whose time one of each kernel is done", ("kernel",)
)
ALONE = Output("kernel_alone_s", "s", "compute of each kernel that has the chip for itself, or its launch", ("kernel",))


@equation(
    Output("attainable_flops", "flop/s", "attainable rate of products"),
    Output("attainable_bandwidth_Bps", "B/s", "attainable memory bandwidth"),
    source="DFModel B.4, compute mode 1",
    when=LISTED,
)
def listed_rates(
    chip_peak_flops: float, compute_efficiency: float, memory_bandwidth_Bps: float, memory_efficiency: float
) -> tuple[float, float]:
    """One share of the peak for all kernels, and one of the memory."""
    return chip_peak_flops * compute_efficiency, memory_bandwidth_Bps * memory_efficiency


@equation(
    Output(
        "token_split", "", "whether kernels on vectors are split over tokens: sweeper.kernels.graphs.sharding.FREE, ..."
    ),
    source="whatever takes least",
)
def free_tokens() -> float:
    """A graph is split in any way."""
    return float(FREE)


@equation(*LINK_SHARES, source="one share of all links", when=LISTED)
def listed_link_shares(link_efficiency: float) -> tuple[float, float]:
    """As the study says."""
    return link_efficiency, link_efficiency


@equation(LAUNCH, source="DFModel A.3: a collective takes hops and bytes", when=LISTED)
def free_launches() -> float:
    """Nothing is launched."""
    return 0.0


@equation(COSTS, source="DFModel A.1: elementwise kernels run as fast as products", when=LISTED)
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


@equation(ALONE, source="DFModel B.4: the same alone and among others", when=LISTED)
def alone_as_together(kernel_together_s: np.ndarray, kernel_alone_s: np.ndarray) -> None:
    """Nothing is lost to tiles or launches."""
    for i in range(len(kernel_alone_s)):
        kernel_alone_s[i] = kernel_together_s[i]
