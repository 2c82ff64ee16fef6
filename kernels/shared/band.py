"""Between which ends the time of an iteration lies, as far as runs tell that were left out of a fit."""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.equation import Output, compiled, equation


class Band(NamedTuple):
    """5 % and 95 % quantile of measured over predicted times; 0: unknown."""

    low: float
    high: float


BAND = (
    Output("iteration_time_low_s", "s", "lower end of the band of the time of an iteration"),
    Output("iteration_time_high_s", "s", "upper end of the band of the time of an iteration"),
)
BAND_SOURCE = "the time times quantiles of measured over predicted times of runs that were left out of a fit"


@compiled
def between(time_s: float, band: Band) -> tuple[float, float]:
    """Ends of the band of a time; NaN where they are unknown."""
    return time_s * (band.low if band.low > 0.0 else np.nan), time_s * (band.high if band.high > 0.0 else np.nan)


@equation(*BAND, source=BAND_SOURCE, when=("task", ("training",)))
def training_band(iteration_time_s: float, band: Annotated[Band, "calibration_training_{}"]) -> tuple[float, float]:
    """In which nine of ten measured iterations would lie, as far as others tell."""
    return between(iteration_time_s, band)


@equation(*BAND, source=BAND_SOURCE, when=("task", ("inference",)))
def inference_band(iteration_time_s: float, band: Annotated[Band, "calibration_inference_{}"]) -> tuple[float, float]:
    """In which nine of ten measured batches of requests would lie, as far as others tell."""
    return between(iteration_time_s, band)
