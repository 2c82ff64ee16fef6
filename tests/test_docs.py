"""The documents keep up with the code: switches, choices, numbers and constants, commands, links, studies."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

import sweeper
from kernels.codes import CHOICES, FORMATS, REASONS, SWITCHES
from replications import cost_check
from sweeper.cli import main
from sweeper.library.library import builtin_specs
from sweeper.words.attributes import Attribute
from sweeper.words.defaults import CHOICE_DEFAULTS, SWITCH_DEFAULTS
from sweeper.words.numbers import NUMBERS
from sweeper.words.system import ATTRIBUTES
from tests.places import ROOT

DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / folder / "README.md" for folder in ("specs", "results", "tests/data", "replications/data")),
]
STUDIES = sorted((builtin_specs() / "studies").glob("*.yaml"))
ASSUMPTIONS = (ROOT / "docs" / "assumptions.md").read_text(encoding="utf-8")


def text_of(document: Path) -> str:
    return document.read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """Fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def sections(text: str) -> dict[str, str]:
    """Sections about one name each: `### `name``, up to the next heading."""
    marks = [*re.finditer(r"^##+ .*$", text, re.MULTILINE)]
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return {mark.group().lstrip("# ").strip("`"): text[mark.end() : end] for mark, end in zip(marks, ends, strict=True)}


def anchors(text: str) -> set[str]:
    """Anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("switch", SWITCHES)
def test_every_switch_is_explained(switch: str) -> None:
    section = sections(ASSUMPTIONS)[switch]
    explained = re.findall(r"^\| `(\w+)` \| .+ \|$", section, re.MULTILINE)
    assert explained == list(SWITCHES[switch])
    default = re.search(r"^Default (?:and published )?`(\w+)`", section, re.MULTILINE)
    assert default is not None
    assert default.group(1) == SWITCH_DEFAULTS[switch]


@pytest.mark.parametrize("switch", SWITCHES)
def test_what_the_published_study_assumes(switch: str) -> None:
    entry = yaml.safe_load((builtin_specs() / "assumptions" / "dfmodel.yaml").read_text(encoding="utf-8"))
    published = re.search(r"published `(\w+)`", sections(ASSUMPTIONS)[switch])
    assert published is not None
    assert published.group(1) == entry["dfmodel_published"]["values"][switch]


@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_is_explained(choice: str) -> None:
    section = sections(ASSUMPTIONS)["Choices"]
    row = re.search(rf"^\| `{choice}` \| (.+?) \| `(\w+)` \| .+ \|$", section, re.MULTILINE)
    assert row is not None
    assert row.group(2) == CHOICE_DEFAULTS[choice]
    if row.group(1) == "a format":
        assert CHOICES[choice] == FORMATS
    else:
        assert re.findall(r"`(\w+)`", row.group(1)) == list(CHOICES[choice])


def test_every_format_is_named() -> None:
    named = re.search(r"^A format is one of (.+?)\. ", sections(ASSUMPTIONS)["Choices"], re.MULTILINE)
    assert named is not None
    assert re.findall(r"`(\w+)`", named.group(1)) == list(FORMATS)


def explained(section: str, name: str) -> tuple[str, ...] | None:
    """Unit and default of a name in the tables of a section."""
    row = re.search(rf"^\| `{name}` \| (\S*) ?\| (\S+) \| .+ \|$", sections(ASSUMPTIONS)[section], re.MULTILINE)
    return row.groups() if row else None


def stated(attribute: Attribute) -> tuple[str, str]:
    """Unit and default as the documents write them."""
    return attribute.unit, "none" if attribute.default is None else f"{attribute.default:g}"


@pytest.mark.parametrize("number", NUMBERS)
def test_every_number_is_explained(number: str) -> None:
    assert explained("Numbers", number) == stated(NUMBERS[number])


@pytest.mark.parametrize("constant", ATTRIBUTES["calibration"])
def test_every_constant_of_a_calibration_is_explained(constant: str) -> None:
    section = "Constants and traits of a software stack"
    assert explained(section, constant) == stated(ATTRIBUTES["calibration"][constant])


def test_every_reason_is_named() -> None:
    named = re.findall(r"`(\w+)`", text_of(ROOT / "docs" / "file_formats.md"))
    places = [named.index(reason) for reason in REASONS if reason]
    assert all(before < after for before, after in pairwise(places))


COST_CHECK = "python -m replications.cost_check"


def commands() -> list[str]:
    starts = ("sweeper ", COST_CHECK)
    lines = [line for document in DOCUMENTS for block in blocks(text_of(document), "sh") for line in block.splitlines()]
    quoted = re.compile(r"`((?:sweeper|python -m) [^`]+)`")
    inline = [code for document in DOCUMENTS for code in quoted.findall(text_of(document))]
    return sorted({line.split("  #")[0].strip() for line in [*lines, *inline] if line.startswith(starts)})


@pytest.mark.parametrize("command", commands())
def test_commands_parse(command: str) -> None:
    """Without running them: the command exists, and takes these options and arguments."""
    if command.startswith(COST_CHECK):
        found, arguments = cost_check.main, shlex.split(command.removeprefix(COST_CHECK))
    else:
        name, *arguments = shlex.split(command)[1:]
        found = main.commands[name]
    if arguments:
        values = ["0" if argument in ("POINT", "POINT_ID") else argument for argument in arguments]
        found.make_context(str(found.name), values)


def test_the_cost_check_is_documented() -> None:
    assert any(command.startswith(f"{COST_CHECK} --designs") for command in commands())


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_resolve(document: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", text_of(document)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (document.parent / path).resolve() if path else document
        assert linked.exists(), target
        assert not anchor or anchor in anchors(text_of(linked)), target


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.stem)
def test_studies_are_valid(study: Path) -> None:
    assert sweeper.plan(study).point_count > 0


@pytest.mark.parametrize(("document", "points"), [("README.md", [2112, 1224, 18]), ("docs/file_formats.md", [352])])
def test_the_studies_of_a_document_are_valid(document: str, points: list[int], tmp_path: Path) -> None:
    studies = [block for block in blocks(text_of(ROOT / document), "yaml") if block.startswith("study:")]
    path = tmp_path / "study.yaml"
    found = []
    for study in studies:
        path.write_text(study)
        found.append(sweeper.plan(path).point_count)
    assert found == points


def test_counts_in_the_readme() -> None:
    readme = text_of(ROOT / "README.md")
    assert f"{len(SWITCHES)} switches, {len(CHOICES)} choices and {len(NUMBERS)} numbers" in readme
    assert f"{sweeper.plan(builtin_specs() / 'studies' / 'dse80.yaml').point_count:,} points" in readme
