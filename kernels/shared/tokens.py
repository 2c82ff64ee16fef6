"""Cost and carbon of what is counted in tokens: per million of them, and per training run."""

from sweeper.kernels.equation import Output, equation

MILLION = 1e6

COUNTED = Output(
    "counted_tokens_per_s", "1/s", "tokens by which cost is counted, trained on or generated, at power-limited clocks"
)


@equation(COUNTED, source="tokens of a batch over the time of an iteration", when=("task", ("training",)))
def trained_tokens(tokens_per_s: float, power_limited_clock: float) -> float:
    """Every token of a batch."""
    return tokens_per_s * power_limited_clock


@equation(COUNTED, source="continuous batching with all slots taken", when=("task", ("inference",)))
def generated_tokens(output_tokens_per_s: float, power_limited_clock: float) -> float:
    """Generated tokens pay for those of the prompts."""
    return output_tokens_per_s * power_limited_clock


@equation(
    Output("usd_per_million_tokens", "usd", "total cost of ownership per million tokens, trained on or generated"),
    Output("carbon_kg_per_million_tokens", "kg", "carbon dioxide equivalent per million tokens"),
    source="cost and carbon per time over the rate of tokens and the share of time at work",
)
def token_cost(
    ownership_usd_per_s: float, carbon_kg_per_s: float, counted_tokens_per_s: float, facility_utilisation: float
) -> tuple[float, float]:
    """In serving, of generated tokens; prompts are part of what they cost."""
    rate = counted_tokens_per_s * facility_utilisation
    return MILLION * ownership_usd_per_s / rate, MILLION * carbon_kg_per_s / rate


@equation(
    Output("training_run_s", "s", "time at work of a training run"),
    source="tokens of the run over tokens per second",
    when=("task", ("training",)),
)
def training_run(training_tokens: float, counted_tokens_per_s: float) -> float:
    """Without what interrupts it; the calendar shows this over the utilisation."""
    return training_tokens / counted_tokens_per_s


@equation(
    Output("usd_per_training_run", "usd", "total cost of ownership of a training run"),
    Output("energy_per_training_run_J", "J", "energy that the facility draws for a training run"),
    Output("carbon_kg_per_training_run", "kg", "carbon dioxide equivalent of a training run, embodied share included"),
    source="rates times the time of the run and its share of idle time",
    when=("task", ("training",)),
)
def training_run_cost(
    training_run_s: float,
    facility_utilisation: float,
    ownership_usd_per_s: float,
    facility_power_W: float,
    carbon_kg_per_s: float,
) -> tuple[float, float, float]:
    """A run pays for the idle time that comes with it."""
    calendar_s = training_run_s / facility_utilisation
    return ownership_usd_per_s * calendar_s, facility_power_W * calendar_s, carbon_kg_per_s * calendar_s
