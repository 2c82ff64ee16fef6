"""Where a study comes from: a file, the name of one of ours, YAML itself, or plain data of Python."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweeper.errors import Misuse, UsageFault, unknown
from sweeper.library.library import installed_studies
from sweeper.reading.nodes import Node, parse_yaml, read_yaml

Source = Path | str | Mapping[str, Any]
"""A path; a name, a path or, where it has several lines, YAML; or what such YAML says, as dicts, lists and scalars."""


def study_path(name: str) -> Path:
    """A study file by path, or by the name of a study that is installed. Raises UsageFault if there is none."""
    if is_there(Path(name)):
        return Path(name)
    studies = installed_studies()
    if name not in studies:
        raise UsageFault(f"no file or run directory, and {unknown('study', name, studies)}")
    return studies[name]


def read_source(source: Source) -> Node:
    """What a study says. Messages about plain data name lines of what `json.dumps(source, indent=1)` gives.

    Raises SpecError for what cannot be read, UsageFault for a name that nothing has, and Misuse for a source of another
    kind or data that no YAML holds.
    """
    if isinstance(source, Mapping):
        return parse_yaml(_as_yaml(source), "<study>")
    if isinstance(source, Path):
        return read_yaml(source)
    if not isinstance(source, str):
        raise Misuse(f"a study is a path, a name, YAML or a dict, not {type(source).__name__}")
    return parse_yaml(source, "<study>") if "\n" in source else read_yaml(study_path(source))


def _as_yaml(data: Mapping[str, Any]) -> str:
    try:
        return json.dumps(data, indent=1, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError) as fault:
        raise Misuse(f"a study holds dicts, lists, text and numbers: {fault}") from None


def _plain(value: Any) -> Any:
    """What JSON has no kind of: scalars and arrays of NumPy, columns of Polars, paths."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    for name in ("tolist", "to_list"):
        if hasattr(value, name):
            return getattr(value, name)()
    raise TypeError(f"{value!r} is {type(value).__name__}")


def is_there(path: Path) -> bool:
    """Whether there is a file; what cannot be its name, or cannot be looked at, is none."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
