"""Design cost of what several systems share, spread over a portfolio of them.

Sources: Feng and Ma, "Chiplet Actuary", DAC'22, doi 10.1145/3489517.3530428: module, chip and package designs are paid
once and borne by every system in proportion to its volume and to how many of them it holds.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

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
