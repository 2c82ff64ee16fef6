"""The benchmark command at tiny sizes: every part runs, prints what it promises, and compares equals. Never a time."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import PARTS, main
from benchmarks.table import Row, Target

FIGURES = {
    "search": ("dse80, mode best", "dse80_dense, mode best"),
    "factored": ("point by point / factored", "same bits"),
    "kernel": ("C++",),
    "ray": ("1 worker: overhead", "2 workers: speed-up", "start and end"),
    "parquet": ("mode all: writing a row", "mode best: writing a row"),
    "peer": ("plain Python script", "largest relative difference"),
    "calculon": ("whole search, this process", "/ Calculon", "/ plain Python", "100 best"),
    "mapping": ("published / ours", "HiGHS / ours", "relative difference of times", "kernels, ", "a mapping per point"),
    "package": ("twin / ours", "closed form in plain Python / ours", "dies per wafer", "drawing", "mode bands"),
    "pathfinding": (
        " starts",
        "/ recipe",
        "/ global",
        "numbered and cut",
        "mode best",
        "mode feasible",
        "chips generated",
    ),
}
"""Words that some row of each part must contain."""

AGREEMENTS = {
    "factored": "same bits",
    "peer": "largest relative difference",
    "calculon": "largest relative difference",
    "mapping": "relative difference of times",
    "package": ": difference from",
}
"""Parts that compare ours with something else, and words of the rows that say whether both gave the same results."""

SAME = 1e-12
"""Relative difference of two programs that do the same sums."""


def measured(part: str, directory: Path) -> dict[str, Any]:
    """The report of one part, as `--json` writes it."""
    path = directory / "report.json"
    result = CliRunner().invoke(main, ["--quick", "--only", part, "--json", str(path)], catch_exceptions=False)
    assert result.exit_code == 0
    report = json.loads(path.read_text())
    assert report["machine"]["numba"] in result.stdout
    assert list(report["parts"]) == [part]
    rows = report["parts"][part]["rows"]
    assert all(row["what"] in result.stdout for row in rows)
    return {row["what"]: row for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_a_part_gives_its_figures(part: str, tmp_path: Path) -> None:
    rows = measured(part, tmp_path)
    for words in FIGURES[part]:
        assert any(words in what for what in rows), f"no figure for {words!r}"
    for row in rows.values():
        assert row.keys() == {"what", "value", "unit", "target", "met", "note"}
        assert (row["met"] is None) == (row["target"] is None or isinstance(row["value"], str))
    rates = [row["value"] for row in rows.values() if row["unit"].endswith("/s") and row["value"] != "skipped"]
    assert all(math.isfinite(rate) and rate > 0.0 for rate in rates)
    compared = [row for what, row in rows.items() if AGREEMENTS.get(part, "nothing") in what]
    assert bool(compared) == (part in AGREEMENTS)
    assert [row for row in compared if not agrees(row)] == []


def agrees(row: dict[str, Any]) -> bool:
    """Whether a row says that two programs gave the same results: in bits, within its target, or within rounding."""
    return row["value"] == "yes" if isinstance(row["value"], str) else row["met"] or row["value"] < SAME


def test_programs_that_differ_do_not_agree() -> None:
    """A comparison of speed with what computes something else would say nothing."""
    values: list[float | str] = ["yes", "NO", 0.0, 1e-11, 1e-9, 1e-3]
    bound = Target(1e-8, at_least=False)
    assert [agrees(Row("x", value).plain()) for value in values] == [True, False, True, False, False, False]
    assert [agrees(Row("x", value, target=bound).plain()) for value in values[2:]] == [True, True, True, False]


def test_a_target_bounds_from_one_side() -> None:
    assert Row("rate", 2.0, target=Target(1.5, at_least=True)).met is True
    assert Row("overhead", 2.0, target=Target(1.5, at_least=False)).met is False
    assert Row("rate", "skipped", target=Target(1.5, at_least=True)).met is None
    assert Row("rate", 2.0).met is None
