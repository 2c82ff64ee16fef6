"""Which kernels count references to arrays: those that do not must never see an array that somebody would have to give
back."""

import ast
import inspect
import pkgutil
import textwrap
import typing
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import sweeper.kernels
from sweeper.kernels.equation import Equation, allocating, borrowing, compiled, equation

MAKERS = {
    *("zeros", "empty", "ones", "full", "zeros_like", "empty_like", "full_like", "ones_like", "arange", "linspace"),
    *("array", "copy", "astype", "cumsum", "sort", "argsort", "append", "concatenate", "unique", "where", "max", "min"),
}
"""Names of functions and methods that make arrays, as Numba compiles them."""


def functions() -> dict[str, Any]:
    """Every compiled function of `kernels`, those of equations among them, by module and name."""
    found = {}
    for part in pkgutil.walk_packages(sweeper.kernels.__path__, "sweeper.kernels."):
        for value in vars(import_module(part.name)).values():
            function = value.function if isinstance(value, Equation) else value
            if isinstance(function, Dispatcher):
                found[f"{function.py_func.__module__}.{function.py_func.__name__}"] = function
    return found


@cache
def called(function: Any) -> list[ast.Call]:
    """Calls in the source of a function."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function.py_func)))
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    return [node for line in definition.body for node in ast.walk(line) if isinstance(node, ast.Call)]


def helpers(function: Any) -> Iterator[Any]:
    """Compiled functions that a function calls, also as the function of an equation."""
    for call in called(function):
        name = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "function" else call.func
        value = function.py_func.__globals__.get(name.id) if isinstance(name, ast.Name) else None
        value = value.function if isinstance(value, Equation) else value
        if isinstance(value, Dispatcher):
            yield value


def counts(function: Any) -> bool | None:
    """Whether a function counts references; None if it does as its caller."""
    counted: bool | None = function.targetoptions.get("_nrt")
    return counted


@cache
def makes_arrays(function: Any) -> bool:
    """Whether a function or one that it calls makes an array."""
    own = any(isinstance(call.func, ast.Attribute) and call.func.attr in MAKERS for call in called(function))
    return own or any(makes_arrays(helper) for helper in helpers(function) if helper is not function)


def under(function: Any) -> list[Any]:
    """What a function calls, and what those call that count as their caller does."""
    found: list[Any] = []
    waiting = [function]
    while waiting:
        new = [helper for helper in helpers(waiting.pop()) if helper not in found]
        found += new
        waiting += [helper for helper in new if counts(helper) is None]
    return found


def has_arrays(kind: Any) -> bool:
    """Whether a type is an array, or a record or tuple of some."""
    if kind is np.ndarray:
        return True
    parts = typing.get_type_hints(kind).values() if hasattr(kind, "_fields") else typing.get_args(kind)
    return any(map(has_arrays, parts))


def returns_arrays(function: Any) -> bool:
    """Whether a function returns an array, or a record of some."""
    return has_arrays(typing.get_type_hints(function.py_func)["return"])


def mistakes(function: Any) -> list[str]:
    """What a function does to arrays that its way of counting does not allow."""
    name = function.py_func.__name__
    if counts(function) is False:
        made = [f"{name} makes arrays and does not count them"] if makes_arrays(function) else []
        lent = [h.py_func.__name__ for h in under(function) if counts(h) is not False and returns_arrays(h)]
        return made + [f"{name} does not count what {helper} returns" for helper in lent]
    taken = [h.py_func.__name__ for h in helpers(function) if counts(h) is False and returns_arrays(h)]
    return [f"{name} counts what {helper} returns uncounted" for helper in taken]


FUNCTIONS = functions()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arrays_are_counted_by_those_who_make_them_and_by_nobody_else(name: str) -> None:
    assert mistakes(FUNCTIONS[name]) == []


def makes(x: np.ndarray) -> float:
    return float(np.zeros(3)[0] + x[0])


def returns(x: np.ndarray) -> np.ndarray:
    return x[1:]


MAKES, RETURNS, LENDS = compiled(makes), compiled(returns), borrowing(returns)


def uses_made(x: np.ndarray) -> float:
    return float(MAKES(x))


def uses_returned(x: np.ndarray) -> float:
    return float(RETURNS(x)[0])


USES = compiled(uses_returned)


def uses_user(x: np.ndarray) -> float:
    return float(USES(x))


def uses_lent(x: np.ndarray) -> float:
    return float(LENDS(x)[0])


@pytest.mark.parametrize(
    ("function", "faults"),
    [
        (borrowing(makes), ["makes makes arrays and does not count them"]),
        (allocating(makes), []),
        (compiled(makes), []),
        (equation(source="")(makes).function, ["makes makes arrays and does not count them"]),
        (equation(source="")(allocating(makes)).function, []),
        (borrowing(uses_made), ["uses_made makes arrays and does not count them"]),
        (borrowing(uses_returned), ["uses_returned does not count what returns returns"]),
        (borrowing(uses_user), ["uses_user does not count what returns returns"]),
        (allocating(uses_returned), []),
        (borrowing(uses_lent), []),
        (allocating(uses_lent), ["uses_lent counts what returns returns uncounted"]),
        (compiled(uses_lent), ["uses_lent counts what returns returns uncounted"]),
    ],
)
def test_each_mistake_is_found(function: Callable[..., Any], faults: list[str]) -> None:
    assert mistakes(function) == faults
