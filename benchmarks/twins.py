"""Plain-Python twins of the kernels, from the tests."""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1] / "tests" / "twins"


@cache
def twin(name: str) -> Any:
    """A module of the tests that needs no other one of them; a copy of its own, which benchmarks may change."""
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", TESTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
