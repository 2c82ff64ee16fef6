"""The scoreboard: statistics, any table whatever its rows hold, and what `sweeper validate` prints and writes."""

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sweeper.cli import main
from sweeper.evidence.measured import LAYOUTS, layout_of
from sweeper.evidence.measured_rows import Refusal, read_rows
from sweeper.evidence.registry import registry
from sweeper.evidence.scoreboard import bundled, by_group, by_set, score, scoreboard
from sweeper.evidence.statistics import Scored, coverage, error_statistics, spearman, statistics
from sweeper.library.library import builtin_specs
from tests.support.examples import examples

FOLDER = builtin_specs() / "measurements"
TABLES = {table["layout"]: table["file"] for table in reversed(registry()["tables"])}
KEYS = {
    "rows",
    "modelled",
    "inferred",
    "in_fit",
    "misfit",
    "scored",
    "misfit_errors",
    "median_ape",
    "mean_ape",
    "p90_ape",
    "max_ape",
    "signed",
    "spearman",
    "refused",
    "reasons",
    "baselines",
    "readings",
    "best",
    "target",
    "peers",
}
GARBAGE = st.one_of(
    st.sampled_from(
        ["", "0", "-1", "1.5", "nan", "inf", "-inf", "1e300", "1e-300", "0x10", "１２", "none", "yes", "3"]
    ),
    st.text(max_size=6),
    st.integers(-5, 10**19).map(str),
    st.floats().map(str),
)


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def first_rows(layout: str, count: int = 40) -> list[dict[str, str]]:
    """Some rows of the first bundled table of a layout."""
    return read_rows(FOLDER / TABLES[layout])[:count]


def made(
    measured: float, predicted: float, group: str = "g", fits: bool | None = None, truth: bool | None = None
) -> Scored:
    if math.isfinite(predicted):
        return Scored({}, group, measured, predicted, truth, fits, "")
    return Scored({}, group, measured, predicted, truth, fits, "no number", Refusal.NO_NUMBER)


def test_every_layout_and_every_bundled_table_are_registered() -> None:
    assert TABLES.keys() == LAYOUTS.keys()
    assert {table["file"] for table in registry()["tables"]} == {path.name for path in FOLDER.glob("*.csv")}
    first = {table["file"]: table["layout"] for table in reversed(registry()["tables"])}
    for table in registry()["tables"]:
        rows = read_rows(FOLDER / table["file"])
        assert layout_of(rows, Path(table["file"])) == first[table["file"]]
        assert LAYOUTS[table["layout"]].columns <= set(rows[0])
        assert table["source"]
        assert table["licence"]


@pytest.mark.nightly
def test_sets_take_every_group_once_and_lose_no_row() -> None:
    groups = [group for entry in registry()["sets"] for group in entry.get("groups", [])]
    assert len(groups) == len(set(groups))
    everything = bundled()
    sets = by_set(everything)
    assert sum(map(len, sets.values())) == len(everything)
    assert {s.group for rows in sets.values() for s in rows} == by_group(everything).keys()
    board = scoreboard(everything)
    assert board["sets"].keys() == sets.keys()
    for name, found in board["sets"].items():
        assert found.keys() - {"memory_balanced_accuracy"} == KEYS, name
        assert found["rows"] == found["modelled"] + sum(found["reasons"].values())
        assert found["rows"] == found["modelled"] + sum(found["refused"].values())
        assert found["scored"] + found["misfit"] <= found["modelled"]
        assert found["refused"].keys() <= set(Refusal)
    assert sum(board["refused"].values()) == sum(bool(s.reason) for s in everything)
    assert {title.partition(" (")[0] for title in board["tables"]} == {path.name for path in FOLDER.glob("*.csv")}
    assert sum(found["rows"] for found in board["tables"].values()) == len(everything)
    assert sum(found["rows"] for found in board["calibrations"].values()) == sum(not s.refusal for s in everything)


def test_statistics_of_known_errors() -> None:
    found = statistics([made(10.0, 11.0), made(10.0, 8.0), made(10.0, 10.0), made(1.0, math.inf)])
    assert found["rows"] == 4
    assert found["modelled"] == 3
    assert found["reasons"] == {"no number": 1}
    assert found["refused"] == {"no finite number": 1}
    assert found["median_ape"] == pytest.approx(10.0)
    assert found["mean_ape"] == pytest.approx(10.0)
    assert found["max_ape"] == pytest.approx(20.0)
    assert found["p90_ape"] == pytest.approx(18.0)
    assert found["signed"] == pytest.approx(-10.0 / 3.0)
    assert "memory_balanced_accuracy" not in found


def test_rows_that_ran_but_do_not_fit_by_our_count_are_listed_apart() -> None:
    good = [made(10.0, 11.0), made(10.0, 9.0, fits=True), made(20.0, 22.0, fits=True, truth=True)]
    misfits = [made(10.0, 30.0, fits=False), made(10.0, 20.0, fits=False, truth=True)]
    failed = made(math.nan, 5.0, fits=False, truth=False)  # ran out of memory, as we say
    found = statistics([*good, *misfits, failed])
    assert (found["rows"], found["modelled"], found["misfit"], found["scored"]) == (6, 6, 2, 3)
    assert found["median_ape"] == pytest.approx(10.0)
    assert found["max_ape"] == pytest.approx(10.0)
    assert found["signed"] == pytest.approx(10.0 / 3.0)
    assert found["misfit_errors"]["median_ape"] == pytest.approx(150.0)
    assert found["misfit_errors"]["signed"] == pytest.approx(150.0)
    assert found["memory_balanced_accuracy"] == pytest.approx(75.0)
    assert statistics(good)["misfit_errors"] is None


def test_rows_that_are_inferred_or_in_a_fit_are_counted() -> None:
    rows = [made(1.0, 1.0, "g (inferred)"), made(1.0, 1.0), replace(made(1.0, 1.0), fitted_in=("some", "other"))]
    found = statistics([*rows, made(1.0, math.nan, "g (inferred)")])
    assert (found["inferred"], found["in_fit"], found["rows"]) == (1, 1, 4)


def test_coverage_is_of_rows_that_say_all_that_physics_needs() -> None:
    def row(complete: str, refusal: Refusal | None) -> Scored:
        return Scored({"config_complete": complete}, "g", 1.0, 1.0, None, None, refusal or "", refusal)

    rows = [
        row("1", None),
        row("1", Refusal.ACCELERATOR),
        row("1", Refusal.INCOMPLETE),  # the table says that it has all, so it counts against us
        row("1", Refusal.EXCLUDED),  # but its source does not stand by it
        row("0", None),  # answered, with what is left open inferred
        row("0", Refusal.INCOMPLETE),
    ]
    assert coverage(rows) == {
        "rows": 6,
        "repeated": 4,
        "complete": 3,
        "complete_modelled": 1,
        "coverage": pytest.approx(100.0 / 3.0),
    }
    # Where the table does not say, what is not refused as incomplete is complete.
    silent = [replace(each, row={}) for each in rows]
    assert coverage(silent) == {
        "rows": 6,
        "repeated": 5,
        "complete": 3,
        "complete_modelled": 2,
        "coverage": pytest.approx(200.0 / 3.0),
    }
    assert coverage([])["coverage"] is None


def test_statistics_of_nothing() -> None:
    assert set(error_statistics(np.array([])).values()) == {None}
    found = statistics([])
    assert found["rows"] == 0
    assert found["spearman"] is None


def test_ranks_and_balance() -> None:
    assert spearman([1.0, 2.0, 9.0], [2.0, 3.0, 4.0]) == pytest.approx(1.0)
    assert spearman([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == pytest.approx(-1.0)
    assert spearman([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) is None
    # 3 of 4 runs that fit are told rightly, 1 of 2 that do not: the mean of both shares, whatever their numbers.
    truth = [True] * 4 + [False] * 2
    told = [True, True, True, False, True, False]
    rows = [made(1.0 if fit else math.nan, 1.0, "g", answer, fit) for fit, answer in zip(truth, told, strict=True)]
    assert statistics(rows)["memory_balanced_accuracy"] == pytest.approx(62.5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_row_is_predicted_alone_as_among_others(layout: str) -> None:
    together = score(first_rows(layout), layout)
    for at in (0, len(together) - 1):
        (alone,) = score([together[at].row], layout)
        assert (alone.predicted == together[at].predicted) or (alone.reason and alone.reason == together[at].reason)
    backwards = score([s.row for s in together[::-1]], layout)[::-1]
    assert [s.predicted for s in backwards if not s.reason] == [s.predicted for s in together if not s.reason]


def test_replaced_constants_change_their_calibration_alone() -> None:
    rows = first_rows("inference", 22)
    before, after = (score(rows, "inference", constants) for constants in (
        {}, {"a100_nemo_inference": {"memory_efficiency": 0.1, "collective_launch": 0.0}}))  # fmt: skip
    changed = [one.predicted != other.predicted for one, other in zip(before, after, strict=True)]
    assert changed == [s.row["accelerator"].startswith("A100") for s in before]


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(examples(12), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_row_breaks_the_scoreboard(layout: str, data: st.DataObject) -> None:
    pool = first_rows(layout)
    rows = []
    for row in data.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=12)):
        columns = data.draw(st.lists(st.sampled_from(sorted(row)), max_size=4, unique=True))
        rows.append({**row, **{name: data.draw(GARBAGE) for name in columns}})
    rows.append({name: data.draw(GARBAGE) for name in pool[0]})
    scored = score([*rows, {}], layout)
    assert len(scored) == len(rows) + 1
    for s in scored:
        assert s.reason or (math.isfinite(s.predicted) and s.predicted > 0.0)
    json.dumps(scoreboard(scored), allow_nan=False)


@pytest.mark.slow
def test_validate_scores_our_tables() -> None:
    result = call("validate", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found.keys() == {"sets", "parts", "tables", "refused", "calibrations"}
    board = found["sets"]
    assert list(board)[: len(registry()["sets"])] == [entry["name"] for entry in registry()["sets"]]
    assert board["optimus table 1"]["modelled"] == 11
    assert {peer["name"] for peer in board["optimus table 1"]["peers"]} >= {"Optimus"}
    assert "memory_balanced_accuracy" in board["nanotron h100"]
    assert board["nanotron h100"]["misfit_errors"]["median_ape"] > board["nanotron h100"]["median_ape"]
    assert found["calibrations"]["a100_megatron_2022"]["hand_set"]["kernel_overhead"]["value"] == 5e-6


def test_validate_scores_a_file_of_ones_own(tmp_path: Path) -> None:
    rows = first_rows("gemm", 6)
    rows[1]["m"] = "many"
    rows[2]["latency_us"] = "nan"
    path, out = tmp_path / "mine.csv", tmp_path / "predictions.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    result = call("validate", "--measured", path, "--measured", FOLDER / TABLES["optimus"], "--json", "--out", out,
                  "--figures", tmp_path / "figures")  # fmt: skip
    assert result.exit_code == 0, result.output
    board = json.loads(result.stdout)["sets"]
    assert board["gemm a100"]["rows"] == 4
    assert board["gemm a100"]["in_fit"] == 0  # rows of one's own were not fitted to, whatever they are
    assert board["gemm"]["refused"] == {"impossible row": 2}
    assert board["optimus table 1"]["in_fit"] == 11
    assert board["gemm"]["reasons"] == {"m is 'many', not a number": 1, "latency_us is nan": 1}
    assert board["optimus table 1"]["rows"] == 11
    written = read_rows(out)
    said = ["predicted", "error", "reason", "refusal", "misfit", "inferred", "calibration", "lent", "fitted_in"]
    assert list(written[0])[-11:] == [*said, "constant", "other_models"]
    assert (written[0]["calibration"], written[0]["lent"]) == ("a100_gemm_bf16", "")
    assert [row["m"] for row in written[:6]] == [row["m"] for row in rows]
    first = written[0]
    measured_s = float(first["latency_us"]) * 1e-6
    assert float(first["error"]) == pytest.approx(float(first["predicted"]) / measured_s - 1.0)
    assert written[1]["predicted"] == ""
    assert written[1]["reason"]
    assert written[1]["refusal"] == "impossible row"
    assert (written[0]["fitted_in"], written[6]["fitted_in"]) == ("", "a100_megatron_2022")
    assert float(written[0]["constant"]) > 0.0
    pictures = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"gemm_a100.png", "gemm_a100.svg", "optimus_table_1.png", "overview.png"} <= pictures
    shown = call("validate", "--measured", path).stdout
    assert "MEDIAN CONSTANT" in shown
    assert "Refused: 2 impossible row." in shown
    assert "VALUES SET BY HAND" in shown
    assert str(path) in shown


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", "m,n,k,gemm_dtype,latency_us\n", '"unclosed\n1', "m,n\n1,2,3,4\n", "\n\n\n"]
)
def test_tables_of_no_known_layout_exit_2_with_one_message(text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_text(text)
    result = call("validate", "--measured", path)
    assert result.exit_code == 2
    assert len(result.output.splitlines()) == 1
    assert str(path) in result.output


def test_files_that_cannot_be_read_exit_3(tmp_path: Path) -> None:
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00m,n")
    for path in (tmp_path / "absent.csv", tmp_path, binary):
        result = call("validate", "--measured", path)
        assert result.exit_code == 3
        assert len(result.output.splitlines()) == 1


def test_a_study_is_checked_and_not_scored(tmp_path: Path) -> None:
    assert json.loads(call("validate", "dse80", "--json").stdout)["study"] == "dse80"
    assert call("validate", "dse80", "--out", tmp_path / "x.csv").exit_code == 2
    assert call("validate", "--library", tmp_path).exit_code == 2


@examples(200)
@given(st.lists(st.floats(-0.99, 10.0), min_size=1, max_size=30))
@example([0.0])
def test_statistics_are_in_order(errors: list[float]) -> None:
    found = error_statistics(np.array(errors))
    values = {name: value for name, value in found.items() if value is not None}
    assert values["median_ape"] <= values["max_ape"]
    assert values["p90_ape"] <= values["max_ape"] + 1e-9
    assert abs(values["signed"]) <= values["mean_ape"] + 1e-9
