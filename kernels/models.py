"""The whole model: every equation that the engine may use, by family of workloads.

The families are dataflow graphs of kernels, tables of operators (transformers), and tables that are read as Calculon
does.
"""

from kernels.calculon import model as calculon
from kernels.chips import generator
from kernels.equation import Equation
from kernels.graphs import (
    allocation,
    partition,
    pipeline,
    serving,
    sharding,
    speculation,
)
from kernels.graphs import (
    loads as graph_loads,
)
from kernels.graphs import (
    memory as footprint,
)
from kernels.graphs import (
    metrics as graph_metrics,
)
from kernels.graphs.mapping import case, joint, partitions, stages
from kernels.packages import equations as packaging
from kernels.shared import (
    chip,
    energy,
    metrics,
    network,
    ownership,
)
from kernels.shared import (
    dimensions as collectives,
)
from kernels.shared import (
    price as cost,
)
from kernels.transformers import (
    device_mapping,
    inference,
    operators,
    rates,
    training,
)
from kernels.transformers import (
    memory as model_memory,
)

SHARED: tuple[Equation, ...] = (
    *chip.EQUATIONS,
    *network.EQUATIONS,
    *cost.EQUATIONS,
    *packaging.EQUATIONS,
    *metrics.EQUATIONS,
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
        *case.EQUATIONS,
        *stages.EQUATIONS,
        *partitions.EQUATIONS,
        *joint.EQUATIONS,
        *pipeline.EQUATIONS,
        *serving.EQUATIONS,
        *speculation.EQUATIONS,
        *footprint.EQUATIONS,
        *graph_metrics.EQUATIONS,
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
