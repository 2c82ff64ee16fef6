"""Taking a dataset elsewhere: CSV, JSON, Excel, DuckDB, Arrow, Parquet, by the ending of a file's name."""

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs
import pyarrow as pa
import pyarrow.parquet

from sweeper.errors import EnvironmentFault, UsageFault, unknown
from sweeper.files import whole
from sweeper.running.storage.listing import parts
from sweeper.running.storage.places import folder
from sweeper.views.datasets import reading

MOST_EXCEL_ROWS = 1_048_575
"""Rows of a worksheet below its header."""
DATA, COLUMNS = "data", "columns"
"""Tables of a file that can hold several: rows, and unit, meaning and grade of each column."""


COMPUTED = "computed by the query"
"""Meaning of a column of an answer that is not one of the dataset's."""
TEXTS = ("unit", "description", "role", "grade", "source")
"""What a field of a dataset says of itself."""


def described(run: str | Path, types: Mapping[str, pl.DataType], own: Collection[str]) -> pl.DataFrame:
    """What the columns of some rows of a run mean: `column`, `type`, unit, meaning, role, grade and source.

    Those that are not the run's `own`, since a query computed them, have no unit, and say so, whatever they are called.
    """
    with reading(run):
        place, first = folder(run), parts(run, partial=True)[0]
        with place.open(first.file) as file:
            fields = {field.name: field.metadata or {} for field in pyarrow.parquet.read_schema(file)}
    computed = {b"description": COMPUTED.encode()}
    told = [
        {"column": name, "type": str(kind)} | {text: about.get(text.encode(), b"").decode() for text in TEXTS}
        for name, kind in types.items()
        for about in [fields[name] if name in own else computed]
    ]
    return pl.DataFrame(told, schema=dict.fromkeys(("column", "type", *TEXTS), pl.String))


def passed_through(rows: pl.LazyFrame, data: pl.LazyFrame) -> set[str]:
    """Columns of an answer that are those of the dataset: of one name and type, without values that these do not have.

    >>> data = pl.LazyFrame({"time_s": [60.0, 120.0], "chips": [1, 2]})
    >>> passed_through(data.select(pl.col("time_s").max(), pl.col("chips") / 2), data)
    {'time_s'}
    >>> passed_through(data.select(pl.col("time_s") / 60.0), data)
    set()
    """
    types = data.collect_schema()
    same = [name for name, kind in rows.collect_schema().items() if types.get(name) == kind]
    others = [rows.select(name).join(data.select(name), on=name, how="anti", nulls_equal=True).head(1) for name in same]
    return {name for name, found in zip(same, pl.collect_all(others), strict=True) if found.is_empty()}


def export(rows: pl.LazyFrame, columns: pl.DataFrame, file: Path) -> None:
    """Write rows to a file, in the format of its ending; `columns` describes them, where the format has room for that.

    The file is there whole or not at all. Raises UsageFault for another ending, a file that is there already, and rows
    that the format does not take; EnvironmentFault for a library that is not installed, a folder that is not there, and
    a file that cannot be written.
    """
    writer = FORMATS.get(file.suffix)
    if writer is None:
        raise UsageFault(unknown("format", file.suffix or file.name, FORMATS))
    if not file.parent.is_dir():
        raise EnvironmentFault(f"{file}: there is no folder {file.parent}")
    if file.exists():
        raise UsageFault(f"{file} is there already")
    with whole(file) as draft:
        writer(rows.with_columns(cs.categorical().cast(pl.String)), columns, draft)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise EnvironmentFault(f"this format needs {name}: pip install 'sweeper[export]'") from None


def _csv(rows: pl.LazyFrame, columns: pl.DataFrame, file: Path) -> None:
    rows.sink_csv(file)


def _json(rows: pl.LazyFrame, columns: pl.DataFrame, file: Path) -> None:
    rows.collect().write_json(file)


def _lines(rows: pl.LazyFrame, columns: pl.DataFrame, file: Path) -> None:
    rows.sink_ndjson(file)


def _schema(rows: pl.LazyFrame, columns: pl.DataFrame) -> pa.Schema:
    """Fields of rows that say what they mean."""
    about = {row["column"]: {text: row[text] for text in TEXTS if row.get(text)} for row in columns.to_dicts()}
    plain = rows.head(0).collect().to_arrow().schema
    return pa.schema([field.with_metadata(about.get(field.name)) for field in plain])


def _parquet(rows: pl.LazyFrame, columns: pl.DataFrame, file: Path) -> None:
    rows.sink_parquet(file, arrow_schema=_schema(rows, columns))


def _arrow(rows: pl.LazyFrame, columns: pl.DataFrame, file: Path) -> None:
    schema = _schema(rows, columns)
    with pa.ipc.new_file(file, schema) as opened:
        for batch in rows.collect_batches():
            opened.write_table(batch.to_arrow().cast(schema))


def _excel(rows: pl.LazyFrame, columns: pl.DataFrame, file: Path) -> None:
    found = rows.collect()
    if found.height > MOST_EXCEL_ROWS:
        raise UsageFault(f"{found.height:,} rows; a worksheet has {MOST_EXCEL_ROWS:,} at most: choose some with --sql")
    with _library("xlsxwriter").Workbook(file) as book:
        found.write_excel(book, DATA, autofit=True)
        columns.write_excel(book, COLUMNS, autofit=True)


def _duckdb(rows: pl.LazyFrame, columns: pl.DataFrame, file: Path) -> None:
    tables = {DATA: rows.collect().to_arrow(), COLUMNS: columns.to_arrow()}
    with _library("duckdb").connect(str(file)) as base:
        for name, table in tables.items():
            base.register("given", table)
            base.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            base.unregister("given")


FORMATS: Mapping[str, Callable[[pl.LazyFrame, pl.DataFrame, Path], None]] = {
    ".csv": _csv,
    ".json": _json,
    ".jsonl": _lines,
    ".xlsx": _excel,
    ".duckdb": _duckdb,
    ".arrow": _arrow,
    ".parquet": _parquet,
}
"""What writes a file, by the ending of its name."""
