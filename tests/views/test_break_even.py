"""What must be true: where options of an axis are as good as the best, on curves by hand and on studies."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from sweeper.cli import main
from sweeper.views.sensitivity.break_even import ALIKE, BreakEven, BreakEvens, crossing, text
from tests.support.examples import examples

STUDY = {
    "study": "memories",
    "axes": {
        "workload": "gpt_7b",
        "chip": "h100_sxm5_80gb",
        "memory": "hbm3_h100",
        "memory.bandwidth": ["1 TB/s", "3 TB/s"],
        "topology": "dgx_2",
        "dim_x": 8,
        "dim_y": 4,
        "chips": 32,
        "link": "nvlink4",
        "outer_link": ["infiniband_ndr", "infiniband_xdr"],
        "batch_size": 64,
        "zero_stage": 1,
    },
    "search": {
        "mapping": {
            "columns": ["tensor_parallel", "pipeline_parallel", "data_parallel"],
            "rows": [[8, 4, 1], [4, 8, 1], [8, 2, 2]],
        }
    },
    "objective": {"minimise": "iteration_time_s"},
}


def asked(tmp_path: Path, *arguments: str, **changed: object) -> dict:
    """The answer of the command as data."""
    path = tmp_path / "memories.yaml"
    path.write_text(yaml.safe_dump({**STUDY, **changed}, sort_keys=False))
    shown = CliRunner().invoke(main, ["break-even", str(path), *arguments, "--out", str(tmp_path / "out"), "--json"])
    assert shown.exit_code == 0, shown.output
    found: dict = json.loads(shown.stdout)
    return found


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> dict:
    return asked(tmp_path_factory.mktemp("memories"), "memory.bandwidth", "memory.bandwidth")


@pytest.mark.nightly
def test_an_option_that_is_behind_by_a_number_needs_that_of_the_best(answer: dict) -> None:
    """Memories that differ in nothing but their bandwidth: between the values tried it is interpolated."""
    assert len(answer["options"]) == 2 and answer["unable"] == answer["unmoved"] == 0
    for each in answer["options"]:
        assert each["option"] == "1e+12" and each["best"] == "3e+12" and each["value"] == 1e12
        assert each["behind"] > 1.0 > each["reached"]
        assert each["low"] < each["needed"] < each["high"] < 1.5 * each["low"]
        assert each["needed"] == pytest.approx(3e12, rel=0.02)
    assert {each["combination"] for each in answer["options"]} == {"infiniband_ndr", "infiniband_xdr"}


def test_more_values_are_closer(tmp_path: Path) -> None:
    """Of 3 within 3 times, the last is the very value."""
    for values, close in (("3", 1e-9), ("41", 2e-3)):
        found = asked(tmp_path, "memory.bandwidth", "memory.bandwidth", "--within", "3", "--values", values)
        assert found["options"][0]["needed"] == pytest.approx(3e12, rel=close)


@pytest.mark.nightly
def test_what_no_value_reaches_says_how_near_it_comes(tmp_path: Path) -> None:
    """A faster link inside nodes does not make up for a slow memory, and what is not read moves nothing; what lies
    between the values that were tried is not said to be known."""
    found = asked(tmp_path, "link.bandwidth", "memory.bandwidth")
    for each in found["options"]:
        assert each["needed"] is None and 1.0 < each["reached"] <= each["behind"]
        assert [each["nearest"], each["reached"]] in each["curve"]
    assert not found["unmoved"]
    arguments = [str(tmp_path / "memories.yaml"), "link.bandwidth", "memory.bandwidth", "--out", str(tmp_path / "out")]
    shown = CliRunner().invoke(main, ["break-even", *arguments])  # of the run that is there
    assert shown.exit_code == 0, shown.output
    assert "at none of 17 values: " in shown.stdout and "times behind at " in shown.stdout
    ends = {each["nearest"] in (each["curve"][0][0], each["curve"][-1][0]) for each in found["options"]}
    assert ("an option may yet win" in shown.stdout) == (False in ends)
    assert ("may win beyond" in shown.stdout) == (True in ends)


@pytest.mark.nightly
def test_what_does_not_move_an_option_is_counted_and_what_ends_at_the_last_value_goes_further(tmp_path: Path) -> None:
    """All exchange is hidden in a group of one; and no rate of arithmetic makes up for half of the memory's."""
    alone = {**STUDY["axes"], "outer_link": "infiniband_ndr", "dim_x": 1, "dim_y": 1, "chips": 1}
    one = {"search": {"tensor_parallel": [1]}, "axes": {**alone, "workload": "gpt2_small", "topology": "switch"}}
    del one["axes"]["dim_y"]
    unmoved = asked(tmp_path, "link.bandwidth", "memory.bandwidth", **one)
    assert (unmoved["options"], unmoved["unmoved"]) == ([], 1)
    found = asked(tmp_path, "chip.peak_flops", "memory.bandwidth", "--within", "1.2", "--values", "3", **one)
    (option,) = found["options"]
    assert option["needed"] is None and option["nearest"] == option["curve"][-1][0]
    path, out = str(tmp_path / "memories.yaml"), str(tmp_path / "out")
    words = [
        "break-even",
        path,
        "chip.peak_flops",
        "memory.bandwidth",
        "--within",
        "1.2",
        "--values",
        "3",
        "--out",
        out,
    ]
    shown = CliRunner().invoke(main, words).stdout
    assert "may win beyond: --within goes further" in shown and "may yet win" not in shown


def test_where_to_look_for_what_was_not_found_is_said() -> None:
    """Between the values that were tried, or beyond the last of them, where that is the nearest; by hand."""
    curve = ((1.0, 3.0), (2.0, 2.0), (4.0, 2.5))
    between = BreakEven("", "", "one", "other", 3.0, 1.0, *3 * [math.nan], 2.0, 2.0, curve)
    beyond = replace(between, reached=1.5, nearest=4.0, curve=(*curve[:2], (4.0, 1.5)))
    nowhere = replace(between, reached=math.inf, nearest=math.nan)
    cases = {
        (between,): (True, False),
        (beyond,): (False, True),
        (between, beyond): (True, True),
        (nowhere,): 2 * (False,),
    }
    for options, told in cases.items():
        said = text(BreakEvens("hand", "time_s", "x", "", "axis", (), ALIKE, options, 0, 0, 0, 0))
        assert ("--values tries more" in said, "--within goes further" in said) == told


def test_more_may_be_better(tmp_path: Path) -> None:
    found = asked(tmp_path, "memory.bandwidth", "memory.bandwidth", objective={"maximise": "utilisation"})
    assert [each["needed"] for each in found["options"]] == pytest.approx([3e12, 3e12], rel=0.02)


def test_the_command_says_and_draws_it(tmp_path: Path) -> None:
    path, picture = tmp_path / "memories.yaml", tmp_path / "memories.png"
    path.write_text(yaml.safe_dump(STUDY, sort_keys=False))
    arguments = ["memory.bandwidth", "memory.bandwidth", "--out", str(tmp_path), "--figure", str(picture)]
    shown = CliRunner().invoke(main, ["break-even", str(path), *arguments])
    assert shown.exit_code == 0 and "3.0" in shown.output and "TB/s" in shown.output
    assert "125.000 GB/s - 8.000 TB/s" in shown.output
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("memory.bandwidth", "memry"), "memory.bandwidth"),
        (("memory.bandwidth", "chips"), "axis of several values"),
        (
            ("memory.bandwidht", "memory.bandwidth"),
            "\nNUMBER: unknown number 'memory.bandwidht', did you mean 'memory.bandwidth'?",
        ),
        (("memory.*", "memory.bandwidth"), "one number at a time"),
        (("workload.layers", "memory.bandwidth"), "\nNUMBER: the objective reads no number workload.layers"),
        (("memory.bandwidth", "memory.bandwidth", "--objective", "nothing"), "\n--objective: unknown objective"),
    ],
)
def test_mistakes(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    path = tmp_path / "memories.yaml"
    path.write_text(yaml.safe_dump(STUDY, sort_keys=False))
    shown = CliRunner().invoke(main, ["break-even", str(path), *arguments, "--out", str(tmp_path / "out")])
    assert shown.exit_code == 2 and said in f"\n{shown.output}", shown.output
    assert not (tmp_path / "out").exists()


@examples(100)
@given(st.floats(0.2, 5.0), st.floats(-3.0, 3.0).filter(lambda slope: abs(slope) > 0.05), st.floats(0.2, 5.0))
def test_crossings_of_powers_are_exact(at: float, slope: float, value: float) -> None:
    """Where the curve is a power of the value, the interpolation is it."""
    curve = [(x, (x / at) ** slope) for x in (0.1, 0.5, 1.0, 3.0, 10.0)]
    needed, low, high = crossing(curve, value)
    assert needed == pytest.approx(at, rel=1e-9) and low <= at * (1 + 1e-12) and high >= at * (1 - 1e-12)


@pytest.mark.nightly
def test_what_cannot_run_yet_is_told_when_it_could(tmp_path: Path) -> None:
    """A fast memory that is too small: the least of the values tried at which the model fits is as good, and better."""
    table = {"columns": ["memory.capacity", "memory.bandwidth"], "rows": [["80 GB", "3 TB/s"], ["3 GB", "6 TB/s"]]}
    axes = {name: value for name, value in STUDY["axes"].items() if name != "memory.bandwidth"} | {"mem": table}
    found = asked(tmp_path, "memory.capacity", "mem", axes=axes)
    assert len(found["options"]) == 2 and not found["unable"]
    for each in found["options"]:
        assert each["behind"] is None or each["behind"] == float("inf")
        assert each["low"] < each["needed"] == each["high"] > 3e9 and each["reached"] < 1.0


def test_numbers_among_which_the_search_chooses_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "memories.yaml"
    search = {**STUDY["search"], "link.bandwidth": ["300 GB/s", "450 GB/s"]}
    path.write_text(yaml.safe_dump({**STUDY, "search": search}, sort_keys=False))
    shown = CliRunner().invoke(main, ["break-even", str(path), "link.bandwidth", "memory.bandwidth", "-q"])
    assert shown.exit_code == 2 and "the search chooses among values of link.bandwidth" in shown.output


def test_values_that_are_alike_are_between() -> None:
    """Where the curve passes 1 slowly, all values within the tolerance may be the one."""
    curve = [(1.0, 1.1), (2.0, 1.003), (4.0, 0.998), (8.0, 0.9)]
    needed, low, high = crossing(curve, 1.0, 0.005)
    assert 2.0 < needed < 4.0 and (low, high) == (1.0, 8.0)
    assert crossing(curve, 1.0)[1:] == (2.0, 4.0)
    assert crossing([(1.0, math.inf), (2.0, 0.9)], 1.0) == (2.0, 1.0, 2.0)
    assert crossing([(1.0, 0.9), (2.0, math.inf)], 2.0) == (1.0, 1.0, 2.0)


@pytest.mark.nightly
def test_objectives_that_are_not_positive_have_no_ratio(tmp_path: Path) -> None:
    """A single stage has no bubble: said, and not told as NaN."""
    found = asked(tmp_path, "memory.bandwidth", "memory.bandwidth", objective={"minimise": "bubble_time_s"},
                  search={"mapping": {"columns": ["tensor_parallel", "pipeline_parallel", "data_parallel"],
                                      "rows": [[8, 1, 4]]}})  # fmt: skip
    assert not found["options"] and found["unsigned"] + found["equal"] == 2


def test_of_several_crossings_the_nearest_counts_and_of_none_there_is_none() -> None:
    curve = [(1.0, 2.0), (2.0, 0.5), (4.0, 2.0), (8.0, 0.5)]
    assert crossing(curve, 1.0)[1:] == (1.0, 2.0)
    assert crossing(curve, 7.0)[1:] == (4.0, 8.0)
    assert all(math.isnan(each) for each in crossing([(1.0, 2.0), (2.0, 1.5)], 1.0))
