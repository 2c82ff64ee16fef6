"""Measured lengths of accepted drafts against the laws of acceptance: what one rate per model predicts."""

from pathlib import Path

import polars as pl

from sweeper.library.library import builtin_specs

MODEL = ("file", "model", "thinking_mode")
"""Columns that tell one measured series from another."""


def measured_lengths() -> pl.DataFrame:
    """The bundled series: tokens per round by drafted tokens, of several models and ways to draft."""
    return pl.read_csv(bundled_lengths())


def bundled_lengths() -> Path:
    """The file of the bundled series, whose source stands in specs/README.md."""
    return builtin_specs() / "measurements" / "speculation" / "inferencex_specdec_acceptance_length.csv"


def predicted_lengths(measured: pl.DataFrame) -> pl.DataFrame:
    """Tokens per round by either law, from the acceptance rate that each series shows with one drafted token.

    `measured` has the columns of `MODEL`, `num_speculative_tokens` and `mean_acceptance_length`. Of a series without a
    row for one token nothing can be said: it is left out. Adds `acceptance_rate`, `geometric` and `linear` (tokens per
    round), `geometric_error` and `linear_error` (predicted over measured, less 1) for two and more tokens, sorted.
    """
    rows = measured.rename({"num_speculative_tokens": "drafted", "mean_acceptance_length": "tokens_per_round"})
    first = rows.filter(pl.col("drafted") == 1).select(*MODEL, acceptance_rate=pl.col("tokens_per_round") - 1.0)
    rate, drafted = pl.col("acceptance_rate"), pl.col("drafted")
    series = (1.0 - rate ** (drafted + 1)) / (1.0 - rate)
    laws = {"geometric": pl.when(rate < 1.0).then(series).otherwise(drafted + 1.0), "linear": rate * drafted + 1.0}
    return (
        rows.filter(drafted > 1)
        .join(first, on=MODEL)
        .with_columns(**laws)
        .with_columns((pl.col(law) / pl.col("tokens_per_round") - 1.0).alias(f"{law}_error") for law in laws)
        .sort(*MODEL, "drafted")
    )
