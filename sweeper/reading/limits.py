"""What is possible, in words: `0 or from 1 B/s to 1 EB/s`, `a whole number from 1 to 1e9`."""

from sweeper.words.attributes import Attribute

_LARGE = {"E": 1e18, "P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3}
_SMALL = {"m": 1e-3, "u": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15}
_PREFIXES = {
    **dict.fromkeys(("B/s", "b/s", "B", "flop/s", "flop", "Hz"), _LARGE),
    **dict.fromkeys(("s", "V"), _SMALL),
    "W": {**_LARGE, **_SMALL},
}
"""Prefixes with which large and small numbers of a unit are read."""


def possible(attribute: Attribute) -> str:
    """What a number of the vocabulary may be."""
    low, high = (written(limit, attribute.unit) for limit in attribute.range)
    zero = "" if attribute.positive else "0 or "
    span = low if low == high else f"{'a whole number ' if attribute.integer else ''}from {low} to {high}"
    return zero + span


def written(number: float, unit: str) -> str:
    """A number greater than 0 with its unit, as a person would write it."""
    for prefix, factor in _PREFIXES.get(unit, {}).items():
        if 1.0 <= float(f"{number / factor:.6g}") < 1000.0:
            return f"{number / factor:.6g} {prefix}{unit}"
    return f"{number:.6g} {unit}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-").strip()
