"""What a package costs: its dies, where every dollar goes, how sure that is, what it hinges on; as data and as text.

Costs are those of the equations that studies use. A value is that of draw 0, a band that of the other draws.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from textwrap import shorten
from typing import Any

import numpy as np

from kernels.equation import Output
from kernels.packages.layout import DIE_CODES, DIE_NUMBERS, RESULT, RESULTS, STATUS
from kernels.packages.wafer import exposures
from sweeper.designs.cost_draws import OUTPUTS, TOTAL, CostDraws, attributed
from sweeper.library.entries import Value
from sweeper.library.packages import PackageDesign, Quoted
from sweeper.study.settings import Settings
from sweeper.views.text import show
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
    "package_carbon_kg": ("carbon, without electricity", "kg", 1.0),
    "package_fab_energy_J": ("electricity of the fab", "kWh", 3.6e6),
}
"""Further columns: what a table calls them, the unit in which it shows them, and what one of it is in theirs."""

HINGES = 10
"""Inputs that a report names."""


@dataclass(frozen=True)
class Amount:
    """A quantity of the package: its value, and the band of the draws."""

    name: str
    about: str
    unit: str
    value: float
    p5: float
    p50: float
    p95: float


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
class CostReport:
    """All about one design.

    `status` is why it cannot be built, one of `kernels.packages.layout.STATUS`, and `status_die` the die that is to
    blame; both are empty if it can. `buildable_share` is the share of the draws in which it can.
    """

    design: str
    settings: Settings
    draws: int
    status: str
    status_die: str
    buildable_share: float
    total: Amount
    parts: tuple[Amount, ...]
    facts: tuple[Amount, ...]
    dies: tuple[Die, ...]
    hinges: tuple[Hinge, ...]


@dataclass(frozen=True)
class CostComparison:
    """A design less another one, in the same draws. The hinges are those of the difference: more of an input with a
    positive correlation speaks against the first one."""

    first: CostReport
    second: CostReport
    probability_cheaper: float
    difference: Amount
    hinges: tuple[Hinge, ...]


def cost_report(drawn: CostDraws) -> CostReport:
    """All about one evaluated design."""
    return CostReport(
        design=drawn.design.name,
        settings=dict(drawn.settings),
        draws=len(drawn.total_usd) - 1,
        status=STATUS[int(drawn.status[0])],
        status_die=_blamed(drawn),
        buildable_share=float(np.mean(drawn.status[1:] == 0.0)),
        total=_amount(TOTAL, drawn.total_usd),
        parts=tuple(_amount(OUTPUTS[name], drawn.columns[name]) for name in PARTS),
        facts=tuple(_amount(OUTPUTS[name], drawn.columns[name]) for name in FACTS),
        dies=_dies(drawn),
        hinges=_hinges(drawn.inputs, drawn.values, drawn.total_usd),
    )


def cost_comparison(first: CostDraws, second: CostDraws) -> CostComparison:
    """How a design compares with another in the same draws, in which all that both use has the same values."""
    difference = first.total_usd - second.total_usd
    about = f"total of {first.design.name} less that of {second.design.name}"
    return CostComparison(
        first=cost_report(first),
        second=cost_report(second),
        probability_cheaper=probability_less(first.total_usd[1:], second.total_usd[1:]),
        difference=_amount(Output("difference_usd", "usd", about), difference),
        hinges=_hinges({**second.inputs, **first.inputs}, {**second.values, **first.values}, difference),
    )


def as_json(found: CostReport | CostComparison) -> dict[str, Any]:
    """A report as plain data; of a comparison, the report of the first design with the rest under `versus`."""
    if isinstance(found, CostComparison):
        plain = asdict(found) | {"first": found.first.design, "second": as_json(found.second)}
        return as_json(found.first) | {"versus": plain}
    shares = [{"share": part.value / found.total.value, "part": PARTS[part.name]} for part in found.parts]
    return asdict(found) | {"parts": [asdict(part) | share for part, share in zip(found.parts, shares, strict=True)]}


def _amount(output: Output, values: np.ndarray) -> Amount:
    return Amount(output.name, output.about, output.unit, float(values[0]), *bands(values[1:]))


def _blamed(drawn: CostDraws) -> str:
    """Die for which the package cannot be built. A die without a reason of its own has that of one mounted on it, which
    stands after it."""
    dies = drawn.results.view(RESULT)[:, 0]
    alike = (dies["status"] == drawn.status[0]) & (dies["copies"] > 0.0)
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
    found = {name: _finite(row[name]) for name in RESULTS}
    price = _cell(design, number, "given_price_usd")
    bought = not (isinstance(price, float) and math.isnan(price))
    made = {name: math.nan if bought else found[name] for name in ("dies_per_wafer", "true_yield", "test_yield")}
    reticle = (_quoted(design, number, f"wafer_reticle_{axis}_mm") for axis in "xy")
    return Die(
        name=design.dies[number],
        depth=depth,
        count=found["copies"],
        area_mm2=found["area_mm2"],
        reticle_fields=math.prod(exposures(found["width_mm"], found["height_mm"], *reticle)),
        reticle_slack_mm=found["reticle_slack_mm"],
        shoreline_slack_mm=found["shoreline_slack_mm"],
        **made,
        each_usd=found["self_price_usd"],
        die_usd=own_usd,
        mounting_usd=mounting_usd,
        design_usd=found["copies"] * found["design_usd"],
    )


def _finite(value: float) -> float:
    """A number, NaN for one that is not finite: JSON has no infinity, and no die costs so much."""
    return float(value) if math.isfinite(value) else math.nan


def _cell(design: PackageDesign, die: int, column: str) -> object:
    return design.cells[die * len(DIE_NUMBERS) + DIE_NUMBERS.index(column)]


def _quoted(design: PackageDesign, die: int, column: str) -> float:
    """A number of a die that stems from an entry of the library."""
    cell = _cell(design, die, column)
    assert isinstance(cell, Quoted)
    return cell.value.number


def _hinges(inputs: Mapping[str, np.ndarray], values: Mapping[str, Value], outcome: np.ndarray) -> tuple[Hinge, ...]:
    """The inputs [draw] with which an outcome [draw] has the largest rank correlations; draw 0 takes no part."""
    found = rank_correlations({name: drawn[1:] for name, drawn in inputs.items()}, outcome[1:])
    known = [(name, values[name], share) for name, share in found.items() if not math.isnan(share)]
    return tuple(
        Hinge(name, share, value.number, value.low, value.high, value.unit, value.grade, value.source)
        for name, value, share in known[:HINGES]
    )


# Text

SOURCE_LETTERS = 60
"""Letters of a source that a table shows."""

DIE_HEADS = (
    *("DIE", "COUNT", "AREA mm2", "FIELDS", "PER WAFER", "YIELD", "TESTED"),
    *("EACH usd", "DIES", "MOUNTING", "PRICE", "SHARE", "DESIGN"),
)
DIE_NOTE = (
    "YIELD: share without faults; TESTED: share that passes the test of the die itself; none of a die that is bought.\n"
    "EACH: one tested die; DIES: all of them in a package; MOUNTING: putting others on them, with test; PRICE: both,\n"
    "with what is lost on the way, of a package that passed its tests; DESIGN: with masks, per package. In usd."
)


def text(found: CostReport | CostComparison) -> str:
    """A report, or a comparison after the report of its first design, as tables."""
    if isinstance(found, CostComparison):
        return "\n\n".join([text(found.first), _comparison_text(found)])
    blocks = [f"{_headline(found)}\n{feasibility(found)}", f"{_die_table(found.dies)}\n{DIE_NOTE}"]
    if has_cost(found):
        hinges = _hinge_table(found.hinges, found.draws)
        blocks += [_part_table(found), _fact_table(found), f"WHAT THE COST HINGES ON\n{hinges}"]
    return "\n\n".join(blocks)


def columns(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Rows as aligned columns, those of `left` to the left and the others, numbers, to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if number in left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _usd(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:,.2f}"


def percent(share: float) -> str:
    """A share in percent."""
    return "-" if math.isnan(share) else f"{100.0 * share:.1f} %"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:,.4g}" if abs(value) < 1000.0 else f"{value:,.0f}"


def _headline(report: CostReport) -> str:
    settings = "".join(f", {name} {show(value)}" for name, value in report.settings.items())
    if not has_cost(report):
        return f"{report.design}{settings}: no cost"
    band = f"90 % of {report.draws:,} draws: {_usd(report.total.p5)} to {_usd(report.total.p95)}"
    return f"{report.design}{settings}: {_usd(report.total.value)} usd ({band})"


def has_cost(report: CostReport) -> bool:
    """Whether the total is a number: a package that cannot be built may have none."""
    return not math.isnan(report.total.value)


def feasibility(report: CostReport) -> str:
    """Whether a package can be built, in words."""
    share = f"{percent(report.buildable_share)} of the draws"
    if not report.status:
        return f"can be built, and so in {share}"
    return f"cannot be built: {report.status.replace('_', ' ')} ({report.status_die}); can be in {share}"


def _die_table(dies: Sequence[Die]) -> str:
    own, mounting, design = (
        sum(getattr(die, name) for die in dies) for name in ("die_usd", "mounting_usd", "design_usd")
    )

    def money(die_usd: float, mounting_usd: float, design_usd: float) -> tuple[str, ...]:
        price = die_usd + mounting_usd
        return _usd(die_usd), _usd(mounting_usd), _usd(price), percent(price / (own + mounting)), _usd(design_usd)

    rows = [
        (
            "  " * die.depth + die.name,
            *map(_number, (die.count, die.area_mm2, die.reticle_fields, die.dies_per_wafer)),
            *map(percent, (die.true_yield, die.test_yield)),
            _usd(die.each_usd),
            *money(die.die_usd, die.mounting_usd, die.design_usd),
        )
        for die in dies
    ]
    return columns([DIE_HEADS, *rows, ("sum", *("",) * 7, *money(own, mounting, design))])


def _part_table(report: CostReport) -> str:
    def row(name: str, amount: Amount) -> tuple[str, ...]:
        about = amount.about.removeprefix("of it: ")
        share = percent(amount.value / report.total.value)
        return name, _usd(amount.value), share, *map(_usd, (amount.p5, amount.p50, amount.p95)), about

    rows = [row(PARTS[part.name], part) for part in report.parts]
    heads = ("WHERE THE DOLLARS GO", "usd", "SHARE", "P5", "P50", "P95", "")
    note = "Percentiles are of each line by itself and do not add up."
    return "\n".join([columns([heads, *rows, row("total", report.total)], left=(0, 6)), note])


def _fact_table(report: CostReport) -> str:
    rows = [
        (label, *(_number(value / scale) for value in (fact.value, fact.p5, fact.p50, fact.p95)), unit)
        for fact in report.facts
        for label, unit, scale in (FACTS[fact.name],)
    ]
    field = min(report.dies, key=lambda die: die.reticle_slack_mm)
    edge = min(report.dies, key=lambda die: die.shoreline_slack_mm)
    stitched = f", stitched of {field.reticle_fields:g} fields" if field.reticle_fields > 1.0 else ""
    return "\n".join(
        [
            columns([("FACTS", "", "P5", "P50", "P95", ""), *rows], left=(0, 5)),
            f"least room in an exposure field: {field.name}, {field.reticle_slack_mm:.4g} mm{stitched}",
            f"least edge to spare for links: {edge.name}, {edge.shoreline_slack_mm:.4g} mm",
        ]
    )


def _hinge_table(hinges: Sequence[Hinge], draws: int) -> str:
    rows = [
        (
            hinge.name,
            f"{hinge.correlation:+.2f}",
            *map(show, (hinge.value, hinge.low, hinge.high)),
            hinge.unit,
            hinge.grade,
            shorten(hinge.source, SOURCE_LETTERS, placeholder=" ..."),
        )
        for hinge in hinges
    ]
    heads = ("INPUT", "RANK CORRELATION", "VALUE", "LOW", "HIGH", "UNIT", "GRADE", "SOURCE")
    note = f"Within {by_chance(draws):.2f} of 0 a correlation may be chance."
    return "\n".join([columns([heads, *rows], left=(0, 5, 6, 7)), note])


def _comparison_text(found: CostComparison) -> str:
    first, second, band = found.first.design, found.second.design, found.difference
    lines = [f"VERSUS {_headline(found.second)}", feasibility(found.second)]
    if not math.isnan(band.value):
        cheaper = f"{first} is the cheaper one in {percent(found.probability_cheaper)} of the draws"
        bounds = f"90 % of the draws: {_usd(band.p5)} to {_usd(band.p95)}"
        lines += [
            f"{cheaper}; it costs {_usd(band.value)} usd more than {second} ({bounds})",
            f"\nWHAT THE DIFFERENCE HINGES ON (positive: more of it speaks against {first})",
            _hinge_table(found.hinges, found.first.draws),
        ]
    return "\n".join(lines)
