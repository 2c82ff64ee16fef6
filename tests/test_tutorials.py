"""The tutorials do what they say: their files are written, their commands run, and what these print is compared."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.places import ROOT

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of code: its language, the file that it is, if any, and its text."""

    language: str
    file: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    return (Block(*groups) for groups in BLOCK.findall(page.read_text()))


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
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial(page: Path, tmp_path: Path, shell: dict[str, str]) -> None:
    work, said, checked = tmp_path / "work", "", 0
    work.mkdir()
    for block in blocks(page):
        if block.file:
            path = work / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
        elif block.language == "sh":
            command = ["bash", "-e", "-o", "pipefail", "-c", block.text]
            found = subprocess.run(
                command, cwd=work, env=shell, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
            )
            said = found.stdout
            assert found.returncode == 0, said
        elif block.language == "text":
            # Progress is printed beside the answer; of a line only the last state counts.
            lines = [line.rpartition("\r")[2] for line in said.splitlines()]
            assert re.fullmatch(rf"(?:.*\n)*?{pattern(block.text)}", "\n".join(lines) + "\n"), said
            checked += 1
        else:
            pytest.fail(f"{page.name} has a block of {block.language} that nobody runs")
    assert checked >= 2


def test_expected_output_has_gaps_only_where_it_says_so() -> None:
    assert re.fullmatch(pattern("a 1...\n...\nb\n"), "a  1.25 x\nmore\nand more\nb\n")
    assert re.fullmatch(pattern("a 1...\n...\nb\n"), "a 1\nb\n")
    assert not re.fullmatch(pattern("a 1...\nb\n"), "a 2\nb\n")
    assert not re.fullmatch(pattern("a\nb\n"), "a\nc\nb\n")
