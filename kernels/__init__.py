"""The physics, as compiled functions of numbers: no YAML, no Ray, no Parquet, no paths.

`MODELS` has, per family of workloads, every equation that the engine may use, each with what it reads, writes and
cites: dataflow graphs of kernels, tables of operators (transformers), and tables that are read as Calculon does.
"""

from kernels import (
    allocation,
    calculon,
    chip,
    collectives,
    cost,
    device_mapping,
    energy,
    footprint,
    generator,
    graph_loads,
    inference,
    joint,
    mapping,
    metrics,
    model_memory,
    network,
    operators,
    ownership,
    packaging,
    partition,
    pipeline,
    rates,
    serving,
    sharding,
    speculation,
    training,
)
from kernels.equation import Equation, Output

SHARED: tuple[Equation, ...] = (
    *chip.EQUATIONS,
    *network.EQUATIONS,
    *cost.EQUATIONS,
    *packaging.EQUATIONS,
    metrics.efficiency,
    *ownership.EQUATIONS,
    *generator.EQUATIONS,
)
"""Equations of every family; those of `generator` where a study names what they generate from."""

MODELS: dict[str, tuple[Equation, ...]] = {
    "graph": (
        *SHARED,
        *collectives.EQUATIONS,
        *sharding.EQUATIONS,
        *graph_loads.EQUATIONS,
        *allocation.EQUATIONS,
        *partition.EQUATIONS,
        *mapping.EQUATIONS,
        *joint.EQUATIONS,
        *pipeline.EQUATIONS,
        *serving.EQUATIONS,
        *speculation.EQUATIONS,
        *footprint.EQUATIONS,
        metrics.work,
        metrics.chip_work,
        metrics.roofline,
        *energy.SHARED,
        *energy.GRAPH,
    ),
    "operators": (
        *SHARED,
        *rates.EQUATIONS,
        *device_mapping.EQUATIONS,
        *operators.EQUATIONS,
        *training.EQUATIONS,
        *inference.EQUATIONS,
        *model_memory.EQUATIONS,
        *ownership.TOKEN_EQUATIONS,
        *energy.SHARED,
        *energy.OPERATORS,
    ),
    "calculon": (*SHARED, *calculon.EQUATIONS, ownership.rated_power),
}
"""The whole model, by family of workloads."""

EQUATIONS: tuple[Equation, ...] = tuple(dict.fromkeys(equation for family in MODELS.values() for equation in family))
"""Every equation."""

__all__ = ["EQUATIONS", "MODELS", "Equation", "Output"]
