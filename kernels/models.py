"""The whole model: every equation that the engine may use, by family of workloads.

The families are dataflow graphs of kernels, tables of operators (transformers), and tables that are read as Calculon
does.
"""

from kernels import calculon, chips, graphs, packages, transformers
from kernels.equation import Equation, declared
from kernels.shared import (
    band,
    chip,
    contention,
    dimensions,
    energy,
    feasibility,
    metrics,
    network,
    ownership,
    price,
    rated_power,
    tokens,
)

GENERATING = declared(chips)
"""Equations that generate a chip, where a study names what it is generated from."""

SHARED = (*declared(chip, network, price, feasibility, packages, metrics, ownership), *GENERATING)
"""Equations of every family."""

MODELS: dict[str, tuple[Equation, ...]] = {
    "graph": (*SHARED, *declared(contention, dimensions, graphs, energy)),
    "operators": (*SHARED, *declared(transformers, tokens, band, energy)),
    "calculon": (*SHARED, *declared(calculon, rated_power)),
}
"""The whole model, by family of workloads."""

EQUATIONS: tuple[Equation, ...] = tuple(dict.fromkeys(equation for family in MODELS.values() for equation in family))
"""Every equation."""
