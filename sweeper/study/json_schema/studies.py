"""The schema of a study."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from sweeper.library.library import Library
from sweeper.study.axes import SHAPES
from sweeper.study.columns import ALL, ASSUMABLE
from sweeper.study.drafts import BOX_KEYS, OVERRIDABLE
from sweeper.study.json_schema.values import (
    A_NAME,
    AN_EXPRESSION,
    ANY_NUMBER,
    TEXT,
    Schema,
    called,
    made,
    number,
    one_of,
    one_or_list,
    unit_name,
    units,
    value,
)
from sweeper.study.optimize import BOUNDS, METHODS, WEIGHT, Optimize, ranged, share_names
from sweeper.study.output import MAX_TOP_K, MODES, SENSES
from sweeper.study.study import KEYS
from sweeper.words.columns import NAMING_ROLES, PATH_KINDS, numeric
from sweeper.words.system import NUMERIC, ROLES

OWN_NUMBERS = rf"^(?:{'|'.join(NAMING_ROLES)})\.\w+$"
"""Numbers that entries name for themselves."""
PATHS = rf"^(?:{'|'.join(PATH_KINDS)})/.+/.+$"
"""Numbers of entries by their path."""
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def study_schema(library: Library) -> Schema:
    """JSON Schema of a study with the entries of a library."""
    columns = tuple(dict.fromkeys((*ALL, *NUMERIC)))
    quantities = units([*NUMERIC.values(), WEIGHT])
    return {
        "$schema": DRAFT,
        "title": "A study of sweeper",
        **_mapping({key: make(library) for key, make in PARTS.items()}, ["study"]),
        "$defs": {
            "name": A_NAME,
            "text": TEXT,
            "expression": AN_EXPRESSION,
            "quantity": ANY_NUMBER,
            **quantities,
            **{f"range.{name}": _range(made(name if name != unit_name("") else "quantity")) for name in quantities},
            **{f"value.{column}": value(column, library) for column in columns},
            **{f"values.{column}": _values(column) for column in columns},
            "range.quantity": _range(made("quantity")),
            "values.quantity": _given(made("quantity"), made("range.quantity")),
            "axes": _axes(columns),
            "table": _table(columns),
            "selection": _selection(),
        },
    }


def _mapping(properties: Schema, required: Sequence[str] = (), **more: Any) -> Schema:
    """A mapping with these keys alone."""
    told = {"type": "object", "properties": properties, "additionalProperties": False, **more}
    return told | ({"required": [*required]} if required else {})


def _axes(columns: Iterable[str]) -> Schema:
    """Axes by name: columns, or names of the user's for tables."""
    named = {column: {"anyOf": [made(f"values.{column}"), made("table")]} for column in columns}
    loose = {"anyOf": [made("values.quantity"), made("table")]}
    return {
        "type": "object",
        "properties": named,
        "patternProperties": dict.fromkeys((OWN_NUMBERS, PATHS), loose),
        "additionalProperties": made("table"),
    }


def _values(column: str) -> Schema:
    """A value of a column, a list of them, or what gives them."""
    attribute = numeric(column)
    if attribute is not None:
        return _given(made(f"value.{column}"), made(f"range.{unit_name(attribute.unit)}"))
    selection = [_mapping({"library": made("selection")}, ["library"])] if column in ROLES else []
    return _given(made(f"value.{column}"), *selection)


def _given(single: Schema, *others: Schema) -> Schema:
    return {"anyOf": [single, {"type": "array", "items": single, "minItems": 1, "uniqueItems": True}, *others]}


def _range(end: Schema) -> Schema:
    """What gives numbers, given what an end of a range may be."""
    count = {"type": "integer", "minimum": 2}
    shapes = {name: [count if part == "count" else end for part in shape] for name, shape in SHAPES.items()}
    ranges = {
        name: {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}
        for name, parts in shapes.items()
    }
    return _mapping({**ranges, "divisors_of": made("expression")}, minProperties=1, maxProperties=1)


def _table(columns: Iterable[str]) -> Schema:
    """Columns that vary together: rows, or the combinations of values that satisfy a condition."""
    column = {"anyOf": [one_of(columns), {"type": "string", "pattern": f"{OWN_NUMBERS}|{PATHS}"}]}
    rows = {"type": "array", "minItems": 1, "items": {"type": "array", "minItems": 1}}
    values = {"type": "object", "properties": {column: made(f"values.{column}") for column in columns}}
    parts: Schema = {
        "columns": {"type": "array", "items": column, "minItems": 1, "uniqueItems": True},
        "rows": rows,
        "values": values,
        "where": made("expression"),
    }
    ways = [{"required": ["rows"], "not": {"required": ["where"]}}, {"required": ["values"]}]
    return _mapping(parts, ["columns"], oneOf=ways)


def _selection() -> Schema:
    tags = one_or_list(made("text"), least=0)
    return {"anyOf": [{"const": "all"}, _mapping({"tags": tags, "where": made("expression")})]}


def _assumptions(library: Library) -> Schema:
    given = _mapping({name: made(f"value.{name}") for name in ASSUMABLE})
    part = {"anyOf": [one_of(called("assumptions", library)), given]}
    return {"anyOf": [part, {"type": "array", "items": part, "minItems": 1}]}


def _overrides(library: Library) -> Schema:
    return one_or_list(one_of(OVERRIDABLE))


def _boxes(library: Library) -> Schema:
    parts = {key: PARTS[key](library) for key in BOX_KEYS}
    return {"type": "array", "items": _mapping(parts), "minItems": 1}


def _objective(library: Library) -> Schema:
    one = _mapping({sense: made("text") for sense in SENSES}, minProperties=1, maxProperties=1)
    return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}


def _optimize(library: Library) -> Schema:
    whole = {name: {"type": "integer", "minimum": least, "maximum": most} for name, (least, most) in BOUNDS.items()}
    ends = {name: {"type": "array", "items": made(f"value.{name}"), "minItems": 2, "maxItems": 2} for name in ranged()}
    rows = {"type": "array", "items": {"type": "array", "items": number(WEIGHT), "minItems": 1}, "minItems": 1}
    parts: Schema = {
        **whole,
        "shares": {"type": "array", "items": one_of(share_names()), "uniqueItems": True},
        "ranges": _mapping(ends),
        "method": one_of(METHODS),
        "weights": rows,
        "front": {"type": "integer", "minimum": 1},
    }
    assert parts.keys() == {field.name for field in fields(Optimize)} | {"front"}
    return _mapping(parts) | {"not": {"required": ["weights", "front"]}}


def _output(library: Library) -> Schema:
    return _mapping(
        {
            "mode": one_of(MODES),
            "columns": one_or_list(made("text"), least=0),
            "float32": {"type": "boolean"},
            "top_k": {"type": "integer", "minimum": 1, "maximum": MAX_TOP_K},
        }
    )


PARTS = {
    "study": lambda library: made("name"),
    **dict.fromkeys(("title", "description", "answer"), lambda library: made("text")),
    "assumptions": _assumptions,
    "override": _overrides,
    **dict.fromkeys(("axes", "search"), lambda library: made("axes")),
    "boxes": _boxes,
    "objective": _objective,
    "constraints": lambda library: {"type": "array", "items": made("expression"), "minItems": 1},
    "optimize": _optimize,
    "output": _output,
}
"""What makes the schema of each key of a study."""
assert PARTS.keys() == {*KEYS}
