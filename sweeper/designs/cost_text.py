"""What a package costs, as text: tables of its dies, of where the dollars go, and of what the cost hinges on."""

import math
from collections.abc import Sequence
from textwrap import shorten

from sweeper.designs.cost_draws import SAMPLE
from sweeper.designs.cost_report import FACTS, PARTS, Amount, CostComparison, CostReport, Hinge
from sweeper.reading.limits import written
from sweeper.views.text import aligned, show
from sweeper.views.uncertainty import by_chance

SOURCE_LETTERS = 60
"""Letters of a source that a table shows."""

SIDES = 6
"""Numbers drawn on one side that a note names."""

DIE_HEADS = (
    *("DIE", "COUNT", "AREA mm2", "FIELDS", "PER WAFER", "YIELD", "TESTED"),
    *("EACH usd", "DIES", "MOUNTING", "PRICE", "SHARE", "DESIGN"),
)
DIE_NOTE = (
    "YIELD: share without faults; TESTED: share that passes the test of the die itself; none of a die that is bought.\n"
    "EACH: one tested die; DIES: all of them in a package; MOUNTING: putting others on them, with test; PRICE: both,\n"
    "with what is lost on the way, of a package that passed its tests; DESIGN: with masks, per package. In usd."
)


def text(report: CostReport | CostComparison) -> str:
    """A report, or a comparison after the report of its first design, as tables."""
    if isinstance(report, CostComparison):
        return "\n\n".join([text(report.first), _comparison_text(report)])
    head = "\n".join([_headline(report), feasibility(report), *_notes(report)])
    blocks = [head, f"{_die_table(report)}\n{DIE_NOTE}"]
    if has_cost(report):
        hinges = _hinge_table(report.hinges, report.buildable_share * min(report.draws, SAMPLE))
        blocks += [_part_table(report), _fact_table(report), f"WHAT THE COST HINGES ON\n{hinges}"]
    return "\n\n".join(blocks)


def _usd(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:,.2f}"


def percent(share: float) -> str:
    """A share in percent."""
    return "-" if math.isnan(share) else f"{100.0 * share:.1f} %"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:,.4g}" if abs(value) < 1000.0 else f"{value:,.0f}"


def _setting(value: float | str, unit: str) -> str:
    """The value of a setting as a person would write it."""
    return value if isinstance(value, str) else written(value, unit)


def _headline(report: CostReport) -> str:
    given = ((name, _setting(value, report.units.get(name, ""))) for name, value in report.settings.items())
    settings = "".join(f", {name} {value}" for name, value in given)
    if not has_cost(report):
        return f"{report.design}{settings}: no cost"
    if math.isnan(report.total.p50):
        return f"{report.design}{settings}: {_usd(report.total.value)} usd if it could be built, as it can in no draw"
    band = f"90 % of {report.draws:,} draws: {_usd(report.total.p5)} to {_usd(report.total.p95)}"
    band += f"; the value lies {report.total.side}" if report.total.side else ""
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


def _notes(report: CostReport) -> list[str]:
    """What must be known of the total and of bands: what is not in it, and which values lie outside of theirs."""
    notes = ["without design: the package says no volume"] if report.without_design else []
    labels = {**PARTS, **{name: label for name, (label, *_) in FACTS.items()}}
    aside = [amount for amount in (report.total, *report.parts, *report.facts) if amount.side]
    if aside and has_cost(report):
        outside = ", ".join(f"{labels.get(amount.name, 'total')} ({amount.side})" for amount in aside)
        notes.append(f"outside the band of the draws: {outside}")
    if aside and has_cost(report) and report.one_sided:
        ends = [f"{each.name} ({each.drawn})" for each in report.one_sided]
        more = f" and {len(ends) - SIDES} more" if len(ends) > SIDES else ""
        notes.append(f"drawn on one side of their value only: {', '.join(ends[:SIDES])}{more}")
    return notes


def _die_table(report: CostReport) -> str:
    dies = report.dies
    own, mounting, design = (
        sum(getattr(die, name) for die in dies) for name in ("die_usd", "mounting_usd", "design_usd")
    )

    def money(die_usd: float, mounting_usd: float, design_usd: float) -> tuple[str, ...]:
        if not has_cost(report):
            return ("-",) * 5
        price = die_usd + mounting_usd
        return _usd(die_usd), _usd(mounting_usd), _usd(price), percent(price / (own + mounting)), _usd(design_usd)

    rows = [
        (
            "  " * die.depth + die.name,
            *map(_number, (die.count, die.area_mm2, die.reticle_fields, die.dies_per_wafer)),
            *map(percent, (die.true_yield, die.test_yield)),
            _usd(die.each_usd) if has_cost(report) else "-",
            *money(die.die_usd, die.mounting_usd, die.design_usd),
        )
        for die in dies
    ]
    total = ("sum", *("",) * 7, *money(own, mounting, design))
    return aligned([DIE_HEADS, *rows, total], right=range(1, len(DIE_HEADS)))


def _part_table(report: CostReport) -> str:
    def row(name: str, amount: Amount) -> tuple[str, ...]:
        about = amount.about.removeprefix("of it: ")
        share = percent(amount.value / report.total.value)
        return name, _usd(amount.value), share, *map(_usd, (amount.p5, amount.p50, amount.p95)), about

    rows = [row(PARTS[part.name], part) for part in report.parts]
    heads = ("WHERE THE DOLLARS GO", "usd", "SHARE", "P5", "P50", "P95", "")
    note = "Percentiles are of each line by itself and do not add up."
    return "\n".join([aligned([heads, *rows, row("total", report.total)], right=range(1, 6)), note])


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
            aligned([("FACTS", "", "P5", "P50", "P95", ""), *rows], right=range(1, 5)),
            f"least room in an exposure field: {field.name}, {field.reticle_slack_mm:.4g} mm{stitched}",
            f"least edge to spare for links: {edge.name}, {edge.shoreline_slack_mm:.4g} mm",
        ]
    )


def _hinge_table(hinges: Sequence[Hinge], draws: float) -> str:
    """What hinges are, in about so many draws that count."""
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
    note = f"Within {by_chance(round(draws)):.2f} of 0 a correlation may be chance; such are left out."
    if draws < 2.0:
        return "Too few draws can be built to tell."
    if not hinges:
        return f"None goes beyond chance in these draws. {note}"
    return "\n".join([aligned([heads, *rows], right=range(1, 5)), note])


def _comparison_text(comparison: CostComparison) -> str:
    first, second, band = comparison.first.design, comparison.second.design, comparison.difference
    lines = [f"VERSUS {_headline(comparison.second)}", feasibility(comparison.second), *_notes(comparison.second)]
    if comparison.buildable_share == 0.0:
        return "\n".join([*lines, "both can be built in no draw: their costs are not compared"])
    counted = "the draws"
    if comparison.buildable_share < 1.0:
        lines.append(f"both can be built in {percent(comparison.buildable_share)} of the draws: these count")
        counted = "these draws"
    if comparison.first.without_design or comparison.second.without_design:
        lines.append("compared without design, of which one of them says nothing")
    more = "more" if band.value >= 0.0 else "less"
    costs = f"it costs {_usd(abs(band.value))} usd {more} than {second}"
    if math.isnan(band.value):
        costs = f"by their own values they are not compared with {second}, as one of them cannot be built"
    cheaper = f"{first} is the cheaper one in {percent(comparison.probability_cheaper)} of {counted}"
    return "\n".join([
        *lines,
        f"{cheaper}; {costs} (90 % of {counted}: {_usd(band.p5)} to {_usd(band.p95)})",
        f"\nWHAT THE DIFFERENCE HINGES ON (positive: more of it speaks against {first})",
        _hinge_table(comparison.hinges, comparison.buildable_share * min(comparison.first.draws, SAMPLE)),
    ])  # fmt: skip
