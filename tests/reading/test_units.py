"""Quantities: exact conversion, and a clear refusal of everything else."""

import math
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.models import EQUATIONS
from sweeper.library.library import builtin_specs
from sweeper.reading.known_units import KNOWN
from sweeper.reading.units import EXAMPLES, QuantityError, attribute_value, check_unit, parsed, quantity, si
from sweeper.words.attributes import Attribute
from sweeper.words.numbers import NUMBERS
from sweeper.words.system import ATTRIBUTES


@pytest.mark.parametrize(
    ("text", "unit", "number"),
    [
        ("3.35 TB/s", "B/s", 3.35e12),
        ("80 GB", "B", 80e9),
        ("80 GiB", "B", 80 * 2**30),
        ("1 KiB", "B", 1024),
        ("826 mm2", "m^2", 826e-6),
        ("826 mm^2", "m^2", 826e-6),
        ("2 usd/(GB/s)", "usd/(B/s)", 2e-9),
        ("0.052 J/GB", "J/B", 5.2e-11),
        ("5 pJ/b", "J/B", 4e-11),
        ("1.837 GHz", "Hz", 1.837e9),
        ("100 ns", "s", 1e-7),
        ("3 µs", "s", 3e-6),
        ("993 Tflop/s", "flop/s", 993e12),
        ("993 TFLOPS", "flop/s", 993e12),
        ("400 Gbit/s", "B/s", 50e9),
        ("400 Gbps", "B/s", 50e9),
        ("5 GB/s/mm", "B/s/m", 5e12),
        ("1 Wh", "J", 3600),
        ("2 min", "s", 120),
        ("1 h", "s", 3600),
        ("1 day", "s", 86400),
        ("1 year", "s", 365 * 86400),
        ("0.5 kWh", "J", 1.8e6),
        ("2 t", "kg", 2000),
        ("3 V", "W/A", 3),
        ("90 %", "", 0.9),
        ("90%", "", 0.9),
        (" 1e3 ", "", 1000),
        ("-5 GB", "B", -5e9),
        (0.9, "", 0.9),
        (8, "", 8),
    ],
)
def test_quantities_become_si(text: object, unit: str, number: float) -> None:
    assert quantity(text, unit) == number


def test_known_units_are_what_pint_says() -> None:
    assert {unit: (Fraction(factor), base) for unit, (factor, base) in KNOWN.items()} == {u: parsed(u) for u in KNOWN}


def test_units_of_the_vocabulary_are_known() -> None:
    assert {attribute.unit for attribute in NUMBERS.values()} <= KNOWN.keys()


def test_a_study_of_the_usual_units_does_not_wait_for_pint() -> None:
    code = "import sys, sweeper, pathlib; sweeper.plan(pathlib.Path(sys.argv[1])); assert 'pint' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, str(builtin_specs() / "studies" / "dse80.yaml")], check=True)


@pytest.mark.parametrize(
    ("text", "unit", "fragment"),
    [
        (5, "B", "needs a unit, e.g. 80 GB"),
        ("5", "B/s", "needs a unit, e.g. 300 GB/s"),
        ("5 GB", "B/s", "is in B; need a quantity in B/s, e.g. 300 GB/s"),
        ("5 GB/s", "", "need a plain number"),
        ("5 XB", "B", "unknown unit 'XB'"),
        ("GB", "B", "is not a number"),
        ("", "", "is not a number"),
        ("fast", "Hz", "is not a number"),
        ("12:30", "", "not a clock time"),
        ("1_000", "", "without underscores"),
        ("1,000 GB", "B", "without commas"),
        ("1,5 GB", "B", "decimal point"),
        ("010", "", "leading zero"),
        ("0x10", "", "in decimal"),
        ("no", "", "this is text"),
        ("1.2.3", "", "is not a number"),
        ("nan GB", "B", "is not a number"),
        ("inf", "", "is not a number"),
        (float("nan"), "", "not a finite number"),
        (float("inf"), "", "not a finite number"),
        ("1e400 GB", "B", "too large"),
        ("1e999999999 GB", "B", "cannot read"),
        ("1 m**99", "m", "cannot read the unit"),
        ("1 m**9**9**9", "m", "cannot read the unit"),
        ("1 __import__('os')", "B", "cannot read the unit"),
        ("1 " + "a" * 60 + "!", "B", "cannot read the unit"),
        ("1 " + "B" * 200, "B", "at most 80"),
        ("5 GB/(s", "B/s", "unknown unit"),
        ("5 (((((B)))))", "B", "cannot read the unit"),
        (None, "", "found nothing"),
        (True, "", "found True"),
        ([1], "", "found [1]"),
    ],
)
def test_other_text_is_refused(text: object, unit: str, fragment: str) -> None:
    with pytest.raises(QuantityError) as caught:
        quantity(text, unit)
    assert fragment in str(caught.value)


def test_every_unit_of_the_vocabulary_has_an_example_that_is_read() -> None:
    attributes = [*NUMBERS.values(), *(a for kind in ATTRIBUTES.values() for a in kind.values())]
    for attribute in attributes:
        assert attribute_value(EXAMPLES[attribute.unit], replace(attribute, limits=(1e-30, 1e30), default=None)) > 0


def test_numbers_outside_their_range_are_refused() -> None:
    count = Attribute("", "copies", limits=(1.0, 1e6), integer=True)
    share = Attribute("", "share", limits=(0.1, 1.0), positive=False)
    assert attribute_value("1e3", count) == 1000
    assert [attribute_value(value, share) for value in (0, 0.5, 1, "100 %")] == [0.0, 0.5, 1.0, 1.0]
    for value, attribute, fragment in [
        (1.5, count, "copies must be a whole number from 1 to 1e6"),
        (0, count, "copies must be a whole number from 1 to 1e6"),
        (-1, share, "share must be 0 or from 0.1 to 1"),
        (1.0001, share, "share must be 0 or from 0.1 to 1"),
    ]:
        with pytest.raises(QuantityError, match=fragment):
            attribute_value(value, attribute)


@pytest.mark.parametrize(
    ("value", "found"),
    [("3 TB/s", (3e12, "B/s")), (4, (4.0, "")), ("2 usd/(GB/s)", (2e-9, "s usd/B")), ("5 mm2", (5e-6, "m^2"))],
)
def test_si_finds_the_unit(value: object, found: tuple[float, str]) -> None:
    assert si(value) == found


@given(st.decimals(min_value=0, max_value=10**6, places=6), st.sampled_from(["k", "M", "G", "T", "m", "u", "n"]))
def test_conversion_is_correctly_rounded(number: object, prefix: str) -> None:
    factor = {"k": 3, "M": 6, "G": 9, "T": 12, "m": -3, "u": -6, "n": -9}[prefix]
    exact = Fraction(str(number)) * Fraction(10) ** factor
    assert quantity(f"{number} {prefix}B/s", "B/s") == float(exact)


@given(st.text(max_size=40), st.sampled_from(sorted(EXAMPLES)))
def test_any_text_is_a_number_or_refused(text: str, unit: str) -> None:
    try:
        number = quantity(text, unit)
    except QuantityError:
        return
    assert isinstance(number, float)
    assert math.isfinite(number)


def test_units_of_our_columns_are_those_of_their_names() -> None:
    for column in {(output.name, output.unit) for equation in EQUATIONS for output in equation.scalars}:
        check_unit(*column)
