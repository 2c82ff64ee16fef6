"""Tables that describe one package to the kernel: made of named numbers, and evaluated."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweeper.kernels.packages.build import build, desk_for
from sweeper.kernels.packages.layout import (
    CONVENTIONS,
    DIE_CODES,
    DIE_NUMBERS,
    LAYER_NUMBERS,
    LINK_CODES,
    LINK_NUMBERS,
    RESULTS,
    STEP_NUMBERS,
)


@dataclass(frozen=True)
class PackageTables:
    """One package; the columns are those of `sweeper.kernels.packages.layout`.

    Dies stand parents first, layers and steps in the order of the dies.
    """

    die_codes: np.ndarray
    """int64 [dies, DIE_CODES]"""
    die_numbers: np.ndarray
    """float64 [dies, DIE_NUMBERS]"""
    layer_numbers: np.ndarray
    """float64 [layers, LAYER_NUMBERS]"""
    step_numbers: np.ndarray
    """float64 [steps before the last, STEP_NUMBERS]"""
    link_codes: np.ndarray
    """int64 [links, LINK_CODES]"""
    link_numbers: np.ndarray
    """float64 [links, LINK_NUMBERS]"""
    conventions: np.ndarray
    """float64 [CONVENTIONS]"""

    @property
    def numbers(self) -> np.ndarray:
        """All numbers, one table after the other, as `build` reads them."""
        tables = (self.die_numbers, self.layer_numbers, self.step_numbers, self.link_numbers, self.conventions)
        return np.concatenate([table.ravel() for table in tables])


_ONE = frozenset(
    {
        "count",
        "aspect_ratio",
        "voltage_V",
        "quantity",
        "gate_flop_ratio",
        "reticle_share",
        "wafer_process_yield",
        "assembly_pick_machine_life_s",
        "assembly_pick_uptime",
        "assembly_pick_group",
        "assembly_bond_machine_life_s",
        "assembly_bond_uptime",
        "assembly_bond_group",
        "assembly_current_density_A_per_mm2",
        "assembly_pitch_mm",
        "assembly_tsv_pitch_mm",
        "assembly_alignment_yield",
        "assembly_bond_yield",
        "assembly_tsv_yield",
        "assembly_step_yield",
        "test_samples",
        "critical_area_ratio",
        "clustering",
        "critical_levels",
        "stitching_yield",
        "active",
        "equal_parts",
    }
)


def neutral(name: str) -> float:
    """What a number is where nothing is said of it: not given, a factor of 1, or none."""
    return math.nan if name.startswith("given_") else float(name in _ONE)


def numbers(names: Sequence[str], values: Mapping[str, float]) -> list[float]:
    """One row of a table with columns `names`. Raises KeyError for a value that has no column."""
    if not values.keys() <= set(names):
        raise KeyError(sorted(values.keys() - set(names)))
    return [float(values.get(name, neutral(name))) for name in names]


def table(rows: Iterable[Sequence[float]], columns: Sequence[str], kind: type) -> np.ndarray:
    """Rows as an array that has its columns even where there is no row."""
    return np.array(list(rows), dtype=kind).reshape(-1, len(columns))


def tables(
    dies: Sequence[tuple[Mapping[str, int], Mapping[str, float], Sequence[Mapping[str, float]]]],
    links: Sequence[tuple[int, int, Mapping[str, float]]],
    conventions: Iterable[str],
    steps: Mapping[int, Sequence[Mapping[str, float]]] | None = None,
) -> PackageTables:
    """Tables of a package: its dies (codes, numbers, layers), its links (source, target, numbers), conventions, and by
    die the numbers of its steps before the last. Raises KeyError for a code or number that has no column."""
    before = [(steps or {}).get(die, ()) for die in range(len(dies))]
    first = np.cumsum([0, *(len(layers) for _, _, layers in dies)])
    for codes, _, _ in dies:
        if not codes.keys() <= set(DIE_CODES):
            raise KeyError(sorted(codes.keys() - set(DIE_CODES)))
    first_step = np.cumsum([0, *map(len, before)])
    coded = [
        {"first_layer": int(start), "layers": len(layers), "first_step": int(step), "steps": len(taken), **codes}
        for start, step, taken, (codes, _, layers) in zip(first, first_step, before, dies, strict=False)
    ]
    chosen = set(conventions)
    return PackageTables(
        die_codes=table(([code.get(name, 0) for name in DIE_CODES] for code in coded), DIE_CODES, np.int64),
        die_numbers=table((numbers(DIE_NUMBERS, values) for _, values, _ in dies), DIE_NUMBERS, np.float64),
        layer_numbers=table(
            (numbers(LAYER_NUMBERS, layer) for _, _, layers in dies for layer in layers), LAYER_NUMBERS, np.float64
        ),
        step_numbers=table((numbers(STEP_NUMBERS, step) for each in before for step in each), STEP_NUMBERS, np.float64),
        link_codes=table(((source, target) for source, target, _ in links), LINK_CODES, np.int64),
        link_numbers=table((numbers(LINK_NUMBERS, values) for _, _, values in links), LINK_NUMBERS, np.float64),
        conventions=np.array([float(name in chosen) for name in CONVENTIONS]),
    )


def evaluate_tables(tables: PackageTables) -> np.ndarray:
    """Results [die, RESULTS] of one package."""
    results = np.zeros((len(tables.die_codes), len(RESULTS)))
    desk = desk_for(len(tables.die_codes), len(tables.link_codes), tables.numbers)
    build(tables.die_codes, tables.link_codes, desk, results)
    return results
