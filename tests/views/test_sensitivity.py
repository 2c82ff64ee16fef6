"""What `sweeper sensitivity` says: tables against a dataset made by hand, the command, the picture."""

import json
import math
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result

from sweeper.cli import main
from sweeper.planning.plan import Plan, make_plan
from sweeper.planning.sensitivity.perturbed import KEPT, REOPTIMISED, ROBUST
from sweeper.study.perturb import Perturbation
from sweeper.study.study import perturbed
from sweeper.views.sensitivity.answer import Sensitivity, sensitivity
from sweeper.views.sensitivity.text import text
from tests.planning.test_optimize import write

TIME = "iteration_time_s"
LISTED = {
    "template": None,
    "stack": None,
    "chip": "a100_sxm_80gb",
    "memory": ["hbm2e", "hbm3"],
    "chip.price": "10000 usd",
}
DRAWS = 4


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Two memories, nothing to search; memory and link are varied."""
    path = write(tmp_path_factory.mktemp("sensitivity"), axes=LISTED, optimize=None, override=["memory"])
    perturbation = Perturbation(draws=DRAWS, only=("memory.bandwidth", "link.latency"))
    return Plan(perturbed(make_plan(path).study, perturbation))


def made(times: dict[int, list[float]], worse: float = 1.1) -> pl.DataFrame:
    """Rows by combination of times: of the values themselves, a bandwidth a tenth less and more, then of every draw;
    designs that are kept take `worse` times as long, and in the last draw no other than the best can run."""
    rows = []
    for combination, (itself, less, more, *draws) in times.items():
        told = [("", 0, 1.0, itself), ("memory.bandwidth", 0, 0.9, less), ("memory.bandwidth", 0, 1.1, more)]
        told += [("", draw, 1.0 + 0.01 * draw, time) for draw, time in enumerate(draws, 1)]
        for parameter, draw, factor, time in told:
            for design, factor_of_time in ((REOPTIMISED, 1.0), (KEPT, worse), (ROBUST, worse)):
                if draw or design == REOPTIMISED:
                    able = design == REOPTIMISED or draw < len(draws)
                    rows.append({"combination": combination, "design": design, "parameter": parameter, "draw": draw,
                                 "memory_bandwidth_Bps": 1e12 * factor, "link_latency_s": 1e-6, "feasible": able,
                                 TIME: time * factor_of_time if able else None})  # fmt: skip
    return pl.DataFrame(rows)


@pytest.fixture(scope="module")
def answer(plan: Plan) -> Sensitivity:
    halves = made({0: [2.0, 2.0 / 0.9, 2.0 / 1.1, 2.0, 2.1, 2.2, 2.3], 1: [1.0, 1.0, 1.0, 1.0, 1.05, 2.3, 1.0]})
    return sensitivity(plan, halves)


def test_elasticities_are_means_over_all_combinations(answer: Sensitivity) -> None:
    """-1 in one of two combinations, nothing in the other. Ranks of the draws: as the bandwidth, and 1.5, 3, 4, 1.5."""
    (found,) = answer.elasticities
    assert found.parameter == "memory.bandwidth" and found.matters == 1
    assert (found.mean, found.least, found.most) == pytest.approx((-0.5, -1.0, -1.0))
    assert (found.less, found.more, found.turns) == (pytest.approx(-0.5), pytest.approx(-0.5), 0)
    assert found.correlation == pytest.approx((1.0 + 0.5 / 22.5**0.5) / 2)
    assert answer.idle == ("link.latency",)


def test_a_number_that_is_best_as_it_is_is_told_from_one_that_moves_little(plan: Plan) -> None:
    """A tenth less takes a tenth longer, a tenth more a fifth: two slopes, of which the elasticity leaves little."""
    frame = made({0: [2.0, 2.2, 2.4, 2.0, 2.1, 2.2, 2.3], 1: [2.0, 2.001, 2.001, 2.0, 2.1, 2.2, 2.3]})
    (found,) = sensitivity(plan, frame).elasticities
    less, more = math.log(2.2 / 2.0) / math.log(0.9), math.log(2.4 / 2.0) / math.log(1.1)
    near = [math.log(1.0005) / math.log(step) for step in (0.9, 1.1)]
    assert (found.less, found.more) == (pytest.approx((less + near[0]) / 2), pytest.approx((more + near[1]) / 2))
    assert (found.matters, found.turns) == (2, 1)  # what searches may miss is no turn
    assert found.largest == found.more > 3.0 * abs(found.mean)
    told = text(sensitivity(plan, frame))
    assert "(turns: " in told and f"{found.more:+.3f}" in told


def test_a_side_that_cannot_run_has_no_slope(plan: Plan) -> None:
    frame = made({0: [2.0, 2.2, 1.9, 2.0, 2.1, 2.2, 2.3]})
    more = pl.col("memory_bandwidth_Bps") == 1e12 * 1.1
    frame = frame.with_columns(feasible=~more & pl.col("feasible"), **{TIME: pl.when(~more).then(TIME)})
    answered = sensitivity(plan, frame)
    (found,) = answered.elasticities
    assert found.mean == pytest.approx(found.less) == pytest.approx(math.log(1.1) / math.log(0.9))
    assert math.isnan(found.more) and "(turns: " not in text(answered)


def test_a_step_is_sure_where_nearly_all_draws_say_so(answer: Sensitivity) -> None:
    """Twice as fast in three of four draws, slower in one: neither a sure gain nor a sure loss."""
    (step,) = answer.steps
    assert (step.box, step.axis, step.before, step.after, step.gain) == ("", "memory", "hbm2e", "hbm3", 2.0)
    assert (step.pairs, step.sure_gain, step.unsure, step.sure_loss) == (1, 0, 1, 0)
    assert step.p05 < 1.0 < step.p95


def test_designs_that_cannot_run_are_counted(answer: Sensitivity) -> None:
    for policy in answer.policies:
        assert policy.p50 == pytest.approx(1.1)
        assert policy.p95 == math.inf and policy.unable == pytest.approx(1.0 / DRAWS)


def test_draws_in_which_no_design_can_run_count(plan: Plan) -> None:
    """Of four draws the last kills the designs that are kept, and the third all of them."""
    frame = made({0: [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]})
    dead = pl.col("draw") == DRAWS - 1
    frame = frame.with_columns(feasible=~dead & pl.col("feasible"), **{TIME: pl.when(~dead).then(TIME)})
    assert [policy.unable for policy in sensitivity(plan, frame).policies] == [0.5, 0.5]


def test_a_number_that_only_forbids_is_no_number_without_an_answer(plan: Plan) -> None:
    """With less bandwidth nothing runs, with more all stays the same; of latency no step runs."""
    frame = made({0: [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]})
    less = (pl.col("parameter") == "memory.bandwidth") & (pl.col("memory_bandwidth_Bps") < 1e12)
    frame = frame.with_columns(feasible=~less & pl.col("feasible"), **{TIME: pl.when(~less).then(TIME)})
    late = frame.filter(pl.col("parameter") == "memory.bandwidth")
    late = late.with_columns(parameter=pl.lit("link.latency"), feasible=False, **{TIME: pl.lit(None, pl.Float64)})
    found = sensitivity(plan, pl.concat([frame, late]))
    assert (found.limiting, found.unable, found.idle) == (("memory.bandwidth",), ("link.latency",), ())
    assert "no effect where it can run, but not all of 10 % less and more can: memory.bandwidth" in text(found)


@pytest.mark.parametrize(
    "arguments",
    [
        ("sensitivity", "dse80", "--step", "nan"),
        ("sensitivity", "dse80", "--spread", "nan"),
        ("tornado", "dse80", 0, "--part", "nan"),
        ("break-even", "dse80", "memory.bandwidth", "chip", "--within", "nan"),
    ],
)
def test_parts_are_numbers(arguments: tuple[object, ...]) -> None:
    refused = call(*arguments)
    assert refused.exit_code == 2 and "nan is not a finite number" in refused.stderr


def test_the_text_tells_all_of_it(answer: Sensitivity) -> None:
    told = text(answer)
    for words in ("memory.bandwidth", "-0.500", "no effect of 1: link.latency", "hbm2e", "2.000", "cannot run", "25 %"):
        assert words in told


def test_the_command_answers_draws_and_resumes(tmp_path: Path) -> None:
    path, picture = write(tmp_path, axes=LISTED, optimize=None, override=["memory"]), tmp_path / "picture.svg"
    asked = ("sensitivity", path, "--out", tmp_path / "out", "-q", "--draws", 3, "--only", "memory.*")
    first = call(*asked, "--figure", picture)
    assert first.exit_code == 0, first.output
    assert "Which number buys most" in first.output and "hbm2e" in first.output
    assert picture.read_text().startswith("<?xml")
    again = call(*asked, "--json")
    assert again.exit_code == 0
    found = json.loads(again.stdout)
    assert found["computed_chunks"] == 0 and found["combinations"] == 2 and found["draws"] == 3
    assert {each["parameter"] for each in found["elasticities"]} | set(found["idle"]) >= {"memory.bandwidth"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--objective", "iteration_time"),
            "\n--objective: unknown objective of the study 'iteration_time', did you mean 'iteration_time_s'",
        ),
        (("--only", "facility.*"), "\n--only: the objective reads no number facility.*"),
        (
            ("--only", "memory.bandwidht"),
            "\n--only: unknown number 'memory.bandwidht', did you mean 'memory.bandwidth'",
        ),
        (("--figure", "picture.pdf"), ".png or .svg"),
        (("--step", "2"), "0.001<=x<=0.5"),
    ],
)
def test_mistakes_in_the_command_write_nothing(tmp_path: Path, options: tuple[str, str], words: str) -> None:
    path = write(tmp_path, axes=LISTED, optimize=None, override=["memory"])
    result = call("sensitivity", path, "--out", tmp_path / "out", *options)
    assert result.exit_code == 2 and words in f"\n{result.output}"
    assert not (tmp_path / "out").exists()


def test_objectives_that_are_not_positive_have_no_ratio(plan: Plan) -> None:
    found = sensitivity(plan, made({0: [0.0] * (3 + DRAWS), 1: [1.0] * (3 + DRAWS)}))
    assert found.unsigned == 1 and found.steps == ()
    assert "1 combinations take no part in steps, as iteration_time_s is not positive" in text(found)
