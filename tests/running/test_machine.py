"""One machine of a cluster that another scheduler started: the head, a second one, what turns it away, and its end."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sweeper.errors import EnvironmentFault, Misuse
from sweeper.running.on_ray.family import DEAD, MARK, children, command_line, members, state
from sweeper.running.on_ray.machine import Address, join, stay

WORKER = [sys.executable, "-c", "from sweeper.cli import main; main(prog_name='sweeper')", "worker", "--address"]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Environment of a user without a token and without a Ray."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", MARK))}
    with tempfile.TemporaryDirectory(prefix="swm", dir="/tmp") as short:  # Ray's sockets must not have long paths.
        yield {**kept, "HOME": str(tmp_path), "RAY_TMPDIR": short}
        for pid in _started_with(str(tmp_path)):  # Of a test that has failed.
            os.kill(pid, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("text", ["node1", "node1:", ":6379", "node1:x", "node1:0", "node1:70000", "auto"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(Misuse, match="host:port"):
        Address.read(text)


def test_which_addresses_are_this_machines() -> None:
    assert Address("127.0.0.1", 1).is_here()
    assert not Address("192.0.2.77", 1).is_here()  # reserved for documentation: nobody has it
    assert not Address("no-such-host.invalid", 1).is_here()


def test_somebody_who_listens_answers() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        address = Address("127.0.0.1", int(listening.getsockname()[1]))
        assert address.answers()
        with pytest.raises(EnvironmentFault, match="no Ray listens at port"):
            join(address, 1, 0.0)
    assert not address.answers()


def test_a_head_that_does_not_come_is_not_waited_for_without_end() -> None:
    with pytest.raises(EnvironmentFault, match=r"nobody has answered at 192.0.2.77:6379 for 0 s"):
        join(Address("192.0.2.77", 6379), 1, 0.0)


def test_without_a_token_another_machine_is_told_where_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Address, "is_here", lambda self: False)
    monkeypatch.setattr(Address, "answers", lambda self: True)
    with pytest.raises(EnvironmentFault, match=r"auth_token: copy it here from the head, or set RAY_AUTH_TOKEN"):
        join(Address("127.0.0.1", 6379), 1, 0.0)


def test_a_mark_that_nobody_bears_is_not_waited_for() -> None:
    stay("0123456789abcdef")


def test_what_ray_has_started_without_a_mark_ends_with_it() -> None:
    """As its agents are: they rename themselves, which overwrites the mark, and live on without a raylet."""
    mark = "fedcba9876543210"
    line = f"env -u {MARK} sleep 300 & exec -a raylet/raylet sleep 3"
    with subprocess.Popen(["bash", "-c", line], env={**os.environ, MARK: mark}) as raylet:
        (agent,) = _settled(lambda: list(children(raylet.pid)), lambda found: found)
        threading.Timer(3.5, raylet.wait).start()
        stay(mark)
        assert state(agent) in DEAD


def test_a_head_makes_a_token_stays_until_it_is_told_to_end_and_leaves_nothing(
    tmp_path: Path, home: dict[str, str]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    worker = subprocess.Popen([*WORKER, address, "--processors", "1"], env=home, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert worker.stdout.readline() == f"joined {address} with 1 processors\n"
    again = subprocess.run([*WORKER, address, "--json"], env=home, capture_output=True, text=True, check=True)
    assert json.loads(again.stdout)["joined"] is False
    assert (tmp_path / ".ray" / "auth_token").stat().st_mode & 0o777 == 0o600
    (mark,) = {_mark(pid) for pid in _started_with(str(tmp_path))} - {""}
    raylets = [pid for pid in members(mark) if "raylet/raylet" in command_line(pid)]
    for setting in (b"RAY_USAGE_STATS_ENABLED=0", b"RAY_ENABLE_UV_RUN_RUNTIME_ENV=0", b"RAY_AUTH_MODE=token"):
        assert setting in _variables(Path("/proc", str(raylets[0])))
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60.0) == 128 + signal.SIGTERM
    assert not members(mark)


def _started_with(home: str) -> list[int]:
    """Processes of Ray that have this home."""
    wanted = f"HOME={home}".encode()
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit() and wanted in _variables(each)]


def _mark(pid: int) -> str:
    marks = [entry for entry in _variables(Path("/proc", str(pid))) if entry.startswith(f"{MARK}=".encode())]
    return marks[0].partition(b"=")[2].decode() if marks else ""


def _variables(process: Path) -> list[bytes]:
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


@pytest.mark.nightly
def test_a_background_worker_returns_and_ends_with_its_raylet(tmp_path: Path, home: dict[str, str]) -> None:
    address = f"127.0.0.1:{free_port()}"
    done = subprocess.run([*WORKER, address, "--background", "--processors", "1"], env=home, check=False, timeout=120.0)
    assert done.returncode == 0
    (mark,) = {_mark(pid) for pid in _started_with(str(tmp_path))} - {""}
    (raylet,) = [pid for pid in members(mark) if "raylet/raylet" in command_line(pid)]
    agents = _settled(lambda: [pid for pid, line in children(raylet).items() if "Agent" in line], lambda found: found)
    assert agents
    time.sleep(2.0)  # Who stays behind has seen them.
    os.kill(raylet, signal.SIGKILL)
    assert not _settled(
        lambda: [*members(mark), *(pid for pid in agents if state(pid) not in DEAD)], lambda left: not left
    )


def _settled(look: Callable[[], list[int]], settled: Callable[[list[int]], object]) -> list[int]:
    """What one sees once it is settled, or in the end."""
    end = time.monotonic() + 30.0
    while not settled(seen := look()) and time.monotonic() < end:
        time.sleep(0.2)
    return seen
