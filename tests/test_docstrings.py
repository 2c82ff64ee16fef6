"""Examples in docstrings say what happens."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import sweeper  # noqa: F401  # before the kernels: it says where compiled ones are kept
from tests.places import ROOT

PROMPT = ">>> "
WITH_EXAMPLES = sorted(
    path for folder in ("kernels", "sweeper") for path in (ROOT / folder).rglob("*.py") if PROMPT in path.read_text()
)


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_examples_of_a_module(path: Path) -> None:
    module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0
    assert found.attempted > 0, "examples that nobody runs"
