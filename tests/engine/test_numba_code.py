"""Kernels that only kernels call have no machine code of their own; who calls them later from Python gets some."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

from numba.core import codegen, dispatcher
from numba.core.bytecode import FunctionIdentity

from tests.places import ROOT

MODULE = """
import numpy as np
from sweeper.kernels.equation import compiled

@compiled
def part(values, at):
    if at < 0:
        raise ValueError("parts begin at 0")
    copy = values + 1.0
    return copy[at]

@compiled
def whole(values):
    return part(values, len(values) - 2) + part(values, len(values) - 1)

@compiled
def refused(values):
    return part(values, len(values) - 3)
"""
CODE = """
import sweeper, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from kept_in_parts import part, refused, whole

def code(function):
    return [overload.library.has_code for overload in function.overloads.values()]

def said(function, *arguments):
    try:
        return function(*arguments)
    except ValueError as error:
        return error

values = np.array([1.0, 2.5])
print(whole(values), code(whole), code(part))
print(said(refused, values))
print(part(values, 1), code(part), said(part, values, -1))
print(len(whole.signatures), whole.stats.cache_misses.total(), part.stats.cache_misses.total())
"""

LOADED_FIRST = """
import sweeper, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from kept_in_parts import part, whole

values = np.array([1.0, 2.5])
print(part(values, 1), whole(values), part.stats.cache_hits.total(), whole.stats.cache_misses.total())
"""

ALIKE = """
import numpy as np
from sweeper.kernels.equation import compiled

def made(power):
    @compiled
    def turned(values):
        found = np.zeros(len(values))
        for i in range(len(values)):
            found[i] = values[i] ** power
        return found
    return turned

squared, cubed = made(2), made(3)

@compiled
def both(values):
    return squared(values) + cubed(values)
"""
ONE = """
import sweeper, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from named_alike import both, cubed, squared

values = np.array([2.0, 3.0])
print(*[found for function in ({}) for found in function(values)])
"""


def answers(folder: Path, code: str = CODE) -> list[str]:
    """What a process says that calls the functions, with the cache that earlier ones left."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "SWEEPER_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", code, str(folder)]
    found = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert not found.returncode, found.stderr
    return found.stdout.splitlines()


def test_what_kernels_call_becomes_machine_code_once_python_calls_it(tmp_path: Path) -> None:
    (tmp_path / "kept_in_parts.py").write_text(MODULE)
    compiled, loaded = answers(tmp_path), answers(tmp_path)
    assert compiled[0] == "5.5 [True] [False]"
    assert loaded[0] == "5.5 [True] []"  # what it calls is a part of it
    assert compiled[1] == loaded[1] == "parts begin at 0"
    assert compiled[2] == loaded[2] == "3.5 [True] parts begin at 0"
    assert compiled[3] == "1 1 2" and loaded[3] == "1 0 0"


def test_what_was_kept_for_callers_serves_new_callers(tmp_path: Path) -> None:
    (tmp_path / "kept_in_parts.py").write_text(MODULE)
    first = answers(tmp_path)
    for kept in (tmp_path / "cache").rglob("*whole*"):
        kept.unlink()
    again = answers(tmp_path)
    assert again[:3] == first[:3]
    assert again[3] == "1 1 0"


def test_what_was_loaded_for_python_serves_callers_too(tmp_path: Path) -> None:
    (tmp_path / "kept_in_parts.py").write_text(MODULE)
    answers(tmp_path)
    for kept in (tmp_path / "cache").rglob("*whole*"):
        kept.unlink()
    assert answers(tmp_path, LOADED_FIRST) == ["3.5 5.5 1 1"]


def test_functions_named_alike_by_different_processes_stay_apart(tmp_path: Path) -> None:
    """Each is the first that its process compiles: Numba would number both alike, and run one for both."""
    (tmp_path / "named_alike.py").write_text(ALIKE)
    assert answers(tmp_path, ONE.format("squared,")) == ["4.0 9.0"]
    assert answers(tmp_path, ONE.format("cubed,")) == ["8.0 27.0"]
    assert answers(tmp_path, ONE.format("squared, cubed")) == ["4.0 9.0 8.0 27.0"]
    assert answers(tmp_path, ONE.format("cubed, squared, both")) == ["8.0 27.0 4.0 9.0 12.0 36.0"]


def test_numba_is_as_we_found_it() -> None:
    """If this fails, read `numba.core.codegen` and `numba.core.dispatcher` anew, then mend `numba_code`."""
    assert inspect.getsource(FunctionIdentity).count("next(cls._unique_ids)\n") == 1
    made = inspect.getsource(codegen.CPUCodeLibrary.finalize)
    assert made.index("_optimize_final_module()") < made.index("_finalize_final_module()")
    assert "self._codegen._add_module(" in inspect.getsource(codegen.CPUCodeLibrary._finalize_final_module)
    assert "self._library_class(" in inspect.getsource(codegen.Codegen.create_library)
    assert "flags = self._customize_flags(flags)\n" in inspect.getsource(dispatcher._FunctionCompiler)  # type: ignore[attr-defined]
    assert inspect.getsource(dispatcher.Dispatcher).count("self.add_overload(cres)\n") == 2  # loaded, or compiled
