"""The catalogue: everything that a study may name, by kind, with its meaning."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from sweeper.errors import every
from sweeper.inputs.families import families
from sweeper.kernels.codes import CHOICES, SWITCHES
from sweeper.library.library import FOLDERS, Library, installed_studies
from sweeper.plugins import loaded, named
from sweeper.reading.limits import possible
from sweeper.running import BACKENDS
from sweeper.views.charts import CHARTS
from sweeper.words.defaults import CHOICE_DEFAULTS, SWITCH_DEFAULTS
from sweeper.words.system import ATTRIBUTES


def _entries(kind: str, library: Library) -> dict[str, str]:
    return {entry.name: entry.description for entry in library.select(kind)}


def _switches(allowed: Mapping[str, tuple[str, ...]], usual: Mapping[str, str], library: Library) -> dict[str, str]:
    return {name: f"{' | '.join(allowed[name])}, default {default}" for name, default in usual.items()}


def _studies(library: Library) -> dict[str, str]:
    return dict.fromkeys(installed_studies(), "")


def _attributes(library: Library) -> dict[str, str]:
    return {
        f"{kind}.{name}": f"{attribute.about}: {possible(attribute)}"
        for kind, attributes in ATTRIBUTES.items()
        for name, attribute in attributes.items()
    }


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
    return {name: chart.about for name, chart in loaded("charts", CHARTS).items()}


def _named(kind: str, ours: Iterable[str], library: Library) -> dict[str, str]:
    return dict.fromkeys(named(kind, ours), "")


LISTS: dict[str, Callable[[Library], dict[str, str]]] = {
    **{kind: partial(_entries, kind) for kind in FOLDERS if kind != "assumptions"},
    "study": _studies,
    "assumption": partial(_switches, SWITCHES, SWITCH_DEFAULTS),
    "choice": partial(_switches, CHOICES, CHOICE_DEFAULTS),
    "attribute": _attributes,
    "column": _columns,
    "family": _families,
    "backend": partial(_named, "backends", BACKENDS),
    "chart": _charts,
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
