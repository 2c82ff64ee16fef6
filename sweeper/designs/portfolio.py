"""Designs that several systems share, spread over a portfolio of them.

Sources: Feng and Ma, "Chiplet Actuary", DAC'22, doi 10.1145/3489517.3530428: module, chip and package designs are paid
once and borne by every system in proportion to its volume and to how many of them it holds.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kernels.packages.layout import DIE_CODES, DIE_NUMBERS, LAYER_NUMBERS, RESULT
from sweeper.designs.cost_settings import settings_of
from sweeper.designs.package_draws import evaluate_design
from sweeper.errors import Problems
from sweeper.inputs.packages import PACKAGE_ROLE
from sweeper.library.library import Library
from sweeper.library.packages.design import PackageDesign, Quoted
from sweeper.reading import checks
from sweeper.reading.nodes import Node, error, read_yaml
from sweeper.study.columns import Stock
from sweeper.study.settings import Settings
from sweeper.views.text import listing
from sweeper.words.packages import PACKAGE

VOLUME = "package.volume"

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


def read_portfolio(path: Path, library: Library) -> tuple[str, tuple[System, ...]]:
    """Name and systems of a portfolio file. Raises SpecError with all its mistakes."""
    stock, problems = Stock(library), Problems()
    written = checks.fields(read_yaml(path), "a portfolio", ("portfolio", "systems"), ("portfolio", "systems"))
    name = written.read("portfolio", checks.text, "portfolio", default="")
    systems = []
    for system, node in written.read("systems", checks.named, "systems", default={}).items():
        with problems.collecting():
            systems.append(_system(system, node, stock))
    problems.extend(written.problems)
    problems.raise_any()
    if not systems:
        raise error(written["systems"], "systems names none: give at least one")
    return name, tuple(systems)


def _system(name: str, node: Node, stock: Stock) -> System:
    keys = (PACKAGE_ROLE, "volume", "set")
    written = checks.fields(node, f"the system {name!r}", keys, (PACKAGE_ROLE, "volume"))
    design = stock.package(stock.library.find_at(PACKAGE_ROLE, written[PACKAGE_ROLE]).name)
    settings = settings_of(written, design, stock, except_for={VOLUME})
    volume = written.read("volume", checks.number, PACKAGE["volume"], default=math.nan)
    written.problems.raise_any()
    volumes = {VOLUME: volume} if "volume" in design.parameters else {}
    return System(name, design, {**settings, **volumes}, volume)


def pieces_of(system: System, library: Library) -> tuple[float, list[Piece]]:
    """Cost of one package without design, and all that is designed for it. Dies of a stack are one design."""
    found = evaluate_design(system.design, library, system.settings)
    named, first, layers = found.results[0].view(RESULT)[:, 0], *(DIE_CODES.index(c) for c in ("first_layer", "layers"))
    start = len(system.design.dies) * len(DIE_NUMBERS)
    pieces: dict[str, Piece] = {}
    for row, die in enumerate(system.design.dies):
        codes, of = system.design.die_codes[row], named[row]
        if of["copies"] == 0.0 or of["design_usd"] == 0.0:
            continue
        places = [start + (codes[first] + number) * len(LAYER_NUMBERS) for number in range(codes[layers])]
        cells = [system.design.cells[place] for place in places]
        process = "+".join(cell.entry if isinstance(cell, Quoted) else str(system.settings["node"]) for cell in cells)
        # Levels of a stack are named after its first die.
        kind = die.partition(".")[0]
        carrier = codes[DIE_CODES.index("carrier")] == 1
        label = f"{system.design.name}: {kind}" if carrier else kind
        held, usd = float(of["copies"]), float(of["design_usd"] * of["copies"] * system.volume)
        below = pieces.get(kind)
        whole = (held + below.held, usd + below.usd) if below else (held, usd)
        pieces[kind] = Piece(label, process, float(of["area_mm2"]), *whole)
    return float(found.cost_usd[0]), list(pieces.values())


def portfolio_report(name: str, systems: Sequence[System], library: Library) -> dict[str, Any]:
    """What each system costs with designs of its own and with shared ones, and what is shared by how many."""
    costs, every = zip(*(pieces_of(system, library) for system in systems), strict=True)
    prices = {piece.key: piece.usd for pieces in every for piece in pieces}
    uses = [{piece.key: piece.held for piece in pieces} for pieces in every]
    volumes = [system.volume for system in systems]
    shared = shares(prices, uses, volumes)
    alone = [sum(piece.usd for piece in pieces) / system.volume for system, pieces in zip(systems, every, strict=True)]
    rows = [
        {"system": system.name, "package": system.design.name, "volume": system.volume, "package_usd": cost,
         "design_alone_usd": own, "design_shared_usd": less, "total_usd": cost + less}
        for system, cost, own, less in zip(systems, costs, alone, shared, strict=True)
    ]  # fmt: skip
    made = volumes_of(uses, volumes)
    designs = [
        {"design": key[0], "process": key[1], "area_mm2": key[2], "systems": sum(key in held for held in uses),
         "pieces": made[key], "usd": price, "usd_per_piece": price / made[key]}
        for key, price in sorted(prices.items(), key=lambda item: -item[1])
    ]  # fmt: skip
    return {"portfolio": name, "systems": rows, "designs": designs}


def portfolio_text(report: Mapping[str, Any]) -> str:
    """A portfolio as text: its systems, then what is designed."""

    def line(row: Mapping[str, Any]) -> dict[str, Any]:
        return {key: f"{value:,.2f}" if key.endswith("usd") else f"{value:,.6g}" if isinstance(value, float) else value
                for key, value in row.items()}  # fmt: skip

    def table(rows: Sequence[Mapping[str, Any]]) -> str:
        return listing([line(row) for row in rows], {key: key.replace("_", " ").upper() for key in rows[0]})

    return f"{report['portfolio']}\n{table(report['systems'])}\n\nWhat is designed\n{table(report['designs'])}"
