"""What it costs, and emits, to own a system: capital, electricity and upkeep, per time and per piece of work.

Costs and emissions run all the time; work is done for the share `facility_utilisation` of it. What a chip-hour, a token
or a sample costs is therefore the rate of cost over the rate of work times that share.
"""

from typing import Annotated

import numpy as np

from sweeper.kernels.equation import Output, compiled, equation
from sweeper.kernels.shared.price import Parts, PerRate, Rates, of_network

BARROSO = "Barroso, Hoelzle, Ranganathan, The Datacenter as a Computer, 3rd edition, chapter 6"
ACT = "Gupta 2022, ACT (ISCA): embodied carbon over the lifetime, and energy times the grid's intensity"

HOUR_s = 3600.0


# power


@equation(
    Output("network_power_W", "W", "power of links and switch ports, busy or not"),
    source="DFModel B.6, the network's part: static, at full rate",
)
def network_power(parts: Parts, rates: Rates, energy: Annotated[PerRate, "{}_energy_J_per_B"]) -> float:
    """Bandwidth times energy per byte: transceivers and switches draw the same whether bytes pass or not."""
    return of_network(parts, rates, energy)


@equation(
    Output("provisioned_power_W", "W", "power of the equipment that building and power supply are made for"),
    source=BARROSO + ": construction is paid per watt of critical power, which is provisioned for the peak",
)
def provisioned_power(system_power_W: float, chips: float, facility_server_power_W: float) -> float:
    """Chips, memories and network at full rate, and servers."""
    return system_power_W + chips * facility_server_power_W


@equation(
    Output("equipment_power_W", "W", "power of chips, servers and network, mean over work and idle time"),
    source=BARROSO + ": idle machines draw a share of what working ones do",
)
def equipment_power(
    chips: float,
    average_power_W: float,
    facility_server_power_W: float,
    network_power_W: float,
    facility_utilisation: float,
    facility_idle_share: float,
) -> float:
    """Chips and servers draw less while they wait; the network does not."""
    working = chips * (average_power_W + facility_server_power_W)
    return working * (facility_utilisation + (1.0 - facility_utilisation) * facility_idle_share) + network_power_W


@equation(
    Output("facility_power_W", "W", "power of the facility, cooling and losses included, mean over time"),
    source="power usage effectiveness: facility power over equipment power (ISO/IEC 30134-2)",
)
def facility_power(equipment_power_W: float, facility_power_usage_effectiveness: float) -> float:
    """Cooling and losses in proportion to the equipment's power."""
    return facility_power_usage_effectiveness * equipment_power_W


# capital


@equation(
    Output("accelerator_capital_usd", "usd", "price of all packaged accelerators"),
    Output("server_capital_usd", "usd", "price of hosts, boards and chassis"),
    Output("construction_capital_usd", "usd", "price of building, power supply and cooling"),
    Output("capital_usd", "usd", "price of accelerators, servers, network and construction"),
    source=BARROSO + ": capital of servers and of the datacenter",
)
def capital(
    chips: float,
    accelerator_price_usd: float,
    network_price_usd: float,
    provisioned_power_W: float,
    facility_server_price_usd: float,
    facility_construction_price_usd_per_W: float,
) -> tuple[float, float, float, float]:
    """The network's part is `network_price_usd`."""
    accelerators, servers = chips * accelerator_price_usd, chips * facility_server_price_usd
    construction = provisioned_power_W * facility_construction_price_usd_per_W
    return accelerators, servers, construction, accelerators + servers + network_price_usd + construction


@compiled
def recovery_per_s(interest_per_s: float, life_s: float) -> float:
    """Payment per time that pays a capital of 1 back, with interest on what is left, over its life.

    Continuous annuity r / (1 - exp(-r L)); without interest 1 / L.
    """
    if interest_per_s == 0.0:
        return 1.0 / life_s
    return interest_per_s / -np.expm1(-interest_per_s * life_s)


@equation(
    Output("capital_usd_per_s", "usd/s", "payment that recovers the capital with interest"),
    source="continuous annuity; " + BARROSO + ": depreciation and interest",
)
def capital_recovery(
    capital_usd: float,
    construction_capital_usd: float,
    facility_lifetime_s: float,
    facility_construction_life_s: float,
    facility_interest_per_s: float,
) -> float:
    """Construction outlives the equipment. Nothing is left of either at the end of its life."""
    equipment = (capital_usd - construction_capital_usd) * recovery_per_s(facility_interest_per_s, facility_lifetime_s)
    return equipment + construction_capital_usd * recovery_per_s(facility_interest_per_s, facility_construction_life_s)


# cost per time


@equation(Output("electricity_usd_per_s", "usd/s", "price of electricity"), source=BARROSO + ": power cost")
def electricity(facility_power_W: float, facility_electricity_price_usd_per_J: float) -> float:
    """Energy is paid as it is drawn; no charge for its peak."""
    return facility_power_W * facility_electricity_price_usd_per_J


@equation(
    Output("upkeep_usd_per_s", "usd/s", "maintenance, staff, and rent of space"),
    source=BARROSO + ": operational expenses; rent in place of construction where space is leased",
)
def upkeep(
    capital_usd: float,
    chips: float,
    provisioned_power_W: float,
    facility_maintenance_share_per_s: float,
    facility_staff_price_usd_per_s: float,
    facility_rent_usd_per_J: float,
) -> float:
    """In proportion to capital, to chips, and to the power that space is leased for."""
    people = chips * facility_staff_price_usd_per_s
    return capital_usd * facility_maintenance_share_per_s + people + provisioned_power_W * facility_rent_usd_per_J


@equation(
    Output("ownership_usd_per_s", "usd/s", "total cost of ownership per time"),
    Output("ownership_usd", "usd", "total cost of ownership over the lifetime of the equipment"),
    source=BARROSO + ": TCO is depreciation and operation of the datacenter and of the servers",
)
def ownership(
    capital_usd_per_s: float, electricity_usd_per_s: float, upkeep_usd_per_s: float, facility_lifetime_s: float
) -> tuple[float, float]:
    """Of construction, what falls into the lifetime of the equipment."""
    per_s = capital_usd_per_s + electricity_usd_per_s + upkeep_usd_per_s
    return per_s, per_s * facility_lifetime_s


# carbon per time


@equation(
    Output("embodied_carbon_kg", "kg", "carbon dioxide equivalent of making accelerators, servers and network"),
    source=ACT,
)
def embodied_carbon(
    chips: float, accelerator_carbon_kg: float, facility_server_carbon_kg: float, facility_network_carbon_share: float
) -> float:
    """The network as a share of the accelerators; without the building."""
    return chips * (accelerator_carbon_kg * (1.0 + facility_network_carbon_share) + facility_server_carbon_kg)


@equation(
    Output("operational_carbon_kg_per_s", "kg/s", "carbon dioxide equivalent of the electricity"),
    Output("carbon_kg_per_s", "kg/s", "the same with what was embodied, spread over the lifetime"),
    source=ACT,
)
def carbon(
    facility_power_W: float,
    facility_carbon_intensity_kg_per_J: float,
    embodied_carbon_kg: float,
    facility_lifetime_s: float,
) -> tuple[float, float]:
    """Mean intensity of the grid."""
    operational = facility_power_W * facility_carbon_intensity_kg_per_J
    return operational, operational + embodied_carbon_kg / facility_lifetime_s


# cost and carbon per piece of work


@equation(
    Output("usd_per_chip_hour", "usd/hour", "total cost of ownership of a chip per hour at work"),
    source="cost per time over chips and the share of time at work",
)
def chip_hour(ownership_usd_per_s: float, chips: float, facility_utilisation: float) -> float:
    """Idle hours are paid by the others: what an hour must sell for to break even."""
    return HOUR_s * ownership_usd_per_s / (chips * facility_utilisation)


@equation(
    Output("usd_per_sample", "usd", "total cost of ownership per sample, request or batch element"),
    Output("carbon_kg_per_sample", "kg", "carbon dioxide equivalent per sample, embodied share included"),
    source="cost and carbon per time over the rate of work and the share of time at work",
)
def sample_cost(
    ownership_usd_per_s: float,
    carbon_kg_per_s: float,
    samples_per_s: float,
    power_limited_clock: float,
    facility_utilisation: float,
) -> tuple[float, float]:
    """Of every family of workloads, at the clocks that the limit of power allows."""
    rate = samples_per_s * power_limited_clock * facility_utilisation
    return ownership_usd_per_s / rate, carbon_kg_per_s / rate
