"""Other values of axes, as a command is given them beside a study."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import sweeper
from sweeper.cli import main
from sweeper.errors import SpecError, UsageFault
from sweeper.reading.nodes import parse_yaml
from sweeper.study.sources import with_axes
from tests.support.small_specs import FILES, STUDY, write_files


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_files(tmp_path, {**FILES, "study.yaml": STUDY}) / "study.yaml"


def loaded(study: Path, *settings: str) -> sweeper.Study:
    return sweeper.load(study, [study.parent], settings)


def values(study: sweeper.Study, column: str) -> list[set[object]]:
    """Values of a column in each box."""
    return [
        {row[axis.columns.index(column)] for axis in box.axes if column in axis.columns for row in axis.rows}
        for box in study.boxes
    ]


def test_an_axis_is_replaced_added_or_swept_instead_of_searched(study: Path) -> None:
    assert values(loaded(study), "chip") == [{"alpha", "beta"}]
    assert values(loaded(study, "chip=beta"), "chip") == [{"beta"}]
    assert values(loaded(study, "memory.bandwidth = {geomspace: [1 TB/s, 4 TB/s, 3]}"), "memory.bandwidth") == [
        {1e12, 2e12, 4e12}
    ]
    assert values(loaded(study, "batch_size=[2, 4]"), "batch_size") == [{2.0, 4.0}]
    searched = [axis.name for box in loaded(study, "microbatch=[1, 2]").boxes for axis in box.axes if axis.searched]
    assert "microbatch" not in searched and searched


def test_a_mistake_in_it_is_told_at_the_option(study: Path) -> None:
    with pytest.raises(SpecError, match=r"^--set:1:\d+: zero_stage: zero_stage is 1"):
        sweeper.plan(study, [study.parent], ["zero_stage=1"])


def test_boxes_have_no_say_in_it() -> None:
    text = "{study: s, axes: {chips: 8}, boxes: [{axes: {dim_x: 2, chip: a}}, {search: {dim_x: [1, 2]}}]}"
    found = with_axes(parse_yaml(text), ["dim_x=4"]).plain()
    assert found["axes"] == {"chips": 8, "dim_x": 4}
    assert found["boxes"] == [{"axes": {"chip": "a"}}, {"search": {}}]


def test_a_study_without_axes_gets_some() -> None:
    assert with_axes(parse_yaml("{study: s}"), ["chips=4"]).plain() == {"study": "s", "axes": {"chips": 4}}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("chip", "write AXIS=VALUES"),
        ("=4", "write AXIS=VALUES"),
        ("chp=beta", "unknown column 'chp', did you mean 'chip'?"),
        ("tensor_parallel=2", "tensor_parallel is given by the table parallelism"),
    ],
)
def test_what_cannot_be_set_is_a_mistake_of_the_command(setting: str, message: str, study: Path) -> None:
    with pytest.raises(UsageFault, match=message.replace("?", r"\?")):
        loaded(study, setting)


def test_what_is_no_box_or_no_axes_is_still_refused(study: Path) -> None:
    for old, new in (("search:\n", "boxes: [3]\nsearch:\n"), ("axes:\n", "axes: [workload]\nsearches:\n")):
        study.write_text(STUDY.replace(old, new, 1))
        with pytest.raises(SpecError):
            loaded(study, "chips=8")


def test_a_text_sets_one_axis(study: Path) -> None:
    with pytest.raises(UsageFault, match="the values of one axis"):
        loaded(study, "chips=8\nlink: fibre")


def test_an_axis_is_set_once(study: Path) -> None:
    with pytest.raises(UsageFault, match="chips is given twice"):
        loaded(study, "chips=4", "chips=8")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("chip=[alpha, gamma]", "--set:1:15: chip[2]: unknown chip 'gamma'"),
        ("memory.bandwidth=100", "--set:1:19: memory.bandwidth: 100 needs a unit"),
    ],
)
def test_a_mistake_in_a_value_is_told_with_its_place_in_the_command(setting: str, message: str, study: Path) -> None:
    with pytest.raises(SpecError) as fault:
        loaded(study, setting)
    assert message in str(fault.value)


def test_the_command_line_finds_such_a_run_again(study: Path, tmp_path: Path) -> None:
    def call(*words: object) -> str:
        library = ("--library", str(study.parent), "--set", "chip=beta", "--out", str(tmp_path / "out"))
        found = CliRunner().invoke(main, [*map(str, words), *library])
        assert found.exit_code == 0, found.output
        return found.stdout

    run = json.loads(call("run", study, "--json", "-q"))
    assert json.loads(call("status", study, "--json"))["complete"] is True
    rows = json.loads(call("query", study, "SELECT point_id FROM data", "--json"))
    assert len(rows) == run["rows"]
    asked = ["status", str(study), "--library", str(study.parent), "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(main, asked).exit_code == 3
    absent = CliRunner().invoke(main, [*asked, "--set", "chip=[beta, alpha]"])
    assert "--set 'chip=[beta, alpha]'" in absent.stderr
