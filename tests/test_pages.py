"""Pages do what they say: their files are written, their commands and Python run, and what is printed is compared.

A page is followed from top to bottom in a directory of its own. A block with a title is the file of that name; a block
of `text` is what the commands before it print; another block of YAML has to be YAML, and no study. Lines that need more
than this machine, or more than a few seconds, stand in `ELSEWHERE` and `NIGHTLY`.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

import sweeper
from sweeper.running.storage.store import directory_of
from tests.places import ROOT
from tests.support.examples import nightly

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
OTHERWISE = {"plugins.md": "run by tests/test_plugins.py", "architecture.md": "drawings only"}
"""Pages that are not followed, and why."""
LONG = {
    "guide",
    "package_cost",
    "mapping",
    "placement",
    "pathfinding",
    "pathfinding_studies",
    "accuracy",
    "serving",
    "nights",
}
"""Pages that take half a minute or more."""
PAGES = [
    ROOT / "README.md",
    *(
        page
        for page in sorted((ROOT / "docs").glob("*.md"))
        if "\n```" in page.read_text() and page.name not in OTHERWISE
    ),
    *TUTORIALS,
]
FOLLOWED = [pytest.param(page, id=page.stem, marks=pytest.mark.nightly if page.stem in LONG else ()) for page in PAGES]
BLOCK = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
A_RUN = re.compile(r"results/(\w+)-0123456789ab")
"""How pages write the directory of a run, whose name nobody can know before."""

ELSEWHERE = {
    r"make \w": "builds what these tests run in; `make sweep` and `make test` are run by whoever runs them",
    "--address": "wants a cluster: `make cluster-test`",
    r"ray \w": "wants a cluster: `make cluster-test`",
    "sweeper worker": "wants a cluster: `make cluster-test`",
    "RAY_AUTH": "wants a cluster: `make cluster-test`",
    "s3://": "wants an object store: `tests/running`",
    "AWS_ACCESS": "wants an object store: `tests/running`",
}
"""Patterns of lines that do not run here, and who runs them."""

NIGHTLY = {
    "sweeper sensitivity": "searches",
    r"sweeper validate(?! --measured)": "scores all tables, as the tests of `tests/evidence` do",
    "sweeper calibrate": "fits, as the tests of `tests/evidence` do",
    "--backend ray": "starts a process for each worker",
}
"""Patterns of lines that take a minute or more: `make test-nightly` runs them."""


class Block(NamedTuple):
    """A block of code: its language, the file that it is, if any, and its text."""

    language: str
    file: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    return (Block(*groups) for groups in BLOCK.findall(page.read_text()))


def runs_here(line: str) -> bool:
    """Whether a line of shell runs here and now."""
    left = ELSEWHERE if nightly() else ELSEWHERE | NIGHTLY
    return not any(re.search(rf"(?<!\w){part}", line) for part in left)


def pattern(expected: str) -> str:
    """What an expected output allows: `...` is any text within a line, alone on a line any lines."""
    lines = []
    for line in expected.splitlines():
        if line.strip() == "...":
            lines.append(r"(?:.*\n)*?")
        else:
            words = (r"\s+".join(map(re.escape, part.split())) for part in line.split("..."))
            lines.append(r"\s*" + r"\s*.*?\s*".join(words) + r"[^\S\n]*\n")
    return "".join(lines)


def printed(expected: str, said: str) -> bool:
    """Whether an output ends as expected, or has it among its lines. Of a progress line only the last state counts."""
    lines = [line.rpartition("\r")[2] for line in said.splitlines()]
    return re.fullmatch(rf"(?:.*\n)*?{pattern(expected)}", "\n".join(lines) + "\n") is not None


class Reader:
    """Somebody who follows a page in a directory."""

    def __init__(self, work: Path, environment: dict[str, str]) -> None:
        self.work, self.environment = work, environment
        self.said = ""
        self.python: list[str] = []
        work.mkdir()
        for name in ("examples", "replications", "specs"):
            (work / name).symlink_to(ROOT / name)

    def call(self, *command: str) -> str:
        found = subprocess.run(
            command,
            cwd=self.work,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert found.returncode == 0, f"{command[-1]}\n{found.stdout}"
        return found.stdout

    def write(self, block: Block) -> None:
        path = self.work / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)

    def sh(self, text: str) -> None:
        lines = "\n".join(filter(runs_here, self.with_runs(text).splitlines()))
        if lines.strip():
            self.said = self.call("bash", "-e", "-o", "pipefail", "-c", lines)

    def py(self, text: str) -> None:
        self.python.append(self.with_runs(text))
        # Numba wants a file for what it compiles.
        path = self.work / "page.py"
        path.write_text("\n".join(self.python))
        self.said = self.call(sys.executable, str(path))

    def yaml(self, text: str) -> None:
        assert not text.startswith("study:"), "a study needs the name of its file as title"
        yaml.safe_load(text)

    def with_runs(self, text: str) -> str:
        """A text with the directories of runs; those of studies that were not run yet are made."""
        return A_RUN.sub(lambda found: self.run_of(found[1]), text)

    def run_of(self, study: str) -> str:
        path = self.work / f"{study}.yaml"
        directory = directory_of(str(self.work / "results"), sweeper.plan(path if path.exists() else study))
        self.call("sweeper", "run", str(path) if path.exists() else study, "-q")
        return directory


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """The environment of a user whose installation is this one, and whose `pip` installs into a folder of the test."""
    site, programs = tmp_path / "site", tmp_path / "programs"
    programs.mkdir()
    options = f"--no-index --no-deps --no-build-isolation --disable-pip-version-check --target {site}"
    (programs / "pip").write_text(f'#!/bin/sh\nshift\nexec {sys.executable} -m pip install {options} "$@"\n')
    (programs / "pip").chmod(0o755)
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(site)}


@pytest.mark.slow
@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: page.stem)
def test_a_page(page: Path, tmp_path: Path, shell: dict[str, str]) -> None:
    reader = Reader(tmp_path / "work", shell)
    follow = {"sh": reader.sh, "python": reader.py, "yaml": reader.yaml}
    for block in blocks(page):
        if block.file:
            reader.write(block)
        elif block.language == "text":
            assert printed(block.text, reader.said), reader.said
        elif block.language in follow:
            follow[block.language](block.text)
        else:
            pytest.fail(f"{page.name} has a block of {block.language!r} that nobody runs: {block.text}")


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_shows_what_is_printed(page: Path) -> None:
    assert sum(block.language == "text" for block in blocks(page)) >= 2


def test_every_exception_is_needed() -> None:
    lines = [
        line for page in PAGES for block in blocks(page) if block.language == "sh" for line in block.text.splitlines()
    ]
    for part in ELSEWHERE | NIGHTLY:
        assert any(re.search(rf"(?<!\w){part}", line) for line in lines), part
    assert not runs_here("sweeper run dse80 --address auto")
    assert runs_here("sweeper run array ")


def test_expected_output_has_gaps_only_where_it_says_so() -> None:
    assert printed("a 1...\n...\nb\n", "a  1.25 x\nmore\nand more\nb\n")
    assert printed("a 1...\n...\nb\n", "a 1\nb\n")
    assert not printed("a 1...\nb\n", "a 2\nb\n")
    assert not printed("a\nb\n", "a\nc\nb\n")
