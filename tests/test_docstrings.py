"""Examples in docstrings say what happens."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import sweeper
from tests.places import ROOT

PROMPT = ">>> "
FOLDERS = (ROOT / "sweeper", ROOT / "sweeper" / "kernels")
"""The package, and the link in it that searching it does not follow."""
WITH_EXAMPLES = sorted(path for folder in FOLDERS for path in folder.rglob("*.py") if PROMPT in path.read_text())


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_examples_of_a_module(path: Path) -> None:
    module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0
    assert found.attempted > 0, "examples that nobody runs"


@pytest.mark.parametrize("name", sweeper.__all__)
def test_what_is_public_has_an_example(name: str) -> None:
    public = getattr(sweeper, name)
    if not (isinstance(public, type) and issubclass(public, Exception)):
        assert PROMPT in (public.__doc__ or "")
