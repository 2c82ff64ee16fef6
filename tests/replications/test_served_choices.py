"""What a pick among measured configurations is worth, where it is known."""

from typing import Any

import polars as pl
import pytest

from replications import served_choices
from replications.served_choices import Choice, choice


def situation(*runs: tuple[float, float, float, float]) -> pl.DataFrame:
    """Runs by measured and predicted seconds between tokens, measured and predicted rate."""
    names = ("between_s", "between_s_predicted", "rate", "rate_predicted")
    return pl.DataFrame(runs, schema=names, orient="row").with_columns(model=pl.lit("of/m"))


RUNS = situation((0.01, 0.009, 100.0, 90.0), (0.02, 0.021, 180.0, 200.0), (0.04, 0.029, 300.0, 310.0))


@pytest.mark.parametrize(
    ("limit_s", "margin", "wanted"),
    [
        (0.05, 1.0, Choice("m", False, 0.0)),
        (0.03, 1.0, Choice("m", True, 0.0)),  # 40 ms were measured: a miss, and no loss
        (0.02, 1.0, Choice("m", False, 1.0 - 100.0 / 180.0)),
        (0.05, 2.0, Choice("m", False, 1.0 - 180.0 / 300.0)),
        (0.0095, 1.0, None),  # none was so fast
        (0.01, 1.2, None),  # none is predicted to be
    ],
)
def test_a_pick_is_held_against_the_best(limit_s: float, margin: float, wanted: Choice | None) -> None:
    found = choice(RUNS, limit_s, margin)
    assert found == wanted or (found is not None and wanted is not None and found.loses == pytest.approx(wanted.loses))


def test_the_table_counts_the_choices_of_all_situations(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"device": "d", "input_length": "1", "output_length": "2"}
    all_runs = pl.concat([RUNS, RUNS, situation((0.01, 0.01, 1.0, 1.0))]).with_columns(
        **{name: pl.lit(value) for name, value in names.items()}
    )
    few = RUNS.with_columns(**{name: pl.lit("few") for name in names})
    monkeypatch.setattr(served_choices, "runs", lambda: pl.concat([all_runs, few]))
    rows: list[dict[str, Any]] = served_choices.table().to_dicts()
    assert [(row["margin"], row["model"]) for row in rows] == [(m, w) for m in (1.0, 1.1, 1.25) for w in ("all", "m")]
    assert rows[0]["choices"] == 7, "limits from 10 ms on, of the one situation that has five runs"
    assert rows[0]["misses the limit"] == "14.3%"
