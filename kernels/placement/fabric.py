"""The sites of a fabric: compute and memory units like the fields of a chessboard, address generators at both sides.

Every site has a unit and a switch. Ports lead from the unit into the switch and back, links of several lanes lead from
each switch to its neighbours. A port, and a lane in one direction, is one *resource*.

Source: Prabhakar et al., Plasticine (ISCA 2017), figure 5; Prabhakar et al., SN40L (MICRO 2024), section IV.
"""

from typing import NamedTuple

from sweeper.kernels.equation import borrowing

COMPUTE, MEMORY, PORT = range(3)
"""Kinds of units; a port is an address generator, the way to what lies outside."""
EAST, SOUTH, WEST, NORTH = range(4)
"""Links of a switch."""


class Fabric(NamedTuple):
    """Rows and columns of sites (the first and the last column are address generators), lanes of a link in each
    direction, and ports of a unit in each direction."""

    rows: int
    columns: int
    lanes: int
    ports: int


@borrowing
def kind_of(fabric: Fabric, site: int) -> int:
    """Kind of the unit at a site.

    >>> [kind_of(Fabric(2, 4, 1, 1), site) for site in range(8)]
    [2, 1, 0, 2, 2, 0, 1, 2]
    """
    row, column = site // fabric.columns, site % fabric.columns
    if column == 0 or column == fabric.columns - 1:
        return PORT
    return COMPUTE if (row + column) % 2 == 0 else MEMORY


@borrowing
def neighbour(fabric: Fabric, site: int, side: int) -> int:
    """The site next to another one."""
    if side == EAST:
        return site + 1
    if side == WEST:
        return site - 1
    return site + fabric.columns if side == SOUTH else site - fabric.columns


@borrowing
def links(fabric: Fabric) -> int:
    """Links of all switches; those that would leave the fabric are counted too."""
    return 4 * fabric.rows * fabric.columns


@borrowing
def resources(fabric: Fabric) -> int:
    """Lanes of all links, then ports out of the units, then ports into them."""
    return links(fabric) * fabric.lanes + 2 * fabric.rows * fabric.columns * fabric.ports


@borrowing
def lane(fabric: Fabric, link: int, number: int) -> int:
    """Resource of a lane."""
    return link * fabric.lanes + number


@borrowing
def port_out(fabric: Fabric, site: int, number: int) -> int:
    """Resource of a port from a unit into its switch."""
    return links(fabric) * fabric.lanes + site * fabric.ports + number


@borrowing
def port_in(fabric: Fabric, site: int, number: int) -> int:
    """Resource of a port from a switch into its unit."""
    return port_out(fabric, fabric.rows * fabric.columns, 0) + site * fabric.ports + number
