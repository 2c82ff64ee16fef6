"""Grades of a package with harvested dies: what they bring together, and down to which it pays to sell.

A die goes to the dearest grade that it is good enough for. Its bad blocks follow from the yield model, from which a
package takes its harvest too; its speed is log-normal about that of the median die and does not depend on them. What is
in the package beside the die costs the same for every grade, so a die that would else be thrown away is worth mounting
for any price above that.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from sweeper.designs.cost_draws import attributed
from sweeper.designs.cost_settings import settings_of
from sweeper.designs.package_draws import evaluate_design, own_numbers, with_numbers
from sweeper.designs.portfolio import VOLUME
from sweeper.errors import Misuse, Place, Problem, Problems, SpecError, SweeperError
from sweeper.inputs.packages import PACKAGE_ROLE
from sweeper.kernels.packages.layout import DIE_CODES, DIE_NUMBERS, RESULT, STATUS
from sweeper.library.library import Library
from sweeper.library.packages.design import PackageDesign
from sweeper.reading import checks
from sweeper.reading.expressions import Expression
from sweeper.reading.nodes import Node, error, read_yaml
from sweeper.study.columns import Stock
from sweeper.study.settings import Settings
from sweeper.views.text import listing
from sweeper.words.attributes import Attribute

DRAWS = 500
"""Draws of which bands are found."""

LEAST_SHARE = 1e-6
"""Share of the dies that may be mounted below which none comes to a grade: one of thousands of wafers."""

SPEED_SPREAD = "speed_spread"
SPREAD = Attribute("", "spread of the speed of dies", 0.0, (1e-6, 2.0), positive=False)
SPEED = Attribute("", "least speed of a grade, over that of the median die", 0.0, (1e-3, 10.0), positive=False)
PRICE = Attribute("usd", "price of a package of this grade")


@dataclass(frozen=True)
class Grade:
    """A grade on sale: how many blocks of a die may be bad, the least speed over the median die's, and the price."""

    name: str
    bad_blocks: int
    speed: float
    usd: float
    place: Place | None = None
    """Where it is written."""

    def fault(self, message: str) -> SweeperError:
        """A mistake of this grade."""
        return SpecError([self.place.problem(message)]) if self.place else Misuse(f"grades.{self.name}: {message}")


@dataclass(frozen=True)
class Grading:
    """A package of which one die is sorted into grades, the dearest first; `speed_spread` is the standard deviation of
    the logarithm of the die's speed."""

    name: str
    design: PackageDesign
    die: str
    settings: Settings
    speed_spread: float
    grades: tuple[Grade, ...]

    @property
    def row(self) -> int:
        """Row of the die in the tables of the design."""
        return list(self.design.dies).index(self.die)

    def harvesting(self, bad_blocks: int) -> PackageDesign:
        """The design with this many blocks of the die allowed to be bad."""
        place = self.row * len(DIE_NUMBERS) + DIE_NUMBERS.index("harvest_spares")
        return with_numbers(self.design, {place: float(bad_blocks)})


def read_grading(path: Path, library: Library) -> Grading:
    """A file of grades. Raises SpecError with all its mistakes, among them a spread of speeds that is missing or that
    no grade asks for, and a grade to which no die can come."""
    stock, root = Stock(library), read_yaml(path)
    needed = ("grading", PACKAGE_ROLE, "die", "grades")
    written = checks.fields(root, "a grading", (*needed, SPEED_SPREAD, "set"), needed)
    design = stock.package(library.find_at(PACKAGE_ROLE, written[PACKAGE_ROLE]).name)
    name = written.read("grading", checks.text, "grading", default="")
    spread = written.read(SPEED_SPREAD, checks.number, SPREAD, default=math.nan)
    sorted_die = [die for row, die in enumerate(design.dies) if _is_harvested(design, row)]
    die = written.read("die", checks.choice, f"harvested die of {design.name}", sorted_die, default="")
    grades = written.read("grades", _grades, default=())
    settings = settings_of(written, design, stock, except_for={VOLUME, *_of_spares(design, die)} if die else {VOLUME})
    written.problems.raise_any()
    written.problems.extend(_speed_problems(root, grades))
    ranked = tuple(sorted(grades, key=lambda grade: -grade.usd))
    written.problems.extend(vain(written["grades"], ranked, spread))
    written.problems.raise_any()
    return Grading(name, design, die, settings, 0.0 if math.isnan(spread) else spread, ranked)


def _speed_problems(root: Node, grades: Iterable[Grade]) -> Iterator[Problem]:
    """What is wrong with the spread of speeds of a file: it is missing, or no grade asks for a speed."""
    fast = next((grade for grade in grades if grade.speed > 0.0), None)
    given = SPEED_SPREAD in checks.mapping(root, "a grading")
    if fast and not given:
        told = f"a grading lacks the key {SPEED_SPREAD!r}: grades.{fast.name} asks for a speed"
        yield root.problem(f"{told}; say how far those of dies are spread, e.g. 0.06, or 0 where all are as fast")
    if given and not fast:
        yield root.key_problem(SPEED_SPREAD, "nothing reads it: no grade asks for a speed; leave it out, or state one")


def vain(node: Node, grades: Sequence[Grade], spread: float) -> Iterator[Problem]:
    """Grades to which no die can come, the dearest of all first: all dies are too slow, or a grade before takes them.
    Where all are as fast as the median die (`spread` 0), it does not matter how much slower they might be."""
    nodes = checks.mapping(node, "grades")
    speeds = {grade.name: 0.0 if spread == 0.0 and grade.speed <= 1.0 else grade.speed for grade in grades}
    for number, grade in enumerate(grades):
        if spread == 0.0 and grade.speed > 1.0:
            told = f"no die comes to it: all have a speed of 1, found {grade.speed:g} with {SPEED_SPREAD}: 0"
            yield nodes[grade.name].problem(told)
            continue
        before = (
            each
            for each in grades[:number]
            if each.bad_blocks >= grade.bad_blocks and speeds[each.name] <= speeds[grade.name]
        )
        if taker := next(before, None):
            told = f"no die comes to it: {taker.name}, which is not cheaper, takes all that are good enough"
            yield nodes[grade.name].problem(f"{told}; ask less of {grade.name}, or leave it out")


def _is_harvested(design: PackageDesign, row: int) -> bool:
    """Whether a die is said to be of equal blocks, and is not bought."""
    units = design.cells[row * len(DIE_NUMBERS) + DIE_NUMBERS.index("harvest_units")]
    bought = design.bought[row] or design.die_codes[row, DIE_CODES.index("carrier")] == 1
    return not bought and units != 0.0


def _of_spares(design: PackageDesign, die: str) -> set[str]:
    """Parameters that say nothing but how many blocks of a die may be bad, which the grades do."""
    place = list(design.dies).index(die) * len(DIE_NUMBERS) + DIE_NUMBERS.index("harvest_spares")
    needs = [design.symbols(cell) if isinstance(cell, Expression) else frozenset() for cell in design.cells]
    others = frozenset().union(*(found for at, found in enumerate(needs) if at != place))
    return {f"{PACKAGE_ROLE}.{name}" for name in needs[place] - others}


def _grades(node: Node) -> tuple[Grade, ...]:
    grades, problems = [], Problems()
    for name, given in checks.named(node, "grades").items():
        with problems.collecting():
            needed = ("bad_blocks", "price")
            written = checks.fields(given, f"the grade {name!r}", (*needed, "speed"), needed)
            bad = written.read("bad_blocks", checks.whole, "bad_blocks", 0, 10**6, default=0)
            speed = written.read("speed", checks.number, SPEED, default=0.0)
            usd = written.read("price", checks.number, PRICE, default=math.nan)
            written.problems.raise_any()
            grades.append(Grade(name, bad, speed, usd, given.place))
    problems.raise_any()
    if not grades:
        raise error(node, "grades names none: give at least one")
    return tuple(grades)


def speed_share(low: float, high: float, spread: float) -> float:
    """Share of dies whose speed is at least `low` and less than `high`, over that of the median die."""

    def faster(speed: float) -> float:
        if spread == 0.0 or speed == 0.0 or math.isinf(speed):
            return float(speed <= 1.0)
        return NormalDist(sigma=spread).cdf(-math.log(speed))

    return max(faster(low) - faster(high), 0.0)


def sorted_shares(grades: Sequence[Grade], yields: Mapping[int, np.ndarray], spread: float) -> list[np.ndarray]:
    """Share of the dies that may be mounted that goes to each grade, [draw] each; the dearest grade comes first.

    `yields` are shares of dies with at most so many bad blocks. What falls to no grade is too slow.
    """
    limits = sorted({grade.bad_blocks for grade in grades})
    below = [np.zeros_like(yields[limits[0]]), *(yields[limit] for limit in limits)]
    shares = [np.zeros_like(below[0]) for _ in grades]
    for number, limit in enumerate(limits):
        of_class, fastest = (below[number + 1] - below[number]) / below[-1], math.inf
        for share, grade in zip(shares, grades, strict=True):
            if grade.bad_blocks >= limit:
                share += of_class * speed_share(grade.speed, fastest, spread)
                fastest = min(fastest, grade.speed)
    return shares


@dataclass(frozen=True)
class Sold:
    """What the grades down to one bring, [draw] each: shares of what is sold by grade, dies of a wafer that are sold,
    packages of a wafer, and usd per package: cost without and with the die, revenue."""

    shares: tuple[np.ndarray, ...]
    dies_per_wafer: np.ndarray
    packages_per_wafer: np.ndarray
    rest_usd: np.ndarray
    cost_usd: np.ndarray
    revenue_usd: np.ndarray

    @property
    def profit_per_wafer_usd(self) -> np.ndarray:
        """Revenue less cost of all packages of the dies of one wafer."""
        return (self.revenue_usd - self.cost_usd) * self.packages_per_wafer


def sold_down_to(last: int, grading: Grading, results: Mapping[int, np.ndarray]) -> Sold:
    """What the first `last` grades bring. `results` [draw, die] of the package by the bad blocks that are allowed."""
    grades = grading.grades[:last]
    most, row = max(grade.bad_blocks for grade in grades), grading.row
    named, parents = results[most], grading.design.die_codes[:, DIE_CODES.index("parent")]
    yields = {grade.bad_blocks: results[grade.bad_blocks]["true_yield"][:, row] for grade in grades}
    shares = sorted_shares(grades, yields, grading.speed_spread)
    fit = np.sum(shares, axis=0)
    works, die = named["quality"][:, 0], named[:, row]
    own = attributed(parents.tolist(), named.view(np.float64).reshape(*named.shape, -1))[0][:, row] / works
    rest = named["price_usd"][:, 0] / works - own
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = tuple(share / fit for share in shares)
        mounted = die["dies_per_wafer"] * die["test_yield"] * fit
        packages = mounted / (own / die["self_price_usd"])
        revenue = sum((part * grade.usd for part, grade in zip(parts, grades, strict=True)), np.zeros(len(fit)))
        return Sold(parts, mounted, packages, rest, rest + own / fit, revenue)


def grades_report(grading: Grading, library: Library, draws: int = DRAWS) -> dict[str, Any]:
    """Shares and economy of a grading, for the values and in the draws in which it can be built. Raises Misuse where it
    cannot be built, SpecError for a grade to which no die comes or whose blocks may all be bad."""
    numbers = np.arange(draws + 1.0)
    _check_blocks(grading, library)
    results = {
        bad: evaluate_design(grading.harvesting(bad), library, grading.settings, numbers).results.view(RESULT)[..., 0]
        for bad in {grade.bad_blocks for grade in grading.grades}
    }
    status = next(iter(results.values()))["status"][0, 0]
    if status != 0.0:
        raise Misuse(f"{grading.design.name} cannot be built under these settings: {STATUS[int(status)]}")
    steps = [sold_down_to(last + 1, grading, results) for last in range(len(grading.grades))]
    built = next(iter(results.values()))["status"][:, 0] == 0.0
    _check_shares(grading, results, built)
    profits = np.array([step.profit_per_wafer_usd for step in steps])
    profits[:, ~built] = np.nan
    best = np.argmax(np.where(np.isfinite(profits), profits, -np.inf), axis=0)
    rows = [
        {"sold": f"down to {grade.name}", "dies_per_wafer": step.dies_per_wafer[0], "rest_usd": step.rest_usd[0],
         "cost_usd": step.cost_usd[0], "revenue_usd": step.revenue_usd[0],
         "profit_per_wafer_usd": profits[number, 0], **_band(profits[number]),
         "best_share": float(np.mean(best[1:][built[1:]] == number)) if built[1:].any() else math.nan}
        for number, (grade, step) in enumerate(zip(grading.grades, steps, strict=True))
    ]  # fmt: skip
    grades = [
        {"grade": grade.name, "bad_blocks": grade.bad_blocks, "speed": grade.speed, "price_usd": grade.usd,
         "share": share[0], "above_rest_usd": grade.usd - steps[-1].rest_usd[0]}
        for grade, share in zip(grading.grades, steps[-1].shares, strict=True)
    ]  # fmt: skip
    pays = grading.grades[best[0]].name if profits[best[0], 0] > 0.0 else None
    return {"grading": grading.name, "package": grading.design.name, "die": grading.die, "draws": draws,
            "buildable_share": float(np.mean(built[1:])), "grades": grades, "sold": rows, "best": pays}  # fmt: skip


def _check_blocks(grading: Grading, library: Library) -> None:
    """Raise SpecError for a grade that allows as many bad blocks as there are, or more."""
    found = own_numbers(grading.design, library, grading.settings)
    blocks = int(found.at(grading.row * len(DIE_NUMBERS) + DIE_NUMBERS.index("harvest_units"))[0])
    for grade in grading.grades:
        if grade.bad_blocks >= blocks:
            most = f"at most {blocks - 1} may be bad"
            raise grade.fault(f"bad_blocks: {grade.bad_blocks} of the {blocks} blocks of {grading.die}; {most}")


def _check_shares(grading: Grading, results: Mapping[int, np.ndarray], built: np.ndarray) -> None:
    """Raise SpecError for a grade to which next to no die comes in any draw that can be built: too few are so fast, or
    so few have that many bad blocks."""
    yields = {bad: found["true_yield"][:, grading.row] for bad, found in results.items()}
    for grade, share in zip(grading.grades, sorted_shares(grading.grades, yields, grading.speed_spread), strict=True):
        if not share[built].max(initial=0.0) >= LEAST_SHARE:
            told = f"no die comes to it in any draw: fewer than {LEAST_SHARE:g} of those that may be mounted"
            asked = f" have a speed of {grade.speed:g} and" if grade.speed > 0.0 else " have"
            blocks = f"{asked} at most {grade.bad_blocks} bad blocks and are not good enough for a dearer grade"
            raise grade.fault(f"{told}{blocks}; ask less of {grade.name}, or leave it out")


def _band(profits: np.ndarray) -> dict[str, float]:
    drawn = profits[1:][np.isfinite(profits[1:])]
    if not len(drawn):
        return {"p05": math.nan, "p95": math.nan}
    low, high = np.quantile(drawn, (0.05, 0.95))
    return {"p05": float(low), "p95": float(high)}


def grades_text(report: Mapping[str, Any]) -> str:
    """A grading as text: its grades, then what they bring."""

    def line(row: Mapping[str, Any]) -> dict[str, Any]:
        def shown(key: str, value: Any) -> Any:
            if not isinstance(value, float):
                return value
            return f"{value:.1%}" if key.endswith("share") else f"{value:,.0f}" if key != "speed" else f"{value:g}"

        return {key: shown(key, value) for key, value in row.items()}

    def table(rows: Sequence[Mapping[str, Any]]) -> str:
        return listing([line(row) for row in rows], {key: key.replace("_", " ").upper() for key in rows[0]})

    share = report["buildable_share"]
    few = "" if share == 1.0 else f"It can be built in {share:.1%} of the draws; others do not count.\n"
    best = f"Most per wafer: sold down to {report['best']}." if report["best"] else "Every choice loses."
    return (
        f"{report['grading']}: {report['package']}, sorted by its die {report['die']}\n"
        f"Shares are of packages sold. ABOVE REST: price less what is in the package beside the die; a grade below 0\n"
        f"costs more to mount than it brings.\n{table(report['grades'])}\n\n"
        f"What they bring. BEST SHARE: of {report['draws']} draws, those in which to sell down to here pays best.\n"
        f"{few}"
        f"{table(report['sold'])}\n\n{best}"
    )
