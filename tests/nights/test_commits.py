"""A night says of which commit it is, and `sweeper diff` finds it by that."""

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweeper.cli import main
from sweeper.nights.checkout import commit
from tests.support.nights import SLOW_DDR, SN10, records, write

OLD, NEW = "1f0c2d9" + "0" * 33, "7ab9e04" + "0" * 33


def git(place: Path, *words: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    return subprocess.run(["git", *who, *words], cwd=place, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_is_that_of_the_checkout_of_the_package(tmp_path: Path) -> None:
    home = write(tmp_path / "repository" / "package", {"__init__.py": "", "other.py": ""})
    assert commit(home) == ""
    git(home.parent, "init", "-q")
    assert commit(home) == ""
    git(home.parent, "add", "package/__init__.py")
    git(home.parent, "commit", "-qm", "first")
    git(home.parent, "tag", "v1")
    assert commit(home) == git(home.parent, "rev-parse", "HEAD")
    (home / "__init__.py").write_text("edited = 1")
    assert commit(home) == git(home.parent, "rev-parse", "HEAD") + "-dirty"


def test_a_package_inside_another_repository_has_none(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-qm", "empty", "--allow-empty")
    home = write(tmp_path / "environment" / "package", {"__init__.py": ""})
    assert commit(home) == "" and commit(tmp_path / "nowhere") == ""


def test_nights_are_compared_by_their_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    studies = write(tmp_path / "studies", {"mappings.yaml": SN10})
    library = write(tmp_path / "library", {"memories/mine.yaml": SLOW_DDR})
    out = tmp_path / "out"
    for sha, more in ((OLD, []), (NEW, ["--library", str(library)])):
        monkeypatch.setattr("sweeper.nights.night.commit", lambda sha=sha: sha)
        ran = CliRunner().invoke(main, ["night", str(studies), "--out", str(out), "-q", *more])
        assert ran.exit_code == 0, ran.output
    assert [night["commit"] for night in records(out)] == [OLD, NEW]
    told = CliRunner().invoke(main, ["diff", OLD[:7], NEW[:12], "--out", str(out), "--library", str(library), "--json"])
    assert told.exit_code == 0, told.output
    (difference,) = json.loads(told.stdout)["differences"]
    assert difference["study"] == "mappings"
    assert {change["name"] for change in difference["inputs"] if change["kind"] == "library"} == {
        "memory/ddr4_sn10/bandwidth"
    }
    unknown = CliRunner().invoke(main, ["diff", "abcdef0", NEW[:7], "--out", str(out)])
    assert unknown.exit_code == 2 and "a night and a run cannot be compared" in unknown.output
