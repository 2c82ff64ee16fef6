"""A dataset in the formats of others holds the same rows."""

import json
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal

import sweeper
from sweeper.cli import main
from sweeper.views.export import FORMATS, export

READERS = {
    ".csv": lambda file: pl.read_csv(file, infer_schema_length=None),
    ".json": pl.read_json,
    ".jsonl": pl.read_ndjson,
    ".xlsx": lambda file: pl.DataFrame(_sheet(file)),
    ".duckdb": lambda file: _table(file, "data"),
    ".arrow": pl.read_ipc,
    ".parquet": pl.read_parquet,
}


def _sheet(file: Path) -> pl.DataFrame:
    """Rows of a worksheet, read from its XML; no library for that is needed elsewhere."""
    import re
    import zipfile

    with zipfile.ZipFile(file) as book:
        strings = re.findall(r"<si><t[^>]*>(.*?)</t></si>", book.read("xl/sharedStrings.xml").decode())
        sheet = book.read("xl/worksheets/sheet1.xml").decode()
    rows = []
    for row in re.findall(r"<row[^>]*>(.*?)</row>", sheet, re.DOTALL):
        cells = re.findall(r'<c r="[A-Z]+\d+"([^>]*?)(?:/>|>(?:<v>(.*?)</v>)?</c>)', row)
        rows.append([strings[int(value)] if 't="s"' in how else value for how, value in cells])
    return pl.DataFrame(rows[1:], schema=rows[0], orient="row")


def _table(file: Path, name: str) -> pl.DataFrame:
    with duckdb.connect(str(file), read_only=True) as base:
        return pl.DataFrame(base.sql(f"SELECT * FROM {name}").to_arrow_table())


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("results")
    return sweeper.run(sweeper.plan("table6_sn10"), out=out, quiet=True).directory


def call(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, [str(word) for word in words])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("ending", FORMATS)
def test_the_rows_are_the_same(ending: str, directory: str, tmp_path: Path) -> None:
    file = tmp_path / f"rows{ending}"
    code, told, _ = call("export", directory, file)
    assert (code, told) == (0, f"{file}\n")
    there = pl.DataFrame(READERS[ending](file))
    rows = sweeper.scan(directory).with_columns(pl.selectors.categorical().cast(pl.String)).collect()
    assert sorted(there.columns) == sorted(rows.columns)  # a reader of JSON has them in an order of its own
    shared = ["point_id", "topology", "tensor_parallel", "iteration_time_s", "utilisation"]
    types = {name: rows.schema[name] for name in shared}
    assert_frame_equal(there.select(shared).cast(types).sort("point_id"), rows.select(shared).sort("point_id"))
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_a_base_has_what_the_columns_mean(directory: str, tmp_path: Path) -> None:
    call("export", directory, tmp_path / "rows.duckdb")
    meaning = _table(tmp_path / "rows.duckdb", "columns").filter(column="iteration_time_s").row(0, named=True)
    assert meaning["unit"] == "s" and meaning["description"] and meaning["grade"]


def test_what_a_query_computed_has_no_unit_whatever_its_name(directory: str, tmp_path: Path) -> None:
    asked = "SELECT chip, iteration_time_s/60 AS iteration_time_s, utilisation AS memory_need_B, utilisation FROM data"
    assert call("export", directory, tmp_path / "some.duckdb", "--sql", asked)[0] == 0
    meaning = {row["column"]: row for row in _table(tmp_path / "some.duckdb", "columns").to_dicts()}
    for name in ("iteration_time_s", "memory_need_B"):
        assert (meaning[name]["unit"], meaning[name]["description"]) == ("", "computed by the query")
    assert meaning["utilisation"]["grade"] and meaning["chip"]["role"] == "parameter"


@pytest.mark.parametrize(
    ("ending", "schema"),
    [(".parquet", pyarrow.parquet.read_schema), (".arrow", lambda file: pa.ipc.open_file(file).schema)],
)
def test_a_file_keeps_what_the_columns_mean(ending: str, schema: Any, directory: str, tmp_path: Path) -> None:
    file = tmp_path / f"all{ending}"
    assert call("export", directory, file)[0] == 0
    (part,) = Path(directory).glob("data/*.parquet")
    there, here = pyarrow.parquet.read_schema(part), schema(file)
    said = {field.name: {text: about for text, about in field.metadata.items() if about} for field in there}
    assert {field.name: field.metadata for field in here} == said and said["utilisation"][b"grade"]


def test_numbers_that_json_cannot_say_are_counted(directory: str, tmp_path: Path) -> None:
    asked = "SELECT point_id, iteration_time_s/0 AS rate FROM data"
    for words in (("export", directory, tmp_path / "some.json", "--sql", asked), ("query", directory, asked, "--json")):
        code, _, message = call(*words)
        assert code == 0 and "null: 4 numbers that are infinite or not a number" in message
    assert call("query", directory, asked)[2] == ""


def test_an_answer_and_all_runs_of_a_folder(directory: str, tmp_path: Path) -> None:
    best = "SELECT run, MIN(iteration_time_s) AS best FROM data GROUP BY run"
    assert call("export", Path(directory).parent, tmp_path / "best.json", "--sql", best)[0] == 0
    (row,) = json.loads((tmp_path / "best.json").read_text())
    assert row["run"] == Path(directory).name
    assert row["best"] == sweeper.scan(directory).select(pl.col("iteration_time_s").min()).collect().item()


def test_nothing_is_overwritten_and_a_failure_leaves_nothing(directory: str, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("mine")
    code, _, message = call("export", directory, file)
    assert code == 2 and "is there already" in message and file.read_text() == "mine"
    code, _, message = call("export", directory, tmp_path / "rows.xls")
    assert code == 2 and "did you mean '.xlsx'" in message
    code, _, message = call("export", directory, tmp_path / "none" / "rows.csv")
    assert code == 3 and "Traceback" not in message
    many = pl.LazyFrame({"number": range(1_048_576)})
    with pytest.raises(sweeper.SweeperError, match="1,048,576 rows"):
        export(many, pl.DataFrame(), tmp_path / "many.xlsx")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_a_format_whose_library_is_not_there_says_what_to_install(
    directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "xlsxwriter", None)
    code, _, message = call("export", directory, tmp_path / "rows.xlsx")
    assert code == 3 and "pip install 'sweeper[export]'" in message
