"""What the registry of measurements says: which hardware an accelerator's name stands for, and which software ran."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any

import yaml

from sweeper.evidence.measured_rows import ColumnValue, MeasuredRow, Refusal, Unmodelled, number
from sweeper.library.library import Library, builtin_specs
from sweeper.study.default_calibration import DEFAULT, default_calibration


@cache
def registry() -> dict[str, Any]:
    """Platforms, stacks, layouts and sets, as the YAML file has them."""
    path = builtin_specs() / "measurements" / "measurements.yaml"
    known: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return known


@cache
def our_library() -> Library:
    """The library that measurements are scored with: ours."""
    return Library.load([builtin_specs()])


@cache
def plain(name: str) -> str:
    """A name as names are compared: without case, spaces, hyphens and underscores.

    >>> plain("A100-SXM4 80GB")
    'a100sxm480gb'
    """
    return re.sub(r"[\s_-]+", "", name).casefold()


@cache
def whole(word: str) -> re.Pattern[str]:
    """What finds a word, or several, with no letter or digit before or behind it."""
    before, behind = (r"(?<![a-z0-9])" if word[:1].isalnum() else ""), (r"(?![a-z0-9])" if word[-1:].isalnum() else "")
    return re.compile(before + re.escape(word.lower()) + behind)


@lru_cache(maxsize=1 << 16)
def occurs(word: str, text: str) -> bool:
    """Whether a word stands in a text as a whole, whatever its case.

    >>> occurs("pax", "Pax/JAX-Toolbox"), occurs("pax", "alpaxis")
    (True, False)
    """
    return whole(word).search(text.lower()) is not None


VENDORS = ("nvidiatesla", "nvidia", "tesla", "amdinstinct", "amd", "intel", "google")
"""Words that a name of an accelerator may begin with that the registry has without them."""


def platform_entry(known: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """What the registry says of an accelerator: by its name, else by its name without its vendor. Raises Unmodelled for
    a name that it does not know."""
    if name.lower().startswith("unknown"):
        raise Unmodelled("accelerator is not given", Refusal.INCOMPLETE)
    vendor = next((word for word in VENDORS if plain(name).startswith(word)), "")
    for wanted in (plain(name), plain(name).removeprefix(vendor)):
        for entry in known["platforms"]:
            if wanted in map(plain, entry["names"]):
                return dict(entry)
    names = {plain(each): each for entry in known["platforms"] for each in entry["names"]}
    near = get_close_matches(plain(name).removeprefix(vendor), names, n=1)
    hint = f", did you mean {names[near[0]]!r}?" if near else ""
    raise Unmodelled(f"unknown accelerator {name!r}{hint}", Refusal.ACCELERATOR)


def model(known: Mapping[str, Any], name: str) -> dict[str, ColumnValue]:
    """Columns of a model that a table's dimensions do not describe, by its whole name; none for other names, of which
    the dimensions count."""
    for entry in known["models"]:
        if plain(name) in map(plain, entry["names"]):
            return dict(entry["columns"])
    return {}


SIZES = {"hidden": "hidden", "n_layers": "layers", "n_heads": "heads"}
"""Columns of tables by which a model is told, and what the library calls them."""


def check_sizes(row: MeasuredRow, workload: str) -> None:
    """Raises Unmodelled for a row that gives a model of the library other sizes than it has."""
    values = our_library().find("workload", workload).values
    for name, ours in SIZES.items():
        if row.get(name) and ours in values and number(row, name) != values[ours].number:
            has = f"{name} is {row[name]}, of {workload} it is {values[ours].number:g}"
            raise Unmodelled(f"{has}: give a model of your own another name", Refusal.IMPOSSIBLE)


def says_nothing(cell: str) -> bool:
    """Whether a cell is blank, or says where to see it."""
    return not cell or "see " in cell


def stated_entries(known: Mapping[str, Any], row: MeasuredRow) -> list[Mapping[str, Any]]:
    """What sources state of a row outside of its table; first what counts most. Columns of the row begin with what an
    entry names, or with one of several."""
    return [
        entry
        for entry in known["stated"]
        if all(row.get(column, "").startswith(starts(start)) for column, start in entry["rows"].items())
    ]


def starts(words: str | list[str]) -> str | tuple[str, ...]:
    """What a cell may begin with."""
    return words if isinstance(words, str) else tuple(words)


def stated(known: Mapping[str, Any], row: MeasuredRow) -> MeasuredRow:
    """A row with what its source states elsewhere in cells that the table leaves blank, or that say where to see it.
    Raises Unmodelled for rows of which it states that something is not known."""
    found: dict[str, str] = {}
    for entry in stated_entries(known, row):
        if "refused" in entry:
            raise Unmodelled(entry["refused"], Refusal.INCOMPLETE)
        found = {name: str(value) for name, value in entry.get("cells", {}).items()} | found
    return {**row, **{name: value for name, value in found.items() if says_nothing(row.get(name, ""))}}


def stated_columns(known: Mapping[str, Any], row: MeasuredRow) -> dict[str, ColumnValue]:
    """Columns of ours, for which tables have none, that its source states of a row."""
    found: dict[str, ColumnValue] = {}
    for entry in stated_entries(known, row):
        found = {**entry.get("columns", {}), **found}
    return found


def platform(known: Mapping[str, Any], name: str) -> dict[str, ColumnValue]:
    """Columns of the hardware that an accelerator's name stands for."""
    return dict(platform_entry(known, name)["columns"])


def lent(known: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Which calibrations the registry lends to which chips, for which they were not fitted."""
    lines = (entry for layout in known["stacks"].values() for entry in layout)
    return frozenset(
        (entry["columns"].get("calibration"), chip) for entry in lines for chip in entry.get("lent_to", ())
    )


def suits(known: Mapping[str, Any], entry: Mapping[str, Any], hardware: Mapping[str, ColumnValue]) -> bool:
    """Whether a stack runs on some hardware as its line says: its constants are those of the chip, or lent to it, and
    links through a switch are those that the chip has."""
    columns, chip = entry["columns"], str(hardware["chip"])
    calibration = our_library().find("calibration", columns["calibration"])
    named = chip in (*entry.get("fitted_on", ()), *entry.get("lent_to", ()))
    joined = known["switched_links"].get(columns.get("link"), hardware["link"])
    return joined == hardware["link"] and (named or calibration.belongs_to(our_library().find("chip", chip)))


def stack(
    known: Mapping[str, Any],
    layout: str,
    row: MeasuredRow,
    keys: Iterable[str],
    hardware: Mapping[str, ColumnValue] | None = None,
) -> dict[str, ColumnValue]:
    """Columns of the software stack that ran a row: the first of the layout all of whose words occur in it and that
    suits the hardware, if that matters. Raises Unmodelled where there is none."""
    keys = tuple(keys)
    text = " | ".join(_names_in(known, row, key) for key in keys)
    for entry in known["stacks"][layout]:
        if all(occurs(word, text) for word in entry["words"]) and (hardware is None or suits(known, entry, hardware)):
            return dict(entry["columns"])
    said, where = " | ".join(row.get(key, "") for key in keys).lower(), f" on {hardware['chip']}" if hardware else ""
    raise Unmodelled(f"no calibration for {said!r}{where}", Refusal.WORD)


ACCELERATOR_KEYS = ("accelerator", "device", "system")
"""Columns of tables that name an accelerator."""


def _names_in(known: Mapping[str, Any], row: MeasuredRow, key: str) -> str:
    """A cell, and where it names an accelerator all other names of that, however it spells it."""
    cell = row.get(key, "")
    if key in ACCELERATOR_KEYS:
        with suppress(Unmodelled):
            return " | ".join([cell, *platform_entry(known, cell)["names"]])
    return cell


def without_stack(columns: Mapping[str, ColumnValue]) -> dict[str, ColumnValue]:
    """Columns of a run on software for which nothing is fitted: as a study would have them, with the default of the
    chip's generation."""
    if columns.get("calibration") != DEFAULT:
        return dict(columns)
    return {**columns, "calibration": default_calibration(our_library(), str(columns["chip"]))}


def split_columns(
    columns: dict[str, ColumnValue], tensor: float, pipe: float, data: float, context: float = 1.0, node: float = 8.0
) -> None:
    """A model split over as many chips as its parallel groups have, `node` of them in a node."""
    columns.update(tensor_parallel=tensor, pipeline_parallel=pipe, data_parallel=data, context_parallel=context)
    network_columns(columns, tensor * pipe * data * context, node)


def nearest(chips: float, domain: float) -> float:
    """Chips of each part of a system whose links within a part reach at most `domain` chips; parts are equal.

    >>> nearest(256.0, 72.0), nearest(8.0, 72.0)
    (64.0, 8.0)
    """
    return next(size for size in range(int(min(chips, domain)), 0, -1) if chips % size == 0) * 1.0


DIMENSIONS = ("dim_x", "dim_y", "dim_z")
"""Columns of the extents of a network, from the chips outwards."""


def network_columns(columns: dict[str, ColumnValue], chips: float, *levels: float) -> None:
    """Nodes of equal size in a cluster, or more levels of a network, each with as many of the last as it joins at most;
    a part of a node counts as a node."""
    left = chips
    for axis, joined in zip(DIMENSIONS, levels, strict=False):
        inside = min(left, joined)
        if left % inside:
            raise Unmodelled(f"{left:g} chips do not fill nodes of {inside:g}", Refusal.IMPOSSIBLE)
        columns[axis] = inside
        left /= inside
    columns.update({"chips": chips, DIMENSIONS[len(levels)]: left})
