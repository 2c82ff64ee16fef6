"""No start is silent: what takes long is named, what does not is not."""

import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeper.cli import main
from sweeper.running import progress
from sweeper.running.execution import run
from sweeper.running.progress import Progress, phase
from tests.support.fake_plan import FakePlan


class Told(Progress):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


def test_what_takes_long_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0.02)
    told = Told()
    with phase("resting", told.note):
        time.sleep(0.3)
    assert told.notes == ["resting ..."]


def test_what_does_not_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0.2)
    told = Told()
    with pytest.raises(ZeroDivisionError), phase("dividing", told.note):
        _ = 1 // 0
    time.sleep(0.4)  # Long enough for a timer that was not stopped.
    assert told.notes == []


def test_a_run_names_its_first_chunks_until_one_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0.05)
    told = Told()
    run(FakePlan(chunks=3, pause=0.3), tmp_path, progress=told)
    assert told.notes == ["workers load and compute their first chunks ..."]


def test_planning_is_named_on_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0.0)
    ran = CliRunner().invoke(main, ["plan", "table6_sn10", "--json"])
    assert ran.exit_code == 0 and "planning table6_sn10 ..." in ran.stderr and "planning" not in ran.stdout
