"""What installed packages add to sweeper, by entry points of the groups below.

A package whose `pyproject.toml` says

    [project.entry-points."sweeper.equations"]
    cooling = "my_package.cooling"

adds the equations that its module declares, once it is installed. Nothing is imported before it is used, but what
computes is looked at by the name of its package alone: its sources decide which compiled kernels may be used.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from sweeper.errors import EnvironmentFault, UsageFault, brief, listed, unknown

KINDS = {
    "numbers": "a dict of sweeper.words.attributes.Attribute by name: numbers that a study may give",
    "equations": "a module that declares equations, or a tuple of them; they join every family",
    "families": "a Variant: a family of workloads like one of ours, with some equations of its own",
    "backends": "a class of executors, see sweeper.running.backends",
    "formats": "a function that writes an answer as text; it becomes an option of every command",
    "charts": "a Chart: what sweeper show draws",
    "libraries": "a package, whose folder is a library directory",
}
"""What a plug-in may be, and the object that its entry point names; that of a kind is of the group `sweeper.<kind>`."""

COMPUTING = ("numbers", "equations", "families")
"""Kinds that decide what is computed."""


@dataclass(frozen=True)
class Variant:
    """A family of workloads that is read `like` one of ours: its equations (`sweeper.kernels.equation.Equation`) write
    some columns instead of those, or new ones. A study of it keeps the same `metrics` unless it says others. A workload
    says `family:` and its name."""

    like: str
    equations: tuple[Any, ...]
    metrics: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Chart:
    """A picture of a dataset that has the columns that it `needs`: `draw(frame, folder, study)` writes it into the
    folder, given the rows as a polars.DataFrame and the name of the study, and gives the files."""

    about: str
    needs: frozenset[str]
    draw: Callable[[Any, Path, str], Iterable[Path]]


TYPES: dict[str, Any] = {
    "numbers": Mapping,
    "families": Variant,
    "backends": Callable,
    "formats": Callable,
    "charts": Chart,
}
"""What the object of an entry point has to be an instance of, by kind; what uses them looks at those of the others."""


def named(kind: str, ours: Iterable[str]) -> tuple[str, ...]:
    """All names of a kind, ours first."""
    return tuple(dict.fromkeys([*ours, *(point.name for point in _points(kind))]))


def find(kind: str, ours: Mapping[str, Any], name: str) -> Any:
    """What has a name: ours, or that of a plug-in, which is loaded.

    Raises UsageFault if nothing has, EnvironmentFault if several have or the plug-in cannot be loaded.
    """
    points = [point for point in _points(kind) if point.name == name]
    owners = [*(["sweeper"] if name in ours else []), *map(owner, points)]
    if not owners:
        raise UsageFault(unknown(_singular(kind), name, named(kind, ours)))
    if len(owners) > 1:
        raise EnvironmentFault(
            f"{' and '.join(owners)} all have the {_singular(kind)} {name!r}: uninstall all but one of them"
        )
    return ours[name] if name in ours else _load(kind, points[0])


def loaded(kind: str, ours: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """All of a kind by name, ours first. Raises EnvironmentFault as `find` does."""
    mine = ours or {}
    return {name: find(kind, mine, name) for name in named(kind, mine)}


def home(kind: str, ours: Iterable[str], name: str) -> str:
    """The package, by its first name, whose sources what has a name is made of."""
    return "sweeper" if name in ours else _point(kind, name).module.partition(".")[0]


def label(kind: str, name: str) -> str:
    """A plug-in as messages call it: its name, its kind and the package that registers it."""
    return f"the plug-in {name!r} ({_singular(kind)}) of {owner(_point(kind, name))}"


def assert_words(whose: str, names: Iterable[object]) -> None:
    """Raise EnvironmentFault for a name of a plug-in that is no word, which nothing that is written can call."""
    for name in names:
        if not (isinstance(name, str) and name.isidentifier()):
            raise EnvironmentFault(f"{whose} adds {brief(name)}, which is no name: write letters, digits and _")


def assert_free(whose: str, names: Iterable[str], taken: Container[str], by: str) -> None:
    """Raise EnvironmentFault for names of a plug-in that are taken; `by` says what gives or writes them."""
    if twice := [name for name in dict.fromkeys(names) if name in taken]:
        raise EnvironmentFault(f"{whose} adds {listed(twice)}, which is taken: {by} it; choose another name")


def owner(point: EntryPoint) -> str:
    """The package that registers a plug-in, with its version."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value


def computing() -> tuple[str, ...]:
    """Packages and modules, by their first name, whose sources decide what is computed."""
    return tuple(sorted({point.module.partition(".")[0] for kind in COMPUTING for point in _points(kind)}))


def installed(ours: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """Every plug-in: its kind, name and object, the package that registers it, and what is wrong with it by itself or
    beside `ours`, by kind.

    >>> installed({"backends": {"local": "..."}})
    []
    """
    return [
        {
            "kind": _singular(kind),
            "name": point.name,
            "object": point.value,
            "package": owner(point),
            "problem": _problem(kind, ours.get(kind, {}), point),
        }
        for kind in KINDS
        for point in _points(kind)
    ]


def misnamed() -> Iterator[str]:
    """What is wrong with entry points whose groups are called as ours are, but are of no kind: nothing reads them."""
    known = [f"sweeper.{kind}" for kind in KINDS]
    for group in sorted(entry_points().groups):
        if group.startswith("sweeper.") and group not in known:
            for point in entry_points(group=group):
                yield f"the plug-in {point.name!r} of {owner(point)}: {unknown('group', group, known)}"


@cache
def _points(kind: str) -> tuple[EntryPoint, ...]:
    """In the order of their names, whatever the order of installation."""
    return tuple(sorted(entry_points(group=f"sweeper.{kind}"), key=lambda point: (point.name, owner(point))))


def _point(kind: str, name: str) -> EntryPoint:
    return next(point for point in _points(kind) if point.name == name)


def _load(kind: str, point: EntryPoint) -> Any:
    try:
        given = point.load()
    except Exception as error:  # whatever a package raises when it is imported
        said = f"{type(error).__name__}: {error}"
        raise EnvironmentFault(f"{label(kind, point.name)} cannot be loaded: {said}") from error
    if not isinstance(given, TYPES.get(kind, object)):
        raise EnvironmentFault(f"{label(kind, point.name)} is of type {type(given).__name__}, not {KINDS[kind]}")
    return given


def _problem(kind: str, ours: Mapping[str, Any], point: EntryPoint) -> str:
    try:
        find(kind, ours, point.name)
    except EnvironmentFault as fault:
        return str(fault)
    return ""


def _singular(kind: str) -> str:
    return {"families": "family", "libraries": "library"}.get(kind, kind.removesuffix("s"))
