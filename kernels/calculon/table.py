"""A block as a table of operators: what a row says of one, for one microbatch and one chip."""

from collections import namedtuple

from sweeper.kernels.codes import BLOCK_RECOMPUTE_CLASSES, CHOICES, OPERATOR_TYPES
from sweeper.kernels.equation import compiled

COLLECTIVES = ("none", "column", "row")
"""Collective of an operator: that of a column-parallel product (gathers its input, reduces the gradient of it) or of a
row-parallel one (reduces its result, gathers the gradient of it)."""
NONE, COLUMN, ROW = range(len(COLLECTIVES))
GEMM, COMMUNICATION = OPERATOR_TYPES.index("gemm"), OPERATOR_TYPES.index("collective")
AGAIN_IF_FULL, AGAIN_IF_SELECTIVE = map(BLOCK_RECOMPUTE_CLASSES.index, ("full", "selective"))
SELECTIVE, FULL = CHOICES["recompute"].index("selective"), CHOICES["recompute"].index("full")

Traits = namedtuple("Traits", "type recompute collective")
"""Columns of `operator_traits`: codes of an operator."""

Dims = namedtuple(
    "Dims",
    "count flops bytes input_gradient_flops input_gradient_bytes weight_gradient_flops weight_gradient_bytes "
    "weight stored working gradient tiled repeated",
)
"""Columns of `operator_dims`: numbers of an operator.

`count` is how often it stands in a block; `flops` and `bytes` are given for each of the three passes; `weight` in
parameters; `stored` are bytes kept for the backward pass, `working` and `gradient` bytes of activations and of
their gradients while the block runs. `tiled` is 1 if a product overlaps with its collective (else the collective is
an operator of its own), `repeated` 1 if the collective of the forward pass runs again in the backward pass.
"""

T, D = Traits(*range(len(Traits._fields))), Dims(*range(len(Dims._fields)))
"""Where each stands."""
DEFAULTS = {name: "1" if name == "count" else "0" for name in Dims._fields}
"""Numbers that a row need not give."""

PASSES = 3
FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = range(PASSES)
"""Passes; the flops of one stand in column flops + 2 pass, its bytes in bytes + 2 pass."""


@compiled
def runs_again(recompute_class: float, recompute: float) -> bool:
    """Whether the forward pass of an operator is repeated."""
    return (recompute_class == AGAIN_IF_FULL and recompute == FULL) or (
        recompute_class == AGAIN_IF_SELECTIVE and (recompute == FULL or recompute == SELECTIVE)
    )
