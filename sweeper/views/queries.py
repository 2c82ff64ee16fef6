"""SQL over a dataset: what is read is the table `data`, and nothing else."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import polars as pl

from sweeper.errors import SpecError, UsageFault, brief, listed, unknown
from sweeper.planning.plan import Plan
from sweeper.running.storage.store import RUN
from sweeper.views.datasets import first_line, is_run, left_out, reading, scan, scan_all

TABLE = "data"
MAX_LENGTH = 10_000
_BEGINS = re.compile(r"(?:--[^\n]*\n|/\*.*?\*/|[\s(])*(?:select|with|from)\b", re.IGNORECASE | re.DOTALL)
"""How a statement begins that asks."""
_WORD = re.compile(r"\w+")
_EQUALS = re.compile(r"""(\w+)["`]?\s*(?:=|<>|!=)\s*('(?:[^']|'')*')""")
_IS_IN = re.compile(r"""(\w+)["`]?\s+(?:not\s+)?in\s*\(((?:\s*'(?:[^']|'')*'\s*,?)+)\)""", re.IGNORECASE)
_LITERAL = re.compile("'((?:[^']|'')*)'")
"""Columns that a statement compares with words of its own, and these."""
_ABSENT = re.compile(r'unable to find column "(\w+)"')


def ask(run: str | Path, sql: str, partial: bool = False, verify: bool = False) -> pl.DataFrame:
    """The answer of a run's dataset to a query, or of those of all runs in a folder (`scan_all`).

    Raises UsageFault for a query that fails or reads anything else, NoDataset as `scan` does, whose `partial` and
    `verify` these are.
    """
    assert_asks(sql)
    with reading(run):
        data = (scan if is_run(run) else scan_all)(run, partial, verify)
        data.collect_schema()
    with _answering(data):
        return pl.SQLContext(frames={TABLE: data}).execute(sql, eager=True)


def remarks(run: str | Path, sql: str, partial: bool = False) -> list[str]:
    """What an answer to a query may not mean: rows that cannot run, of which a query without `feasible` takes the
    numbers, too; names that it compares with and no row has; and runs that are left out of a folder."""
    out = [] if is_run(run) else left_out(run)
    told = [f"left out, as their numbers were varied: {listed(out)}; ask each by its name"] if out else []
    data = (scan if is_run(run) else scan_all)(run, partial)
    if "feasible" in data.collect_schema() and "feasible" not in sql:
        with reading(run):
            unable = data.select((~pl.col("feasible")).sum()).collect().item()
        if unable:
            told.append(f"{unable:,} rows cannot run, and the query does not tell them apart: say WHERE feasible")
    with reading(run):
        return [*told, *strangers(data, sql)]


def strangers(data: pl.LazyFrame, sql: str) -> list[str]:
    """Names that a query compares a column of names with, and that no row has: they choose nothing, or all.

    >>> data = pl.LazyFrame({"chip": ["a100_80g", "h100_sxm"]})
    >>> strangers(data, "SELECT * FROM data WHERE chip = 'h100_smx'")
    ["no row has this chip: unknown chip 'h100_smx', did you mean 'h100_sxm'? (allowed: a100_80g, h100_sxm)"]
    """
    asked = dict[str, list[str]]()
    for column, words in [*_EQUALS.findall(sql), *_IS_IN.findall(sql)]:
        asked.setdefault(column, []).extend(word.replace("''", "'") for word in _LITERAL.findall(words))
    types = data.collect_schema()
    texts = [name for name in asked if isinstance(types.get(name), pl.String | pl.Categorical)]
    found = pl.collect_all([data.select(pl.col(name).cast(pl.String).unique().drop_nulls()) for name in texts])
    return [
        f"no row has this {name}: {unknown(name, word, there[name])}"
        for name, there in zip(texts, found, strict=True)
        for word in dict.fromkeys(asked[name])
        if word not in set(there[name])
    ]


def check_answer(plan: Plan) -> None:
    """Raises SpecError for an answer that the dataset of a study could not give, before anything is evaluated."""
    written = plan.study.written
    if plan.study.answer and isinstance(written.value, dict):
        row = _some_row(plan)
        try:
            assert_asks(plan.study.answer)
            with _answering(row):
                pl.SQLContext(frames={TABLE: row}).execute(plan.study.answer, eager=True)
        except UsageFault as fault:
            raise SpecError([written.value["answer"].problem(str(fault))]) from None


def _some_row(plan: Plan) -> pl.LazyFrame:
    """A row as those of the dataset of a study, of their types, since some mistakes show where there is something: with
    the first names that it gives."""
    types = {RUN.name: pl.Categorical(), **pl.DataFrame(plan.schema.empty_table()).schema}
    named = {name: column.values[0] for grid in plan.grids for name, column in grid.columns.items()}
    row = {name: [str(named.get(name, "")) if kind == pl.Categorical else 1] for name, kind in types.items()}
    return pl.LazyFrame(row).cast(types)


def assert_asks(sql: str) -> None:
    """Raises UsageFault for what does not read the dataset, or reads anything else."""
    if len(sql) > MAX_LENGTH:
        raise UsageFault(f"a query of {len(sql)} characters; at most {MAX_LENGTH} are read")
    if not _BEGINS.match(sql):
        raise UsageFault(f"found {brief(sql)}; a query begins with SELECT, WITH or FROM: a dataset is only read")
    for word in sorted(set(_WORD.findall(sql))):
        if reads_files(word):
            raise UsageFault(f"{word} reads files; a query reads the dataset only, as the table {TABLE}")


@contextmanager
def _answering(data: pl.LazyFrame) -> Iterator[None]:
    """Raises UsageFault for a query to a table that fails inside."""
    try:
        yield
    except (pl.exceptions.PolarsError, UnicodeEncodeError) as error:
        absent = _ABSENT.search(str(error))
        if absent:
            raise UsageFault(unknown("column of the dataset", absent[1], data.collect_schema())) from None
        raise UsageFault(f"the query failed: {first_line(error)}") from None


@cache
def reads_files(word: str) -> bool:
    """Whether Polars takes a word for a table function: asked without arguments, it reads nothing and says so."""
    try:
        pl.SQLContext().execute(f'SELECT * FROM "{word}"()', eager=True)
    except (pl.exceptions.PolarsError, UnicodeEncodeError) as error:
        return "is not a supported table function" not in str(error)
    return True
