"""The benchmark command at tiny sizes: every part runs, prints what it promises, and compares equals. Never a time."""

import json
import math
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import report as pages
from benchmarks.__main__ import PARTS, main
from benchmarks.optimum import main as compare_searches
from benchmarks.table import Row, Target
from tests.places import ROOT

FIGURES = {
    "search": ("dse80, mode best", "dse80_dense, mode best", "llama, mode best", "servers, mode best", "Pareto front"),
    "factored": ("point by point / factored", "same bits"),
    "kernel": ("C++",),
    "ray": ("1 worker: overhead", "2 workers: speed-up", "start and end"),
    "parquet": ("mode all: writing a row", "mode best: writing a row"),
    "crowd": ("a call, of", "busy", "part of a processor", "speed-up over 1"),
    "peer": ("/ plain Python script", "/ NumPy over points", "/ NumPy over axes", "relative difference", "mode best"),
    "peer_cpp": ("/ C++ over axes", "largest relative difference"),
    "peer_jax": ("/ JAX, float64", "/ JAX, float32", "largest relative difference"),
    "start": ("--help", "plan dse80", "10^12 points"),
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
    "placement": (
        "simulator",
        "judged by our network",
        "inside the annealer",
        "rank of the estimate",
        "learned shares",
    ),
}
"""Words that some row of each part must contain."""

AGREEMENTS = {
    "factored": "same bits",
    "peer": "largest relative difference",
    "peer_cpp": "largest relative difference",
    "peer_jax": "largest relative difference",
    "calculon": "largest relative difference",
    "mapping": "relative difference of times",
    "package": ": difference from",
}
"""Parts that compare ours with something else, and words of the rows that say whether both gave the same results."""

LONG = dict.fromkeys(
    (
        "placement",
        "search",
        "factored",
        "crowd",
        "mapping",
        "ray",
        "pathfinding",
        "kernel",
        "peer_jax",
        "parquet",
        "package",
    ),
    pytest.mark.nightly,
)
"""Parts that take half a minute and more even when quick."""
NEEDS = {"kernel": "g++", "peer_cpp": "g++", "peer_jax": "jax"}
"""Programs and packages without which a part says that it cannot be measured."""

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


def refused(part: str) -> str:
    """What a part says that cannot be measured."""
    result = CliRunner().invoke(main, ["--quick", "--only", part], catch_exceptions=False)
    assert result.exit_code == 1
    return result.stderr


@pytest.mark.parametrize("part", NEEDS)
def test_a_part_that_cannot_be_measured_fails(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("benchmarks.peer_jax.find_spec", lambda name: None)
    assert refused(part).startswith(f"{part} could not be measured: there is no {NEEDS[part]} ")


@pytest.mark.slow
@pytest.mark.parametrize("part", [pytest.param(part, marks=LONG.get(part, ())) for part in PARTS])
def test_a_part_gives_its_figures(part: str, tmp_path: Path) -> None:
    tool = NEEDS.get(part)
    if tool is not None and shutil.which(tool) is None and find_spec(tool) is None:
        assert f"no {tool}" in refused(part)
        return
    rows = measured(part, tmp_path)
    for words in FIGURES[part]:
        assert any(words in what for what in rows), f"no figure for {words!r}"
    for row in rows.values():
        assert row.keys() == {"what", "value", "unit", "target", "met", "note"}
        assert (row["met"] is None) == (row["target"] is None or isinstance(row["value"], str))
    rates = [row["value"] for row in rows.values() if row["unit"].endswith("/s")]
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
    assert Row("rate", 2.0).met is None


def test_pages_show_the_figures_of_the_last_run_of_all_parts() -> None:
    report = json.loads(pages.FIGURES.read_text(encoding="utf-8"))
    assert list(report["parts"]) == list(PARTS)
    assert (report["quick"], report["failures"]) == (False, [])
    for name, figures in pages.PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        assert pages.written(text, figures(report)) == text, f"run: python -m benchmarks.report ({name})"
        assert figures(report) in text


@pytest.mark.nightly
def test_searches_are_compared_with_another_optimiser() -> None:
    result = CliRunner().invoke(compare_searches, ["--quick"], catch_exceptions=False)
    assert result.exit_code == 0
    assert all(words in result.stdout for words in ("seeds / best known", "a search", "whose gap holds"))
