"""Cost of a package once more, in plain Python: one die after the other, as the published descriptions have it.

Sources: CATCH (UCLA, commit d60dafb) and Chiplet Actuary (Feng and Ma, DAC'22), whose recurrences are one: a unit is
built in steps; a step adds parts and a price, multiplies the chances that all is well, and throws away what a test
finds faulty. Geometry in mm and mm2. Clear and slow: links are searched for every die, wafers are filled row by row.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, localcontext
from types import SimpleNamespace as Values

from replications.tables import PackageTables
from sweeper.kernels.packages.layout import (
    CONVENTIONS,
    DIE_CODES,
    DIE_NUMBERS,
    LAYER_NUMBERS,
    LINK_CODES,
    LINK_NUMBERS,
    RESULTS,
    STATUS,
    STEP_NUMBERS,
)
from tests.twins.naive_steps import Children, Found, build, over

OUTSIDE = -1
GATE_TRANSISTORS = 4
DIGITS = 300
"""The sum over failed units loses half a digit for each."""
CLOSED_FORMS = (2, 3)


def given(value: float, computed: float) -> float:
    """A number that the tables give, or what is computed in its place."""
    return computed if math.isnan(value) else value


# dies per wafer


def half_chord(radius: float, height: float) -> float:
    return math.sqrt(radius**2 - height**2)


def rows_from(first: float, pitch: float, radius: float, width: float, scribe: float) -> int:
    """Dies in all rows whose outer edges lie at `first`, `first` + `pitch`, .. from the middle."""
    count, edge = 0, first
    while edge < radius:
        count += math.floor((2 * half_chord(radius, edge - scribe / 2) + scribe) / width)
        edge += pitch
    return count


def count_rows(x: float, y: float, diameter: float, scribe: float) -> float:
    """Rows shifted freely; a row or a gap between rows goes through the middle."""
    radius, width, height = diameter / 2, x + scribe, y + scribe

    def both_sides(first: float) -> int:
        return 2 * rows_from(first, height, radius, width, scribe)

    def row(edge: float) -> int:
        return math.floor((2 * half_chord(radius, edge - scribe / 2) + scribe) / width)

    return max(row(height / 2) + both_sides(3 * height / 2), 2 * row(height) + both_sides(2 * height))


def count_grid(x: float, y: float, diameter: float, scribe: float, lost_rows: bool) -> float:
    """Dies in one grid; the middle band has 1, 2, .. rows. Rows of negative length take dies away if `lost_rows`."""
    radius, width, height = diameter / 2, x + scribe, y + scribe

    def inside(u: float, v: float) -> bool:
        return math.hypot(u, v) <= radius

    def outer_row(edge: float, start: float) -> int:
        length = 2 * half_chord(radius, edge)
        begin = (diameter - length) / 2
        first = math.ceil((begin - start) / width) * width + start
        fitting = math.floor((length - (first - begin)) / width)
        return fitting if lost_rows else max(0, fitting)

    def with_band(rows: int) -> int:
        edge = rows * height / 2 - scribe / 2
        length = 2 * half_chord(radius, edge)
        columns = math.floor((length + scribe) / width)
        count = columns * rows
        edge += height
        end = columns * width - length / 2 + width
        for row in range(rows):
            low = height * row - edge + height
            count += inside(end, low) and inside(end, low + height)
        while edge < radius:
            count += 2 * outer_row(edge, (diameter - length) / 2)
            edge += height
        return count

    last = half_chord(radius, half_chord(radius, height / 2) - width)
    best, rows = 0, 1
    while rows * height / 2 < last:
        best = max(best, with_band(rows))
        rows += 1
    return best


def dies_per_wafer(die: Values, x: float, y: float, lost_rows: bool) -> float:
    """Dies of x times y mm on a wafer or panel; 0 where the die does not fit."""
    scribe, edge = die.wafer_scribe_mm, die.wafer_edge_exclusion_mm
    width, height = x + scribe, y + scribe
    if die.wafer_panel_x_mm > 0:
        sides = [side - 2 * edge for side in (die.wafer_panel_x_mm, die.wafer_panel_y_mm)]
        return float(
            max(
                math.floor((sides[0] + scribe) / a) * math.floor((sides[1] + scribe) / b)
                for a, b in ((width, height), (height, width))
            )
        )
    usable = die.wafer_diameter_mm - 2 * edge
    if not x or (die.wafer_dies_per_wafer not in CLOSED_FORMS and math.hypot(x, y) > usable / 2):
        return 0.0
    methods: Sequence[Callable[[], float]] = (
        lambda: count_grid(x, y, usable, scribe, lost_rows),
        lambda: count_rows(x, y, usable, scribe),
        lambda: math.pi * usable * (usable / (4 * width * height) - 1 / math.sqrt(2 * width * height)),
        lambda: math.pi * usable**2 / (4 * width * height),
    )
    return max(0.0, methods[int(die.wafer_dies_per_wafer)]())


def wafer_area(die: Values) -> float:
    """Area that is paid for."""
    return die.wafer_panel_x_mm * die.wafer_panel_y_mm or math.pi * (die.wafer_diameter_mm / 2) ** 2


# yield


def exact_yield(layer: Values, area: Decimal) -> Decimal:
    """Chance that no defect falls into the critical part of an area."""
    defects = Decimal(layer.defect_density_per_mm2) * Decimal(layer.critical_area_ratio) * area
    alpha, levels = Decimal(layer.clustering), Decimal(layer.critical_levels)
    if not defects:
        return Decimal(1)
    models: Sequence[Callable[[], Decimal]] = (
        lambda: (1 + defects / alpha) ** -alpha,
        (-defects).exp,
        lambda: ((1 - (-defects).exp()) / defects) ** 2,
        lambda: 1 / (1 + defects),
        lambda: (1 + defects) ** -levels,
    )
    return models[int(layer.yield_model)]()


def defect_yield(die: Values, layer: Values, area: float) -> float:
    """Chance that a die works if all but `harvest_spares` of its equal units must.

    All models mix exponentials of the area, so the chance that given units work and others do not is a sum of yields
    of areas with alternating signs; the signs cost digits, of which there are enough here.
    """
    units = int(die.harvest_units)
    with localcontext() as context:
        context.prec = DIGITS
        whole = Decimal(area)
        if not units:
            return float(exact_yield(layer, whole))
        # Units of more area than there is fill all of it.
        each = min(Decimal(die.harvest_unit_mm2), whole / units)
        rest = whole - units * each
        total = Decimal(0)
        for failed in range(min(units, int(die.harvest_spares)) + 1):
            for again in range(failed + 1):
                ways = math.comb(units, failed) * math.comb(failed, again) * (-1) ** again
                total += ways * exact_yield(layer, rest + each * (units - failed + again))
        return float(total)


# area


def grown(area: float, margin: float, ratio: float) -> float:
    """Area of a rectangle with a margin around it."""
    if area <= 0:
        return 0.0
    return (math.sqrt(area * ratio) + 2 * margin) * (math.sqrt(area / ratio) + 2 * margin)


def pad_area(
    die: Values, pads: float, pitch: float, separation: float, below: float, by_reach: Sequence[tuple[float, float]]
) -> float:
    """Area of the grid of pads; signals lie in a band along the edge that their reach allows.

    `by_reach` is (reach, signals) in the order of reach; `below` the area of dies between this one and its carrier.
    NaN where a link reaches no farther than the dies are apart.
    """

    def whole(length: float) -> float:
        return math.ceil(length / pitch) * pitch

    ratio = die.aspect_ratio
    x = y = signals = 0.0
    for reach, added in by_reach:
        band = reach - separation
        if band < 0:
            return math.nan
        signals += added
        need = signals * pitch**2 + below
        usable = band * (x + y) - band**2 if band < x and band < y else x * y
        if usable <= need:
            wide, high = math.sqrt(need * ratio), math.sqrt(need / ratio)
            if wide > band and high > band:
                if band == 0:
                    return math.nan
                high = (2 * need / band + 2 * band) / (2 * ratio + 2)
                wide = ratio * high
            x, y = max(x, whole(wide)), max(y, whole(high))
    need = pitch**2 * pads
    longest = max(x, y)
    if need <= x * y:
        columns, rows = math.ceil(x / pitch), math.ceil(y / pitch)
    elif x != y and longest**2 <= need:
        columns, rows = math.ceil(longest / pitch), math.ceil(need / longest / pitch)
    else:
        columns = rows = math.ceil(math.sqrt(need) / pitch)
    return columns * rows * pitch**2


# the tree


class Package:
    """The rows of the tables by name, and who stands where."""

    def __init__(self, tables: PackageTables) -> None:
        self.dies = [
            Values(**dict(zip(DIE_CODES, map(int, codes))), **dict(zip(DIE_NUMBERS, map(float, numbers))))
            for codes, numbers in zip(tables.die_codes, tables.die_numbers)
        ]
        layers = [Values(**dict(zip(LAYER_NUMBERS, map(float, row)))) for row in tables.layer_numbers]
        self.conventions = Values(**{name: bool(on) for name, on in zip(CONVENTIONS, tables.conventions)})
        self.copies: list[float] = []
        self.steps = [Values(**dict(zip(STEP_NUMBERS, map(float, row)))) for row in tables.step_numbers]
        for row, die in enumerate(self.dies):
            die.row = row
            die.stack = layers[die.first_layer : die.first_layer + die.layers]
            self.copies.append(die.count * (self.copies[die.parent] if die.parent >= 0 else 1.0))
        self.links = [
            Values(**dict(zip(LINK_CODES, map(int, codes))), **dict(zip(LINK_NUMBERS, map(float, numbers))))
            for codes, numbers in zip(tables.link_codes, tables.link_numbers)
        ]
        self.links = [link for link in self.links if self.copies_of(link.source) and self.copies_of(link.target)]
        for link in self.links:
            link.each = given(link.count, math.ceil(link.demand_bps / link.bandwidth_bps))
            # Outside there are as many as there are dies to link.
            link.copies = self.copies_of(link.target if link.source == OUTSIDE else link.source)

    def copies_of(self, row: int) -> float:
        return 1.0 if row == OUTSIDE else self.copies[row]

    def steps_before(self, die: Values) -> list[Values]:
        """Steps of a die before its last."""
        return self.steps[die.first_step : die.first_step + die.steps]

    def children(self, row: int) -> list[Values]:
        """Dies that are mounted on a die and are there at all."""
        return [die for die in self.dies if die.parent == row and die.count]

    def subtree(self, row: int) -> set[int]:
        return {row}.union(*(self.subtree(child.row) for child in self.children(row)))

    def ends(self, row: int) -> list[tuple[Values, float, bool]]:
        """Links that end at a die: link, how many per copy of the die, whether it is their source."""
        return [(link, link.each, True) for link in self.links if link.source == row] + [
            (link, link.each * link.copies / self.copies[row], False) for link in self.links if link.target == row
        ]

    def leaving(self, row: int, within: int, own: bool) -> list[tuple[Values, float]]:
        """Links of a die, per copy of it, that leave the unit of `within`, a die it is or is mounted on.

        Its `own` links only, or those of all dies of its unit. A link of a die to its equals leaves that die twice.
        """
        unit, around = {row} if own else self.subtree(row), self.subtree(within)
        found = []
        for link in self.links:
            for end, other in ((link.source, link.target), (link.target, link.source)):
                if end in unit and (other not in around or end == other == row == within):
                    found.append((link, link.each * link.copies / self.copies[row]))
        return found


def signals(leaving: Iterable[tuple[Values, float]]) -> float:
    return sum(link.wires * count for link, count in leaving)


def naive_package(tables: PackageTables) -> list[Found]:
    """RESULTS of every die; NaN where they are not known, and for dies that are absent."""
    package = Package(tables)
    impossible = float(STATUS.index("impossible_number"))
    if any(die.impossible for die in package.dies):
        return [
            dict.fromkeys(RESULTS, math.nan)
            | {"copies": package.copies[die.row], "status": impossible if die.impossible or not die.row else 0.0}
            for die in package.dies
        ]
    found: dict[int, Found] = {}
    for die in reversed(package.dies):
        if package.copies[die.row]:
            found[die.row] = unit(package, die, found)
    absent = dict.fromkeys(RESULTS, math.nan) | {"copies": 0.0, "status": 0.0}
    return [{name: found.get(die.row, absent)[name] for name in RESULTS} for die in package.dies]


def unit(package: Package, die: Values, found: dict[int, Found]) -> Found:
    """Everything about a die and what is mounted on it, after its children."""
    children = [(child, found[child.row]) for child in package.children(die.row)]
    parent = package.dies[die.parent] if die.parent >= 0 else None
    of: Found = {"copies": package.copies[die.row]}
    interfaces(package, die, children, of)
    pads(package, die, parent, children, of)
    shape(package, die, parent, children, of)
    die.core = of["core_mm2"]
    wafer(package, die, children, of)
    own_yield(package, die, children, of)
    assembled = bool(children) or package.conventions.bare_dies_tested_twice
    of["finally_tested"] = assembled and not on_whole_wafer(package, die)
    of["bonds"] = bonds(package, die, children)
    of["self_price_usd"] = given(
        die.given_price_usd, over(of["layer_price_usd"] + of["self_test_usd"], of["test_yield"])
    )
    own_footprint(die, of)
    build(
        package,
        die,
        children,
        of,
        lambda mounted: bonds(package, die, mounted),
        lambda step, there: assembly_test_price(package, die, step, there),
    )
    design(package, die, children, of)
    slack(package, die, children, of)
    of["join_share"] = 1.0
    return of


def total(children: Children, name: str) -> float:
    """A result of all that is mounted on a die."""
    return sum(child.count * of[name] for child, of in children)


def facing_parent(die: Values, children: Children) -> Children:
    """Children between a die and its parent."""
    return [(child, of) for child, of in children if child.back == die.face_up]


def interfaces(package: Package, die: Values, children: Children, of: Found) -> None:
    """Cells, signals and power of links."""
    area = power = 0.0
    for link, count, is_source in package.ends(die.row):
        both = link.tx_area_mm2 + link.rx_area_mm2
        if not link.bidirectional:
            area += count * (link.tx_area_mm2 if is_source else link.rx_area_mm2)
        else:
            area += count * (both if package.conventions.cells_at_both_ends else both / 2)
        share = count / link.each if link.each else 0.0
        booked = share * link.demand_bps * link.utilisation * link.energy_J_per_b
        power += booked if package.conventions.cells_at_both_ends else booked / 2
    of["io_area_mm2"] = area
    of["io_power_W"] = power
    of["signals"] = signals(package.leaving(die.row, die.row, package.conventions.own_signals_only))
    of["total_power_W"] = given(die.given_power_W, die.power_W + power) + total(children, "total_power_W")


def pads(package: Package, die: Values, parent: Values | None, children: Children, of: Found) -> None:
    """Pads to the carrier, and vias from the far side to it."""
    # What joins a die to its carrier is of the carrier's process.
    process = die if package.conventions.own_pads or parent is None else parent
    pad_A = process.assembly_current_density_A_per_mm2 * math.pi * (process.assembly_pitch_mm / 4) ** 2
    pad_W = pad_A * die.voltage_V
    of["power_pads"] = 2 * math.ceil(of["total_power_W"] / pad_W) if pad_W else 0.0
    of["test_pads"] = sum(
        pads_per_chain * chains + further
        for tested, pads_per_chain, chains, further in (
            (die.test_self_tested, die.test_self_pads_per_chain, die.test_self_chains, die.test_self_pads),
            (
                die.test_assembly_tested,
                die.test_assembly_pads_per_chain,
                die.test_assembly_chains,
                die.test_assembly_pads,
            ),
        )
        if tested
    )
    of["pads"] = of["signals"] + of["power_pads"] + of["test_pads"]
    of["pads_to_parent"] = of["pads"] + total(facing_parent(die, children), "pads_to_parent")
    behind = [(child, child_of) for child, child_of in children if child.back]
    # Test pads are probed on the face, before assembly.
    probed = 0.0 if package.conventions.all_pads_are_vias else of["test_pads"]
    of["vias"] = of["pads_to_parent"] - probed if die.face_up else total(behind, "pads_to_parent")
    of["via_area_mm2"] = of["vias"] * die.assembly_tsv_area_mm2


def reaches(package: Package, row: int) -> list[tuple[float, float]]:
    """Reach and signals of a die's links that leave its unit, in the order of reach.

    With `silent_reaches`, those of all links, be there signals or none: if the die has links, and any die outside has.
    """
    leaving = package.leaving(row, row, own=True)
    linked = {end for link in package.links for end in (link.source, link.target)}
    everyone = row in linked and not linked <= package.subtree(row)
    known = package.links if package.conventions.silent_reaches and everyone else [link for link, _ in leaving]
    by_reach = {link.reach_mm: 0.0 for link in sorted(known, key=lambda link: link.reach_mm)}
    for link, count in leaving:
        by_reach[link.reach_mm] += link.wires * count
    loud = by_reach.items() if package.conventions.silent_reaches else [item for item in by_reach.items() if item[1]]
    return list(loud)


def shape(package: Package, die: Values, parent: Values | None, children: Children, of: Found) -> None:
    """Area: of what is on the die, of its pads, or of what stands on it."""
    pitches = [die.assembly_pitch_mm]
    if parent:
        pitches.append(parent.assembly_pitch_mm)
        if die.back:
            pitches.append(parent.assembly_tsv_pitch_mm)
    if die.face_up:
        pitches.append(die.assembly_tsv_pitch_mm)
    below = total(facing_parent(die, children), "area_mm2")
    by_reach = reaches(package, die.row)
    separation = (parent or die).assembly_separation_mm
    of["pad_area_mm2"] = pad_area(die, of["pads"], max(pitches), separation, below, by_reach)

    def side(back: int) -> float:
        standing = [(child, child_of["area_mm2"]) for child, child_of in children if child.back == back]
        standing = [(child, area) for child, area in standing if not child.buried]
        half = die.assembly_separation_mm / 2
        return sum(child.count * grown(area, half, child.aspect_ratio) for child, area in standing)

    if die.assembly_area_factor:
        mounted = sum(child.count * child_of["area_mm2"] for child, child_of in children if not child.buried)
        of["stacked_area_mm2"] = die.assembly_area_factor * mounted
    else:
        of["stacked_area_mm2"] = grown(max(side(0), side(1)), die.assembly_edge_mm, 1.0)
    around = of["io_area_mm2"] + of["via_area_mm2"]
    outline = die.given_outline_mm2
    of["core_mm2"] = die.core_area_mm2 if math.isnan(outline) else max(outline - around, 0.0)
    least = max_known(of["core_mm2"] + around, of["pad_area_mm2"], of["stacked_area_mm2"])
    of["area_mm2"] = given(die.given_area_mm2, given(outline, least))
    of["width_mm"] = math.sqrt(of["area_mm2"] * die.aspect_ratio)
    of["height_mm"] = math.sqrt(of["area_mm2"] / die.aspect_ratio)


def max_known(*values: float) -> float:
    """The largest; NaN if one is."""
    return math.nan if any(map(math.isnan, values)) else max(values)


def sides_of_field(die: Values) -> tuple[tuple[float, float], tuple[float, float]]:
    """An exposure field, and the same turned by a right angle."""
    x, y = die.wafer_reticle_x_mm, die.wafer_reticle_y_mm
    return (x, y), (y, x)


def exposure(die: Values, width: float, height: float) -> tuple[int, int, int]:
    """Columns and rows of fields over a die, as few as can be, and how many dies one exposure makes."""

    def turned(x: float, y: float) -> tuple[int, int, int]:
        columns, rows = math.ceil(width / x), math.ceil(height / y)
        return columns, rows, math.floor(x / width) * math.floor(y / height) if columns == rows == 1 else 1

    return min((turned(x, y) for x, y in sides_of_field(die)), key=lambda it: (it[0] * it[1], -it[2]))


def wafer(package: Package, die: Values, children: Children, of: Found) -> None:
    """Dies of a wafer, exposures, and what the die costs before it is tested."""
    width, height, area = of["width_mm"], of["height_mm"], of["area_mm2"]
    known = not math.isnan(area)
    bought = not (math.isnan(die.given_price_usd) or math.isnan(die.given_carbon_kg))
    counted = known and (children or not bought)
    count = dies_per_wafer(die, width, height, package.conventions.lost_rows) if counted else math.nan
    of["dies_per_wafer"] = count
    field = die.wafer_reticle_x_mm * die.wafer_reticle_y_mm
    if not known:
        of["fields"] = of["seams"] = of["reticle_use"] = math.nan
    elif not area:
        of["fields"], of["seams"], of["reticle_use"] = 1, 0.0, 1.0
    elif package.conventions.fields_by_area:
        of["fields"] = math.ceil(area / field)
        of["seams"] = 0.0
        of["reticle_use"] = math.floor(of["fields"] * field / area) * area / (of["fields"] * field)
    else:
        columns, rows, at_once = exposure(die, width, height)
        of["fields"] = columns * rows
        of["seams"] = columns * (rows - 1) + rows * (columns - 1)
        of["reticle_use"] = at_once * area / (of["fields"] * field)
    of["reticle_fields"] = 1 if package.conventions.fields_by_area and known and area else of["fields"]
    of["layer_price_usd"] = die.finish_usd_per_mm2 * area + sum(
        layer.price_usd_per_mm2
        * (wafer_area(die) / count if count else math.nan)
        * (1 - layer.litho_share + (layer.litho_share / of["reticle_use"] if layer.litho_share else 0.0))
        for layer in die.stack
    )


def on_whole_wafer(package: Package, die: Values) -> bool:
    """Whether a die is bonded before its wafer is cut, and so before it can be tested."""
    if die.parent < 0:
        return False
    parent = package.dies[die.parent]
    return bool([*package.steps_before(parent), parent][die.step].assembly_whole_wafer)


def own_yield(package: Package, die: Values, children: Children, of: Found) -> None:
    """Yield of the die, its test and what the test lets through."""
    circuits = of["core_mm2"] + of["io_area_mm2"]
    true = 1.0
    for layer in die.stack:
        if package.conventions.flawless_carriers:
            area = circuits
        elif layer.active:
            area = circuits + of["via_area_mm2"]
        else:
            area = of["area_mm2"]
        true *= math.nan if math.isnan(area) else defect_yield(die, layer, area)
        true *= 1.0 if not of["seams"] else layer.stitching_yield ** of["seams"]
    if not package.conventions.late_process_yield:
        true *= die.wafer_process_yield
    # A die that carries nothing has no second step: its vias are tested with it.
    if not children and not package.conventions.bare_dies_tested_twice:
        true *= die.assembly_tsv_yield ** of["vias"]
    # A carrier made onto its dies, and wafers bonded whole, are first tested when they are assembled.
    first = [*package.steps_before(die), die][0]
    first_assembled = bool(children) and (first.assembly_chip_first or first.assembly_whole_wafer)
    tested = die.test_self_tested and not first_assembled and not on_whole_wafer(package, die)
    of["true_yield"] = true
    of["test_yield"] = true * die.test_self_coverage + (1 - die.test_self_coverage) if tested else 1.0
    of["self_quality"] = given(die.given_quality, min(over(true, of["test_yield"]), 1.0))
    of["self_test_usd"] = self_test_price(package, die, of["core_mm2"]) if tested else 0.0


def gates_per_mm2(die: Values) -> float:
    return sum(layer.transistor_density_per_mm2 for layer in die.stack if layer.active) / GATE_TRANSISTORS


def self_test_price(package: Package, die: Values, core: float) -> float:
    """Price of testing the die before assembly."""
    patterns = given(die.test_self_patterns, 2 ** (1.5 * die.gate_flop_ratio))
    chain = die.test_self_chain_per_mm2
    if math.isnan(chain):
        chain = gates_per_mm2(die) / die.gate_flop_ratio / die.test_self_chains
    cycles = patterns + die.test_samples if package.conventions.samples_differ else patterns * die.test_samples
    seconds = core * die.test_cycle_s * cycles * chain + die.test_self_time_s
    return seconds * die.test_price_usd_per_s


def assembly_test_price(package: Package, die: Values, step: Values, children: Children) -> float:
    """Price of testing the unit after a step, with these children on it."""
    near = [(die, 1.0), *((child, child.count) for child, _ in children)]
    core = sum(count * each.core for each, count in near)

    def averaged(number: Callable[[Values], float], over: Sequence[tuple[Values, float]]) -> float:
        weight = sum(count * each.core for each, count in over)
        return sum(count * each.core * number(each) for each, count in over) / weight if weight else 0.0

    def below(of: Values, children: Sequence[Values]) -> list[tuple[Values, float]]:
        inner = [
            (each, count * child.count)
            for child in children
            for each, count in below(child, package.children(child.row))
        ]
        return [(of, 1.0), *inner]

    ratio = averaged(lambda each: each.gate_flop_ratio, near)
    patterns = given(step.test_assembly_patterns, 2 ** (1.5 * ratio))
    chain = step.test_assembly_chain_per_mm2
    if math.isnan(chain):
        gates = averaged(gates_per_mm2, below(die, [child for child, _ in children]))
        chain = gates / ratio / step.test_assembly_chains if ratio else 0.0
    seconds = core * step.test_cycle_s * patterns * chain * step.test_samples + step.test_assembly_time_s
    return seconds * step.test_price_usd_per_s


def bonds(package: Package, die: Values, children: Children) -> float:
    """Bonds between a die and what is mounted on it."""
    if package.conventions.leaving_bonds_only:
        return sum(child.count * signals(package.leaving(child.row, die.row, own=True)) for child, _ in children)
    return total(children, "pads_to_parent")


def design(package: Package, die: Values, children: Children, of: Found) -> None:
    """What is paid once: for the design of the die and of the package, and for masks."""
    core = of["core_mm2"]
    if die.harvest_units > 1:
        # Of equal blocks one is designed.
        core -= (die.harvest_units - 1) * min(die.harvest_unit_mm2, core / die.harvest_units)
    usd = die.design_usd + core * sum(
        share * price
        for share, price in (
            (die.memory_share, die.wafer_memory_design_price_usd_per_mm2),
            (die.logic_share, die.wafer_logic_design_price_usd_per_mm2),
            (die.analog_share, die.wafer_analog_design_price_usd_per_mm2),
        )
    )
    # Fields by area share one mask set, however many they are.
    fields = 1 if package.conventions.fields_by_area else of["fields"]
    for layer in die.stack:
        usd += core * layer.design_price_usd_per_mm2
        usd += of["area_mm2"] * layer.chip_design_price_usd_per_mm2 / die.equal_parts
        usd += layer.chip_fixed_price_usd + die.reticle_share * layer.mask_set_usd * fields
    if not (math.isnan(die.given_price_usd) or package.conventions.bought_dies_designed):
        # The price of a bought die pays for its design.
        usd = die.design_usd
    if children:
        package_area = of["area_mm2"] if die.carrier else of["stacked_area_mm2"]
        usd += die.assembly_design_price_usd_per_mm2 * package_area + die.assembly_fixed_price_usd
        # The price of one substrate under an interposer, which is no design.
        if package.conventions.carrier_in_design and any(child.carrier for child, _ in children):
            usd += of["layer_price_usd"]
    of["design_usd"] = usd / die.quantity
    of["design_usd_with_children"] = of["design_usd"] + total(children, "design_usd_with_children")


def own_footprint(die: Values, of: Found) -> None:
    """Carbon dioxide without that of electricity, and electricity, of making the die: those that fail included."""
    share = wafer_area(die) / of["dies_per_wafer"] if of["dies_per_wafer"] else math.nan
    carbon = over(sum(layer.carbon_kg_per_mm2 for layer in die.stack) * share, of["test_yield"])
    energy = over(sum(layer.fab_energy_J_per_mm2 for layer in die.stack) * share, of["test_yield"])
    bought = not math.isnan(die.given_carbon_kg)
    of["own_carbon_kg"], of["own_energy_J"] = (die.given_carbon_kg, 0.0) if bought else (carbon, energy)


def wires_per_mm(die: Values) -> float:
    return sum(layer.wiring_layers / layer.wiring_pitch_mm for layer in die.stack if layer.wiring_layers)


def wiring(die: Values, children: Children) -> float:
    """Wires that the die and the bridges in it can lead away from one on it, less its signals: the least of all."""
    dies = [(child, of) for child, of in children if not child.buried]
    if not wires_per_mm(die) or not dies:
        return math.nan
    every = total(dies, "signals")
    if not every:
        return math.nan
    bridged = sum(
        child.count * 2 * max(of["width_mm"], of["height_mm"]) * wires_per_mm(child)
        for child, of in children
        if child.buried
    )
    return min(
        2 * (of["width_mm"] + of["height_mm"]) * wires_per_mm(die) + (bridged / every - 1) * of["signals"]
        for _, of in dies
        if of["signals"]
    )


def unequal(package: Package, die: Values, children: Children, of: Found) -> bool:
    """Whether what is bonded to it as a whole wafer does not lie on it die by die."""
    return any(
        sum(other.count for other, _ in children if other.step == child.step) != 1
        or child.wafer_diameter_mm != die.wafer_diameter_mm
        or not all(abs(child_of[side] - of[side]) <= 1e-6 * of[side] for side in ("width_mm", "height_mm"))
        for child, child_of in children
        if on_whole_wafer(package, child)
    )


def too_hot(package: Package, die: Values, of: Found) -> bool:
    """Whether what is mounted gives off more per area than the assembly that mounts it lets through."""
    if die.parent < 0:
        return False
    limit = package.dies[die.parent].assembly_power_density_W_per_mm2
    return bool(limit and of["total_power_W"] > limit * of["area_mm2"])


def too_many_blocks(die: Values, of: Found) -> bool:
    """Whether its equal blocks have no room in its core, or all of them may be bad."""
    blocks = die.harvest_units
    return bool(blocks) and (
        blocks * die.harvest_unit_mm2 > of["core_mm2"] * (1 + 1e-9) or die.harvest_spares >= blocks
    )


def slack(package: Package, die: Values, children: Children, of: Found) -> None:
    """Edge and field left over (negative where they are exceeded), and why the unit cannot be made."""
    width, height = of["width_mm"], of["height_mm"]
    edge = sum(link.shoreline_mm * count for link, count, _ in package.ends(die.row))
    of["shoreline_slack_mm"] = 2 * (width + height) - edge
    of["reticle_slack_mm"] = max(min(x - width, y - height) for x, y in sides_of_field(die))
    of["wiring_slack"] = wiring(die, children)
    least = max_known(of["io_area_mm2"] + of["via_area_mm2"], of["pad_area_mm2"], of["stacked_area_mm2"])
    inside = sum(child.count * child_of["area_mm2"] for child, child_of in children if child.buried)
    unstitched = of["seams"] > 0 and any(layer.stitching_yield == 0 for layer in die.stack)
    reasons = (
        ("die_exceeds_wafer", of["dies_per_wafer"] == 0 and math.isnan(die.given_price_usd)),
        ("link_beyond_reach", math.isnan(of["pad_area_mm2"])),
        ("die_exceeds_reticle", unstitched),
        ("shoreline_exceeded", of["shoreline_slack_mm"] < 0),
        ("interfaces_exceed_die", least > die.given_outline_mm2 * (1 + 1e-9)),
        ("wafers_differ", unequal(package, die, children, of)),
        ("wiring_exceeded", of["wiring_slack"] < 0),
        ("carrier_exceeds_assembly", bool(children) and 0 < die.assembly_largest_carrier_mm2 < of["area_mm2"]),
        ("buried_exceed_carrier", inside > of["area_mm2"] * (1 + 1e-9)),
        ("power_density_exceeded", too_hot(package, die, of)),
        ("blocks_exceed_die", math.isnan(die.given_price_usd) and too_many_blocks(die, of)),
    )
    own = [STATUS.index(name) for name, holds in reasons if holds]
    fails = [] if of["quality"] > 0 else [STATUS.index("never_works")]
    of["status"] = float(
        next(iter([*own, *(child_of["status"] for _, child_of in children if child_of["status"]), *fails]), 0)
    )
