"""Queries read the dataset and nothing else."""

import json
import re
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner

import sweeper
from sweeper.cli import main
from sweeper.errors import SpecError, UsageFault
from sweeper.views.queries import MAX_LENGTH, ask, check_answer, reads_files, remarks
from tests.support.hand_made import commit

READERS = {"read_csv": "csv", "read_parquet": "parquet", "read_ipc": "ipc", "read_json": "json", "read_ndjson": "json"}
"""Table functions of Polars, and the ending of the file that each is given."""

FORMS = (
    "SELECT * FROM {call}",
    "FROM {call}",
    "SELECT * FROM data, {call}",
    "SELECT * FROM data JOIN {call} AS other ON data.a = other.a",
    "SELECT * FROM (data JOIN {call} AS other ON data.a = other.a)",
    "SELECT * FROM data WHERE a IN (SELECT a FROM {call})",
    "SELECT (SELECT MAX(a) FROM {call}) FROM data",
    "WITH x AS (SELECT * FROM {call}) SELECT * FROM x",
    "SELECT a FROM data UNION ALL SELECT a FROM {call}",
    "/* */ -- \n (SELECT * FROM {call})",
)
"""Queries with a table function in every place where one may stand."""

WRITES = (
    "CREATE TABLE t AS SELECT * FROM data",
    "DROP TABLE data",
    "TRUNCATE TABLE data",
    "DELETE FROM data",
    "INSERT INTO data VALUES (1)",
    "UPDATE data SET a = 1",
    "COPY data TO 'x'",
    "EXPLAIN SELECT * FROM data",
    "SHOW TABLES",
    "/* SELECT */ DROP TABLE data",
    "SELECT * FROM data; DROP TABLE data",
    "WITH x AS (SELECT 1) DELETE FROM data",
    "SELECT * INTO t FROM data",
    "",
    " ",
)

OTHERS = ("'x.csv'", '"x.csv"', "`x.csv`", "x", "main.data", "'data/part-00000000.parquet'")
"""Tables that are not there."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run directory as far as queries go, in a working directory with files of every kind."""
    monkeypatch.chdir(tmp_path)
    frame = pl.DataFrame({"a": [1]})
    frame.write_csv("x.csv")
    frame.write_parquet("x.parquet")
    frame.write_ipc("x.ipc")
    frame.write_ndjson("x.json")
    return commit(tmp_path / "run", [pa.table({"a": [5], "b": ["c"]})])


@pytest.mark.parametrize("reader", READERS)
def test_table_functions_are_refused_wherever_they_stand(reader: str, run: Path) -> None:
    path = f"x.{READERS[reader]}"
    assert pl.SQLContext().execute(f"SELECT * FROM {reader}('{path}')", eager=True).height == 1
    for spelt in (reader, reader.upper(), f'"{reader}"', f"`{reader}`", f"{reader} ", f"{reader}/**/"):
        for form in FORMS:
            with pytest.raises(UsageFault, match="reads files"):
                ask(run, form.format(call=f"{spelt}('{path}')"))


def test_no_table_function_of_the_installed_polars_is_forgotten() -> None:
    named = [name for name in dir(pl) if name.startswith(("read_", "scan_", "from_", "sink_"))]
    found = {name for name in [*named, "glob", "unnest", "sniff_csv", "read_text", "read_blob"] if reads_files(name)}
    assert found == set(READERS)
    assert not any(map(reads_files, ("select", "from", "max", "data", "x.csv", "iteration_time_s")))


@pytest.mark.parametrize("sql", [*WRITES, *(f"SELECT * FROM {table}" for table in OTHERS), "SELECT '\udcff' FROM data"])
def test_what_is_no_question_to_the_dataset_is_one_clear_error(sql: str, run: Path) -> None:
    before = sorted(run.parent.rglob("*"))
    result = CliRunner().invoke(main, ["query", str(run), sql])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert sorted(run.parent.rglob("*")) == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM data",
        "from data",
        "-- all\n(SELECT a FROM data)",
        "WITH x AS (SELECT * FROM data) SELECT * FROM x",
    ],
)
def test_questions_are_answered(sql: str, run: Path) -> None:
    assert ask(run, sql)["a"].to_list() == [5]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("SELECT nonsense FROM data", "answer: unknown column of the dataset 'nonsense'"),
        ("DROP TABLE data", "answer: found 'DROP TABLE data'; a query begins with SELECT"),
        ("SELECT chip FROM other", "answer: the query failed"),
        ("SELECT CAST(chip AS INTEGER) AS x FROM data", "answer: the query failed: cannot cast"),
        ("SELECT SUM(chip) AS x FROM data", "answer: the query failed: `sum` operation not supported"),
        ("SELECT chip FROM data WHERE iteration_time_s > 'slow'", "answer: the query failed: cannot compare string"),
    ],
)
def test_an_answer_that_the_dataset_could_not_give_is_refused_before(answer: str, words: str) -> None:
    with pytest.raises(SpecError, match=re.escape(words)):
        check_answer(sweeper.plan({**sweeper.load("table6_sn10").written.plain(), "answer": answer}))
    for right in (
        "SELECT chip FROM data",
        "SELECT CAST(SUBSTR(CAST(chip AS VARCHAR), 3, 2) AS INTEGER) AS a FROM data",
    ):
        check_answer(sweeper.plan({**sweeper.load("table6_sn10").written.plain(), "answer": right}))


def test_a_query_that_is_too_long_is_not_read(run: Path) -> None:
    with pytest.raises(UsageFault, match="characters"):
        ask(run, "SELECT a FROM data WHERE " + "a = 5 AND " * MAX_LENGTH + "a = 5")


def test_answers_that_json_has_no_kind_of_are_text_or_nothing(run: Path) -> None:
    sql = "SELECT CAST('2020-01-02' AS DATE) AS day, a / 0 AS much, CAST('NaN' AS DOUBLE) AS none FROM data"
    result = CliRunner().invoke(main, ["query", str(run), sql, "--json"])
    assert json.loads(result.stdout) == [{"day": "2020-01-02", "much": None, "none": None}]


def test_a_query_that_takes_what_cannot_run_is_told(tmp_path: Path) -> None:
    run = commit(tmp_path / "run", [pa.table({"point_id": [0, 1, 2], "feasible": [True, False, False]})])
    told = "2 rows cannot run, and the query does not tell them apart: say WHERE feasible"
    assert remarks(run, "SELECT MIN(point_id) FROM data") == [told]
    assert remarks(run, "SELECT MIN(point_id) FROM data WHERE feasible") == []


def test_names_that_no_row_has_are_told(run: Path) -> None:
    study = sweeper.run(sweeper.plan("table6_sn10"), out=run, quiet=True).directory

    def told(sql: str) -> str:
        return CliRunner().invoke(main, ["query", study, sql]).stderr

    (name,) = sweeper.scan(study).select(pl.col("chip").cast(pl.String).unique()).collect()["chip"]
    for wrong in (f"chip = '{name}x'", f"\"chip\" <> '{name}x'", f"chip NOT IN ('{name}', '{name}x')"):
        assert told(f"SELECT * FROM data WHERE feasible AND {wrong}").startswith(
            f"note: no row has this chip: unknown chip '{name}x', did you mean '{name}'?"
        )
    for right in (f"chip = '{name}'", f"chip IN ('{name}')", "infeasible_reason = ''", "chips = '8'"):
        assert told(f"SELECT * FROM data WHERE feasible AND {right}").count("no row has") == 0
