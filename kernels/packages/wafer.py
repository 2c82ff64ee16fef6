"""Dies on a wafer or panel, and dies in the exposure field of a reticle. All lengths in mm, areas in mm2.

A die of x by y mm with a scribe line takes (x + scribe) by (y + scribe). The usable disc is the wafer less its edge
exclusion on both sides. Counts are whole for grid, rows and panels, real for the closed forms.
Sources: CATCH (UCLA 2025) for `grid` and `rows`; Chiplet Actuary (Feng and Ma, DAC 2022) for `analytic`.
"""

import math

import numpy as np

from sweeper.kernels.equation import compiled

COUNTING = ("grid", "rows", "analytic", "area")
"""Ways of counting dies on a round wafer: on a grid that saw cuts can follow, in rows that are shifted one by one, by
the closed form with its loss at the edge, and by area alone. Position in the tuple is the code."""

GRID, ROWS, ANALYTIC, AREA = range(len(COUNTING))

ROUNDING = 1e-9
"""Relative slack of a die against an exposure field: a die of the field's own size fits in spite of rounding."""


@compiled
def fits(x: float, y: float, usable_diameter: float) -> bool:
    """Whether a die can be counted on a disc: its diagonal is at most the radius.

    The condition of CATCH. Whether it means the diagonal with the scribe line could not be told: the largest die that
    it counts in our tables has a diagonal of 0.943 (with scribe 0.944) of the radius.
    """
    radius = usable_diameter / 2
    return x > 0 and y > 0 and x * x + y * y <= radius * radius


@compiled
def dies_on_grid(x: float, y: float, usable_diameter: float, scribe: float, lost_rows: float) -> float:
    """Most dies on a grid of straight saw lines in both directions.

    Tries 1, 2, ... rows of the same length across the middle, aligned to the left end of the outermost of them; rows
    above and below follow the grid that this fixes. The free right end may hold one more die in a middle row.
    CATCH subtracts rows too short for a die when their room is negative: `lost_rows` 1 keeps that, 0 does not.
    """
    if not fits(x, y, usable_diameter):
        return 0.0
    radius = usable_diameter / 2
    square = radius * radius
    width, height = x + scribe, y + scribe
    inner = math.sqrt(square - (height / 2) ** 2) - width
    limit = math.sqrt(square - inner * inner)
    most = 0.0
    middle_rows = 1
    while middle_rows * height / 2 < limit:
        rho = middle_rows * height / 2 - scribe / 2
        chord = 2 * math.sqrt(square - rho * rho)
        in_row = np.floor((chord + scribe) / width)
        count = in_row * middle_rows
        rho += height
        right = (in_row * width - chord / 2 + width) ** 2
        for row in range(middle_rows):
            low = height * row - rho + height
            high = low + height
            if right + low * low <= square and right + high * high <= square:
                count += 1
        start = (usable_diameter - chord) / 2
        while rho < radius:
            chord = 2 * math.sqrt(square - rho * rho)
            free = (usable_diameter - chord) / 2
            first = np.ceil((free - start) / width) * width + start
            in_row = np.floor((chord - (first - free)) / width)
            count += 2 * (in_row if in_row > 0 else lost_rows * in_row)
            rho += height
        most = max(most, count)
        middle_rows += 1
    return most


@compiled
def _dies_in_row(rho: float, square: float, width: float, scribe: float) -> float:
    """Dies of a row whose far side, scribe included, lies `rho` from the middle."""
    edge = rho - scribe / 2
    return np.floor((2 * math.sqrt(square - edge * edge) + scribe) / width)


@compiled
def dies_in_rows(x: float, y: float, usable_diameter: float, scribe: float) -> float:
    """Most dies in rows that may be shifted against each other, with a row or a saw line across the middle."""
    if not fits(x, y, usable_diameter):
        return 0.0
    radius = usable_diameter / 2
    square = radius * radius
    width, height = x + scribe, y + scribe
    most = 0.0
    for halves in (1, 2):
        rho = halves * height / 2
        count = halves * _dies_in_row(rho, square, width, scribe)
        rho += height
        while rho < radius:
            count += 2 * _dies_in_row(rho, square, width, scribe)
            rho += height
        most = max(most, count)
    return most


@compiled
def dies_by_area(x: float, y: float, diameter: float, edge_exclusion: float, scribe: float) -> float:
    """Usable area over the area of a die and its scribe lines."""
    return math.pi * (diameter / 2 - edge_exclusion) ** 2 / ((x + scribe) * (y + scribe))


@compiled
def dies_analytic(x: float, y: float, diameter: float, edge_exclusion: float, scribe: float) -> float:
    """Dies by area less those cut by the edge, a perimeter over a diagonal. Negative for dies as large as the wafer."""
    diagonal = math.sqrt(2 * (x + scribe) * (y + scribe))
    perimeter = math.pi * (diameter - 2 * edge_exclusion)
    return dies_by_area(x, y, diameter, edge_exclusion, scribe) - perimeter / diagonal


@compiled
def dies_on_panel(x: float, y: float, panel_x: float, panel_y: float, edge_exclusion: float, scribe: float) -> float:
    """Most dies in straight rows and columns of a rectangular panel, all in one of the two orientations."""
    across, up = panel_x - 2 * edge_exclusion + scribe, panel_y - 2 * edge_exclusion + scribe
    width, height = x + scribe, y + scribe
    if not (x > 0 and y > 0 and across > 0 and up > 0):
        return 0.0
    upright = np.floor(across / width) * np.floor(up / height)
    turned = np.floor(across / height) * np.floor(up / width)
    return max(upright, turned)


@compiled
def dies_per_wafer(
    method: float,
    x: float,
    y: float,
    diameter: float,
    panel_x: float,
    panel_y: float,
    edge_exclusion: float,
    scribe: float,
    lost_rows: float,
) -> float:
    """Dies that a wafer yields at most, 0 if none fits; `method` is a code of `COUNTING`.

    A positive `panel_x` means a panel instead of a round wafer, whatever the method.
    """
    if panel_x > 0:
        return dies_on_panel(x, y, panel_x, panel_y, edge_exclusion, scribe)
    usable_diameter = diameter - 2 * edge_exclusion
    if not (x > 0 and y > 0 and usable_diameter > 0):
        return 0.0
    if method == GRID:
        return max(0.0, dies_on_grid(x, y, usable_diameter, scribe, lost_rows))
    if method == ROWS:
        return dies_in_rows(x, y, usable_diameter, scribe)
    if method == ANALYTIC:
        return max(0.0, dies_analytic(x, y, diameter, edge_exclusion, scribe))
    return dies_by_area(x, y, diameter, edge_exclusion, scribe)


@compiled
def _fields(length: float, field: float) -> float:
    """Exposure fields side by side that cover a length, at least one."""
    return max(1.0, np.ceil(length / field * (1 - ROUNDING)))


@compiled
def exposures(x: float, y: float, reticle_x: float, reticle_y: float) -> tuple[float, float]:
    """Exposure fields along x and y that a die is stitched from, in the orientation that takes the fewest."""
    upright = (_fields(x, reticle_x), _fields(y, reticle_y))
    turned = (_fields(x, reticle_y), _fields(y, reticle_x))
    return turned if turned[0] * turned[1] < upright[0] * upright[1] else upright


@compiled
def seams(fields_x: float, fields_y: float) -> float:
    """Edges at which two fields of a die are stitched together."""
    return fields_x * (fields_y - 1) + fields_y * (fields_x - 1)


@compiled
def reticle_use_by_area(area: float, reticle_x: float, reticle_y: float) -> float:
    """Share of the exposed area that holds dies, if dies could take any shape (CATCH)."""
    field = reticle_x * reticle_y
    exposed = np.ceil(area / field) * field
    return np.floor(exposed / area) * area / exposed


@compiled
def reticle_use(x: float, y: float, reticle_x: float, reticle_y: float) -> float:
    """Share of the exposed area that holds dies: whole dies packed in a field, or a die stitched from whole fields."""
    fields_x, fields_y = exposures(x, y, reticle_x, reticle_y)
    if fields_x * fields_y > 1:
        return min(1.0, x * y / (fields_x * fields_y * reticle_x * reticle_y))
    across_x, across_y = reticle_x * (1 + ROUNDING), reticle_y * (1 + ROUNDING)
    upright = np.floor(across_x / x) * np.floor(across_y / y)
    turned = np.floor(across_x / y) * np.floor(across_y / x)
    return min(1.0, max(upright, turned) * x * y / (reticle_x * reticle_y))
