"""Conditions: what holds of which rows, what the earlier night is for them, and what is no condition."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from sweeper.errors import UsageFault
from sweeper.nights.conditions import Condition, Held
from sweeper.running.execution import run
from sweeper.running.plans import WholeChunks
from sweeper.running.storage.folders import Folder, LocalFolder
from tests.support.fake_plan import FakePlan

ROWS = {"chip": ["a", "b", "a"], "chips": [8, 8, 64], "time_s": [1.0, 2.0, 3.0]}


class Table(WholeChunks, FakePlan):
    """A plan whose one chunk is a table that is given."""

    def __init__(self, rows: Mapping[str, Sequence[Any]], feasible: Sequence[bool] | None = None) -> None:
        super().__init__("table", chunks=1)
        count = len(next(iter(rows.values())))
        told = {"point_id": range(count), **rows, "feasible": feasible or [True] * count}
        columns = {name: pa.array(list(values)) for name, values in told.items()}
        if "chip" in columns:
            columns["chip"] = columns["chip"].dictionary_encode()
        self.rows = pa.table(columns)

    @property
    def schema(self) -> pa.Schema:
        return self.rows.schema

    @property
    def resolved(self) -> dict[str, Any]:
        return {"name": self.name, "rows": json.loads(json.dumps(self.rows.to_pylist(), default=str))}

    def evaluate(self, chunk: int) -> pa.Table:
        return self.rows


def made(out: Path, rows: Mapping[str, Sequence[Any]], feasible: Sequence[bool] | None = None) -> Folder:
    return LocalFolder(Path(run(Table(rows, feasible), out, quiet=True).directory))


def where(found: Held | None) -> str | None:
    return None if found is None else found.where


def held(
    out: Path,
    condition: str,
    rows: Mapping[str, Sequence[Any]] = ROWS,
    before: Mapping[str, Sequence[Any]] | None = None,
    keys: Sequence[str] = ("chip", "chips"),
) -> str | None:
    """Where a condition holds in a run of such rows; None if it cannot be asked of them."""
    return where(Condition(condition).held(made(out, rows), made(out, before) if before is not None else None, keys))


@pytest.mark.parametrize(
    ("condition", "count", "first"),
    [
        ("time_s > 1.5", "2 rows", "chip b, chips 8, time_s 2"),
        ("time_s > 2.5", "1 row", "chip a, chips 64, time_s 3"),
        ("time_s > 3", "", ""),
        ("chips > 8", "1 row", "chip a, chips 64"),
        ("chip = 'a' AND time_s >= 1", "2 rows", "chip a, chips 8, time_s 1"),
        ("chips * time_s BETWEEN 10 AND 20", "1 row", "chip b, chips 8, time_s 2"),
        ("time_s IS NULL", "", ""),
    ],
)
def test_where_a_condition_holds_in_words(tmp_path: Path, condition: str, count: str, first: str) -> None:
    told = held(tmp_path, condition)
    assert told == (f"{condition} in {count}, the first with {first}" if count else "")


def test_rows_that_are_not_feasible_are_none(tmp_path: Path) -> None:
    run_ = made(tmp_path, ROWS, [True, True, False])
    assert Condition("time_s > 2.5").held(run_, None, ["chip", "chips"]) == ("", 2, 0)
    assert where(Condition("time_s > 1.5").held(run_, None, ["chip", "chips"])).startswith("time_s > 1.5 in 1 row,")


BEFORE = {**ROWS, "time_s": [1.0, 1.9, 3.0]}


def test_a_row_is_compared_with_the_one_of_the_same_axes(tmp_path: Path) -> None:
    condition = "time_s > 1.02 * baseline"
    told = f"{condition} in 1 row, the first with chip b, chips 8, time_s 2, baseline 1.9"
    assert held(tmp_path, condition, ROWS, BEFORE) == told
    turned = {name: list(reversed(values)) for name, values in BEFORE.items()}
    assert held(tmp_path, condition, ROWS, turned) == told, "in whatever order"
    more = {"chip": ["c", *BEFORE["chip"]], "chips": [1, *BEFORE["chips"]], "time_s": [0.1, *BEFORE["time_s"]]}
    assert held(tmp_path, condition, ROWS, more) == told
    assert held(tmp_path, condition, BEFORE, ROWS) == ""
    assert held(tmp_path, condition, ROWS, ROWS) == ""
    assert held(tmp_path, "time_s < 0.98 * baseline", BEFORE, ROWS).count("baseline 2") == 1


def test_rows_that_there_were_not_are_not_compared(tmp_path: Path) -> None:
    less = {name: values[:1] for name, values in BEFORE.items()}
    assert held(tmp_path, "time_s > 1.02 * baseline", ROWS, less) == ""
    others = {**BEFORE, "chips": [9, 9, 65]}
    assert held(tmp_path, "time_s > 1.02 * baseline", ROWS, others) == ""


def test_rows_without_an_earlier_one_are_counted(tmp_path: Path) -> None:
    """New rows, rows that were not feasible, rows without a value, and further rows of the same axes."""
    condition, keys = Condition("time_s > 1.02 * baseline"), ["chip", "chips"]
    now, same = made(tmp_path, ROWS), {**ROWS, "chip": ["a", "b", "b"], "chips": [8, 8, 8]}
    for before, feasible, new in (
        (BEFORE, [True, True, True], 0),
        ({name: values[:1] for name, values in BEFORE.items()}, [True], 2),
        (BEFORE, [True, False, True], 1),
        ({**BEFORE, "time_s": [None, 1.9, 3.0]}, [True, True, True], 1),
    ):
        found = condition.held(now, made(tmp_path, before, feasible), keys)
        assert found is not None and (found.rows, found.new) == (3, new)
    found = condition.held(made(tmp_path, same), made(tmp_path, same), keys)
    assert found is not None and (found.rows, found.new) == (3, 1)
    wide = made(tmp_path, {**ROWS, "width": [1, 2, 3]})
    for one, other in ((wide, made(tmp_path, BEFORE)), (now, wide)):  # an axis that the other night has not
        found = condition.held(one, other, [*keys, "width"])
        assert found is not None and (found.where, found.rows, found.new) == ("", 3, 3)
    alone = Condition("time_s > 2.5").held(now, made(tmp_path, BEFORE), keys)
    assert alone is not None and (alone.rows, alone.new) == (3, 0)


@pytest.mark.parametrize("chips", [[8.0, 8.0, 64.0], [8.0, 8.0, 64.5]])
def test_an_axis_of_whole_numbers_that_gets_a_fraction_is_the_same_axis(tmp_path: Path, chips: list[float]) -> None:
    told = held(tmp_path, "time_s > 1.02 * baseline", ROWS, {**BEFORE, "chips": chips})
    assert told.endswith("in 1 row, the first with chip b, chips 8, time_s 2, baseline 1.9")


def test_what_an_axis_does_not_say_is_the_same_as_before(tmp_path: Path) -> None:
    """A study of several boxes need not give each axis in each."""
    now, old = ({**rows, "chips": [None, 8, 64], "chip": ["a", None, "a"]} for rows in (ROWS, BEFORE))
    assert held(tmp_path, "time_s > 1.02 * baseline", now, old).endswith(
        "in 1 row, the first with chip -, chips 8, time_s 2, baseline 1.9"
    )


def test_a_study_of_one_row_needs_no_axis(tmp_path: Path) -> None:
    now, old = {"time_s": [2.0]}, {"time_s": [1.0]}
    assert held(tmp_path, "time_s > baseline", now, old, ()) == (
        "time_s > baseline in 1 row, the first with time_s 2, baseline 1"
    )


def test_every_row_is_asked_and_the_first_of_equals_is_compared(tmp_path: Path) -> None:
    now, old = {**ROWS, "chip": ["a"] * 3, "chips": [8] * 3}, {**BEFORE, "chip": ["a"] * 3, "chips": [8] * 3}
    assert held(tmp_path, "time_s > 2.5", now).endswith("in 1 row, the first with chip a, chips 8, time_s 3")
    assert held(tmp_path, "time_s > 1.02 * baseline", now, old) == ""
    assert held(tmp_path, "time_s >= baseline", now, old).startswith("time_s >= baseline in 1 row")


def test_the_first_column_is_the_one_of_the_baseline(tmp_path: Path) -> None:
    now = {**ROWS, "power_W": [10.0, 10.0, 10.0]}
    old = {**BEFORE, "power_W": [9.0, 9.0, 9.0]}
    for condition in ("power_W > baseline AND time_s > 2", "power_W - baseline > 0 AND time_s > 2"):
        assert held(tmp_path, condition, now, old).endswith("power_W 10, time_s 3, baseline 9")


def test_a_column_that_a_run_does_not_have_asks_nothing_of_it(tmp_path: Path) -> None:
    assert held(tmp_path, "power_W > 3") is None
    assert held(tmp_path, "time_s > 2 * baseline") is None
    assert held(tmp_path, "time_s > baseline", ROWS, {**ROWS, "time_s": ROWS["time_s"]}) == ""
    less = {name: values for name, values in BEFORE.items() if name != "time_s"}
    assert held(tmp_path, "time_s > baseline", ROWS, {**less, "power_W": [1.0, 1.0, 1.0]}) is None


def test_an_axis_in_a_condition_keeps_its_type(tmp_path: Path) -> None:
    assert held(tmp_path, "time_s > 1.02 * baseline AND chips < 16", ROWS, BEFORE).endswith("baseline 1.9")
    assert held(tmp_path, "time_s > 1.02 * baseline AND chips > 16", ROWS, BEFORE) == ""


SCHEMA = Table(ROWS).schema


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("", "unable to parse"),
        ("time_s >", "--fail-if 'time_s >'"),
        ("SELECT time_s", "--fail-if"),
        ("time_s > 1; DROP TABLE data", "--fail-if"),
        ("1 > 2", "names no column"),
        ("baseline > 2", "names no column"),
        ("tim_s > 2", "did you mean 'time_s'"),
        ("time_s", "Boolean"),
        ("time_s > 'fast'", "cannot compare"),
        ("chip > 3", "cannot compare"),
        ("time_s > (SELECT 1)", "--fail-if"),
        ("\ud800 > 2", "--fail-if"),
    ],
)
def test_what_is_no_condition_is_told_before_anything_is_computed(condition: str, told: str) -> None:
    with pytest.raises(UsageFault) as caught:
        Condition(condition).check([SCHEMA])
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_a_condition_may_be_for_some_of_the_studies() -> None:
    other = pa.schema([("point_id", pa.int64()), ("feasible", pa.bool_()), ("power_W", pa.float64())])
    for condition in ("time_s > 1.02 * baseline", "power_W > 3", "chips > 8 OR chip IN ('a', 'b')"):
        Condition(condition).check([SCHEMA, other])
    Condition("cost_usd > 3").check([SCHEMA, other], others=True)
    with pytest.raises(UsageFault, match="unknown column of these studies 'cost_usd'"):
        Condition("cost_usd > 3").check([SCHEMA, other])
    with pytest.raises(UsageFault, match="cannot compare"):
        Condition("time_s > 'fast'").check([SCHEMA, other], others=True)


def test_columns_are_those_that_are_named_and_baseline_is_none() -> None:
    condition = Condition("b > 1.02 * baseline AND a > 3 AND b < 8")
    assert (condition.columns, condition.compares) == (["b", "a"], True)
    assert not Condition("a > 3").compares
    assert isinstance(condition.expression, pl.Expr)
