"""The whole model: every equation that the engine may use, by family of workloads.

The families are dataflow graphs of kernels, tables of operators (transformers), and tables that are read as Calculon
does.
"""

from kernels.calculon import equations as calculon
from kernels.chips import equations as chips
from kernels.equation import Equation
from kernels.graphs import (
    allocation,
    energy,
    loads,
    memory,
    metrics,
    partition,
    pipeline,
    serving,
    sharding,
    speculation,
)
from kernels.graphs.mapping import case, joint, partitions
from kernels.graphs.mapping import stages as mapping_stages
from kernels.packages import equations as packages
from kernels.shared import chip, dimensions, feasibility, network, ownership, price
from kernels.shared import energy as shared_energy
from kernels.shared import metrics as shared_metrics
from kernels.transformers import device_mapping, groups, inference, operators, rates, stages, sums, training
from kernels.transformers import energy as operator_energy
from kernels.transformers import memory as operator_memory

SHARED: tuple[Equation, ...] = (
    *chip.EQUATIONS,
    *network.EQUATIONS,
    *price.EQUATIONS,
    *feasibility.EQUATIONS,
    *packages.EQUATIONS,
    *shared_metrics.EQUATIONS,
    *ownership.EQUATIONS,
    *chips.EQUATIONS,
)
"""Equations of every family; those of `chips` where a study names what they generate from."""

MODELS: dict[str, tuple[Equation, ...]] = {
    "graph": (
        *SHARED,
        *dimensions.EQUATIONS,
        *sharding.EQUATIONS,
        *loads.EQUATIONS,
        *allocation.EQUATIONS,
        *partition.EQUATIONS,
        *case.EQUATIONS,
        *mapping_stages.EQUATIONS,
        *partitions.EQUATIONS,
        *joint.EQUATIONS,
        *pipeline.EQUATIONS,
        *serving.EQUATIONS,
        *speculation.EQUATIONS,
        *memory.EQUATIONS,
        *metrics.EQUATIONS,
        *shared_energy.EQUATIONS,
        *energy.EQUATIONS,
    ),
    "operators": (
        *SHARED,
        *rates.EQUATIONS,
        *groups.EQUATIONS,
        *device_mapping.EQUATIONS,
        *operators.EQUATIONS,
        *sums.EQUATIONS,
        *stages.EQUATIONS,
        *training.EQUATIONS,
        *inference.EQUATIONS,
        *operator_memory.EQUATIONS,
        *ownership.TOKEN_EQUATIONS,
        *shared_energy.EQUATIONS,
        *operator_energy.EQUATIONS,
    ),
    "calculon": (*SHARED, *calculon.EQUATIONS, ownership.rated_power),
}
"""The whole model, by family of workloads."""

EQUATIONS: tuple[Equation, ...] = tuple(dict.fromkeys(equation for family in MODELS.values() for equation in family))
"""Every equation."""
