"""Commands: exit codes, what they hand on, and answers that other programs can read."""

import json
import math
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from sweeper.cli import main
from sweeper.commands.runs import carry_out
from sweeper.commands.shared import as_json, command, echo, library_of
from sweeper.errors import UsageFault
from sweeper.running import execution
from tests.support.fake_plan import FakePlan

HOW: dict[str, Any] = {
    "backend": "local", "workers": None, "address": None, "retries": 0, "fail_fast": False, "chunk_timeout_s": None,
    "chunk_seconds": None,
    "quiet": True,
}  # fmt: skip


def carried_out(plan: FakePlan, out: Path, **how: Any) -> Result:
    """What the command line does with a plan."""

    @command()
    def carry() -> None:
        carry_out(plan, str(out), {**HOW, **how}, lambda directory: "the answer")

    return CliRunner().invoke(carry, [])


def test_a_run_ends_with_its_answer_and_one_with_failed_chunks_without(tmp_path: Path) -> None:
    whole = carried_out(FakePlan(), tmp_path / "whole")
    assert whole.exit_code == 0 and whole.stdout.startswith("the answer\n5,500 points, 5,500 rows in ")
    broken = carried_out(FakePlan(fail=(2,)), tmp_path / "broken")
    assert broken.exit_code == 1
    assert "the answer" not in broken.output and "chunk 2 is cursed" in broken.stderr
    assert "1 chunks failed; to try them again, repeat the command" in broken.stderr
    assert (
        "chunk 2: ValueError: chunk 2 is cursed (attempts: 2)"
        in carried_out(FakePlan(fail=(2,)), tmp_path / "again", retries=1).stderr
    )


def test_an_address_is_one_of_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def named(backend: str, workers: int | None) -> Any:
        asked.append(backend)
        raise UsageFault("enough")

    monkeypatch.setattr(execution, "backend_named", named)
    for address in (None, "auto"):
        carried_out(FakePlan(), tmp_path, address=address)
    assert asked == ["local", "ray"]


def test_what_is_unknown_is_null() -> None:
    value = {"a": math.nan, "b": [1.0, math.nan, "x"], "c": {"d": (math.nan,)}, "e": 2}
    assert json.loads(as_json(value)) == {"a": None, "b": [1.0, None, "x"], "c": {"d": [None]}, "e": 2}
    assert "NaN" not in as_json(value)


@pytest.mark.parametrize(("within", "exit_code"), [(True, 0), (False, 1), (None, 1)])
def test_a_figure_outside_its_tolerance_fails_the_check(
    monkeypatch: pytest.MonkeyPatch, within: bool | None, exit_code: int
) -> None:
    keys = ("claim", "published", "as_published", "full_physics", "verdict", "changes", "why")
    good, other = ({"id": name, **dict.fromkeys(keys, ""), "within": True} for name in ("good", "other"))
    monkeypatch.setattr("sweeper.evidence.tables.published_claims", lambda name: [good, {**other, "within": within}])
    asked = CliRunner().invoke(main, ["claims", "dfmodel", "--check"])
    assert asked.exit_code == exit_code
    assert ("outside tolerance: other" in asked.stderr) == (exit_code == 1)
    assert CliRunner().invoke(main, ["claims", "dfmodel"]).exit_code == 0


def test_a_library_of_ones_own_comes_before_ours(tmp_path: Path) -> None:
    (tmp_path / "chips").mkdir()
    (tmp_path / "chips" / "mine.yaml").write_text(
        "h100_sxm: {extends: h100_sxm, source: mine, grade: assumed, power: 1 W}\n"
    )
    ours, mine = library_of([]), library_of([str(tmp_path)])
    assert ours.find("chip", "h100_sxm").values["power"].number > 100.0
    assert mine.find("chip", "h100_sxm").values["power"].number == 1.0


def test_options_of_runs_are_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def record(plan: Any, out: str, how: dict[str, Any], answer: object) -> None:
        asked.update(how, out=out, study=plan.name)

    monkeypatch.setattr("sweeper.commands.runs.carry_out", record)
    options = [
        "--backend",
        "ray",
        "--workers",
        "3",
        "--threads",
        "2",
        "--retries",
        "5",
        "--fail-fast",
        "--verify",
        "--chunk-timeout",
        "7",
        "-q",
        "--out",
        str(tmp_path),
    ]
    result = CliRunner().invoke(main, ["run", "table6_sn10", *options])
    assert result.exit_code == 0, result.output
    assert asked == {
        "backend": "ray", "workers": 3, "threads": 2, "address": None, "retries": 5, "fail_fast": True,
        "verify": True, "chunk_timeout_s": 7.0, "chunk_seconds": None,
        "quiet": True,
        "out": str(tmp_path), "study": "table6_sn10",
    }  # fmt: skip


def test_errors_of_the_user_are_one_message_and_bugs_are_tracebacks() -> None:
    @command()
    @click.argument("kind")
    def fail(kind: str) -> None:
        raise {"file": FileNotFoundError(2, "No such file", "x.csv"), "bug": KeyError("odd")}[kind]

    file = CliRunner().invoke(fail, ["file"])
    assert (file.exit_code, file.stderr) == (3, "x.csv: No such file\n")
    assert isinstance(CliRunner().invoke(fail, ["bug"]).exception, KeyError)


@pytest.mark.parametrize("option", ["--chunk-timeout", "--chunk-seconds"])
def test_seconds_are_a_finite_number_and_for_workers_only(option: str) -> None:
    for value, words in (("nan", "is not a finite number of seconds"), ("inf", "is not a finite"), ("-1", "range")):
        result = CliRunner().invoke(main, ["run", "table6_sn10", option, value])
        assert result.exit_code == 2 and words in result.output
    result = CliRunner().invoke(main, ["run", "table6_sn10", option, "3"])
    assert result.exit_code == 2 and f"add --backend ray to {option}" in result.output


def test_an_option_of_one_value_is_given_once() -> None:
    twice = CliRunner().invoke(main, ["cost", "chiplets", "--node", "n5", "--set", "node.mask_set=1", "--node=n7"])
    assert twice.exit_code == 2 and "--node is given twice" in twice.stderr and twice.stdout == ""
    repeated = ["--set", "package.power=200 W", "--set", "package.volume=1e5", "--json", "--json"]
    assert CliRunner().invoke(main, ["cost", "chiplets", "--node", "n5", "--draws", "2", *repeated]).exit_code == 0


VALUES = [([1.0, math.inf], 1), ({"a": [-math.inf], "b": math.inf}, 2), (math.nan, 0)]


@pytest.mark.parametrize(("value", "told"), VALUES)
def test_infinite_numbers_that_json_cannot_say_are_counted(value: object, told: int) -> None:
    @command("shown")
    def shown() -> None:
        echo(value, lambda: value)

    answer = CliRunner().invoke(shown, ["--json"])
    assert answer.exit_code == 0 and "Infinity" not in answer.stdout and "NaN" not in answer.stdout
    assert answer.stderr == (f"null: {told} infinite numbers, which JSON cannot say\n" if told else "")
    assert CliRunner().invoke(shown).stderr == ""
