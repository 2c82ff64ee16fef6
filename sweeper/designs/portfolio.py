"""Designs that several systems share, spread over a portfolio of them.

Sources: Feng and Ma, "Chiplet Actuary", DAC'22, doi 10.1145/3489517.3530428: module, chip and package designs are paid
once and borne by every system in proportion to its volume and to how many of them it holds.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sweeper.designs.cost_settings import settings_of
from sweeper.designs.package_draws import evaluate_design
from sweeper.designs.supply import layers_of, lead_time_s, node_at, nodes_of, total_of, wafers_of, waits_s
from sweeper.errors import Misuse, Problems, SpecError
from sweeper.inputs.packages import PACKAGE_ROLE
from sweeper.kernels.packages.layout import DIE_CODES, RESULT, STATUS
from sweeper.library.library import Library
from sweeper.library.packages.design import PackageDesign
from sweeper.library.shelf import NoEntry
from sweeper.reading import checks
from sweeper.reading.nodes import Node, error, read_yaml
from sweeper.study.columns import Stock
from sweeper.study.settings import Settings
from sweeper.views.text import listing
from sweeper.words.attributes import Attribute
from sweeper.words.packages import PACKAGE
from sweeper.words.ranges import YEAR_S

VOLUME = "package.volume"
SUPPLY = Attribute("1/s", "wafers that are started per time", limits=(1e-9, 1e3))
MONTH_S = YEAR_S / 12.0
WEEK_S = 7.0 * 86_400.0

Key = TypeVar("Key", bound=Hashable)

Uses = Sequence[Mapping[Key, float]]
"""How many of each shared design one unit of each system holds."""


def volumes_of(uses: Uses[Key], volumes: Sequence[float]) -> dict[Key, float]:
    """How many of each design are made for all systems: `volumes` are the units of each."""
    made: dict[Key, float] = {}
    for held, volume in zip(uses, volumes, strict=True):
        for key, count in held.items():
            made[key] = made.get(key, 0.0) + count * volume
    return made


def unit_prices(prices: Mapping[Key, float], uses: Uses[Key], volumes: Sequence[float]) -> dict[Key, float]:
    """Share of a design's price, in `prices`, that one piece made to it bears; none for what is never made."""
    return {key: prices[key] / made for key, made in volumes_of(uses, volumes).items() if made > 0}


def shares(prices: Mapping[Key, float], uses: Uses[Key], volumes: Sequence[float]) -> list[float]:
    """Design cost that one unit of each system bears. Times `volumes` they sum to the prices of what is made."""
    unit = unit_prices(prices, uses, volumes)
    return [sum(unit.get(key, 0.0) * count for key, count in held.items()) for held in uses]


@dataclass(frozen=True)
class System:
    """A system of a portfolio: a package under some settings, of which `volume` are made."""

    name: str
    design: PackageDesign
    settings: Settings
    volume: float


@dataclass(frozen=True)
class Piece:
    """What is designed once: dies of one name, process and area, or a package with its carrier. `held` are of one
    system, `usd` what the design costs."""

    name: str
    process: str
    area_mm2: float
    held: float
    usd: float

    @property
    def key(self) -> tuple[str, str, float]:
        """What tells designs apart: areas to a millionth."""
        return self.name, self.process, float(f"{self.area_mm2:.6g}")


@dataclass(frozen=True)
class Portfolio:
    """Systems that are made side by side, and wafers per s that are started for them, by node; of others enough."""

    name: str
    systems: tuple[System, ...]
    supply: Mapping[str, float]


def read_portfolio(path: Path, library: Library) -> Portfolio:
    """A portfolio file. Raises SpecError with all its mistakes, and Misuse for a system whose own values are
    impossible."""
    stock, problems = Stock(library), Problems()
    needed = ("portfolio", "systems")
    written = checks.fields(read_yaml(path), "a portfolio", (*needed, "supply"), needed)
    title = written.read("portfolio", checks.text, "portfolio", default="")
    systems = []
    for system, node in written.read("systems", checks.named, "systems", default={}).items():
        with problems.collecting():
            systems.append(_system(system, node, stock))
    supply = written.read("supply", _supply, library, default={})
    problems.extend(written.problems)
    problems.raise_any()
    if not systems:
        raise error(written["systems"], "systems names none: give at least one")
    takes = (nodes_of(system.design, system.settings, library) for system in systems if supply)
    used = frozenset[str]().union(*takes)
    for name in checks.mapping(written["supply"], "supply") if supply else ():
        if library.find("node", name).name not in used:
            problems.append(written["supply"].key_problem(name, f"no system of this portfolio takes wafers of {name}"))
    problems.raise_any()
    return Portfolio(title, tuple(systems), supply)


def _supply(node: Node, library: Library) -> dict[str, float]:
    """Wafers per s by node."""
    found, problems = {}, Problems()
    for name, rate in checks.mapping(node, "supply").items():
        with problems.collecting():
            try:
                named = library.find("node", name).name
            except NoEntry as fault:
                raise SpecError([node.key_problem(name, str(fault))]) from None
            if named in found:
                raise SpecError([node.key_problem(name, f"the supply of {named} is given twice; leave one out")])
            found[named] = checks.number(rate, SUPPLY)
    problems.raise_any()
    return found


def _system(name: str, node: Node, stock: Stock) -> System:
    keys = (PACKAGE_ROLE, "volume", "set")
    written = checks.fields(node, f"the system {name!r}", keys, (PACKAGE_ROLE, "volume"))
    design = stock.package(stock.library.find_at(PACKAGE_ROLE, written[PACKAGE_ROLE]).name)
    if design.undesigned:
        message = f"{design.name} says no volume, so that no design of it is known: give it the parameter volume"
        written.problems.append(written[PACKAGE_ROLE].problem(message))
    settings = settings_of(written, design, stock, except_for={VOLUME})
    volume = written.read("volume", checks.number, PACKAGE["volume"], default=math.nan)
    written.problems.raise_any()
    volumes = {VOLUME: volume} if "volume" in design.parameters else {}
    return System(name, design, {**settings, **volumes}, volume)


def pieces_of(system: System, library: Library) -> tuple[float, list[Piece]]:
    """Cost of one package without design, and all that is designed for it. Dies of a stack are one design."""
    found = evaluate_design(system.design, library, system.settings)
    named = found.results[0].view(RESULT)[:, 0]
    if named["status"][0] != 0.0:
        why = STATUS[int(named["status"][0])]
        told = f"the system {system.name} cannot be built: {system.design.name} has {why} under its settings"
        raise Misuse(f"{told}; sweeper cost {system.design.name} tells of which die")
    pieces: dict[str, Piece] = {}
    for row, die in enumerate(system.design.dies):
        of = named[row]
        if of["copies"] == 0.0 or of["design_usd"] == 0.0:
            continue
        places = layers_of(system.design, row)
        process = "+".join(node_at(system.design, place, system.settings) for place in places)
        # Levels of a stack are named after its first die.
        kind = die.partition(".")[0]
        carrier = system.design.die_codes[row, DIE_CODES.index("carrier")] == 1
        label = f"{system.design.name}: {kind}" if carrier else kind
        held, usd = float(of["copies"]), float(of["design_usd"] * of["copies"] * system.volume)
        below = pieces.get(kind)
        whole = (held + below.held, usd + below.usd) if below else (held, usd)
        pieces[kind] = Piece(label, process, float(of["area_mm2"]), *whole)
    return float(found.cost_usd[0]), list(pieces.values())


def portfolio_report(portfolio: Portfolio, library: Library) -> dict[str, Any]:
    """What each system costs with designs of its own and with shared ones, what is shared by how many, the wafers that
    all take, and when the last of each system is made. Of a design that costs more in one system than in another it is
    the dearer one. Raises Misuse for a system that cannot be built."""
    systems = portfolio.systems
    costs, every = zip(*(pieces_of(system, library) for system in systems), strict=True)
    prices: dict[tuple[str, str, float], float] = {}
    for piece in (piece for pieces in every for piece in pieces):
        prices[piece.key] = max(piece.usd, prices.get(piece.key, 0.0))
    uses = [{piece.key: piece.held for piece in pieces} for pieces in every]
    volumes = [system.volume for system in systems]
    shared = shares(prices, uses, volumes)
    taken = [wafers_of(system.design, system.settings, library) for system in systems]
    waits = waits_s(taken, volumes, portfolio.supply)
    times = [
        [lead_time_s(system.design, system.settings, library, waited) / WEEK_S for waited in ({}, waits)]
        for system in systems
    ]
    alone = [sum(piece.usd for piece in pieces) / system.volume for system, pieces in zip(systems, every, strict=True)]
    rows = [
        {"system": system.name, "package": system.design.name, "volume": system.volume, "package_usd": cost,
         "design_alone_usd": own, "design_shared_usd": less, "total_usd": cost + less,
         "first_weeks": first, "last_weeks": last}
        for system, cost, own, less, (first, last) in zip(systems, costs, alone, shared, times, strict=True)
    ]  # fmt: skip
    made = volumes_of(uses, volumes)
    designs = [
        {"design": key[0], "process": key[1], "area_mm2": key[2], "systems": sum(key in held for held in uses),
         "pieces": made[key], "usd": price, "usd_per_piece": price / made[key]}
        for key, price in sorted(prices.items(), key=lambda item: -item[1])
    ]  # fmt: skip
    wafers = [
        {"node": node, "wafers": count, "supply_per_month": portfolio.supply.get(node, math.nan) * MONTH_S,
         "months": waits.get(node, 0.0) / MONTH_S}
        for node, count in sorted(total_of(taken, volumes).items(), key=lambda item: -item[1])
    ]  # fmt: skip
    return {"portfolio": portfolio.name, "systems": rows, "designs": designs, "wafers": wafers}


def portfolio_text(report: Mapping[str, Any]) -> str:
    """A portfolio as text: its systems, then what is designed."""

    def line(row: Mapping[str, Any]) -> dict[str, Any]:
        def shown(key: str, value: Any) -> Any:
            if not isinstance(value, float):
                return value
            return "-" if math.isnan(value) else f"{value:,.2f}" if key.endswith("usd") else f"{value:,.6g}"

        return {key: shown(key, value) for key, value in row.items()}

    def table(rows: Sequence[Mapping[str, Any]]) -> str:
        if not rows:
            return "nothing: all is bought"
        return listing([line(row) for row in rows], {key: key.replace("_", " ").upper() for key in rows[0]})

    return (
        f"{report['portfolio']}\n{table(report['systems'])}\n\nWhat is designed\n{table(report['designs'])}\n\n"
        "Wafers and panels, those of faulty dies among them; where no supply is given there are enough. FIRST and\n"
        "LAST above: weeks from the first wafer to the first and the last package, all systems side by side.\n"
        f"{table(report['wafers'])}"
    )
