"""Chip and memory throughput."""

from sweeper.kernels.equation import Output, equation


@equation(
    Output("chip_peak_flops", "flop/s", "peak compute of one chip"),
    Output("chip_rated_flops", "flop/s", "peak compute of the full chip on which its efficiency is rated"),
    source="DFModel A.2: GFLOPS = 2 lanes stages cores frequency",
)
def chip_peak_flops(
    chip_cores: float,
    chip_lanes: float,
    chip_stages: float,
    chip_frequency_Hz: float,
    chip_given_peak_flops: float,
    chip_rated_cores: float,
) -> tuple[float, float]:
    """Peak from the array's geometry unless the library gives it directly."""
    per_core = 2.0 * chip_lanes * chip_stages * chip_frequency_Hz
    peak = chip_given_peak_flops if chip_given_peak_flops > 0.0 else per_core * chip_cores
    rated = peak * (chip_rated_cores / chip_cores) if chip_rated_cores > 0.0 else peak
    return peak, rated


@equation(
    Output("attainable_flops", "flop/s", "peak compute times the attainable share"),
    source="DFModel B.4, compute mode 1",
)
def attainable_flops(chip_peak_flops: float, compute_efficiency: float) -> float:
    """Rate at which operators run."""
    return chip_peak_flops * compute_efficiency


@equation(
    Output("attainable_bandwidth_Bps", "B/s", "memory bandwidth times the attainable share"),
    source="DFModel B.4; the share is 1 there",
)
def attainable_bandwidth(memory_bandwidth_Bps: float, memory_efficiency: float) -> float:
    """Rate at which tensors move to and from memory."""
    return memory_bandwidth_Bps * memory_efficiency
