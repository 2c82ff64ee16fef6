"""Published figures against ours, twice: under the publisher's assumptions, and with the full physics.

What was claimed is data: `specs/claims/<name>.yaml` gives each figure's definition, and this module only evaluates it.
The first column shows that we compute what they computed; the second, which of their claims survive without their
assumptions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

import polars as pl
import yaml
from pydantic import BaseModel, model_validator

from sweeper.errors import UsageFault, unknown
from sweeper.library.library import builtin_specs
from sweeper.views.analysis import feasible, geometric_mean, where

Datasets = pl.DataFrame | Mapping[str, pl.DataFrame]
"""Frames by dataset name; a single frame stands for the first dataset of the claims file."""

Points = dict[str, list[str | int]]
"""A set of points: columns with the values that they may take."""


class Tolerance(BaseModel, extra="forbid", frozen=True):
    """When ours counts as theirs: within the wider of `relative` and `last_digit` units of the last printed digit."""

    relative: float
    last_digit: float

    def around(self, published: str) -> float:
        """Half-width of the interval around a printed figure, in the figure's unit."""
        figure = Decimal(published)
        last_digit = 10.0 ** int(figure.as_tuple().exponent)
        return max(self.relative * abs(float(figure)), self.last_digit * last_digit)


class Figure(BaseModel, extra="forbid", frozen=True):
    """One printed figure: its digits as `published`, and the column of the dataset that it speaks about."""

    published: str
    value: str


class Claim(BaseModel, extra="forbid", frozen=True):
    """A comparison of two sets of points (or one point's value), with the figures published for it, by id.

    `where` restricts both sides; `cells` is how many points `group` (and `versus`) must select. `causes` are the
    differences between the two studies that move the figures most, if full physics does.
    """

    claim: str
    source: str
    dataset: str = ""
    where: Points = {}
    group: Points
    versus: Points | None = None
    cells: list[int]
    figures: dict[str, Figure]
    causes: list[str] = []

    @property
    def sides(self) -> list[Points]:
        """The sets of points compared: `group`, then `versus` if there is one."""
        return [self.where | side for side in (self.group, self.versus) if side is not None]

    @model_validator(mode="after")
    def _one_count_per_side(self) -> Self:
        if len(self.cells) != len(self.sides):
            raise ValueError(f"cells gives {len(self.cells)} counts for {len(self.sides)} sets of points")
        return self


class Dataset(BaseModel, extra="forbid", frozen=True):
    """Points that claims speak about, and the studies that give them under either set of assumptions."""

    about: str
    as_published: str
    full_physics: str


class Claims(BaseModel, extra="forbid", frozen=True):
    """A file of claims. `quantities` says each value column in words; `points` only names what the claims refer to."""

    name: str
    source: str
    tolerance: Tolerance
    datasets: dict[str, Dataset]
    quantities: dict[str, str]
    points: dict[str, Points]
    claims: list[Claim]


@dataclass(frozen=True)
class Measured:
    """What a dataset says about a figure: `value` (None if unknown), and infeasible points left out of `points`."""

    value: float | None = None
    infeasible: int = 0
    points: int = 0


PUBLISHER = {True: "reproduced", False: "not reproduced", None: "not evaluated as published"}
"""What to say of a figure under the publisher's assumptions, by whether ours meets it."""

PHYSICS = {
    True: "full physics agrees",
    False: "full physics gives {:.4g} ({:+.1%})",
    None: "not evaluated with full physics",
}
"""What to say of it with the full physics: its value, and the change against what the publisher's assumptions give."""


def published(name: str) -> Claims:
    """The claims of `specs/claims/<name>.yaml`. UsageFault if there is no such file, ValueError if it is malformed."""
    folder = builtin_specs() / "claims"
    path = folder / f"{name}.yaml"
    if not path.exists():
        raise UsageFault(unknown("set of claims", name, [file.stem for file in folder.glob("*.yaml")]))
    return Claims.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def claims(name: str, as_published: Datasets, full_physics: Datasets) -> list[dict[str, Any]]:
    """One row per published figure of `name`, in the file's order.

    `as_published` and `full_physics` are datasets of the same points under the publisher's assumptions and under ours.
    Keys: `id`, `claim`, `source`, `published`, `as_published`, `full_physics` (None where the dataset is not given or
    no feasible point is left), `tolerance` (half-width, in the figure's unit), `within` (as_published meets the
    figure), `changes` (it does, and full_physics does not; None if either is None), `verdict`, the same in words, and
    `why`, the causes of a change.
    ValueError if a given dataset does not hold the points that a claim is about.
    """
    file = published(name)
    default = next(iter(file.datasets))
    ours, full = _by_name(as_published, default), _by_name(full_physics, default)
    rows = []
    for claim in file.claims:
        dataset = claim.dataset or default
        for key, figure in claim.figures.items():
            before = measure(key, claim, figure.value, ours.get(dataset))
            after = measure(key, claim, figure.value, full.get(dataset))
            row = {"id": key, "claim": f"{claim.claim}, {file.quantities[figure.value]}", "source": claim.source}
            judged = _judge(figure.published, file.tolerance.around(figure.published), before, after)
            rows.append(row | judged | {"why": ", ".join(claim.causes) if judged["changes"] else ""})
    return rows


def _by_name(datasets: Datasets, default: str) -> Mapping[str, pl.DataFrame]:
    return {default: datasets} if isinstance(datasets, pl.DataFrame) else datasets


def measure(key: str, claim: Claim, value: str, dataset: pl.DataFrame | None) -> Measured:
    """The figure `key` of `claim` in `dataset`. ValueError if a side selects another number of points than stated."""
    if dataset is None:
        return Measured()
    selected = [dataset.filter(where(side)) for side in claim.sides]
    heights = [side.height for side in selected]
    if heights != claim.cells:
        raise ValueError(f"claim {key} compares {claim.cells} points, the dataset has {heights}: {claim.sides}")
    usable = [feasible(side).collect() for side in selected]
    means = [side.select(geometric_mean(value, pl.lit(True))).item() for side in usable]
    answer = None if None in means else means[0] / means[1] if len(means) == 2 else means[0]
    return Measured(answer, sum(heights) - sum(side.height for side in usable), sum(heights))


def _judge(printed: str, tolerance: float, before: Measured, after: Measured) -> dict[str, Any]:
    """The part of a row that compares the two values with the printed figure."""
    figure = float(printed)
    within, holds = (None if ours.value is None else abs(ours.value - figure) <= tolerance for ours in (before, after))
    changes = None if within is None or holds is None else within and not holds
    base = figure if before.value is None else before.value
    physics = PHYSICS[holds].format(after.value, 0.0 if after.value is None else after.value / base - 1.0)
    reversed_ratio = after.value is not None and (figure - 1.0) * (after.value - 1.0) < 0.0
    remarks = ["the comparison is reversed"] if reversed_ratio else []
    if after.infeasible:
        remarks.append(f"{after.infeasible} of {after.points} points infeasible")
    return {
        "published": figure,
        "as_published": before.value,
        "full_physics": after.value,
        "tolerance": tolerance,
        "within": within,
        "changes": changes,
        "verdict": "; ".join([PUBLISHER[within], physics, *remarks]),
    }
