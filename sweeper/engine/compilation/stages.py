"""Loading the generated loop of a stage: what is executed is the text as generated, whatever lies on disk.

Numba needs a file all the same: it names its cache files after the path and asks that the file exists, and takes the
content's hash as the version of the source. People find there what a traceback speaks of. So the text is put there,
and put there again if the file says something else.
"""

import hashlib
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType

from sweeper.engine.compilation.cache import generated_dir
from sweeper.engine.compilation.own_files import own_directory, read_own, write_own

SOURCE = "__source__"
"""Name in a generated module of its own text."""


@cache
def load_stage(source: str) -> Callable[..., None]:
    """The function `stage` of a generated module. Raises EnvironmentFault if the cache cannot be written."""
    text, path = source.encode(), _path(source)
    if read_own(path) != text:
        write_own(path, text)
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module  # Numba finds the module by name when it loads the cached loop
    vars(module)[SOURCE] = source
    exec(compile(text, path, "exec"), vars(module))
    stage: Callable[..., None] = module.stage
    return stage


def is_known(source: str) -> bool:
    """Whether a generated module has been loaded before, by any process: its loop is compiled, or will be soon."""
    return _path(source).exists()


def source_of(function: FunctionType) -> str:
    """Text of the generated module that a Python function is of; empty if it is of none."""
    source: str = function.__globals__.get(SOURCE, "")
    return source


def stage_name(source: str) -> str:
    """Name of a generated module."""
    return f"stage_{hashlib.sha256(source.encode()).hexdigest()[:24]}"


def _path(source: str) -> Path:
    return _folder() / f"{stage_name(source)}.py"


@cache
def _folder() -> Path:
    return own_directory(generated_dir())
