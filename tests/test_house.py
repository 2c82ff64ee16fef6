"""The house keeps its rules: who imports whom, how large files and folders are, how many parameters functions take."""

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.places import ROOT

PACKAGES = ("kernels", "sweeper")
MOST_LINES, MOST_FILES, MOST_PARAMETERS = 400, 15, 12

CONTRACTS = {
    c["id"]: c for c in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}

VIOLATIONS = {
    "rooms": ("sweeper/words/attributes.py", "import sweeper.study.study"),
    "kernels": ("kernels/codes.py", "import sweeper.kernels.shared.chip"),
    "families": ("kernels/shared/chip.py", "import sweeper.kernels.graphs.sharding"),
    "numbers": ("kernels/reduce.py", "import yaml"),
    "engine": ("sweeper/engine/space.py", "import sweeper.kernels.shared.chip"),
    "running": ("sweeper/running/storage/store.py", "import sweeper.engine.space"),
    "library": ("sweeper/views/analysis.py", "import replications.cost_check"),
    "circles": ("kernels/graphs/sharding.py", "import sweeper.kernels.graphs.mapping"),
}
"""For every contract a file, and an import in it that breaks the contract."""


def sources(root: Path) -> Iterator[Path]:
    """Python files of the packages."""
    for package in PACKAGES:
        yield from sorted((root / package).rglob("*.py"))


def breaches(root: Path) -> list[str]:
    """What is too large below a checkout."""
    found = []
    per_folder = Counter(file.parent for file in sources(root))
    found += [f"{folder}: {count} files" for folder, count in per_folder.items() if count > MOST_FILES]
    for file in sources(root):
        text = file.read_text(encoding="utf-8")
        lines = text.count("\n")
        if lines > MOST_LINES:
            found.append(f"{file}: {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])
                if count > MOST_PARAMETERS:
                    found.append(f"{file}:{node.lineno} {node.name}: {count} parameters")
    return found


def test_files_folders_and_signatures_are_small() -> None:
    assert breaches(ROOT) == []


def test_what_is_too_large_is_seen(tmp_path: Path) -> None:
    kernels, words = tmp_path / "kernels", tmp_path / "sweeper" / "words"
    words.mkdir(parents=True)
    kernels.mkdir()
    for number in range(MOST_FILES):
        (words / f"file_{number}.py").touch()
    (kernels / "long.py").write_text("x = 1\n" * MOST_LINES)
    parameters = ", ".join(f"a{n}" for n in range(MOST_PARAMETERS))
    (kernels / "wide.py").write_text(f"def f({parameters}): pass\n")
    assert breaches(tmp_path) == []
    (words / "one_more.py").touch()
    (kernels / "long.py").write_text("x = 1\n" * (MOST_LINES + 1))
    (kernels / "wide.py").write_text(f"def f({parameters}, *, one_more): pass\n")
    assert len(breaches(tmp_path)) == 3


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the contracts are about."""
    root = tmp_path_factory.mktemp("house")
    for package in (*PACKAGES, "replications"):
        shutil.copytree(ROOT / package, root / package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def lint(root: Path, contract: str) -> "subprocess.CompletedProcess[str]":
    """Check one contract of a checkout."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--contract", contract]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def test_every_contract_has_a_violation() -> None:
    assert VIOLATIONS.keys() == CONTRACTS.keys()


@pytest.mark.parametrize("contract", VIOLATIONS)
def test_a_planted_violation_fails(contract: str, copy: Path) -> None:
    kept = lint(copy, contract)
    assert kept.returncode == 0, kept.stdout
    file, statement = VIOLATIONS[contract]
    text = (copy / file).read_text()
    try:
        (copy / file).write_text(f"{text}\n{statement}\n")
        broken = lint(copy, contract)
    finally:
        (copy / file).write_text(text)
    assert broken.returncode == 1
    assert "BROKEN" in broken.stdout
