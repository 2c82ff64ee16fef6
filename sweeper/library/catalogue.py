"""The catalogue: everything that a study may name, by kind, with its meaning."""

from kernels.codes import CHOICES, SWITCHES
from kernels.models import EQUATIONS
from sweeper.library.library import FOLDERS, Library, builtin_specs
from sweeper.reading.limits import possible
from sweeper.words.defaults import CHOICE_DEFAULTS, SWITCH_DEFAULTS
from sweeper.words.system import ATTRIBUTES


def catalogue(library: Library) -> dict[str, list[dict[str, str]]]:
    """Everything a study may name, by kind: lists of a name and its description."""
    described = {
        kind: {entry.name: entry.description for entry in library.select(kind)}
        for kind in FOLDERS
        if kind != "assumptions"
    }
    described["study"] = dict.fromkeys(sorted(path.stem for path in (builtin_specs() / "studies").glob("*.yaml")), "")
    for kind, allowed, usual in (("assumption", SWITCHES, SWITCH_DEFAULTS), ("choice", CHOICES, CHOICE_DEFAULTS)):
        described[kind] = {name: f"{' | '.join(allowed[name])}, default {default}" for name, default in usual.items()}
    described["attribute"] = {
        f"{kind}.{name}": f"{attribute.about}: {possible(attribute)}"
        for kind, attributes in ATTRIBUTES.items()
        for name, attribute in attributes.items()
    }
    described["column"] = {
        output.name: _with_unit(output.about, output.unit)
        for equation in EQUATIONS
        for output in equation.outputs
        if not output.shape
    }
    return {
        kind: [{"name": name, "description": description} for name, description in names.items()]
        for kind, names in described.items()
    }


def _with_unit(about: str, unit: str) -> str:
    return f"{about} [{unit}]" if unit else about
