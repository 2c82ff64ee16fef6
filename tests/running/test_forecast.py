"""What a dry run says, against what the run then takes; nothing is written."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import sweeper
from sweeper.cli import main
from sweeper.errors import SweeperError
from sweeper.running import forecast as forecasts
from sweeper.running.execution import run
from sweeper.running.forecast import Forecast, forecast, text
from tests.support.fake_plan import FakePlan


def test_nothing_is_written_and_bytes_are_about_right(tmp_path: Path) -> None:
    plan = sweeper.plan("table6_sn10")
    found = forecast(plan, tmp_path / "results")
    assert not (tmp_path / "results").exists()
    done = run(plan, tmp_path / "results", quiet=True)
    written = sum(file.stat().st_size for file in Path(done.directory).glob("data/*"))
    assert (found.points, found.chunks, found.committed) == (4, 1, 0)
    assert found.bytes == pytest.approx(written, rel=0.01)
    assert found.memory_B > 1e7


def test_points_of_tried_chunks_stand_for_all(tmp_path: Path) -> None:
    plan = FakePlan(chunks=40, pause=0.01)
    found = forecast(plan, tmp_path, workers=4)
    assert found.points == plan.point_count and found.tried == forecasts.MOST_TRIED
    assert 40 * 0.01 <= found.compute_s < 40 * 0.01 * 20
    assert found.seconds == pytest.approx(found.compile_s + found.compute_s / 4)


def test_no_further_chunk_is_tried_after_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecasts, "ENOUGH_S", 0.015)
    assert forecast(FakePlan(chunks=40, pause=0.01), tmp_path).tried == 2


def test_pieces_are_tried_in_place_of_their_chunks(tmp_path: Path) -> None:
    plan = FakePlan(chunks=3, split=4)
    found = forecast(plan, tmp_path)
    assert found.chunks == 3 and found.points == sum(
        plan.chunk_points(piece) for chunk in range(3) for piece in plan.pieces(chunk)
    )


def test_committed_chunks_tell_of_the_others(tmp_path: Path) -> None:
    run(FakePlan(chunks=4, fail=(3,)), tmp_path, quiet=True)
    found = forecast(FakePlan(chunks=4), tmp_path)
    assert (found.chunks, found.committed, found.tried) == (1, 3, 3)
    assert found.points == FakePlan(chunks=4).chunk_points(3)
    run(FakePlan(chunks=4), tmp_path, quiet=True)
    assert text(forecast(FakePlan(chunks=4), tmp_path)) == "fake: nothing to compute; 4 chunks committed already"


def test_a_chunk_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(SweeperError, match="fake, chunk 0: "):
        forecast(FakePlan(fail=(0,)), tmp_path)


def test_workers_share_no_more_chunks_than_there_are() -> None:
    told = Forecast("s", 2, 10, 0, 1, workers=8, compile_s=1.0, compute_s=8.0, bytes=2e6, memory_B=10**9)
    assert told.seconds == 5.0
    assert "about 0:00:05 (5.0 s) with 8 workers, of which 1.0 s to compile or load" in text(told)


def test_the_command(tmp_path: Path) -> None:
    ran = CliRunner().invoke(main, ["run", "table6_sn10", "--out", str(tmp_path / "new"), "--dry-run", "--json"])
    assert ran.exit_code == 0 and json.loads(ran.stdout)["points"] == 4 and not (tmp_path / "new").exists()


def test_ray_is_told_with_the_workers_that_it_would_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeper.engine.compilation.ahead.processors", lambda: 6)
    asked = ["run", "table6_sn10", "--out", str(tmp_path / "new"), "--dry-run", "--json"]
    ray = ["--backend", "ray"]
    ways = [ray, [*ray, "--threads", "2"], [*ray, "--workers", "9"], []]
    found = [json.loads(CliRunner().invoke(main, [*asked, *more]).stdout)["workers"] for more in ways]
    assert found == [6, 3, 9, 1]
