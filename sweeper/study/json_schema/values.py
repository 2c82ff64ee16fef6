"""What a single value may be: a number with its unit, the name of an entry or of a choice."""

import re
from collections.abc import Iterable
from typing import Any

from sweeper.library.library import Library
from sweeper.reading.checks import ALIAS, NAME
from sweeper.reading.limits import possible
from sweeper.reading.units import EXAMPLES, spelled
from sweeper.study.columns import about
from sweeper.words.attributes import Attribute
from sweeper.words.columns import numeric
from sweeper.words.defaults import NAMED
from sweeper.words.system import ROLES

Schema = dict[str, Any]

TEXT: Schema = {"type": ["string", "number", "boolean"], "pattern": "\\S"}
"""Text that is not blank; a number is taken as it is written."""
ANY_NUMBER: Schema = {"type": ["number", "string"]}
"""A number of any unit: what it is of is not known here."""
AN_EXPRESSION: Schema = {"type": ["string", "number"], "pattern": "\\S"}


def whole_text(pattern: "re.Pattern[str]") -> str:
    """A pattern that has to match all of a text."""
    return f"^(?:{pattern.pattern})$"


A_NAME: Schema = {"type": ["string", "number"], "pattern": whole_text(NAME)}
AN_ALIAS: Schema = {"type": ["string", "number"], "pattern": whole_text(ALIAS)}


def made(name: str) -> Schema:
    """Refer to a definition."""
    return {"$ref": f"#/$defs/{name}"}


def unit_name(unit: str) -> str:
    """Name of the definition of quantities in a unit."""
    return f"quantity.{unit.translate(_AS_WORDS)}" if unit else "quantity.plain"


_AS_WORDS = str.maketrans({"/": "_per_", "*": "_", "^": "", "(": "", ")": ""})
"""What references may not hold."""


def units(attributes: Iterable[Attribute]) -> Schema:
    """Definitions of the quantities that some numbers are."""
    names = sorted({"", *(attribute.unit for attribute in attributes)})
    return {unit_name(unit): {"type": "string", "pattern": spelled(unit)} for unit in names}


def one_or_list(item: Schema, least: int = 1) -> Schema:
    """A value, or a list of such values."""
    return {"anyOf": [item, {"type": "array", "items": item, "minItems": least, "uniqueItems": True}]}


def one_of(names: Iterable[str]) -> Schema:
    """One of some names."""
    return {"enum": list(names)}


def number(attribute: Attribute) -> Schema:
    """A number of the vocabulary: a plain one within its limits, or text with its unit."""
    low, high = attribute.range
    told: Schema = {"description": f"{attribute.about}: {possible(attribute)}"}
    if attribute.unit:
        return told | made(unit_name(attribute.unit)) | {"examples": [EXAMPLES[attribute.unit]]}
    plain: Schema = {"type": "integer" if attribute.integer else "number", "minimum": low, "maximum": high}
    zero: list[Schema] = [] if attribute.positive else [{"type": "number", "const": 0}]
    return told | {"anyOf": [plain, *zero, made(unit_name(""))]}


def called(kind: str, library: Library) -> list[str]:
    """Names and other names of the entries of a kind that can be read."""
    entries = [library.find(kind, name) for name in library.names(kind)]
    return list(dict.fromkeys([*(entry.name for entry in entries), *(name for e in entries for name in e.aliases)]))


def value(column: str, library: Library) -> Schema:
    """One value of a column."""
    attribute = numeric(column)
    if attribute is not None:
        return number(attribute)
    if column in NAMED:
        return {"description": about(column), **one_of(NAMED[column])}
    if column in ROLES:
        return {"description": about(column), **one_of(called(ROLES[column], library))}
    return {"description": about(column), **TEXT}
