"""The documents keep up with the code: switches, choices, numbers and constants, commands, paths, links, studies."""

import ast
import importlib.util
import json
import pkgutil
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
import yaml
from click.testing import CliRunner

import sweeper
from benchmarks.__main__ import PARTS
from replications import cost_check
from sweeper.cli import main
from sweeper.commands.runs import carry_out
from sweeper.commands.shared import command
from sweeper.kernels.codes import CHOICES, FORMATS, REASONS, SWITCHES
from sweeper.kernels.equation import declared
from sweeper.library.library import builtin_specs
from sweeper.reading.limits import possible
from sweeper.words.attributes import Attribute
from sweeper.words.defaults import CHOICE_DEFAULTS, SWITCH_DEFAULTS
from sweeper.words.numbers import NUMBERS
from sweeper.words.system import ATTRIBUTES
from tests.places import ROOT, STUDIES
from tests.support.fake_plan import FakePlan

DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / folder / "README.md" for folder in ("specs", "results", "tests/data", "replications/data")),
]
README = ROOT / "README.md"
MOST_README_LINES = 150
ASSUMPTIONS = (ROOT / "docs" / "assumptions.md").read_text(encoding="utf-8")


def text_of(document: Path) -> str:
    return document.read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """Fenced blocks of a language, with a title or without."""
    return re.findall(rf'^```{language}(?: title="[^"]*")?\n(.*?)^```', text, re.DOTALL | re.MULTILINE)


def sections(text: str) -> dict[str, str]:
    """Sections about one name each: `### `name``, up to the next heading."""
    marks = [*re.finditer(r"^##+ .*$", text, re.MULTILINE)]
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return {mark.group().lstrip("# ").strip("`"): text[mark.end() : end] for mark, end in zip(marks, ends, strict=True)}


def prose(text: str) -> str:
    """A text without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text: str) -> set[str]:
    """Anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
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
    elif row.group(1).startswith("a format, "):
        assert CHOICES[choice] == (*FORMATS, row.group(1).removeprefix("a format, ").strip("`"))
    else:
        assert re.findall(r"`(\w+)`", row.group(1)) == list(CHOICES[choice])


def test_every_format_is_named() -> None:
    named = re.search(r"^A format is one of (.+?)\. ", sections(ASSUMPTIONS)["Choices"], re.MULTILINE)
    assert named is not None
    assert re.findall(r"`(\w+)`", named.group(1)) == list(FORMATS)


def explained(section: str, name: str) -> tuple[str, ...] | None:
    """Unit, default and range of a name in the tables of a section."""
    row = re.search(
        rf"^\| `{name}` \| (\S*) ?\| (\S+) \| ([^|]+) \| .+ \|$", sections(ASSUMPTIONS)[section], re.MULTILINE
    )
    return row.groups() if row else None


def stated(attribute: Attribute) -> tuple[str, str, str]:
    """Unit, default and range as the documents write them."""
    return attribute.unit, "none" if attribute.default is None else f"{attribute.default:g}", possible(attribute)


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
    return sorted(
        {re.split(r"  #| > (?![^\n]*\")", line)[0].strip() for line in [*lines, *inline] if line.startswith(starts)}
    )


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
        # With its parent, whose names of the help option a command keeps from its first context on.
        parent = main.make_context("sweeper", [str(found.name)], resilient_parsing=True)
        found.make_context(str(found.name), values, parent=parent)


def test_the_cost_check_is_documented() -> None:
    assert any(command.startswith(f"{COST_CHECK} --designs") for command in commands())


def parts_of_benchmarks(text: str) -> list[str]:
    """Parts that a text tells to measure."""
    return re.findall(r"(?:python -m benchmarks|make bench ARGS=\")[^`\n]*--only (\w+)", text)


def test_measured_parts_exist() -> None:
    named = {part for document in DOCUMENTS for part in parts_of_benchmarks(text_of(document))} - {"PART"}
    assert named
    assert named <= PARTS.keys()


def documented_keys(command: str) -> list[str]:
    """Keys of the JSON document that a command answers with, as `docs/file_formats.md` lists them."""
    found = re.search(rf"`{command} --json`:((?:\s+`\w+`[,.])+)", text_of(ROOT / "docs" / "file_formats.md"))
    assert found is not None
    return re.findall(r"`(\w+)`", found.group(1))


def test_keys_of_a_plan_a_run_and_its_state(tmp_path: Path) -> None:
    how = {
        "address": None,
        "backend": "local",
        "quiet": True,
        "retries": 2,
        "fail_fast": False,
        "chunk_timeout_s": None,
        "chunk_seconds": None,
    }

    @command()
    def run() -> None:
        carry_out(FakePlan(), str(tmp_path), how, str)

    call = CliRunner().invoke
    planned = json.loads(call(main, ["plan", "dse80", "--json"]).stdout)
    done = json.loads(call(run, ["--json"]).stdout)
    state = json.loads(call(main, ["status", done["run_directory"], "--json"]).stdout)
    assert documented_keys("sweeper plan STUDY") == list(planned)
    assert documented_keys("sweeper run STUDY") == list(done)
    assert documented_keys("sweeper status STUDY") == list(state)


def broken_links(text: str, document: Path) -> list[str]:
    """Relative links of a document whose file or heading does not exist."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        path, _, anchor = target.partition("#")
        linked = (document.parent / path).resolve() if path else document
        if "://" not in target and not (linked.exists() and (not anchor or anchor in anchors(text_of(linked)))):
            broken.append(target)
    return broken


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_resolve(document: Path) -> None:
    assert broken_links(text_of(document), document) == []


def test_a_broken_link_is_seen() -> None:
    planted = "[a](docs/guide.md#a-cluster) [b](docs/gide.md) [c](docs/guide.md#a-clutter) [d](https://example.org/x)"
    assert broken_links(planted, README) == ["docs/gide.md", "docs/guide.md#a-clutter"]


ROOMS = ("sweeper", "kernels", "tests", "replications", "benchmarks", "specs", "docs", "examples")
"""Folders of the checkout that documents speak of."""
WITH_PATHS = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "specs" / "README.md"]
"""Documents whose paths are those of this checkout."""


def stale_paths(text: str, document: Path) -> list[str]:
    """Paths and modules that a document names as code or in a command, and that the checkout lacks.

    A path starts with one of our folders, or is one of a source or data file; of a bare `name.py` any file will do.
    What an example tells to make (``New file `path` ``) need not exist.
    """
    made = {path for new in re.findall(r"New file `([^`]+)`", text) for path in (new, str(Path(new).parent))}
    code = [*re.findall(r"`([^`\n]+)`", prose(text)), *blocks(text, "sh")]
    named = [word.rstrip("/.,:;") for part in code for word in re.findall(r"[\w./*-]+", part)]
    return [name for name in dict.fromkeys(named) if name not in made and not _exists(name, document)]


def _exists(name: str, document: Path) -> bool:
    """Whether a path or a dotted name is there; True for other words."""
    if re.fullmatch(rf"(?:{'|'.join(ROOMS)})/.+|[\w.*-]+/.*\.(?:py|md|yaml|csv|gz|cpp|toml)", name):
        started = name.startswith(("results/", "my_library/"))  # what the reader makes
        return started or any(next(base.glob(name), None) is not None for base in (ROOT, document.parent))
    if re.fullmatch(r"\w+\.py", name):
        return any(next((ROOT / room).rglob(name), None) is not None for room in ROOMS)
    if re.fullmatch(r"replications\.\w[\w.]*|sweeper\.\w+\.\w[\w.]*", name):
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            return False
    return True


@pytest.mark.parametrize("document", WITH_PATHS, ids=lambda path: str(path.relative_to(ROOT)))
def test_paths_exist(document: Path) -> None:
    assert stale_paths(text_of(document), document) == []


def test_a_stale_path_is_seen() -> None:
    there = "`kernels/equation.py`, `sweeper/engine/`, `tests/twins/naive*.py`, `sweeper.kernels.models.MODELS`, "
    there += "`3072 GB/s`, "
    stale = ["sweeper/words.py", "tests/naive*.py", "scrips/run.py", "planing.py", "sweeper.kernels.MODELS"]
    stale += ["specs/chip"]
    planted = there + ", ".join(f"`{name}`" for name in stale[:-1]) + f"\n```sh\nls {stale[-1]}\n```\n"
    assert stale_paths(planted, README) == stale


@pytest.mark.parametrize("folder", ["tests/data", "replications/data"])
def test_every_published_table_has_a_row(folder: str) -> None:
    listed = re.findall(r"^\| `([^`]+)` \| .+ \| .+ \|$", text_of(ROOT / folder / "README.md"), re.MULTILINE)
    present = [path.name for path in (ROOT / folder).iterdir() if path.suffix in (".csv", ".gz")]
    assert sorted(listed) == sorted(present)


def stray_rows(text: str) -> list[str]:
    """Rows that do not stand in a table: one begins with a header and the line of dashes below it."""
    tables = re.findall(r"(?:^\|.*\n?)+", prose(text), re.MULTILINE)
    return [table for table in tables if not re.match(r"\|.*\n\|(?:---\|)+\n", table)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_rows_stand_in_tables(document: Path) -> None:
    assert stray_rows(text_of(document)) == []


def test_a_stray_row_is_seen() -> None:
    assert stray_rows("| a | b |\n|---|---|\n| 1 | 2 |\n\ntext\n| 3 | 4 |\n") == ["| 3 | 4 |\n"]


def test_the_readme_is_short() -> None:
    assert len(text_of(README).splitlines()) <= MOST_README_LINES


def names_of_sweeper(text: str) -> Iterator[str]:
    """Public names that the Python examples of a document use."""
    for block in blocks(text, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sweeper":
                yield node.attr


@pytest.mark.parametrize("document", ["README.md", "docs/guide.md"])
def test_python_examples_use_public_names(document: str) -> None:
    names = set(names_of_sweeper(text_of(ROOT / document)))
    assert names
    assert names <= set(sweeper.__all__)


def test_the_equation_of_the_guide(tmp_path: Path) -> None:
    """The example as a module: its equation is found and computes."""
    (block,) = [part for part in blocks(text_of(ROOT / "docs" / "guide.md"), "python") if "@equation" in part]
    path = tmp_path / "energy_of_the_guide.py"
    path.write_text(block)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (found,) = declared(module)
    assert found.inputs == ("system_power_W", "iteration_time_s")
    assert found({"system_power_W": 2.0, "iteration_time_s": 3.0}) == 6.0


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.stem)
def test_studies_are_valid(study: Path) -> None:
    assert sweeper.plan(study).point_count > 0


@pytest.mark.parametrize(
    ("document", "points"),
    [
        ("README.md", [2112]),
        ("docs/guide.md", [1224, 120, 18]),
        ("docs/mapping.md", [8]),
        ("docs/file_formats.md", [352]),
    ],
)
def test_the_studies_of_a_document_are_valid(document: str, points: list[int], tmp_path: Path) -> None:
    studies = [block for block in blocks(text_of(ROOT / document), "yaml") if block.startswith("study:")]
    path = tmp_path / "study.yaml"
    found = []
    for study in studies:
        path.write_text(study)
        found.append(sweeper.plan(path).point_count)
    assert found == points


def test_counts_in_the_readme() -> None:
    readme = text_of(README)
    assert f"{len(SWITCHES)} switches, {len(CHOICES)} choices and {len(NUMBERS)} numbers" in readme
    assert f"{sweeper.plan(builtin_specs() / 'studies' / 'dse80.yaml').point_count:,} points" in readme


def test_speeds_of_peers_are_those_that_were_measured() -> None:
    """The page that compares copies figures; after a new measurement both pages have to change."""
    page, measured = (text_of(ROOT / "docs" / f"{name}.md") for name in ("compare", "speed"))
    section = page.partition("## Measured speed")[2].partition("\n## ")[0]
    rows = [row.split("|")[3:6] for row in section.splitlines() if row.startswith("| ") and "`" in row][1:]
    figures = {figure for cells in rows for cell in cells for figure in re.findall(r"[\d,.]*\d", cell)}
    known = {*re.findall(r"[\d,.]*\d", measured), *re.findall(r"[\d,.]*\d", text_of(README))}
    assert len(figures) > 30
    assert sorted(figures - known) == []


def test_the_answer_of_the_readme(tmp_path: Path) -> None:
    """The study of the README, run, gives the figures that it names."""
    readme = text_of(README)
    path = tmp_path / "bandwidth.yaml"
    path.write_text(next(text for text in blocks(readme, "yaml") if text.startswith("study: bandwidth")))
    result = sweeper.run(sweeper.plan(path), out=tmp_path, quiet=True)
    said = re.search(r"\(utilisation\): H100 ([\d., ]+); TPU v4 ([\d., ]+?)\.\s", readme)
    assert said is not None
    for chip, figures in zip(("h100_sxm", "tpu_v4"), said.groups(), strict=True):
        rows = sweeper.scan(result.directory).filter(pl.col("chip") == chip).sort("memory_bandwidth_Bps").collect()
        assert [f"{value:.2f}" for value in rows["utilisation"]] == figures.split(", ")
