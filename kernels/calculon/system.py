"""What a system attains: engines and memories at a share of their rate that depends on the size of the work, and the
two tiers of the network, which are the first dimension (`link`) and the whole system (`outer_link`)."""

from collections import namedtuple
from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.calculon.table import D
from sweeper.kernels.codes import SWITCHES
from sweeper.kernels.equation import Output, compiled, equation

PAPER = "Calculon, SC'23, doi 10.1145/3581784.3607102"
ROOFLINE = SWITCHES["overlap"].index("full")

Curves = namedtuple("Curves", "matrix vector memory offload")
"""What has an efficiency curve: the two engines (thresholds in flop) and the two memories (in B)."""

C = Curves(*range(len(Curves._fields)))
"""Where each stands in `efficiency_curves`."""
CURVE_STEPS = 8
"""Steps of a curve at most."""


class Rates(NamedTuple):
    """Peaks of the two engines, of products and of all else, and of main memory; and what share of them is attained."""

    chip_peak_flops: float
    vector_peak_flops: float
    memory_bandwidth_Bps: float
    efficiency_curves: np.ndarray


@equation(
    Output("vector_peak_flops", "flop/s", "peak of the vector units"),
    source="the chip's; the matrix units' where the library has none",
)
def vector_peak(chip_vector_flops: float, chip_peak_flops: float) -> float:
    """Rate of everything that is no product."""
    return chip_vector_flops if chip_vector_flops > 0.0 else chip_peak_flops


@compiled
def efficiency(curve: np.ndarray, amount: float) -> float:
    """Value of a step curve: that of the first (largest) threshold that the amount reaches."""
    for step in range(CURVE_STEPS):
        if amount >= curve[step, 0]:
            return curve[step, 1]
    return curve[-1, 1]


@compiled
def work_s(amount: float, rate: float, curve: np.ndarray) -> float:
    """Seconds for an amount of work (flop or B) at a peak rate and its efficiency curve."""
    return amount / (rate * efficiency(curve, amount))


@compiled
def processing_s(compute_s: float, memory_s: float, overlap: float) -> float:
    """Time of an operator: the longer of computing and moving, or both one after the other."""
    return max(compute_s, memory_s) if overlap == ROOFLINE else compute_s + memory_s


@compiled
def operator_s(dims: np.ndarray, stage: int, matrix: bool, rates: Rates) -> tuple[float, float]:
    """Seconds of computing and of memory of an operator in a pass."""
    flops, moved_B = dims[D.flops + 2 * stage], dims[D.bytes + 2 * stage]
    peak, curve = (rates.chip_peak_flops, C.matrix) if matrix else (rates.vector_peak_flops, C.vector)
    compute_s = work_s(flops, peak, rates.efficiency_curves[curve])
    return compute_s, work_s(moved_B, rates.memory_bandwidth_Bps, rates.efficiency_curves[C.memory])


class Tier(NamedTuple):
    """Links of a tier: latency, rate, traffic of collectives per byte of the message, the share of it that a chip keeps
    to itself, and the share of the processor that sending takes."""

    latency_s: float
    bandwidth_Bps: float
    all_reduce_traffic: float
    gather_traffic: float
    own_share: float
    processor_share: float


RATE, TIERS = Tier._fields.index("bandwidth_Bps"), (2, len(Tier._fields))


@equation(
    Output("network_tiers", "", "latency, rate, traffic of collectives and use of the processor by tier", TIERS),
    source=f"{PAPER}: networks of a system",
)
def network_tiers(
    link: Annotated[Tier, "link_{}"],
    outer_link: Annotated[Tier, "outer_link_{}"],
    calibration_link_efficiency: float,
    calibration_outer_link_efficiency: float,
    network_tiers: np.ndarray,
) -> None:
    """The first dimension's links and those of the whole system, at the share of their rate that is attained."""
    for i in range(len(link)):
        network_tiers[0, i], network_tiers[1, i] = link[i], outer_link[i]
    network_tiers[0, RATE] *= calibration_link_efficiency
    network_tiers[1, RATE] *= calibration_outer_link_efficiency


@compiled
def tier_at(network_tiers: np.ndarray, tier: float) -> Tier:
    """A tier by its number."""
    row = network_tiers[int(tier)]
    return Tier(row[0], row[1], row[2], row[3], row[4], row[5])


@compiled
def collective_s(tier: Tier, message_B: float, traffic: float, peers: float) -> float:
    """Seconds of a collective: one latency, and `traffic` times the message less the share a chip keeps to itself."""
    return tier.latency_s + message_B * traffic * (1.0 - tier.own_share / peers) / tier.bandwidth_Bps


@equation(
    Output("stage_transfer_s", "s", "message of a microbatch between two stages"), source=f"{PAPER}: point to point"
)
def stage_message(
    network_tiers: np.ndarray, pipeline_tier: float, pipeline_parallel: float, stage_message_B: float
) -> float:
    """Nothing without a pipeline."""
    tier = tier_at(network_tiers, pipeline_tier)
    return 0.0 if pipeline_parallel == 1.0 else tier.latency_s + stage_message_B / tier.bandwidth_Bps
