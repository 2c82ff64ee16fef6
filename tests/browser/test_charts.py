"""What the charts of a page draw, and what their notes say is left out: `report.js`, run by Node.js without a page:
`make browser-test`."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import polars as pl
import pytest

from sweeper.reports.rows import packed
from sweeper.shown import FEWEST
from sweeper.views.analysis import pareto

pytestmark = pytest.mark.browser
STAGE = f"globalThis.document = {{ addEventListener() {{}} }}; const FEWEST = {FEWEST};"
HARNESS = """
const { told, values, chart, chosen } = JSON.parse(require("fs").readFileSync(0, "utf8"));
(async () => {
  const frame = new Frame(told, await unpacked(values));
  const choices = Object.entries(CHARTS[chart].choices(frame, told)).map(([key, choice]) => {
    const { options, at } = Array.isArray(choice) ? { options: choice, at: 0 } : choice;
    const wanted = options.find((option) => (option.name || option) === chosen[key]);
    return [key, wanted || options[Math.min(at, options.length - 1)]];
  });
  const rows = Uint32Array.from({ length: frame.rows }, (_, row) => row);
  const [traces, layout, note] = CHARTS[chart].draw(frame, rows, Object.fromEntries(choices), told);
  console.log(JSON.stringify({ traces, layout, note }));
})();
"""


SENSES = {"time_s": "minimise", "price_usd": "minimise"}


def drawn(
    frame: pl.DataFrame, axes: list[str], chart: str, tornadoes: Sequence[Mapping[str, Any]] = (), **chosen: str
) -> dict[str, Any]:
    """What a chart gives Plotly, and its note, for rows whose times are better where they are less."""
    columns, values = packed(frame.with_row_index("point_id"), axes, {}, SENSES)
    told = {"rows": frame.height, "columns": columns, "tornadoes": tornadoes}
    asked = {"told": told, "values": values, "chart": chart, "chosen": chosen}
    script = STAGE + (files("sweeper.reports") / "templates" / "report.js").read_text() + HARNESS
    ran = subprocess.run(["node", "-e", script], check=False, input=json.dumps(asked), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-1000:]
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def busy(**columns: list[Any]) -> pl.DataFrame:
    rows = len(next(iter(columns.values())))
    times = {f"{name}_time_s": [1.0] * rows for name in ("compute", "memory", "network")}
    return pl.DataFrame({**columns, **times})


CLOSE = [3.2e12, 3.2000001e12, 3.2000002e12]


def test_values_of_an_axis_that_six_digits_do_not_tell_apart_have_more() -> None:
    frame = busy(bandwidth_Bps=CLOSE, chip=["a"] * 3, time_s=[3.0, 2.0, 1.0])
    names = ["3200000000000", "3200000100000", "3200000200000"]
    bars = drawn(frame, ["bandwidth_Bps"], "breakdown", axis="bandwidth_Bps", best="time_s")
    assert bars["traces"][0]["y"] == names
    cells = drawn(frame, ["chip", "bandwidth_Bps"], "heat_map", x="bandwidth_Bps", y="chip")
    assert cells["traces"][0]["x"] == names
    usual = drawn(busy(bandwidth_Bps=[1 / 3, 2 / 3], time_s=[1.0, 2.0]), ["bandwidth_Bps"], "breakdown")
    assert usual["traces"][0]["y"] == ["0.333333", "0.666667"]


def test_the_front_of_a_page_is_that_of_the_dataset_with_all_equals() -> None:
    frame = pl.DataFrame({"time_s": [1.0, 1.0 + 1e-9, 1.0, 2.0, 3.0], "price_usd": [5.0, 4.0, 5.0, 4.0, 3.0]})
    found = drawn(frame, [], "pareto")
    expected = pareto(frame.with_row_index("point_id"), SENSES)
    assert found["note"].startswith(f"{expected.height} on the front") and expected.height == 4
    front = found["traces"][-1]
    assert [*zip(front["x"], front["y"], strict=True)] == expected.select("time_s", "price_usd").rows()


def test_what_a_logarithmic_axis_cannot_show_is_on_a_linear_one() -> None:
    frame = pl.DataFrame({"load": [1, 2, 3], "time_s": [0.0, 1.0, 2.0], "price_usd": [3.0, 2.0, 1.0]})
    front, curve = (drawn(frame, ["load"], chart) for chart in ("pareto", "curves"))
    for found, other in ((front, "yaxis"), (curve, "xaxis")):
        types = {axis: found["layout"][axis]["type"] for axis in ("xaxis", "yaxis")}
        assert sorted(types.values()) == ["linear", "log"] and types[other] == "log"
        assert found["note"].endswith("; time_s is not above 0 everywhere, so its axis is linear")
    assert curve["traces"][0]["y"][0] == 0.0


def test_rows_without_a_number_are_counted() -> None:
    frame = pl.DataFrame(
        {"load": [1, 2, 3, 4], "time_s": [1.0, None, float("inf"), 2.0], "price_usd": [1.0, 2.0, 3.0, None]}
    )
    assert drawn(frame, ["load"], "curves")["note"] == "least of the other axes; 2 rows have no finite time_s"
    assert drawn(frame, ["load"], "pareto")["note"].endswith("; 3 rows have no finite time_s or price_usd")
    assert "; 2 rows have no finite time_s" in drawn(frame, ["load"], "parallel")["note"]


def test_what_a_chart_has_no_room_for_is_counted() -> None:
    many = busy(load=[*range(45)], time_s=[float(at) for at in range(45)])
    assert drawn(many, ["load"], "breakdown")["note"] == "40 of 45 values; least time_s of each load"
    axes = {f"axis_{at}": [1, 2] for at in range(12)}
    metrics = {f"metric_{at}_s": [1.0, 2.0] for at in range(6)}
    note = drawn(pl.DataFrame({**axes, **metrics}), [*axes], "parallel")["note"]
    assert note == "2 rows; 9 of 12 axes; 4 of 6 metrics; drag along an axis to choose"
    bar = {"name": "clock", "cannot": "", "low": "1", "high": "2", "at_low": 1.0, "at_high": 2.0}
    tornado = {"title": "best", "metric": "time_s", "part": 0.2, "idle": 3, "less": 2, "bars": [bar]}
    note = drawn(many, ["load"], "tornado", [tornado])["note"]
    assert "1 of 3 numbers that move it; 3 further numbers do not move it" in note
