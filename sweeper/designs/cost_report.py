"""What a package costs: its dies, where every dollar goes, how sure that is, what it hinges on; as data.

Costs are those of the equations that studies use. A value is that of draw 0, a band that of the other draws.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sweeper.designs.cost_draws import OUTPUTS, TOTAL, CostDraws, attributed
from sweeper.designs.cost_settings import setting_units
from sweeper.designs.package_draws import split_path
from sweeper.kernels.equation import Output
from sweeper.kernels.packages.layout import DIE_CODES, RESULT, RESULTS, STATUS
from sweeper.library.entries import Value
from sweeper.library.uncertain import key_of, own_in
from sweeper.study.settings import Settings
from sweeper.views.uncertainty import bands, by_chance, probability_less, rank_correlations

PARTS = {
    "package_silicon_usd": "silicon",
    "package_defects_usd": "defects",
    "package_carrier_usd": "carrier",
    "package_assembly_usd": "assembly",
    "package_test_usd": "test",
    "package_wasted_usd": "wasted dies",
    "package_escapes_usd": "escapes",
    "package_design_usd": "design",
}
"""Columns that add up to the total, and what tables and pictures call them."""

FACTS = {
    "package_area_mm2": ("area", "mm2", 1.0),
    "package_rated_power_W": ("power", "W", 1.0),
    "package_yield": ("yield of the last assembly", "%", 0.01),
    "package_scrap_usd": ("cost beyond perfect yield", "usd", 1.0),
    "package_carbon_kg": ("carbon, but for electricity of wafers", "kg", 1.0),
    "package_fab_energy_J": ("electricity of the fab", "kWh", 3.6e6),
    "package_lead_time_s": ("from slowest wafer to package", "weeks", 604800.0),
}
"""Further columns: what a table calls them, the unit in which it shows them, and what one of it is in theirs."""

WITHOUT_DESIGN = "cost of one package that works, without design"

FEWEST = 20
"""Draws of which 5 % is one: the band of fewer says nothing of a value outside."""

HINGES = 10
"""Inputs that a report names."""


@dataclass(frozen=True)
class Amount:
    """A quantity of the package: its value, the band of the draws, and on which side of this band the value lies:
    "below", "above", or "" within."""

    name: str
    about: str
    unit: str
    value: float
    p5: float
    p50: float
    p95: float
    side: str


@dataclass(frozen=True)
class Die:
    """A row of the tree; counts are per package. Wafer and yields of a die that is bought are NaN.

    `each_usd` is the price of one such die by itself, tested. `die_usd` is the price of all of them in a package that
    passed its tests, `mounting_usd` that of the steps that mount others on them and test the whole, both with what is
    lost on the way; over all dies they add up to the price of the package. `design_usd` is design and masks of these
    dies and of the package on them, per package.
    """

    name: str
    depth: int
    count: float
    area_mm2: float
    reticle_fields: float
    reticle_slack_mm: float
    shoreline_slack_mm: float
    dies_per_wafer: float
    true_yield: float
    test_yield: float
    each_usd: float
    die_usd: float
    mounting_usd: float
    design_usd: float


@dataclass(frozen=True)
class Hinge:
    """An uncertain input `kind/entry/number`, and the rank correlation of an outcome with it."""

    name: str
    correlation: float
    value: float
    low: float
    high: float
    unit: str
    grade: str
    source: str


@dataclass(frozen=True)
class OneSided:
    """An input of which all draws lie on one side of its value: `drawn` is "upwards" or "downwards"."""

    name: str
    drawn: str


@dataclass(frozen=True)
class CostReport:
    """All about one design.

    `units` are those of the numbers among the settings. `status` is why it cannot be built, one of
    `sweeper.kernels.packages.layout.STATUS`, and `status_die` the die that is to blame; both are empty if it can.
    `buildable_share` is the share of the draws in which it can. `without_design` says that the total has no share of a
    design, as the package says no volume; `one_sided` which inputs are drawn on one side of their value only: what they
    decide may lie outside its band.
    """

    design: str
    settings: Settings
    units: Mapping[str, str]
    draws: int
    status: str
    status_die: str
    buildable_share: float
    without_design: bool
    one_sided: tuple[OneSided, ...]
    total: Amount
    parts: tuple[Amount, ...]
    facts: tuple[Amount, ...]
    dies: tuple[Die, ...]
    hinges: tuple[Hinge, ...]


@dataclass(frozen=True)
class CostComparison:
    """A design less another one, in those draws in which both can be built (`buildable_share`). The value of the
    difference is NaN if either cannot be built. The hinges are those of the difference: more of an input with a
    positive correlation speaks against the first one."""

    first: CostReport
    second: CostReport
    buildable_share: float
    probability_cheaper: float
    difference: Amount
    hinges: tuple[Hinge, ...]


def cost_report(drawn: CostDraws) -> CostReport:
    """All about one evaluated design. Bands, and what the cost hinges on, are of the draws in which it can be built."""
    built = drawn.status[1:] == 0.0
    total = replace(TOTAL, about=WITHOUT_DESIGN) if drawn.design.undesigned else TOTAL
    return CostReport(
        design=drawn.design.name,
        settings=dict(drawn.settings),
        units=setting_units(drawn.design, drawn.settings),
        draws=len(drawn.total_usd) - 1,
        status=STATUS[int(drawn.status[0])],
        status_die=_blamed(drawn),
        buildable_share=float(np.mean(built)),
        without_design=drawn.design.undesigned,
        one_sided=_one_sided(drawn.values),
        total=_amount(total, drawn.total_usd, built),
        parts=tuple(_amount(OUTPUTS[name], drawn.columns[name], built) for name in PARTS),
        facts=tuple(_amount(OUTPUTS[name], drawn.columns[name], built) for name in FACTS),
        dies=_dies(drawn),
        hinges=_hinges(drawn.inputs, drawn.values, _of_built(drawn.total_usd, built)),
    )


def cost_comparison(first: CostDraws, second: CostDraws) -> CostComparison:
    """How a design compares with another in the same draws, in which all that both use has the same values; those count
    in which both can be built. Both are without design where one of them is."""
    bare = first.design.undesigned or second.design.undesigned
    usd = [each.columns["package_cost_usd"] if bare else each.total_usd for each in (first, second)]
    difference = usd[0] - usd[1]
    status = np.maximum(first.status, second.status)
    difference[0] = math.nan if status[0] else difference[0]
    both = status[1:] == 0.0
    about = f"total of {first.design.name} less that of {second.design.name}" + (", without design" if bare else "")
    return CostComparison(
        first=cost_report(first),
        second=cost_report(second),
        buildable_share=float(np.mean(both)),
        probability_cheaper=probability_less(usd[0][1:][both], usd[1][1:][both]),
        difference=_amount(Output("difference_usd", "usd", about), difference, both),
        hinges=_hinges(
            {**second.inputs, **first.inputs}, {**second.values, **first.values}, _of_built(difference, both)
        ),
    )


def as_json(report: CostReport | CostComparison) -> dict[str, Any]:
    """A report as plain data; of a comparison, the report of the first design with the rest under `versus`."""
    if isinstance(report, CostComparison):
        plain = asdict(report) | {"first": report.first.design, "second": as_json(report.second)}
        return as_json(report.first) | {"versus": plain}
    shares = [{"share": part.value / report.total.value, "part": PARTS[part.name]} for part in report.parts]
    return asdict(report) | {"parts": [asdict(part) | share for part, share in zip(report.parts, shares, strict=True)]}


def _amount(output: Output, values: np.ndarray, counted: np.ndarray) -> Amount:
    """A quantity [draw], and its band over the `counted` draws [draw but the first]; NaN where none counts."""
    drawn = values[1:][counted]
    value, (p5, p50, p95) = float(values[0]), bands(drawn)
    side = "" if len(drawn) < FEWEST else "below" if value < p5 else "above" if value > p95 else ""
    return Amount(output.name, output.about, output.unit, value, p5, p50, p95, side)


def _of_built(values: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Values [draw] in draw 0 and the `counted` ones [draw but the first], NaN in the others."""
    return np.where(np.concatenate([[True], counted]), values, math.nan)


def _one_sided(values: Mapping[str, Value]) -> tuple[OneSided, ...]:
    """Inputs whose value is one of their ends, in the order of their names."""
    return tuple(
        OneSided(name, "upwards" if value.low == value.number else "downwards")
        for name, value in sorted(values.items())
        if value.number in (value.low, value.high)
    )


def _blamed(drawn: CostDraws) -> str:
    """Die for which the package cannot be built. A die without a reason of its own has that of one mounted on it, which
    stands after it."""
    dies = drawn.results.view(RESULT)[:, 0]
    alike = (dies["status"] == drawn.status[0]) & (dies["copies"] != 0.0)
    return drawn.design.dies[np.flatnonzero(alike)[-1]] if drawn.status[0] else ""


def _dies(drawn: CostDraws) -> tuple[Die, ...]:
    """Rows of the dies that the package has, in the order of the design."""
    parents = [int(parent) for parent in drawn.design.die_codes[:, DIE_CODES.index("parent")]]
    depths: list[int] = []
    for parent in parents:
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    own, mounting = attributed(parents, drawn.results)
    return tuple(
        _die(drawn, number, depths[number], _finite(own[number]), _finite(mounting[number]))
        for number in range(len(parents))
        if drawn.results.view(RESULT)["copies"][number, 0] > 0.0
    )


def _die(drawn: CostDraws, number: int, depth: int, own_usd: float, mounting_usd: float) -> Die:
    design, row = drawn.design, drawn.results[number].view(RESULT)[0]
    results = {name: _finite(row[name]) for name in RESULTS}
    bought = design.bought[number]
    made = {name: math.nan if bought else results[name] for name in ("dies_per_wafer", "true_yield", "test_yield")}
    return Die(
        name=design.dies[number],
        depth=depth,
        count=results["copies"],
        area_mm2=results["area_mm2"],
        reticle_fields=results["reticle_fields"],
        reticle_slack_mm=results["reticle_slack_mm"],
        shoreline_slack_mm=results["shoreline_slack_mm"],
        **made,
        each_usd=results["self_price_usd"],
        die_usd=own_usd,
        mounting_usd=mounting_usd,
        design_usd=results["copies"] * results["design_usd"],
    )


def _finite(value: float) -> float:
    """A number, NaN for one that is not finite: JSON has no infinity, and no die costs so much."""
    return float(value) if math.isfinite(value) else math.nan


def _hinges(inputs: Mapping[str, np.ndarray], values: Mapping[str, Value], outcome: np.ndarray) -> tuple[Hinge, ...]:
    """The inputs [draw] with which an outcome [draw] has the largest rank correlations, beyond what chance gives, in as
    many draws as there are of the inputs; draw 0 takes no part, nor do draws without an outcome. Of a number that
    shares a cause, the draws count in which it goes its own way: else numbers that decide nothing are named for the
    company they keep."""
    kept = max(map(len, inputs.values()), default=1)
    draws, known_in = np.arange(1.0, kept), ~np.isnan(outcome[1:kept])
    correlations = {}
    for name in inputs:
        shared = values[name].shared > 0.0
        own = known_in & (own_in(draws, values[name], key_of(*split_path(name))) if shared else True)
        (share,) = rank_correlations({name: inputs[name][1:][own]}, outcome[1:kept][own]).values()
        correlations[name] = share if abs(share) > by_chance(int(own.sum())) else math.nan
    ranked = sorted(correlations.items(), key=lambda found: (math.isnan(found[1]), -abs(found[1]), found[0]))
    known = [(name, values[name], share) for name, share in ranked if not math.isnan(share)]
    return tuple(
        Hinge(name, share, value.number, value.low, value.high, value.unit, value.grade, value.source)
        for name, value, share in known[:HINGES]
    )
