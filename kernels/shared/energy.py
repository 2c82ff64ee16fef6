"""Energy and power of what a system does, from energies per operation and per byte.

Every family counts its work: operations, bytes through the shared cache, bytes of memory, and the energy of what links
and switches carry, of an iteration (or of a batch of requests) on all chips. Boards draw `idle_power_W` besides; where
the sum exceeds a board's limit, its clocks drop until it does not, at the same energy per operation. (Voltage drops
too, so that this is the longest that the limit can cost.)

Constants belong to a board (`specs/calibrations/power.yaml`); those of a board that is not calibrated follow from its
rated power and peak. What is the same for all boards stands here, with its source.
"""

import math
from typing import Annotated

import numpy as np

from sweeper.kernels.codes import SWITCH
from sweeper.kernels.equation import Output, compiled, equation
from sweeper.kernels.shared.price import Parts, PerRate, Rates, of_network

ACCUMULATION = 0.3
"""Share of the energy of a bf16 operation that does not depend on the width of its operands: sums have 32 bits in
every format. Assumed: arithmetic alone would give 0.45 (Horowitz, ISSCC 2014, 45 nm: fp16 product 1.1 pJ, fp32 sum
0.9 pJ), but registers, wires and buffers of the operands add to what depends on the width. With 0.2 to 0.45 the median
errors of board power stay within 3 points of those with 0.3."""

IDLE_SHARE = 0.25
"""Power without work over rated power where it is not known: fitted are 0.27 (H200) and 0.32 (B200), of boards that
wait for their host with clocks up."""

TOTALS = (
    Output("bf16_flops", "flop", "operations on all chips, each as many bf16 operations as take its energy"),
    Output("l2_traffic_B", "B", "bytes through the shared caches of all chips"),
    Output("memory_traffic_B", "B", "bytes to and from the memories of all chips"),
    Output("network_energy_J", "J", "energy of what all links and switches carry"),
)
"""Work of an iteration, or of a batch of requests, on all chips."""


@compiled
def relative_energy(width_B: float) -> float:
    """Energy of an operation on operands of so many bytes, over that of a bf16 operation."""
    return ACCUMULATION + (1.0 - ACCUMULATION) * width_B / 2.0


BOARD = (
    Output("idle_power_W", "W", "power of a board without work"),
    Output("power_limit_W", "W", "limit of a board's power; NaN where none is known"),
    Output("flop_energy_J_per_flop", "J/flop", "energy of a bf16 operation, without cache and memory"),
    Output("byte_energy_J_per_B", "J/B", "energy of moving a byte between memory and chip"),
)


@equation(
    *BOARD, source="calibrated; else a share of the rated power, the rest of it over the peak, and the memory's energy"
)
def board_constants(
    chip_power_W: float,
    chip_peak_flops: float,
    memory_energy_J_per_B: float,
    calibration_idle_power_W: float,
    calibration_board_power_W: float,
    calibration_flop_energy_J_per_flop: float,
    calibration_byte_energy_J_per_B: float,
) -> tuple[float, float, float, float]:
    """A board whose energies are not known draws its rated power when it computes at its peak."""
    idle = calibration_idle_power_W if calibration_idle_power_W > 0.0 else IDLE_SHARE * chip_power_W
    limit = calibration_board_power_W if calibration_board_power_W > 0.0 else np.nan
    rest = max(chip_power_W - idle, 0.0)
    flop = calibration_flop_energy_J_per_flop if calibration_flop_energy_J_per_flop > 0.0 else rest / chip_peak_flops
    byte = calibration_byte_energy_J_per_B if calibration_byte_energy_J_per_B > 0.0 else memory_energy_J_per_B
    return idle, limit, flop, byte


@compiled
def carried_J_per_B(kind: float, link_J_per_B: float, port_J_per_B: float) -> float:
    """Energy of a byte on a link, and through the switch port at its end where there is one."""
    return link_J_per_B + port_J_per_B if kind == SWITCH else link_J_per_B


@equation(
    Output("compute_energy_J", "J", "energy of the operations, of an iteration or a batch of requests on all chips"),
    Output("l2_energy_J", "J", "energy of what passes through the shared caches"),
    Output("memory_energy_J", "J", "energy of the memory traffic"),
    Output("dynamic_energy_J", "J", "energy of all work: operations, caches, memories, links and switches"),
    source="operations and bytes times their energies",
)
def dynamic_energy(
    bf16_flops: float,
    l2_traffic_B: float,
    memory_traffic_B: float,
    network_energy_J: float,
    flop_energy_J_per_flop: float,
    byte_energy_J_per_B: float,
    calibration_l2_energy_J_per_B: float,
) -> tuple[float, float, float, float]:
    """Without what boards draw when idle."""
    compute, l2 = bf16_flops * flop_energy_J_per_flop, l2_traffic_B * calibration_l2_energy_J_per_B
    memory = memory_traffic_B * byte_energy_J_per_B
    return compute, l2, memory, compute + l2 + memory + network_energy_J


@equation(
    Output("power_limited_time_s", "s", "time of an iteration where clocks drop so that boards keep to their limit"),
    Output("power_limited_clock", "", "clock rate then, over that of the iteration time"),
    Output("power_headroom_W", "W", "limit less mean power of a board at full clocks; negative: clocks drop"),
    Output("average_power_W", "W", "mean power of a board, at the power-limited clocks"),
    Output("idle_energy_J", "J", "energy that all boards draw whatever they do, over the power-limited time"),
    Output("energy_J", "J", "energy of all boards, links and switches over the power-limited time"),
    source="the mean power of a board is what it draws idle, and its share of the dynamic energy over the time",
)
def board_power(
    dynamic_energy_J: float, iteration_time_s: float, chips: float, idle_power_W: float, power_limit_W: float
) -> tuple[float, float, float, float, float, float]:
    """At full clocks where no limit is known. A limit below the idle power can never be kept: infinite time. Whether a
    limit is kept by work of unknown energy is not known."""
    each_J = dynamic_energy_J / chips
    room = power_limit_W - idle_power_W
    time_s = iteration_time_s
    if room > 0.0 and each_J > room * iteration_time_s:
        time_s = each_J / room
    elif room <= 0.0 and each_J > 0.0:
        time_s = np.inf
    elif math.isnan(each_J) and not math.isnan(room):
        time_s = np.nan
    power = idle_power_W + each_J / time_s
    # The rounding of a quotient does not exceed the limit either.
    power = power_limit_W if power > power_limit_W >= idle_power_W else power
    headroom = room - each_J / iteration_time_s
    idle_J = idle_power_W * time_s
    return time_s, iteration_time_s / time_s, headroom, power, chips * idle_J, chips * idle_J + dynamic_energy_J


@equation(
    Output("static_power_W", "W", "power of the system without work: boards, and the share of links and switches"),
    Output("dynamic_power_W", "W", "mean power of the work: operations, caches, memories, links and switches"),
    Output("used_power_W", "W", "mean power of the system by its use: static and dynamic"),
    Output("used_power_efficiency_flops_per_W", "flop/s/W", "attained compute rate per power by use"),
    source="links and switches draw a share of their power at full rate whatever they carry, the rest by the byte",
)
def used_power(
    chips: float,
    idle_power_W: float,
    dynamic_energy_J: float,
    network_energy_J: float,
    power_limited_time_s: float,
    work_flops: float,
    network_static_share: float,
    parts: Parts,
    rates: Rates,
    energy: Annotated[PerRate, "{}_energy_J_per_B"],
) -> tuple[float, float, float, float]:
    """At the power-limited clocks. Without a static share of the network this is `energy_J` over the time."""
    static = chips * idle_power_W + network_static_share * of_network(parts, rates, energy)
    dynamic = (dynamic_energy_J - network_static_share * network_energy_J) / power_limited_time_s
    power = static + dynamic
    return static, dynamic, power, work_flops / power_limited_time_s / power
