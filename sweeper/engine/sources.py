"""Digests of source code: what a module computes, without its comments and docstrings, and which modules it uses."""

import ast
import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any


@cache
def code_digest(module: str) -> str:
    """Hex digest of what a module says to the interpreter: neither comments nor docstrings nor layout count.

    The same for all versions of Python that read the same syntax.
    """
    return hashlib.sha256("".join(_said(_tree(module))).encode()).hexdigest()


@cache
def imports(module: str) -> frozenset[str]:
    """Modules of the same top-level package that a module imports, inside functions too."""
    package = module.partition(".")[0]
    named = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            named |= {name if _file(name) else node.module for name in inside}
    return frozenset(name for name in named if name.partition(".")[0] == package)


def closure(modules: Iterable[str], kept: Callable[[str], bool] = lambda module: True) -> tuple[str, ...]:
    """Modules with all that they import, directly or not, within their top-level packages; only those `kept`."""
    reached: set[str] = set()
    waiting = [module for module in modules if kept(module)]
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += [name for name in imports(module) if kept(name)]
    return tuple(sorted(reached))


@cache
def _file(module: str) -> Path | None:
    """Source file of a module; None if there is no such module."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # a name inside a module that is no package
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


@cache
def _tree(module: str) -> ast.Module:
    file = _file(module)
    assert file is not None, module
    return ast.parse(file.read_bytes())


def _said(node: Any) -> Iterator[str]:
    """A syntax tree as text. Fields without a value are left out, as other versions of Python may lack them."""
    if isinstance(node, ast.AST):
        yield f"({type(node).__name__}"
        for name, value in ast.iter_fields(node):
            if name == "body" and isinstance(value, list):
                value = [part for part in value if not _is_text(part)]
            if value is not None and value != []:
                yield f" {name}="
                yield from _said(value)
        yield ")"
    elif isinstance(node, list):
        for part in node:
            yield from _said(part)
    else:
        yield repr(node)


def _is_text(statement: ast.AST) -> bool:
    """Whether a statement is a string by itself, as docstrings are."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
