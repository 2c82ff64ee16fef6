"""What a library entry means: definitions laid over those that they extend, every number with source and grade."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from typing import Any

from sweeper.errors import Problem, Problems, SpecError, brief, unknown
from sweeper.kernels.codes import DIMENSION_KINDS
from sweeper.kernels.draws import DISTRIBUTIONS
from sweeper.library.agreement import disagreements
from sweeper.library.overlay import laid_over
from sweeper.reading import checks
from sweeper.reading.expressions import is_symbol
from sweeper.reading.nodes import Node, error
from sweeper.reading.units import QuantityError, in_range, si
from sweeper.words.attributes import Attribute, free
from sweeper.words.models import MODEL
from sweeper.words.packages import CAUSES, PACKAGE
from sweeper.words.ranges import BY_UNIT, PARAMETER, SHARE
from sweeper.words.system import ATTRIBUTES, GRADES

SCALAR_KEYS = ("layers", "batch", "word", "steps", "stage_boundary", "tiles", "resident")
"""Expressions of a workload that `sweeper.library.graph_workload` reads, besides its kernels and partitions."""
TABLE_KEYS = ("family", "definitions", "operators", "more_operators")
"""Keys of a workload that `sweeper.library.table_workload` reads."""

COMMON_KEYS = ("extends", "takes", "aliases", "prefer", "description", "source", "grade", "tags", "fits")
FITTING = ("chip", "memory", "node", "template", "fabric")
"""Kinds of entries of which another may say which ones it belongs to."""
BODY_KEYS = {
    "topology": ("dimensions",),
    "workload": ("parameters", *SCALAR_KEYS, "kernels", "shards", "partitions", *TABLE_KEYS),
    "assumptions": ("values",),
    "calibration": ("efficiency_curves",),
    "node": ("yield_model",),
    "wafer": ("dies_per_wafer",),
    "part": ("node", "wafer", "assembly", "test"),
    "package": ("parameters", "definitions", "dies", "links", "conventions", "memory"),
    "unit_model": ("ranges", "hidden", "last"),
}
WITH_PARAMETERS = frozenset({"workload", "package"})
"""Kinds whose entries name their own numbers, under `parameters`."""

NUMBER_KEYS = ("value", "low", "high", "distribution", "cause", "path", "source", "grade")
_NUMBER_SHAPE = "{value: ..., source: ..., grade: ...}"
DEFAULT_SOURCE = "default of the vocabulary"
_UNREADABLE = "unreadable"
"""Stands for a source or grade whose mistake has been noted, so that every number does not repeat it."""

Cause = tuple[str, float]
"""What a number goes with, and the share of the draws in which it does."""
NO_CAUSE: Cause = ("", 0.0)
SHARED = Attribute("", "share of the draws in which a number goes with its cause", None, SHARE)
OWN = free("", "a parameter", limits=PARAMETER)
"""A number that a workload names for itself; it may have any unit."""


@dataclass(frozen=True)
class Value:
    """A number in its SI unit, where it comes from, and how far it may be off.

    `low` and `high` are the number itself unless given; `distribution` is one of those of `sweeper.kernels.draws`. It
    follows `cause`, if it has one, in a share `shared` of the draws. `path` has what it was and will be, by year, as
    far as is known; the number itself is one of these.
    """

    number: float
    unit: str
    source: str
    grade: str
    low: float = math.nan
    high: float = math.nan
    distribution: str = DISTRIBUTIONS[0]
    cause: str = ""
    shared: float = 0.0
    path: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        for bound in ("low", "high"):
            if math.isnan(getattr(self, bound)):
                object.__setattr__(self, bound, self.number)


@dataclass(frozen=True, eq=False)
class Entry:
    """A library entry, with what it extends already merged in.

    `values` holds its numbers: all attributes of the vocabulary for kinds that have some, and the parameters of a
    workload or package. `dimensions` are the kinds of a topology's dimensions. `body` holds the nodes of other keys.
    `fits` has, by kind, names or tags of the entries that it belongs to; of kinds that it does not name, to any.
    `prefer` names the entry to take by whoever does not mean just this one; "" if that is itself.
    """

    kind: str
    name: str
    aliases: tuple[str, ...]
    description: str
    tags: tuple[str, ...]
    values: Mapping[str, Value]
    dimensions: tuple[str, ...]
    body: Mapping[str, Node] = field(repr=False)
    node: Node = field(repr=False)
    fits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    prefer: str = ""

    def belongs_to(self, other: "Entry") -> bool:
        """Whether it says nothing against being used with another entry."""
        wanted = self.fits.get(other.kind)
        return wanted is None or not {other.name, *other.aliases, *other.tags}.isdisjoint(wanted)

    @property
    def origin(self) -> str:
        """File and line of the entry."""
        return f"{self.node.file}:{self.node.line}"

    def resolved(self) -> dict[str, Any]:
        """What the entry means, as plain data without files and positions."""
        return {
            "values": {name: list(astuple(value)) for name, value in self.values.items()},
            "dimensions": list(self.dimensions),
            "body": {key: node.plain() for key, node in self.body.items()},
        }


@dataclass(frozen=True, eq=False)
class Definition:
    """An entry as one file gives it: the node of its mapping, and the place of its name."""

    kind: str
    name: str
    layer: int
    node: Node
    place: tuple[int, int]
    problems: tuple[Problem, ...] = ()
    """Mistakes of the file that spoil this entry, but not its neighbours."""

    @property
    def written(self) -> dict[str, Node]:
        """Keys of the entry; one that is no mapping has problems and is not asked."""
        assert isinstance(self.node.value, dict)
        return self.node.value

    def problem(self, message: str) -> Problem:
        """A problem of the entry as a whole, at its name."""
        return Problem(self.node.file, *self.place, self.node.path, message)


@dataclass(frozen=True)
class _Number:
    """A number as written, the definition in which it stands, the source and grade that hold for it, and its range."""

    node: Node
    home: Definition
    source: str
    grade: str
    low: Node | None = None
    high: Node | None = None
    distribution: str = DISTRIBUTIONS[0]
    cause: Cause = NO_CAUSE
    path: Node | None = None


@dataclass
class _EntryDraft:
    """What the entry and those it extends give, from the last ancestor to the entry itself."""

    description: str = ""
    tags: tuple[str, ...] = ()
    fits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    grade: str = ""
    numbers: dict[str, _Number | None] = field(default_factory=dict)
    """Numbers by name; None for one that is given but cannot be read, or taken from another entry."""
    taken: dict[str, Value] = field(default_factory=dict)
    body: dict[str, Node] = field(default_factory=dict)


def resolve(chain: Sequence[Definition], find: Callable[[str, Node], Entry]) -> Entry:
    """The entry of `chain[0]`, which extends `chain[1]`, and so on; `find` gives others of which it takes numbers.
    Raises SpecError with all mistakes."""
    definition = chain[0]
    draft, problems = _EntryDraft(), Problems()
    for ancestor in reversed(chain):
        with problems.collecting():
            _take(draft, ancestor, find)
        _add(draft, ancestor, problems)
    values = _values(definition, draft, problems)
    problems.extend(disagreements(definition.kind, definition.written, values, draft.body))
    dimensions: tuple[str, ...] = ()
    if definition.kind == "topology":
        with problems.collecting():
            dimensions = _dimensions(definition, draft)
    own = checks.Fields(definition.written, problems)  # what is not inherited
    prefer = own.read("prefer", checks.text, "prefer", default="")
    problems.raise_any()
    aliases = own.read("aliases", checks.aliases, default=())
    return Entry(definition.kind, definition.name, aliases, draft.description, draft.tags, values, dimensions,
                 draft.body, definition.node, draft.fits, prefer)  # fmt: skip


def _take(draft: _EntryDraft, definition: Definition, find: Callable[[str, Node], Entry]) -> None:
    """Take the numbers that a definition names of other entries, with their sources."""
    takes = definition.written.get("takes")
    for name, node in checks.mapping(takes, "takes").items() if takes else ():
        other = find(name, node)
        given = [key for key, value in other.values.items() if value.source != DEFAULT_SOURCE]
        for key in checks.names(node, f"numbers of {name}"):
            if key not in given:
                raise error(node, unknown(f"number of {name}", key, given))
            draft.numbers[key], draft.taken[key] = None, other.values[key]


def _add(draft: _EntryDraft, definition: Definition, problems: Problems) -> None:
    """Lay one definition over those that it extends."""
    kind, written = definition.kind, checks.Fields(definition.written, problems)
    attributes = ATTRIBUTES.get(kind, {})
    problems.extend(
        checks.key_problems(definition.node, f"a {kind}", (*COMMON_KEYS, *attributes, *BODY_KEYS.get(kind, ())))
    )
    source = written.read("source", checks.text, "source", default=_UNREADABLE if "source" in written else "")
    grade = _UNREADABLE if "grade" in written else draft.grade
    draft.grade = written.read("grade", checks.choice, "grade", GRADES, default=grade)
    draft.description = written.read("description", checks.text, "description", default=draft.description)
    draft.tags = written.read("tags", checks.names, "tags", default=draft.tags)
    draft.fits = {**draft.fits, **written.read("fits", _fits, default={})}
    numbers = {key: written[key] for key in attributes if key in written}
    if kind in WITH_PARAMETERS:
        numbers = written.read("parameters", checks.named, "parameters", default=numbers)
    for key, node in numbers.items():
        below, draft.numbers[key] = draft.numbers.get(key), draft.numbers.get(key)
        draft.taken.pop(key, None)
        with problems.collecting():
            draft.numbers[key] = _number(node, _Number(node, definition, source, draft.grade), below)
    if "kernels" in written:
        # They are partitions and splits of the kernels that are replaced.
        draft.body.pop("partitions", None)
        draft.body.pop("shards", None)
    for key in BODY_KEYS.get(kind, ()):
        with problems.collecting():
            draft.body.update([laid_over(draft.body, key, written[key])] if key in written else [])


def _fits(node: Node) -> dict[str, tuple[str, ...]]:
    """Names or tags of the entries that an entry belongs to, by kind."""
    written = checks.fields(node, "fits", FITTING)
    fits = {kind: written.read(kind, checks.texts, f"{kind} that it fits", default=()) for kind in written}
    written.problems.raise_any()
    return fits


def _number(node: Node, bare: _Number, below: _Number | None) -> _Number:
    """Read `3 TB/s`, for which `bare` stands, or a mapping of NUMBER_KEYS; `below` is what the entry extends.

    An entry that replaces a value must say where the new one comes from and how far it may be off, so source and range
    of the old one are not inherited; one that gives only other keys keeps the value and what it does not give.
    """
    if not isinstance(node.value, dict):
        return bare
    written = checks.fields(node, "a number", NUMBER_KEYS)
    if "value" in written:
        below = replace(bare, node=written["value"])
    elif below is None:
        raise error(node, f"a number lacks the key 'value'; write {_NUMBER_SHAPE}")
    number = replace(
        below,
        source=written.read("source", checks.text, "source", default=below.source),
        grade=written.read("grade", checks.choice, "grade", GRADES, default=below.grade),
        low=written.get("low", below.low),
        high=written.get("high", below.high),
        distribution=written.read(
            "distribution", checks.choice, "distribution", DISTRIBUTIONS, default=below.distribution
        ),
        cause=written.read("cause", _cause, default=below.cause),
        path=written.get("path", below.path),
    )
    written.problems.raise_any()
    return number


def _values(definition: Definition, draft: _EntryDraft, problems: Problems) -> dict[str, Value]:
    """Numbers of an entry in SI, with the defaults of the vocabulary for those not given."""
    attributes = ATTRIBUTES.get(definition.kind, {})
    own = MODEL if "operators" in draft.body else {}
    numbers = {key: number for key, number in draft.numbers.items() if number is not None}
    values = dict(draft.taken)
    for key, number in numbers.items():
        with problems.collecting():
            if definition.kind == "workload":
                values[key] = _value(number, partial(_parameter, key, own.get(key, OWN)))
            elif definition.kind == "package" and key not in PACKAGE:
                values[key] = _value(number, partial(_package_parameter, key))
            else:
                values[key] = _value(number, partial(_quantity, (attributes or PACKAGE)[key]))
    problems.extend(_unsourced(numbers))
    for key, attribute in attributes.items():
        if key in draft.numbers:
            continue
        if attribute.default is None:
            unit = f", in {attribute.unit}" if attribute.unit else ""
            message = f"{definition.kind} {definition.name!r} lacks {key!r} ({attribute.about}{unit})"
            problems.append(definition.problem(message))
        else:
            values[key] = Value(attribute.default, attribute.unit, DEFAULT_SOURCE, "assumed")
    return values


def _value(written: _Number, quantity: Callable[[Node], tuple[float, str]]) -> Value:
    """A number in SI, with its unit and how far it may be off."""
    number, unit = quantity(written.node)
    low, high = (quantity(node) if node else (number, unit) for node in (written.low, written.high))
    if low[1] != unit or high[1] != unit:
        raise error(written.node, f"value, low and high have different units ({unit}, {low[1]}, {high[1]})")
    if not low[0] <= number <= high[0]:
        raise error(
            written.node, f"{written.node.kind} does not lie from low ({low[0]:g}) to high ({high[0]:g} {unit})"
        )
    if low[0] == high[0] and written.cause != NO_CAUSE:
        raise error(written.node, "a number without low or high is not drawn: leave out its cause")
    if written.distribution == "log_uniform" and low[0] <= 0:
        raise error(written.node, "a number that is log_uniform needs a low greater than 0")
    source, grade, (cause, shared) = written.source, written.grade, written.cause
    path = _path(written.path, number, quantity) if written.path else ()
    return Value(number, unit, source, grade, low[0], high[0], written.distribution, cause, shared, path)


def _path(node: Node, number: float, quantity: Callable[[Node], tuple[float, str]]) -> tuple[tuple[float, float], ...]:
    """What a number was in some years, by year: `{2020: 16988 usd, 2025: 18500 usd}`. The number is one of them."""
    years = {checks.year(name, node): quantity(item)[0] for name, item in checks.mapping(node, "a path").items()}
    if number not in years.values():
        raise error(node, f"no year of the path has the value itself, {number:g}; say of which year it is")
    if len(years) < 2:
        raise error(node, "a path needs two years at least")
    return tuple(sorted(years.items()))


def _cause(node: Node) -> Cause:
    """What a number goes with, and in which share of the draws: `{foundry_price: 0.8}`."""
    causes = checks.named(node, "causes")
    if len(causes) != 1:
        raise error(node, f"found {len(causes)} causes; a number has one, e.g. {{foundry_price: 0.8}}")
    ((name, share),) = causes.items()
    if name not in CAUSES:
        raise error(node, unknown("cause", name, CAUSES))
    return name, checks.number(share, SHARED)


def _quantity(attribute: Attribute, node: Node) -> tuple[float, str]:
    """A number of the vocabulary, in SI and with its unit."""
    return checks.number(node, attribute), attribute.unit


def _parameter(name: str, attribute: Attribute, node: Node) -> tuple[float, str]:
    """A number that a workload names, in SI and with its unit, which may be any."""
    if not is_symbol(name):
        raise error(node, f"{brief(name)} cannot name a parameter; use letters, digits and underscores")
    try:
        written = checks.scalar(node, "a number")
        number, unit = si(written)
        return in_range(number, attribute, written), unit
    except QuantityError as fault:
        raise error(node, str(fault)) from None


def _package_parameter(name: str, node: Node) -> tuple[float, str]:
    """A number that a package names, in the units of packages: geometry is in mm."""
    number, unit = _parameter(name, OWN, node)
    for other in (each for each in BY_UNIT if "mm" in each):
        factor, dimension = si(f"1 {other}")
        if dimension == unit:
            return number / factor, other
    return number, unit


def _unsourced(numbers: Mapping[str, _Number]) -> Problems:
    """One problem for every definition that gives numbers without a source, or without a grade."""
    lacking: dict[tuple[Definition, str], list[str]] = {}
    for key, number in numbers.items():
        for word, has in (("source", number.source), ("grade", number.grade)):
            if not has:
                lacking.setdefault((number.home, word), []).append(key)
    return Problems(
        home.problem(f"{', '.join(keys)} without a {word}; give one to {home.name!r}, or to each number, as "
                     f"{_NUMBER_SHAPE}")
        for (home, word), keys in lacking.items()
    )  # fmt: skip


def _dimensions(definition: Definition, draft: _EntryDraft) -> tuple[str, ...]:
    """Kinds of a topology's dimensions."""
    node = draft.body.get("dimensions")
    allowed = DIMENSION_KINDS[1:]
    if node is None:
        message = f"a topology lacks 'dimensions', a list of 1 to 3 of {', '.join(allowed)}"
        raise SpecError([definition.problem(message)])
    kinds = checks.items(node, "dimensions")
    if len(kinds) > 3:
        raise error(node, f"found {len(kinds)} dimensions; a topology has 1 to 3")
    return tuple(checks.choice(item, "kind of dimension", allowed) for item in kinds)
