"""Chunks that are evaluated in pieces: the same bytes, resumed inside, and nothing left of the pieces."""

from pathlib import Path
from typing import Any

import pytest

from sweeper.running.chunk import Failure
from sweeper.running.execution import run
from sweeper.running.limits import Limits
from sweeper.running.queue import ChunkQueue
from sweeper.running.storage.listing import parts, read_receipts, status
from sweeper.running.storage.places import folder
from tests.running.test_faults import PATIENCE_S, start, wait_for
from tests.support.fake_plan import FakePlan, Watcher, dataset
from tests.support.fake_ray import receipt

SPLIT = FakePlan(split=4)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return dataset(run(FakePlan(), tmp_path_factory.mktemp("whole"), quiet=True).directory)


def test_pieces_make_the_same_bytes_as_whole_chunks(tmp_path: Path, expected: dict[str, bytes]) -> None:
    for threads in (1, 3):
        result = run(SPLIT, tmp_path / str(threads), threads=threads, quiet=True)
        assert dataset(result.directory) == expected
        assert (result.points, result.computed_chunks) == (SPLIT.point_count, SPLIT.chunks)
        assert list((Path(result.directory) / "pieces").iterdir()) == []
        assert run(SPLIT, tmp_path / str(threads), quiet=True).computed_chunks == 0


def test_pieces_on_ray(ray_cluster: Any, tmp_path: Path, expected: dict[str, bytes]) -> None:
    result = run(SPLIT, tmp_path, backend="ray", workers=3, quiet=True)
    assert dataset(result.directory) == expected
    receipts = read_receipts(folder(result.directory))
    assert len(receipts) == SPLIT.chunks + SPLIT.piece_count


def test_a_chunk_is_resumed_inside(tmp_path: Path, expected: dict[str, bytes]) -> None:
    """Killed after eleven pieces: these are not evaluated again."""
    markers, out = tmp_path / "markers", tmp_path / "out"
    markers.mkdir()
    driver = start(tmp_path, FakePlan(split=4, pause=0.2, hold=2, marker=str(markers)), out, quiet=True)
    wait_for(out, "*/receipts/*")
    wait_for(out, "*/pieces/part-*", 8)
    driver.kill()
    driver.communicate(timeout=PATIENCE_S)
    (directory,) = out.iterdir()
    told = status(directory)
    before = read_receipts(folder(directory))
    chunks = [chunk for chunk in before if chunk < SPLIT.chunks]
    open_ones = [each for each in before.values() if each.chunk >= SPLIT.chunks and each.piece_of not in chunks]
    assert open_ones or chunks
    assert (told["committed_chunks"], told["committed_pieces"]) == (len(chunks), len(open_ones))
    assert told["committed_points"] == SPLIT.size * len(chunks) + sum(each.points for each in open_ones)
    result = run(FakePlan(split=4), out, quiet=True)
    after = read_receipts(folder(directory))
    again = [piece for piece, receipt in before.items() if receipt.at != after[piece].at]
    assert again == []
    assert dataset(result.directory) == expected


def test_points_of_pieces_are_progress_and_are_counted_once(tmp_path: Path) -> None:
    watcher = Watcher()
    run(SPLIT, tmp_path, progress=watcher)
    assert sum(watcher.advances) == SPLIT.point_count
    unfinished = run(FakePlan(split=4, fail=(9,)), tmp_path / "failed", limits=Limits(retries=0), quiet=True)
    assert [str(failure) for failure in unfinished.failed] == [
        "piece 9 of chunk 0: ValueError: piece 9 is cursed (attempts: 1)"
    ]
    assert unfinished.exit_code == 1
    assert unfinished.points == status(unfinished.directory)["committed_points"]
    assert unfinished.points == SPLIT.point_count - SPLIT.chunk_points(9)
    assert [part.chunk for part in parts(unfinished.directory, partial=True)] == [1, 2, 3, 4, 5]


def test_a_lost_piece_is_evaluated_again(tmp_path: Path, expected: dict[str, bytes]) -> None:
    failed = run(FakePlan(split=4, fail=(9,)), tmp_path, limits=Limits(retries=0), quiet=True)
    pieces = sorted((Path(failed.directory) / "pieces").iterdir())
    pieces[0].unlink()
    result = run(SPLIT, tmp_path, quiet=True)
    assert result.computed_chunks == 1
    assert dataset(result.directory) == expected


def test_a_chunk_comes_after_its_last_piece_and_never_after_one_that_is_given_up() -> None:
    pieces = {0: (2, 3), 1: ()}
    work = ChunkQueue([2, 3, 0, 1], Limits(retries=0), lambda chunk: pieces.get(chunk, ()))
    assert [work.take() for _ in range(4)] == [2, 3, 1, None]
    work.done(receipt(3))
    assert work.take() is None
    work.done(receipt(2))
    work.give_back([1])
    assert work.take() == 1
    work = ChunkQueue([2, 3, 0, 1], Limits(retries=0), lambda chunk: pieces.get(chunk, ()))
    assert [work.take() for _ in range(2)] == [2, 3]
    work.done(receipt(3))
    work.done(receipt(2))
    assert [work.take() for _ in range(2)] == [0, 1], "before what was not begun"
    partly = ChunkQueue([3, 0], Limits(retries=0), lambda chunk: pieces.get(chunk, ()))
    assert partly.take() == 3
    partly.done(Failure(3, "cursed"))
    assert partly.take() is None and len(partly) == 0
