"""Tables of one's own: headers, lengths of rows, files given twice, rows that stand twice, and sets of one row."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sweeper.cli import main
from sweeper.evidence.measured import known_columns
from sweeper.evidence.measured_rows import header_of
from sweeper.evidence.registry import registry
from sweeper.library.library import builtin_specs

HEADER = "system,nccl_version_dir,op_name,nccl_dtype,num_gpus,size_bytes,latency_us"
ROW = "h100_sxm,2.29.2,all_reduce,half,8,33554432,199.8"


def written(tmp_path: Path, *lines: str, name: str = "mine.csv") -> Path:
    path = tmp_path / name
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def validate(*paths: Path, more: tuple[str, ...] = ()) -> Result:
    given = [word for path in paths for word in ("--measured", str(path))]
    return CliRunner().invoke(main, ["validate", *given, *more])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [HEADER.replace("size_bytes", "size_bytes,Latency_ms"), ROW.replace("199.8", "0.2,199.8")],
            "{path}:1:64: unknown column of a collective table 'Latency_ms', did you mean 'latency_us'?",
        ),
        ([f"{HEADER},latency_us", f"{ROW},5"], "{path}:1:75: column 'latency_us' stands twice: it is also column 7"),
        ([f"{HEADER},", f"{ROW},"], "{path}:1:75: column 8 has no name"),
        ([HEADER, ROW, f"{ROW},99,88"], "{path}:3:1: 9 cells, of 7 columns"),
        ([HEADER, "", "h100_sxm,2.29.2"], "{path}:3:1: 2 cells, of 7 columns"),
    ],
)
def test_a_table_that_is_not_what_its_header_says_exits_2(lines: list[str], message: str, tmp_path: Path) -> None:
    path = written(tmp_path, *lines)
    result = validate(path)
    assert result.exit_code == 2
    assert len(result.output.splitlines()) == 1 and message.format(path=path) in result.output


def test_every_misspelt_column_is_told_with_the_nearest(tmp_path: Path) -> None:
    names = "group,framework,accelerator,n_accel,hidden,n_kv_head,vocabulary,global_batch_seq,micro_batch_seq"
    result = validate(written(tmp_path, f"{names},sequence_parallel", ",".join("1" * 10)))
    assert result.exit_code == 2 and len(result.output.splitlines()) == 3
    for found, near in (("n_kv_head", "n_kv_heads"), ("vocabulary", "vocab"), ("sequence_parallel", "seq_parallel")):
        assert f"'{found}', did you mean '{near}'?" in result.output


def test_columns_of_bundled_tables_are_known() -> None:
    for table in registry()["tables"]:
        assert set(header_of(builtin_specs() / "measurements" / table["file"])) <= known_columns(table["layout"])
    assert "loss_chunks" in known_columns("training") and "loss_chunks" not in known_columns("gemm")


@pytest.mark.parametrize("other", ["mine.csv", "../{folder}/mine.csv", "link.csv"])
def test_a_file_that_is_given_twice_is_refused(other: str, tmp_path: Path) -> None:
    path = written(tmp_path, HEADER, ROW)
    (tmp_path / "link.csv").symlink_to(path)
    result = validate(path, tmp_path / other.format(folder=tmp_path.name))
    assert result.exit_code == 2
    assert "given twice" in result.output and len(result.output.splitlines()) == 1


def test_rows_that_stand_twice_are_counted_and_scored(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER, ROW, ROW, ROW.replace("199.8", "200"))
    board = json.loads(validate(path, more=("--json",)).stdout)
    (table,) = board["tables"].values()
    assert (table["rows"], table["repeated"]) == (3, 1)
    (found,) = board["sets"].values()
    assert found["scored"] == 3
    assert "REPEATED" in validate(path).stdout


def test_a_constant_that_was_fitted_to_the_only_row_is_not_available(tmp_path: Path) -> None:
    alone = written(tmp_path, HEADER, ROW)
    (found,) = json.loads(validate(alone, more=("--json",)).stdout)["sets"].values()
    assert found["baselines"]["constant"]["rows"] == 0 and found["baselines"]["constant"]["median_ape"] is None
    assert found["best"] is None and found["baselines"]["constant"]["alone"]
    line = next(line for line in validate(alone).stdout.splitlines() if line.endswith("  -") and "collectives" in line)
    assert line.startswith("collectives above 1 MB")
    two = written(tmp_path, HEADER, ROW, ROW.replace("33554432,199.8", "134217728,578.74"), name="two.csv")
    (found,) = json.loads(validate(two, more=("--json",)).stdout)["sets"].values()
    assert found["baselines"]["constant"]["rows"] == 2 and found["best"] is not None


def test_what_answers_a_row_is_written_beside_it(tmp_path: Path) -> None:
    gemm = written(
        tmp_path, "system,kernel_source,gemm_dtype,m,n,k,latency_us", "h100_sxm,whoknows,bfloat16,4096,4096,4096,300"
    )
    out = tmp_path / "out.csv"
    assert validate(gemm, more=("--out", str(out))).exit_code == 0
    header, row = (line.split(",") for line in out.read_text().splitlines())
    assert dict(zip(header, row, strict=True))["calibration"] == "uncalibrated"


def test_what_was_written_can_be_given_again(tmp_path: Path) -> None:
    """What is said of rows is said anew, whatever stands there."""
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    assert validate(written(tmp_path, HEADER, ROW), more=("--out", str(first))).exit_code == 0
    first.write_text(first.read_text().replace("h100_nccl", "whoknows"))
    assert validate(first, more=("--out", str(second))).exit_code == 0
    assert second.read_text() == first.read_text().replace("whoknows", "h100_nccl")
    first.write_text(first.read_text().replace("predicted", "predcted"))
    result = validate(first)
    assert result.exit_code == 2 and "unknown column of a collective table 'predcted'" in result.output
