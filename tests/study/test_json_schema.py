"""The JSON Schema takes what the reader takes, and refuses by itself what it can tell."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sweeper.cli import main
from sweeper.errors import SpecError, UsageFault
from sweeper.library.library import FOLDERS, Library, builtin_specs
from sweeper.reading.nodes import read_yaml
from sweeper.reading.units import QuantityError, attribute_value
from sweeper.study.json_schema import schema_of
from sweeper.words.system import NUMERIC
from tests.places import ROOT, STUDIES
from tests.reading.test_bad_specs import CHIPS, LIBRARY_CASES, STUDY_CASES
from tests.support.small_specs import FILES, STUDY, write_files

EXAMPLES = sorted((ROOT / "examples").glob("*_study.yaml"))
MY_LIBRARY = ROOT / "examples" / "my_library"

USER_MISTAKES = {
    "unknown key", "no name", "name with a slash", "list as a title", "unknown column", "unknown attribute",
    "axes is a list", "unknown entry", "entry of another kind", "no unit", "wrong dimension", "unknown unit",
    "fraction of a chip", "word", "empty list", "duplicate value", "unknown generator", "too few ends",
    "numbers for names", "unknown column of a table", "unknown choice", "unknown sense", "boolean as a word",
    "mode without objective",
}  # fmt: skip
"""Mistakes of users, one of each kind. That values are the same in other units, or that a mode needs another key, no
schema tells."""


def validator(kind: str, *directories: Path) -> Draft202012Validator:
    schema = json.loads(json.dumps(schema_of(kind, Library.over(directories))))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.fixture(scope="module")
def study() -> Draft202012Validator:
    return validator("study", MY_LIBRARY)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Draft202012Validator:
    """The schema of a study of the small library."""
    return validator("study", write_files(tmp_path_factory.mktemp("small"), FILES))


@pytest.mark.parametrize("path", [*STUDIES, *EXAMPLES], ids=lambda path: path.stem)
def test_every_study_is_valid(path: Path, study: Draft202012Validator) -> None:
    assert [error.message for error in study.iter_errors(read_yaml(path).plain())] == []


@pytest.mark.parametrize("kind", FOLDERS)
def test_every_library_file_is_valid(kind: str) -> None:
    schema = validator(kind, MY_LIBRARY)
    for base in (builtin_specs(), MY_LIBRARY):
        for path in (base / FOLDERS[kind]).glob("*.yaml"):
            assert [error.message for error in schema.iter_errors(read_yaml(path).plain())] == [], path


def is_valid(schema: Draft202012Validator, text: str, folder: Path) -> bool | None:
    """Whether a text is valid; None if it is no YAML."""
    path = folder / "text.yaml"
    path.write_text(text)
    try:
        return bool(schema.is_valid(read_yaml(path).plain()))
    except SpecError:
        return None


def test_most_mistakes_of_users_are_told_by_the_schema_alone(small: Draft202012Validator, tmp_path: Path) -> None:
    assert is_valid(small, STUDY, tmp_path) is True
    cases = {case.name: case for case in STUDY_CASES}
    assert len(USER_MISTAKES) == 24 and cases.keys() >= USER_MISTAKES
    missed = [
        name for name in USER_MISTAKES if is_valid(small, STUDY.replace(cases[name].old, cases[name].new), tmp_path)
    ]
    assert sorted(missed) == ["duplicate value", "mode without objective"]
    assert "Of 24 mistakes that\nusers make the schema alone tells 22" in (ROOT / "docs" / "guide.md").read_text()


def test_of_all_mistakes_that_are_yaml_the_schema_tells_most(small: Draft202012Validator, tmp_path: Path) -> None:
    edits = [STUDY.replace(case.old, case.new) for case in STUDY_CASES if case.file == "study.yaml"]
    found = [valid for text in edits if (valid := is_valid(small, text, tmp_path)) is not None]
    assert found.count(False) >= 48 and len(found) == 89


def test_mistakes_in_a_library_file(tmp_path: Path) -> None:
    schema = validator("chip")
    assert is_valid(schema, FILES[CHIPS], tmp_path) is True
    edits = {case.name: FILES[CHIPS].replace(case.old, case.new) for case in LIBRARY_CASES if case.file == CHIPS}
    told = {name for name, text in edits.items() if is_valid(schema, text, tmp_path) is False}
    assert told >= {
        "unknown number",
        "unknown grade",
        "wrong unit",
        "fractional cores",
        "empty source",
        "entry is text",
    }


UNITS = [
    "",
    " GB/s",
    " B",
    " ns",
    "Tflop/s",
    " usd",
    " %",
    " kWh",
    " W",
    " usd/year",
    " mm^2",
    " pJ/b",
    " Gb s^-1",
    " mm2",
]


@given(
    st.sampled_from(sorted(NUMERIC)),
    st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.sampled_from([0, 1, 8, 1e3, 0.5]),
    st.sampled_from(
        ["", " GB/s", " B", " ns", "Tflop/s", " usd", " %", " kWh", " W", " usd/year", " mm^2", " pJ/b", " flop/s/W"]
    ),
)
def test_what_the_reader_takes_is_valid(column: str, number: float, unit: str) -> None:
    """The schema may take more, but never less: no number that can be read is underlined."""
    written: Any = f"{number}{unit}" if unit else number
    try:
        attribute_value(written, NUMERIC[column])
    except QuantityError:
        return
    assert SCHEMA.is_valid({"study": "s", "axes": {column: [written]}})


SCHEMA = validator("study")


def test_the_command_prints_the_schema_of_a_kind() -> None:
    printed = CliRunner().invoke(main, ["schema", "link"])
    assert printed.exit_code == 0 and json.loads(printed.output) == json.loads(
        json.dumps(schema_of("link", Library.over()))
    )
    with pytest.raises(UsageFault, match="did you mean 'chip'"):
        schema_of("chips", Library.over())
