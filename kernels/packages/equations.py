"""Equations of the package that a study names: its dies, its price and carbon, and whether it can be built."""

from typing import Annotated

import numpy as np

from sweeper.kernels.codes import FIRST_OF_PACKAGE
from sweeper.kernels.equation import Output, allocating, compiled, equation
from sweeper.kernels.packages.build import SOURCE, build, desk_for, replace_numbers
from sweeper.kernels.packages.layout import RESULT
from sweeper.kernels.shared.feasibility import INFEASIBLE
from sweeper.kernels.shared.price import CARBON, PRICE, ListedMemory, memory_price


@equation(
    Output("package_cost_usd", "usd", "cost of making one package that works"),
    Output("package_silicon_usd", "usd", "of it: dies and their bumps, before their yield"),
    Output("package_defects_usd", "usd", "of it: faulty dies"),
    Output(
        "package_carrier_usd",
        "usd",
        "of it: interposer, substrate, their bumps, and what fails of all these and of assembly",
    ),
    Output("package_assembly_usd", "usd", "of it: assembly"),
    Output("package_test_usd", "usd", "of it: tests"),
    Output("package_wasted_usd", "usd", "of it: good dies lost in assembly"),
    Output("package_escapes_usd", "usd", "of it: packages that pass all tests and do not work"),
    Output("package_scrap_usd", "usd", "cost beyond that at perfect yield"),
    Output("package_design_usd", "usd", "design and masks of one package, spread over the volume"),
    source=SOURCE,
)
def package_cost(package_dies: np.ndarray) -> tuple[float, ...]:
    """Costs are per package that works: those that fail unnoticed after the last test are paid for by the others."""
    root = package_dies[0].view(RESULT)[0]
    cost = root.price_usd / root.quality
    return (
        cost,
        root.silicon_usd,
        root.silicon_loss_usd,
        root.carrier_usd + root.carrier_loss_usd,
        root.assembling_usd,
        root.testing_usd,
        root.wasted_usd,
        cost - root.price_usd,
        cost - root.perfect_price_usd,
        root.design_usd_with_children,
    )


@equation(
    Output("package_area_mm2", "mm^2", "area of what carries all the others"),
    Output("package_rated_power_W", "W", "power that the design states, links included"),
    Output("package_yield", "", "share of started packages that work, dies tested before included as they are"),
    Output("package_quality", "", "probability that a package that passed all tests works"),
    Output(
        "package_carbon_kg",
        "kg",
        "carbon dioxide equivalent of making one that works, but for electricity of wafers",
    ),
    Output("package_fab_energy_J", "J", "electricity of making one that works"),
    Output("package_lead_time_s", "s", "time from the start of its slowest wafer to the finished package"),
    source=SOURCE,
)
def package_facts(package_dies: np.ndarray) -> tuple[float, float, float, float, float, float, float]:
    """Carbon and electricity share the yields of cost."""
    root = package_dies[0].view(RESULT)[0]
    quality = root.quality
    return (
        root.area_mm2,
        root.total_power_W,
        root.assembled_true_yield,
        quality,
        root.carbon_kg / quality,
        root.energy_J / quality,
        root.lead_time_s,
    )


@equation(
    PRICE,
    source="cost of the package and its share of design, over one less the vendor's gross margin",
    when=("chip_cost", ("package",)),
)
def packaged_price(
    package_cost_usd: float,
    package_design_usd: float,
    package_has_memory: float,
    facility_margin: float,
    memory: Annotated[ListedMemory, "memory_{}"],
) -> float:
    """Price of a package that is sold at a gross margin, and of memory that is not in it, as listed."""
    outside = 0.0 if package_has_memory == 1.0 else memory_price(memory)
    return (package_cost_usd + package_design_usd) / (1.0 - facility_margin) + outside


@equation(
    CARBON,
    source="ACT (Gupta et al., ISCA 2022), eq. 4 and 5, with the yields of cost",
    when=("chip_cost", ("package",)),
)
def packaged_carbon(
    package_carbon_kg: float,
    package_fab_energy_J: float,
    package_has_memory: float,
    facility_fab_carbon_intensity_kg_per_J: float,
    memory_capacity_B: float,
    memory_carbon_kg_per_B: float,
) -> float:
    """Gases and materials, electricity at the intensity of the fab's grid, and memory that is not in the package."""
    outside = 0.0 if package_has_memory == 1.0 else memory_capacity_B * memory_carbon_kg_per_B
    return package_carbon_kg + package_fab_energy_J * facility_fab_carbon_intensity_kg_per_J + outside


@equation(
    INFEASIBLE,
    source="the first check that fails, of the chip, the system and then the package",
    when=("chip_cost", ("package",)),
)
def packaged_feasibility(chip_reason: float, system_reason: float, package_dies: np.ndarray) -> float:
    """A package must be buildable: dies on their wafers, links within reach, edges long enough."""
    status = package_dies[0].view(RESULT)[0].status
    reason = chip_reason if chip_reason != 0.0 else system_reason
    if reason != 0.0 or status == 0.0:
        return reason
    return FIRST_OF_PACKAGE + status - 1.0


@allocating
def build_many(
    codes: np.ndarray,
    links: np.ndarray,
    numbers: np.ndarray,
    places: np.ndarray,
    values: np.ndarray,
    results: np.ndarray,
) -> None:
    """Results [point, die, RESULTS] of one package for many values [point, place] of the entries that vary."""
    desk = desk_for(len(codes), len(links), numbers)
    for point in range(len(values)):
        replace_numbers(desk.numbers, places, values[point])
        build(codes, links, desk, results[point])


TOLD = (package_cost, package_facts)
"""Equations that tell what a package costs and is."""
_cost, _facts = (told.function for told in TOLD)  # an argument would be another one in each process of a cache


@compiled
def told_of_each(results: np.ndarray, found: np.ndarray) -> None:
    """Outputs [point, output] of `TOLD`, one after the other, for many results [point, die, RESULTS]."""
    for point in range(len(results)):
        cost, facts = _cost(results[point]), _facts(results[point])
        for number in range(len(cost)):
            found[point, number] = cost[number]
        for number in range(len(facts)):
            found[point, len(cost) + number] = facts[number]
