"""The physics, as compiled functions of numbers: no YAML, no Ray, no Parquet, no paths.

`EQUATIONS` is the model: every equation that the engine may use, each with what it reads, writes and cites.
"""

from kernels import chip, collectives, cost, footprint, metrics, network, partition, pipeline, sharding
from kernels.equation import Equation, Output

EQUATIONS: tuple[Equation, ...] = (
    *chip.EQUATIONS,
    *network.EQUATIONS,
    *collectives.EQUATIONS,
    *sharding.EQUATIONS,
    *partition.EQUATIONS,
    *pipeline.EQUATIONS,
    *footprint.EQUATIONS,
    *cost.EQUATIONS,
    *metrics.EQUATIONS,
)

__all__ = ["EQUATIONS", "Equation", "Output"]
