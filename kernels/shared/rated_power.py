"""Power of chips by their rating, for families whose work is not counted in energy as `sweeper.kernels.shared.energy`
does."""

from sweeper.kernels.equation import Output, equation


@equation(
    Output("average_power_W", "W", "power of a chip with its memory at full rate"),
    Output("power_limited_clock", "", "1: no limit of power is known"),
    source="DFModel B.6: static, at 100 % use",
)
def rated_power(chip_power_W: float, memory_bandwidth_Bps: float, memory_energy_J_per_B: float) -> tuple[float, float]:
    """Chips and memories at full rate."""
    return chip_power_W + memory_bandwidth_Bps * memory_energy_J_per_B, 1.0
