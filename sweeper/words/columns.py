"""How the engine calls what a study names, and what a column is where the study does not say.

A study writes `memory.bandwidth` for a number of the selected entry, `tensor_parallel` for a number of its own and
`overlap` for a choice; the engine calls them `memory_bandwidth_Bps`, `tensor_parallel` and `overlap`.
"""

import math
import re
from dataclasses import replace
from functools import lru_cache

from sweeper.kernels.codes import NAMED_FORMATS
from sweeper.plugins import assert_free, label
from sweeper.words.attributes import Attribute, free
from sweeper.words.defaults import NAMED, NAMED_DEFAULTS
from sweeper.words.numbers import ADDED, NUMBERS, OURS
from sweeper.words.ranges import PARAMETER
from sweeper.words.system import ATTRIBUTES, ENTRY_DEFAULTS, NUMERIC, OVERRIDES, ROLES

USUAL_PARTITIONING = "kernel_by_kernel"
"""How a graph is cut where a study does not say."""


NAMING_ROLES = ("workload", "package")
"""Roles whose entries name numbers of their own: a study replaces any that one has, known to the vocabulary or not."""

TAKEN_AS_THEY_ARE = frozenset({("node", "price_diameter")})
"""Numbers that no path replaces: the price of a wafer says the same."""

_NO_LETTER = re.compile(r"\W")
"""What names of entries may have and those of columns not: written as its code, so that no two columns are alike."""

PATH_KINDS = ("node", "wafer", "assembly", "test", "interface", "part")
"""Kinds of entries of which packages are made: a study replaces any number of any of them by its path."""


def numeric(name: str) -> Attribute | None:
    """The number that a column stands for; None if its values are names.

    >>> numeric("workload.global_batch").column, numeric("workload")
    ('global_batch', None)
    >>> numeric("assembly/cowos_l/alignment_yield").column
    'assembly_cowos_l_alignment_yield'
    """
    if "/" in name:
        return number_at(name)
    role, _, parameter = name.partition(".")
    if name in NUMERIC or role not in NAMING_ROLES or not parameter.isidentifier():
        return NUMERIC.get(name)
    return free("", f"parameter {parameter} of the {role}", None, column=parameter, limits=PARAMETER)


def number_at(path: str) -> Attribute | None:
    """The number of a library entry at a path `kind/entry/number`; None if no kind has such a number."""
    kind, _, rest = path.partition("/")
    entry, _, name = rest.rpartition("/")
    attribute = ATTRIBUTES[kind].get(name) if kind in PATH_KINDS else None
    if attribute is None or not entry or (kind, name) in TAKEN_AS_THEY_ARE:
        return None
    column = f"{kind}_{_NO_LETTER.sub(lambda found: f'_{ord(found[0]):x}_', entry)}_{attribute.column}"
    return replace(attribute, about=f"{attribute.about} ({kind} {entry})", default=None, column=column)


def attribute_column(role: str, attribute: Attribute) -> str:
    """The engine's column for an attribute of the entry that fills a role."""
    return f"{role}_{attribute.column}"


def role_columns(role: str) -> dict[str, Attribute]:
    """The engine's columns for all attributes of a role, in the order of the vocabulary."""
    return {attribute_column(role, a): a for a in ATTRIBUTES.get(ROLES[role], {}).values()}


def format_column(tensor: str) -> str:
    """The engine's column for the bytes of an entry of a tensor, which its number format decides."""
    return f"{tensor}_B"


def engine_column(name: str) -> str:
    """The engine's column, also the dataset's, for a column that a study may name.

    >>> engine_column("memory.bandwidth"), engine_column("draft_time"), engine_column("overlap")
    ('memory_bandwidth_Bps', 'draft_time_s', 'overlap')
    """
    attribute = numeric(name)
    if attribute is None:
        return name
    if "/" in name:
        return attribute.column
    role, _, dotted = name.partition(".")
    return attribute_column(role, attribute) if dotted else attribute.column


def input_column(name: str) -> str:
    """The engine's input that gives a number which a study may name: its column, but for numbers of packages, which may
    be called as equations call what they find of them.

    >>> input_column("memory.bandwidth"), input_column("package.dies")
    ('memory_bandwidth_Bps', 'package.dies')
    """
    return name if name.startswith("package.") else engine_column(name)


def number_default(attribute: Attribute) -> float:
    """What an attribute is where nothing says: NaN where it must be given."""
    return math.nan if attribute.default is None else attribute.default


@lru_cache(maxsize=1 << 12)
def default(name: str) -> float | str:
    """Value of a column that a study does not mention: NaN for a number, "" for a name that nothing stands in for."""
    attribute = numeric(name)
    if attribute is not None:
        return math.nan if "." in name or "/" in name else number_default(attribute)
    return {**NAMED_DEFAULTS, **ENTRY_DEFAULTS, "partitioning": USUAL_PARTITIONING}.get(name, "")


DEFAULTS = {name: default(name) for name in (*NAMED, *NUMBERS) if name in NAMED or NUMBERS[name].default is not None}
"""What holds of the columns of mappings and choices where a study is silent; those that it must give are left out."""


KEYS = frozenset({"point_id", "feasible"})
"""Columns that a dataset has besides those of its study."""


def _given() -> frozenset[str]:
    """Names that a study gives, or the engine for it, or a dataset.

    Raises EnvironmentFault for a number of a plug-in that has such a name.
    """
    names = {*KEYS, *NAMED, *ROLES, "partitioning", *OURS, *map(engine_column, (*OURS, *OVERRIDES))}
    names.update(map(format_column, NAMED_FORMATS))
    for plugin, numbers in ADDED.items():
        words = {*numbers, *(number.column for number in numbers.values())}
        assert_free(label("numbers", plugin), sorted(words), names, "a study gives")
        names |= words
    return frozenset(names)


GIVEN = _given()
"""Names that no equation may write, since what a study gives comes first."""
