"""An equation: a compiled scalar or array function together with what it reads, writes and where it comes from.

The function's parameter names are the columns it reads. A parameter whose type is a *record* (a NamedTuple) stands for
one column per field. Scalar outputs are returned; an array output is written into a trailing parameter that bears the
output's name, so that the caller owns the memory.
"""

import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from numba import njit
from numba.core.dispatcher import Dispatcher

JIT = {"cache": True, "error_model": "numpy", "fastmath": False, "nogil": True, "no_cfunc_wrapper": True}
"""Compilation of every kernel: IEEE semantics, so that all machines and all factorings give the same bits. Nobody takes
the address of one, and its wrapper for that would take a tenth of the compilation."""

compiled = njit(**JIT)
"""A function that other kernels call."""

BORROWING = {**JIT, "_nrt": False}
borrowing = njit(**BORROWING)
"""The same for functions that get arrays and neither make, return nor keep any. References are not counted in them:
each array that is passed on, or taken from a record, would be counted by two atomic steps, which take more time than
most of what is done with it. What they call borrows too, unless it says otherwise."""

allocating = njit(**JIT, _nrt=True)
"""The same for equations that make arrays while they work: these are counted, whoever calls."""


@dataclass(frozen=True)
class Output:
    """A column that an equation writes. `shape` names the array dimensions (`kernel`, `partition`, ...) or is empty."""

    name: str
    unit: str
    about: str
    shape: tuple[str | int, ...] = ()
    integer: bool = False


@dataclass(frozen=True)
class Parameter:
    """A parameter of an equation's function: a column, a buffer, or a `record` with one column per field."""

    name: str
    columns: tuple[str, ...]
    record: type | None = None

    def value(self, columns: Mapping[str, Any]) -> Any:
        """What to pass, given the columns by name."""
        values = (columns[name] for name in self.columns)
        return next(values) if self.record is None else self.record(*values)


@dataclass(frozen=True)
class Equation:
    """A node of the model graph. `when` limits it to choices of an assumption switch.

    `lengthy` ones take so long, to compile and to run, that the engine calls them one by one instead of compiling them
    into every loop that they occur in.
    """

    name: str
    function: Any
    parameters: tuple[Parameter, ...]
    outputs: tuple[Output, ...]
    source: str
    when: tuple[str, tuple[str, ...]] | None = None
    lengthy: bool = False

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Columns that it reads."""
        buffers = {output.name for output in self.arrays}
        names = dict.fromkeys(name for parameter in self.parameters for name in parameter.columns)
        return tuple(name for name in names if name not in buffers)

    @cached_property
    def arrays(self) -> tuple[Output, ...]:
        """Outputs that are written into a buffer."""
        return tuple(output for output in self.outputs if output.shape)

    @cached_property
    def scalars(self) -> tuple[Output, ...]:
        """Outputs that are returned."""
        return tuple(output for output in self.outputs if not output.shape)

    def of(self, name: str, *outputs: Output, **others: str) -> "Equation":
        """The same equation of other columns: its outputs in their order, and which columns stand for its inputs.

        It belongs into the same module, under the name that it gets here.

        >>> from sweeper.kernels.transformers.sums import layer_sums
        >>> layer_sums.of("last_sums", Output("last_sums", "s", "of the last layer"), place_sums="last_place").inputs
        ('last_place', 'layers', 'expert_layers', 'last_sums')
        """
        others |= {own.name: output.name for own, output in zip(self.outputs, outputs, strict=True)}
        columns = [tuple(others.get(column, column) for column in parameter.columns) for parameter in self.parameters]
        parameters = tuple(replace(own, columns=other) for own, other in zip(self.parameters, columns))
        return replace(self, name=name, parameters=parameters, outputs=outputs)

    def __call__(self, columns: Mapping[str, Any]) -> Any:
        """Apply the function to columns by name, the buffers of its array outputs among them."""
        return self.function(*(parameter.value(columns) for parameter in self.parameters))


def equation(
    *outputs: Output, source: str, when: tuple[str, tuple[str, ...]] | None = None, lengthy: bool = False
) -> Callable[[Callable[..., Any]], Equation]:
    """Compile a function and declare it as an equation. Its caller owns all memory that it sees: it is `borrowing`,
    unless it says that it is `allocating`.

    Several equations may write the same column if their `when` clauses exclude each other: a switch then chooses
    the equation, and the columns that only the other choice reads are not evaluated at all.

    Columns that travel together are declared once, as a record. Its fields name the columns; a pattern says where the
    field stands in the name if several groups of columns have the same shape:

        class Extents(NamedTuple):
            x: float
            y: float

        @equation(Output("chips_of_group", "", "chips of the tensor-parallel group"), source="product of its extents")
        def chips_of_group(tensor: Annotated[Extents, "tensor_{}"]) -> float:    # reads tensor_x and tensor_y
            return tensor.x * tensor.y
    """

    def declare(function: Callable[..., Any]) -> Equation:
        hints = get_type_hints(function, include_extras=True)
        parameters = tuple(_parameter(name, hints[name]) for name in inspect.signature(function).parameters)
        kernel = function if isinstance(function, Dispatcher) else borrowing(function)
        return Equation(function.__name__, kernel, parameters, outputs, source, when, lengthy)

    return declare


def _parameter(name: str, hint: Any) -> Parameter:
    """A parameter by its type: a record, one with a pattern for its columns, or a single column."""
    kind, pattern = get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, "{}")
    fields = getattr(kind, "_fields", None)
    if fields is None:
        return Parameter(name, (name,))
    return Parameter(name, tuple(pattern.format(field) for field in fields), kind)


def declared(*modules: ModuleType) -> tuple[Equation, ...]:
    """Equations that modules declare, in their order; a package declares what its modules do.

    >>> from sweeper.kernels.shared import chip
    >>> [equation.name for equation in declared(chip)]
    ['chip_peak_flops', 'attainable_flops', 'attainable_bandwidth']
    """
    return tuple(
        value
        for module in modules
        for part in _parts(module)
        for value in vars(part).values()
        if isinstance(value, Equation) and value.function.__module__ == part.__name__
    )


def _parts(module: ModuleType) -> Iterator[ModuleType]:
    """A module, and below a package all modules in order of their names."""
    yield module
    for part in pkgutil.iter_modules(getattr(module, "__path__", ())):
        yield from _parts(import_module(f"{module.__name__}.{part.name}"))
