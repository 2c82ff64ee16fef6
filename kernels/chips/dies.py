"""What the package of a generated chip is told of its dies."""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.equation import Output, equation

ROUNDING = 1e-9
"""Shares of whole numbers are whole but for this much."""


class Cores(NamedTuple):
    """Cores that run, and the area of what they are made of: units, registers and L1."""

    generated_cores: float
    core_used_mm2: float
    register_used_mm2: float
    l1_used_mm2: float


@equation(
    Output("die_built_cores", "", "cores of a die of the chip, spare ones included"),
    Output("die_spare_cores", "", "of them those that may be bad"),
    Output("die_core_mm2", "mm^2", "area of a core with its registers and its L1"),
    Output("die_power_W", "W", "power of a die"),
    source="parts of the chip over its dies",
)
def generated_dies(
    cores: Annotated[Cores, "{}"], chip_power_W: float, template_dies: float, template_spare_core_share: float
) -> tuple[float, float, float, float]:
    """Every die has the cores that run on it, rounded up, and a share of these to spare, rounded down."""
    running = np.ceil(cores.generated_cores / template_dies * (1.0 - ROUNDING))
    spare = np.floor(template_spare_core_share * running * (1.0 + ROUNDING))
    parts_mm2 = cores.core_used_mm2 + cores.register_used_mm2 + cores.l1_used_mm2
    core_mm2 = parts_mm2 / cores.generated_cores if cores.generated_cores > 0.0 else 0.0
    return running + spare, spare, core_mm2, chip_power_W / template_dies
