"""Efficiency curves of a calibration: steps of work and share, of each engine, down to the least."""

from pathlib import Path

import numpy as np
import pytest

from sweeper.errors import SpecError
from sweeper.kernels.calculon.system import CURVE_STEPS, Curves
from sweeper.library.curves import curve_source, read_curves
from sweeper.library.library import Library

CURVES = """\
stepped:
  source: a table
  grade: measured
  efficiency_curves:
    matrix: [[2 Gflop, 0.9], [1 Mflop, 0.5], [0 flop, 0.1]]
    memory: [[1 MB, 0.8], [0 B, 0.2]]
plain: {source: s, grade: assumed}
"""


def library(root: Path, text: str = CURVES) -> Library:
    (root / "calibrations").mkdir()
    (root / "calibrations" / "mine.yaml").write_text(text)
    return Library.load([root])


def test_a_curve_is_that_of_its_engine_and_its_last_share_holds_below(tmp_path: Path) -> None:
    curves = read_curves(library(tmp_path).find("calibration", "stepped"))
    by_name = dict(zip(Curves._fields, curves, strict=True))
    rest = CURVE_STEPS - 3
    assert by_name["matrix"].tolist() == [[2e9, 0.9], [1e6, 0.5], [0.0, 0.1]] + [[0.0, 0.1]] * rest
    assert by_name["memory"].tolist() == [[1e6, 0.8], [0.0, 0.2]] + [[0.0, 0.2]] * (rest + 1)
    assert by_name["vector"].tolist() == [[0.0, 1.0]] * CURVE_STEPS


def test_without_curves_all_is_attained(tmp_path: Path) -> None:
    plain = library(tmp_path).find("calibration", "plain")
    assert np.array_equal(read_curves(plain)[:, :, 1], np.ones((len(Curves._fields), CURVE_STEPS)))
    assert curve_source(plain) == ("default", "assumed")


def test_curves_have_the_source_of_their_entry(tmp_path: Path) -> None:
    assert curve_source(library(tmp_path).find("calibration", "stepped")) == ("a table", "measured")


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("[[1 flop, 0.5]]", "must descend to 0"),
        ("[[0 flop, 0.5], [1 flop, 0.9]]", "must descend to 0"),
        ("[[1 flop, 0.9], [1 flop, 0.8], [0 flop, 0.5]]", "must descend to 0"),
        ("[[0 flop, 1.5]]", "from 1e-12 to 1"),
        ("[[0 B, 0.5]]", "need a quantity in flop"),
        ("[[0 flop]]", "found 1 values"),
    ],
)
def test_a_curve_that_is_none_is_one_clear_message(tmp_path: Path, steps: str, message: str) -> None:
    text = f"odd:\n  source: s\n  grade: assumed\n  efficiency_curves: {{matrix: {steps}}}\n"
    with pytest.raises(SpecError, match=message):
        read_curves(library(tmp_path, text).find("calibration", "odd"))
