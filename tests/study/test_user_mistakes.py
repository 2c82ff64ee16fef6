"""Mistakes that users make: each is one clear message with its place and what to write instead, and writes nothing.

The mistakes stand in `user_mistakes.yaml`; damage of every other kind is in `tests/reading/test_bad_specs.py`.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from sweeper.cli import main

MISTAKES: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("user_mistakes.yaml").read_text())
STARTS = Path(__file__).parents[2] / "specs" / "starts"


def written(mistake: dict[str, Any]) -> dict[str, str]:
    """The files of a mistake by name: the study with its edit, and that of the library."""
    files = dict(mistake.get("library", {}))
    if "start" in mistake:
        study = (STARTS / f"{mistake['start']}.yaml").read_text()
        old = mistake.get("old", "")
        assert study.count(old) == 1 or not old, "the edit is of one place"
        files["study.yaml"] = study.replace(old, mistake["new"]) if old else study
    return files


def place(files: dict[str, str], piece: str) -> str:
    """File and line of a piece of text that stands in one line alone, as messages begin."""
    (found,) = [
        f"{name}:{number}:"
        for name, text in files.items()
        for number, line in enumerate(text.splitlines(), 1)
        if piece in line
    ]
    return found


def test_there_are_enough_of_them() -> None:
    names = [mistake["mistake"] for mistake in MISTAKES]
    assert len(set(names)) == len(names) >= 24


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake["mistake"])
def test_a_mistake_is_told_with_what_to_write_instead(
    mistake: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = written(mistake)
    for name, text in files.items():
        path = Path("lib" if name != "study.yaml" else "", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    before = sorted(path for path in Path().rglob("*") if path.is_file())
    arguments = mistake.get("command", ["run", "STUDY", "--out", "out", "-q"])
    arguments = ["study.yaml" if argument == "STUDY" else argument for argument in arguments]
    result = CliRunner().invoke(main, [*arguments, *(["--library", "lib"] if "library" in mistake else [])])
    assert result.exit_code == mistake.get("exit", 2), result.output
    for fragment in mistake["says"]:
        assert fragment in result.stderr
    if mistake.get("exit", 2) == 2:
        assert result.stdout == ""
        assert sorted(path for path in Path().rglob("*") if path.is_file()) == before
    if "at" in mistake:
        (line,) = result.stderr.splitlines()
        assert place(files, mistake["at"]) in line
        assert len(line) < 400
