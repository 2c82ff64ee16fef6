"""Total cost of ownership and carbon again, in plain Python: bills are added up over the life of a system."""

import math
from decimal import Decimal, localcontext

from hypothesis import strategies as st

from tests.twins.naive import FOR_EQUATION, RANGES, SPECIAL, Outputs, twin

YEAR_s = 365 * 24 * 3600
TASKS = ("training", "inference")


@twin
def network_power(**given: float) -> Outputs:
    """Link by link and port by port of both kinds."""
    parts = [
        given[f"{count}_{place}"] * given[f"{link}_bandwidth_Bps"] * given[f"{link}_{energy}_J_per_B"]
        for place, link in (("x", "link"), ("outer", "outer_link"))
        for count, energy in (("links", "energy"), ("ports", "switch_energy"))
    ]
    return {"network_power_W": math.fsum(parts)}


@twin
def provisioned_power(system_power_W: float, chips: float, facility_server_power_W: float) -> Outputs:
    return {"provisioned_power_W": math.fsum([system_power_W, *[facility_server_power_W] * int(chips)])}


@twin
def equipment_power(chips: float, average_power_W: float, network_power_W: float, **given: float) -> Outputs:
    """Energy of the two kinds of time, over a second."""
    busy_s = given["facility_utilisation"]
    node_W = average_power_W + given["facility_server_power_W"]
    busy_J, idle_J = busy_s * node_W, (1 - busy_s) * given["facility_idle_share"] * node_W
    return {"equipment_power_W": math.fsum([chips * busy_J, chips * idle_J, network_power_W])}


@twin
def facility_power(equipment_power_W: float, facility_power_usage_effectiveness: float) -> Outputs:
    overhead_W = equipment_power_W * (facility_power_usage_effectiveness - 1)
    return {"facility_power_W": equipment_power_W + overhead_W}


@twin
def capital(chips: float, network_price_usd: float, provisioned_power_W: float, **given: float) -> Outputs:
    parts = {
        "accelerator_capital_usd": chips * given["accelerator_price_usd"],
        "server_capital_usd": chips * given["facility_server_price_usd"],
        "construction_capital_usd": given["facility_construction_price_usd_per_W"] * provisioned_power_W,
    }
    return {**parts, "capital_usd": math.fsum([*parts.values(), network_price_usd])}


def present_value_s(interest_per_s: float, life_s: float) -> Decimal:
    """What a payment of 1 per second over a life is worth at its start, to fifty digits."""
    with localcontext() as context:
        context.prec = 50
        rate, life = Decimal(interest_per_s), Decimal(life_s)
        return (1 - (-rate * life).exp()) / rate if rate else life


@twin
def capital_recovery(capital_usd: float, construction_capital_usd: float, **given: float) -> Outputs:
    """The payment whose present value is the capital."""
    interest = given["facility_interest_per_s"]
    lives = {
        "facility_lifetime_s": Decimal(capital_usd) - Decimal(construction_capital_usd),
        "facility_construction_life_s": Decimal(construction_capital_usd),
    }
    parts = [price / present_value_s(interest, given[life]) for life, price in lives.items()]
    return {"capital_usd_per_s": float(sum(parts))}


@twin
def electricity(facility_power_W: float, facility_electricity_price_usd_per_J: float) -> Outputs:
    """A year's bill."""
    energy_J = facility_power_W * YEAR_s
    return {"electricity_usd_per_s": energy_J * facility_electricity_price_usd_per_J / YEAR_s}


@twin
def upkeep(capital_usd: float, chips: float, provisioned_power_W: float, **given: float) -> Outputs:
    parts = {
        "maintenance_share_per_s": capital_usd,
        "staff_price_usd_per_s": chips,
        "rent_usd_per_J": provisioned_power_W,
    }
    return {"upkeep_usd_per_s": math.fsum(given[f"facility_{price}"] * of for price, of in parts.items())}


@twin
def ownership(facility_lifetime_s: float, **bills: float) -> Outputs:
    whole = [bill * facility_lifetime_s for bill in bills.values()]
    return {"ownership_usd_per_s": math.fsum(bills.values()), "ownership_usd": math.fsum(whole)}


@twin
def embodied_carbon(chips: float, accelerator_carbon_kg: float, **given: float) -> Outputs:
    network_kg = given["facility_network_carbon_share"] * accelerator_carbon_kg
    return {
        "embodied_carbon_kg": math.fsum([accelerator_carbon_kg, network_kg, given["facility_server_carbon_kg"]]) * chips
    }


@twin
def carbon(facility_power_W: float, embodied_carbon_kg: float, facility_lifetime_s: float, **given: float) -> Outputs:
    """What a life emits, made and operated, over that life."""
    operational = facility_power_W * given["facility_carbon_intensity_kg_per_J"]
    whole_kg = embodied_carbon_kg + operational * facility_lifetime_s
    return {"operational_carbon_kg_per_s": operational, "carbon_kg_per_s": whole_kg / facility_lifetime_s}


@twin
def chip_hour(ownership_usd_per_s: float, chips: float, facility_utilisation: float) -> Outputs:
    """A year's cost over the chip-hours that were used in it."""
    used_hours = chips * facility_utilisation * YEAR_s / 3600
    return {"usd_per_chip_hour": ownership_usd_per_s * YEAR_s / used_hours}


def per_piece(name: str, size: float, rate: float, given: dict[str, float]) -> Outputs:
    """A year's cost and emissions over the pieces of work that were done in it, for `size` of them."""
    pieces = rate * given["facility_utilisation"] * YEAR_s
    return {
        f"usd_per_{name}": given["ownership_usd_per_s"] * YEAR_s / pieces * size,
        f"carbon_kg_per_{name}": given["carbon_kg_per_s"] * YEAR_s / pieces * size,
    }


@twin
def sample_cost(samples_per_s: float, power_limited_clock: float, **given: float) -> Outputs:
    """A sample takes as much longer as the clock is slower."""
    return per_piece("sample", 1, 1 / ((1 / samples_per_s) / power_limited_clock), given)


@twin
def trained_tokens(tokens_per_s: float, power_limited_clock: float) -> Outputs:
    return {"counted_tokens_per_s": power_limited_clock * tokens_per_s}


@twin
def generated_tokens(output_tokens_per_s: float, power_limited_clock: float) -> Outputs:
    return {"counted_tokens_per_s": power_limited_clock * output_tokens_per_s}


@twin
def token_cost(counted_tokens_per_s: float, **given: float) -> Outputs:
    return per_piece("million_tokens", 10**6, counted_tokens_per_s, given)


@twin
def training_run(training_tokens: float, counted_tokens_per_s: float) -> Outputs:
    return {"training_run_s": training_tokens / counted_tokens_per_s}


def band_of(task: str, given: dict[str, float]) -> Outputs:
    """A quantile of 0 was never found out."""
    quantiles = {end: given[f"calibration_{task}_{end}"] or math.nan for end in ("low", "high")}
    return {f"iteration_time_{end}_s": quantile * given["iteration_time_s"] for end, quantile in quantiles.items()}


@twin
def training_band(**given: float) -> Outputs:
    return band_of("training", given)


@twin
def inference_band(**given: float) -> Outputs:
    return band_of("inference", given)


@twin
def training_run_cost(training_run_s: float, facility_utilisation: float, **rates: float) -> Outputs:
    """The idle time between the working one belongs to the run."""
    idle_s = training_run_s * (1 - facility_utilisation) / facility_utilisation
    totals = {name: math.fsum([rate * training_run_s, rate * idle_s]) for name, rate in rates.items()}
    return {
        "usd_per_training_run": totals["ownership_usd_per_s"],
        "energy_per_training_run_J": totals["facility_power_W"],
        "carbon_kg_per_training_run": totals["carbon_kg_per_s"],
    }


SHARE = st.just(1.0) | st.floats(0.01, 1.0)
SPECIAL.update(
    {
        "power_limited_clock": SHARE,
        "facility_utilisation": SHARE,
        "facility_idle_share": st.just(0.0) | SHARE,
        "facility_network_carbon_share": st.just(0.0) | SHARE,
        "facility_power_usage_effectiveness": st.just(1.0) | st.floats(1.0, 2.5),
        "facility_lifetime_s": st.floats(1e7, 1e9),
        "facility_construction_life_s": st.floats(1e7, 1e9),
        "facility_interest_per_s": st.just(0.0) | st.floats(1e-12, 1e-8),
        "facility_maintenance_share_per_s": st.just(0.0) | st.floats(1e-12, 1e-8),
        "training_tokens": st.floats(1e6, 1e14),
        **{f"calibration_{task}_{end}": st.just(0.0) | SHARE for task in TASKS for end in ("low", "high")},
    }
)
PRICE = st.just(0.0) | st.floats(1e-9, 1e3)
RANGES.update(dict.fromkeys(("usd/s", "usd/J", "usd/W", "usd/hour", "kg", "kg/s", "kg/J", "kg/B"), PRICE))


@st.composite
def capitals(draw: st.DrawFn) -> dict[str, float]:
    """Capital, of which construction is a part."""
    construction = draw(PRICE)
    return {"construction_capital_usd": construction, "capital_usd": construction + draw(st.floats(1.0, 1e9))}


RATE = st.floats(1e-3, 1e12)
FOR_EQUATION.update(
    {
        "capital_recovery": capitals(),
        "sample_cost": st.fixed_dictionaries({"samples_per_s": RATE}),
        "token_cost": st.fixed_dictionaries({"counted_tokens_per_s": RATE}),
        "training_run": st.fixed_dictionaries({"counted_tokens_per_s": RATE}),
    }
)
