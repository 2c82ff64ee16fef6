"""How numbers are shown: as text, in the units of pictures, with the source of the entry that a point has."""

import math
from pathlib import Path

import pytest

from sweeper.planning.plan import Plan
from sweeper.shown import telling
from sweeper.study.study import load_study
from sweeper.views.lineage import coordinates, explain
from sweeper.views.pictures.labels import QUANTITIES, axis_label, label, rank, shown_quantity
from sweeper.views.text import aligned, show, shown_table
from tests.support.small_specs import FILES, STUDY, write_files


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "yes"), (False, "no"), (None, "-"), (1.0, "1"), (1234567.0, "1.23457e+06"), (0.1, "0.1"),
        ([1, 2], "[1, 2]"), ([0] * 7, "[7 entries]"), ("x", "x"), (3, "3"),
    ],
)  # fmt: skip
def test_values_as_text(value: object, text: str) -> None:
    assert show(value) == text


def test_columns_of_a_table_are_as_wide_as_their_widest_cell() -> None:
    assert aligned([["a", "bbb"], ["cc", "d"]]) == "a   bbb\ncc  d"
    assert aligned([["a", "bbb"], ["cc", "d"]], right=[1]) == "a   bbb\ncc    d"


def test_numbers_of_a_column_have_digits_that_tell_them_apart() -> None:
    assert shown_table(["a", "b"], [[3.2e12, 1 / 3], [3.2000001e12, None], [3.2e12, "x"]]).splitlines() == [
        "a              b", "3.2e+12        0.333333", "3.2000001e+12  -", "3.2e+12        x",
    ]  # fmt: skip
    assert shown_table(["a"], []) == "a"
    assert telling([0.1 + 0.2, 0.3]) == 6 and telling([math.nan, math.inf, 1.0, True, 1048576, 1048577]) == 7


def test_a_quantity_is_divided_by_what_its_unit_is_in_the_dataset() -> None:
    scales = {"%": 1e-2, "GFLOP/s per USD": 1e9, "GFLOP/s per W": 1e9, "s": 1.0, "million USD": 1e6, "MW": 1e6}
    assert {quantity.unit: quantity.scale for quantity in QUANTITIES.values()} == scales
    assert axis_label("system_power_W") == "System power (MW)"
    other = shown_quantity("bubble_time_s")
    assert (other.name, other.unit, other.scale) == ("bubble time s", "", 1.0)


def test_entries_stand_in_the_order_of_the_labels_and_others_after_them() -> None:
    assert sorted(["zebra", "nvlink4", "ant", "h100_sxm"], key=rank) == ["h100_sxm", "nvlink4", "ant", "zebra"]
    assert (label("h100_sxm"), label("my_chip")) == ("H100", "my chip")


def test_a_number_has_the_source_of_the_entry_that_the_point_has(tmp_path: Path) -> None:
    write_files(tmp_path, {**FILES, "study.yaml": STUDY})
    plan = Plan(load_study(tmp_path / "study.yaml", [tmp_path]))
    told = {}
    for point in (0, plan.point_count - 1):
        rows = {row["column"]: row for row in explain(plan, point)}
        told[coordinates(plan, point)["chip"]] = rows["chip_given_peak_flops"]
    assert {name: (row["value"], row["source"]) for name, row in told.items()} == {
        "alpha": (1e13, "a datasheet"),
        "beta": (4e13, "another datasheet"),
    }
