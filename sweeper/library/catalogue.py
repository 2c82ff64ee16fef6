"""The catalogue: everything that a study may name, by kind, with its meaning."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from sweeper.errors import every
from sweeper.kernels.codes import CHOICES, SWITCHES
from sweeper.kernels.models import EQUATIONS
from sweeper.library.library import FOLDERS, Library, builtin_specs
from sweeper.reading.limits import possible
from sweeper.words.defaults import CHOICE_DEFAULTS, SWITCH_DEFAULTS
from sweeper.words.system import ATTRIBUTES


def _entries(kind: str, library: Library) -> dict[str, str]:
    return {entry.name: entry.description for entry in library.select(kind)}


def _switches(allowed: Mapping[str, tuple[str, ...]], usual: Mapping[str, str], library: Library) -> dict[str, str]:
    return {name: f"{' | '.join(allowed[name])}, default {default}" for name, default in usual.items()}


def _studies(library: Library) -> dict[str, str]:
    return dict.fromkeys(sorted(path.stem for path in (builtin_specs() / "studies").glob("*.yaml")), "")


def _attributes(library: Library) -> dict[str, str]:
    return {
        f"{kind}.{name}": f"{attribute.about}: {possible(attribute)}"
        for kind, attributes in ATTRIBUTES.items()
        for name, attribute in attributes.items()
    }


def _columns(library: Library) -> dict[str, str]:
    return {
        output.name: _with_unit(output.about, output.unit)
        for equation in EQUATIONS
        for output in equation.outputs
        if not output.shape
    }


LISTS: dict[str, Callable[[Library], dict[str, str]]] = {
    **{kind: partial(_entries, kind) for kind in FOLDERS if kind != "assumptions"},
    "study": _studies,
    "assumption": partial(_switches, SWITCHES, SWITCH_DEFAULTS),
    "choice": partial(_switches, CHOICES, CHOICE_DEFAULTS),
    "attribute": _attributes,
    "column": _columns,
}
"""What lists the names of each kind with their descriptions."""


def catalogue(library: Library, kinds: Iterable[str] = tuple(LISTS)) -> dict[str, list[dict[str, str]]]:
    """What a study may name, by kind: lists of a name and its description. Raises SpecError with all mistakes met."""
    listed = every(kinds, lambda kind: (kind, LISTS[kind](library)))
    return {
        kind: [{"name": name, "description": description} for name, description in names.items()]
        for kind, names in listed
    }


def _with_unit(about: str, unit: str) -> str:
    return f"{about} [{unit}]" if unit else about
