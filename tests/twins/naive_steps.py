"""A unit built in steps, in plain Python, counted per unit that is started: how many are left after every test, how
many of those work, and what was spent on all of them; what one that is left costs is the quotient.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Values = Any
Found = dict[str, float]
Children = Sequence[tuple[Values, Found]]

CATEGORIES = ("silicon", "silicon_loss", "carrier", "carrier_loss", "assembling", "testing", "wasted")


def over(a: float, b: float) -> float:
    """A quotient as computers have it: by 0 infinite, or not a number."""
    return a / b if b else a * math.inf


def steps_of(package: Any, die: Values, children: Children) -> list[tuple[Values, Children, bool]]:
    """The steps of a die, the last of which is its own, what each of them mounts, and whether it places anything: not
    where all that it names has a count of 0."""
    numbers = [*package.steps[die.first_step : die.first_step + die.steps], die]
    named = {each.step for each in package.dies if each.parent == die.row}
    mounted = [[each for each in children if each[0].step == number] for number in range(len(numbers))]
    return [
        (step, some, bool(some) or number not in named) for number, (step, some) in enumerate(zip(numbers, mounted))
    ]


def machine_usd_per_s(package: Any, step: Values, which: str) -> float:
    price, life, operator, uptime = (
        getattr(step, f"assembly_{which}_{name}")
        for name in ("machine_price_usd", "machine_life_s", "operator_price_usd_per_s", "uptime")
    )
    running = price / life + operator
    return float(running * uptime if package.conventions.uptime_multiplies else running / uptime)


def machines_usd(package: Any, step: Values, mounted: float) -> float:
    rounds = math.ceil if package.conventions.whole_groups else float
    return sum(
        machine_usd_per_s(package, step, which)
        * getattr(step, f"assembly_{which}_time_s")
        * rounds(mounted / getattr(step, f"assembly_{which}_group"))
        for which in ("pick", "bond")
    )


def bump_price(package: Any, step: Values, child: Values, child_of: Found) -> float:
    """Price of the bumps of equal children; with `bumps_once` only one of them has any."""
    bumped = 1.0 if package.conventions.bumps_once else child.count
    return float(step.assembly_bump_price_usd_per_mm2 * bumped * child_of["area_mm2"])


def placements(step: Values, children: Children) -> float:
    """Probability that all are placed well."""
    return math.prod(
        (step.assembly_alignment_yield if math.isnan(child.given_placement_yield) else child.given_placement_yield)
        ** child.count
        for child, _ in children
    )


def mounted_area(children: Children) -> float:
    return sum(child.count * of["area_mm2"] for child, of in children if not child.buried)


def covered_area(die: Values, mounted: Children, children: Children) -> float:
    """Area that the step covers: its part of the fuller side, or of all by a factor."""
    if not mounted_area(mounted):
        # A lid, or what is buried: over all of it.
        mounted = children
    if die.assembly_area_factor:
        return float(die.assembly_area_factor * mounted_area(mounted))
    sides = []
    for back in (0, 1):
        here, every = (
            sum(
                child.count * grown(of["area_mm2"], die.assembly_separation_mm / 2, child.aspect_ratio)
                for child, of in some
                if child.back == back and not child.buried
            )
            for some in (mounted, children)
        )
        sides.append(grown(every, die.assembly_edge_mm, 1.0) * here / every if every else 0.0)
    return max(sides)


def grown(area: float, margin: float, aspect: float) -> float:
    """A rectangle with a margin all around."""
    if not area:
        return 0.0
    return (math.sqrt(area * aspect) + 2 * margin) * (math.sqrt(area / aspect) + 2 * margin)


def build(
    package: Any,
    die: Values,
    children: Children,
    of: Found,
    bonds_of: Callable[[Children], float],
    test_usd: Callable[[Values, Children], float],
) -> None:
    """All steps. The die by itself is known; `bonds_of` counts the bonds of what is mounted, `test_usd` is what testing
    the unit costs after a step, all that is mounted by then given."""
    conventions = package.conventions
    quality = "self_quality" if conventions.quality_before_assembly else "quality"
    started = given_price(die, of)
    left, working, yields = 1.0, of["self_quality"], 1.0
    spent = dict.fromkeys(CATEGORIES, 0.0)
    kind = "carrier" if die.carrier else "silicon"
    spent[kind] += started["made"]
    spent[f"{kind}_loss"] += started["lost"]
    spent["testing"] += started["tested"]
    kept = dict(spent)
    usd, perfect = of["self_price_usd"], started["made"] + started["tested"]
    carbon, energy = of.pop("own_carbon_kg"), of.pop("own_energy_J")
    of["assembly_usd"] = of["assembly_test_usd"] = of["bump_usd"] = 0.0
    there: list[tuple[Values, Found]] = []
    ready = given_lead_time(die)
    every = steps_of(package, die, children)
    # Vias are made with the carrier and end at the first step that places anything.
    vias_left = of["vias"]
    for step, mounted, places in every:
        there += mounted
        for _, child_of in mounted:
            child_of["join_share"] = left
        ready = max([ready, *(child_of["lead_time_s"] for _, child_of in mounted)])
        ready += step.assembly_cycle_time_s if children and places else 0.0
        count = sum(child.count for child, _ in mounted)
        covered = covered_area(die, mounted, children)
        well = (
            placements(step, mounted)
            * step.assembly_bond_yield ** bonds_of(mounted)
            * die.assembly_tsv_yield**vias_left
            * (step.assembly_step_yield if children else 1.0)
            / (1 + step.assembly_bond_defect_density_per_mm2 * covered)
        )
        seen = bool(step.test_assembly_tested and of["finally_tested"])
        if not children:
            well = well if conventions.bare_dies_tested_twice else 1.0
        elif not places:
            well = 1.0
        if places:
            vias_left = 0.0
        yields *= well
        for child, child_of in mounted:
            well *= child_of[quality] ** child.count
        if conventions.late_process_yield:
            well *= die.wafer_process_yield
        mounting = bumps = 0.0
        if children and places:
            # A step without dies places one thing, as a lid.
            mounting = machines_usd(package, step, count or 1.0) + step.assembly_package_price_usd
            mounting += step.assembly_material_price_usd_per_mm2 * covered
        testing = test_usd(step, there) if seen else 0.0
        added = {name: sum(child.count * child_of[f"{name}_usd"] for child, child_of in mounted) for name in CATEGORIES}
        for child, child_of in mounted:
            bump = bump_price(package, step, child, child_of)
            added["carrier" if child.carrier else "silicon"] += bump
            bumps += bump
        added["assembling"] += mounting
        added["testing"] += testing
        of["assembly_usd"] += left * mounting
        of["assembly_test_usd"] += left * testing
        of["bump_usd"] += left * bumps
        parts = sum(child.count * child_of["price_usd"] for child, child_of in mounted)
        usd += left * (parts + mounting + testing + bumps)
        perfect += sum(child.count * child_of["perfect_price_usd"] for child, child_of in mounted)
        perfect += mounting + testing + bumps
        footprint = step.assembly_carbon_kg_per_mm2 * of["area_mm2"] if children and places else 0.0
        carbon += left * (sum(child.count * child_of["carbon_kg"] for child, child_of in mounted) + footprint)
        energy += left * sum(child.count * child_of["energy_J"] for child, child_of in mounted)
        for name, value in added.items():
            spent[name] += left * value
            kept[name] += value
        coverage = step.test_assembly_coverage if seen else 0.0
        working *= well
        of["assembled_true_yield"] = working if len(every) == 1 else left * (working / left)
        left = working + (left - working) * (1 - coverage)
    of["assembly_yield"], of["assembled_test_yield"], of["quality"] = yields, left, over(working, left)
    of["price_usd"], of["perfect_price_usd"] = over(usd, left), perfect
    of["carbon_kg"], of["energy_J"] = over(carbon, left), over(energy, left)
    of["lead_time_s"] = ready
    for name in ("silicon", "silicon_loss", "carrier", "assembling", "testing"):
        of[f"{name}_usd"] = kept[name]
    dies, rest = ("silicon", "silicon_loss", "wasted"), ("carrier", "carrier_loss", "assembling", "testing")
    of["wasted_usd"] = over(sum(spent[name] for name in dies), left) - kept["silicon"] - kept["silicon_loss"]
    unlost = sum(kept[name] for name in rest if name != "carrier_loss")
    of["carrier_loss_usd"] = over(sum(spent[name] for name in rest), left) - unlost


def given_lead_time(die: Values) -> float:
    """Time of the wafers of a die, one after the other where it has several layers, or of buying it."""
    stated = float(die.given_lead_time_s)
    return float(sum(layer.cycle_time_s for layer in die.stack)) if math.isnan(stated) else stated


def given_price(die: Values, of: Found) -> Mapping[str, float]:
    """What the die by itself costs: making it, testing it, and those that fail."""
    if not math.isnan(die.given_price_usd):
        return {"made": die.given_price_usd, "tested": 0.0, "lost": 0.0}
    made, tested = of["layer_price_usd"], of["self_test_usd"]
    return {"made": made, "tested": tested, "lost": of["self_price_usd"] - made - tested}
