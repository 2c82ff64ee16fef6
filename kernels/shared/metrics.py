"""What a designer compares, whatever the family of workloads: utilisation, throughput, cost and power efficiency."""

from sweeper.kernels.equation import Output, equation


@equation(
    Output("utilisation", "", "work over iteration time and peak compute of all chips"),
    Output("samples_per_s", "1/s", "batch elements per second"),
    Output("cost_efficiency_flops_per_usd", "flop/s/usd", "attained compute rate per price"),
    Output("power_efficiency_flops_per_W", "flop/s/W", "attained compute rate per power"),
    source="DFModel B.5, B.6; the rate is utilisation times the rated peak",
)
def efficiency(
    work_flops: float,
    batch: float,
    iteration_time_s: float,
    chips: float,
    chip_peak_flops: float,
    chip_rated_flops: float,
    system_price_usd: float,
    system_power_W: float,
) -> tuple[float, float, float, float]:
    """Rated peak differs from peak only for a part-enabled chip."""
    utilisation = work_flops / (iteration_time_s * chips * chip_peak_flops)
    rate = utilisation * chips * chip_rated_flops
    return utilisation, batch / iteration_time_s, rate / system_price_usd, rate / system_power_W
