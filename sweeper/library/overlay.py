"""What an entry says laid over what the entry says that it extends: mappings key by key, dies and links row by row,
operators that come between those of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sweeper.errors import unknown
from sweeper.reading import checks
from sweeper.reading.nodes import Node, error

_MERGED = frozenset({"parameters", "partitions", "shards", "values", "definitions"})
"""Body keys whose mappings are merged with those of the extended entry; other keys replace it."""
_MERGED_ROWS = {"dies": ("name",), "links": ("from", "to")}
"""Body keys whose lists are merged row by row, and what tells their rows apart: an entry states what differs."""
_AREAS = ("core_area", "die_area", "area")
_DISPLACED = {
    "node": ("part",),
    "core_area": ("part", *_AREAS),
    "die_area": ("part", *_AREAS),
    "area": _AREAS,
    "part": (*_AREAS, "price", "quality", "carbon", "lead_time"),
    "power": ("total_power",),
    "total_power": ("power",),
}
"""Keys of a die of the extended entry whose place others take: what says how it is made takes that of the part that it
is, one area that of another one, a part that of the numbers of another bought die."""


def laid_over(below: Mapping[str, Node], key: str, above: Node) -> tuple[str, Node]:
    """The key of an entry that one changes which it gives beside the entry that it extends, and what that holds then.
    Raises SpecError for operators without a place."""
    if key == "more_operators":
        return "operators", _with_more(below.get("operators"), above)
    if key in _MERGED_ROWS:
        return key, _merged_rows(below.get(key), above, _MERGED_ROWS[key])
    return key, _merged(below.get(key), above) if key in _MERGED else above


def _with_more(below: Node | None, above: Node) -> Node:
    """The operators of an extended entry, and more of them, each `after` one of those. Raises SpecError where there is
    no such operator."""
    rows = list(below.value) if below is not None and isinstance(below.value, tuple) else []
    for row in checks.items(above, "more_operators"):
        written = dict(checks.mapping(row, "an operator"))
        if "after" not in written:
            raise error(row, "more operators of a table need the key 'after': the name of one of those that it has")
        name = checks.text(written.pop("after"), "after")
        names = [_named(each, ("name",)) for each in rows]
        if (name,) not in names:
            raise error(row, unknown("operator", name, [each[0] for each in names if each]))
        rows.insert(names.index((name,)) + 1, replace(row, value=written))
    return replace(above, value=tuple(rows))


def _merged(below: Node | None, above: Node) -> Node:
    """A mapping laid over another one of an extended entry; its position is that of the upper one."""
    if below is None or not (isinstance(below.value, dict) and isinstance(above.value, dict)):
        return above
    return Node({**below.value, **above.value}, above.file, above.line, above.column, above.path,
                marks={**below.marks, **above.marks})  # fmt: skip


def _merged_rows(below: Node | None, above: Node, keys: Sequence[str]) -> Node:
    """A list of mappings laid over that of an extended entry: a row that has the same `keys` as one below is laid over
    it, and further ones follow."""
    if below is None or not (isinstance(below.value, tuple) and isinstance(above.value, tuple)):
        return above

    rows = list(below.value)
    places = {_named(row, keys): place for place, row in enumerate(rows) if _named(row, keys)}
    if keys == ("name",):
        checks.distinct((row for row in above.value if _named(row, keys)), lambda row: _named(row, keys), _twice)
    for row in above.value:
        # A second row of links between the same ends is one more.
        place = places.pop(_named(row, keys), None)
        if place is None:
            rows.append(row)
        else:
            rows[place] = _merged(_without_displaced(rows[place], row), row)
    return replace(above, value=tuple(rows))


def _named(row: Node, keys: Sequence[str]) -> tuple[str, ...]:
    """What tells a row apart, as far as it says so."""
    there = row.value if isinstance(row.value, dict) else {}
    return tuple(there[key].text.strip() for key in keys if key in there)


def _twice(row: Node, first: Node) -> str:
    return f"the die {_named(row, ('name',))[0]} is given twice, first in line {first.line}: say all of it in one row"


def _without_displaced(below: Node, above: Node) -> Node:
    """A row without what the one laid over it takes the place of."""
    if not (isinstance(below.value, dict) and isinstance(above.value, dict)):
        return below
    # What a die states beside one part it states beside another one, too.
    stated = above.value.keys() - ({"part"} & below.value.keys())
    gone = frozenset(key for each in stated for key in _DISPLACED.get(each, ()))
    return replace(below, value={key: node for key, node in below.value.items() if key not in gone})
