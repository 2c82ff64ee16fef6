"""The kernel cache: its directory changes with whatever the machine code depends on, and Numba really uses it."""

import ast
import inspect
import os
import pkgutil
import shutil
import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from numba.core.dispatcher import Dispatcher

from sweeper import kernels
from sweeper.engine.compilation import cache as kernel_cache
from tests.places import ROOT


def python(code: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "SWEEPER_"))}
    environment = {**kept, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_numba_compiles_into_the_cache_for_the_portable_target(tmp_path: Path) -> None:
    code = """
import sweeper
import numba
from sweeper.kernels.shared.dimensions import doublings
doublings(5.0)
print(numba.config.CACHE_DIR, numba.config.NUMBA_NUM_THREADS, numba.config.CPU_NAME, repr(numba.config.CPU_FEATURES))
"""
    found = python(code, SWEEPER_CACHE_DIR=str(tmp_path), NUMBA_CACHE_DIR="/nowhere").stdout.split()
    directory = Path(found[0])
    assert directory.parent == tmp_path / "numba"
    assert found[1] == "1" and found[2] in ("x86-64-v3", "generic") and found[3] == "''"
    assert list(directory.glob("**/*doublings*.nbc"))


def test_no_kernel_takes_a_function() -> None:
    """It would be another one in every process, which would compile and keep the kernel anew."""
    rooms = [import_module(part.name) for part in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}.")]
    compiled = [value for room in rooms for value in vars(room).values() if isinstance(value, Dispatcher)]
    assert len(compiled) > 500
    for kernel in compiled:
        code = ast.parse(textwrap.dedent(inspect.getsource(kernel.py_func)))
        called = {
            call.func.id for call in ast.walk(code) if isinstance(call, ast.Call) if isinstance(call.func, ast.Name)
        }
        assert called.isdisjoint(inspect.signature(kernel.py_func).parameters), kernel


def test_numba_must_not_be_imported_first(tmp_path: Path) -> None:
    found = python("import numba, sweeper", SWEEPER_CACHE_DIR=str(tmp_path))
    assert "import sweeper before numba" in found.stderr


def test_an_unusable_cache_is_a_fault_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = python("import sweeper", SWEEPER_CACHE_DIR=str(tmp_path / "file" / "cache"))
    assert "EnvironmentFault" in found.stderr and "SWEEPER_CACHE_DIR" in found.stderr


def test_the_hash_follows_every_source_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package_of_kernels"
    package.mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))

    def digest(name: str, text: str) -> str:
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_text(text)
        kernel_cache.source_hash.cache_clear()
        return kernel_cache.source_hash(package.name)

    digests = [digest("__init__.py", ""), digest("a.py", "x = 1"), digest("a.py", "x = 2"), digest("b.py", "")]
    digests += [digest("room/__init__.py", ""), digest("room/a.py", ""), digest("room/a.py", "x = 1")]
    digests += [digest("other_room/a.py", "x = 1")]
    assert len(set(digests)) == 8
    kernel_cache.source_hash.cache_clear()


def test_the_cache_follows_the_target_and_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before = kernel_cache.cache_dir()
    assert kernel_cache.generated_dir().parent == before
    monkeypatch.setenv("NUMBA_CPU_NAME", "other")
    assert kernel_cache.cache_dir() != before
    monkeypatch.undo()
    monkeypatch.setattr(kernel_cache, "version", lambda package: "0")
    assert kernel_cache.cache_dir() != before


def test_the_hash_of_our_kernels_follows_a_file_added_in_any_sub_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "kernels"
    shutil.copytree(ROOT / "kernels", copy, ignore=shutil.ignore_patterns("__pycache__"))
    folders = [copy, *(folder for folder in copy.rglob("*") if folder.is_dir())]
    monkeypatch.setattr(kernel_cache, "find_spec", lambda name: SimpleNamespace(submodule_search_locations=[str(copy)]))

    def digest() -> str:
        kernel_cache.source_hash.cache_clear()
        return kernel_cache.source_hash("kernels")

    try:
        before = digest()
        for folder in folders:
            added = folder / "one_more.py"
            added.write_text("x = 1\n")
            assert digest() != before, folder
            added.unlink()
        assert digest() == before
    finally:
        kernel_cache.source_hash.cache_clear()


def test_the_command_line_says_in_one_line_why_it_cannot_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environment = {**os.environ, "SWEEPER_CACHE_DIR": str(tmp_path / "file" / "cache")}
    command = [str(Path(sys.executable).with_name("sweeper")), "list", "chip"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 3
    assert "SWEEPER_CACHE_DIR" in found.stderr and "Traceback" not in found.stderr
    assert found.stderr.count("\n") == 1
