"""How far constants of a server carry: fitted to one model, and scored on the runs of the others.

`python -m replications.served_transfer` prints the table that stands in docs/accuracy_models.md. The constants of each
stack are fitted to both times of one model's runs (`specs/measurements/serving_e2e.csv`), beginning with what is
expected of them (a guess, the same for all stacks), and predict times and throughput of the other models; and so are
those fitted to all models but one. Takes ten minutes on one core.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy.stats import spearmanr

from sweeper.evidence.calibration import Calibration, calibrations, sample_of
from sweeper.evidence.fitting import Errors

READINGS = ["served_between", "served_first", "served_rate"]
QUANTITIES = {
    "time_per_output_token_s": "TPOT",
    "time_to_first_token_s": "TTFT",
    "output_tokens_per_s_per_chip": "tokens/s/GPU",
}
TIMES = frozenset({"TPOT", "TTFT"})
"""What constants are fitted to."""
ONE, OTHERS = "one model", "all but one"
"""What they are fitted to."""


class Carried(NamedTuple):
    """Runs of models to which constants are not fitted: what they are fitted to, what is asked, measured, predicted."""

    fitted: str
    quantity: str
    measured: np.ndarray
    predicted: np.ndarray


def stacks() -> list[Calibration]:
    """Stacks that are fitted to runs of servers under load."""
    return [stack for stack in calibrations().values() if {*(stack.layouts or ())} == {*READINGS[:2]}]


def carried(stack: Calibration) -> Iterator[Carried]:
    """Every model of a stack, by constants of the other ones."""
    sample = sample_of(stack.model_copy(update={"layouts": READINGS}))
    errors = Errors(stack, sample)
    quantities = np.array([QUANTITIES[point.answer] for point in sample.points])
    models, fitted_to = np.array(sample.sources), np.isin(quantities, list(TIMES))
    for model in np.unique(models) if len(set(models)) > 1 else []:
        for fitted, into in ((ONE, models == model), (OTHERS, models != model)):
            best = errors.fit(np.flatnonzero(into & fitted_to), errors.expected[:, 0], errors.effort.refits)
            ratios = np.exp(errors.at(best[None])[0])
            for quantity in QUANTITIES.values():
                rows = ~into & (quantities == quantity)
                yield Carried(fitted, quantity, sample.measured[rows], (sample.measured * ratios)[rows])


def table(found: list[Carried]) -> pl.DataFrame:
    """Errors of all stacks together, in percent."""
    rows = []
    for fitted in (ONE, OTHERS):
        for quantity in QUANTITIES.values():
            parts = [part for part in found if (part.fitted, part.quantity) == (fitted, quantity)]
            measured, predicted = (np.concatenate([getattr(part, name) for part in parts]) for name in
                                   ("measured", "predicted"))  # fmt: skip
            errors = 100.0 * (predicted / measured - 1.0)
            rows.append(
                {
                    "fitted to": fitted,
                    "of the others": quantity,
                    "runs": len(errors),
                    "median": f"{np.median(np.abs(errors)):.2f}",
                    "p90": f"{np.quantile(np.abs(errors), 0.9):.2f}",
                    "signed, median": f"{np.median(errors):.2f}",
                    "Spearman": f"{spearmanr(predicted, measured).statistic:.2f}",
                }
            )
    return pl.DataFrame(rows)


if __name__ == "__main__":
    with pl.Config(tbl_formatting="ASCII_MARKDOWN", tbl_hide_column_data_types=True, tbl_rows=-1):
        print(table([part for stack in stacks() for part in carried(stack)]))
