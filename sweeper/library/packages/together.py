"""Keys of a die that only make sense with others, or without them."""

from collections.abc import Mapping

from sweeper.library.packages.design import Cell
from sweeper.reading import checks
from sweeper.reading.nodes import Node

SHARES = ("memory_share", "logic_share", "analog_share")
"""Keys of a die that say what its core is made of."""
AREAS = ("core_area", "die_area", "area")
"""Keys of a die of which one says how large it is."""
ROUNDING = 1e-9

UNREAD = {
    "core_area": ("part", "die_area", "area"),
    "die_area": ("part", "area"),
    "finish_price": ("part", "price"),
    "power": ("total_power",),
    "harvest_unit_area": ("part", "price"),
    "harvest_units": ("part", "price"),
    "harvest_spares": ("part", "price"),
}
"""Keys of a die that nothing reads where it has others."""
DESIGNING = ("reticle_share", "equal_parts", *SHARES)
"""Keys of a die that its design alone reads: what is bought has none, but by the convention `bought_dies_designed`."""

NEEDED = {
    "harvest_unit_area": "harvest_units",
    "harvest_spares": "harvest_units",
    "harvest_units": "harvest_unit_area",
    "stack_limit": "stack",
}
"""Keys of a die that nothing reads without another one."""


def check_together(written: checks.Fields, entry: str, conventions: frozenset[str]) -> None:
    """Note keys of a die that the entry itself states and of which one is not read beside another one, or without it.
    What it inherits may be such: that of a die which a variant buys instead."""
    bought = () if "bought_dies_designed" in conventions else ("part", "price")
    for key, others in (UNREAD | dict.fromkeys(DESIGNING, bought)).items():
        for other in others:
            if key in written and other in written and states(entry, written[key]):
                message = f"nothing reads {key} of a die that has {other}: leave one of the two out"
                written.problems.append(written[key].problem(message))
    for key, other in NEEDED.items():
        if key in written and other not in written:
            written.problems.append(written[key].problem(f"{key} needs {other}"))


def check_shares(written: checks.Fields, cells: Mapping[str, Cell]) -> None:
    """Note shares of a core that are known and together more than all of it."""
    whole = sum(cell for cell in (cells[key] for key in SHARES) if isinstance(cell, float))
    if whole > 1.0 + ROUNDING:
        first = next(written[key] for key in SHARES if key in written)
        message = (
            f"{', '.join(SHARES)} of a die add up to {whole:g}, at most 1 (logic_share is 1 where it is not given)"
        )
        written.problems.append(first.problem(message))


def states(entry: str, node: Node) -> bool:
    """Whether an entry says something itself, and does not inherit it."""
    return node.path.startswith(f"{entry}.")
