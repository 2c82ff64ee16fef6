"""Peak of a chip."""

from kernels.equation import Output, equation


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
