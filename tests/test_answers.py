"""What commands answer in JSON has the keys that `docs/file_formats.md` lists in its table of answers about designs."""

import json
import re
from dataclasses import fields

import pytest
from click.testing import CliRunner

from sweeper.cli import main
from sweeper.views.sensitivity.answer import Elasticity, Policy, Sensitivity, Step
from sweeper.views.sensitivity.break_even import BreakEven, BreakEvens
from tests.places import ROOT


def documented(shown: str) -> set[str]:
    """Keys of a command in the table."""
    text = (ROOT / "docs" / "file_formats.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| `sweeper {shown}` \| (.*) \|$", text, re.M)
    return set(re.findall(r"`(\w+)`", row))


def keys_within(value: object) -> set[str]:
    """Names of the keys of a JSON document, at any depth."""
    if isinstance(value, dict):
        return {*value}.union(*map(keys_within, value.values()))
    return set().union(*map(keys_within, value)) if isinstance(value, list) else set()


DESIGNS = {
    "cost DESIGN": [["a100", "--draws", "300"], ["a100", "--draws", "300", "--versus", "h100"]],
    "cost-check": [[]],
    "generate TEMPLATE": [["gpu_n7"]],
    "grades FILE": [[str(ROOT / "examples" / "grades.yaml"), "--draws", "3"]],
    "portfolio FILE": [[str(ROOT / "examples" / "portfolio.yaml")]],
}
"""Commands of the table of answers about designs, and arguments with which they have all their keys."""
BY_NAME = {"settings", "units", "made_of", "budgets", "facts", "places", "unpriced"}
"""Keys of these whose own keys are names of other things, where they are a dictionary."""


@pytest.mark.parametrize("shown", DESIGNS)
def test_keys_of_answers_about_designs(shown: str) -> None:
    found = set[str]()
    for arguments in DESIGNS[shown]:
        answer = json.loads(CliRunner().invoke(main, [shown.split()[0], *arguments, "--json"]).stdout)
        parts = [answer, *(part for part in answer.values() if isinstance(part, dict))]
        named = [part[key] for part in parts for key in BY_NAME & part.keys() if isinstance(part[key], dict)]
        names = set[str]().union(*map(keys_within, named))
        found |= keys_within(answer) - names
    assert documented(shown) == found


@pytest.mark.parametrize(
    ("shown", "answer"), [("sensitivity STUDY", Sensitivity), ("break-even STUDY NUMBER AXIS", BreakEvens)]
)
def test_keys_of_answers_about_what_a_study_depends_on(shown: str, answer: type) -> None:
    held = {"elasticities": Elasticity, "steps": Step, "policies": Policy, "options": BreakEven}
    named = {field.name for field in fields(answer)}
    inner = {field.name for name in named & held.keys() for field in fields(held[name])}
    assert documented(shown) - {"run"} == named | inner
