"""What a system costs to own: bookkeeping that must add up, limits, and public prices of a GPU-hour."""

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.equation import declared
from sweeper.kernels.shared import ownership, tokens
from sweeper.kernels.shared.ownership import recovery_per_s
from sweeper.kernels.shared.price import system_power
from sweeper.kernels.shared.rated_power import rated_power
from sweeper.library.library import Library, builtin_specs
from sweeper.words.system import ATTRIBUTES, ENTRY_DEFAULTS
from tests.places import ROOT
from tests.support.examples import examples
from tests.twins.naive import call

FAST = examples(60)
YEAR_s = 365 * 24 * 3600.0
LIBRARY = Library.load([builtin_specs()])
ENTRIES = LIBRARY.names("facility")
FACILITY = ATTRIBUTES["facility"]
DOCUMENT = (ROOT / "docs" / "ownership.md").read_text(encoding="utf-8")

NETWORK = {
    "links_x": 1024.0,
    "links_outer": 1024.0,
    "ports_x": 1024.0,
    "ports_outer": 2048.0,
    "link_bandwidth_Bps": 450e9,
    "outer_link_bandwidth_Bps": 50e9,
    "link_energy_J_per_B": 1e-11,
    "outer_link_energy_J_per_B": 1e-10,
    "link_switch_energy_J_per_B": 5e-11,
    "outer_link_switch_energy_J_per_B": 5e-11,
}
"""Counts and energies of some network."""

PRICES = (
    "accelerator_price_usd",
    "network_price_usd",
    "facility_server_price_usd",
    "facility_construction_price_usd_per_W",
    "facility_electricity_price_usd_per_J",
    "facility_staff_price_usd_per_s",
    "facility_rent_usd_per_J",
)
COSTS = (
    "capital_usd",
    "capital_usd_per_s",
    "ownership_usd_per_s",
    "ownership_usd",
    "usd_per_chip_hour",
    "usd_per_sample",
    "usd_per_million_tokens",
    "usd_per_training_run",
)


def facility(name: str) -> dict[str, float]:
    """Columns that a facility of the library gives."""
    values = LIBRARY.find("facility", name).values
    return {f"facility_{FACILITY[key].column}": value.number for key, value in values.items()}


def owned(columns: dict[str, float], task: str = "training", **other: float) -> dict[str, float]:
    """The columns with all that the equations make of them."""
    found: dict[str, Any] = {**NETWORK, **columns, **other}
    for equation in declared(ownership, tokens):
        if equation.when is None or task in equation.when[1]:
            found |= call(equation, found)
    return found


def _from_zero(low: float, high: float) -> st.SearchStrategy[float]:
    return st.just(0.0) | st.floats(low, high)


SYSTEMS = st.fixed_dictionaries(
    {
        "chips": st.integers(1, 10**5).map(float),
        "average_power_W": st.floats(1.0, 2e3),
        "system_power_W": st.floats(1.0, 1e8),
        "accelerator_price_usd": st.floats(1.0, 1e5),
        "network_price_usd": _from_zero(1.0, 1e9),
        "accelerator_carbon_kg": _from_zero(1.0, 1e4),
        "power_limited_clock": st.just(1.0) | st.floats(0.1, 1.0),
        "samples_per_s": st.floats(1e-3, 1e6),
        "tokens_per_s": st.floats(1.0, 1e9),
        "output_tokens_per_s": st.floats(1.0, 1e9),
        "training_tokens": st.floats(1e6, 1e14),
        "facility_lifetime_s": st.floats(1.0, 20.0).map(lambda years: years * YEAR_s),
        "facility_construction_life_s": st.floats(1.0, 40.0).map(lambda years: years * YEAR_s),
        "facility_utilisation": st.floats(0.01, 1.0),
        "facility_idle_share": st.floats(0.0, 1.0),
        "facility_power_usage_effectiveness": st.floats(1.0, 2.5),
        "facility_electricity_price_usd_per_J": _from_zero(1e-9, 1e-6),
        "facility_carbon_intensity_kg_per_J": _from_zero(1e-9, 1e-6),
        "facility_construction_price_usd_per_W": _from_zero(1.0, 20.0),
        "facility_rent_usd_per_J": _from_zero(1e-9, 1e-6),
        "facility_server_price_usd": _from_zero(1.0, 1e5),
        "facility_server_power_W": _from_zero(1.0, 1e3),
        "facility_server_carbon_kg": _from_zero(1.0, 1e4),
        "facility_maintenance_share_per_s": _from_zero(1e-11, 1e-8),
        "facility_interest_per_s": _from_zero(1e-11, 1e-8),
        "facility_staff_price_usd_per_s": _from_zero(1e-8, 1e-2),
        "facility_network_carbon_share": st.floats(0.0, 1.0),
    }
)


def close(value: float, scale: float = 0.0) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-9 * scale)


# prices


@given(SYSTEMS, st.floats(0.1, 10.0))
@FAST
def test_all_prices_in_another_currency(system: dict[str, float], rate: float) -> None:
    found = owned(system)
    other = owned(system, **{price: system[price] * rate for price in PRICES})
    for cost in COSTS:
        assert other[cost] == close(found[cost] * rate)
    for column in ("facility_power_W", "carbon_kg_per_s", "training_run_s", "energy_per_training_run_J"):
        assert other[column] == found[column]


@pytest.mark.parametrize("price", PRICES)
@given(SYSTEMS, st.floats(1.0, 1e3))
@FAST
def test_costs_are_linear_in_every_price(price: str, system: dict[str, float], step: float) -> None:
    step *= max(system[price], 1e-9)
    zero, one, two = (owned(system, **{price: times * step}) for times in (0.0, 1.0, 2.0))
    for cost in COSTS:
        assert two[cost] - one[cost] == close(one[cost] - zero[cost], two[cost])
        assert one[cost] >= zero[cost]


# capital


@given(SYSTEMS)
@FAST
def test_without_interest_the_payments_add_up_to_the_capital(system: dict[str, float]) -> None:
    life = system["facility_lifetime_s"]
    found = owned(system, facility_interest_per_s=0.0, facility_construction_life_s=life)
    assert found["capital_usd_per_s"] * life == close(found["capital_usd"])
    parts = ("accelerator_capital_usd", "server_capital_usd", "network_price_usd", "construction_capital_usd")
    assert math.fsum(found[part] for part in parts) == close(found["capital_usd"])


@given(st.floats(0.001, 1.0), st.floats(0.5, 40.0))
@FAST
def test_payments_repay_capital_and_interest(rate: float, life: float) -> None:
    """Month by month: interest on what is left is added, the payment taken off, and nothing is left at the end."""
    months = round(life * 12)
    payment = recovery_per_s(rate / YEAR_s, months / 12 * YEAR_s) * YEAR_s / 12
    growth = math.exp(rate / 12)
    paid_at_end_of_month = payment * (growth - 1) / (rate / 12)
    left = 1.0
    for _ in range(months):
        left = left * growth - paid_at_end_of_month
    assert left * math.exp(-rate * life) == pytest.approx(0.0, abs=1e-12)


@given(st.floats(0.5, 40.0).map(lambda years: years * YEAR_s), st.floats(1e-12, 1e-8), st.floats(1.01, 4.0))
@FAST
def test_recovery_grows_with_interest_from_the_inverse_of_the_life(life: float, rate: float, more: float) -> None:
    assert recovery_per_s(0.0, life) == 1.0 / life
    assert recovery_per_s(1e-30, life) == close(1.0 / life)
    assert max(1.0 / life, rate) < recovery_per_s(rate, life) < recovery_per_s(rate * more, life)
    assert recovery_per_s(rate, 1e3 / rate) == close(rate)


# power


@given(SYSTEMS)
@FAST
def test_power_of_a_system_that_never_idles_in_a_perfect_facility(system: dict[str, float]) -> None:
    found = owned(system, facility_utilisation=1.0, facility_power_usage_effectiveness=1.0)
    nodes = system["chips"] * (system["average_power_W"] + system["facility_server_power_W"])
    assert found["facility_power_W"] == close(nodes + found["network_power_W"])
    always = owned(system, facility_idle_share=1.0, facility_power_usage_effectiveness=1.0)
    assert always["facility_power_W"] == close(found["facility_power_W"])


@given(SYSTEMS)
@FAST
def test_an_idle_system_still_draws_its_share(system: dict[str, float]) -> None:
    found = owned(system, facility_utilisation=1e-9)
    nodes = system["chips"] * (system["average_power_W"] + system["facility_server_power_W"])
    idle = nodes * system["facility_idle_share"] + found["network_power_W"]
    expected = idle * system["facility_power_usage_effectiveness"]
    assert found["facility_power_W"] == pytest.approx(expected, rel=1e-6, abs=1e-8 * nodes)


@given(st.floats(1.0, 2e3), st.floats(0.0, 1e13), st.floats(0.0, 1e-10))
@FAST
def test_rated_power(chip: float, bandwidth: float, energy: float) -> None:
    """Where energy is not counted: chip and memory at full rate, as the system's rated power has them."""
    power, clock = rated_power.function(chip, bandwidth, energy)
    given_columns = {"chips": 1.0, "chip_power_W": chip, "memory_bandwidth_Bps": bandwidth}
    silent = {name: 0.0 if name.startswith(("links_", "ports_")) else 1.0 for name in system_power.inputs}
    columns = {**silent, **given_columns, "memory_energy_J_per_B": energy}
    assert power == close(call(system_power, columns)["system_power_W"])
    assert clock == 1.0


# carbon


@given(SYSTEMS)
@FAST
def test_clean_electricity_leaves_the_embodied_carbon(system: dict[str, float]) -> None:
    found = owned(system, facility_carbon_intensity_kg_per_J=0.0)
    assert found["operational_carbon_kg_per_s"] == 0.0
    assert found["carbon_kg_per_s"] * system["facility_lifetime_s"] == close(found["embodied_carbon_kg"])
    none = owned(found, accelerator_carbon_kg=0.0, facility_server_carbon_kg=0.0)
    assert none["embodied_carbon_kg"] == none["carbon_kg_per_s"] == none["carbon_kg_per_training_run"] == 0.0


# work


@pytest.mark.parametrize("task", ["training", "inference"])
@given(system=SYSTEMS)
@FAST
def test_what_is_sold_pays_for_everything(task: str, system: dict[str, float]) -> None:
    """Pieces of work of a whole life, times their cost, are the total cost of ownership; the same of carbon."""
    found = owned(system, task)
    at_work_s = system["facility_lifetime_s"] * system["facility_utilisation"]
    full_speed_s = at_work_s * system["power_limited_clock"]
    rate = system["tokens_per_s" if task == "training" else "output_tokens_per_s"]
    whole_kg = found["carbon_kg_per_s"] * system["facility_lifetime_s"]
    sold = {
        "chip_hour": system["chips"] * at_work_s / 3600,
        "sample": system["samples_per_s"] * full_speed_s,
        "million_tokens": rate * full_speed_s / 1e6,
    }
    for piece, count in sold.items():
        assert found[f"usd_per_{piece}"] * count == close(found["ownership_usd"])
        if piece != "chip_hour":
            assert found[f"carbon_kg_per_{piece}"] * count == close(whole_kg)


@given(SYSTEMS)
@FAST
def test_a_training_run_costs_what_its_tokens_cost(system: dict[str, float]) -> None:
    found = owned(system)
    millions = system["training_tokens"] / 1e6
    assert found["usd_per_training_run"] == close(found["usd_per_million_tokens"] * millions)
    assert found["carbon_kg_per_training_run"] == close(found["carbon_kg_per_million_tokens"] * millions)
    bill = found["energy_per_training_run_J"] * system["facility_electricity_price_usd_per_J"]
    assert bill <= found["usd_per_training_run"] * (1 + 1e-9)
    chip_hours = found["training_run_s"] * system["chips"] / 3600
    assert found["usd_per_training_run"] == close(found["usd_per_chip_hour"] * chip_hours)


@given(SYSTEMS, st.floats(0.01, 1.0))
@FAST
def test_less_use_is_never_cheaper(system: dict[str, float], part: float) -> None:
    much = owned(system)
    little = owned(system, facility_utilisation=system["facility_utilisation"] * part)
    for column in ("usd_per_chip_hour", "usd_per_million_tokens", "usd_per_training_run", "energy_per_training_run_J"):
        assert little[column] >= much[column] * (1 - 1e-12)
    assert little["ownership_usd_per_s"] <= much["ownership_usd_per_s"] * (1 + 1e-12)


# the library


def test_the_default_facility_is_in_the_library() -> None:
    assert ENTRY_DEFAULTS["facility"] in ENTRIES


@pytest.mark.parametrize("name", ENTRIES)
def test_facilities_are_plausible(name: str) -> None:
    values = LIBRARY.find("facility", name).values
    assert all(value.low <= value.number <= value.high for value in values.values())
    assert values["power_usage_effectiveness"].low >= 1.0
    assert values["construction_life"].number >= values["lifetime"].number
    assert (values["rent"].number == 0.0) != (values["construction_price"].number == 0.0)


H100 = {
    "chips": 1024.0,
    "network_price_usd": 4.35e6,
    "system_power_W": 1024 * 750.0,
    "average_power_W": 600.0,
    "power_limited_clock": 1.0,
    "accelerator_carbon_kg": 150.0,
    "samples_per_s": 1.0,
    "tokens_per_s": 1.0,
    "training_tokens": 3e11,
}
"""A cluster of H100: price of switches and cables of a public build sheet (August 2024), 48 switches and their optics
for 1024 GPUs."""
RENTED_USD_PER_HOUR = (1.70, 2.99)
"""One-year contracts at the low of October 2025, and on demand in October 2024 (SemiAnalysis)."""


@pytest.mark.parametrize("price", [25e3, 30e3])
@pytest.mark.parametrize("name", ENTRIES)
def test_an_hour_of_an_h100(name: str, price: float) -> None:
    """What an hour costs its owner lies below what it is rented for at its dearest, and not far below the cheapest."""
    found = owned({**H100, **facility(name)}, accelerator_price_usd=price)
    low, high = RENTED_USD_PER_HOUR
    assert low / 1.5 <= found["usd_per_chip_hour"] <= high


@pytest.mark.parametrize("name", ENTRIES)
def test_the_table_of_the_document(name: str) -> None:
    row = re.search(rf"^\| `{name}` \| (\S+) to (\S+) \| (\d+) % \| (\d+) % \|$", DOCUMENT, re.MULTILINE)
    assert row is not None
    cheap, dear = (owned({**H100, **facility(name)}, accelerator_price_usd=price) for price in (25e3, 30e3))
    embodied = dear["embodied_carbon_kg"] / dear["facility_lifetime_s"] / dear["carbon_kg_per_s"]
    energy = dear["electricity_usd_per_s"] / dear["ownership_usd_per_s"]
    hours = (f"{found['usd_per_chip_hour']:.2f}" for found in (cheap, dear))
    assert row.groups() == (*hours, f"{100 * energy:.0f}", f"{100 * embodied:.0f}")


def test_capital_of_an_h100_cluster() -> None:
    """The same build sheet: 49,248 usd for a GPU with its part of server and network; ours without the building."""
    found = owned({**H100, **facility("datacenter")}, accelerator_price_usd=30e3)
    per_chip = (found["capital_usd"] - found["construction_capital_usd"]) / found["chips"]
    assert 49_248 / 1.5 <= per_chip <= 49_248
    assert f"{per_chip:,.0f} usd" in DOCUMENT.replace("\n", " ")


def test_shares_of_the_cost() -> None:
    """Epoch AI's site: servers take about 60 % of the annual cost, energy 0.6 of 8.5; accelerators govern."""
    found = owned({**H100, **facility("hyperscale_us")}, accelerator_price_usd=30e3)
    energy = found["electricity_usd_per_s"] / found["ownership_usd_per_s"]
    assert 0.6 / 8.5 / 2 <= energy <= 0.6 / 8.5 * 2
    assert found["accelerator_capital_usd"] > 0.4 * found["capital_usd"]
