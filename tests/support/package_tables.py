"""Random packages, and packages written out: a row for every die."""

import math
from random import Random

import numpy as np

from replications.tables import PackageTables, tables
from sweeper.kernels.packages.defects import YIELD_MODELS
from sweeper.kernels.packages.layout import CONVENTIONS, DIE_CODES, LINK_CODES, STEP_NUMBERS
from sweeper.kernels.packages.wafer import COUNTING

MOST_DIES, MOST_LINKS = 6, 5


def die_codes(random: Random, parent: int) -> dict[str, int]:
    return {
        "parent": parent,
        "back": random.random() < 0.3,
        "face_up": random.random() < 0.4,
        "buried": random.random() < 0.1,
        "carrier": random.random() < 0.4,
    }


def black_box(random: Random) -> dict[str, float]:
    """Numbers that are given instead of computed, now and then."""
    names = ("given_area_mm2", "given_price_usd", "given_power_W", "given_carbon_kg")
    given = {name: random.uniform(10, 300) for name in names if random.random() < 0.1}
    shares = ("given_quality", "given_placement_yield")
    given |= {name: random.uniform(0.5, 1.0) for name in shares if random.random() < 0.1}
    return given | ({"given_outline_mm2": random.uniform(10, 900)} if random.random() < 0.15 else {})


def die_numbers(random: Random, count: float) -> dict[str, float]:
    core = random.choice([0.0, random.uniform(1, 400)])
    units = random.choice([0, 0, 1, 4, 16, 64]) if core else 0
    uniform, choice = random.uniform, random.choice
    die = {
        "count": count,
        "core_area_mm2": core,
        "aspect_ratio": choice([1.0, 1.0, 0.5, 2.0]),
        "power_W": uniform(0, 50),
        "voltage_V": uniform(0.6, 1.2),
        "memory_share": random.random(),
        "logic_share": random.random(),
        "analog_share": random.random(),
        "gate_flop_ratio": uniform(1, 6),
        "reticle_share": random.random(),
        "quantity": choice([1e3, 1e6]),
        "design_usd": choice([0.0, 1e6]),
        "finish_usd_per_mm2": choice([0.0, 0.005]),
        "harvest_units": units,
        "harvest_unit_mm2": core / units * uniform(0.3, 1.5) if units else 0.0,
        "harvest_spares": random.randint(0, min(units, 20)),
        **black_box(random),
    }
    panel = {"panel_x_mm": 510.0, "panel_y_mm": 515.0} if random.random() < 0.15 else {}
    wafer = {
        "diameter_mm": 300.0,
        "edge_exclusion_mm": choice([0.1, 3.0]),
        "scribe_mm": 0.1,
        "reticle_x_mm": 26.0,
        "reticle_y_mm": 33.0,
        "process_yield": uniform(0.8, 1),
        "dies_per_wafer": random.randrange(len(COUNTING)),
        "memory_design_price_usd_per_mm2": uniform(0, 1e5),
        "logic_design_price_usd_per_mm2": uniform(0, 1e5),
        **panel,
    }
    # Pitches are no round numbers: else the number of pads of a side hangs on the last digit.
    assembly = {
        "material_price_usd_per_mm2": random.random(),
        "bump_price_usd_per_mm2": random.random() * 0.01,
        "separation_mm": choice([0.0, 0.1, 1.0]),
        "edge_mm": choice([0.0, 0.1, 2.0]),
        "area_factor": choice([0.0, 0.0, 1.1, 4.0]),
        "current_density_A_per_mm2": choice([1e2, 1e4]),
        "pitch_mm": choice([0.0103, 0.0457, 0.1017]),
        "alignment_yield": choice([1.0, 0.99]),
        "step_yield": choice([1.0, 0.97]),
        "largest_carrier_mm2": choice([0.0, 0.0, 0.0, 500.0]),
        "power_density_W_per_mm2": choice([0.0, 0.0, 0.0, 0.5]),
        "bond_yield": choice([1.0, 0.999999]),
        "bond_defect_density_per_mm2": choice([0.0, 1e-4]),
        "tsv_area_mm2": choice([0.0, 1e-4]),
        "tsv_pitch_mm": choice([0.0111, 0.0513]),
        "tsv_yield": choice([1.0, 0.999999]),
        "package_price_usd": choice([0.0, 5.0]),
        "design_price_usd_per_mm2": choice([0.0, 3e3]),
        "fixed_price_usd": choice([0.0, 3e5]),
        "carbon_kg_per_mm2": random.random() * 0.01,
        "cycle_time_s": choice([0.0, 1e6]),
    }
    for step, uptime in (("pick", 0.9), ("bond", 0.8)):
        machine = {
            "machine_price_usd": uniform(1e5, 2e6),
            "machine_life_s": 1.6e8,
            "uptime": uptime,
            "operator_price_usd_per_s": 0.003,
            "time_s": uniform(1, 20),
            "group": choice([1.0, 3.0, 64.0]),
        }
        assembly |= {f"{step}_{name}": value for name, value in machine.items()}
    test = {
        "cycle_s": 1e-7,
        "samples": choice([1.0, 3.0]),
        "price_usd_per_s": 0.006,
        "self_time_s": choice([0.0, 2.0]),
        "assembly_time_s": choice([0.0, 2.0]),
    }
    for place in ("self", "assembly"):
        insertion = {
            "coverage": choice([0.0, 0.9, 1.0]),
            "patterns": choice([math.nan, 0.0, 100.0]),
            "chain_per_mm2": choice([math.nan, 0.0, 500.0]),
            "chains": choice([1.0, 2.0]),
            "pads_per_chain": 2.0,
            "pads": 1.0,
            "tested": float(random.random() < 0.8),
        }
        test |= {f"{place}_{name}": value for name, value in insertion.items()}
    groups = {"wafer": wafer, "assembly": assembly, "test": test}
    return die | {f"{group}_{name}": value for group, values in groups.items() for name, value in values.items()}


def layer_numbers(random: Random) -> dict[str, float]:
    choice = random.choice
    return {
        "price_usd_per_mm2": random.uniform(0.01, 0.3),
        "yield_model": random.randrange(len(YIELD_MODELS)),
        "defect_density_per_mm2": choice([0.0, 1e-4, 1e-3, 5e-3]),
        "critical_area_ratio": choice([0.5, 1.0]),
        "clustering": choice([2.0, 3.0, 10.0]),
        "critical_levels": choice([1.0, 3.0]),
        "litho_share": choice([0.0, 0.3]),
        "mask_set_usd": choice([0.0, 1e6]),
        "stitching_yield": choice([1.0, 0.9]),
        "transistor_density_per_mm2": choice([0.0, 9e7]),
        "active": float(random.random() < 0.7),
        "design_price_usd_per_mm2": choice([0.0, 1e5]),
        "chip_design_price_usd_per_mm2": choice([0.0, 1e5]),
        "chip_fixed_price_usd": choice([0.0, 1e6]),
        "carbon_kg_per_mm2": random.random() * 0.01,
        "fab_energy_J_per_mm2": random.random() * 1e4,
        "wiring_layers": choice([0.0, 0.0, 1.0, 4.0]),
        "wiring_pitch_mm": choice([0.001, 0.1]),
        "cycle_time_s": random.random() * 1e7,
    }


def link_numbers(random: Random) -> dict[str, float]:
    choice = random.choice
    return {
        "count": choice([math.nan, 1.0, 4.0]),
        "demand_bps": choice([1e12, 2.5e12]),
        "utilisation": random.random(),
        "tx_area_mm2": random.random(),
        "rx_area_mm2": random.random(),
        "shoreline_mm": choice([0.0, 0.5]),
        "bandwidth_bps": 1e12,
        "wires": choice([44.0, 140.0]),
        "bidirectional": float(random.random() < 0.5),
        "energy_J_per_b": 1e-12,
        "reach_mm": choice([2.0, 5.0, 10.0]),
    }


def random_package(random: Random, conventions: list[str], most: int = MOST_DIES) -> PackageTables:
    """A package of at most `most` rows, some absent; links end at present dies that carry none, not among equals."""
    parents = [-1, *(random.randrange(row) for row in range(1, random.randint(1, most)))]
    counts = [1.0, *(random.choice([0.0, 1.0, 1.0, 1.0, 2.0, 3.0]) for _ in parents[1:])]
    dies = [
        (
            die_codes(random, parent),
            die_numbers(random, count),
            [layer_numbers(random) for _ in range(random.randint(1, 2))],
        )
        for parent, count in zip(parents, counts, strict=True)
    ]
    present = [True]
    for parent, count in zip(parents[1:], counts[1:], strict=True):
        present.append(present[parent] and count > 0)
    leaves = [row for row in range(len(parents)) if row not in parents and present[row]]
    ends = [tuple(random.sample([-1, *leaves], 2)) for _ in range(random.randint(0, MOST_LINKS)) if leaves]
    links = [(source, target, link_numbers(random)) for source, target in ends]
    steps = {} if conventions else {row: steps_before(random) for row in set(parents) - {-1} if random.random() < 0.4}
    for (codes, _, _), parent in zip(dies, parents, strict=True):
        codes["step"] = random.randint(0, len(steps.get(parent, ())))
    return tables(dies, links, conventions, steps)


def steps_before(random: Random) -> list[dict[str, float]]:
    """One to three assembly steps before the last."""
    flags = {name: float(random.random() < 0.1) for name in ("assembly_chip_first", "assembly_whole_wafer")}
    every = [die_numbers(random, 1.0) | flags for _ in range(random.randint(1, 3))]
    return [{name: value for name, value in each.items() if name in STEP_NUMBERS} for each in every]


def altered(random: Random, numbers: dict[str, float]) -> dict[str, float]:
    """Numbers of a die, or the same but for what tells equal dies apart: most often whether it is bought, or made."""
    changes = (
        {},
        {},
        {"given_price_usd": random.uniform(10, 300)},
        {"given_price_usd": random.uniform(10, 300), "core_area_mm2": 2e4},
        {"given_area_mm2": random.uniform(10, 300)},
        {"wafer_scribe_mm": 0.2},
        {"assembly_separation_mm": 0.3},
        {"assembly_pitch_mm": 0.2017},
        {"assembly_whole_wafer": 1.0},
        {"test_assembly_pads": 5.0},
    )
    return numbers | random.choice(changes)


def repeated_units(random: Random, conventions: list[str]) -> PackageTables:
    """A package of three levels: two or three units, each of dies on a carrier, that are equal or nearly so.

    Kernels evaluate equal dies once. All dies have gates, which the tests of the units around them count.
    """
    gates = {"transistor_density_per_mm2": 9e7, "active": 1.0, "defect_density_per_mm2": 1e-5}
    layers = [[layer_numbers(random) | gates] for _ in range(3)]
    tested = {"test_assembly_tested": 1.0, "test_assembly_chain_per_mm2": math.nan, "test_assembly_patterns": 100.0}
    made = {"given_price_usd": math.nan, "given_area_mm2": math.nan}
    numbers = [
        die_numbers(random, count) | made | tested | {"core_area_mm2": random.uniform(1, 100), "harvest_units": 0.0}
        for count in (1.0, random.choice([1.0, 2.0]), random.choice([1.0, 2.0]))
    ]
    codes = [die_codes(random, -1) for _ in range(3)]
    dies = [(codes[0], altered(random, numbers[0]), layers[0])]
    for _ in range(random.randint(2, 3)):
        unit = len(dies)
        dies.append((codes[1] | {"parent": 0}, altered(random, numbers[1]), layers[1]))
        for _ in range(random.randint(1, 2)):
            dies.append((codes[2] | {"parent": unit}, altered(random, numbers[2]), layers[2]))
    return tables(dies, [], conventions)


def any_conventions(random: Random) -> list[str]:
    return [name for name in CONVENTIONS if random.random() < 0.5]


def written_out(package: PackageTables) -> PackageTables:
    """The same package with a row for every die, and one for those that are absent: a step of theirs is not
    one that names none. Its links may go out, or from a die to what it is mounted on."""
    parent_column, source, target = DIE_CODES.index("parent"), *map(LINK_CODES.index, ("source", "target"))
    rows: list[tuple[int, int]] = []
    for row, (codes, numbers) in enumerate(zip(package.die_codes, package.die_numbers, strict=True)):
        parents = [new for new, (old, _) in enumerate(rows) if old == codes[parent_column]] or [-1]
        rows += [(row, parent) for parent in parents for _ in range(max(int(numbers[0]), 1))]
    codes = package.die_codes[[row for row, _ in rows]]
    codes[:, parent_column] = [parent for _, parent in rows]
    numbers = package.die_numbers[[row for row, _ in rows]]
    numbers[:, 0] = np.minimum(numbers[:, 0], 1.0)
    links = [
        (link, new, parent if package.link_codes[link, target] >= 0 else -1)
        for link in range(len(package.link_codes))
        for new, (row, parent) in enumerate(rows)
        if row == package.link_codes[link, source]
    ]
    return PackageTables(
        codes,
        numbers,
        package.layer_numbers,
        package.step_numbers,
        np.array([ends for _, *ends in links], np.int64).reshape(-1, len(LINK_CODES)),
        package.link_numbers[[link for link, *_ in links]],
        package.conventions,
    )
