"""The notebook of the tutorial runs, and shows what it is about, in ten lines."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

NOTEBOOK = ROOT / "docs" / "tutorials" / "notebook.ipynb"


@pytest.mark.slow
def test_load_plan_run_explain_and_plot_in_ten_lines(tmp_path: Path) -> None:
    copy = shutil.copy(NOTEBOOK, tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "--nbmake", "--overwrite", "-p", "no:cacheprovider", copy]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    cells = [cell for cell in json.loads(Path(copy).read_text())["cells"] if cell["cell_type"] == "code"]
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


def test_it_is_kept_without_outputs() -> None:
    assert all(not cell.get("outputs") for cell in json.loads(NOTEBOOK.read_text())["cells"])
