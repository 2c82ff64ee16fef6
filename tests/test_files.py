"""What is written for a user is there whole or not at all, and what stands in the way is told with the file."""

import errno
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
import yaml
from click.testing import CliRunner, Result

from sweeper.cli import main
from sweeper.errors import EnvironmentFault
from sweeper.evidence.scoreboard import write_predictions
from sweeper.files import whole, write_whole
from sweeper.views.export import FORMATS, export
from tests.support.nights import write
from tests.timelines.test_timelines import STUDY as STEPS

STUDY = "table6_sn10"


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@contextmanager
def full(room_B: int) -> Iterator[None]:
    """A machine on which no file has room for more bytes; Python, which would keep parts of modules, keeps none."""
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    usual, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room_B, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (usual, most))
        sys.dont_write_bytecode = written


def names(place: Path) -> list[str]:
    return sorted(file.name for file in place.iterdir())


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    write_whole(file, "one")
    with whole(file) as draft:
        draft.write_text("two")
        assert file.read_text() == "one"
    assert file.read_text() == "two" and names(tmp_path) == ["a.txt"]


def test_a_failure_leaves_what_there_was_and_no_draft(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    write_whole(file, "one")
    with full(10), pytest.raises(EnvironmentFault, match=f"^cannot write {file}: File too large$"):
        write_whole(file, "two " * 10)
    with pytest.raises(KeyboardInterrupt), whole(file) as draft:
        draft.write_text("three")
        raise KeyboardInterrupt
    with pytest.raises(ZeroDivisionError), whole(file):
        raise ZeroDivisionError("not for lack of room")
    assert file.read_text() == "one" and names(tmp_path) == ["a.txt"]


def test_a_link_is_followed_and_a_pipe_is_written_itself(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a.txt")
    write_whole(tmp_path / "link", "one")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "a.txt").read_text() == "one"
    reader, writer = os.pipe()
    write_whole(Path(f"/dev/fd/{writer}"), "two")
    os.close(writer)
    with open(reader) as pipe:
        assert pipe.read() == "two"
    write_whole(Path(os.devnull), "three")
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("name", ["none/a.txt", "directory", "file/a.txt", "x" * 300])
def test_where_nothing_can_be_written_the_file_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").write_text("mine")
    before = names(tmp_path)
    with pytest.raises(EnvironmentFault, match=f"^cannot write {tmp_path / name}: [A-Z]"):
        write_whole(tmp_path / name, "one")
    assert names(tmp_path) == before and (tmp_path / "file").read_text() == "mine"


def test_what_is_protected_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is protected from root, so that the system is told to say it."""

    def refused(file: Path, mode: int) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))

    file = tmp_path / "a.txt"
    file.write_text("mine")
    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(EnvironmentFault, match="Permission denied"):
        write_whole(file, "one")
    monkeypatch.undo()
    assert file.read_text() == "mine" and names(tmp_path) == ["a.txt"]


def test_what_cannot_be_read_meanwhile_is_not_said_to_be_unwritable(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    with pytest.raises(FileNotFoundError, match="rows"), whole(tmp_path / "pages" / "a.txt") as draft:
        draft.write_text((tmp_path / "rows.txt").read_text())
    assert names(tmp_path / "pages") == []


def test_who_may_read_a_file_stays_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    file.chmod(0o640)
    write_whole(file, "two")
    assert file.read_text() == "two" and file.stat().st_mode & 0o777 == 0o640


def test_a_file_that_somebody_holds_open_is_not_taken_from_its_holder(tmp_path: Path) -> None:
    """As with `--html /dev/stdout > page.html`, after which more is written there."""
    file = tmp_path / "a.txt"
    with file.open("w") as held:
        write_whole(Path(f"/dev/fd/{held.fileno()}"), "one")
        held.seek(0, os.SEEK_END)
        held.write(" two")
    assert file.read_text() == "one two"


@pytest.mark.parametrize("ending", FORMATS)
def test_an_export_does_not_blame_the_dataset_for_a_full_disk(ending: str, tmp_path: Path) -> None:
    file, rows = tmp_path / f"rows{ending}", pl.LazyFrame({"number": range(20_000)})
    with full(8000), pytest.raises(EnvironmentFault, match=f"^cannot write {file}: File too large$"):
        export(rows, pl.DataFrame({"column": ["number"]}), file)
    assert names(tmp_path) == []


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("results")
    assert call("run", STUDY, "--out", place, "-q").exit_code == 0
    return place


@pytest.mark.parametrize(
    ("command", "file"),
    [
        (("report", STUDY, "--html"), "page.html"),
        (("trace", "steps.yaml", 18, "--out"), "trace.json"),
        (("tornado", STUDY, 3, "--figure"), "tornado.svg"),
        (("cost", "a100", "--figure"), "cost.svg"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_commands_on_a_full_disk(
    command: tuple[object, ...], file: str, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write(out / "studies", {"steps.yaml": yaml.safe_dump(STEPS)}))
    path = tmp_path / file
    asked = (*command, path, *(("--out", out) if command[0] == "report" else ()))
    assert call(*asked).exit_code == 0  # so that all is loaded and compiled
    before = path.read_bytes()
    with full(300):
        result = call(*asked)
    assert result.exit_code == 3, result.output
    assert f"cannot write {path}: File too large" in result.stderr.splitlines()
    assert names(tmp_path) == [file] and path.read_bytes() == before


def test_tables_of_predictions_on_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "scored.csv"
    write_predictions(path, [])
    before = path.read_bytes()
    with full(10), pytest.raises(EnvironmentFault, match=f"^cannot write {path}: File too large$"):
        write_predictions(path, [])
    assert names(tmp_path) == ["scored.csv"] and path.read_bytes() == before


def test_a_study_to_begin_with_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    with full(300):
        result = call("init", "train", path)
    assert (result.exit_code, result.stderr) == (3, f"cannot write {path}: File too large\n")
    assert names(tmp_path) == []
