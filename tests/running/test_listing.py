"""What is read of a run is what was committed: whatever else lies there is named, and nothing is read."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import sweeper
from sweeper.errors import NoDataset, OutputConflict
from sweeper.running.execution import run
from sweeper.running.storage.folders import LocalFolder, StoredFile
from sweeper.running.storage.listing import parts, status
from sweeper.running.storage.resolved import RESOLVED
from sweeper.running.storage.store import MANIFEST, SUCCESS
from sweeper.views.datasets import columns
from sweeper.views.queries import ask
from tests.support.fake_plan import FakePlan, dataset

PLAN = FakePlan(chunks=10)
READERS: dict[str, Callable[[Path], object]] = {
    "scan": sweeper.scan,
    "unfinished too": lambda run: sweeper.scan(run, partial=True),
    "columns": columns,
    "units": sweeper.units,
    "query": lambda run: ask(run, "SELECT COUNT(*) FROM data"),
    "status": status,
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return Path(run(PLAN, tmp_path, quiet=True).directory)


def part(directory: Path, chunk: int) -> Path:
    return directory / "data" / f"part-{chunk:08d}.parquet"


def delete(file: Path, draw: random.Random) -> Path:
    file.unlink()
    return file


def add(file: Path, draw: random.Random) -> Path:
    names = ("part-00000010.parquet", "part-00000003 (1).parquet", "part-3.parquet", "rows.parquet", "notes.txt")
    shutil.copy2(file, new := file.with_name(draw.choice(names)))
    return new


def copy_over(file: Path, draw: random.Random) -> Path:
    other = part(file.parents[1], draw.choice([chunk for chunk in range(10) if chunk != int(file.stem[-8:])]))
    (shutil.copy2 if draw.random() < 0.5 else shutil.copy)(other, file)
    return file


def truncate(file: Path, draw: random.Random) -> Path:
    os.truncate(file, draw.randrange(file.stat().st_size))
    return file


def flip(file: Path, draw: random.Random) -> Path:
    """A bit, also where the file then looks as old as before."""
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    data = bytearray(file.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    file.write_bytes(data)
    if draw.random() < 0.5:
        os.utime(file, ns=times)
    return file


def grow(file: Path, draw: random.Random) -> Path:
    with open(file, "ab") as stream:
        stream.write(b"more")
    return file


FAULTS = (delete, add, copy_over, truncate, flip, grow)


def test_of_120_planted_faults_none_is_read(directory: Path, tmp_path: Path) -> None:
    """By every reader, with the name of the file; a run of the study then mends all but what is too many."""
    undisturbed, kept = dataset(directory), tmp_path / "kept"
    shutil.copytree(directory, kept)
    for seed in range(120):
        draw = random.Random(seed)
        fault = FAULTS[seed % len(FAULTS)]
        file = fault(part(directory, draw.randrange(10)), draw)
        for name, reader in READERS.items():
            with pytest.raises(NoDataset) as caught:
                reader(directory)
            assert file.name in str(caught.value), (fault.__name__, name)
            assert caught.value.exit_code == 3
        if fault is add:
            with pytest.raises(OutputConflict, match="is no part of this study"):
                run(PLAN, tmp_path, quiet=True)
            file.unlink()
        run(PLAN, tmp_path, quiet=True)
        assert dataset(directory) == undisturbed
        for reader in READERS.values():
            reader(directory)


def test_what_is_wrong_is_said_in_words(directory: Path) -> None:
    part(directory, 0).unlink()
    os.truncate(part(directory, 1), 5)
    flip(part(directory, 2), random.Random(0))
    with pytest.raises(NoDataset) as caught:
        sweeper.scan(directory)
    again = "(run the study again to restore what is lost)"
    assert f"data/part-00000000.parquet is missing {again}" in str(caught.value)
    assert "data/part-00000001.parquet has 5 bytes instead of 1" in str(caught.value)
    assert f"data/part-00000002.parquet has another content {again}" in str(caught.value)


@pytest.mark.parametrize("file", [MANIFEST, SUCCESS])
def test_a_list_that_nobody_vouches_for_is_refused(directory: Path, file: str) -> None:
    text = (directory / file).read_text()
    for damaged in ("", "{}", text.replace("1", "2", 1)):
        (directory / file).write_text(damaged)
        for reader in READERS.values():
            with pytest.raises(NoDataset, match=r"manifest\.json does not belong to the _SUCCESS"):
                reader(directory)
    run(PLAN, directory.parent, quiet=True)
    assert (directory / file).read_text() == text


def test_a_copied_run_is_read_by_its_content(directory: Path, tmp_path: Path) -> None:
    copied = tmp_path / "elsewhere" / directory.name
    shutil.copytree(directory, copied)
    (copied / SUCCESS).touch()
    assert sweeper.scan(copied).select(pl.len()).collect().item() == PLAN.point_count
    flip(part(copied, 4), random.Random(1))
    with pytest.raises(NoDataset, match=r"part-00000004\.parquet has another content"):
        sweeper.scan(copied)


def test_of_an_unfinished_run_what_is_committed_is_read(directory: Path) -> None:
    """Parts that no receipt names are not committed yet; files that no chunk can have are refused."""
    (directory / SUCCESS).unlink()
    for receipts in (directory / "receipts").iterdir():
        receipts.write_text("".join(receipts.read_text().splitlines(keepends=True)[:4]))
    assert [each.chunk for each in parts(directory, partial=True)] == [0, 1, 2, 3]
    assert sweeper.scan(directory, partial=True).select(pl.len()).collect().item() == 4 * PLAN.size
    assert status(directory)["committed_chunks"] == 4
    with pytest.raises(NoDataset, match="unfinished"):
        sweeper.scan(directory)
    shutil.copy(part(directory, 0), part(directory, 10))
    with pytest.raises(NoDataset, match=r"part-00000010\.parquet is no part of the dataset"):
        sweeper.scan(directory, partial=True)


def test_a_part_that_is_committed_meanwhile_is_not_missing(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run goes on while somebody asks how far it is: between any two looks at the disk."""
    (directory / SUCCESS).unlink()
    (receipts,) = (directory / "receipts").iterdir()
    lines, late = receipts.read_text().splitlines(keepends=True), part(directory, 9)
    receipts.write_text("".join(lines[:9]))
    content = late.read_bytes()
    late.unlink()
    looked = LocalFolder.entries

    def entries(folder: LocalFolder, path: str) -> dict[str, StoredFile]:
        found = looked(folder, path)
        if path == "data":
            late.write_bytes(content)
            receipts.write_text("".join(lines))
        return found

    monkeypatch.setattr(LocalFolder, "entries", entries)
    assert status(directory)["committed_chunks"] == 9


def test_a_file_that_vanishes_during_a_listing_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "stays").touch()
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert list(LocalFolder(tmp_path).entries("")) == ["stays"]
    assert LocalFolder(tmp_path / "nowhere").entries("") == {}


def test_where_nothing_is_committed_nothing_is_read(tmp_path: Path) -> None:
    with pytest.raises(NoDataset, match=RESOLVED):
        sweeper.scan(tmp_path, partial=True)
    with pytest.raises(NoDataset, match="is no run directory"):
        sweeper.scan(tmp_path / "nowhere")
    directory = Path(run(FakePlan(fail=tuple(range(6))), tmp_path, quiet=True).directory)
    with pytest.raises(NoDataset, match="holds no committed part yet"):
        sweeper.scan(directory, partial=True)
    assert status(directory)["committed_chunks"] == 0
