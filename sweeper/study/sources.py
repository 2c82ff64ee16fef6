"""Where a study comes from: a file, the name of one of ours, YAML itself, or plain data of Python."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweeper.errors import Misuse, UsageFault, unknown
from sweeper.library.library import installed_studies
from sweeper.reading.nodes import Node, parse_yaml, read_yaml
from sweeper.study.axes import columns_written, is_table
from sweeper.study.columns import is_column, unknown_column

Source = Path | str | Mapping[str, Any]
"""A path; a name, a path or, where it has several lines, YAML; or what such YAML says, as dicts, lists and scalars."""


def study_path(name: str) -> Path:
    """A study file by path, or by the name of a study that is installed. Raises UsageFault if there is none."""
    if is_there(Path(name)):
        return Path(name)
    studies = installed_studies()
    if name not in studies:
        raise UsageFault(f"no file or run directory, and {unknown('study', name, studies, kind='study')}")
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


def with_axes(root: Node, settings: Iterable[str]) -> Node:
    """A study of other values for some axes, given as texts `axis=values`, in which values are YAML as under `axes`.

    An axis that is searched, or that only some boxes have, is swept in all of them then. Raises UsageFault for a text
    of another form, a name that is no column or is given twice, and a column that a table gives together with others.

    >>> study = parse_yaml("{study: s, axes: {chips: 8, chip: a100}, search: {microbatch: [1, 2]}}")
    >>> with_axes(study, ["chip=[a100, h100]", "microbatch=4"]).plain()
    {'study': 's', 'axes': {'chips': 8, 'chip': ['a100', 'h100'], 'microbatch': 4}, 'search': {}}
    """
    axes: dict[str, Node] = {}
    for text in settings:
        name, equals, values = (part.strip() for part in text.partition("="))
        if not (equals and name and values):
            raise UsageFault(f"found {text!r}; write AXIS=VALUES, e.g. 'chips=[8, 64]'")
        if not is_column(name):
            raise UsageFault(unknown_column(name))
        if name in axes:
            raise UsageFault(f"{name} is given twice")
        written = parse_yaml(f"{name}: {values}", "--set").value
        if not isinstance(written, dict) or written.keys() != {name}:
            raise UsageFault(f"found {text!r}; the values of one axis are one value, a list or a mapping")
        axes |= written
    if not axes or not isinstance(root.value, dict):
        return root
    given = _without(root, axes)
    boxes = given.get("boxes")
    if boxes is not None and isinstance(boxes.value, tuple):
        # What is no box or no axes stays, for the reader to refuse.
        inside = (
            replace(box, value=_without(box, axes)) if isinstance(box.value, dict) else box for box in boxes.value
        )
        given["boxes"] = replace(boxes, value=tuple(inside))
    home = given.get("axes", Node({}, root.file, root.line, root.column, "axes"))
    if not isinstance(home.value, dict):
        return root
    own = home.value
    marks = {**home.marks, **dict.fromkeys(axes, (home.line, home.column))}
    given["axes"] = replace(home, value={**own, **axes}, marks=marks)
    return replace(root, value=given, marks={"axes": (root.line, root.column), **root.marks})


def _without(node: Node, axes: Mapping[str, Node]) -> dict[str, Node]:
    """What a study or a box says, less some axes."""
    assert isinstance(node.value, dict)
    found = dict(node.value)
    for key in ("axes", "search"):
        home = found.get(key)
        if home is not None and isinstance(home.value, dict):
            for name, axis in home.value.items():
                together = sorted(axes.keys() & columns_written(name, axis)) if is_table(axis) else []
                if together:
                    place = f"{home.file}:{axis.line}"
                    raise UsageFault(f"{together[0]} is given by the table {name} ({place}), together with others")
            found[key] = replace(home, value={name: axis for name, axis in home.value.items() if name not in axes})
    if "assumptions" in found:
        found["assumptions"] = _unassumed(found["assumptions"], axes)
    return found


def _unassumed(node: Node, axes: Mapping[str, Node]) -> Node:
    """Assumptions, less those of some columns."""
    if isinstance(node.value, tuple):
        return replace(node, value=tuple(_unassumed(part, axes) for part in node.value))
    if isinstance(node.value, dict):
        return replace(node, value={name: value for name, value in node.value.items() if name not in axes})
    return node


def is_there(path: Path) -> bool:
    """Whether there is a file; what cannot be its name, or cannot be looked at, is none."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
