"""The schema of a library file: entries of one kind, by name."""

from sweeper.kernels.codes import DIMENSION_KINDS
from sweeper.kernels.draws import DISTRIBUTIONS
from sweeper.library.entries import BODY_KEYS, COMMON_KEYS, FITTING, NUMBER_KEYS, WITH_PARAMETERS
from sweeper.study.json_schema.studies import DRAFT
from sweeper.study.json_schema.values import (
    A_NAME,
    AN_ALIAS,
    ANY_NUMBER,
    TEXT,
    Schema,
    number,
    one_of,
    one_or_list,
    units,
)
from sweeper.words.attributes import Attribute
from sweeper.words.packages import CAUSES, PACKAGE
from sweeper.words.system import ATTRIBUTES, GRADES


def entries_schema(kind: str) -> Schema:
    """JSON Schema of a file of entries of a kind."""
    return {
        "$schema": DRAFT,
        "title": f"A library file of sweeper: {kind}",
        "type": "object",
        "propertyNames": A_NAME,
        "additionalProperties": {"$ref": "#/$defs/entry"},
        "$defs": {**units([*ATTRIBUTES.get(kind, {}).values(), *PACKAGE.values()]), "entry": _entry(kind)},
    }


def _entry(kind: str) -> Schema:
    numbers = {name: _number(number(attribute), attribute) for name, attribute in ATTRIBUTES.get(kind, {}).items()}
    body: Schema = {key: {} for key in BODY_KEYS.get(kind, ())}
    if kind in WITH_PARAMETERS:
        own = PACKAGE if kind == "package" else {}
        known = {name: _number(number(attribute), attribute) for name, attribute in own.items()}
        free = _number(ANY_NUMBER, None)
        body["parameters"] = {"type": "object", "properties": known, "additionalProperties": free}
    if kind == "topology":
        kinds = one_of(DIMENSION_KINDS[1:])
        body["dimensions"] = {"type": "array", "items": kinds, "minItems": 1, "maxItems": 3}
    common: Schema = {
        **dict.fromkeys(("extends", "prefer"), TEXT),
        "takes": {"type": "object", "additionalProperties": one_or_list(A_NAME, least=0)},
        "aliases": one_or_list(AN_ALIAS, least=0),
        "description": TEXT,
        "source": TEXT,
        "grade": one_of(GRADES),
        "tags": one_or_list(A_NAME, least=0),
        "fits": {
            "type": "object",
            "properties": dict.fromkeys(FITTING, one_or_list(TEXT, least=0)),
            "additionalProperties": False,
        },
    }
    assert common.keys() == {*COMMON_KEYS}
    return {"type": "object", "properties": {**common, **numbers, **body}, "additionalProperties": False}


def _number(single: Schema, attribute: Attribute | None) -> Schema:
    """A number as it stands, or with where it comes from and how far it may be off."""
    told = {"description": single["description"]} if "description" in single else {}
    parts: Schema = {
        **dict.fromkeys(("value", "low", "high"), single),
        "distribution": one_of(DISTRIBUTIONS),
        "cause": {"type": "object", "properties": {cause: {} for cause in CAUSES}, "additionalProperties": False},
        "path": {"type": "object", "patternProperties": {r"^\d+$": single}, "additionalProperties": False},
        "source": TEXT,
        "grade": one_of(GRADES),
    }
    assert parts.keys() == {*NUMBER_KEYS}
    return {**told, "anyOf": [single, {"type": "object", "properties": parts, "additionalProperties": False}]}
