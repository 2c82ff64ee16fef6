"""Every example of CONTRIBUTING.md: its edits are applied to a copy of the project, and its check holds there."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.places import ROOT

MOST_FILES = {"a collective": 3, "a parallelism dimension": 6, "a backend": 2, "a family": 4, "an output format": 2}
"""What may be added, and how many files a newcomer touches at most."""

STEP = re.compile(
    r"^(?:New file `(?P<new>[^`]+)`"
    r"|In `(?P<file>[^`]+)`, (?P<how>after|before|instead of) `(?P<anchor>[^`]+)`"
    r"|[^\n]*Check):\n\n```python\n(?P<code>.*?)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass
class Example:
    """Files to make, edits (file, how, anchor, text), and the code that must then run."""

    new: dict[str, str] = field(default_factory=dict)
    edits: list[tuple[str, str, str, str]] = field(default_factory=list)
    check: str = ""

    @property
    def files(self) -> set[str]:
        """Files that it touches."""
        return {*self.new, *(file for file, *_ in self.edits)}


def examples() -> dict[str, Example]:
    """The examples of the page by what they add."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = {}
    for section in text.split("\n## Add ")[1:]:
        title, _, body = section.partition("\n")
        found[title] = Example()
        blocks = 0
        for step in STEP.finditer(body):
            blocks += 1
            if step["new"]:
                found[title].new[step["new"]] = step["code"]
            elif step["file"]:
                found[title].edits.append((step["file"], step["how"], step["anchor"], step["code"]))
            else:
                found[title].check = step["code"]
        assert blocks == body.count("```python"), f"a block of {title!r} says neither file nor check"
    return found


EXAMPLES = examples()


def edited(text: str, how: str, anchor: str, code: str) -> str:
    """A text with lines put after, before or instead of the only line that begins with the anchor."""
    lines = text.splitlines(keepends=True)
    at = [number for number, line in enumerate(lines) if line.startswith(anchor)]
    assert len(at) == 1, f"{len(at)} lines begin with {anchor!r}"
    first = at[0] + (how == "after")
    lines[first : first + (how == "instead of")] = [code]
    return "".join(lines)


def test_the_page_shows_what_newcomers_add() -> None:
    assert EXAMPLES.keys() == MOST_FILES.keys()
    assert all(example.check for example in EXAMPLES.values())


@pytest.mark.parametrize("name", MOST_FILES)
def test_an_example_holds(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    assert len(example.files) <= MOST_FILES[name]
    for folder in ("kernels", "sweeper", "specs", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for file, code in example.new.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(code)
    for file, how, anchor, code in example.edits:
        (tmp_path / file).write_text(edited((tmp_path / file).read_text(), how, anchor, code))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "SWEEPER_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", f"import sweeper\n{example.check}"]
    checked = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
