"""`sweeper report`: what the page holds is what the dataset says, whatever a browser does with it."""

import base64
import gzip
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import sweeper
from sweeper.cli import main
from sweeper.errors import EnvironmentFault, UsageFault
from sweeper.nights.inputs import NUMBER_FIELDS
from sweeper.planning.plan import Plan, make_plan
from sweeper.reports import page
from sweeper.reports.answers import Answer, answered, answers
from sweeper.reports.choices import choices
from sweeper.reports.evidence import calibrations, reasons
from sweeper.reports.page import Asked, report, write_report
from sweeper.reports.rows import packed, page_rows
from sweeper.shown import FEWEST
from sweeper.study.perturb import Perturbation
from sweeper.study.study import perturbed
from tests.planning.test_optimize import write
from tests.support.large_study import large_study
from tests.views.test_sensitivity import LISTED

TYPES = {"u1": "<u1", "u2": "<u2", "u4": "<u4", "f4": "<f4", "f8": "<f8"}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    plan = sweeper.plan(large_study(4, 3))
    return Asked(sweeper.run(plan, out=tmp_path_factory.mktemp("results"), quiet=True).directory, plan)


def told(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(re.findall(r'class="told">(.*?)</script>', text, re.DOTALL)[0])
    return found


def unpacked(columns: list[dict[str, Any]], values: str, rows: int) -> Mapping[str, list[Any]]:
    raw = gzip.decompress(base64.b64decode(values))
    found = {}
    for column in columns:
        assert column["at"] % 8 == 0
        data = np.frombuffer(raw, TYPES[column["type"]], rows, column["at"])
        found[column["name"]] = [column["levels"][at] for at in data] if "levels" in column else data.tolist()
    return found


def test_the_page_holds_the_rows_of_the_dataset(asked: Asked) -> None:
    text = report([asked])
    data = told(text)
    values = re.findall(r'class="packed">(.*?)</script>', text, re.DOTALL)[0]
    found = unpacked(data["columns"], values, data["rows"])
    frame = sweeper.scan(asked.run).filter("feasible").sort("point_id").collect()
    assert data["rows"] == frame.height == 192
    assert {*found} >= {"partitioning", "memory_bandwidth_Bps", "iteration_time_s", "utilisation"}
    for name, values_of in found.items():
        own = frame[name].cast(pl.String) if not frame[name].dtype.is_numeric() else frame[name]
        if own.dtype.is_float():
            assert values_of == pytest.approx(own.to_list(), rel=1e-6, nan_ok=True)
        else:
            assert values_of == own.to_list()
    kinds = {column["name"]: column for column in data["columns"]}
    assert kinds["iteration_time_s"]["sense"] == "minimise" and kinds["iteration_time_s"]["unit"] == "s"
    assert kinds["memory_bandwidth_Bps"]["numeric"] and not kinds["partitioning"]["numeric"]
    assert not kinds["point_id"]["metric"] and kinds["utilisation"]["metric"]


def test_the_answer_is_the_best_row_and_alternatives_are_the_best_of_the_others(asked: Asked) -> None:
    frame = sweeper.scan(asked.run).filter("feasible").collect()
    (answer,) = answers(frame.lazy(), {"iteration_time_s": "minimise"}, {"iteration_time_s": "s"})
    best = frame.sort("iteration_time_s", "point_id").row(0, named=True)
    assert (answer.point, answer.value, answer.among) == (best["point_id"], best["iteration_time_s"], 192)
    assert {each.axis for each in answer.alternatives} == {*answer.system}
    for each in answer.alternatives:
        others = frame.filter(pl.col(each.axis) != best[each.axis]).sort("iteration_time_s")
        assert each.behind == pytest.approx(others["iteration_time_s"][0] / answer.value - 1.0)
    assert [each.behind for each in answer.alternatives] == sorted(each.behind for each in answer.alternatives)
    assert f"The least iteration_time_s is {answer.value:.6g} s, with partitioning" in answer.sentence


def test_the_page_says_how_many_digits_it_shows(asked: Asked) -> None:
    text = report([asked])
    assert f"Numbers are shown in {FEWEST} digits" in text and f"<script>const FEWEST = {FEWEST};</script>" in text


def test_a_sentence_says_as_good_and_leaves_out_what_there_is_not() -> None:
    nothing = Answer(0, "", "tokens_per_s", "maximise", 2.0, "", {}, 1, [])
    assert nothing.sentence == "The most tokens_per_s is 2." and nothing.title == "most tokens_per_s"


def test_workloads_have_an_answer_each_over_what_varies_in_them() -> None:
    frame = pl.DataFrame(
        {
            "point_id": [0, 1, 2, 3],
            "workload": ["b", "b", "a", "a"],
            "chip": ["x", "y", "x", "x"],
            "dim_x": [1, 1, 2, 4],
            "feasible": [True] * 4,
            "time_s": [1.0, 2.0, 4.0, 3.0],
        }
    )
    found = answers(frame.lazy(), {"time_s": "minimise"}, {"time_s": "s"})
    assert [(each.workload, each.point, dict(each.system)) for each in found] == [
        ("a", 3, {"dim_x": 4}),
        ("b", 0, {"chip": "x"}),
    ]
    assert found[1].sentence.endswith("Closest is chip y instead, 100 % behind.")


def small(**columns: list[Any]) -> pl.LazyFrame:
    """A dataset of feasible points with some axes, and as many times as these have values."""
    rows = len(next(iter(columns.values())))
    times = [float(at + 1) for at in range(rows)]
    return pl.DataFrame({"point_id": [*range(rows)], **columns, "feasible": [True] * rows, "time_s": times}).lazy()


def resolved(mode: str, *axes: list[Any]) -> dict[str, Any]:
    return {"boxes": [[*axes]], "output": [mode]}


def test_axes_that_go_together_are_one_choice_and_draws_none() -> None:
    told = resolved(
        "all",
        ["chip", "memory.bandwidth", "swept", [[0], [1]]],
        ["dim_x", "swept", [[2.0], [32.0]]],
        ["draw", "swept", [[0], [1]]],
    )
    names = ["chip", "memory_bandwidth_Bps", "dim_x", "draw", "task"]
    found = choices(told, names)
    assert [(each.axes, each.compared, each.said) for each in found] == [
        (("chip", "memory_bandwidth_Bps"), True, True),
        (("dim_x",), True, True),
        (("task",), True, False),
    ]
    axes: dict[str, list[Any]] = {
        "chip": ["a", "a", "a", "b", "b"],
        "memory_bandwidth_Bps": [2e12, 2e12, 2e12, 3e12, 3e12],
        "dim_x": [2.0, 2.0, 32.0, 2.0, 32.0],
        "draw": [1, 0, 0, 0, 0],
        "task": ["t"] * 5,
    }
    (answer,) = answers(small(**axes), {"time_s": "minimise"}, {"time_s": "s"}, found)
    assert (answer.point, answer.among) == (1, 4), "the luckiest draw is no answer"
    assert [(each.axis, each.instead, each.behind) for each in answer.alternatives] == [
        ("dim_x", "32", pytest.approx(0.5)),
        ("chip + memory_bandwidth_Bps", "b, 3e+12", pytest.approx(1.0)),
    ]
    assert answer.sentence.endswith("dim_x 2. Closest is dim_x 32 instead, 50 % behind.")


def test_what_a_search_left_out_is_not_told_as_what_another_choice_costs() -> None:
    told = resolved("best", ["chip", "swept", [["a"], ["b"]]], ["tensor_parallel", "searched", [[1], [2], [4]]])
    found, time = choices(told, ["chip", "tensor_parallel"]), {"time_s": "minimise"}
    (answer,) = answers(small(chip=["a", "b"], tensor_parallel=[1, 2]), time, {"time_s": "s"}, found)
    assert [(each.axis, each.instead) for each in answer.alternatives] == [("chip", "b"), ("tensor_parallel", None)]
    (single,) = answers(small(chip=["a"], tensor_parallel=[1]), time, {"time_s": "s"}, found)
    assert single.sentence == "The least time_s is 1 s, with chip a, tensor_parallel 1."
    two = {"time_s": "minimise", "price_usd": "minimise"}
    assert [*answered(two, "best")] == ["time_s"] and [*answered(two, "pareto")] == [*two]


def test_close_values_of_an_axis_differ_in_a_sentence() -> None:
    close = small(memory_bandwidth_Bps=[3.2e12, 3.2000001e12], dim_x=[2.0, 4.0])
    (answer,) = answers(close, {"time_s": "minimise"}, {"time_s": "s"})
    assert "memory_bandwidth_Bps 3.2e+12, dim_x 2. Closest is memory_bandwidth_Bps 3.2000001e+12" in answer.sentence
    assert [each.instead for each in answer.alternatives] == ["3.2000001e+12", "4"]


def test_tasks_have_an_answer_each() -> None:
    frame = small(task=["training", "inference", "inference"], chip=["a", "b", "a"])
    found = answers(frame, {"time_s": "minimise"}, {"time_s": "s"})
    assert [(each.title, each.point) for each in found] == [("inference least time_s", 1), ("training least time_s", 0)]


def test_answers_that_a_page_has_no_room_for_are_counted(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"w{at:02}" for at in range(30)]
    found = answers(small(workload=names), {"time_s": "minimise"}, {"time_s": "s"})
    assert (len(found), found.left_out) == (24, 6) and found[-1].workload == "w23"
    assert answers(small(workload=names[:2]), {"time_s": "minimise"}, {"time_s": "s"}).left_out == 0
    assert "answers are here, in the order" not in report([asked])
    monkeypatch.setattr("sweeper.reports.answers.MOST_ANSWERS", 0)
    assert "The first 0 of 1 answers are here, in the order of their workloads" in report([asked])


def test_numbers_that_single_precision_takes_for_one_are_held_in_double() -> None:
    frame = pl.DataFrame({"close_s": [1.0, 1.0 + 1e-9], "apart_s": [1.0, 1.1], "same_s": [0.1, 0.1]})
    assert [column["type"] for column in packed(frame, (), {}, {})[0]] == ["f8", "f4", "f4"]


def test_more_tokens_are_better_whatever_a_study_asks() -> None:
    columns = packed(pl.DataFrame({"tokens_per_s": [1.0, 2.0], "memory_need_B": [1.0, 2.0]}), (), {}, {})[0]
    assert [column.get("sense") for column in columns] == ["maximise", None]


def test_a_sentence_does_not_list_every_axis_of_many() -> None:
    many = Answer(0, "", "tokens_per_s", "maximise", 2.0, "", {f"axis_{at}": at for at in range(15)}, 1, [])
    assert many.sentence.endswith("axis_7 7 and 7 more below.")


@pytest.mark.parametrize("most", [1, 10, 37, 100, 191])
def test_of_many_rows_the_best_of_each_pair_of_axis_values_come_first(asked: Asked, most: int) -> None:
    dataset = sweeper.scan(asked.run)
    shown = page_rows(dataset, {"iteration_time_s": "minimise"}, most)
    assert shown.feasible == 192 and shown.frame.height == most
    best = dataset.sort("iteration_time_s", "point_id").collect()["point_id"][0]
    assert best in shown.frame["point_id"]
    if most == 100:
        cells = dataset.group_by("partitioning", "compute_efficiency").agg(pl.col("iteration_time_s").min()).collect()
        assert {*shown.frame["iteration_time_s"]} >= {*cells["iteration_time_s"]}
    assert not {*shown.same} & {*shown.frame.columns} and shown.same["chips"] == 8


def test_the_page_says_that_it_has_not_all_rows(asked: Asked) -> None:
    assert "All 192 feasible rows are here" in report([asked])
    assert re.search(r"\d+ of 192 feasible rows are here: the best", report([asked], 50))


def test_columns_keep_what_single_precision_does_not_hold() -> None:
    frame = pl.DataFrame(
        {
            "point_id": [2**40, 2**40 + 1],
            "huge": [1e300, 2e300],
            "tiny": [1e-300, 0.0],
            "some": [0.1, None],
            "name": ["a", None],
            "number": [10.0, 9.0],
        }
    )
    columns, values = packed(frame, ["name", "number"], {}, {})
    found = unpacked(columns, values, 2)
    assert found["point_id"] == [2**40, 2**40 + 1] and found["huge"] == [1e300, 2e300] and found["tiny"] == [1e-300, 0]
    assert found["some"][0] == pytest.approx(0.1) and np.isnan(found["some"][1])
    assert found["name"] == ["a", "-"] and found["number"] == [10.0, 9.0]
    assert [column["type"] for column in columns] == ["f8", "f8", "f8", "f4", "u1", "u1"]


def test_an_axis_of_many_values_has_wider_positions() -> None:
    columns, values = packed(pl.DataFrame({"draw": range(300)}), ["draw"], {}, {})
    assert columns[0]["type"] == "u2" and unpacked(columns, values, 300)["draw"] == [*range(300)]


def test_nothing_is_fetched(asked: Asked) -> None:
    text = report([asked])
    ours = text.replace(page._plotly(), "")
    assert not re.search(r"""(src|href)\s*=\s*["']?\s*(https?:|//)|@import|url\(|fetch\(""", ours)
    assert "<script src" not in text and "<link" not in ours


def test_why_it_is_best_is_told_and_what_moves_it(asked: Asked) -> None:
    text = report([asked])
    data = told(text)
    assert "the hand calculation" in text and "CALCULATED" in text
    (tornado,) = data["tornadoes"]
    assert tornado["metric"] == "iteration_time_s" and tornado["bars"][0]["at_low"] is not None
    unplanned = report([Asked(asked.run, remark="the study is another")])
    assert "the study is another." in unplanned and "hand calculation" not in unplanned
    assert told(unplanned)["tornadoes"] == [] and told(unplanned)["no_tornado"] == "the study is another"


def test_evidence_is_told(asked: Asked) -> None:
    text = report([asked])
    assert re.search(r"\d+ datasheet", text) and "numbers with their sources" in text
    assert "chip/sn10" in text and "uncalibrated" in text and "content hash of study" in text


def test_reasons_are_of_all_points_tried_or_of_the_rows() -> None:
    assert reasons({"tried": {"memory_capacity": 3, "feasible": 1, "other": 0}}, {"feasible": 9}) == [
        ("feasible", 1, 0.25),
        ("memory_capacity", 3, 0.75),
    ]
    assert reasons({}, {"feasible": 1, "b": 1, "a": 1})[1:] == [("a", 1, 1 / 3), ("b", 1, 1 / 3)]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    study = {**large_study(2), "study": "hostile", "title": "<script>alert(1)</script>"}
    plan = sweeper.plan(study)
    run = sweeper.run(plan, out=tmp_path, quiet=True)
    text = report([Asked(run.directory, remark="</script><script>alert(2)</script>")])
    assert "<script>alert" not in text


def call(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, [str(word) for word in words])
    return result.exit_code, result.stdout, result.stderr


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("run", "table6_sn10", "-q")[0] == 0
    code, out, _ = call("report", "table6_sn10")
    file = Path(out.strip())
    assert code == 0 and file.exists() and file.stem.startswith("table6_sn10-") and file.suffix == ".html"
    code, out, _ = call("report", file.stem, f"results/{file.stem}", "--html", "pages/both.html", "--json")
    both = Path("pages/both.html").read_text()
    assert code == 0 and json.loads(out)["file"] == "pages/both.html"
    assert both.count("<article") == 2 and 'select id="run"' in both and both.count("hand calculation") == 8
    code, _, err = call("report", "table6_sn10", "--html", "page.pdf")
    assert code == 2 and "an .html file" in err and not Path("page.pdf").exists()
    code, _, err = call("report", "results")
    assert code == 2 and f"results holds runs; name one of them: {file.stem}" in err
    code, _, err = call("report", "dse80")
    assert code == 3 and "has not been run" in err
    other = ("table6_sn10", "--set", "link=nvlink")
    assert call("run", *other, "-q")[0] == 0
    (second,) = (run.name for run in Path("results").iterdir() if run.name != file.stem)
    code, out, _ = call("report", second)
    assert code == 0 and "is not what it was for this run" in Path(out.strip()).read_text()
    code, out, _ = call("report", second, *other[1:], "--html", "again.html")
    assert code == 0 and "is not what it was for this run" not in Path("again.html").read_text()
    code, out, _ = call("report", file.stem, *other, "--html", "two.html")
    assert code == 0, "options of the one that is named by its study"


@pytest.mark.parametrize(
    ("options", "unread"),
    [
        (["--set", "chips=8"], "--set"),
        (["--library", "none"], "--library"),
        (["--library", "none", "--set", "chips=8", "--out", "none"], "--library and --set and --out"),
    ],
)
def test_options_that_give_no_plan_of_a_run_are_refused(
    asked: Asked, tmp_path: Path, options: list[str], unread: str
) -> None:
    page = tmp_path / "page.html"
    code, _, err = call("report", asked.run, *options, "--html", page)
    assert (code, err) == (2, f"{asked.run} names a run: leave out {unread}\n")
    assert not page.exists()


def test_without_plotly_it_says_what_is_missing(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "plotly.offline", None)
    with pytest.raises(EnvironmentFault, match=r"pip install 'sweeper\[report\]'"):
        report([asked])


def test_another_ending_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match=r"an \.html file"):
        write_report([Asked("nowhere")], tmp_path / "page.pdf")


def test_a_calibration_that_says_nothing_of_a_task_has_no_band() -> None:
    def number(value: float) -> list[Any]:
        return [{"number": value, "unit": "", "grade": "fitted", "source": "", "low": None, "high": None}[name]
                for name in NUMBER_FIELDS if name in ("number", "unit", "grade", "source", "low", "high")]  # fmt: skip

    ends = {"training_low": 0.9, "training_high": 1.1, "inference_low": 0.0, "inference_high": 0.0}
    library = {"calibration/mine": {"values": {name: number(value) for name, value in ends.items()}}}
    (found,) = calibrations({"library": library})
    assert found.error == {"training": "0.9 to 1.1", "inference": ""}


def test_a_damaged_run_is_one_line(asked: Asked, tmp_path: Path) -> None:
    run = Path(shutil.copytree(asked.run, tmp_path / "run"))
    for text in ("{", "[]"):
        (run / "resolved.json").write_text(text)
        ran = CliRunner().invoke(main, ["report", str(run), "--html", str(tmp_path / "page.html")])
        assert (
            ran.exit_code == 3
            and "resolved.json that cannot be read" in ran.output
            and len(ran.output.splitlines()) == 1
        )
    assert not (tmp_path / "page.html").exists()


def test_a_run_of_a_sensitivity_is_refused_since_its_points_have_several_rows(tmp_path: Path) -> None:
    study = make_plan(write(tmp_path, axes=LISTED, optimize=None, override=["memory"])).study
    plan = Plan(perturbed(study, Perturbation(draws=2, only=("memory.bandwidth",))))
    run = sweeper.run(plan, out=tmp_path / "results", quiet=True).directory
    with pytest.raises(UsageFault, match="is a run of a sensitivity"):
        report([Asked(run)])


def test_names_in_the_question_keep_their_capitals(tmp_path: Path) -> None:
    study = {**large_study(2, 1), "objective": {"minimise": "memory_need_B"}}
    run = sweeper.run(sweeper.plan(study), out=tmp_path, quiet=True).directory
    assert "Minimise memory_need_B" in report([Asked(run)])
