"""Equations that are evaluated for many systems side by side.

What the structure of a graph says is then worked out once for all systems, and processors do the arithmetic of several
systems in one step, with the same bits as one after the other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sweeper.kernels.equation import Equation


@dataclass(frozen=True)
class Abreast(Equation):
    """An equation for all combinations that agree in all its columns but the `varying` ones.

    Its function has an entry for each combination in these columns and in the buffers of its array outputs, and returns
    an array for each scalar output. Called with columns by name, it is evaluated for one combination.
    """

    varying: frozenset[str] = frozenset()

    def spread(self, name: str) -> bool:
        """Whether a column has an entry for each combination."""
        return name in self.varying or any(output.name == name for output in self.arrays)

    def many(self, columns: Mapping[str, Any]) -> tuple[np.ndarray, ...]:
        """Scalar outputs of many combinations."""
        given = super().__call__(columns)
        return given if len(self.scalars) > 1 else (given,)

    def __call__(self, columns: Mapping[str, Any]) -> Any:
        """Apply the function to the columns of one combination."""
        given = tuple(values[0] for values in self.many(one_of(self, columns)))
        return given if len(given) > 1 else given[0]


def one_of(equation: Equation, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of one combination as the function of an equation takes them."""
    if not isinstance(equation, Abreast):
        return dict(columns)
    return {name: np.asarray(value)[None] if equation.spread(name) else value for name, value in columns.items()}


def abreast(*varying: str) -> Callable[[Equation], Abreast]:
    """Declare that an equation's function takes these columns of many combinations."""

    def declare(equation: Equation) -> Abreast:
        own = {field.name: getattr(equation, field.name) for field in fields(equation)}
        return Abreast(**own, varying=frozenset(varying))

    return declare
