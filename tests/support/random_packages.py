"""Random packages: trees of dies with links between them, as tables of the kernel; and the same with a change.

Hypothesis draws the tree; the some hundred numbers of each die come from one seed that it draws, which is quicker.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random

import numpy as np
from hypothesis import strategies as st

from replications.tables import PackageTables, evaluate_tables, tables
from sweeper.kernels.packages.defects import YIELD_MODELS
from sweeper.kernels.packages.layout import RESULTS, STATUS
from sweeper.kernels.packages.wafer import COUNTING

Numbers = Mapping[str, float]


@dataclass(frozen=True)
class Die:
    """Codes, numbers and layers of a die, by the names of `sweeper.kernels.packages.layout`."""

    codes: Mapping[str, int]
    numbers: Numbers
    layers: tuple[Numbers, ...]

    @property
    def parent(self) -> int:
        return self.codes["parent"]

    def with_numbers(self, **numbers: float) -> "Die":
        return replace(self, numbers={**self.numbers, **numbers})

    def with_codes(self, **codes: int) -> "Die":
        return replace(self, codes={**self.codes, **codes})


@dataclass(frozen=True)
class Link:
    """A row of links between two rows of dies (-1: outside)."""

    source: int
    target: int
    numbers: Numbers


@dataclass(frozen=True)
class Design:
    """A package before it becomes tables."""

    dies: tuple[Die, ...]
    links: tuple[Link, ...] = ()
    conventions: frozenset[str] = frozenset()

    def tables(self) -> PackageTables:
        return tables(
            [(die.codes, die.numbers, die.layers) for die in self.dies],
            [(link.source, link.target, link.numbers) for link in self.links],
            self.conventions,
        )

    def with_die(self, row: int, **numbers: float) -> "Design":
        """The same with other numbers of one die."""
        dies = list(self.dies)
        dies[row] = dies[row].with_numbers(**numbers)
        return replace(self, dies=tuple(dies))

    def with_layer(self, row: int, number: int, **numbers: float) -> "Design":
        """The same with other numbers of one layer of a die."""
        layers = list(self.dies[row].layers)
        layers[number] = {**layers[number], **numbers}
        dies = list(self.dies)
        dies[row] = replace(dies[row], layers=tuple(layers))
        return replace(self, dies=tuple(dies))

    def everywhere(self, layers: Numbers | None = None, links: Numbers | None = None, **dies: float) -> "Design":
        """The same with other numbers of all dies, layers and links."""
        return replace(
            self,
            dies=tuple(
                replace(die.with_numbers(**dies), layers=tuple({**layer, **(layers or {})} for layer in die.layers))
                for die in self.dies
            ),
            links=tuple(replace(link, numbers={**link.numbers, **(links or {})}) for link in self.links),
        )

    def below(self, row: int) -> set[int]:
        """Rows of a die and of all that is mounted on it."""
        return {row}.union(*(self.below(k) for k, die in enumerate(self.dies) if die.parent == row))


def results_of(design: Design) -> "Results":
    return Results(evaluate_tables(design.tables()))


class Results:
    """Results of every die by name."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __getitem__(self, name: str) -> np.ndarray:
        return self.values[:, RESULTS.index(name)]  # type: ignore[no-any-return]

    def root(self, name: str) -> float:
        return float(self[name][0])

    @property
    def cost(self) -> float:
        """Price of one package that works."""
        return self.root("price_usd") / self.root("quality")

    @property
    def present(self) -> np.ndarray:
        """Rows of dies that are there."""
        return np.flatnonzero(self["copies"] > 0)

    @property
    def buildable(self) -> bool:
        """Whether every die can be made and is likely enough to work for digits to be left."""
        there = self.values[self.present][:, [name != "wiring_slack" for name in RESULTS]]
        return bool(
            np.isfinite(there).all()
            and self.root("status") in (0, *range(STATUS.index("shoreline_exceeded"), len(STATUS)))
            and all((self[name][self.present] > 1e-3).all() for name in ("true_yield", "assembled_true_yield"))
        )


# numbers

Number = Callable[[Random], float]
NAN = math.nan


def between(low: float, high: float) -> Number:
    return lambda random: random.uniform(low, high)


def one_of(*values: float | Number) -> Number:
    """Any of some values or kinds of numbers."""

    def draw(random: Random) -> float:
        value = random.choice(values)
        return value(random) if callable(value) else value

    return draw


def maybe(value: float, low: float, high: float) -> Number:
    """A special value, or a number of a range."""
    return one_of(value, between(low, high))


def given(low: float, high: float) -> Number:
    """Not given but one time in eight."""
    return one_of(*[NAN] * 7, between(low, high))


def whole(low: int, high: int) -> Number:
    return lambda random: float(random.randint(low, high))


FLAG = one_of(0.0, 1.0)
SELDOM = one_of(0.0, 0.0, 0.0, 1.0)
SHARE = one_of(0.0, 1.0, 1.0, between(0.0, 1.0))

LAYER: Mapping[str, Number] = {
    "price_usd_per_mm2": between(1e-4, 0.3),
    "yield_model": whole(0, len(YIELD_MODELS) - 1),
    "defect_density_per_mm2": maybe(0.0, 1e-6, 1e-3),
    "critical_area_ratio": between(0.1, 1.0),
    "clustering": maybe(math.inf, 0.5, 20.0),
    "critical_levels": whole(1, 10),
    "litho_share": maybe(0.0, 0.1, 0.4),
    "mask_set_usd": maybe(0.0, 1e3, 5e6),
    "stitching_yield": between(0.9, 1.0),
    "transistor_density_per_mm2": maybe(0.0, 1e6, 2e8),
    "active": FLAG,
    "design_price_usd_per_mm2": maybe(0.0, 1.0, 1e5),
    "chip_design_price_usd_per_mm2": maybe(0.0, 1.0, 1e4),
    "chip_fixed_price_usd": maybe(0.0, 1e3, 1e7),
    "carbon_kg_per_mm2": between(1e-3, 0.03),
    "fab_energy_J_per_mm2": between(1e3, 1e5),
    "wiring_layers": one_of(0.0),
    "wiring_pitch_mm": one_of(0.0),
    "cycle_time_s": between(1e6, 1e7),
}
WAFER: Mapping[str, Number] = {
    "wafer_diameter_mm": one_of(200.0, 300.0, 300.0, 450.0, 900.0),
    "wafer_panel_x_mm": one_of(0.0, 0.0, 0.0, 510.0, 600.0),
    "wafer_panel_y_mm": one_of(515.0, 600.0),
    "wafer_edge_exclusion_mm": maybe(0.0, 0.1, 5.0),
    "wafer_scribe_mm": maybe(0.0, 0.05, 0.2),
    "wafer_reticle_x_mm": one_of(26.0, 26.0, 200.0),
    "wafer_reticle_y_mm": one_of(33.0, 33.0, 16.5, 200.0),
    "wafer_process_yield": maybe(1.0, 0.8, 1.0),
    "wafer_dies_per_wafer": whole(0, len(COUNTING) - 1),
    **{f"wafer_{kind}_design_price_usd_per_mm2": maybe(0.0, 1.0, 1e5) for kind in ("memory", "logic", "analog")},
}
STEP: Mapping[str, Number] = {
    "machine_price_usd": between(1e5, 2e6),
    "machine_life_s": between(1e8, 3e8),
    "uptime": between(0.5, 1.0),
    "operator_price_usd_per_s": maybe(0.0, 1e-3, 0.01),
    "time_s": between(1.0, 60.0),
    "group": one_of(1.0, 4.0, 64.0),
}
ASSEMBLY: Mapping[str, Number] = {
    "assembly_material_price_usd_per_mm2": maybe(0.0, 1e-3, 0.1),
    "assembly_bump_price_usd_per_mm2": maybe(0.0, 1e-3, 0.01),
    **{f"assembly_{step}_{name}": number for step in ("pick", "bond") for name, number in STEP.items()},
    "assembly_separation_mm": maybe(0.0, 0.05, 1.0),
    "assembly_edge_mm": maybe(0.0, 0.05, 2.0),
    "assembly_area_factor": one_of(0.0, 0.0, 1.1, 4.0),
    "assembly_current_density_A_per_mm2": between(1e2, 1e4),
    "assembly_pitch_mm": between(0.005, 0.1),
    "assembly_alignment_yield": between(0.99, 1.0),
    "assembly_step_yield": maybe(1.0, 0.9, 1.0),
    "assembly_largest_carrier_mm2": one_of(0.0),
    "assembly_power_density_W_per_mm2": one_of(0.0),
    "assembly_bond_yield": between(1 - 1e-6, 1.0),
    "assembly_bond_defect_density_per_mm2": maybe(0.0, 1e-6, 1e-4),
    "assembly_tsv_area_mm2": maybe(0.0, 1e-5, 1e-3),
    "assembly_tsv_pitch_mm": between(0.005, 0.1),
    "assembly_tsv_yield": between(1 - 1e-6, 1.0),
    "assembly_chip_first": SELDOM,
    "assembly_whole_wafer": SELDOM,
    "assembly_package_price_usd": maybe(0.0, 1.0, 20.0),
    "assembly_design_price_usd_per_mm2": maybe(0.0, 1.0, 1e4),
    "assembly_fixed_price_usd": maybe(0.0, 1e3, 1e7),
    "assembly_carbon_kg_per_mm2": maybe(0.0, 1e-5, 1e-3),
    "assembly_cycle_time_s": maybe(0.0, 1e5, 1e7),
}
INSERTION: Mapping[str, Number] = {
    "coverage": SHARE,
    "patterns": one_of(NAN, whole(0, 1000)),
    "chain_per_mm2": one_of(NAN, between(1.0, 1e5)),
    "chains": whole(1, 4),
    "pads_per_chain": whole(0, 2),
    "pads": whole(0, 4),
    "tested": FLAG,
}
TEST: Mapping[str, Number] = {
    "test_cycle_s": between(1e-9, 1e-7),
    "test_samples": whole(1, 3),
    "test_price_usd_per_s": maybe(0.0, 0.001, 0.01),
    "test_self_time_s": maybe(0.0, 1.0, 60.0),
    "test_assembly_time_s": maybe(0.0, 1.0, 60.0),
    **{f"test_{place}_{name}": number for place in ("self", "assembly") for name, number in INSERTION.items()},
}
INTERFACE: Mapping[str, Number] = {
    "tx_area_mm2": between(1e-4, 0.5),
    "rx_area_mm2": between(1e-4, 0.5),
    "shoreline_mm": maybe(0.0, 1e-3, 0.1),
    "bandwidth_bps": between(1e9, 4e12),
    "wires": whole(1, 150),
    "bidirectional": FLAG,
    "energy_J_per_b": between(1e-13, 4e-12),
    "reach_mm": one_of(2.0, 5.0, 10.0, 25.0),
    "utilisation": between(0.0, 1.0),
}
OWN: Mapping[str, Number] = {
    "core_area_mm2": maybe(0.0, 1.0, 120.0),
    "aspect_ratio": maybe(1.0, 0.5, 2.0),
    "power_W": maybe(0.0, 0.1, 50.0),
    "voltage_V": between(0.5, 1.2),
    "given_area_mm2": given(1.0, 200.0),
    "given_price_usd": given(0.0, 200.0),
    "given_quality": given(0.8, 1.0),
    "given_power_W": given(0.0, 50.0),
    "memory_share": between(0.0, 0.3),
    "logic_share": between(0.0, 0.3),
    "analog_share": between(0.0, 0.3),
    "gate_flop_ratio": between(1.0, 4.0),
    "reticle_share": between(0.0, 1.0),
    "quantity": maybe(math.inf, 1e3, 1e7),
    "harvest_units": one_of(0.0, 0.0, 1.0, 4.0, 16.0),
    "harvest_unit_mm2": between(0.0, 5.0),
    "harvest_spares": whole(0, 3),
    "design_usd": maybe(0.0, 1e3, 1e8),
    "given_carbon_kg": given(0.0, 5.0),
    "finish_usd_per_mm2": maybe(0.0, 1e-3, 0.01),
    "given_placement_yield": given(0.9, 1.0),
    "given_lead_time_s": given(1e5, 1e8),
    "equal_parts": one_of(1.0, 1.0, 1.0, 84.0),
}


def drawn(numbers: Mapping[str, Number], random: Random) -> dict[str, float]:
    return {name: number(random) for name, number in numbers.items()}


# trees

SIDES = st.sampled_from([0, 0, 1])
COUNTS = st.sampled_from([1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 6.0, 0.0])


@st.composite
def links(draw: st.DrawFn, rows: int, random: Random) -> Link:
    """A row of links, of a number or for a rate."""
    end = st.integers(-1, rows - 1)
    source, target = draw(st.tuples(end, end).filter(lambda ends: max(ends) >= 0))
    numbers = {**drawn(INTERFACE, random), "count": float(draw(st.integers(0, 4))), "demand_bps": NAN}
    if draw(st.integers(0, 3)) == 3:
        numbers |= {"count": NAN, "demand_bps": numbers["bandwidth_bps"] * random.uniform(0.1, 5.0)}
    return Link(source, target, numbers)


@st.composite
def designs(
    draw: st.DrawFn, conventions: Iterable[str] = (), least: int = 1, most: int = 6, linked: bool = True
) -> Design:
    """A tree of `least` to `most` rows of dies, up to three levels deep; any of some conventions hold."""
    random = Random(draw(st.integers(0, 2**32 - 1)))
    parents, depths = [-1], [0]
    for row in range(1, draw(st.integers(least, most))):
        parents.append(draw(st.sampled_from([k for k in range(row) if depths[k] < 2])))
        depths.append(depths[parents[-1]] + 1)
    wafers, assemblies, tests, nodes = (
        [drawn(kind, random) for _ in range(2)] for kind in (WAFER, ASSEMBLY, TEST, LAYER)
    )
    dies = []
    for parent in parents:
        codes = {
            "parent": parent,
            "back": draw(SIDES),
            "face_up": draw(st.integers(0, 1)),
            "buried": draw(SIDES),
            "carrier": random.randrange(2),
        }
        numbers = {"count": 1.0 if parent < 0 else draw(COUNTS), **drawn(OWN, random)}
        for kind in (wafers, assemblies, tests):
            numbers |= random.choice(kind)
        dies.append(Die(codes, numbers, tuple(random.choices(nodes, k=random.randint(1, 2)))))
    found = [draw(links(len(dies), random)) for _ in range(draw(st.integers(0, 4)))] if linked else []
    allowed = sorted(conventions)
    chosen = [name for name in allowed if draw(st.booleans())]
    return Design(tuple(dies), tuple(found), frozenset(chosen))


def prices(names: Iterable[str]) -> tuple[str, ...]:
    """Columns that are prices."""
    return tuple(name for name in names if "usd" in name)
