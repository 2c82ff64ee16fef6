"""What two runs of a study were given: which library values, assumptions, axes, questions and equations differ."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeper.words.columns import engine_column, numeric

LIBRARY, ASSUMPTION, AXIS, QUESTION, EQUATION = "library", "assumption", "axis", "question", "equation"
"""Kinds of inputs that can move a column: numbers of entries; switches, choices and numbers of the study that do not
vary; values of its axes; its objective and output; code."""
PROVENANCE, CONSEQUENCE = "provenance", "consequence"
"""Other kinds: source, grade and range of a number, which move bands at most; equations that are used, or are not used
any more, because another input changed."""

NUMBER_FIELDS = ("number", "unit", "source", "grade", "low", "high")
"""What a run says of a number of the library, in this order."""
RANGE = ("low", "high")
SEVERAL = ("all", "feasible", "top_k", "pareto")
"""Modes with several rows of the same swept values, which searched columns tell apart."""


@dataclass(frozen=True)
class Change:
    """An input that differs: its kind, its name (`memory/hbm3/bandwidth`), and what it was and is, in `unit`."""

    kind: str
    name: str
    before: Any
    after: Any
    unit: str = ""


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Inputs that differ between two studies, as their runs resolved them."""
    found = [
        *_library(before["library"], after["library"]),
        *_constants(before, after),
        *_axes(before, after),
        *(
            Change(QUESTION, key, before.get(key), after.get(key))
            for key in ("objectives", "constraints", "output", "optimize", "perturbation")
            if before.get(key) != after.get(key)
        ),
        *_code(before["code"], after["code"]),
    ]
    chosen = CONSEQUENCE if any(change.kind != PROVENANCE for change in found) else EQUATION
    used, uses = ({*told["code"]["equations"]} for told in (before, after))
    return [*found, *(Change(chosen, name, name in used, name in uses) for name in sorted(used ^ uses))]


def axis_values(resolved: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Values of each column that an axis gives, in all boxes, each once."""
    found: dict[str, list[Any]] = {}
    for box in resolved["boxes"]:
        for *names, _, rows in box:
            for position, name in enumerate(names):
                values = found.setdefault(name, [])
                values.extend(row[position] for row in rows if row[position] not in values)
    return found


def keys_of(resolved: Mapping[str, Any]) -> list[str]:
    """Columns of a dataset that tell its rows apart: what is swept; what is searched, too, where several are kept."""
    mode, *_ = resolved.get("output", ("",))
    told = ("swept", "searched") if mode in SEVERAL else ("swept",)
    names = [name for box in resolved.get("boxes", ()) for *columns, how, _ in box if how in told for name in columns]
    return list(dict.fromkeys(map(engine_column, names)))


def constants_of(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """What is the same for all points of a run, by columns of a dataset, whether its study says it or not."""
    return {engine_column(name): value for name, value in resolved["constants"].items()}


def _library(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    """Of entries that both runs use. One that only one of them uses belongs to an axis that differs."""
    for entry in sorted(before.keys() & after.keys()):
        old, new = before[entry], after[entry]
        for name in sorted(old["values"].keys() | new["values"].keys()):
            was, now = (_number(told["values"].get(name, ())) for told in (old, new))
            unit = now.get("unit") or was.get("unit") or ""
            if was.get("number") != now.get("number"):
                yield Change(LIBRARY, f"{entry}/{name}", was.get("number"), now.get("number"), unit)
            for field in ("source", "grade", *(RANGE if _ranged(was) or _ranged(now) else ())):
                if was and now and was.get(field) != now.get(field):
                    yield Change(PROVENANCE, f"{entry}/{name}/{field}", was.get(field), now.get(field))
        for part in ("dimensions", "body"):
            for path, was, now in _leaves(old.get(part), new.get(part), f"{entry}/{part}"):
                yield Change(LIBRARY, path, was, now)


def _number(told: Sequence[Any]) -> dict[str, Any]:
    """A number of an entry by its fields; one that is not known, which is NaN and unlike itself, is None."""
    return {field: None if value != value else value for field, value in zip(NUMBER_FIELDS, told, strict=False)}


def _ranged(told: Mapping[str, Any]) -> bool:
    """Whether a number has a range, and is not just itself."""
    return any(told.get(end) != told.get("number") for end in RANGE)


def _leaves(old: Any, new: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Leaves that differ of two trees, by path."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from _leaves(old.get(key), new.get(key), f"{path}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (was, now) in enumerate(zip(old, new, strict=True)):
            yield from _leaves(was, now, f"{path}/{number}")
    elif old != new:
        yield path, old, new


def _constants(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    """What is the same for all points of a run, and another thing in the other run; an axis there is told as one."""
    old, new = before["constants"], after["constants"]
    axes = axis_values(before).keys() | axis_values(after).keys()
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name) and name not in axes:
            yield Change(ASSUMPTION, name, old.get(name), new.get(name), unit_of(name))


def _axes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    """Axes with other values. One that a study has not has the value there that all its points have, if they do."""
    axes = [axis_values(each) for each in (before, after)]
    for name in dict.fromkeys([*axes[0], *axes[1]]):
        old, new = (
            its.get(name, [each["constants"][name]] if name in each["constants"] else None)
            for its, each in zip(axes, (before, after), strict=True)
        )
        if old != new:
            yield Change(AXIS, name, old, new, unit_of(name))


def unit_of(name: str) -> str:
    """Unit of the values of a column; none of names."""
    attribute = numeric(name)
    return "" if attribute is None else attribute.unit


def _code(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    old, new = before["kernels"], after["kernels"]
    for module in sorted(old.keys() & new.keys()):
        if old[module] != new[module]:
            yield Change(EQUATION, module, old[module][:12], new[module][:12])
    if before["evaluation"] != after["evaluation"]:
        yield Change(EQUATION, "evaluation", before["evaluation"][:12], after["evaluation"][:12])
