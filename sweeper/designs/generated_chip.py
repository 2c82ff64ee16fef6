"""One generated chip by itself: its parts with what they take of the budgets, and what they attain; data and text."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from sweeper.engine.evaluation import Evaluation, evaluate
from sweeper.engine.program import build_program
from sweeper.engine.space import Axis, Factor, Grid
from sweeper.errors import UsageFault
from sweeper.inputs.generated import equations_of, with_generated
from sweeper.inputs.numbers import Surroundings, by_name, constant, number_columns, switch_columns, switches
from sweeper.kernels.codes import REASONS
from sweeper.kernels.models import GENERATING
from sweeper.library.entries import Entry
from sweeper.library.library import Library
from sweeper.shown import engineering
from sweeper.study.box_checks import BALANCED_BY, UNREAD_IF_BALANCED, unbalanced
from sweeper.study.columns import Stock
from sweeper.study.optimize import PARTS_OF
from sweeper.study.settings import Settings, idle, read_pairs
from sweeper.views.text import aligned
from sweeper.words.chips import AREA_PARTS, EDGE_PARTS
from sweeper.words.system import OVERRIDES

ROLES_OF_CHIP = ("template", "technology", "stack", "lane", "outer_lane")
"""Roles from which a chip is generated."""
CHIP_SWITCHES = ("voltage_floor", "cache_network", "memory_devices", "generated_counts", "chip_split")
"""Switches that its equations read."""

SHARED_PORTS = "shared_ports"
BUDGETS = (
    "template_chip_area_mm2",
    "template_io_area_mm2",
    "template_other_area_share",
    "template_power_W",
    "template_package_area_mm2",
)
TOTALS = (
    "generated_used_mm2",
    "generated_spare_mm2",
    "generated_interface_mm2",
    "generated_draw_W",
    "generated_used_mm",
    "stacks_used_mm2",
    "chip_reason",
)

FACTS = (
    "generated_units", "generated_cores", "die_built_cores", "die_spare_cores", "core_voltage_V", "core_clock_Hz",
    "core_flops", "core_attainable_flops", "chip_given_peak_flops", "chip_vector_flops", "chip_peak_fp8_flops",
    "register_capacity_B", "register_bandwidth_Bps", "l1_capacity_B", "l1_bandwidth_Bps", "l2_capacity_B",
    "l2_bandwidth_Bps", "l2_latency_s", "memory_stacks", "memory_voltage_V", "memory_capacity_B",
    "memory_bandwidth_Bps", "lane_wires", "lane_voltage_V", "link_bandwidth_Bps", "outer_lane_wires",
    "outer_lane_voltage_V", "outer_link_bandwidth_Bps",
    "die_area_mm2", "die_bumps", "die_temperature_rise_K", "chip_idle_W", "chip_flop_J", "l2_energy_J_per_B",
)  # fmt: skip
"""Columns that a report shows, in its order."""


@dataclass(frozen=True)
class Part:
    """What a part of the chip takes of the budgets, in mm2, W and mm, and the shares of each that it was given: of
    area, a share of what parts share (of the dies of interfaces, for parts that lie there)."""

    name: str
    area_mm2: float
    area_share: float
    power_W: float
    power_share: float
    edge_mm: float = 0.0
    edge_share: float = 0.0


@dataclass(frozen=True)
class GeneratedChip:
    """A chip: what it is made of, its parts, its budgets, what it attains (column -> value, unit, meaning), and why it
    cannot be built, if so."""

    made_of: Mapping[str, str]
    parts: tuple[Part, ...]
    budgets: Mapping[str, float]
    facts: Mapping[str, tuple[float, str, str]]
    infeasible_reason: str


def chip_settings(texts: Iterable[str], library: Library) -> Settings:
    """Settings of a chip from texts `NAME=VALUE`: entries that fill its roles, their numbers, and switches.

    Raises UsageFault for what is no such setting.
    """
    numbers = [name for name in OVERRIDES if name.partition(".")[0] in ROLES_OF_CHIP]
    allowed = (*ROLES_OF_CHIP[1:], *CHIP_SWITCHES, *numbers)
    return read_pairs(texts, allowed, "a generated chip", "technology=public_n5", Stock(library))


def generate(template: str, settings: Settings, library: Library) -> GeneratedChip:
    """The chip of a template under some settings. Raises UsageFault for a template that the library lacks, for a
    technology of another ladder, for numbers of a role that nothing fills, and for what a balanced chip lacks."""
    entry = library.asked("template", template)
    columns = {"template": entry.name, "technology": "as_template", **settings}
    technology = library.find("technology", str(columns["technology"]))
    if not technology.belongs_to(entry):
        belongs = " or ".join(technology.fits["template"])
        raise UsageFault(f"technology: {technology.name} goes with templates of {belongs}, found {entry.name}")
    for name in columns:
        role, dot, _ = name.partition(".")
        if dot and role not in columns:
            raise UsageFault(f"nothing has {name} without a {role}: give --set {role}=NAME")
    _check_balanced(entry, columns)
    values = _evaluated(columns, library)
    outputs = {output.name: output for equation in GENERATING for output in equation.outputs}
    return GeneratedChip(
        {role: str(columns[role]) for role in ROLES_OF_CHIP if role in columns},
        tuple(_part(part, values, columns.get("chip_split") == "balanced") for part in _parts(columns)),
        {name: values[name] for name in (*BUDGETS, *TOTALS[:-1])},
        {
            name: (values[name], outputs[name].unit, outputs[name].about)
            for name in FACTS
            if 0.0 < values[name] < math.inf
        },
        REASONS[int(values["chip_reason"])],
    )


def idle_settings(template: str, settings: Settings, library: Library) -> list[str]:
    """Numbers and switches among the settings of a template without which the report is the same: nothing reads them,
    they do not bind, or are its own."""
    columns = {"template": library.asked("template", template).name, "technology": "as_template", **settings}
    return idle(columns, [name for name in settings if name not in ROLES_OF_CHIP], partial(_evaluated, library=library))


def _evaluated(columns: Settings, library: Library) -> dict[str, float]:
    """What a report shows of a chip."""
    axes = tuple(Axis(name, (name,), ((value,),), False) for name, value in columns.items())
    around = Surroundings(Grid(axes, len(axes), 0), library, {})
    inputs = with_generated(around, {**number_columns(around), **by_name(switch_columns(around))})
    if "stack" not in columns:  # a chip to which any memory may be attached
        inputs["memory_bandwidth_Bps"] = constant("memory_bandwidth_Bps", math.inf, "B/s", "not generated")
    wanted = [*FACTS, *BUDGETS, *TOTALS, *(column for part in _parts(columns) for column in _columns(part))]
    program = build_program(wanted, equations_of(around, ()), inputs, switches(around, {}), {}, {})
    found = evaluate(Evaluation(program, (Factor({}, 1),)), wanted)
    return {name: float(column[0]) for name, column in found.items()}


def _parts(columns: Settings) -> list[str]:
    """Parts of a chip whose roles are filled."""
    return [part for part in AREA_PARTS if PARTS_OF.get(part, "template") in columns]


def _check_balanced(entry: Entry, columns: Mapping[str, float | str]) -> None:
    """Raises UsageFault for a balanced chip that lacks something, and for shares that it does not read."""
    if columns.get("chip_split") != "balanced":
        return
    numbers = {name: entry.values[name].number for name in BALANCED_BY}
    numbers |= {name: float(columns[f"template.{name}"]) for name in BALANCED_BY if f"template.{name}" in columns}
    if lacking := unbalanced(numbers, columns.keys()):
        raise UsageFault(f"chip_split: balanced with template {entry.name!r} needs {lacking}")
    if columns.get("cache_network", SHARED_PORTS) != SHARED_PORTS:
        raise UsageFault(f"chip_split: balanced needs cache_network: {SHARED_PORTS}")
    if unread := sorted(f"template.{name}" for name in UNREAD_IF_BALANCED if f"template.{name}" in columns):
        raise UsageFault(f"nothing reads {', '.join(unread)} with chip_split: balanced")


def _part(name: str, values: Mapping[str, float], balanced: bool) -> Part:
    """A part with its shares. On a balanced chip main memory and wires get the power that they take, and the interface
    of main memory the area."""
    part = Part(name, *(values[column] for column in _columns(name)))
    if not balanced or name not in EDGE_PARTS:
        return part
    shared_mm2 = values["template_chip_area_mm2"] * (1.0 - values["template_other_area_share"])
    whole_mm2 = values["template_io_area_mm2"] or shared_mm2
    taken = part.area_mm2 / whole_mm2 if whole_mm2 > 0.0 else 0.0
    share = taken if name == "memory" else part.area_share
    return replace(part, area_share=share, power_share=part.power_W / values["template_power_W"])


def _columns(part: str) -> list[str]:
    """Columns of a part, in the order of the fields of `Part`; of the perimeter for what has wires."""
    edge = [f"{part}_used_mm", f"template_{part}_edge_share"] if part in EDGE_PARTS else []
    shares = f"template_{part}" if part in EDGE_PARTS else part
    return [f"{part}_used_mm2", f"{shares}_area_share", f"{part}_draw_W", f"{shares}_power_share", *edge]


def text(chip: GeneratedChip) -> str:
    """A chip as tables."""
    made = ", ".join(f"{role} {name}" for role, name in chip.made_of.items())
    area, io_area, other_share, power, package = (chip.budgets[name] for name in BUDGETS)
    edge, shared, other = 4.0 * math.sqrt(io_area or area), area * (1.0 - other_share), area * other_share
    used_mm2, spare_mm2, interface_mm2, draw_W, used_mm, stacks_mm2 = (chip.budgets[name] for name in TOTALS[:-1])
    amounts: list[tuple[str, tuple[float, ...]]] = []
    for p in chip.parts:
        area_mm2 = p.area_share * (io_area if io_area and p.name in EDGE_PARTS else shared)
        budget = (p.area_mm2, area_mm2, p.power_W, p.power_share * power, p.edge_mm, p.edge_share * edge)
        amounts.append((p.name, budget))
    amounts += [("idle cores", (spare_mm2, other))] if spare_mm2 else []
    amounts += [("other", (max(other - spare_mm2, 0.0), other))] if other else []
    amounts += [("chip", (used_mm2, area, draw_W, power, used_mm, edge))]
    amounts += [("interfaces", (interface_mm2, io_area))] if io_area else []
    amounts += [("package", ((io_area or area) + stacks_mm2, package))]
    heads = ("part", "area mm2", "of", "power W", "of", "edge mm", "of")
    rows = [(name, *(f"{value:.2f}" for value in row), *("",) * (6 - len(row))) for name, row in amounts]
    facts = [(f"  {name}", engineering(value, unit, 3), about) for name, (value, unit, about) in
             chip.facts.items()]  # fmt: skip
    verdict = f"cannot be built: {chip.infeasible_reason}" if chip.infeasible_reason else ""
    return "\n".join(filter(None, [made, aligned([heads, *rows], right=range(1, 7)), aligned(facts), verdict]))
