"""Cost of packages: one design, dies per wafer, draws of one design, and draws through the engine.

The peers that are timed here are plain Python: the twin of the kernel in the tests, and Chiplet Actuary's closed form.
Figures of the tools themselves are cited.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import sweeper.designs.package_draws
from benchmarks import package_peer
from benchmarks.studies import points_of, shipped
from benchmarks.table import Row, Target
from benchmarks.timing import cpu_s, leasts
from benchmarks.twins import twin
from replications.actuary import actuary_tables
from replications.catch import catch_tables
from replications.published_tables import PUBLISHED, read_table
from replications.tables import PackageTables
from sweeper.designs.package_draws import evaluate_design, uncertain_inputs
from sweeper.kernels.equation import allocating, compiled
from sweeper.kernels.packages.build import build, desk_for
from sweeper.kernels.packages.equations import build_many
from sweeper.kernels.packages.layout import DIE_NUMBERS, LAYER_NUMBERS, RESULTS
from sweeper.kernels.packages.wafer import dies_on_grid
from sweeper.library.library import Library, builtin_specs
from sweeper.library.packages.reader import read_package

CORE_AREA, DEFECT_DENSITY = DIE_NUMBERS.index("core_area_mm2"), LAYER_NUMBERS.index("defect_density_per_mm2")
PRICE = RESULTS.index("price_usd")
A100, SIXTEEN, FOUR = "A100, 48 memory dies", "16 x 50 mm2", "4 chips on an interposer"
CATCH_DESIGNS = {A100: "a100_0413", SIXTEEN: "size_node_0004"}
TARGETS_US = {A100: 20.0, SIXTEEN: 10.0, FOUR: 0.2}
TOOL_US = {A100: 35_500.0, SIXTEEN: 28_400.0, FOUR: 42.0}
"""Processor time of CATCH (d60dafb) in one process and of Chiplet Actuary (2c91fb9), recurring and design cost, on
another machine (2 cores of an AMD EPYC). Cited; not measured here."""
CITED = "cited, not measured: {}, another machine"
TOOL = {A100: "CATCH in process", SIXTEEN: "CATCH in process (its command line 375 ms)", FOUR: "Chiplet Actuary"}
VARIANTS = 8
"""Variants of a design, of slightly different areas, so that no call repeats the one before. All fit in the cache."""
WIDTHS = 64
"""Widths of dies, likewise."""
AREAS_MM2 = (800.0, 200.0, 50.0, 10.0, 1.0)
PEER_S = 0.05
"""Processor time for which a peer is repeated in every round."""
WAFER_MM, SCRIBE_MM = 299.8, 0.13
"""Usable diameter and scribe line of the wafers of CATCH."""
DRAWS, BATCH = 1_000_000, 10_000
"""Draws, and how many of them lie in memory at a time."""
CHIPLETS: dict[str, float | str] = {"node": "n7", "package.chiplets": 16.0}

AGREEMENT = Target(1e-9, at_least=False)
SECONDS = Target(10.0, at_least=False)


@allocating
def build_each(codes: np.ndarray, links: np.ndarray, variants: np.ndarray, times: int, results: np.ndarray) -> None:
    """Build the variants of a package, the numbers of one in each row, in turns, so many packages in all; `results`
    [die, RESULTS] are those of the last one."""
    desk = desk_for(len(codes), len(links), variants[0])
    for k in range(times):
        desk.numbers[:] = variants[k % len(variants)]
        build(codes, links, desk, results)


@compiled
def count_each(widths: np.ndarray, times: int) -> float:
    """Dies on a wafer, summed over square dies of these widths in turns."""
    total = 0.0
    for k in range(times):
        width = widths[k % len(widths)]
        total += dies_on_grid(width, width, WAFER_MM, SCRIBE_MM, 0.0)
    return total


@dataclass(frozen=True)
class Design:
    """A package in `VARIANTS` variants, and peers by name, each with the price of the first variant."""

    tables: PackageTables
    variants: np.ndarray
    peers: dict[str, Callable[[], float]]

    def build(self, times: int) -> float:
        """Build so many packages in one compiled loop; the price of the last one."""
        of = self.tables
        results = np.zeros((len(of.die_codes), len(RESULTS)))
        build_each(of.die_codes, of.link_codes, self.variants, times, results)
        return float(results[0, PRICE])


def measure(directory: Path, quick: bool) -> list[Row]:
    """All four parts; `quick` repeats little and draws few."""
    rounds = 1 if quick else 9
    rows = [row for name, design in designs().items() for row in per_design(name, design, rounds, quick)]
    rows += [row for area in AREAS_MM2 for row in per_wafer(area, rounds, quick)]
    draws = 2000 if quick else DRAWS
    return [*rows, *draws_of_chiplets(draws), *draws_of_rows(draws), *draws_in_engine(quick)]


@cache
def designs() -> dict[str, Design]:
    """The packages that are timed, by name."""
    rows = {
        row["design_id"]: row for row in read_table(PUBLISHED / "catch_designs.csv.gz", ("design_id", "inputs_json"))
    }
    found = {name: twinned(catch_tables(json.loads(rows[row]["inputs_json"]))) for name, row in CATCH_DESIGNS.items()}
    return {**found, FOUR: four_chips()}


def twinned(tables: PackageTables) -> Design:
    """A design with the plain-Python twin of the kernel as its peer."""
    return Design(tables, varied(tables), {"plain-Python twin": lambda: twin_price(tables)})


def four_chips() -> Design:
    """Four equal chips on a silicon interposer, as Chiplet Actuary prices them."""
    inputs, place = next(found for found in portfolios() if is_four_chips(found[0]["pk"][found[1]]))
    tables = actuary_tables(inputs)[place]
    closed_form = partial(package_peer.recurring_usd, inputs["pk"][place], inputs["spec"])
    design = twinned(tables)
    return replace(design, peers={**design.peers, "closed form in plain Python": closed_form})


def portfolios() -> Iterator[tuple[dict[str, Any], int]]:
    """Inputs of portfolios that Chiplet Actuary has priced, with the position of a package in each."""
    for row in read_table(PUBLISHED / "actuary_packages.csv.gz", ("package_index", "inputs_json")):
        if row["inputs_json"]:
            yield json.loads(row["inputs_json"]), int(row["package_index"])


def is_four_chips(package: dict[str, Any]) -> bool:
    """Whether a package holds four equal chips on a silicon interposer."""
    return package["type"] == "SI" and [chip["count"] for chip in package["chips"]] == [4]


def varied(tables: PackageTables) -> np.ndarray:
    """Numbers [variant, number] of a package, core areas up to 5 % larger; the first are the design's own."""
    variants = np.repeat(tables.numbers[None], VARIANTS, axis=0)
    core_areas = np.arange(len(tables.die_numbers)) * len(DIE_NUMBERS) + CORE_AREA
    variants[:, core_areas] *= np.linspace(1.0, 1.05, VARIANTS)[:, None]
    return variants


def twin_price(tables: PackageTables) -> float:
    """Price by the twin, which finds yields to 300 digits; here in floats, as any script would."""
    plain = twin("naive_package")
    with patch.object(plain, "defect_yield", float_yield):
        return float(plain.naive_package(tables)[0]["price_usd"])


def float_yield(die: Any, layer: Any, area: float) -> float:
    """Negative binomial yield; what the timed designs use."""
    assert not layer.yield_model
    assert not die.harvest_units
    faults = layer.defect_density_per_mm2 * layer.critical_area_ratio * area
    return float((1 + faults / layer.clustering) ** -layer.clustering)


def per_design(name: str, design: Design, rounds: int, quick: bool) -> list[Row]:
    """Time of a design in a compiled loop, and of its peers."""
    dies = len(design.tables.die_codes)
    times = VARIANTS if quick else 100_000 // dies
    price = design.build(1)
    of = f"one core, {dies} rows of dies, {len(design.tables.link_codes)} of links; least of {rounds}"
    target = Target(TARGETS_US[name], at_least=False)
    calls = [1 if quick else max(1, round(PEER_S / cpu_s(price_of))) for price_of in design.peers.values()]
    ours_s, *peers_s = leasts([lambda: design.build(times), *map(repeated, design.peers.values(), calls)], rounds)
    ours_us = ours_s / times * 1e6
    rows = [
        Row(f"{name}: a design", ours_us, "us CPU", target, of),
        Row(f"{name}: the tool itself", TOOL_US[name], "us CPU", note=CITED.format(TOOL[name])),
    ]
    for (peer, price_of), peer_s, count in zip(design.peers.items(), peers_s, calls, strict=True):
        peer_us = peer_s / count * 1e6
        difference = abs(price / price_of() - 1.0)
        rows += [
            Row(f"{name}: {peer} / ours", peer_us / ours_us, "x CPU", note=f"{peer_us:,.4g} us CPU"),
            Row(f"{name}: difference from {peer}", difference, "", AGREEMENT, f"relative; price {price:.6f} usd"),
        ]
    return rows


def repeated(price_of: Callable[[], float], times: int) -> Callable[[], object]:
    """A peer that prices its package so many times."""
    return lambda: [price_of() for _ in range(times)]


def per_wafer(area_mm2: float, rounds: int, quick: bool) -> list[Row]:
    """Dies per wafer alone, of square dies of about one area."""
    widths = np.sqrt(area_mm2) * np.linspace(1.0, 1.01, WIDTHS)
    some = widths[: 2 if quick or area_mm2 < 10.0 else WIDTHS].tolist()
    times = WIDTHS if quick else max(WIDTHS, int(100 * area_mm2))
    plain = twin("naive_package").count_grid
    count = count_each(widths, 1)
    ours_s, peer_s = leasts(
        [lambda: count_each(widths, times), lambda: [plain(x, x, WAFER_MM, SCRIBE_MM, False) for x in some]], rounds
    )
    ours_us, peer_us = ours_s / times * 1e6, peer_s / len(some) * 1e6
    what = f"dies per wafer on a grid, {area_mm2:g} mm2"
    note = f"{count:,.0f} dies; plain Python {peer_us:,.0f} us"
    return [Row(what, ours_us, "us CPU", note=note), Row(f"{what}: plain Python / ours", peer_us / ours_us, "x CPU")]


class Watch:
    """A function that keeps the processor time of its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *args: Any) -> Any:
        started = time.process_time()
        found = self.function(*args)
        self.seconds += time.process_time() - started
        return found


def draws_of_chiplets(draws: int) -> list[Row]:
    """Draws of 16 equal chiplets, one row of dies, with all uncertain numbers of the library."""
    library = Library([builtin_specs()])
    design = read_package(library.find("package", "chiplets"), library)

    def costs(first: int, last: int) -> np.ndarray:
        return evaluate_design(design, library, CHIPLETS, range(first, last)).cost_usd

    costs(1, 3)
    uncertain = len(uncertain_inputs(design, library, CHIPLETS))
    watch, found = Watch(build_many), []
    wall, started = time.perf_counter(), time.process_time()
    with patch.object(sweeper.designs.package_draws, "build_many", watch):
        for first in range(1, draws + 1, BATCH):
            found.append(costs(first, min(first + BATCH, draws + 1)))
    seconds, wall = time.process_time() - started, time.perf_counter() - wall
    low, high = np.quantile(np.concatenate(found), (0.05, 0.95))
    note = f"{len(design.dies)} rows of dies, {uncertain} uncertain inputs; 90 % within {low:.0f} to {high:.0f} usd"
    return split(f"{draws:,} draws of 16 chiplets", draws, seconds - watch.seconds, watch.seconds, wall, note)


def draws_of_rows(draws: int) -> list[Row]:
    """Draws of 16 dies that each have a row and a defect density of their own."""
    tables = designs()[SIXTEEN].tables
    places, entries = defect_places(tables), tables.numbers
    generator = np.random.default_rng(0)
    results = np.zeros((min(draws, BATCH), len(tables.die_codes), len(RESULTS)))
    draw, build_all = Watch(generator.triangular), Watch(build_many)
    build_many(tables.die_codes, tables.link_codes, entries, places, entries[places][None], results[:1])
    wall = time.perf_counter()
    for first in range(0, draws, BATCH):
        count = min(BATCH, draws - first)
        values = entries[places] * draw(0.5, 1.0, 2.0, (count, len(places)))
        build_all(tables.die_codes, tables.link_codes, entries, places, values, results[:count])
    wall = time.perf_counter() - wall
    note = f"{len(tables.die_codes)} rows of dies, a defect density of each drawn by NumPy"
    return split(f"{draws:,} draws of {SIXTEEN}", draws, draw.seconds, build_all.seconds, wall, note)


def split(what: str, draws: int, drawing: float, building: float, wall: float, note: str) -> list[Row]:
    """Time of draws: all, inputs, results."""
    return [
        Row(what, drawing + building, "s CPU", SECONDS, f"{wall:.3g} s wall; {note}"),
        Row(f"{what}: drawing", drawing, "s CPU", note=f"{drawing / draws * 1e6:.3g} us per draw"),
        Row(f"{what}: building", building, "s CPU", note=f"{building / draws * 1e6:.3g} us per draw"),
    ]


def defect_places(tables: PackageTables) -> np.ndarray:
    """Places of the defect densities that are not 0."""
    layers = np.flatnonzero(tables.layer_numbers[:, DEFECT_DENSITY])
    return len(tables.die_numbers) * len(DIE_NUMBERS) + layers * len(LAYER_NUMBERS) + DEFECT_DENSITY


def draws_in_engine(quick: bool) -> list[Row]:
    """Draws per second of a study with bands, from chunk number to rows."""
    plan = shipped("chiplet_count")
    chunks = [0] if quick else list(range(plan.chunk_count))
    plan.evaluate(0)
    (seconds,) = leasts([lambda: [plan.evaluate(chunk) for chunk in chunks]], 1 if quick else 3)
    points = points_of(plan, chunks)
    note = f"{points:,} draws to bands in {seconds:.3g} CPU s, one core"
    return [Row("chiplet_count, mode bands", points / seconds, "draws/s", note=note)]
