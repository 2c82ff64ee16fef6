"""After any crash, at any moment, the resumed run gives the dataset of an undisturbed one, byte for byte."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sweeper.errors import EnvironmentFault
from sweeper.running.execution import run
from sweeper.running.limits import Limits
from sweeper.running.storage.folders import Folder
from tests.places import ROOT
from tests.support.fake_plan import DeadlyFolder, FakePlan, Watcher, dataset

PLAN = FakePlan()
LONG = 40
"""Chunks of a run that is interrupted: it waits in the middle until that has happened, however slow the machine."""

PATIENCE_S = 600.0
"""How long one waits for a process that hangs."""

DRIVER = """
import pickle, sys
from sweeper.errors import SweeperError
from sweeper.running.execution import run
from sweeper.running.limits import Limits
plan, out, options = pickle.load(open(sys.argv[1], "rb"))
try:
    run(plan, out, **options)
except SweeperError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


def start(tmp_path: Path, plan: FakePlan, out: Path | Folder | str, **options: Any) -> "subprocess.Popen[str]":
    """A run in a process of its own, the leader of its process group as in a shell."""
    order = tmp_path / "order.pickle"
    order.write_bytes(pickle.dumps((plan, out, options)))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(order)],
        env={**environment, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(out: Path, pattern: str, count: int = 1) -> None:
    """Until there are so many files."""
    deadline = time.monotonic() + PATIENCE_S
    while len(list(out.glob(pattern))) < count:
        assert time.monotonic() < deadline, "the run does not get on"
        time.sleep(0.02)


def wait_for_parts(out: Path, count: int) -> None:
    wait_for(out, "*/data/part-*.parquet", count)


def listening(pid: int) -> list[str]:
    """Addresses on which a process and all that it has started wait for connections."""
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return [
        each.laddr.ip
        for process in family
        for each in process.net_connections("tcp")
        if each.status == psutil.CONN_LISTEN
    ]


def closed_to_others(path: Path) -> bool:
    """Whether nobody but its owner can enter a directory."""
    return path.stat().st_mode & 0o077 == 0


def held(markers: Path, hold: int) -> FakePlan:
    """The long run, which stops at a chunk until `go_on`."""
    markers.mkdir()
    return FakePlan(chunks=LONG, hold=hold, marker=str(markers))


def go_on(markers: Path) -> None:
    (markers / "go").touch()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return dataset(run(PLAN, tmp_path_factory.mktemp("undisturbed"), quiet=True).directory)


@pytest.fixture(scope="module")
def expected_long(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return dataset(run(FakePlan(chunks=LONG), tmp_path_factory.mktemp("undisturbed"), quiet=True).directory)


STEPS = [
    ("before", "resolved.json"),
    ("written", "part-00000003"),
    ("synced", "part-00000003"),
    ("after", "part-00000003"),
    ("before", "receipts/"),
    ("after", "receipts/"),
    ("before", "manifest.json"),
    ("written", "manifest.json"),
    ("after", "manifest.json"),
    ("synced", "_SUCCESS"),
    ("after", "_SUCCESS"),
]


@pytest.mark.parametrize("step", STEPS, ids="-".join)
def test_a_run_killed_at_any_step_of_the_protocol_is_resumed(
    tmp_path: Path, expected: dict[str, bytes], step: tuple[str, str]
) -> None:
    out = tmp_path / "out"
    driver = start(tmp_path, PLAN, DeadlyFolder(out, (step,), str(tmp_path / "markers")), quiet=True)
    driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == -signal.SIGKILL
    (directory,) = out.iterdir()
    assert (directory / "_SUCCESS").exists() == (step == ("after", "_SUCCESS"))
    whole = {name: data for name, data in dataset(directory).items() if name.startswith("data/part-")}
    assert whole.items() <= expected.items()
    run(PLAN, out, quiet=True)
    assert dataset(directory) == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_is_committed(
    tmp_path: Path, expected_long: dict[str, bytes], number: signal.Signals
) -> None:
    out = tmp_path / "out"
    driver = start(tmp_path, held(tmp_path / "markers", 3), out)
    wait_for_parts(out, 3)
    os.killpg(driver.pid, number)
    go_on(tmp_path / "markers")
    _, message = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 128 + number
    assert "run the same study again" in message and "stopping after the chunks in progress" in message
    kept = len(list(out.glob("*/data/part-*.parquet")))
    result = run(FakePlan(chunks=LONG), out, quiet=True)
    assert 3 <= kept == LONG - result.computed_chunks <= 4
    assert dataset(result.directory) == expected_long


def test_a_second_signal_kills(tmp_path: Path) -> None:
    plan = FakePlan(hold=0, meet=1, marker=str(tmp_path / "markers"))
    with start(tmp_path, plan, tmp_path / "out") as driver:
        try:
            wait_for(tmp_path, "markers/process-*")
            driver.send_signal(signal.SIGINT)
            assert driver.stderr is not None
            assert "stopping after the chunks in progress" in driver.stderr.readline()
            assert driver.poll() is None
            driver.send_signal(signal.SIGINT)
            assert driver.wait(timeout=PATIENCE_S) == -signal.SIGINT
        finally:
            driver.kill()


@pytest.mark.nightly
def test_interrupted_and_killed_runs_on_ray_are_resumed_and_leave_nothing_behind(
    tmp_path: Path, expected_long: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C reaches all processes of a terminal; the kill only the driver. Ray's files lie in a place of their own."""
    out = tmp_path / "out"
    place = Path(tempfile.mkdtemp(prefix="swt-", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(place))
    try:
        driver = start(tmp_path, held(tmp_path / "first", 5), out, backend="ray", workers=2)
        wait_for_parts(out, 5)
        assert all(closed_to_others(file) for file in place.iterdir())
        listeners = listening(driver.pid)
        assert len(listeners) >= 5
        assert {address.removeprefix("::ffff:") for address in listeners} == {"127.0.0.1"}
        os.killpg(driver.pid, signal.SIGINT)
        go_on(tmp_path / "first")
        _, message = driver.communicate(timeout=PATIENCE_S)
        assert driver.returncode == 130 and "run the same study again" in message
        assert list(place.iterdir()) == []
        kept = len(list(out.glob("*/data/part-*.parquet")))
        assert 5 <= kept < 30

        driver = start(tmp_path, held(tmp_path / "second", 35), out, backend="ray", workers=2, quiet=True)
        wait_for_parts(out, kept + 3)
        driver.kill()
        driver.communicate(timeout=PATIENCE_S)
        assert [file.name.startswith("sweeper-ray-") for file in place.iterdir()] == [True]

        driver = start(tmp_path, FakePlan(chunks=LONG), out, backend="ray", workers=2, quiet=True)
        driver.communicate(timeout=PATIENCE_S)
        assert driver.returncode == 0
        assert list(place.iterdir()) == []
    finally:
        shutil.rmtree(place, ignore_errors=True)
    (directory,) = out.iterdir()
    assert dataset(directory) == expected_long


@pytest.mark.slow
def test_a_machine_killed_in_the_middle_of_a_run(ray_cluster: Any, tmp_path: Path) -> None:
    """Its workers die with it, no chunk is blamed, and the other machines finish the work."""
    victim = ray_cluster.add_node(num_cpus=2, object_store_memory=100 << 20)
    watcher = Watcher(at=8, action=lambda: ray_cluster.remove_node(victim, allow_graceful=False))
    # All six workers are at work when it happens, and go on for some seconds: orphans notice only after a while.
    plan = FakePlan(chunks=100, pause=0.15, meet=6, marker=str(tmp_path / "markers"))
    result = run(plan, tmp_path / "out", backend="ray", workers=6, limits=Limits(crashes=1), progress=watcher)
    assert result.failed == []
    assert any("lost a machine" in message for message in watcher.messages)
    undisturbed = run(FakePlan(chunks=100), tmp_path / "undisturbed", quiet=True)
    assert dataset(result.directory) == dataset(undisturbed.directory)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 128 kB, if this user may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a file system needs root")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk(tiny_disk: Path, expected_long: dict[str, bytes]) -> None:
    plan = FakePlan(chunks=LONG)
    with pytest.raises(EnvironmentFault, match=r"(?i)free some space"):
        run(plan, tiny_disk, quiet=True)
    (directory,) = tiny_disk.iterdir()
    parts = {name: data for name, data in dataset(directory).items() if name.startswith("data/")}
    assert 0 < len(parts) < plan.chunks
    assert parts.items() <= expected_long.items()
    subprocess.run(["mount", "-o", "remount,size=8m", str(tiny_disk)], check=True)
    run(plan, tiny_disk, quiet=True)
    assert dataset(directory) == expected_long
