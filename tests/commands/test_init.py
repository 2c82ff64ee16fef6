"""`sweeper init` writes studies that can be run at once, and overwrites nothing."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import sweeper
from sweeper.cli import main
from sweeper.library.library import starts

KINDS = ["chip", "graph", "package", "serve", "train"]


def test_there_is_a_start_for_each_of_them() -> None:
    assert list(starts()) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_a_start_is_a_commented_study_of_its_name(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["init", kind])
    assert result.exit_code == 0 and result.stdout.startswith(f"{kind}.yaml\n")
    text = Path(f"{kind}.yaml").read_text()
    assert text.count("#") >= 8
    assert sweeper.plan(Path(f"{kind}.yaml")).name == kind
    named = CliRunner().invoke(main, ["init", kind, "mine.yaml"])
    assert named.exit_code == 0
    assert f"{kind}.yaml" not in Path("mine.yaml").read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_the_commands_that_a_start_names_are_commands(kind: str) -> None:
    lines = re.findall(r"^#   sweeper (.+?)(?:\s{2,}.*)?$", starts()[kind].read_text(), re.MULTILINE)
    assert len(lines) >= 2
    for line in lines:
        name, *arguments = re.findall(r'"[^"]*"|\S+', line)
        main.commands[name].make_context(name, [argument.strip('"') for argument in arguments])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["graph", "package", "serve", "train"])
def test_a_start_has_an_answer(kind: str, tmp_path: Path) -> None:
    result = sweeper.run(sweeper.plan(starts()[kind]), out=tmp_path, quiet=True)
    assert result.exit_code == 0
    assert result.feasible


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    there = tmp_path / "study.yaml"
    there.write_text("mine")
    result = CliRunner().invoke(main, ["init", "train", str(there)])
    assert result.exit_code == 2 and "is there already" in result.stderr
    assert there.read_text() == "mine"


def test_a_start_can_be_printed() -> None:
    result = CliRunner().invoke(main, ["init", "serve", "-"])
    assert result.stdout == starts()["serve"].read_text()


def test_an_unknown_kind_is_refused() -> None:
    result = CliRunner().invoke(main, ["init", "trian"])
    assert result.exit_code == 2 and "did you mean 'train'" in result.stderr
