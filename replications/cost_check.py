"""Our package cost beside what CATCH and Chiplet Actuary found of the same packages, quantity by quantity."""

import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import click
import numpy as np

from replications.actuary import CARRIERS, actuary_tables, design_shares
from replications.catch import catch_tables
from replications.published_tables import Inputs, TableRow, read_table, tables_of
from replications.tables import PackageTables, evaluate_tables
from sweeper.commands.shared import command, echo
from sweeper.errors import UsageFault
from sweeper.kernels.packages.layout import DIE_CODES, DIE_NUMBERS, RESULTS, STATUS
from sweeper.views.text import listing

TOLERANCE = 1e-9

EvaluateTables = Callable[[PackageTables], np.ndarray]
"""Results of a package: float64 [dies, RESULTS]."""

DieResults = Mapping[str, float]
"""Results of one die by name."""


@dataclass(frozen=True)
class Agreement:
    """How well one quantity agrees: over how many values, the worst relative error, and where that is."""

    quantity: str
    rows: int
    worst: float
    where: str

    @property
    def within(self) -> bool:
        """Whether every value agrees to the tolerance."""
        return self.worst <= TOLERANCE


@dataclass(frozen=True)
class Pair:
    """One value of ours and of theirs. The error is relative to the larger of both and `scale`."""

    quantity: str
    where: str
    ours: float
    theirs: float
    scale: float = 0.0

    @property
    def error(self) -> float:
        """Relative error; infinite if one is not known and the other is."""
        if self.ours == self.theirs or (math.isnan(self.ours) and math.isnan(self.theirs)):
            return 0.0
        error = abs(self.ours - self.theirs) / max(abs(self.ours), abs(self.theirs), self.scale)
        return math.inf if math.isnan(error) else error


def agreements(values: Iterable[Pair]) -> list[Agreement]:
    """Values by quantity, in the order in which quantities are met."""
    met: dict[str, list[Pair]] = defaultdict(list)
    for value in values:
        met[value.quantity].append(value)
    worst = {quantity: max(of, key=lambda value: value.error) for quantity, of in met.items()}
    return [Agreement(quantity, len(of), worst[quantity].error, worst[quantity].where) for quantity, of in met.items()]


def compare(
    designs: Sequence[TableRow], dies: Sequence[TableRow], packages: Sequence[TableRow], evaluate: EvaluateTables
) -> list[Agreement]:
    """Agreement in all quantities: `designs` and `dies` of CATCH, `packages` of Chiplet Actuary."""
    return agreements([*catch_values(designs, dies, evaluate), *actuary_values(packages, evaluate)])


def read_agreements(
    designs: str | None, dies: str | None, packages: str | None, evaluate: EvaluateTables
) -> list[Agreement]:
    """Agreement of the files that are named. Raises UsageFault if none is, or one is of another layout."""
    if (designs is None) != (dies is None):
        raise UsageFault("designs and their dies are compared together: give both --designs and --dies")
    if designs is None and packages is None:
        raise UsageFault("nothing to compare: give --designs and --dies, or --packages")

    def rows(path: str | None, columns: Sequence[str]) -> list[TableRow]:
        return [] if path is None else read_table(Path(path), columns)

    return compare(rows(designs, DESIGN_COLUMNS), rows(dies, DIE_COLUMNS), rows(packages, PACKAGE_COLUMNS), evaluate)


def results(tables: PackageTables, evaluate: EvaluateTables) -> list[DieResults]:
    """Results of every die by name."""
    return [dict(zip(RESULTS, map(float, row), strict=True)) for row in evaluate(tables)]


# CATCH

DESIGN_COLUMNS = ("design_id", "error", "inputs_json")

CATCH_QUANTITIES: Mapping[str, str] = {
    "io_area": "io_area_mm2",
    "signal_count": "signals",
    "power_pads": "power_pads",
    "test_pads": "test_pads",
    "pad_count": "pads_to_parent",
    "tsv_count": "vias",
    "tsv_area": "via_area_mm2",
    "pad_area": "pad_area_mm2",
    "stacked_area": "stacked_area_mm2",
    "area": "area_mm2",
    "io_power": "io_power_W",
    "total_power": "total_power_W",
    "dies_per_wafer_layer0": "dies_per_wafer",
    "reticle_util_layer0": "reticle_use",
    "layer_cost": "layer_price_usd",
    "self_test_cost": "self_test_usd",
    "self_true_yield": "true_yield",
    "self_test_yield": "test_yield",
    "self_quality": "self_quality",
    "n_bonds": "bonds",
    "assembly_yield": "assembly_yield",
    "chip_true_yield": "assembled_true_yield",
    "chip_test_yield": "assembled_test_yield",
    "quality": "quality",
    "assembly_cost": "assembly_usd",
    "assembly_test_cost": "assembly_test_usd",
    "self_cost": "self_price_usd",
    "cost": "price_usd",
    "nre_unit_cost_subtree": "design_usd_with_children",
    "perfect_yield_cost": "perfect_price_usd",
}
"""What CATCH calls a quantity, and what we call it."""

DERIVED = ("stack_power", "nre_design_cost", "mask_cost", "scrap_cost", "total_cost")
"""Quantities of CATCH that are found from several of ours."""

DIE_COLUMNS = ("design_id", "name", "quantity", *CATCH_QUANTITIES, *DERIVED)

ERRORS: Mapping[str, str] = {"CalculationError": "die_exceeds_wafer", "OverflowError": "link_beyond_reach"}
"""The status of a die for which CATCH stops with an error."""


def catch_values(designs: Sequence[TableRow], dies: Sequence[TableRow], evaluate: EvaluateTables) -> Iterator[Pair]:
    """All quantities of all dies of CATCH's designs, and the status of designs for which it fails."""
    of_design: dict[str, list[TableRow]] = defaultdict(list)
    for die in dies:
        of_design[die["design_id"]].append(die)
    for design in designs:
        name = design["design_id"]
        tables = tables_of(catch_tables, design, name)
        ours_by_die = results(tables, evaluate)
        expected = ERRORS.get(design["error"].split(":")[0], "") if design["error"] else ""
        wanted = STATUS.index(expected)
        met = [of["status"] for of in ours_by_die]
        yield Pair("catch status", name, float(wanted if wanted in met else max(met)), float(wanted))
        if not expected and len(of_design[name]) != len(ours_by_die):
            raise UsageFault(
                f"{name}: {len(ours_by_die)} dies, of which {len(of_design[name])} are in the table of dies"
            )
        for position, (ours, theirs) in enumerate(zip(ours_by_die, of_design[name], strict=False)):
            mounted = [
                of
                for of, codes in zip(ours_by_die, tables.die_codes, strict=True)
                if codes[DIE_CODES.index("parent")] == position
            ]
            yield from die_values(f"{name} {theirs['name']}", ours, mounted, theirs)


def die_values(where: str, ours: DieResults, mounted: Sequence[DieResults], row: TableRow) -> Iterator[Pair]:
    """All quantities of one die; `mounted` is what is found of the dies on it."""

    def theirs(column: str) -> float:
        return float(row[column]) if row[column] else math.nan

    for column, name in CATCH_QUANTITIES.items():
        yield Pair(f"catch {column}", where, ours[name], theirs(column))
    power = sum(of["total_power_W"] for of in mounted)
    yield Pair("catch stack_power", where, power, theirs("stack_power"))
    design = theirs("nre_design_cost") + theirs("mask_cost")
    yield Pair("catch nre_design_cost + mask_cost", where, ours["design_usd"] * theirs("quantity"), design)
    # A difference of two prices has the digits of these.
    scrap = ours["price_usd"] - ours["perfect_price_usd"]
    yield Pair("catch scrap_cost", where, scrap, theirs("scrap_cost"), theirs("cost"))
    total = ours["price_usd"] + ours["design_usd_with_children"]
    yield Pair("catch total_cost", where, total, theirs("total_cost"))


# Chiplet Actuary

NAMES = ("portfolio_id", "package_index", "type", "package_area", "interposer_area", "n_interposers_per_wafer")
AMORTISED = ("amort_module_NRE", "amort_chip_NRE", "amort_package_NRE")
PARTS = ("RE_raw_chips", "RE_defect_chips", "RE_raw_package", "RE_defect_package", "RE_wasted_KGD")
PACKAGE_COLUMNS = (*NAMES, *PARTS, "RE_total", "package_NRE", *AMORTISED, "chips_json", "inputs_json")


def five_parts(root: DieResults) -> tuple[float, ...]:
    """Raw chips, defective chips, raw package, defective package, wasted good dies, as Actuary splits a price."""
    package = root["carrier_usd"] + root["assembling_usd"] + root["testing_usd"]
    return root["silicon_usd"], root["silicon_loss_usd"], package, root["carrier_loss_usd"], root["wasted_usd"]


def actuary_values(packages: Sequence[TableRow], evaluate: EvaluateTables) -> Iterator[Pair]:
    """All quantities of Actuary's packages; rows of a portfolio stand together, the first has its inputs."""
    for portfolio, group in groupby(packages, key=lambda row: row["portfolio_id"]):
        rows = list(group)
        every = tables_of(actuary_tables, rows[0], f"portfolio {portfolio}")
        modules, chips = tables_of(design_shares, rows[0], f"portfolio {portfolio}")
        if len(rows) != len(every):
            raise UsageFault(f"portfolio {portfolio}: {len(every)} packages, of which {len(rows)} are in the table")
        for row, tables, module, chip in zip(rows, every, modules, chips, strict=True):
            yield from package_values(row, results(tables, evaluate), tables, module, chip)


def package_values(
    row: TableRow, ours_by_die: Sequence[DieResults], tables: PackageTables, module: float, chip: float
) -> Iterator[Pair]:
    """All quantities of one package and of its chips."""
    where = f"portfolio {row['portfolio_id']} package {row['package_index']}"

    def value(column: str, ours: float, theirs: float) -> Pair:
        return Pair(f"actuary {column}", where, ours, theirs)

    carriers = 2 if row["type"] in CARRIERS else 1
    root, carrier, chips = ours_by_die[0], ours_by_die[carriers - 1], ours_by_die[carriers:]
    package = sum(of["design_usd"] for of in ours_by_die[:carriers])
    for column, part in zip(PARTS, five_parts(root), strict=True):
        yield value(column, part, float(row[column]))
    yield value("RE_total", root["price_usd"], float(row["RE_total"]))
    yield value("package_area", root["area_mm2"], float(row["package_area"]))
    yield value(
        "package_NRE", package * tables.die_numbers[0, DIE_NUMBERS.index("quantity")], float(row["package_NRE"])
    )
    for column, share in zip(AMORTISED, (module, chip, package), strict=True):
        yield value(column, share, float(row[column]))
    yield value("amortised NRE", root["design_usd_with_children"], sum(float(row[column]) for column in AMORTISED))
    if carriers > 1:
        yield value("interposer_area", carrier["area_mm2"], float(row["interposer_area"]))
        yield value("n_interposers_per_wafer", carrier["dies_per_wafer"], float(row["n_interposers_per_wafer"]))
    known: Sequence[Inputs] = json.loads(row["chips_json"])
    for ours, theirs in zip(chips, known, strict=True):
        yield value("chip area", ours["area_mm2"], theirs["area"])
        yield value("chip kgd", ours["price_usd"], theirs["kgd"])
        if theirs["kgd"]:
            yield value("chip dpw", ours["dies_per_wafer"], theirs["dpw"])
            yield value("chip y", ours["true_yield"], theirs["y"])


@command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--designs", metavar="FILE", help="CSV of CATCH designs with their inputs.")
@click.option("--dies", metavar="FILE", help="CSV of what CATCH found of their dies.")
@click.option("--packages", metavar="FILE", help="CSV of Chiplet Actuary's packages, portfolio by portfolio.")
def main(designs: str | None, dies: str | None, packages: str | None) -> None:
    """Compare our package cost with what CATCH and Chiplet Actuary found of the same packages.

    Shown is the worst relative error of every quantity, and where it is. Files may be compressed with gzip.

    \b
    Example: python -m replications.cost_check --designs designs.csv.gz --dies dies.csv.gz --packages packages.csv.gz
    """
    met = read_agreements(designs, dies, packages, evaluate_tables)
    columns = {"quantity": "QUANTITY", "rows": "ROWS", "worst": "WORST RELATIVE ERROR", "where": "WHERE"}
    rows = [{**{name: getattr(each, name) for name in columns}, "within": each.within} for each in met]
    echo(rows, lambda: listing(rows, columns))
    outside = [each.quantity for each in met if not each.within]
    if outside:
        click.echo(f"worse than 1e-9: {', '.join(outside)}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main(prog_name="python -m replications.cost_check")
