"""A placed graph as a picture: units by operator, links by how busy they are."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sweeper.kernels.placement.fabric import COMPUTE, MEMORY, kind_of, links, neighbour
from sweeper.placing.account import resource_cycles
from sweeper.placing.place import Placement
from sweeper.views.pictures.canvas import PALETTE, save_figure, styled_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FREE = "#f2f2f2"
LEGEND = "squares compute, circles store, triangles reach memory outside; lines as thick and dark as a link is busy"
SHIFT = 0.07
"""How far apart the two directions of a link are drawn."""


def draw(placement: Placement, block: str, stem: Path) -> list[Path]:
    """Write the picture of a placement; gives the paths."""
    fabric = placement.fabric
    size = (1.6 + 0.42 * fabric.columns, 1.4 + 0.42 * fabric.rows)
    with styled_figure(size, f"{block} on {placement.entry.name}", "") as figure:
        axes = figure.add_subplot()
        axes.set_title(LEGEND)
        _links(axes, placement)
        _units(axes, placement)
        axes.set_xlim(-0.6, fabric.columns - 0.4)
        axes.set_ylim(fabric.rows - 0.4, -0.6)
        axes.set_aspect("equal")
        axes.axis("off")
        return save_figure(figure, stem)


def _units(axes: "Axes", placement: Placement) -> None:
    """Compute units as squares, memory units as circles, address generators as triangles; those in use by operator."""
    from matplotlib.lines import Line2D

    fabric, owner = placement.fabric, dict[int, str]()
    for member in placement.graph.actors:
        owner.setdefault(int(placement.site[member.unit]), member.operator or "input")
    names = list(dict.fromkeys(owner.values()))
    colours = {name: _colour(number) for number, name in enumerate(names)}
    for site in range(fabric.rows * fabric.columns):
        kind = kind_of(fabric, site)
        marker = "s" if kind == COMPUTE else "o" if kind == MEMORY else "^"
        colour = colours[owner[site]] if site in owner else FREE
        row, column = divmod(site, fabric.columns)
        axes.plot(column, row, marker, color=colour, markeredgecolor="#666666", markeredgewidth=0.4, markersize=9)
    handles = [Line2D([], [], marker="s", linestyle="", color=colours[name], label=name) for name in names]
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _colour(number: int) -> tuple[float, float, float]:
    """A colour of the palette; once it is used up, the same again, paler every time."""
    from matplotlib.colors import to_rgb

    rounds, place = divmod(number, len(PALETTE))
    red, green, blue = (1.0 - 0.5**rounds * (1.0 - share) for share in to_rgb(PALETTE[place]))
    return red, green, blue


def _links(axes: "Axes", placement: Placement) -> None:
    """Every link in use, as thick and as dark as the share of the time for which its lanes are busy."""
    from matplotlib import colormaps

    fabric, interval = placement.fabric, placement.rate.interval_cycles
    lanes = resource_cycles(placement)[: links(fabric) * fabric.lanes].reshape(-1, fabric.lanes)
    shares = lanes.max(axis=1) / (interval if np.isfinite(interval) else lanes.max(initial=1.0))
    for link in np.flatnonzero(shares):
        site = int(link) // 4
        there = neighbour(fabric, site, int(link) % 4)
        (row, column), (down, across) = divmod(site, fabric.columns), divmod(there, fabric.columns)
        # each direction on its right-hand side
        aside, below = SHIFT * (row - down), SHIFT * (across - column)
        axes.plot(
            [column + aside, across + aside],
            [row + below, down + below],
            color=colormaps["inferno_r"](0.15 + 0.8 * float(shares[link])),
            linewidth=0.6 + 3.0 * float(shares[link]),
            solid_capstyle="butt",
            zorder=0,
        )
