"""The catalogue: everything that a study may name, by kind, with its meaning."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sweeper.errors import SpecError, every
from sweeper.inputs.families import families
from sweeper.kernels.codes import CHOICES, SWITCHES
from sweeper.library.entries import Entry, Value
from sweeper.library.library import FOLDERS, Library, installed_studies
from sweeper.plugins import named
from sweeper.reading.limits import possible
from sweeper.reading.nodes import read_yaml
from sweeper.running import BACKENDS
from sweeper.views.charts import all_charts
from sweeper.words.defaults import CHOICE_DEFAULTS, NAMED, SWITCH_DEFAULTS
from sweeper.words.numbers import NUMBERS
from sweeper.words.system import ATTRIBUTES, ROLES


class Listed(NamedTuple):
    """A name that a study may use: what it means, and the one to take unless one means just this ("": itself)."""

    name: str
    description: str
    prefer: str = ""


def _entries(kind: str, library: Library) -> list[Listed]:
    """Entries in their order, each followed by those that describe the same thing less well."""
    entries = library.select(kind)
    names = {entry.name for entry in entries}
    below = [entry for entry in entries if entry.prefer in names]
    ordered = [each for entry in entries if entry not in below for each in (entry, *_behind(entry, below))]
    return [Listed(entry.name, entry.description, entry.prefer) for entry in ordered]


def _behind(entry: Entry, others: Iterable[Entry]) -> list[Entry]:
    return [other for other in others if other.prefer == entry.name]


def _switches(allowed: Mapping[str, tuple[str, ...]], usual: Mapping[str, str], library: Library) -> dict[str, str]:
    return {name: f"{' | '.join(allowed[name])}, default {default}" for name, default in usual.items()}


def _studies(library: Library) -> dict[str, str]:
    return {name: _title(path) for name, path in installed_studies().items()}


def _title(path: Path) -> str:
    """The title of a study; "" if it has none, or cannot be read."""
    try:
        written = read_yaml(path).plain()
    except SpecError:
        return ""
    return str(written.get("title", "")) if isinstance(written, dict) else ""


def _attributes(library: Library) -> dict[str, str]:
    return {
        f"{kind}.{name}": f"{attribute.about}: {possible(attribute)}"
        for kind, attributes in ATTRIBUTES.items()
        for name, attribute in attributes.items()
    }


def _axes(library: Library) -> dict[str, str]:
    named = {name: " | ".join(allowed) for name, allowed in NAMED.items()}
    numbers = {name: f"{number.about}: {possible(number)}" for name, number in NUMBERS.items()}
    return {**{role: f"one of: sweeper list {kind}" for role, kind in ROLES.items()}, **numbers, **named}


def _columns(library: Library) -> dict[str, str]:
    return {
        output.name: _with_unit(output.about, output.unit)
        for family in families().values()
        for equation in family.equations
        for output in equation.outputs
        if not output.shape
    }


def _families(library: Library) -> dict[str, str]:
    return {name: f"{len(family.equations)} equations" for name, family in families().items()}


def _charts(library: Library) -> dict[str, str]:
    return {name: chart.about for name, chart in all_charts().items()}


def _named(kind: str, ours: Iterable[str], library: Library) -> dict[str, str]:
    return dict.fromkeys(named(kind, ours), "")


LISTS: dict[str, Callable[[Library], Mapping[str, str] | Sequence[Listed]]] = {
    **{kind: partial(_entries, kind) for kind in FOLDERS if kind != "assumptions"},
    "study": _studies,
    "assumption": partial(_switches, SWITCHES, SWITCH_DEFAULTS),
    "choice": partial(_switches, CHOICES, CHOICE_DEFAULTS),
    "axis": _axes,
    "attribute": _attributes,
    "column": _columns,
    "family": _families,
    "backend": partial(_named, "backends", BACKENDS),
    "chart": _charts,
}
"""What lists the names of each kind with their descriptions."""


def catalogue(library: Library, kinds: Iterable[str] = tuple(LISTS)) -> dict[str, list[dict[str, str]]]:
    """What a study may name, by kind: lists of `Listed` as dicts. Raises SpecError with all mistakes met.

    >>> catalogue(Library.over(), ["facility"])["facility"][0]["name"]
    'datacenter'
    """
    listed = every(kinds, lambda kind: (kind, LISTS[kind](library)))
    return {kind: [each._asdict() for each in _listed(found)] for kind, found in listed}


def _listed(found: Mapping[str, str] | Sequence[Listed]) -> Iterable[Listed]:
    return (Listed(name, about) for name, about in found.items()) if isinstance(found, Mapping) else found


def entry_facts(library: Library, kind: str, name: str) -> dict[str, Any]:
    """What an entry says: its other names, what it goes with, and its numbers with unit, range, source and grade.

    Raises UsageFault for an unknown name, SpecError for its mistakes.
    """
    entry = library.asked(kind, name)
    numbers = [{"name": each, **_number(value)} for each, value in entry.values.items()]
    return {
        "kind": kind,
        "name": entry.name,
        "description": entry.description,
        "prefer": entry.prefer,
        "aliases": list(entry.aliases),
        "tags": list(entry.tags),
        "fits": {other: list(names) for other, names in entry.fits.items()},
        "dimensions": list(entry.dimensions),
        "origin": entry.origin,
        "values": numbers,
    }


def _number(value: Value) -> dict[str, Any]:
    known = ("number", "unit", "low", "high", "grade", "source")
    return {name: getattr(value, name) for name in known}


def _with_unit(about: str, unit: str) -> str:
    return f"{about} [{unit}]" if unit else about
