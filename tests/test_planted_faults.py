"""The lists of planted faults fit the code, and the tool that plants them tells a kill from a crash."""

import pytest

from tests.mutate import BROKEN, KILLED, SURVIVED, Checkout, Run, copied, passing, share, wrongly_excused
from tests.places import ROOT
from tests.support.faults import Fault, misfits, read_fault, read_faults

LEAST = 330
"""So many faults are planted at least."""


def test_every_fault_fits_the_code() -> None:
    faults = read_faults()
    assert misfits(faults) == []
    assert sum(not fault.equivalent for fault in faults) >= LEAST


def fault(**changes: object) -> Fault:
    """A fault of the sound function below, or something near to it."""
    entry = {"id": "sum", "file": "sound.py", "find": "a + b", "replace": "a - b", "test": "test_sound.py::test_sum"}
    return read_fault("room", {**entry, "about": "the sum is a difference", **changes})


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A project of one function and its test."""
    root = tmp_path_factory.mktemp("project")
    (root / "conftest.py").write_text(
        "from hypothesis import settings\n\nsettings.register_profile('faults')\n"
        "settings.register_profile('faults_seeded')\n"
    )
    (root / "sound.py").write_text("def add(a, b):\n    return a + b\n")
    (root / "test_sound.py").write_text("from sound import add\n\ndef test_sum():\n    assert add(1, 2) == 3\n")
    return Checkout(root, root / "cache")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"find": "a * b"}, "the text to replace occurs 0 times"),
        ({"find": "a"}, "the text to replace occurs 3 times"),
        ({"file": "absent.py"}, "occurs 0 times in absent.py"),
        ({"replace": "a + b"}, "nothing is replaced"),
        ({"test": ["test_sound.py::test_sum", "test_sound.py::test_other[1]"]}, "no test test_sound.py::test_other[1]"),
        ({"test": "absent.py::test_sum"}, "no test absent.py::test_sum"),
    ],
)
def test_a_fault_that_does_not_fit_is_told(changes: dict, message: str, checkout: Checkout) -> None:
    assert misfits([fault()], checkout.root) == []
    (found,) = misfits([fault(**changes)], checkout.root)
    assert message in found


def test_two_faults_of_one_name_are_told(checkout: Checkout) -> None:
    assert misfits([fault(), fault()], checkout.root) == ["sum: 2 faults of this name"]


def test_an_entry_has_its_fields() -> None:
    with pytest.raises(ValueError, match="sum: missing or unknown: equivalence"):
        fault(equivalence="a misspelt field")
    with pytest.raises(ValueError, match="missing or unknown: about, file, find, replace, test"):
        read_fault("room", {"id": "sum"})


@pytest.mark.parametrize(
    ("replace", "verdict"),
    [
        ("a - b", KILLED),
        ("b + a", SURVIVED),
        ("a + b +", BROKEN),  # a syntax error: the test cannot be collected
    ],
)
def test_only_a_failed_test_kills(replace: str, verdict: str, checkout: Checkout) -> None:
    text = (checkout.root / "sound.py").read_text()
    with checkout.planted(fault(replace=replace)):
        run = checkout.run(fault().tests, True, None, 60.0)
    assert run.verdict == verdict
    assert run.failed == (("test_sound.py::test_sum",) if verdict == KILLED else ())
    assert (checkout.root / "sound.py").read_text() == text


RANDOM_TEST = """
from hypothesis import given, strategies as st
from sound import add

@given(st.integers(1, 9))
def test_growth(b):
    assert add(1, b) > 1
"""


@pytest.mark.nightly
def test_a_fault_that_no_random_example_is_needed_for_is_tried_once(checkout: Checkout) -> None:
    (checkout.root / "test_random.py").write_text(RANDOM_TEST)
    both = ("test_sound.py::test_sum", "test_random.py::test_growth")
    assert passing(checkout, [both], True, 60.0, 0) == {both}
    with checkout.planted(fault()):
        assert [at for at, _ in checkout.runs(both, True, range(2), 60.0)] == [" every seed"]
        assert passing(checkout, [both], True, 60.0, 0) == set()
        random = list(checkout.runs(both[1:], True, range(2), 60.0))
    assert [(at, run.verdict) for at, run in random] == [(" seed 0", KILLED), (" seed 1", KILLED)]


def test_what_does_not_end_is_no_kill(checkout: Checkout) -> None:
    assert checkout.run(fault().tests, True, None, 0.001).verdict == BROKEN


def test_the_share_counts_what_dies_in_every_run() -> None:
    faults = [fault(id="dies"), fault(id="dies_once"), fault(id="same", equivalent="b + a is a + b")]
    dead, alive = Run(KILLED, ("t",), 1.0), Run(SURVIVED, (), 1.0)
    runs = {"dies": [dead, dead], "dies_once": [dead, alive], "same": [alive, alive]}
    assert share(faults, runs) == 0.5
    assert wrongly_excused(faults, runs) == []
    assert wrongly_excused(faults, {**runs, "same": [alive, dead]}) == ["same"]


def test_the_copy_is_this_checkout() -> None:
    with copied() as checkout:
        assert (checkout.root / "kernels" / "equation.py").read_text() == (ROOT / "kernels" / "equation.py").read_text()
