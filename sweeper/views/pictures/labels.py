"""How pictures name systems and quantities, and in which order systems stand."""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from sweeper.views.analysis import Frame
from sweeper.views.marks import standing_note
from sweeper.words.labels import LABELS, VARIANTS


@dataclass(frozen=True)
class Quantity:
    """How a metric is shown: its name, the unit it is shown in, and what one of that unit is in the dataset's unit."""

    name: str
    unit: str
    scale: float


QUANTITIES = {
    "utilisation": Quantity("Utilisation", "%", 1e-2),
    "cost_efficiency_flops_per_usd": Quantity("Cost efficiency", "GFLOP/s per USD", 1e9),
    "power_efficiency_flops_per_W": Quantity("Power efficiency", "GFLOP/s per W", 1e9),
    "iteration_time_s": Quantity("Iteration time", "s", 1.0),
    "system_price_usd": Quantity("System price", "million USD", 1e6),
    "system_power_W": Quantity("System power", "MW", 1e6),
}

SYSTEM_ROWS = ("chip", "topology")
SYSTEM_COLUMNS = ("memory", "link")
"""Rows and columns of a heat map of systems."""


def workloads(frame: Frame) -> Iterator[tuple[str, pl.LazyFrame, str]]:
    """Workload, its points with variants under their common name, notes on these; in the order of the labels."""
    lazy = frame.lazy()
    common = {name: variant.common for name, variant in VARIANTS.items()}
    merged = pl.col("workload", "chip").replace(common)
    names = lazy.select(pl.col("workload").replace(common).unique()).collect().to_series().to_list()
    for name in sorted(names, key=rank):
        points = lazy.filter(pl.col("workload").replace(common) == name)
        chips = points.select(pl.col("chip").unique()).collect().to_series().to_list()
        notes = (VARIANTS[chip].note for chip in sorted(chips) if chip in VARIANTS)
        yield name, points.with_columns(merged), " ".join(filter(None, [*notes, standing_note(points)]))


def in_order(table: pl.DataFrame) -> pl.DataFrame:
    """`table` with its systems in the order of the labels, chip first."""
    axes = [name for name in (*SYSTEM_ROWS, *SYSTEM_COLUMNS) if name in table.columns]
    keys = [[rank(value) for value in row] for row in table.select(axes).iter_rows()]
    return table[sorted(range(table.height), key=keys.__getitem__)]


def rank(value: str) -> tuple[int, str]:
    """Position of a library entry in figures: that of its label, then by name."""
    known = list(LABELS)
    return (known.index(value) if value in known else len(known), value)


def label(value: str) -> str:
    """Printed name of a library entry."""
    return LABELS.get(value, value.replace("_", " "))


def shown_quantity(column: str) -> Quantity:
    """How to show any column: as listed, or under its own name in its own unit."""
    return QUANTITIES.get(column, Quantity(column.replace("_", " "), "", 1.0))


def axis_label(column: str) -> str:
    """A column with the unit in which it is shown."""
    quantity = shown_quantity(column)
    return f"{quantity.name} ({quantity.unit})" if quantity.unit else quantity.name
