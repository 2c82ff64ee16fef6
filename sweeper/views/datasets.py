"""Opening datasets: that of a run, or those of all runs in a folder as one.

What is opened is what was committed (`sweeper.running.storage.listing`); a file that differs from it is an error.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import polars.selectors as cs
import pyarrow as pa
import pyarrow.parquet

from sweeper.errors import NoDataset
from sweeper.planning.contents import CONSTANTS
from sweeper.planning.standing import UNCALIBRATED_TIMES
from sweeper.running.storage.catalogue import of_what
from sweeper.running.storage.folders import Folder
from sweeper.running.storage.listing import parts
from sweeper.running.storage.places import folder
from sweeper.running.storage.resolved import RESOLVED, read_resolved
from sweeper.running.storage.store import RUN
from sweeper.words.columns import engine_column, numeric


@contextmanager
def reading(run: str | Path | Folder) -> Iterator[None]:
    """Turn what goes wrong in reading the files of a run into NoDataset."""
    try:
        yield
    except (pl.exceptions.PolarsError, pa.ArrowException, OSError) as error:
        if isinstance(error, NoDataset):
            raise
        raise NoDataset(f"{run}: the dataset cannot be read: {first_line(error)}") from None


def first_line(error: Exception) -> str:
    """The first line of what an error says."""
    return next(iter(str(error).splitlines()), type(error).__name__)[:300]


def scan(run: str | Path | Folder, partial: bool = False, verify: bool = False) -> pl.LazyFrame:
    """The dataset of a run, lazily: committed parts only, in no promised row order (sort by `point_id`).

    `run` is a run directory or its URI (`s3://bucket/results/study-0123456789ab`). A run without `_SUCCESS` raises
    NoDataset unless `partial` is true, which gives what has been committed so far. A file that is missing, extra or
    changed raises it, too; `verify` compares the content of every part, not only of those that were touched.

    >>> import tempfile, sweeper
    >>> folder = tempfile.TemporaryDirectory()
    >>> result = sweeper.run(sweeper.plan("table6_sn10"), out=folder.name, quiet=True)
    >>> scan(result.directory).filter("feasible").select("iteration_time_s").collect().height
    4
    """
    with reading(run):
        files = [part.file for part in parts(run, partial, verify)]
        place = folder(run)
    options = None if place.options is None else dict(place.options)
    return pl.scan_parquet([place.uri(file) for file in files], glob=False, storage_options=options)


def columns(run: str | Path) -> pl.DataFrame:
    """Meaning of each column of a run: `column`, `type`, `unit`, `description`, evidence `grade` ("" where none)."""
    schema = _schema(run)
    texts = ("unit", "description", "grade")
    rows = [
        {"column": field.name, "type": str(field.type)}
        | {text: (field.metadata or {}).get(text.encode(), b"").decode() for text in texts}
        for field in schema
    ]
    return pl.DataFrame(rows, schema=dict.fromkeys(("column", "type", *texts), pl.String))


def uncalibrated_times(run: str | Path) -> dict[str, tuple[float, float]]:
    """How measured times of stacks without a calibration compared with predicted ones, by task: 5 % and 95 % quantile
    of their ratio."""
    bands = _json(_schema(run), UNCALIBRATED_TIMES)
    return {task: (low, high) for task, (low, high) in bands.items()}


def units(run: str | Path) -> dict[str, str]:
    """Unit of each column of a run, in the dataset's order; "" for what has none.

    >>> import tempfile, sweeper
    >>> folder = tempfile.TemporaryDirectory()
    >>> result = sweeper.run(sweeper.plan("table6_sn10"), out=folder.name, quiet=True)
    >>> units(result.directory)["memory_need_B"], units(result.directory)["utilisation"]
    ('B', '')
    """
    return dict(columns(run).select("column", "unit").iter_rows())


def constants(run: str | Path | Folder) -> dict[str, Any]:
    """What has one and the same value in a whole run, by the names of columns."""
    return {engine_column(name): value for name, value in _json(_schema(run), CONSTANTS).items()}


def scan_all(runs: str | Path, partial: bool = False, verify: bool = False) -> pl.LazyFrame:
    """The datasets of all runs in a folder as one, lazily; `run` says where a row is from.

    What is the same in a whole run is a column like any other, so that runs unite by name whatever each of them varies;
    what a run does not know is null. Names are text. Runs of varied numbers (sensitivities, break-evens) are left out:
    their rows are of no study. `runs` is a directory or an address; `partial` and `verify` are those of `scan`. Raises
    NoDataset for a folder without runs, and for a run that `scan` refuses.

    >>> import tempfile, sweeper
    >>> folder = tempfile.TemporaryDirectory()
    >>> result = sweeper.run(sweeper.plan("table6_sn10"), out=folder.name, quiet=True)
    >>> scan_all(folder.name).group_by("run", "chip").agg(pl.col("iteration_time_s").min()).collect().height
    1
    """
    place, found = folder(runs), [run for run, of in _runs_of(runs) if not of]
    if not found:
        raise NoDataset(f"{place} holds no run: there is no {RESOLVED} of a study in any folder of it")
    return pl.concat([_with_constants(run, partial, verify) for run in found], how="diagonal_relaxed")


def left_out(runs: str | Path) -> list[str]:
    """Names of the runs in a folder of which `scan_all` takes no rows."""
    return [run.name for run, of in _runs_of(runs) if of]


def _runs_of(runs: str | Path) -> list[tuple[Folder, str]]:
    """The runs in a folder, and what they are of: "" for a study itself."""
    place = folder(runs)
    with reading(runs):
        inside = [place.inside(name) for name in place.folders()]
        return [(run, _of(run)) for run in inside if RESOLVED in run.entries("")]


def _of(run: Folder) -> str:
    """What a run is of; of a damaged one nothing is known, and its dataset is refused."""
    try:
        return of_what(read_resolved(run))
    except NoDataset:
        return ""


def is_run(where: str | Path) -> bool:
    """Whether a path or an address is that of one run."""
    return RESOLVED in folder(where).entries("")


def axes_of(columns: list[str]) -> list[str]:
    """Columns of a dataset that hold its axes, of all in their order."""
    return columns[columns.index("point_id") + 1 : columns.index("feasible")]


def _with_constants(run: Folder, partial: bool, verify: bool) -> pl.LazyFrame:
    """The dataset of a run with a column for each of its constants, and names as text."""
    frame = scan(run, partial, verify).with_columns(cs.categorical().cast(pl.String))
    columns = set(frame.collect_schema())
    told = {engine_column(name): _literal(name, value) for name, value in _json(_schema(run), CONSTANTS).items()}
    told[RUN.name] = pl.lit(run.name)  # Datasets of earlier versions have no such column.
    return frame.with_columns(value.alias(column) for column, value in told.items() if column not in columns)


def _literal(name: str, value: float | str | None) -> pl.Expr:
    """A constant, of the type that it has where it varies."""
    if isinstance(value, str):
        return pl.lit(value)
    attribute = numeric(name)
    whole = attribute is not None and attribute.integer and value is not None and float(value).is_integer()
    return pl.lit(value, pl.Int64 if whole else pl.Float64)


def _schema(run: str | Path | Folder) -> pa.Schema:
    """Schema of the parts of a run, which may be unfinished."""
    with reading(run):
        place, first = folder(run), parts(run, partial=True)[0]
        with place.open(first.file) as file:
            return pyarrow.parquet.read_schema(file)


def _json(schema: pa.Schema, key: str) -> Mapping[str, Any]:
    """An object that the metadata of a schema hold; empty if they do not."""
    told: Mapping[str, Any] = json.loads((schema.metadata or {}).get(key.encode(), b"{}"))
    return told
