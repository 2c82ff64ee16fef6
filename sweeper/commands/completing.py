"""What a shell completes: studies, runs, entries, columns and charts by name, plug-ins included.

A completion that cannot be made, because a library is broken or a folder cannot be read, is none: a shell has nowhere
to say why.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from sweeper.errors import SweeperError

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
FILE = CompletionItem("", type="file")
"""Asks the shell for files, too."""


def completed(found: Callable[[click.Context], Iterable[tuple[str, str]]], *others: CompletionItem) -> Completer:
    """Complete names with what they mean."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        with suppress(SweeperError, OSError):
            items = [CompletionItem(name, help=about) for name, about in found(ctx) if name.startswith(incomplete)]
            return [*items, *others]
        return [*others]

    return complete


def _listed(kind: str) -> Callable[[click.Context], Iterable[tuple[str, str]]]:
    def found(ctx: click.Context) -> Iterable[tuple[str, str]]:
        from sweeper.library.library import Library
        from sweeper.views.catalogue import catalogue

        listed = catalogue(Library.over(ctx.params.get("library") or ()), [kind])[kind]
        return [(each["name"], each["description"]) for each in listed]

    return found


def _kinds(ctx: click.Context) -> Iterable[tuple[str, str]]:
    from sweeper.views.catalogue import LISTS

    return [(kind, "") for kind in LISTS]


def _starts(ctx: click.Context) -> Iterable[tuple[str, str]]:
    from sweeper.library.library import starts

    return [(name, "") for name in starts()]


def _entries(ctx: click.Context) -> Iterable[tuple[str, str]]:
    return _listed(ctx.params["kind"])(ctx)


def _runs(ctx: click.Context) -> Iterable[tuple[str, str]]:
    out = Path(ctx.params.get("out") or "results")
    return [(str(path.parent), "run") for path in sorted(out.glob("*/resolved.json"))]


def _axes(ctx: click.Context) -> Iterable[tuple[str, str]]:
    from sweeper.study.columns import ALL, about

    return [(name, about(name)) for name in ALL]


def _settings(ctx: click.Context) -> Iterable[tuple[str, str]]:
    return [(f"{name}=", about) for name, about in _axes(ctx)]


def _studies_and_runs(ctx: click.Context) -> Iterable[tuple[str, str]]:
    return [*_listed("study")(ctx), *_runs(ctx)]


kinds = completed(_kinds)
starts = completed(_starts)
entries = completed(_entries)
studies = completed(_listed("study"), FILE)
runs = completed(_studies_and_runs, FILE)
axes = completed(_axes)
settings = completed(_settings)
columns = completed(_listed("column"))
charts = completed(_listed("chart"))
packages = completed(_listed("package"))
templates = completed(_listed("template"))
calibrations = completed(_listed("calibration"))
