"""How the engine calls what a study names, and what a column is where the study does not say.

A study writes `memory.bandwidth` for a number of the selected entry, `tensor_parallel` for a number of its own and
`overlap` for a choice; the engine calls them `memory_bandwidth_Bps`, `tensor_parallel` and `overlap`.
"""

import math

from sweeper.words.attributes import Attribute, free
from sweeper.words.defaults import NAMED, NAMED_DEFAULTS
from sweeper.words.numbers import NUMBERS
from sweeper.words.ranges import PARAMETER
from sweeper.words.system import ATTRIBUTES, ENTRY_DEFAULTS, NUMERIC, ROLES

USUAL_PARTITIONING = "kernel_by_kernel"
"""How a graph is cut where a study does not say."""


WORKLOAD_PARAMETER = "workload."
"""How columns begin that replace a parameter of the workload: any that it has, known to the vocabulary or not."""


def numeric(name: str) -> Attribute | None:
    """The number that a column stands for; None if its values are names.

    >>> numeric("workload.global_batch").column, numeric("workload")
    ('global_batch', None)
    """
    parameter = name.removeprefix(WORKLOAD_PARAMETER)
    if name in NUMERIC or parameter == name or not parameter.isidentifier():
        return NUMERIC.get(name)
    return free("", f"parameter {parameter} of the workload", None, column=parameter, limits=PARAMETER)


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
    role, _, dotted = name.partition(".")
    return attribute_column(role, attribute) if dotted else attribute.column


def number_default(attribute: Attribute) -> float:
    """What an attribute is where nothing says: NaN where it must be given."""
    return math.nan if attribute.default is None else attribute.default


def default(name: str) -> float | str:
    """Value of a column that a study does not mention: NaN for a number, "" for a name that nothing stands in for."""
    attribute = numeric(name)
    if attribute is not None:
        return math.nan if "." in name else number_default(attribute)
    return {**NAMED_DEFAULTS, **ENTRY_DEFAULTS, "partitioning": USUAL_PARTITIONING}.get(name, "")


DEFAULTS = {name: default(name) for name in (*NAMED, *NUMBERS) if name in NAMED or NUMBERS[name].default is not None}
"""What holds of the columns of mappings and choices where a study is silent; those that it must give are left out."""
