"""How the numbers of a study are varied: each alone by some factors, and all together in draws."""

from dataclasses import asdict, dataclass
from typing import Any

HARDWARE = ("template", "technology", "stack", "lane", "outer_lane", "chip", "memory", "link", "outer_link")
"""Roles whose numbers are varied unless something else is asked for, beside those of packages."""
PACKAGED = ("package", "node", "wafer", "assembly", "test", "interface", "part")
"""Roles of what packages are made of."""


@dataclass(frozen=True)
class Perturbation:
    """What is varied, and how far.

    factors: what each number is multiplied by, alone. draws: how often all numbers are drawn together, each
    within its own interval, or within `spread` of its value either way where the library gives it none; 0: a number
    without an interval stays. only: patterns of names, as a shell has them (`technology.*`). unable: whether what
    cannot run as it is is searched for other values, too.
    """

    factors: tuple[float, ...] = (0.9, 1.1)
    draws: int = 32
    spread: float = 0.1
    only: tuple[str, ...] = (*(f"{role}.*" for role in (*HARDWARE, *PACKAGED)), "*/*")
    unable: bool = False

    def resolved(self) -> dict[str, Any]:
        """All of it as plain data."""
        return asdict(self)
