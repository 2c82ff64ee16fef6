"""The cost of a package design in Monte Carlo draws, and which die of it each dollar stems from."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweeper.designs.package_draws import results_of, split_path, uncertain_inputs
from sweeper.kernels.equation import Output
from sweeper.kernels.packages.equations import TOLD, told_of_each
from sweeper.kernels.packages.layout import RESULT, RESULTS
from sweeper.library.entries import Value
from sweeper.library.library import Library
from sweeper.library.packages.design import PackageDesign
from sweeper.library.uncertain import key_of, values_in
from sweeper.study.settings import Settings

TOTAL = Output("package_total_usd", "usd", "cost of one package that works, with its share of design")

OUTPUTS = {output.name: output for output in (*(output for equation in TOLD for output in equation.outputs), TOTAL)}
"""Columns that are found of a design in every draw."""

SAMPLE = 20_000
"""Draws of which inputs are kept, for rank correlations: their standard error is below 0.01."""


@dataclass(frozen=True, eq=False)
class CostDraws:
    """A design under some settings: results [die, RESULTS] of draw 0; OUTPUTS and status [draw], 0 first; uncertain
    inputs [draw] of the first draws, at most SAMPLE of them. `values` tells range, source and grade of the inputs."""

    design: PackageDesign
    settings: Settings
    results: np.ndarray
    columns: Mapping[str, np.ndarray]
    status: np.ndarray
    inputs: Mapping[str, np.ndarray]
    values: Mapping[str, Value]

    @property
    def total_usd(self) -> np.ndarray:
        """Cost of one package that works with its share of design, in every draw; NaN where it has none."""
        return self.columns[TOTAL.name]


def draw_costs(design: PackageDesign, library: Library, settings: Settings, draws: int) -> CostDraws:
    """Evaluate a design for its own values and in draws 1 to `draws`."""
    columns = {name: np.empty(draws + 1) for name in OUTPUTS}
    status, first = np.empty(draws + 1), np.empty(0)
    start = 0
    for results in results_of(design, library, settings, np.arange(draws + 1.0)):
        at = slice(start, start + len(results))
        for name, values in columns_of(results).items():
            columns[name][at] = values
        status[at] = results[:, 0, RESULTS.index("status")]
        first = results[0].copy() if start == 0 else first
        start += len(results)
    uncertain, kept = uncertain_inputs(design, library, settings), np.arange(min(draws, SAMPLE) + 1.0)
    inputs = {name: values_in(kept, value, key_of(*split_path(name))) for name, value in uncertain.items()}
    return CostDraws(design, settings, first, columns, status, inputs, uncertain)


def made_of(parents: Sequence[int], named: np.ndarray) -> np.ndarray:
    """How many of each die are mounted for one of its copies in a package that passes its last test, [..., die].

    Of a die mounted in units of which a share passes the test it is one over this share, on every level up to the
    package; of one mounted in a later step, only for units that get so far.
    """
    made = np.empty(named.shape)
    for die, parent in enumerate(parents):
        above = made[..., parent] * named["join_share"][..., die] if parent >= 0 else 1.0
        made[..., die] = above / named["assembled_test_yield"][..., die]
    return made


def attributed(parents: Sequence[int], results: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What of the price of a package stems from each die, and from mounting others on it: two arrays [..., die].

    `results` are [..., die, RESULTS]. The sum over dies of both is the price of the root.
    """
    named = results.view(RESULT)[..., 0]
    copies, present = named["copies"] * made_of(parents, named), named["copies"] > 0.0
    mounting = named["assembly_usd"] + named["assembly_test_usd"] + named["bump_usd"]
    return np.where(present, copies * named["self_price_usd"], 0.0), np.where(present, copies * mounting, 0.0)


def columns_of(results: np.ndarray) -> dict[str, np.ndarray]:
    """OUTPUTS [draw] of a package from results [draw, die, RESULTS]; NaN where a number is not finite. The total is
    without a design of which no share is known."""
    names = [output.name for equation in TOLD for output in equation.outputs]
    rows = np.empty((len(results), len(names)))
    told_of_each(results, rows)
    rows[~np.isfinite(rows)] = math.nan
    columns = dict(zip(names, rows.T, strict=True))
    return {**columns, TOTAL.name: columns["package_cost_usd"] + np.nan_to_num(columns["package_design_usd"])}
