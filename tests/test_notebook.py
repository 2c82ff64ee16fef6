"""The notebooks run, those of four kinds of users from begin to end; the first shows what it is about in ten lines."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

NOTEBOOK = ROOT / "docs" / "tutorials" / "notebook.ipynb"
NOTEBOOKS = sorted(NOTEBOOK.parent.glob("*.ipynb"))


def followed(notebook: Path, place: Path) -> list[dict[str, object]]:
    """The cells with code of a notebook, run where its reader has activated this environment."""
    copy = shutil.copy(notebook, place)
    command = [sys.executable, "-m", "pytest", "-q", "--nbmake", "--overwrite", "-p", "no:cacheprovider", copy]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ran = subprocess.run(
        command, cwd=place, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout
    return [cell for cell in json.loads(Path(copy).read_text())["cells"] if cell["cell_type"] == "code"]


SHOWN = [("serve", ["constraint_failed", "mi355x_oam", "uncalibrated"])]
LONG = [
    ("train", ["h100_sxm5_80gb", "bubble_time_s", "16384.0"]),
    ("night", ["unchanged", "checked in", "memory/hbm3_h100/bandwidth 100 %"]),
    ("chip", ["public_n5_from_n7", "core_area_share", "a100, package.memory_stacks 6"]),
]
"""Notebooks, and of all what they show; those that take half a minute and more."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"), [*SHOWN, *(pytest.param(*each, marks=pytest.mark.nightly) for each in LONG)]
)
def test_a_notebook(name: str, words: list[str], tmp_path: Path) -> None:
    told = json.dumps([cell["outputs"] for cell in followed(NOTEBOOK.parent / f"{name}.ipynb", tmp_path)])
    assert [word for word in words if word not in told] == []


@pytest.mark.slow
def test_load_plan_run_explain_and_plot_in_ten_lines(tmp_path: Path) -> None:
    cells = followed(NOTEBOOK, tmp_path)
    lines = [line for cell in cells for line in "".join(cell["source"]).splitlines() if line.strip()]
    assert len(lines) <= 10 and not any("open(" in line or "write" in line for line in lines)
    plan, dataset, explained, picture = ("".join(map(str, shown(cell))) for cell in cells)
    assert "<caption>Plan</caption>" in plan and "time_per_output_token_s" in dataset
    assert "memory_bandwidth_Bps" in explained and "<img " in picture


def shown(cell: dict[str, object]) -> list[object]:
    """What a cell shows."""
    outputs = cell["outputs"]
    assert isinstance(outputs, list)
    return [text for output in outputs for text in output.get("data", {}).values()]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_without_outputs(notebook: Path) -> None:
    assert all(not cell.get("outputs") for cell in json.loads(notebook.read_text())["cells"])
