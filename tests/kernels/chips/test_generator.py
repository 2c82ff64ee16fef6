"""Generated chips: DeepFlow's own numbers under its rules of 2021, and what must hold of every chip under ours."""

import csv
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import assume, given
from hypothesis import strategies as st

from sweeper.cli import main
from sweeper.engine.program import choose, required
from sweeper.kernels.chips import voltage
from sweeper.kernels.chips.budgets import Budgets, Shares, counted
from sweeper.kernels.chips.feeding import Array, fed_flops
from sweeper.kernels.chips.lanes import Circuits, Lane, generated_lanes
from sweeper.kernels.chips.levels import Crossbars, Level, Sram, generated_level, generated_levels
from sweeper.kernels.chips.wires import Wire
from sweeper.kernels.codes import REASONS, SWITCHES
from sweeper.kernels.models import GENERATING
from sweeper.library.library import Library, builtin_specs
from sweeper.planning.plan import Plan
from sweeper.study.study import load_study
from sweeper.words.chips import AREA_PARTS, EDGE_PARTS, LEVELS
from sweeper.words.system import ATTRIBUTES, ROLES
from tests.places import DATA
from tests.support.examples import compared, examples
from tests.twins import naive_generator as naive
from tests.twins.naive import call

MANY = examples(100)
LIBRARY = Library.load([builtin_specs()])
GIB = 2.0**30
Columns = dict[str, Any]

SWITCHED = ("voltage_floor", "cache_network", "memory_devices", "generated_counts")
RULES_OF_2021 = {"voltage_floor": "throttled", "cache_network": "port_per_core", "memory_devices": "area_limited"}
V100 = ("deepflow_v100", "deepflow_n14", "deepflow_hbm2_4gb", "deepflow_inter")
P4 = ("deepflow_p4", "deepflow_n14", "deepflow_gddr5", "deepflow_inter")
NODES = ("14", "10", "7", "5", "3", "2", "1")
STACKS = {
    "HBM1": "deepflow_hbm2_4gb",
    "HBM2": "deepflow_hbm2",
    "HBM2e-8": "deepflow_hbm2e_8",
    "HBM2e-12": "deepflow_hbm2e_12",
    "HBM2e-16": "deepflow_hbm2e_16",
}
"""Names of the program's stacks in the library."""
MADE = (
    "generated_units", "generated_cores", "core_voltage_V", "core_clock_Hz", "core_flops", "core_draw_W",
    *(f"{level}_{what}" for level in LEVELS for what in ("capacity_B", "bandwidth_Bps")), "memory_stacks",
    "memory_capacity_B", "memory_voltage_V", "memory_bandwidth_Bps", "outer_lane_wires", "outer_lane_voltage_V",
    "outer_link_bandwidth_Bps", "generated_used_mm2", "generated_draw_W", "generated_used_mm", "chip_reason",
    "chip_given_peak_flops", "chip_peak_flops", "attainable_bandwidth_Bps",
)  # fmt: skip
"""Columns of the studies below."""


# chips from entries of the library, equation by equation


@cache
def entry(role: str, name: str) -> Columns:
    """Columns that an entry gives in a role."""
    values = LIBRARY.find(ROLES[role], name).values
    numbers = {
        attribute.column: values[key].number if key in values else attribute.default
        for key, attribute in ATTRIBUTES[ROLES[role]].items()
    }
    return {f"{role}_{column}": number for column, number in numbers.items()}


def design(template: str, technology: str, stack: str, outer_lane: str, lane: str = "deepflow_intra") -> Columns:
    """Columns of the entries, under the default switches."""
    names = {"template": template, "technology": technology, "stack": stack, "lane": lane, "outer_lane": outer_lane}
    found: Columns = dict.fromkeys((*SWITCHED, "chip_split"), 0.0)
    for role, name in names.items():
        found |= entry(role, name)
    return found


def switched(columns: Columns, **choices: str) -> Columns:
    """The design under other switches."""
    return {**columns, **{switch: float(SWITCHES[switch].index(choice)) for switch, choice in choices.items()}}


def generate(columns: Columns) -> Columns:
    """The design with all that is generated from it, of a system of one chip."""
    found = {"dim_x": 1.0, "dim_y": 1.0, "dim_z": 1.0, **columns}
    made = [output.name for equation in GENERATING for output in equation.outputs]
    split = SWITCHES["chip_split"][int(columns["chip_split"])]
    for equation in required(made, choose({"chip_split": split}, GENERATING), found):
        found |= call(equation, found)
    return found


# the published numbers, through the engine


def evaluate(directory: Path, rows: list[list[Any]], columns: list[str], **more: Any) -> pl.DataFrame:
    """A study of chips, one for each row of a table of columns; `workload` decides nothing here."""
    axes = {
        "workload": "fft_1t",
        "chips": 1,
        "dim_x": 1,
        "topology": "ring",
        "link": "nvlink2",
        "made": {"columns": columns, "rows": rows},
        **more,
    }
    study = {"study": "generated", "axes": axes, "output": {"columns": [*MADE]}}
    path = directory / "generated.yaml"
    path.write_text(json.dumps(study))
    plan = Plan(load_study(path))
    return pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)])


def published(study: str) -> list[dict[str, str]]:
    """Hardware that the program printed in one of its case studies."""
    path = DATA / "deepflow_ladder.csv"
    with path.open() as file:
        return [row for row in csv.DictReader(file) if row["study"] == study]


Chips = dict[tuple[str, str], Columns]


@pytest.fixture(scope="module")
def library_chips(tmp_path_factory: pytest.TempPathFactory) -> Chips:
    """V100, P4, seven nodes and five memories by the rules of 2021, by their technology and memory."""
    nodes = [[V100[0], f"deepflow_n{node}", *V100[2:]] for node in NODES]
    memories = [[*V100[:2], stack, V100[3]] for stack in STACKS.values()]
    rows = [[*P4], *nodes, *(row for row in memories if row not in nodes)]
    columns = ["template", "technology", "stack", "outer_lane"]
    found = evaluate(tmp_path_factory.mktemp("library"), rows, columns, **RULES_OF_2021)
    return {(chip["technology"], chip["stack"]): chip for chip in found.to_dicts()}


def test_v100(library_chips: Chips) -> None:
    """Every output that is published, to 0.1 % or the digits printed."""
    v100 = library_chips[V100[1:3]]
    exact = {"generated_units": 643, "generated_cores": 80, "memory_stacks": 4, "outer_lane_wires": 1141}
    exact |= {"l1_capacity_B": 10 * 2**20, "l2_capacity_B": 6 * 2**20, "memory_capacity_B": 16 * 2**30}
    assert {name: v100[name] for name in exact} == exact
    published = {
        "core_voltage_V": (0.8679, 5e-5),
        "core_clock_Hz": (1.519e9, 5e5),
        "core_flops": (125.02e12, 5e9),
        "core_draw_W": (112.35, 5e-3),
        "register_capacity_B": (20.03 * 2**20, 0.005 * 2**20),
        "register_bandwidth_Bps": (103.0e12, 0.05e12),
        "l1_bandwidth_Bps": (30.0e12, 0.05e12),
        "l2_bandwidth_Bps": (0.45 * 2.307e12, 0.45 * 0.5e9),
        "memory_bandwidth_Bps": (992.9e9, 0.05e9),
        "outer_link_bandwidth_Bps": (48.1 * GIB, 0.05 * GIB),
        "outer_lane_voltage_V": (0.85, 5e-3),
    }
    for name, (value, digits) in published.items():
        assert v100[name] == pytest.approx(value, abs=digits, rel=0), name
        assert v100[name] == pytest.approx(value, rel=2e-3 if name.endswith("link_bandwidth_Bps") else 1e-3), name
    utilisation = LIBRARY.find("template", "deepflow_v100").values["utilisation"].number
    assert utilisation * v100["core_flops"] == pytest.approx(106.3e12, abs=0.05e12)


def test_p4(library_chips: Chips) -> None:
    p4 = library_chips[P4[1:3]]
    assert (p4["l2_capacity_B"], p4["memory_capacity_B"]) == (2 * 2**20, 8 * 2**30)
    assert p4["core_flops"] == pytest.approx(5.36e12, abs=0.005e12)
    assert p4["l2_bandwidth_Bps"] == pytest.approx(0.45 * 1.08e12, abs=0.45 * 0.005e12)
    assert p4["memory_bandwidth_Bps"] == pytest.approx(190.4e9, abs=0.05e9)
    assert p4["outer_link_bandwidth_Bps"] == 0  # its links get no power


def test_v100_and_p4_to_all_digits(library_chips: Chips) -> None:
    """The rules of 2021 written down again give what no publication prints too."""
    for names in (V100, P4):
        columns, found = design(*names), library_chips[names[1:3]]
        if names is P4:
            columns["template_outer_lane_power_share"] = 1e-9  # the rules divide by it
        for name, value in naive.program_of_2021(columns).items():
            if names is V100 or "outer" not in name:
                assert found[name] == pytest.approx(value, rel=1e-9), name


LADDER = {
    "peak_tflops": ("core_flops", 1e12, 1e-7),
    "core_V": ("core_voltage_V", 1.0, 0.01),
    "core_f_GHz": ("core_clock_Hz", 1e9, 0.01),
    "mcu": ("generated_units", 1.0, 0.0),
    "bundles": ("generated_cores", 1.0, 0.0),
    "l3_size": ("memory_capacity_B", GIB, 0.0),
    "l3_bw": ("memory_bandwidth_Bps", GIB, 0.01),
    "l2_size": ("l2_capacity_B", GIB, 5e-6),
    "l2_bw": ("l2_bandwidth_Bps", 0.45 * GIB, 0.01),
    "l1_bw": ("l1_bandwidth_Bps", GIB, 0.01),
    "l0_size": ("register_capacity_B", GIB, 5e-6),
    "l0_bw": ("register_bandwidth_Bps", GIB, 0.01),
    "inter_bw": ("outer_link_bandwidth_Bps", GIB, 0.01),
}
"""Columns of the case studies: ours, what it is divided by, and the relative tolerance. Bandwidths of caches are
printed before their utilisation and to a tenth of a TiB/s. Capacities of L1 are left out: the case studies gave theirs
a crossbar and smaller cells, which the configuration of the V100 does not have. Their registers leak some fifty times
as much as those of the V100's configuration, which at N1 takes 0.9 % of their bandwidth."""


@pytest.mark.parametrize("number", range(len(NODES)), ids=NODES)
def test_node_ladder(library_chips: Chips, number: int) -> None:
    """Seven nodes, every number within 1 %, the peak to all seven digits, counts exactly."""
    row, found = published("v100-energy_per_flop")[number], library_chips[f"deepflow_n{NODES[number]}", V100[2]]
    assert row["node"] == NODES[number]
    for column, (name, scale, tolerance) in LADDER.items():
        assert found[name] / scale == pytest.approx(float(row[column]), rel=tolerance, abs=0), column


def test_memory_ladder(library_chips: Chips) -> None:
    """Five stacks; bandwidths are printed to a tenth of a TiB/s once they reach one."""
    rows = published("energy_per_membit")
    assert [row["node"] for row in rows] == [*STACKS]
    for row in rows:
        found = library_chips[V100[1], STACKS[row["node"]]]
        step = 0.1 if float(row["l3_bw"]) < 1024 else 102.4
        assert found["memory_capacity_B"] == float(row["l3_size"]) * GIB
        assert found["memory_bandwidth_Bps"] / GIB == pytest.approx(float(row["l3_bw"]), abs=step / 2)


SHARES = tuple(f"template.{part}_area_share" for part in ("core", *LEVELS, "memory"))
SILICON_FABRIC = 0.7362
"""Area that the study with a silicon fabric leaves to the other parts. Not published; of all numbers with four digits
the only one with which all 21 counts of units and banks come out."""


@pytest.fixture(scope="module")
def changed_chips(tmp_path_factory: pytest.TempPathFactory) -> list[Columns]:
    """19 networks, and seven nodes that give area to a silicon fabric: numbers of entries replaced by a study."""
    shares = [entry("template", V100[0])[f"{name.replace('.', '_')}"] for name in SHARES]
    networks = [
        ["deepflow_n14", f"{0.045 * 0.75**step!r} mm^2", f"{13 * 0.5**step!r} pJ/b", *shares] for step in range(19)
    ]
    fabric = [[f"deepflow_n{node}", "0.045 mm^2", "13 pJ/b", *(SILICON_FABRIC * s for s in shares)] for node in NODES]
    columns = ["technology", "outer_lane.area", "outer_lane.energy", *SHARES]
    named = {"template": V100[0], "stack": V100[2], "outer_lane": V100[3]}
    directory = tmp_path_factory.mktemp("changed")
    return evaluate(directory, networks + fabric, columns, **named, **RULES_OF_2021).to_dicts()


def test_network_ladder(changed_chips: list[Columns]) -> None:
    """19 steps of area x 0.75 and energy x 0.5, from throttled wires to some at 13 V, to the tenth that is printed."""
    rows = published("energy_per_xbit")
    assert [int(row["node"]) for row in rows] == [*range(1, 20)]
    for row, found in zip(rows, changed_chips):
        assert found["outer_link_bandwidth_Bps"] / GIB == pytest.approx(float(row["inter_bw"]), abs=0.0501)


def test_node_ladder_beside_a_silicon_fabric(changed_chips: list[Columns]) -> None:
    """Higher voltages, and controllers that limit the stacks until they have shrunk: 2, 3, 3, then 4."""
    rows = published("siif-energy_per_flop")
    for row, found in zip(rows, changed_chips[19:], strict=True):
        for column in LADDER.keys() - {"inter_bw"}:
            name, scale, tolerance = LADDER[column]
            assert found[name] / scale == pytest.approx(float(row[column]), rel=tolerance, abs=0), (row["node"], column)


# the functions below the equations


VOLTS = st.tuples(st.floats(0.4, 1.5), st.floats(0.05, 0.7), st.floats(0.05, 1.0), st.floats(1.0, 2.0), st.booleans())


def volts(drawn: tuple[float, float, float, float, bool]) -> tuple[float, float, float, float]:
    """Nominal voltage, threshold, margin, maximum."""
    nominal, threshold, margin, above, limited = drawn
    low = threshold * nominal
    return nominal, low, margin * nominal, (low + margin * nominal) * above if limited else 0.0


@MANY
@given(VOLTS.map(volts), st.floats(1e-6, 1e6))
def test_voltage_is_the_largest_real_root(at: tuple[float, ...], power: float) -> None:
    found = voltage.voltage_of(power, at[0], at[1])
    assert found == pytest.approx(naive.voltage_of(power, at[0], at[1]), rel=1e-12)
    assert found == pytest.approx(naive.real_root(power, at[0], at[1]), rel=1e-6)
    assert voltage.clock_at(found, *at[:2]) == pytest.approx(naive.clock_at(found, *at[:2]), rel=1e-12)
    assert voltage.clock_at(found, *at[:2]) * (found / at[0]) ** 2 == pytest.approx(power, rel=1e-9)


@MANY
@given(VOLTS.map(volts), st.just(0.0) | st.floats(1e-4, 1e4), st.sampled_from([0.0, 1.0]), st.floats(1.0, 10.0))
def test_operating_point(at: tuple[float, ...], power: float, floor: float, more: float) -> None:
    """Within the limits; never more power than given, and all of it but at the highest voltage; more is never worse."""
    nominal, threshold, margin, maximum = at
    found = voltage.operating_point(power, voltage.Voltages(*at), floor)
    assert found == pytest.approx(naive.operating_point(power, *at, floor), rel=1e-11)
    volt, clock, share = found
    assert volt >= threshold + margin
    assert maximum == 0 or volt <= maximum * (1 + 1e-12)
    assert share <= 1
    spent = clock * (volt / nominal) ** 2 * share
    if volt == maximum:
        assert spent <= power * (1 + 1e-12)
    else:
        assert spent == pytest.approx(power, rel=1e-9)
    richer = voltage.operating_point(power * more, voltage.Voltages(*at), floor)
    assert all(b >= a * (1 - 1e-12) for a, b in zip(found, richer))


def memory_level(
    area_mm2: float, power_W: float, bank: tuple[float, ...], port: tuple[float, ...], energies: tuple[float, ...],
    asked_Bps: float, crossbars: float, readers: float, most_ports: float, cores: float, cache_network: float,
    generated_counts: float,
) -> tuple[float, ...]:  # fmt: skip
    """A level that gets whole budgets, at the template's own process and a clock of 1 Hz, by the twin's arguments."""
    level = Level(*bank, *port, *energies, utilisation=1.0)
    shape = Crossbars(crossbars, readers, most_ports, cores)
    sram = Sram(1.0, 1.0, 1.0, 1.0, 1.0)
    how = (cache_network, generated_counts)
    return generated_level(level, area_mm2, power_W, energies[0], asked_Bps, sram, 1.0, shape, *how)


def wires_out(
    area_mm2: float, share_W: float, budget_W: float, edge_mm: float, wire: tuple[float, ...],
    voltages: tuple[float, ...], voltage_floor: float, generated_counts: float,
) -> tuple[float, ...]:  # fmt: skip
    """Wires at the template's own process, by the twin's arguments; shares of a chip of 1 mm2."""
    lane = Lane(wire[0], utilisation=1.0, latency_s=0.0)
    balanced = share_W == math.inf
    shares = Shares(area_mm2, 0.0 if balanced else share_W / budget_W, edge_mm / 4.0)
    made = generated_lanes.function(
        lane, Wire(*wire[1:]), voltage.Voltages(*voltages), shares, Budgets(1.0, 0.0, 0.0, budget_W),
        Circuits(1.0, 1.0), voltage_floor, float(balanced), generated_counts,
    )  # fmt: skip
    return *made[:4], *made[5:]


@compared()
@given(naive.SEEDS)
def test_functions_equal_their_twins(seed: int) -> None:
    """Also those that several equations share, on inputs that these do not give them."""
    dice = naive.Dice(seed)
    whole, network = dice.one_of(0.0, 1.0), dice.one_of(0.0, 1.0)
    area = dice.or_zero(1e-2, 1e3)
    bank = (dice.between(1e2, 1e5), dice.between(1e-8, 1e-5), dice.between(0.01, 0.9), dice.or_zero(1e6, 1e12))
    power = dice.between(0.1, 300.0)
    leak = dice.one_of(0.0, 0.3 * power / (area * (1 - bank[2]) / bank[1] + 1e-30))
    level = (
        area, power, bank, (dice.or_zero(1e-6, 1e-1), dice.or_zero(1e-9, 1e-7)), (dice.between(1e-14, 1e-9), leak),
        dice.one_of(math.inf, math.inf, dice.or_zero(1e9, 1e15)), dice.one_of(1.0, dice.between(1.0, 500.0)),
        dice.between(1.0, 200.0), dice.one_of(1.0, 16.0, 64.0),
        dice.or_zero(1.0, 1e4), network, whole,
    )  # fmt: skip
    assert memory_level(*level) == pytest.approx(naive.memory_level(*level), rel=1e-10)
    wire = (dice.between(1e-5, 1.0), dice.or_zero(1.0, 1e3), dice.between(1e8, 1e11), dice.between(1e-13, 1e-10))
    at = tuple(naive.voltages(dice, "wire").values())
    out = (
        dice.or_zero(1.0, 100.0), dice.one_of(math.inf, dice.or_zero(0.01, 100.0)), dice.between(0.01, 100.0),
        dice.or_zero(1.0, 100.0), wire, at, network, whole,
    )  # fmt: skip
    assert wires_out(*out) == pytest.approx(naive.wires_out(*out), rel=1e-10)
    fed = [dice.between(1e12, 1e16), dice.or_zero(1.0, 1e4), dice.one_of(1, 4, 128), dice.one_of(1, 4, 128)]
    fed += [dice.between(1e2, 1e9), dice.between(1e11, 1e16), dice.between(1e11, 1e16)]
    flops, units, rows, columns, *rest = fed
    assert fed_flops(flops, units, Array(rows, columns), *rest) == pytest.approx(naive.fed_flops(*fed), rel=1e-12)
    number = dice.between(1e-3, 1e6)
    assert counted(number, whole) == (math.floor(number) if whole == 0.0 else number)
    assert counted(-number, whole) == 0


# every chip: budgets


def names_of(kind: str) -> st.SearchStrategy[str]:
    return st.sampled_from(LIBRARY.names(kind))


@st.composite
def shares(draw: st.DrawFn, parts: tuple[str, ...]) -> list[float]:
    """Parts of a whole, of which something may be left."""
    weights = [draw(st.floats(0.01, 1.0)) * (draw(st.integers(0, 11)) > 0) for _ in parts]
    filled = draw(st.sampled_from([1.0, 1.0, 0.7, 0.1])) / max(sum(weights), 0.01)
    return [weight * filled for weight in weights]


UNLIMITED = {
    "template_reticle_area_mm2": 1e9,
    "template_interposer_area_mm2": 1e9,
    "template_bump_pitch_mm": 1e-6,
    "template_temperature_rise_K": 1e9,
}
"""No limits but the budgets."""


@st.composite
def designs(draw: st.DrawFn, **choices: str) -> Columns:
    """Any template, process, memory and wires of the library under any budgets, shares and switches but those given."""
    found = design(*(draw(names_of(kind)) for kind in ("template", "technology", "stack", "lane", "lane")))
    for kind, parts in (("area", AREA_PARTS), ("power", AREA_PARTS), ("edge", EDGE_PARTS)):
        found |= {f"template_{part}_{kind}_share": share for part, share in zip(parts, draw(shares(parts)))}
    area = draw(st.floats(30.0, 1600.0))
    found |= {
        "template_chip_area_mm2": area,
        "template_package_area_mm2": area + draw(st.floats(0.0, 2000.0)),
        "template_power_W": draw(st.floats(5.0, 1500.0)),
        **UNLIMITED,
    }
    free = {switch: draw(st.sampled_from(SWITCHES[switch])) for switch in SWITCHED if switch not in choices}
    return switched(found, **free, **choices)


def budget(columns: Columns, part: str, kind: str) -> float:
    """What a part may take: mm2, W or mm."""
    area, power = columns["template_chip_area_mm2"], columns["template_power_W"]
    shared = area * (1 - columns["template_other_area_share"])
    whole = {"area": shared, "power": power, "edge": 4 * math.sqrt(area)}[kind]
    return columns[f"template_{part}_{kind}_share"] * whole


ROUNDED = 1 + 1e-11
CLOCKED = {"core": "template", "memory": "stack", "lane": "lane", "outer_lane": "outer_lane"}
"""Parts that choose a voltage, and whose limits it has."""


def idle(columns: Columns, part: str) -> float:
    """Power that a part takes without work."""
    return columns.get(f"{part}_idle_W", 0.0)


def deliverable(chip: Columns, level: str) -> float:
    """Bandwidth at which all banks of a level are busy in every clock, or all that cores ask of the L2 is under way;
    infinite where neither is known."""
    width, attainable = chip[f"template_{level}_bank_width_B"], chip[f"template_{level}_utilisation"]
    asked = attainable * naive.asked(chip) if level == "l2" else math.inf
    if not width or SWITCHES["cache_network"][int(chip["cache_network"])] == "port_per_core":
        return asked
    banks = chip[f"{level}_capacity_B"] / chip[f"template_{level}_bank_B"]
    return min(attainable * banks * width * chip["template_nominal_frequency_Hz"], asked)


def limits(columns: Columns, part: str) -> tuple[float, float]:
    """Least and highest voltage of a part; without a highest one, infinite."""
    role = CLOCKED[part]
    least = columns[f"{role}_threshold_voltage_V"] + columns[f"{role}_voltage_margin_V"]
    return least, columns[f"{role}_maximum_voltage_V"] or math.inf


@MANY
@given(designs())
def test_parts_keep_to_their_shares(columns: Columns) -> None:
    """Area and perimeter always; power unless leakage alone takes more, and then nothing is left for work."""
    chip = generate(columns)
    for part in AREA_PARTS:
        assert chip[f"{part}_used_mm2"] <= budget(chip, part, "area") * ROUNDED, part
        assert chip[f"{part}_draw_W"] <= max(budget(chip, part, "power"), idle(chip, part)) * ROUNDED, part
    for part in EDGE_PARTS:
        assert chip[f"{part}_used_mm"] <= budget(chip, part, "edge") * ROUNDED, part
    for part, rate in (*((level, level) for level in LEVELS), ("memory", "memory")):
        if idle(chip, part) >= budget(chip, part, "power"):
            assert chip[f"{rate}_bandwidth_Bps"] == 0
    room = chip["template_package_area_mm2"] - chip["template_chip_area_mm2"]
    assert chip["stacks_used_mm2"] <= room * ROUNDED


@MANY
@given(designs())
def test_totals_are_the_sums_of_the_parts_and_keep_to_the_budgets(columns: Columns) -> None:
    chip = generate(columns)
    used = {"used_mm2": AREA_PARTS, "draw_W": AREA_PARTS, "used_mm": EDGE_PARTS}
    other = {"used_mm2": chip["template_other_area_share"] * chip["template_chip_area_mm2"]}
    for name, parts in used.items():
        total = other.get(name, 0.0) + sum(chip[f"{part}_{name}"] for part in parts)
        assert chip[f"generated_{name}"] == pytest.approx(total, rel=1e-12)
    reason = REASONS[int(chip["chip_reason"])]
    missing = ("no_compute", "no_cache", "no_memory")
    assert reason in ("", *missing, "power_exceeded")  # the shares add up to one at most
    leaks = any(idle(chip, part) > budget(chip, part, "power") * ROUNDED for part in AREA_PARTS)
    if reason == "" or not leaks:
        assert chip["generated_draw_W"] <= chip["template_power_W"] * (1 + 2e-9)
    assert chip["generated_used_mm2"] <= chip["template_chip_area_mm2"] * (1 + 1e-9)
    assert chip["generated_used_mm"] <= 4 * math.sqrt(chip["template_chip_area_mm2"]) * (1 + 1e-9)
    working = ("generated_cores", "chip_given_peak_flops", "l2_bandwidth_Bps", "memory_bandwidth_Bps")
    assert reason in missing or reason == "power_exceeded" or all(chip[name] > 0 for name in working)


@MANY
@given(designs(generated_counts="continuous"))
def test_parts_spend_all_that_they_get(columns: Columns) -> None:
    """Where counts need not be whole: levels their area; all parts their power unless at their highest voltage, and
    levels unless their banks deliver no more."""
    chip = generate(columns)
    for level in LEVELS:
        if chip[f"{level}_capacity_B"]:
            assert chip[f"{level}_used_mm2"] == pytest.approx(budget(chip, level, "area"), rel=1e-9)
            most = max(budget(chip, level, "power"), idle(chip, level))
            assert chip[f"{level}_draw_W"] <= most * ROUNDED
            if chip[f"{level}_bandwidth_Bps"] < deliverable(chip, level) * (1 - 1e-9):
                assert chip[f"{level}_draw_W"] == pytest.approx(most, rel=1e-12)
    counts = {"core": "generated_units", "memory": "memory_wires", "lane": "lane_wires"}
    for part, count in {**counts, "outer_lane": "outer_lane_wires"}.items():
        if chip[count] and chip[f"{part}_voltage_V"] < limits(chip, part)[1]:
            most = max(budget(chip, part, "power"), idle(chip, part))
            assert chip[f"{part}_draw_W"] == pytest.approx(most, rel=1e-9), part


@MANY
@given(designs())
def test_voltages_keep_to_their_limits(columns: Columns) -> None:
    chip = generate(columns)
    for part in CLOCKED:
        least, most = limits(chip, part)
        assert least <= chip[f"{part}_voltage_V"] * ROUNDED <= most * ROUNDED**2


@MANY
@given(designs(generated_counts="whole"))
def test_whole_counts_are_never_more_than_continuous_ones(columns: Columns) -> None:
    """Of parts that depend on no other count; of the others as far as they have the same readers."""
    whole, free = generate(columns), generate(switched(columns, generated_counts="continuous"))
    counts = ["generated_units", "generated_cores", "memory_stacks", "memory_wires", "lane_wires", "outer_lane_wires"]
    for name in (*counts, "core_flops", "memory_capacity_B"):
        assert whole[name] <= free[name] * ROUNDED, name
    free = generate_levels(switched(whole, generated_counts="continuous"))
    for level in LEVELS:
        assert whole[f"{level}_capacity_B"] <= free[f"{level}_capacity_B"] * ROUNDED, level


def generate_levels(chip: Columns) -> Columns:
    """The on-chip memories again, of a chip whose cores are what they are."""
    return {**chip, **call(generated_levels, chip)}


# every chip: more is never worse


GROWTH = st.sampled_from([1.0 + 1e-9, 1.01, 1.3, 2.0, 10.0])


def never_less(less: Columns, more: Columns, names: tuple[str, ...]) -> None:
    for name in names:
        assert more[name] >= less[name] * (1 - 1e-12), name


OF_CORE = ("generated_units", "generated_cores", "core_flops")
OWN_POWER = {
    "core": (*OF_CORE, "core_voltage_V", "core_clock_Hz"),
    "register": ("register_bandwidth_Bps",),
    "l1": ("l1_bandwidth_Bps",),
    "l2": ("l2_bandwidth_Bps",),
    "memory": ("memory_bandwidth_Bps", "memory_voltage_V"),
    "lane": ("link_bandwidth_Bps", "lane_voltage_V"),
    "outer_lane": ("outer_link_bandwidth_Bps", "outer_lane_voltage_V"),
}
"""What a part's power buys."""


@MANY
@given(designs(), st.sampled_from(AREA_PARTS), GROWTH)
def test_more_power_for_a_part_never_hurts_it(columns: Columns, part: str, factor: float) -> None:
    share = f"template_{part}_power_share"
    less, more = generate(columns), generate({**columns, share: columns[share] * factor})
    never_less(less, more, OWN_POWER[part])


@MANY
@given(designs(), GROWTH)
def test_more_power_for_all(columns: Columns, factor: float) -> None:
    """Peak of the units and what leaves the chip never fall. On the chip nothing falls either unless power brings more
    units, which is where the voltage was at its least: then caches have more readers."""
    less = generate(columns)
    more = generate({**columns, "template_power_W": columns["template_power_W"] * factor})
    names = (*OWN_POWER["core"], *OWN_POWER["memory"], *OWN_POWER["lane"], *OWN_POWER["outer_lane"])
    never_less(less, more, (*names, "memory_capacity_B"))
    if more["generated_units"] == less["generated_units"]:
        levels = tuple(f"{level}_{what}" for level in LEVELS for what in ("capacity_B", "bandwidth_Bps"))
        never_less(less, more, (*levels, "chip_given_peak_flops"))


OWN_AREA = {
    "core": OF_CORE,
    "register": ("register_capacity_B",),
    "l1": ("l1_capacity_B",),
    "l2": ("l2_capacity_B",),
    "memory": ("memory_stacks", "memory_capacity_B", "memory_wires"),
    "lane": ("lane_wires", "link_bandwidth_Bps"),
    "outer_lane": ("outer_lane_wires", "outer_link_bandwidth_Bps"),
}
"""What a part's area buys. Bandwidth of a memory is no part of it: cells leak."""


@MANY
@given(designs(), st.sampled_from(AREA_PARTS), GROWTH)
def test_more_area_for_a_part_never_hurts_it(columns: Columns, part: str, factor: float) -> None:
    share = f"template_{part}_area_share"
    less, more = generate(columns), generate({**columns, share: columns[share] * factor})
    never_less(less, more, OWN_AREA[part])
    if part in EDGE_PARTS and columns["stack_static_power_W_per_B"] == 0:
        never_less(less, more, ("memory_bandwidth_Bps",))


@MANY
@given(designs(), st.sampled_from(LEVELS), GROWTH)
def test_larger_caches_lose_what_their_cells_leak_and_the_longer_way(
    columns: Columns, level: str, factor: float
) -> None:
    """Power for data falls by the leakage of the added cells at most, and a byte costs more; if the banks could deliver
    what power allowed before, by exactly that."""
    share = f"template_{level}_area_share"
    less, more = generate(columns), generate({**columns, share: columns[share] * factor})
    assume(less[f"{level}_bandwidth_Bps"] > 0)
    leakage = columns[f"template_{level}_static_power_W_per_B"] * columns["technology_sram_static_power"]
    added_W = leakage * (more[f"{level}_capacity_B"] - less[f"{level}_capacity_B"])
    longer = less[f"{level}_energy_J_per_B"] / more[f"{level}_energy_J_per_B"]
    assert longer <= 1.0
    attainable = columns[f"template_{level}_utilisation"] / more[f"{level}_energy_J_per_B"]
    expected = max(less[f"{level}_bandwidth_Bps"] * longer - added_W * attainable, 0.0)
    rounding = 1e-12 * budget(columns, level, "power") * attainable
    assert more[f"{level}_bandwidth_Bps"] >= expected - rounding
    if less[f"{level}_bandwidth_Bps"] < deliverable(less, level) * (1 - 1e-9):
        assert more[f"{level}_bandwidth_Bps"] == pytest.approx(expected, abs=rounding)


@MANY
@given(designs(), st.sampled_from(LEVELS))
def test_banks_deliver_their_width_in_every_clock_at_most(columns: Columns, level: str) -> None:
    chip = generate(columns)
    assert chip[f"{level}_bandwidth_Bps"] <= deliverable(chip, level) * ROUNDED


@MANY
@given(designs(), GROWTH)
def test_larger_memories_lose_the_power_that_keeps_their_data(columns: Columns, factor: float) -> None:
    """With the same wires: whatever is taken to keep data is not there to move it."""
    chip = generate(columns)
    kept_W = columns["stack_static_power_W_per_B"] * chip["memory_capacity_B"]
    assert chip["memory_idle_W"] == pytest.approx(kept_W, rel=1e-12)
    moved_Bps = chip["memory_bandwidth_Bps"] / columns["stack_utilisation"]
    moving_W = moved_Bps * chip["memory_energy_J_per_B"]
    assert chip["memory_draw_W"] == pytest.approx(kept_W + moving_W, rel=1e-12)
    leaky = {**columns, "stack_static_power_W_per_B": columns["stack_static_power_W_per_B"] * factor}
    never_less(generate(leaky), chip, ("memory_bandwidth_Bps", "memory_voltage_V"))


@MANY
@given(designs(), st.sampled_from(EDGE_PARTS), GROWTH)
def test_more_perimeter_never_hurts(columns: Columns, part: str, factor: float) -> None:
    """Of memories only those that keep data without power: further devices take it from the wires."""
    share = f"template_{part}_edge_share"
    less, more = generate(columns), generate({**columns, share: columns[share] * factor})
    never_less(less, more, OWN_AREA[part])
    if part != "memory" or columns["stack_static_power_W_per_B"] == 0:
        never_less(less, more, OWN_POWER[part][:1])


@MANY
@given(designs(), GROWTH)
def test_a_larger_package_holds_more_memory(columns: Columns, factor: float) -> None:
    larger = {**columns, "template_package_area_mm2": columns["template_package_area_mm2"] * factor}
    less, more = generate(columns), generate(larger)
    never_less(less, more, OWN_AREA["memory"])
    assert columns["stack_on_chip"] == 0 or less["memory_stacks"] == more["memory_stacks"]


@MANY
@given(designs())
def test_the_peak_is_what_units_registers_and_l1_allow(columns: Columns) -> None:
    chip = generate(columns)
    assert 0 <= chip["chip_given_peak_flops"] <= chip["core_flops"]
    if chip["generated_units"] and chip["chip_given_peak_flops"]:
        energy = chip["chip_flop_J"]
        assert energy >= chip["core_energy_J_per_flop"]
        # Running at that peak, units, registers and L1 together draw no more than they may.
        parts = ("core", "register", "l1")
        leaks = sum(idle(chip, part) for part in parts)
        most = sum(max(budget(chip, part, "power"), idle(chip, part)) for part in parts)
        assert chip["chip_given_peak_flops"] * energy + leaks <= most * (1 + 1e-9)


# the switches


def of_v100(**changed: float) -> Columns:
    """DeepFlow's V100 with other numbers."""
    columns = design(*V100)
    assert changed.keys() <= columns.keys()
    return {**columns, **changed}


def test_ports_per_core_freeze_the_cache_and_shared_ports_do_not() -> None:
    """Over seven nodes cells shrink to a ninth: 6 MiB stay 6 MiB where every bank has a port for each core."""
    mebi: dict[str, list[float]] = {}
    for network in SWITCHES["cache_network"]:
        ladder = [design(V100[0], f"deepflow_n{node}", *V100[2:]) for node in NODES]
        chips = [generate(switched(columns, cache_network=network)) for columns in ladder]
        mebi[network] = [chip["l2_capacity_B"] / 2**20 for chip in chips]
    assert all(6.0 <= capacity < 6.35 for capacity in mebi["port_per_core"])
    assert all(finer > 1.3 * coarse for coarse, finer in zip(mebi["shared_ports"], mebi["shared_ports"][1:]))
    assert mebi["shared_ports"][-1] > 8 * mebi["shared_ports"][0] > 50 * mebi["port_per_core"][0]


@MANY
@given(designs())
def test_shared_ports_never_make_a_cache_smaller(columns: Columns) -> None:
    """Of the L2, whose readers are all cores; and the same bytes, up to a bank, for chips of one core."""
    chip = generate(columns)
    shared, own = (generate_levels(switched(chip, cache_network=choice)) for choice in SWITCHES["cache_network"])
    assert shared["l2_capacity_B"] >= own["l2_capacity_B"] * (1 - 1e-12)
    assert shared["l2_used_mm2"] <= budget(chip, "l2", "area") * ROUNDED


def test_the_banks_of_a_cache_counted_by_hand() -> None:
    """V100: 65.7053 mm2; a bank of 0.0209715 mm2 and its 64 ports of 0.004 mm2. 64 x 64 ports leave 49.3213 mm2."""
    shared = generate(of_v100())
    assert shared["generated_cores"] == 80
    assert shared["l2_capacity_B"] / 2**15 == 2351 == math.floor((65.7053 - 64 * 64 * 0.004) / 0.02097152)
    assert shared["l2_used_mm2"] == pytest.approx(2351 * 0.02097152 + 16.384, rel=1e-9)
    own = generate(switched(of_v100(), cache_network="port_per_core"))
    assert own["l2_capacity_B"] / 2**15 == 192 == math.floor(65.7053 / (0.02097152 + 80 * 0.004))


def test_a_cache_just_above_a_full_crossbar_counted_by_hand() -> None:
    """17.99 mm2: 64 x 64 ports of 0.004 mm2 leave 1.606 mm2, which is 76 banks and not only one for each port."""
    chip = generate(of_v100(template_l2_area_share=17.99 / 815))
    assert chip["l2_capacity_B"] / 2**15 == 76 == math.floor((17.99 - 16.384) / 0.02097152)


POOR = {"template_core_power_share": 0.02}
"""6 W, where 643 units at their least voltage of 0.55 V draw 25 W."""


def test_at_the_least_voltage_fewer_units_run_or_all_of_them_slower() -> None:
    """The same power and the same peak; but who cuts units has fewer of them, at a higher clock, in less area."""
    poor = of_v100(**POOR)
    exact = {
        floor: generate(switched(poor, voltage_floor=floor, generated_counts="continuous"))
        for floor in SWITCHES["voltage_floor"]
    }
    fewer, slower = exact["fewer_units"], exact["throttled"]
    for chip in (fewer, slower):
        assert chip["core_voltage_V"] == pytest.approx(0.55, rel=1e-12)
        assert chip["core_draw_W"] == pytest.approx(6.0, rel=1e-9)
    assert fewer["core_flops"] == pytest.approx(slower["core_flops"], rel=1e-9)
    assert slower["generated_units"] == pytest.approx(0.3 * 815 / 0.38, rel=1e-12)
    nominal_clock = (0.35**2 / 0.55) / (0.6**2 / 0.8)  # at 0.55 V
    units = 6.0 / (0.13 * nominal_clock * (0.55 / 0.8) ** 2)
    assert fewer["generated_units"] == pytest.approx(units, rel=1e-9)
    assert fewer["core_clock_Hz"] == pytest.approx(1.33e9 * nominal_clock, rel=1e-12)
    assert slower["core_clock_Hz"] < fewer["core_clock_Hz"]
    assert fewer["core_used_mm2"] == pytest.approx(0.38 * units, rel=1e-9)
    whole = generate(poor)
    assert whole["generated_units"] == math.floor(units)
    assert 6.0 - 6.0 / units < whole["core_draw_W"] <= 6.0


def test_the_perimeter_limits_devices_or_only_their_wires() -> None:
    """A twentieth of the perimeter lets 2283 wires escape: two stacks of 1024, or four with 571 each."""
    columns = of_v100(template_memory_edge_share=0.05)
    limited = generate(columns)
    free = generate(switched(columns, memory_devices="area_limited"))
    assert (limited["memory_stacks"], limited["memory_wires"]) == (2, 2048)
    assert (free["memory_stacks"], free["memory_wires"]) == (4, 2283)
    assert generate(of_v100())["memory_stacks"] == 4


def test_continuous_counts_are_what_divides_the_budgets() -> None:
    chip = generate(switched(of_v100(), generated_counts="continuous"))
    assert chip["generated_units"] == pytest.approx(0.3 * 815 / 0.38, rel=1e-12)
    assert chip["generated_cores"] == pytest.approx(0.3 * 815 / 0.38 / 8, rel=1e-12)
    assert chip["memory_stacks"] == pytest.approx(0.0248 * 815 / 5, rel=1e-12)
    assert chip["outer_lane_wires"] == pytest.approx(20 * 0.5 * 4 * math.sqrt(815), rel=1e-12)


# studies


REASONED = {
    "area_exceeded": {"template.core_area_share": 0.8},
    "power_exceeded": {"template.core_power_share": 0.9},
    "perimeter_exceeded": {"template.outer_lane_edge_share": 1.0, "template.outer_lane_area_share": 0.25},
    "no_compute": {"template.core_area_share": 0.0},
    "no_cache": {"template.l2_area_share": 0.0},
    "no_memory": {"template.memory_edge_share": 0.0},
    "": {},
}
"""What makes DeepFlow's V100 impossible, and nothing that does."""


BOTH = {
    "template": ("chip", "h100"),
    "stack": ("memory", "hbm"),
    "lane": ("link", "pcie"),
    "outer_lane": ("outer_link", "pcie"),
}
"""What a role generates, and a listed entry of that."""


@pytest.mark.parametrize("role", BOTH)
def test_nothing_is_both_listed_and_generated(tmp_path: Path, role: str) -> None:
    """What is named twice, what stands for something generated, and lanes without links outside are errors."""
    generated = {"template": V100[0], "stack": V100[2], "lane": V100[3], "outer_lane": V100[3]}
    plain = {"workload": "fft_1t", "topology": "ring", "chips": 1, "dim_x": 1, **generated}
    column, entry = BOTH[role]
    bad = {"twice": {**plain, column: entry}, "placeholder": {**plain, column: "generated"}}
    if role == "lane":
        bad["inside only"] = {key: value for key, value in plain.items() if key != "outer_lane"}
    assert validated(tmp_path, plain) == ""
    for name, axes in bad.items():
        assert "bad.yaml:" in validated(tmp_path, axes), name


def validated(tmp_path: Path, axes: dict[str, Any]) -> str:
    """What `sweeper validate` complains of."""
    path = tmp_path / "bad.yaml"
    path.write_text(json.dumps({"study": "bad", "axes": axes}))
    return CliRunner().invoke(main, ["validate", str(path)]).stderr


def test_a_network_without_wires_is_no_network(tmp_path: Path) -> None:
    """One chip does not miss it."""
    named = {"template": V100[0], "stack": V100[2], "template.outer_lane_area_share": 0.0, "dim_x": 1}
    for chips, reason in ((2, "no_network"), (1, "")):
        row = evaluate(tmp_path, [[V100[3]]], ["outer_lane"], **named, chips=chips, dim_y=chips, topology="dgx_2")
        assert REASONS[int(row["chip_reason"][0])] == reason


def test_every_reason_occurs(tmp_path: Path) -> None:
    """An impossible chip is an infeasible row whose reason says which budget it breaks."""
    names = list(dict.fromkeys(name for changed in REASONED.values() for name in changed))
    template = entry("template", V100[0])
    rows = [
        [changed.get(name, template[f"template_{name.partition('.')[2]}"]) for name in names]
        for changed in REASONED.values()
    ]
    named = {"template": V100[0], "stack": V100[2], "outer_lane": V100[3]}
    found = evaluate(tmp_path, rows, names, **named)
    assert [REASONS[int(code)] for code in found["chip_reason"]] == [*REASONED]
    for reason, row in zip(REASONED, found.to_dicts(), strict=True):
        if reason:
            assert (row["feasible"], row["infeasible_reason"]) == (False, reason)
        else:
            assert row["infeasible_reason"] not in REASONED
    assert found["generated_used_mm2"][0] > 815.0
    assert found["generated_draw_W"][1] > 300.0
    assert found["generated_used_mm"][2] > 4 * math.sqrt(815.0)


@pytest.mark.parametrize("rates", [(2e12,), (2e12, 3e12)])
def test_a_study_may_replace_what_is_generated(tmp_path: Path, rates: tuple[float, ...]) -> None:
    """Bandwidth and peak as given, also for all that reads them; what they came from as generated."""
    rows = [[f"{rate!r} B/s", f"{rate!r} flop/s"] for rate in rates]
    named = {"template": V100[0], "stack": V100[2], "outer_lane": V100[3]}
    found = evaluate(tmp_path, rows, ["memory.bandwidth", "chip.peak_flops"], efficiencies="listed", **named)
    for rate, row in zip(rates, found.to_dicts(), strict=True):
        assert row["memory_bandwidth_Bps"] == row["attainable_bandwidth_Bps"] == rate
        assert row["chip_given_peak_flops"] == row["chip_peak_flops"] == rate
        assert (row["memory_stacks"], row["memory_capacity_B"], row["generated_units"]) == (4, 16 * GIB, 643)


STUDY = {
    "workload": "fft_1t", "chip": "h100", "memory": "hbm", "link": "pcie", "topology": "ring", "chips": 1, "dim_x": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("role", "name", "of"),
    [("lane", V100[3], "link"), ("outer_lane", V100[3], "outer_link"), ("stack", V100[2], "memory")],
)
def test_parts_of_a_generated_chip_need_a_template(tmp_path: Path, role: str, name: str, of: str) -> None:
    """One error that says what is missing, whether or not the study names what the part would have generated."""
    for dropped in ([], [of]):
        axes = {key: value for key, value in STUDY.items() if key not in dropped} | {role: name}
        path = tmp_path / "bad.yaml"
        path.write_text(json.dumps({"study": "bad", "axes": axes}))
        result = CliRunner().invoke(main, ["validate", str(path)])
        assert result.exit_code == 2
        errors = result.stderr.strip().splitlines()
        assert len([line for line in errors if "bad.yaml:" in line]) == 1, errors
        assert f"a {role} needs a chip that is generated too" in result.stderr
        assert "template: deepflow_v100" in result.stderr
