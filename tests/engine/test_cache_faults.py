"""A spoilt kernel cache heals and nothing in it is run; processes compile each kernel once, and say if they wait."""

import inspect
import json
import logging
import os
import re
import select
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sweeper.engine.compilation import cache, own_files, turns
from sweeper.engine.compilation.turns import Turns
from sweeper.errors import EnvironmentFault
from tests.places import ROOT
from tests.support.cache_user import ANSWER
from tests.support.examples import first_of
from tests.support.fake_ray import FakeClock

STRANGER = 12345
"""A user that is neither us nor root."""

PATIENCE_S = 600
"""How long one waits for a process that hangs: far longer than compiling five tiny kernels takes on a busy machine."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def process(folder: Path, *task: str) -> "subprocess.Popen[str]":
    """A process with a cache of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "SWEEPER_"))}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.cache_user", *task],
        env={**kept, "SWEEPER_CACHE_DIR": str(folder)},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        umask=0,
    )


@contextmanager
def ready(folder: Path, *task: str) -> "Iterator[subprocess.Popen[str]]":
    """A process that awaits a line; it is killed in the end."""
    with process(folder, *task) as running:
        try:
            assert running.stdout is not None and running.stdout.readline() == "ready\n"
            yield running
        finally:
            running.kill()


def evaluate(folder: Path) -> tuple[dict[str, int], str]:
    """How often a process compiled each kernel, and what it said on standard error; its numbers are right."""
    with ready(folder, "evaluate") as running:
        out, err = running.communicate("\n", timeout=PATIENCE_S)
    assert running.returncode == 0, err
    found = json.loads(out)
    assert found["answer"] == ANSWER
    return found["compiled"], err


def complaints(folder: Path, *task: str) -> Any:
    out, err = process(folder, *task).communicate(timeout=3 * PATIENCE_S)
    return json.loads(out) if out else err


@pytest.fixture
def warm(tmp_path: Path) -> Path:
    """A cache that holds all tiny kernels."""
    assert set(evaluate(tmp_path)[0].values()) == {1}
    assert set(evaluate(tmp_path)[0].values()) == {0}
    return tmp_path


def files(folder: Path) -> list[Path]:
    """The cache's files that processes read."""
    return [path for path in folder.rglob("*") if path.suffix in (".nbi", ".nbc", ".py")]


@pytest.mark.slow
def test_damaged_files_are_never_executed_and_rebuilt(tmp_path: Path) -> None:
    assert complaints(tmp_path, "damage", "102") == []


def test_forged_and_misplaced_files_are_never_executed_and_rebuilt(tmp_path: Path) -> None:
    assert complaints(tmp_path, "forge") == []


def test_a_spoilt_secret_is_replaced_and_all_compiled_again(warm: Path) -> None:
    secret = warm / "numba" / "key"
    known = secret.read_bytes()
    for spoil in (lambda: secret.write_bytes(known[:9]), lambda: secret.chmod(0o644), secret.unlink):
        spoil()
        assert set(evaluate(warm)[0].values()) == {1}
        assert secret.read_bytes() != known and len(secret.read_bytes()) == 32
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert set(evaluate(warm)[0].values()) == {0}


def test_all_processes_have_one_secret_even_where_files_have_no_second_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sweeper.engine.compilation import numba_cache

    def made() -> bytes:
        return numba_cache._secret.__wrapped__(tmp_path / "key")

    def fail(*paths: Path) -> None:
        raise PermissionError

    def too_late(draft: Path, path: Path) -> None:
        path.touch(0o600)
        path.write_bytes(b"s" * 32)
        raise FileExistsError

    monkeypatch.setattr(numba_cache.os, "link", too_late)
    assert made() == b"s" * 32
    (tmp_path / "key").unlink()
    monkeypatch.setattr(numba_cache.os, "link", fail)
    assert made() == made() != b"s" * 32
    assert os.listdir(tmp_path) == ["key"]


def test_what_the_cache_holds_is_closed_to_others(warm: Path) -> None:
    modes = {stat.S_IMODE(path.stat().st_mode) for path in warm.rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in warm.rglob("*") if path.is_dir()} == {0o700}


def test_files_that_others_can_write_are_not_read_but_replaced(warm: Path) -> None:
    for path in files(warm):
        path.chmod(0o622)
    assert set(evaluate(warm)[0].values()) == {1}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files(warm)} == {0o600}


@as_root
def test_files_of_others_are_not_read_but_replaced(warm: Path) -> None:
    for path in [*files(warm), *warm.rglob("compiling")]:
        os.chown(path, STRANGER, -1)
    assert set(evaluate(warm)[0].values()) == {1}
    assert {path.stat().st_uid for path in warm.rglob("*")} == {os.geteuid()}


def test_only_plain_files_of_ours_are_read(tmp_path: Path) -> None:
    path, link, pipe = tmp_path / "file", tmp_path / "link", tmp_path / "pipe"
    own_files.write_own(path, b"content")
    link.symlink_to(path)
    os.mkfifo(pipe)
    assert own_files.read_own(path) == b"content"
    assert [own_files.read_own(odd) for odd in (link, pipe, tmp_path, tmp_path / "missing")] == [None] * 4
    path.chmod(0o644)
    assert own_files.read_own(path) == b"content"
    assert own_files.read_own(path, secret=True) is None


@pytest.mark.parametrize("mode", first_of([0o702, 0o720]))
def test_a_directory_that_others_can_write_is_refused(warm: Path, mode: int) -> None:
    folders = [warm, *(path for path in warm.rglob("*") if path.is_dir())]
    assert len(folders) == 6
    for folder in folders:
        folder.chmod(mode)
        _, err = process(warm, "evaluate").communicate("\n", timeout=PATIENCE_S)
        assert f"EnvironmentFault: others can write to the kernel cache '{folder}' (mode {mode:04o})" in err
        assert f"chmod -R go-w {folder}" in err and "SWEEPER_CACHE_DIR" in err
        folder.chmod(0o700)


@as_root
def test_a_directory_of_others_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, STRANGER, -1)
    with pytest.raises(EnvironmentFault, match=f"belongs to user {STRANGER}, and you are .* SWEEPER_CACHE_DIR"):
        own_files.own_directory(tmp_path)


def test_a_cache_that_cannot_be_written_is_a_fault_of_the_environment(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match=r"cannot write to the kernel cache.*SWEEPER_CACHE_DIR"):
        own_files.write_own(tmp_path / "missing" / "file", b"")
    ours = Turns(tmp_path / "missing").turn("ours", lambda: False)
    with pytest.raises(EnvironmentFault, match="cannot lock the kernel cache"), ours:
        pass


@pytest.mark.slow
def test_ten_processes_that_start_at_a_time_compile_each_kernel_once(tmp_path: Path) -> None:
    starting = [process(tmp_path, "evaluate") for _ in range(10)]
    for running in starting:
        assert running.stdout is not None and running.stdout.readline() == "ready\n"
    for running in starting:
        assert running.stdin is not None
        running.stdin.write("\n")
        running.stdin.flush()
    uses = [json.loads(running.communicate(timeout=PATIENCE_S)[0]) for running in starting]
    assert all(each["answer"] == ANSWER for each in uses)
    for kernel in uses[0]["compiled"]:
        assert sum(each["compiled"][kernel] for each in uses) == 1, kernel


def test_waiting_is_said_soon_and_ends_with_its_holder(tmp_path: Path) -> None:
    with ready(tmp_path, "hold") as holder, ready(tmp_path, "evaluate") as waiting:
        assert waiting.stdin is not None and waiting.stderr is not None
        waiting.stdin.write("\n")
        waiting.stdin.flush()
        assert turns.FIRST_NOTE_S + turns.LOOK_S < 2.0  # how long that takes on a busy machine is not in our hands
        assert select.select([waiting.stderr], [], [], PATIENCE_S)[0]
        said = waiting.stderr.readline()
        assert re.match(r"waiting \(\d+ s so far\) for process \d+ on \S+, which compiles kernel tests\.", said)
        assert f"process {holder.pid} " in said and re.search(r"number 1 since \d\d:\d\d:\d\d", said)
        assert waiting.poll() is None
        holder.kill()
        out, _ = waiting.communicate(timeout=PATIENCE_S)
        assert set(json.loads(out)["compiled"].values()) == {1}


def test_who_has_warm_kernels_does_not_wait(warm: Path) -> None:
    with ready(warm, "hold"):
        counts, said = evaluate(warm)
        assert set(counts.values()) == {0} and said == ""


def test_waiting_is_said_again_and_ends_when_the_kernel_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After one second and then every half minute, on a clock of its own."""
    clock = FakeClock()
    started = clock.now
    theirs = Turns(tmp_path).turn("area", lambda: False)
    ours = Turns(tmp_path, clock, clock.sleep).turn("area", lambda: clock.now - started > 80.0)
    with caplog.at_level(logging.WARNING, "sweeper"), theirs, ours:
        pass
    said = [record.getMessage() for record in caplog.records]
    assert [float(text.split("(")[1].split()[0]) for text in said] == [1.0, 31.0, 61.0]
    assert all("which compiles kernel area (number 1" in text for text in said)


def test_turns_may_be_nested_and_are_free_after_an_error(tmp_path: Path) -> None:
    ours, theirs = Turns(tmp_path), Turns(tmp_path)
    for nested in ("area", "doubled"):
        with pytest.raises(ValueError), ours.turn("area", lambda: False), ours.turn(nested, lambda: False):
            raise ValueError
        with theirs.turn("area", lambda: False), theirs.turn(nested, lambda: False):
            pass


def test_other_kernels_are_compiled_meanwhile(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Turns(tmp_path).turn("area", lambda: False), Turns(tmp_path).turn("doubled", lambda: False):
        assert sorted(file.name for file in tmp_path.iterdir()) == ["area.turn", "doubled.turn"]
    assert not caplog.records


def test_only_our_kernels_wait_for_their_caches_and_until_they_are_asked() -> None:
    """Sources of others may change before they are called: what is kept would stand under the wrong version."""
    from numba import njit
    from numba.core import caching

    from sweeper.engine.compilation.numba_cache import Later, is_compiled
    from sweeper.kernels.shared.dimensions import doublings

    function: Any = doublings
    ours: Any = njit(function.py_func, cache=True)
    assert isinstance(ours._cache, Later)
    with pytest.raises(AttributeError):
        ours._cache.__deepcopy__
    is_compiled(ours)
    assert isinstance(ours._cache, caching.FunctionCache)
    theirs: Any = njit(made_elsewhere, cache=True)
    assert isinstance(theirs._cache, caching.FunctionCache)


def made_elsewhere() -> float:
    """A function of a module that is none of our kernels."""
    return 1.0


def test_numba_is_as_we_found_it() -> None:
    """If this fails, read `numba.core.caching` and `numba.core.dispatcher` anew, then mend `numba_cache`."""
    from numba.core import caching, dispatcher

    from sweeper.engine.compilation.numba_cache import OwnLocator, VerifiedFiles, _numba_caching
    from sweeper.kernels.shared.dimensions import doublings

    kept: Any = doublings
    assert isinstance(kept._cache._cache_file, VerifiedFiles)
    assert "self._cache = FunctionCache(self.py_func)" in inspect.getsource(_numba_caching)
    assert isinstance(kept._cache._impl.locator, OwnLocator)
    assert str(cache.cache_dir()) == os.path.dirname(kept._cache.cache_path)
    source = inspect.getsource(caching)
    assert set(re.findall(r"_cache_file\.(\w+)\(", source)) == {"load", "save", "flush"}
    assert len(re.findall(r"\bIndexDataCacheFile\(", source)) == 2  # the class, and where it is used
    assert source.count("pickle.load") == 3  # all in the class that is not used
    used = inspect.getsource(caching.Cache._load_overload) + inspect.getsource(caching.Cache._save_overload)
    assert "key = self._index_key(sig, target_context.codegen())\n" in used
    assert "key = self._index_key(sig, data.codegen)\n" in used
    found = inspect.getsource(dispatcher.Dispatcher)
    assert found.count("load_overload") == found.count("save_overload") == 1
    assert "existing = self.overloads.get(tuple(args))\n" in found
    assert dispatcher.Dispatcher.compile.__module__ == "sweeper.engine.compilation.numba_cache"
