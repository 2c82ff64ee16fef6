"""An equation: a compiled scalar or array function together with what it reads, writes and where it comes from.

The function's parameter names are the columns it reads. Scalar outputs are returned; an array output is written into
a trailing parameter that bears the output's name, so that the caller owns the memory.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numba import njit

JIT = {"cache": True, "error_model": "numpy", "fastmath": False, "nogil": True}
"""Compilation of every kernel: IEEE semantics, so that all machines and all factorings give the same bits."""

compiled = njit(**JIT)


@dataclass(frozen=True)
class Output:
    """A column that an equation writes. `shape` names the array dimensions (`kernel`, `partition`, ...) or is empty."""

    name: str
    unit: str
    about: str
    shape: tuple[str | int, ...] = ()
    integer: bool = False


@dataclass(frozen=True)
class Equation:
    """A node of the model graph. `when` limits it to choices of an assumption switch.

    `lengthy` ones take so long, to compile and to run, that the engine calls them one by one instead of compiling them
    into every loop that they occur in.
    """

    name: str
    function: Any
    inputs: tuple[str, ...]
    outputs: tuple[Output, ...]
    source: str
    when: tuple[str, tuple[str, ...]] | None = None
    lengthy: bool = False

    @property
    def arrays(self) -> tuple[Output, ...]:
        """Outputs that are written into a buffer."""
        return tuple(output for output in self.outputs if output.shape)

    @property
    def scalars(self) -> tuple[Output, ...]:
        """Outputs that are returned."""
        return tuple(output for output in self.outputs if not output.shape)


def equation(
    *outputs: Output, source: str, when: tuple[str, tuple[str, ...]] | None = None, lengthy: bool = False
) -> Callable[[Callable[..., Any]], Equation]:
    """Compile a function and declare it as an equation.

    Several equations may write the same column if their `when` clauses exclude each other: a switch then chooses
    the equation, and the columns that only the other choice reads are not evaluated at all.
    """

    def declare(function: Callable[..., Any]) -> Equation:
        buffers = {output.name for output in outputs if output.shape}
        inputs = tuple(name for name in inspect.signature(function).parameters if name not in buffers)
        return Equation(function.__name__, compiled(function), inputs, outputs, source, when, lengthy)

    return declare
