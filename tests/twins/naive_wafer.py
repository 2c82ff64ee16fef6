"""Dies on wafers and yield again, in plain Python: dies are placed one by one, probabilities summed to 250 digits."""

import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from itertools import count

from sweeper.kernels.packages.wafer import COUNTING

DIGITS = 250
"""Inclusion and exclusion of 256 blocks loses 122 digits: its terms reach 3^256."""


def walk(start: float, step: float, end: float) -> Iterator[float]:
    """start, start + step, ... below `end`."""
    position = start
    while position < end:
        yield position
        position += step


def chord(radius: float, height: float) -> float:
    """Length of the line across a circle at a height above its centre."""
    return 2 * math.sqrt(radius**2 - height**2)


def too_large(x: float, y: float, usable_diameter: float) -> bool:
    return not (x > 0 and y > 0 and x**2 + y**2 <= (usable_diameter / 2) ** 2)


def grid_with(h: int, x: float, y: float, diameter: float, s: float, lost_rows: bool) -> int:
    """Dies of the grid that has `h` full rows across the middle."""
    radius, xe, ye = diameter / 2, x + s, y + s
    top = h * ye / 2 - s / 2
    length = chord(radius, top)
    n = math.floor((length + s) / xe)
    dies = n * h
    far = n * xe - length / 2 + xe
    for i in range(h):
        low = ye * i - (top + ye) + ye
        dies += all(far**2 + level**2 <= radius**2 for level in (low, low + ye))
    left = (diameter - length) / 2
    for rho in walk(top + ye, ye, radius):
        row = chord(radius, rho)
        free = (diameter - row) / 2
        whole = math.floor((row - (math.ceil((free - left) / xe) * xe + left - free)) / xe)
        dies += 2 * (whole if lost_rows else max(0, whole))
    return dies


def dies_on_grid(x: float, y: float, usable_diameter: float, scribe: float, lost_rows: float) -> int:
    if too_large(x, y, usable_diameter):
        return 0
    radius, xe, ye = usable_diameter / 2, x + scribe, y + scribe
    limit = math.sqrt(radius**2 - (math.sqrt(radius**2 - (ye / 2) ** 2) - xe) ** 2)
    heights = [h for h in range(1, 2 + int(2 * limit / ye)) if h * ye / 2 < limit]
    return max((grid_with(h, x, y, usable_diameter, scribe, lost_rows > 0) for h in heights), default=0)


def dies_in_rows(x: float, y: float, usable_diameter: float, scribe: float) -> int:
    if too_large(x, y, usable_diameter):
        return 0
    radius, xe, ye = usable_diameter / 2, x + scribe, y + scribe

    def in_row(rho: float) -> int:
        return math.floor((chord(radius, rho - scribe / 2) + scribe) / xe)

    middle = in_row(ye / 2) + 2 * sum(in_row(rho) for rho in walk(ye / 2 + ye, ye, radius))
    split = 2 * in_row(ye) + 2 * sum(in_row(rho) for rho in walk(ye + ye, ye, radius))
    return max(middle, split)


def dies_by_area(x: float, y: float, diameter: float, edge: float, scribe: float) -> float:
    usable = math.pi * (diameter / 2 - edge) ** 2
    return usable / ((x + scribe) * (y + scribe))


def dies_analytic(x: float, y: float, diameter: float, edge: float, scribe: float) -> float:
    area = (x + scribe) * (y + scribe)
    return math.pi * (diameter / 2 - edge) ** 2 / area - math.pi * (diameter - 2 * edge) / math.sqrt(2 * area)


def in_line(room: float, length: float, scribe: float) -> int:
    """Dies in a line, laid down one after the other: the first needs no scribe line."""
    return next(n for n in count() if (n + 1) * (length + scribe) > room + scribe)


def dies_on_panel(x: float, y: float, panel_x: float, panel_y: float, edge: float, scribe: float) -> int:
    across, up = panel_x - 2 * edge, panel_y - 2 * edge
    if min(x, y) <= 0 or min(across, up) + scribe <= 0:
        return 0
    ways = ((x, y), (y, x))
    return max(in_line(across, a, scribe) * in_line(up, b, scribe) for a, b in ways)


def dies_per_wafer(
    method: int, x: float, y: float, diameter: float, panel_x: float, panel_y: float, edge: float, scribe: float,
    lost_rows: float,
) -> float:  # fmt: skip
    if panel_x > 0:
        return dies_on_panel(x, y, panel_x, panel_y, edge, scribe)
    usable = diameter - 2 * edge
    if min(x, y, usable) <= 0:
        return 0.0
    found = {
        "grid": lambda: dies_on_grid(x, y, usable, scribe, lost_rows),
        "rows": lambda: dies_in_rows(x, y, usable, scribe),
        "analytic": lambda: dies_analytic(x, y, diameter, edge, scribe),
        "area": lambda: dies_by_area(x, y, diameter, edge, scribe),
    }[COUNTING[method]]()
    return max(0.0, found)


def placed(x: float, y: float, diameter: float, scribe: float, left: float, low: float) -> int:
    """Dies of an endless grid, with a die's corner at (left, low), that lie inside a disc: corner by corner."""
    radius = diameter / 2 * (1 + 1e-12)
    xe, ye = x + scribe, y + scribe
    reach_x, reach_y = math.ceil(diameter / xe) + 1, math.ceil(diameter / ye) + 1
    farthest_x = [max(abs(left + i * xe), abs(left + i * xe + x)) for i in range(-reach_x, reach_x)]
    farthest_y = [max(abs(low + j * ye), abs(low + j * ye + y)) for j in range(-reach_y, reach_y)]
    return sum(math.hypot(a, b) <= radius for a in farthest_x for b in farthest_y)


def placed_on_grid(x: float, y: float, usable_diameter: float, scribe: float) -> int:
    """Dies that fit if 1, 2, ... rows stand across the middle and the grid starts at the end of the outermost."""
    found = 0
    for top in walk(y / 2, (y + scribe) / 2, usable_diameter / 2):
        found = max(found, placed(x, y, usable_diameter, scribe, -chord(usable_diameter / 2, top) / 2, -top))
    return found


def exposures(x: float, y: float, reticle_x: float, reticle_y: float) -> tuple[int, int]:
    """Add fields until the die is covered."""

    def covering(length: float, field: float) -> int:
        return next(n for n in count(1) if n * field * (1 + 1e-9) >= length)

    ways = [(covering(x, a), covering(y, b)) for a, b in ((reticle_x, reticle_y), (reticle_y, reticle_x))]
    return min(ways, key=math.prod)


def seams(fields_x: int, fields_y: int) -> int:
    """Count pairs of neighbours."""
    fields = {(i, j) for i in range(fields_x) for j in range(fields_y)}
    return sum((i + a, j + b) in fields for i, j in fields for a, b in ((1, 0), (0, 1)))


def reticle_use_by_area(area: float, reticle_x: float, reticle_y: float) -> float:
    exposed = math.ceil(area / (reticle_x * reticle_y)) * reticle_x * reticle_y
    return math.floor(exposed / area) * area / exposed


def reticle_use(x: float, y: float, reticle_x: float, reticle_y: float) -> float:
    nx, ny = exposures(x, y, reticle_x, reticle_y)
    field = reticle_x * reticle_y
    if nx * ny > 1:
        return x * y / (nx * ny * field)
    a, b = reticle_x * (1 + 1e-9), reticle_y * (1 + 1e-9)
    return dies_on_panel(x, y, a, b, 0.0, 0.0) * x * y / field


def die_yield(model: str, faults: Decimal, clustering: float, levels: float) -> Decimal:
    """The five closed forms, in as many digits as the context has."""
    f, one = faults, Decimal(1)
    if model == "poisson" or (model == "negative_binomial" and math.isinf(clustering)):
        return (-f).exp()
    if model == "murphy":
        return ((one - (-f).exp()) / f) ** 2 if f else one
    shape, scale = {
        "negative_binomial": (Decimal(clustering), one / Decimal(clustering)),
        "seeds": (one, one),
        "bose_einstein": (Decimal(levels), one),
    }[model]
    return (one + f * scale) ** -shape


def harvested_yield(
    model: str, rest: float, unit: float, units: int, spares: int, clustering: float, levels: float
) -> float:
    """At least units - spares good blocks, by inclusion and exclusion over which are good with the rest of the die."""
    with localcontext(prec=DIGITS):
        needed = units - min(max(spares, 0), units)
        if needed == 0:
            return float(die_yield(model, Decimal(rest), clustering, levels))
        return float(
            sum(
                (-1) ** (good - needed)
                * math.comb(good - 1, needed - 1)
                * math.comb(units, good)
                * die_yield(model, Decimal(rest) + good * Decimal(unit), clustering, levels)
                for good in range(needed, units + 1)
            )
        )
