"""Digests of source code: what a module computes, without its comments and docstrings, and which modules it uses.

Reading a hundred modules takes most of a second, so what was found of a text is kept in the cache under its hash.
"""

import ast
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from sweeper.engine.compilation.cache import KERNELS, secret_path
from sweeper.engine.compilation.own_files import own_directory, read_own, write_own


class Reading(NamedTuple):
    """What a text says: the digest of its code, and what it imports as (module, name in it or "")."""

    digest: str
    imported: list[list[str]]


def code_digest(module: str) -> str:
    """Hex digest of what a module says to the interpreter: neither comments nor docstrings nor layout count.

    The same for all versions of Python that read the same syntax.
    """
    return _reading(module).digest


@cache
def imports(module: str) -> frozenset[str]:
    """Modules of the same top-level package, or of our kernels, that a module imports, inside functions too."""
    package = module.partition(".")[0]
    imported = _reading(module).imported
    ours = [
        (name, inside) for name, inside in imported if name.partition(".")[0] == package or name.startswith(KERNELS)
    ]
    return frozenset(f"{name}.{inside}" if inside and _file(f"{name}.{inside}") else name for name, inside in ours)


def closure(modules: Iterable[str], kept: Callable[[str], bool] = lambda module: True) -> tuple[str, ...]:
    """Modules with all that they import, directly or not, as far as `imports` goes; only those `kept`."""
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
def _reading(module: str) -> Reading:
    file = _file(module)
    assert file is not None, module
    text = file.read_bytes()
    kept = _folder() / f"{hashlib.sha256(Path(__file__).read_bytes() + text).hexdigest()}.json"
    try:
        return Reading(**json.loads(read_own(kept) or b""))
    except (ValueError, TypeError):  # not there, or damaged
        reading = _read(ast.parse(text))
        write_own(kept, json.dumps(reading._asdict()).encode())
        return reading


@cache
def _folder() -> Path:
    return own_directory(secret_path().with_name("sources"))


def _read(tree: ast.Module) -> Reading:
    imported = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported += [[alias.name, ""] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            imported += [[node.module, alias.name] for alias in node.names]
    return Reading(hashlib.sha256("".join(_said(tree)).encode()).hexdigest(), imported)


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
