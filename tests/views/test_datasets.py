"""Opening datasets: of a run, and of all runs in a folder as one."""

import json
from functools import reduce
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import sweeper
from sweeper.cli import main
from sweeper.errors import NoDataset
from sweeper.running.storage import store
from sweeper.views.datasets import columns, scan, scan_all, units
from sweeper.views.queries import ask
from tests.support.hand_made import commit


def write_run(directory: Path, complete: bool = True) -> Path:
    """A run of two parts, with what a crash may leave beside them."""
    about = {b"unit": b"s", b"description": b"time of one step", b"grade": b"datasheet"}
    schema = pa.schema([pa.field("point_id", pa.int64()), pa.field("iteration_time_s", pa.float64(), metadata=about)])
    rows = [{"point_id": [first, first + 1], "iteration_time_s": [1.0, 2.0]} for first in (0, 2)]
    run = commit(directory / "toy", [pa.table(each, schema=schema) for each in rows], unfinished=not complete)
    (run / "data" / ".part-00000003.parquet.host-1-0.tmp").write_bytes(b"half a part")
    return run


def test_scan_reads_the_committed_parts(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    for address in (run, str(run), run.as_uri()):
        assert scan(address).sort("point_id").collect()["point_id"].to_list() == [0, 1, 2, 3]


def test_scan_of_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert scan(run.name).select(pl.len()).collect().item() == 4


def test_an_unfinished_run_is_read_only_when_asked_for(tmp_path: Path) -> None:
    run = write_run(tmp_path, complete=False)
    with pytest.raises(FileNotFoundError, match="unfinished"):
        scan(run)
    assert scan(run, partial=True).select(pl.len()).collect().item() == 4


def test_columns_and_units_come_from_the_parquet_fields(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    assert units(run) == {"run": "", "point_id": "", "iteration_time_s": "s"}
    assert columns(run).row(2) == ("iteration_time_s", "double", "s", "time of one step", "datasheet")


# figures


# All runs of a folder

FIRST = """
study: first
override: memory
axes:
  workload: gpt3_175b
  chip: [h100_sxm, tpu_v4]
  memory: hbm3
  link: nvlink4
  outer_link: infiniband_ndr
  topology: dgx_2
  chips: 64
  dim_x: 8
  dim_y: 8
  tensor_parallel: 8
  pipeline_parallel: 8
  data_parallel: 1
  batch_size: 64
  microbatch: 2
"""
CHANGES = {"first": "second", "microbatch: 2": "microbatch: [1, 4]", ", tpu_v4": "", "override: memory": ""}
SECOND = reduce(lambda text, change: text.replace(*change), CHANGES.items(), FIRST)


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("two")
    for text in (FIRST, SECOND):
        file = place / f"{text.split()[1]}.yaml"
        file.write_text(text)
        sweeper.run(sweeper.plan(file), place / "results", quiet=True)
    return place / "results"


def test_runs_unite_whatever_each_of_them_varies(two_runs: Path) -> None:
    rows = scan_all(two_runs).sort("run", "point_id").collect()
    names = [path.name for path in sorted(two_runs.iterdir())]
    assert rows["run"].to_list() == [names[0], names[0], names[1], names[1]]
    assert rows["chip"].to_list() == ["h100_sxm", "tpu_v4", "h100_sxm", "h100_sxm"]
    assert rows["microbatch"].to_list() == [2, 2, 1, 4] and rows.schema["microbatch"] == pl.Int64
    assert rows["weight_format"].n_unique() == 1 and rows.schema["weight_format"] == pl.String
    each = [scan(run).sort("point_id").collect() for run in sorted(two_runs.iterdir())]
    for number, frame in enumerate(each):
        taken = rows.filter(run=names[number])["iteration_time_s"]
        assert taken.to_list() == frame["iteration_time_s"].to_list()


def test_constants_are_those_that_a_run_says_it_has(two_runs: Path) -> None:
    """By name and value, each in every row."""
    rows = scan_all(two_runs).collect()
    plan = sweeper.plan(two_runs.parent / "first.yaml")
    mine = rows.filter(pl.col("run").str.starts_with("first"))
    from sweeper.words.columns import engine_column

    for name, value in plan.contents.constants.items():
        (told,) = set(mine[engine_column(name)].to_list())
        assert told == value or (told is None and value != value) or (told is None and abs(value) == float("inf"))


def test_a_folder_of_runs_is_asked_in_sql(two_runs: Path) -> None:
    found = ask(two_runs, "SELECT run, COUNT(*) AS n, MIN(overlap) AS overlap FROM data GROUP BY run ORDER BY run")
    assert found["n"].to_list() == [2, 2]


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NoDataset, match="holds no run"):
            scan_all(place)


def test_a_dataset_of_an_earlier_version_has_the_name_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"point_id": [0]})
    commit(tmp_path / "now", [table])

    def encode(rows: pa.Table, *rest: object) -> pa.Buffer:
        sink = pa.BufferOutputStream()
        pq.write_table(rows, sink)
        return sink.getvalue()

    monkeypatch.setattr(store, "encode", encode)
    commit(tmp_path / "before", [table])
    assert sorted(scan_all(tmp_path).collect()["run"].to_list()) == ["before", "toy"]


def test_an_unfinished_run_in_a_folder_is_named(tmp_path: Path) -> None:
    table = pa.table({"point_id": [0]})
    commit(tmp_path / "whole", [table])
    commit(tmp_path / "half", [table], unfinished=True)
    with pytest.raises(NoDataset, match=r"half has no _SUCCESS"):
        scan_all(tmp_path)
    assert scan_all(tmp_path, partial=True).collect().height == 2
    asked = ["query", str(tmp_path), "SELECT COUNT(*) AS n FROM data", "--json"]
    refused = CliRunner().invoke(main, asked)
    assert refused.exit_code == 3 and "--partial" in refused.stderr
    assert json.loads(CliRunner().invoke(main, [*asked, "--partial"]).stdout) == [{"n": 2}]
