"""What the configuration of a server that our models pick is worth, among those that were measured.

`python -m replications.served_choices` prints the table that stands in docs/accuracy_models.md: of the runs of
`specs/measurements/serving_e2e.csv` with the same model, device and lengths, the one with the most tokens per second
and chip is picked whose predicted time between tokens is within a limit, and beside it what was measured of all.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import polars as pl

from sweeper.evidence.measured import measured_point
from sweeper.evidence.measured_rows import MeasuredPoint, read_rows
from sweeper.evidence.predictions import evaluate
from sweeper.evidence.registry import registry
from sweeper.library.library import builtin_specs

ASKED = {"between_s": "served_between", "rate": "served_rate"}
"""What is measured of a run, and the reading of its row."""
SITUATION = ("device", "model", "input_length", "output_length")
"""What a user has; the rest of a row is what may be chosen."""
FEWEST = 5
"""Runs of a situation among which there is something to choose."""
LIMITS_S = (0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1)
MARGINS = (1.0, 1.1, 1.25)
"""Factors by which predicted times are made larger before they are held against a limit."""


class Choice(NamedTuple):
    """The model, whether the pick misses the limit, and which part of the most tokens per second within it it loses."""

    model: str
    misses: bool
    loses: float


@cache
def runs() -> pl.DataFrame:
    """Of every run with an answer what was measured and what is predicted."""
    known, rows = registry(), read_rows(builtin_specs() / "measurements" / "serving_e2e.csv")
    found: list[dict[str, object]] = []
    points: list[MeasuredPoint] = []
    for row in rows:
        read = [measured_point(row, layout, known) for layout in ASKED.values()]
        if all(isinstance(point, MeasuredPoint) for point in read):
            found.append({name: row[name] for name in SITUATION})
            points += [point for point in read if isinstance(point, MeasuredPoint)]
    answers = np.array([value for value, _ in evaluate(points, {})]).reshape(-1, len(ASKED))
    measured = np.array([point.measured for point in points]).reshape(-1, len(ASKED))
    columns = {name: measured[:, i] for i, name in enumerate(ASKED)}
    columns |= {f"{name}_predicted": answers[:, i] for i, name in enumerate(ASKED)}
    return pl.DataFrame(found).with_columns(**{name: pl.Series(values) for name, values in columns.items()})


def choice(situation: pl.DataFrame, limit_s: float, margin: float) -> Choice | None:
    """What is picked within a limit; None where no run is predicted to be within, or none was."""
    allowed = situation.filter(pl.col("between_s_predicted") * margin <= limit_s)
    within = situation.filter(pl.col("between_s") <= limit_s)
    if allowed.is_empty() or within.is_empty():
        return None
    pick = allowed.row(allowed["rate_predicted"].arg_max() or 0, named=True)
    best = float(np.max(within["rate"].to_numpy()))
    return Choice(pick["model"].rpartition("/")[2], pick["between_s"] > limit_s, max(1.0 - pick["rate"] / best, 0.0))


def choices(margin: float) -> Iterator[Choice]:
    """Picks in all situations, at all limits."""
    for _, situation in sorted(runs().group_by(*SITUATION), key=lambda each: each[0]):
        if situation.height >= FEWEST:
            found = (choice(situation, limit_s, margin) for limit_s in LIMITS_S)
            yield from (each for each in found if each is not None)


def table() -> pl.DataFrame:
    """Misses and losses, by margin and model."""
    rows = []
    for margin in MARGINS:
        found = pl.DataFrame(list(choices(margin)), schema=Choice._fields, orient="row")
        for model, part in (("all", found), *((key, part) for (key,), part in sorted(found.group_by("model")))):
            lost = part["loses"].to_numpy()
            rows.append(
                {
                    "margin": margin,
                    "model": model,
                    "choices": part.height,
                    "misses the limit": f"{np.mean(part['misses'].to_numpy()):.1%}",
                    "loses, median": f"{np.median(lost):.1%}",
                    "loses, p90": f"{np.quantile(lost, 0.9):.1%}",
                }
            )
    return pl.DataFrame(rows)


if __name__ == "__main__":
    with pl.Config(tbl_formatting="ASCII_MARKDOWN", tbl_hide_column_data_types=True, tbl_rows=-1):
        print(table())
