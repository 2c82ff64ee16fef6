"""Rows of a dataset that a page holds, and how it holds them: columns of few bytes, compressed, as text."""

import base64
import gzip
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import polars as pl

from sweeper.study.output import SENSES
from sweeper.views.analysis import feasible
from sweeper.views.datasets import axes_of
from sweeper.views.pictures.labels import rank

POINT = "point_id"
ALIGNED_B = 8
"""Bytes at a multiple of which every column begins."""
EXACT = 2.0**24
"""Whole numbers up to which single precision holds all."""
MORE = re.compile(r"(^|_)(tokens|requests|samples)_per_s|utilisation|_efficiency|_yield$")
"""Names of metrics that are better where they are more, whatever a study asks."""
COUNTED = {"u1": 2**8, "u2": 2**16, "u4": 2**32}
"""How many values of an axis have positions of so many bytes."""


@dataclass(frozen=True)
class PageRows:
    """Rows of a page, and of how many feasible ones they are; `same` is what all of these have in common."""

    frame: pl.DataFrame
    feasible: int
    same: Mapping[str, Any]


def page_rows(dataset: pl.LazyFrame, objectives: Mapping[str, str], most: int) -> PageRows:
    """At most so many of the feasible rows: all of them, or the best for each objective and pair of axis values, as far
    as there is room, and of the others an even share."""
    points = feasible(dataset).drop("run", "feasible", "infeasible_reason", "infeasible_counts", strict=False)
    names = points.collect_schema().names()
    counted = points.select(pl.len(), pl.all().n_unique().name.prefix("n_")).collect().row(0, named=True)
    first = points.first().collect()
    same = {name: first[name][0] for name in names if counted[f"n_{name}"] == 1 and name != POINT and first.height}
    shown = points.select(name for name in names if name not in same).sort(POINT)
    if counted["len"] > most:
        axes = [name for name in axes_of(dataset.collect_schema().names()) if name in names and name not in same]
        ids = _ids(points, axes, objectives, most)
        shown = shown.join(ids.lazy(), on=POINT, how="semi")
    return PageRows(shown.collect(), counted["len"], same)


def _ids(points: pl.LazyFrame, axes: Sequence[str], objectives: Mapping[str, str], most: int) -> pl.DataFrame:
    """Numbers of the points that a page has of a large dataset: the best, those of each value, those of each pair."""
    kept = [points.select(POINT).head(0)]
    for few in range(3):
        for (name, sense), those in product(objectives.items(), combinations(axes, few)):
            value = pl.col(name).fill_nan(None) * SENSES[sense]
            best = pl.col(POINT).sort_by(value, POINT, nulls_last=True).first()
            kept.append(points.group_by(those).agg(best).sort(POINT) if those else points.select(best))
    found = pl.concat(each.select(POINT) for each in pl.collect_all(kept)).unique(maintain_order=True).head(most)
    room = most - found.height
    others = points.select(POINT).join(found.lazy(), on=POINT, how="anti").sort(POINT).collect()
    even = np.arange(room) * others.height // max(room, 1)
    return pl.concat([found, others[even]])


def packed(
    frame: pl.DataFrame, axes: Collection[str], about: Mapping[str, tuple[str, str]], senses: Mapping[str, str]
) -> tuple[list[dict[str, Any]], str]:
    """What a page is told of columns, and their values as text.

    An axis is positions in its sorted values; a number that is not whole is held in single precision, unless numbers
    of its column would fall together. `about` has unit
    and meaning of a column, `senses` which way is better.
    """
    told, parts, at = [], [], 0
    for name in frame.columns:
        unit, meaning = about.get(name, ("", ""))
        column = {"name": name, "unit": unit, "about": meaning, "at": at}
        named = name in axes or not frame[name].dtype.is_numeric()
        values, more = _axis(frame[name]) if named else _numbers(frame[name])
        column |= more
        column["metric"] = "levels" not in more and name != POINT
        if name in senses or (column["metric"] and MORE.search(name)):
            column["sense"] = senses.get(name, "maximise")
        told.append(column)
        block = values.tobytes()
        parts.append(block + bytes(-len(block) % ALIGNED_B))
        at += len(parts[-1])
    return told, base64.b64encode(gzip.compress(b"".join(parts), compresslevel=6, mtime=0)).decode()


def _axis(values: pl.Series) -> tuple[np.ndarray, dict[str, Any]]:
    """Positions of values, and the values in order; what is not known is the name `-`."""
    numeric = values.dtype.is_numeric()
    known = values if numeric and not values.null_count() else values.cast(pl.String).fill_null("-")
    levels = known.unique().to_list()
    levels.sort(key=None if known.dtype.is_numeric() else rank)
    kind = next(kind for kind, most in COUNTED.items() if len(levels) <= most)
    places = known.replace_strict(levels, range(len(levels)), return_dtype=pl.UInt32).to_numpy()
    return places.astype(f"<{kind}"), {"type": kind, "levels": levels, "numeric": bool(known.dtype.is_numeric())}


def _numbers(values: pl.Series) -> tuple[np.ndarray, dict[str, Any]]:
    """Numbers in single precision, or in double where that holds not all of them, or takes several for one."""
    numbers = values.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    with np.errstate(over="ignore"):
        narrow = numbers.astype("<f4")
    finite = np.isfinite(numbers)
    lost = (~np.isfinite(narrow) & finite) | ((narrow == 0.0) & (numbers != 0.0))
    # Rounding keeps the order of numbers, so that what is best stays so, as long as none fall together.
    merged = np.unique(narrow).size < np.unique(numbers).size
    if lost.any() or merged or (values.dtype.is_integer() and np.abs(numbers[finite]).max(initial=0.0) > EXACT):
        return numbers.astype("<f8"), {"type": "f8"}
    return narrow, {"type": "f4"}
