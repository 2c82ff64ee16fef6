"""The documentation site builds without a warning, and its search finds every command, column and switch."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import sweeper
from sweeper.cli import main
from sweeper.inputs.families import families
from sweeper.kernels.codes import CHOICES, SWITCHES
from sweeper.words.numbers import NUMBERS
from tests.places import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [str(Path(sys.executable).with_name("mkdocs")), "build", "--strict", "-q", "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0 and "WARNING" not in built.stderr, built.stderr
    return folder


@pytest.fixture(scope="module")
def found(site: Path) -> set[str]:
    """Words that the search of the site knows."""
    index = json.loads((site / "search" / "search_index.json").read_text())
    texts = (f"{page['title']} {page['text']}" for page in index["docs"])
    return {word for text in texts for word in re.findall(r"[\w.-]+", re.sub(r"<[^>]+>", " ", text))}


@pytest.mark.slow
def test_the_search_finds_every_command_option_column_and_name(found: set[str]) -> None:
    outputs = (o for family in families().values() for equation in family.equations for o in equation.outputs)
    columns = {output.name for output in outputs if not output.shape}
    options = {
        word
        for command in main.commands.values()
        for each in command.params
        if isinstance(each, click.Option)
        for word in each.opts
    }
    wanted = {
        *main.commands,
        *options,
        *columns,
        *SWITCHES,
        *CHOICES,
        *NUMBERS,
        *(f"sweeper.{name}" for name in sweeper.__all__),
    }
    assert len(wanted) > 600
    assert sorted(wanted - found) == []


@pytest.mark.slow
def test_pages_ask_nobody_else_for_anything(site: Path) -> None:
    """Scripts, styles and fonts come with the site."""
    for page in site.rglob("*.html"):
        asked = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', page.read_text())
        assert asked == [], page


@pytest.mark.slow
def test_public_names_say_what_they_take(site: Path) -> None:
    text = (site / "reference" / "python.html").read_text()
    for name in sweeper.__all__:
        assert f"sweeper.{name}<" in text, name
