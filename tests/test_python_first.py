"""What somebody does who writes Python: studies from data, objects that show what they are, names that are found."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sweeper
from sweeper.errors import Misuse, UsageFault
from tests.places import ROOT

STUDY = "table6_sn10"
FILE = ROOT / "specs" / "studies" / f"{STUDY}.yaml"


def said() -> dict[str, Any]:
    """A study as plain data."""
    plain: dict[str, Any] = sweeper.load(STUDY).written.plain()
    return plain


@pytest.mark.parametrize(
    "source", [FILE, str(FILE), STUDY, FILE.read_text(), said()], ids=lambda kind: type(kind).__name__
)
def test_a_study_is_the_same_wherever_it_comes_from(source: Any) -> None:
    assert sweeper.plan(source).hash == sweeper.plan(FILE).hash


def test_a_study_holds_what_numpy_and_polars_give() -> None:
    axes = said()["axes"]
    plain, given, series = (
        {**said(), "axes": {**axes, "chips": chips}} for chips in ([8], np.array([8]), pl.Series([np.int32(8)]))
    )
    assert sweeper.plan(plain).hash == sweeper.plan(given).hash == sweeper.plan(series).hash
    named = {**plain, "study": np.str_(STUDY), "axes": {**axes, "chips": np.int64(8)}}
    assert sweeper.plan(named).hash == sweeper.plan(FILE).hash


def test_text_stays_text_whatever_it_looks_like() -> None:
    for word in ("1e3", "0x10", "~", "null", "yes", "a: b", "*x", "- a", "é", '"'):
        assert sweeper.load({**said(), "title": word}).title == word


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        (
            {**said(), "axes": {**said()["axes"], "chip": "sn1"}},
            sweeper.SpecError,
            r"axes\.chip: unknown chip 'sn1'.*sn10",
        ),
        ({"study": object()}, Misuse, "is object"),
        ({1j: 2}, Misuse, "keys must be"),
        (7, Misuse, "not int"),
        ("placements", sweeper.SpecError, "a study of placements, which the command line takes"),
        ("table6_sn1", UsageFault, "did you mean 'table6_sn10'"),
        ("study: a\naxes:\n  chip: sn1\n", sweeper.SpecError, r"<study>:3:9: axes\.chip"),
        (Path("nowhere.yaml"), sweeper.SpecError, "cannot read the file"),
    ],
)
def test_bad_studies_get_one_clear_error(source: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        sweeper.plan(source)


def test_objects_print_as_what_they_are(tmp_path: Path) -> None:
    plan = sweeper.plan("dse80")
    assert repr(plan) == "<Plan study: dse80, points: 148,080, systems: 320, chunks: 11, columns: 50>"
    assert repr(plan.study).startswith(
        "<Study study: dse80, title: DFModel's 80 systems under full physics, points: 148,080"
    )
    named = sweeper.plan({**said(), "title": "<b>", "study": "a"})
    assert "<td>&lt;b&gt;</td>" in named.study._repr_html_()
    result = sweeper.run(named, tmp_path, quiet=True)
    assert f"directory: {tmp_path}" in repr(result) and "failed chunks: 0" in repr(result)


def test_every_public_name_is_listed_and_there() -> None:
    assert dir(sweeper) == sorted(sweeper.__all__)
    assert all(getattr(sweeper, name).__doc__ for name in sweeper.__all__)


def test_the_command_line_is_a_module_too() -> None:
    command = [sys.executable, "-m", "sweeper", "plan", STUDY]
    assert "4 points" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert (Path(sweeper.__file__).parent / "py.typed").exists()
