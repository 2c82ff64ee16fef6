"""The package as a study sees it, in plain Python: its dies, price and carbon, and whether it can be built."""

import math
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from replications.tables import PackageTables
from sweeper.kernels.codes import REASONS
from sweeper.kernels.packages.layout import (
    CONVENTIONS,
    DIE_CODES,
    DIE_NUMBERS,
    LAYER_NUMBERS,
    LINK_NUMBERS,
    RESULTS,
    STATUS,
    STEP_NUMBERS,
    Made,
)
from tests.support.package_tables import any_conventions, random_package
from tests.twins.naive import FOR_EQUATION, SPECIAL, TOGETHER, Outputs, twin
from tests.twins.naive_mapping import ANY
from tests.twins.naive_package import naive_package

Lists = dict[str, Any]

UNBUILT = frozenset(map(STATUS.index, ("die_exceeds_wafer", "link_beyond_reach")))
LOSSES = ("silicon_loss_usd", "carrier_loss_usd", "wasted_usd", "shoreline_slack_mm", "reticle_slack_mm")
"""Results that are small differences of large numbers."""

NAMED_UNITS = ("usd", "W", "kg", "J", "s")
DIE_UNITS = {
    "package_dies": [next((unit for unit in NAMED_UNITS if f"_{unit}_" in f"{name}_"), "") for name in RESULTS]
}
"""Units of results, as far as they are not of length."""


@twin
def package_units(**given: Any) -> Outputs:
    """See `check_units`: a package that cannot be built has no results but its reason."""
    return {"package_dies": ANY}


def cut(numbers: list[float], dies: int, steps: int, links: int) -> list[np.ndarray]:
    """The tables of a package, from one long list: dies, layers, steps, links, conventions."""
    tail = steps * len(STEP_NUMBERS) + links * len(LINK_NUMBERS) + len(CONVENTIONS)
    layers = (len(numbers) - tail - dies * len(DIE_NUMBERS)) // len(LAYER_NUMBERS)
    rest, found = list(numbers), []
    sizes = ((dies, DIE_NUMBERS), (layers, LAYER_NUMBERS), (steps, STEP_NUMBERS), (links, LINK_NUMBERS))
    for rows, names in (*sizes, (1, CONVENTIONS)):
        found.append(np.array(rest[: rows * len(names)]).reshape(rows, len(names)))
        del rest[: rows * len(names)]
    assert not rest
    return found


def check_units(given: Lists, found: Outputs) -> None:
    """Every result of every die that is there is that of the plain model, as long as the package can be built; not a
    number where that has none, as for the silicon of a die whose price is given and that no wafer holds."""
    numbers = list(given["package_numbers"])
    for place, value in zip(given["package_places"], given["package_values"], strict=True):
        numbers[place] = value
    for place, which in np.array(given["package_made"], np.int64).reshape(-1, 2).tolist():
        numbers[place] = given[Made._fields[which]]
    codes = np.array(given["package_codes"], np.int64)
    links = np.array(given["package_links"], np.int64).reshape(-1, 2)
    before = int(codes[:, DIE_CODES.index("steps")].sum())
    dies, layers, steps, of_links, conventions = cut(numbers, len(codes), before, len(links))
    wanted = naive_package(PackageTables(codes, dies, layers, steps, links, of_links, conventions[0]))
    there = [number for number, row in enumerate(wanted) if row["copies"] > 0]
    wanted, got = [wanted[number] for number in there], found["package_dies"][there]
    assert [row["status"] for row in wanted] == got[:, RESULTS.index("status")].tolist()
    if UNBUILT.isdisjoint(row["status"] for row in wanted):
        for column, name in enumerate(RESULTS):
            column_of = [row[name] for row in wanted]
            large = max(abs(row[each]) for row in wanted for each in (name, "price_usd", "width_mm"))
            slack = 1e-12 * large if name in LOSSES else 0.0
            for number, want in zip(got[:, column].tolist(), column_of, strict=True):
                alike = math.isclose(number, want, rel_tol=1e-9, abs_tol=slack)
                assert alike or (math.isnan(number) and math.isnan(want)), name


def of_root(package_dies: list[list[float]]) -> dict[str, float]:
    return dict(zip(RESULTS, package_dies[0], strict=True))


@twin
def package_cost(package_dies: list[list[float]]) -> Outputs:
    """One in `quality` of the packages that pass the tests works; those that do not are paid for in vain."""
    root = of_root(package_dies)
    cost = root["price_usd"] / root["quality"]
    return {
        "package_cost_usd": cost,
        "package_silicon_usd": root["silicon_usd"],
        "package_defects_usd": root["silicon_loss_usd"],
        "package_carrier_usd": root["carrier_usd"] + root["carrier_loss_usd"],
        "package_assembly_usd": root["assembling_usd"],
        "package_test_usd": root["testing_usd"],
        "package_wasted_usd": root["wasted_usd"],
        "package_escapes_usd": cost * (1 - root["quality"]),
        "package_scrap_usd": cost - root["perfect_price_usd"],
        "package_design_usd": root["design_usd_with_children"],
    }


@twin
def package_facts(package_dies: list[list[float]]) -> Outputs:
    root = of_root(package_dies)
    return {
        "package_area_mm2": root["area_mm2"],
        "package_rated_power_W": root["total_power_W"],
        "package_yield": root["assembled_true_yield"],
        "package_quality": root["quality"],
        "package_carbon_kg": root["carbon_kg"] / root["quality"],
        "package_fab_energy_J": root["energy_J"] / root["quality"],
        "package_lead_time_s": root["lead_time_s"],
    }


@twin
def listed_price(chip_price_usd: float, **given: float) -> Outputs:
    """A chip and its memory, of which rate and capacity each have a price."""
    rate = given["memory_bandwidth_Bps"] * given["memory_price_usd_per_Bps"]
    capacity = given["memory_capacity_B"] * given["memory_price_usd_per_B"]
    return {"accelerator_price_usd": math.fsum([chip_price_usd, rate, capacity])}


@twin
def packaged_price(
    package_cost_usd: float,
    package_design_usd: float,
    package_has_memory: float,
    facility_margin: float,
    memory_bandwidth_Bps: float,
    memory_capacity_B: float,
    memory_price_usd_per_Bps: float,
    memory_price_usd_per_B: float,
) -> Outputs:
    """The price of which the margin is profit and the rest what it costs; memory elsewhere is bought besides."""
    cost = package_cost_usd + package_design_usd
    sold = [cost, cost * facility_margin / (1 - facility_margin)]
    if not package_has_memory:
        sold += [memory_bandwidth_Bps * memory_price_usd_per_Bps, memory_capacity_B * memory_price_usd_per_B]
    return {"accelerator_price_usd": math.fsum(sold)}


@twin
def listed_carbon(chip_carbon_kg: float, memory_capacity_B: float, memory_carbon_kg_per_B: float) -> Outputs:
    return {"accelerator_carbon_kg": math.fsum([chip_carbon_kg, memory_capacity_B * memory_carbon_kg_per_B])}


@twin
def packaged_carbon(package_carbon_kg: float, package_fab_energy_J: float, **given: float) -> Outputs:
    parts = [package_carbon_kg, package_fab_energy_J * given["facility_fab_carbon_intensity_kg_per_J"]]
    if not given["package_has_memory"]:
        parts.append(given["memory_capacity_B"] * given["memory_carbon_kg_per_B"])
    return {"accelerator_carbon_kg": math.fsum(parts)}


@twin
def bought_feasibility(chip_reason: float, system_reason: float) -> Outputs:
    return {"infeasible_reason": int(chip_reason) or int(system_reason)}


@twin
def packaged_feasibility(chip_reason: float, system_reason: float, package_dies: list[list[float]]) -> Outputs:
    """The chip's reason comes first, then the system's; those of packages bear the same names in both lists."""
    named = STATUS[int(of_root(package_dies)["status"])]
    return {"infeasible_reason": int(chip_reason) or int(system_reason) or REASONS.index(named)}


# random inputs


@st.composite
def tables(draw: st.DrawFn) -> dict[str, np.ndarray]:
    """A random package, some of whose powers are replaced."""
    random = Random(draw(st.integers(0, 2**32 - 1)))
    package = random_package(random, any_conventions(random) if draw(st.booleans()) else [])
    # Units need not fit into an area that is given instead of computed.
    fixed = ~np.isnan(package.die_numbers[:, DIE_NUMBERS.index("given_area_mm2")])
    package.die_numbers[fixed, DIE_NUMBERS.index("harvest_units")] = 0.0
    if random.random() < 0.1:
        package.die_numbers[-1, DIE_NUMBERS.index("impossible")] = 1.0
    varied = sorted(random.sample(range(len(package.die_numbers)), draw(st.integers(0, len(package.die_numbers)))))
    places = [row * len(DIE_NUMBERS) + DIE_NUMBERS.index("power_W") for row in varied]
    told = [row for row in range(len(package.die_numbers)) if row not in varied and random.random() < 0.3]
    power = [(row * len(DIE_NUMBERS) + DIE_NUMBERS.index("power_W"), Made._fields.index("die_power_W")) for row in told]
    return {
        "package_codes": package.die_codes,
        "package_links": package.link_codes,
        "package_numbers": package.numbers,
        "package_places": np.array(places, np.int64),
        "package_values": np.array([random.uniform(0, 50) for _ in places]),
        "package_made": np.array(power, np.int64).reshape(-1, 2),
        **dict.fromkeys(Made._fields, 1.0),
        "die_power_W": random.uniform(0, 50),
    }


@st.composite
def found_dies(draw: st.DrawFn) -> dict[str, np.ndarray]:
    """Results of one to three dies, of the kind that a package has."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    found = random.uniform(1.0, 1e3, (draw(st.integers(1, 3)), len(RESULTS)))
    for name in RESULTS:
        column = RESULTS.index(name)
        if name in ("quality", "assembled_true_yield"):
            found[:, column] = random.uniform(0.01, 1.0, len(found))
        if name == "status":
            found[:, column] = draw(st.integers(0, len(STATUS) - 1))
    return {"package_dies": found}


SPECIAL["package_has_memory"] = st.sampled_from([0.0, 1.0])
SPECIAL["facility_margin"] = st.just(0.0) | st.floats(0.0, 0.9)
SPECIAL["system_reason"] = st.just(0.0) | st.integers(0, REASONS.index("memory_capacity")).map(float)
TOGETHER.append((frozenset({"package_dies"}), found_dies()))
FOR_EQUATION["package_units"] = tables()
