"""Quantities with units -> numbers in SI, exactly rounded.

Base units are s, m, kg, K, A, J, B (byte), flop and usd; energy is a base of its own because no study converts it to
mass and length. `b` is a bit; `GB` is 10^9 bytes and `GiB` 2^30. Factors are fractions, so `3.35 TB/s` is the float
nearest to 3.35e12, whichever way it was written.
"""

import math
import re
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

from sweeper.errors import brief, listed
from sweeper.reading.known_units import KNOWN
from sweeper.reading.limits import possible
from sweeper.words.attributes import Attribute, ending
from sweeper.words.ranges import BY_UNIT

_PREFIXES = {
    "f": "1/10**15", "p": "1/10**12", "n": "1/10**9", "u": "1/10**6", "µ": "1/10**6", "μ": "1/10**6",
    "m": "1/10**3", "c": "1/100", "k": "10**3", "M": "10**6", "G": "10**9", "T": "10**12", "P": "10**15",
    "E": "10**18", "Ki": "2**10", "Mi": "2**20", "Gi": "2**30", "Ti": "2**40", "Pi": "2**50",
}  # fmt: skip

_UNITS = (
    "B = [information] = _ = byte",
    "b = B / 8 = _ = bit",
    "flop = [operation] = _ = FLOP = op = OP",
    "usd = [currency] = _ = USD",
    "J = [energy] = _ = joule",
    "s = [time] = _ = second = sec",
    "m = [length] = _ = meter = metre",
    "kg = [mass] = _ = kilogram",
    "A = [current] = _ = ampere",
    "K = [temperature] = _ = kelvin",
    "g = kg / 1000 = _ = gram",
    "t = 1000 * kg = _ = tonne",
    "Hz = 1 / s = _ = hertz",
    "W = J / s = _ = watt",
    "Wh = 3600 * J",
    "V = W / A = _ = volt",
    "minute = 60 * s = _ = min",
    "hour = 3600 * s = _ = h",
    "day = 86400 * s",
    "month = 2628000 * s",
    "year = 31536000 * s",
    "percent = 1 / 100",
    "bps = b / s",
    "Bps = B / s",
    "FLOPS = flop / s",
)

EXAMPLES = {
    "1/s": "3.9e12 1/s",
    "B/s": "300 GB/s",
    "B": "80 GB",
    "Hz": "1.4 GHz",
    "s": "100 ns",
    "flop/s": "993 Tflop/s",
    "usd": "25000 usd",
    "W": "700 W",
    "usd/(B/s)": "2 usd/(GB/s)",
    "usd/B": "10 usd/GB",
    "J/B": "0.05 J/GB",
    "usd/s": "50 usd/year",
    "usd/J": "0.08 usd/kWh",
    "usd/W": "12 usd/W",
    "kg": "150 kg",
    "kg/J": "0.4 kg/kWh",
    "kg/B": "0.6 kg/GB",
    "mm": "0.1 mm",
    "mm^2": "100 mm^2",
    "1/mm^2": "0.1 1/cm^2",
    "usd/mm^2": "0.01 usd/mm^2",
    "A/mm^2": "100 A/mm^2",
    "W/mm^2": "1 W/mm^2",
    "J/mm^2": "1.5 kWh/cm^2",
    "kg/mm^2": "0.5 kg/cm^2",
    "b/s": "32 Gb/s",
    "J/b": "0.5 pJ/b",
    "J/flop": "1 pJ/flop",
    "mm^2/B": "0.064 um^2/b",
    "W/B": "8 pW/b",
    "1/mm": "400 1/mm",
    "V": "0.8 V",
    "J/B/mm": "0.06 pJ/b/mm",
    "s/mm": "0.5 ns/mm",
    "A": "0.1 A",
    "K": "65 K",
    "mm^2*K/W": "35 mm^2*K/W",
    "flop": "512 flop",
    "": "8",
}
"""A well-formed quantity for every unit of the vocabulary, shown in messages."""

_DIGITS = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?(?![0-9.])"
_NUMBER = re.compile(rf"({_DIGITS})\s*(.*)$", re.DOTALL)
_UNIT = re.compile(r"(?:[A-Za-zµμ]++(?:(?:\^|\*\*)?-?[1-9](?![0-9]))?|[1*/() %]|\*\*(?=-?[1-9](?![0-9])))*$")
_EXPONENT = re.compile(r"(?<=[A-Za-zµμ])(-?[1-9])\b")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]")
_TRAPS = (
    (re.compile(r"[-+]?[0-9][0-9_]*_[0-9_.]*$"), "write the number without underscores"),
    (re.compile(r"[-+]?[0-9]+(?::[0-9]+)+$"), "write one number, not a clock time"),
    (re.compile(r"[-+]?[0-9]{1,3}(?:,[0-9]{3})+"), "write the number without commas"),
    (re.compile(r"[-+]?[0-9]+,[0-9]+"), "write the number with a decimal point"),
    (re.compile(r"0[xob]"), "write the number in decimal"),
    (re.compile(r"(?:yes|no|on|off|y|n)$", re.IGNORECASE), "this is text, not a number"),
)
_MAX_LENGTH = 80


class QuantityError(ValueError):
    """A quantity that cannot be read, or has the wrong dimension, or lies outside its range."""


@cache
def _registry() -> Any:
    """The pint registry of the units above; importing pint takes a fifth of a second, so only when needed."""
    import pint

    registry = pint.UnitRegistry(None, non_int_type=Fraction, cache_folder=None)
    for prefix, factor in _PREFIXES.items():
        registry.define(f"_{prefix}- = {factor} = {prefix}-")
    for unit in _UNITS:
        registry.define(unit)
    return registry


@cache
def _root(unit: str) -> tuple[Fraction, str]:
    """Factor to base units, and these as text, of a unit's text. Raises QuantityError if unknown."""
    if unit in KNOWN:
        factor, base = KNOWN[unit]
        return Fraction(factor), base
    return parsed(unit)


def parsed(unit: str) -> tuple[Fraction, str]:
    """The same as pint says. Raises QuantityError if unknown.

    >>> parsed("GB/ms")
    (Fraction(1000000000000, 1), 'B/s')
    """
    text = _EXPONENT.sub(r"**\1", unit.replace("%", " percent ").replace("^", "**"))
    if not _UNIT.match(unit) or unit.count("(") > 4:
        raise QuantityError(f"cannot read the unit {brief(unit)}")
    try:
        registry = _registry()
        factor, base = registry.get_root_units(registry.parse_units(text))
        return Fraction(factor), _dimension(base)
    except Exception:  # pint raises its own, tokenizer and arithmetic errors alike: the text is at fault
        hint = "; a thousand is k, 1024 Ki" if unit.startswith("K") and len(unit) > 1 else ""
        raise QuantityError(f"unknown unit {brief(unit)}{hint}") from None


def _dimension(base: Any) -> str:
    """A product of base units as text, such as `B/s` or `usd s/B`; empty if dimensionless."""

    def product(sign: int) -> str:
        powers = ((str(name), sign * power) for name, power in sorted(dict(base._units).items()))
        return " ".join(name if power == 1 else f"{name}^{power}" for name, power in powers if power > 0)

    above, below = product(1), product(-1)
    if not below:
        return above
    return f"{above or 1}/({below})" if " " in below else f"{above or 1}/{below}"


def _need(unit: str) -> str:
    example = EXAMPLES.get(unit)
    named = f"a quantity in {unit}" if unit else "a plain number"
    return f"{named}, e.g. {example}" if example else named


def _alike(unit: str) -> str:
    """Other units of what a unit measures, for a message; empty if there are none."""
    names = [line.partition(" ")[0] for line in _UNITS]
    others = [name for name in names if unit and name != unit and _root(name)[1] == _root(unit)[1]]
    return f"; also {listed(others)}" if others else ""


def _bare(value: object, unit: str) -> QuantityError:
    return QuantityError(f"{brief(value)} needs a unit, e.g. {EXAMPLES.get(unit, unit)}")


def _split(value: str) -> tuple[Fraction, str]:
    """Number and unit text of a quantity. Raises QuantityError."""
    text = value.strip()
    if len(text) > _MAX_LENGTH:
        raise QuantityError(f"a quantity of {len(text)} characters; at most {_MAX_LENGTH} are read")
    hint = next((hint for trap, hint in _TRAPS if trap.match(text)), "")
    match = _NUMBER.match(text)
    if hint or not match:
        raise QuantityError(f"{brief(value)} is not a number" + (f": {hint}" if hint else ""))
    if _LEADING_ZERO.match(text):
        raise QuantityError(f"{brief(value)}: a leading zero is ambiguous (octal in some YAML); drop it")
    return Fraction(match.group(1)), match.group(2).strip()


@lru_cache(maxsize=10_000)
def _convert(value: str, unit: str) -> float:
    try:
        number, unit_text = _split(value)
        factor, base = _root(unit_text)
    except QuantityError as fault:
        raise QuantityError(f"{fault}; need {_need(unit)}{_alike(unit)}") from None
    if unit and not unit_text:
        raise _bare(value, unit)
    wanted_factor, wanted = _root(unit)
    if base != wanted:
        raise QuantityError(f"{brief(value)} is in {base or 'no unit'}; need {_need(unit)}")
    return _float(number * factor / wanted_factor)


def _float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        raise QuantityError("the number is too large for a float") from None


def quantity(value: object, unit: str) -> float:
    """A number in `unit` (a unit of SI or one of this module's bases; empty if dimensionless).

    `value` is text with a number and a unit, or, where no unit is needed, a number. Raises QuantityError for any
    other type, an unreadable number or unit, a missing or wrong unit, and numbers that are not finite.
    """
    if isinstance(value, str):
        return _convert(value, unit)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuantityError(f"found {'nothing' if value is None else brief(value)}; need {_need(unit)}")
    if unit:
        raise _bare(value, unit)
    if not math.isfinite(value):
        raise QuantityError(f"{value} is not a finite number; need {_need(unit)}")
    return float(value)


_NAMES = re.compile(r"\w+")
_JOINT = r"[*/() ^0-9-]"
"""What joins units."""


@cache
def spelled(unit: str) -> str:
    """A pattern of the texts that may be a quantity in a unit: those whose unit is one word of its dimension, and all
    whose unit is made of several words that are known, whatever these come to.

    >>> pattern = re.compile(spelled("B/s"))
    >>> [bool(pattern.match(text)) for text in ("3.35 TB/s", "8 bps", "100 GB", "100", "1 GX/s")]
    [True, True, False, False, False]
    """
    names = list(dict.fromkeys(name for line in _UNITS for name in _NAMES.findall(line) if _is_unit(name)))
    words = rf"(?:{'|'.join(_PREFIXES)})?(?:{'|'.join(names)})"
    alike = [name for name in names if _root(name)[1] == _root(unit)[1]]
    single = rf"(?:{'|'.join(_PREFIXES)})?(?:{'|'.join(alike)})" if alike else ""
    compound = rf"(?=\S.*{_JOINT})(?:{words}|%|{_JOINT})+"
    plain = "" if unit else "|%?"
    return rf"^\s*{_DIGITS}\s*(?:{single}|{compound}{plain})\s*$"


def _is_unit(name: str) -> bool:
    try:
        return bool(_root(name))
    except QuantityError:
        return False


def si(value: object) -> tuple[float, str]:
    """A number or quantity of any dimension, as a number and its SI unit. Raises QuantityError."""
    if not isinstance(value, str):
        return quantity(value, ""), ""
    number, unit_text = _split(value)
    factor, base = _root(unit_text)
    return _float(number * factor), base


def attribute_value(value: object, attribute: Attribute) -> float:
    """A number of the vocabulary, in its unit. Raises QuantityError also for numbers that are not possible."""
    return in_range(quantity(value, attribute.unit), attribute, value)


def in_range(number: float, attribute: Attribute, value: object) -> float:
    """The number, if it is possible; `value` is what a message quotes. Raises QuantityError."""
    if not attribute.allows(number):
        share = attribute.unit == "" and attribute.range[1] == 1.0 and not attribute.integer
        percent = f"; write {number:g} % for a percentage" if share and 1.0 < number <= 100.0 else ""
        raise QuantityError(f"found {brief(value)}; {attribute.about} must be {possible(attribute)}{percent}")
    return number


ENDINGS = {ending(unit): unit for unit in BY_UNIT if unit != "flop/s" and not unit.startswith("1/")}
"""Units by the endings of the columns that have them, but for `_flops`, which is also of counts, and for rates of what
has no unit."""


def ending_unit(column: str) -> str | None:
    """The unit that the name of a column ends with; None if it ends with none, or per unit with one of another.

    >>> ending_unit("water_cost_usd_per_s"), ending_unit("samples_per_s"), ending_unit("shape")
    ('usd/s', None, None)
    """
    longest = max((each for each in ENDINGS if column.endswith(each)), key=len, default="")
    return None if column.removesuffix(longest).endswith("_per") else ENDINGS.get(longest)


def check_unit(column: str, unit: str) -> None:
    """Raise QuantityError for the unit of a column if it is unknown, or not what the name of the column ends with."""
    said = ending_unit(column)
    hint = f"; its name says {said}" if said else ""
    try:
        found = si(f"1 {unit}")
    except QuantityError as fault:
        raise QuantityError(f"{column}: {fault}{hint}") from None
    if said and found != si(f"1 {said}"):
        raise QuantityError(f"{column} is in {brief(unit)}{hint}")
