"""How labels are spread: how well a cost model could do that only knows the kind of block."""

import polars as pl

from sweeper.placing.labels import LABEL
from sweeper.views.datasets import reading, scan
from sweeper.views.text import shown_table

ALL = "all"


def spread(directory: str) -> str:
    """Labels of a dataset by kind of block, and of all, as a table.

    `best over worst` is the median over graphs of their fastest over their slowest decision; `mean's error` is the mean
    relative error of a model that always says the mean of its kind of block.
    """
    with reading(directory):
        data = scan(directory).filter("feasible").select("block", "fabric", "graph", LABEL).collect()
    rows = [_row(name, frame) for (name,), frame in data.group_by("block", maintain_order=True)]
    titles = ("block", "graphs", "decisions", "mean", "deviation", "least", "most", "best over worst", "mean's error")
    return shown_table(titles, [*rows, _row(ALL, data)] if len(rows) > 1 else rows)


def _row(name: object, frame: pl.DataFrame) -> tuple[object, ...]:
    label, mean = frame[LABEL], pl.col(LABEL).mean().over("block")
    graphs = frame.group_by("fabric", "graph").agg(gain=pl.col(LABEL).max() / pl.col(LABEL).min())
    error = frame.select(((mean - pl.col(LABEL)).abs() / pl.col(LABEL)).mean()).item()
    return (
        name, len(graphs), len(frame), label.mean(), label.std(), label.min(), label.max(), graphs["gain"].median(),
        error,
    )  # fmt: skip
