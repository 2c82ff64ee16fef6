"""How many HBM stacks, and how much logic: what Guo et al. 2025 (IMEC), section V.D, conclude of seven A100-like
designs, and in which share of the draws our model says the same.

What counts is a product: the cost of one package times the time of a work. Designs of equal product lie on one curve of
the paper's figure 7. The works are an iteration of training, 10^9 requests served on the whole cluster, and both
together: half the time of each, over that of A100-5HBM. Times are those of the values; the draws are of what packages
cost.

The paper states no numbers, only which product is the less. Its takeaways, as inequalities:

- T1: in training, the product of A100-5HBM is less than that of every other design;
- T2: in training, half a die with as many stacks (4, 6) has the larger product;
- T3: in inference, more stacks (5, 6, 8) have the smaller product, and so has half a die with as many stacks (4, 6);
- T4: of both works together, A100-5HBM has the least product of the designs that hold the model.

`python -m replications.a100_study` prints all tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sweeper.designs.package_draws import evaluate_design
from sweeper.library.library import Library, builtin_specs
from sweeper.library.packages.reader import read_package
from sweeper.library.uncertain import DRAW
from sweeper.views.frames import frame_of
from sweeper.views.text import listing
from sweeper.views.uncertainty import bands, rank_correlations

STUDY, SERVING, TRAINING = "a100_hbm_count", "a100_serving", "a100_training"

DESIGNS = {
    "A100-4HBM": (826.0, 4),
    "A100-5HBM": (826.0, 5),
    "A100-6HBM": (826.0, 6),
    "A100-8HBM": (826.0, 8),
    "HA100-3HBM": (413.0, 3),
    "HA100-4HBM": (413.0, 4),
    "HA100-6HBM": (413.0, 6),
}
"""Die area in mm2 and number of stacks, by the names of the paper."""

REFERENCE = "A100-5HBM"
WORKS = ("training", "inference", "combined")

BOXES = 128.0
"""Boxes of eight GPUs in the cluster; each serves by itself."""
REQUESTS = 1e9


@dataclass(frozen=True)
class PaperClaim:
    """A takeaway or a part of one: in `work`, the first design of each pair has a smaller product than the second."""

    name: str
    about: str
    work: str
    pairs: tuple[tuple[str, str], ...]


def _least(of: str, among: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple((of, other) for other in among if other != of)


_MORE = (("A100-6HBM", "A100-5HBM"), ("A100-8HBM", "A100-6HBM"))
_HALF = (("HA100-4HBM", "A100-4HBM"), ("HA100-6HBM", "A100-6HBM"))
_FITTING = tuple(design for design in DESIGNS if design != "HA100-3HBM")

CLAIMS = (
    PaperClaim("T1", "5 stacks on the full die are best", "training", _least(REFERENCE, tuple(DESIGNS))),
    PaperClaim("T1 more", "6 and 8 stacks are worse than 5", "training", _least(REFERENCE, ("A100-6HBM", "A100-8HBM"))),
    PaperClaim("T1 fewer", "4 stacks are worse than 5", "training", _least(REFERENCE, ("A100-4HBM",))),
    PaperClaim("T2", "half a die is worse, 4 and 6 stacks", "training", tuple((full, half) for half, full in _HALF)),
    PaperClaim("T3", "all of the next four", "inference", _MORE + _HALF),
    PaperClaim("T3 5-6", "6 stacks are better than 5", "inference", _MORE[:1]),
    PaperClaim("T3 6-8", "8 stacks are better than 6", "inference", _MORE[1:]),
    PaperClaim("T3 half 4", "half a die is better, 4 stacks", "inference", _HALF[:1]),
    PaperClaim("T3 half 6", "half a die is better, 6 stacks", "inference", _HALF[1:]),
    PaperClaim("T4", "5 stacks on the full die are best", "combined", _least(REFERENCE, _FITTING)),
    PaperClaim("T4 fewer", "4 stacks are worse than 5", "combined", _least(REFERENCE, ("A100-4HBM",))),
    PaperClaim("T4 all", "T4 with the design that does not fit", "combined", _least(REFERENCE, tuple(DESIGNS))),
)
"""The takeaways and their parts."""


def named(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of a study of these designs, with the column `design`."""
    names = pl.DataFrame(
        [(name, *place) for name, place in DESIGNS.items()],
        schema=["design", "package_die_area_mm2", "package_memory_stacks"],
        orient="row",
    )
    return rows.join(names, on=names.columns[1:], how="left", maintain_order="left")


def work_times(training: pl.DataFrame, inference: pl.DataFrame) -> pl.DataFrame:
    """Seconds of each work by design, of named rows of one draw: `training` an iteration, `inference` 10^9 requests,
    `combined` relative to A100-5HBM; and whether the design holds the model while it serves (`fits`)."""
    served = REQUESTS / (BOXES * pl.col("requests_per_s"))
    times = training.select("design", training=pl.col("iteration_time_s")).join(
        inference.select("design", "feasible", inference=served), on="design", maintain_order="left"
    )
    relative = [pl.col(work) / pl.col(work).filter(pl.col("design") == REFERENCE).first() for work in WORKS[:2]]
    return times.select("design", *WORKS[:2], combined=sum(relative) / 2.0, fits=pl.col("feasible"))


def study_times(rows: pl.DataFrame) -> pl.DataFrame:
    """Times of the works, of named rows of the study."""
    values = rows.filter(pl.col(DRAW) == 0.0)
    return work_times(values.filter(pl.col("task") == "training"), values.filter(pl.col("task") == "inference"))


def row_costs(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """A column of the study's training rows as cost: `design`, `draw`, `cost`."""
    return rows.filter(pl.col("task") == "training").select("design", pl.col(DRAW).cast(pl.Float64), cost=column)


def package_costs(
    package: str, draws: Sequence[float], settings: Mapping[str, float] | None = None, design_included: bool = False
) -> tuple[pl.DataFrame, dict[str, np.ndarray]]:
    """Cost in USD of the designs as a package of the library (`design`, `draw`, `cost`), and its uncertain inputs by
    name [draw], which are the same for all designs."""
    library = Library.load([builtin_specs()])
    tables = read_package(library.find("package", package), library)
    frames, inputs = [], {}
    for name, (area, stacks) in DESIGNS.items():
        place = {"package.die_area": area, "package.memory_stacks": stacks}
        evaluated = evaluate_design(tables, library, {**place, **(settings or {})}, draws)
        cost = evaluated.cost_usd + (evaluated.of("design_usd_with_children") if design_included else 0.0)
        frames.append(
            pl.DataFrame({DRAW: np.asarray(draws, np.float64), "cost": cost}).with_columns(design=pl.lit(name))
        )
        inputs = dict(evaluated.inputs)
    return pl.concat(frames).select("design", DRAW, "cost"), inputs


def products(times: pl.DataFrame, costs: pl.DataFrame) -> pl.DataFrame:
    """Cost times time of each work, by design and draw."""
    return costs.join(times, on="design", maintain_order="left").select(
        "design", DRAW, *((pl.col("cost") * pl.col(work)).alias(work) for work in WORKS)
    )


def margins(designs: pl.DataFrame, claim: PaperClaim) -> pl.DataFrame:
    """By how much a claim holds in each draw: of its pairs, the least of larger product over smaller one, less 1."""
    wide = designs.pivot("design", index=DRAW, values=claim.work).sort(DRAW)
    ratios = [pl.col(larger) / pl.col(smaller) - 1.0 for smaller, larger in claim.pairs]
    return wide.select(DRAW, margin=pl.min_horizontal(ratios))


def answers(designs: pl.DataFrame, claims: Sequence[PaperClaim] = CLAIMS) -> pl.DataFrame:
    """For each claim: its margin for the values (`margin`, null without draw 0), the share of draws in which it holds,
    and the band of the margin over draws."""
    rows = []
    for claim in claims:
        margin = margins(designs, claim)
        drawn = margin.filter(pl.col(DRAW) > 0.0)["margin"].to_numpy()
        value = margin.filter(pl.col(DRAW) == 0.0)["margin"]
        p5, p50, p95 = bands(drawn)
        share = float((drawn > 0.0).mean()) if drawn.size else float("nan")
        rows.append(
            {"claim": claim.name, "work": claim.work, "about": claim.about, "margin": value.first(), "share": share}
            | {"p5": p5, "p50": p50, "p95": p95}
        )
    return pl.DataFrame(rows)


def hinges(
    designs: pl.DataFrame, inputs: Mapping[str, np.ndarray], claim: PaperClaim, count: int = 4
) -> dict[str, float]:
    """Inputs with which the margin of a claim is most correlated by rank, over the draws from 1."""
    margin = margins(designs, claim).filter(pl.col(DRAW) > 0.0)["margin"].to_numpy()
    correlations = rank_correlations({name: values[-len(margin) :] for name, values in inputs.items()}, margin)
    return dict(list(correlations.items())[:count])


def needs(times: pl.DataFrame, costs: pl.DataFrame, claim: PaperClaim) -> pl.DataFrame:
    """Pairs of a claim as what the times must be: the second design has the larger product if its time over that of the
    first (`time_ratio`) exceeds the cost of the first over its own (`cost_ratio`, with its band)."""
    wide = costs.pivot("design", index=DRAW, values="cost").sort(DRAW)
    by_design = dict(times.select("design", claim.work).iter_rows())
    rows = []
    for smaller, larger in claim.pairs:
        ratio = wide.select(DRAW, ratio=pl.col(smaller) / pl.col(larger))
        p5, _, p95 = bands(ratio.filter(pl.col(DRAW) > 0.0)["ratio"].to_numpy())
        value = ratio.filter(pl.col(DRAW) == 0.0)["ratio"].first()
        rows.append(
            {"claim": claim.name, "less": smaller, "more": larger, "time_ratio": by_design[larger] / by_design[smaller]}
            | {"cost_ratio": value, "p5": p5, "p95": p95}
        )
    return pl.DataFrame(rows)


def turn(
    times: pl.DataFrame, package: str, claim: PaperClaim, setting: str, low: float, high: float, steps: int = 30
) -> tuple[bool, float | None]:
    """Whether a claim holds with a setting at `low`, for the values of all else, and where up to `high` it turns round;
    None if it says the same at both ends."""

    def holds(value: float) -> bool:
        costs, _ = package_costs(package, (0.0,), {setting: value})
        margin: float = margins(products(times, costs), claim)["margin"].item()
        return margin > 0.0

    at_low = holds(low)
    if holds(high) == at_low:
        return at_low, None
    for _ in range(steps):
        middle = (low + high) / 2.0
        low, high = (middle, high) if holds(middle) == at_low else (low, middle)
    return at_low, (low + high) / 2.0


STACK_PRICE_USD = (0.0, 2000.0)
"""Range in which a price of stacks is sought that turns a claim round."""


def summary(rows: pl.DataFrame) -> pl.DataFrame:
    """By design, of named rows of the study: times, cost with its band, products over those of A100-5HBM."""
    times, costs = study_times(rows), row_costs(rows, "package_cost_usd")
    drawn = pl.col("cost").filter(pl.col(DRAW) > 0.0)
    band = costs.group_by("design", maintain_order=True).agg(
        pl.col("cost").filter(pl.col(DRAW) == 0.0).first(),
        *(drawn.quantile(share, "linear").alias(name) for name, share in (("p5", 0.05), ("p50", 0.5), ("p95", 0.95))),
    )
    products_ = [
        (pl.col("cost") * pl.col(work) / (pl.col("cost") * pl.col(work)).filter(pl.col("design") == REFERENCE).first())
        .alias(f"{work} product")
        for work in WORKS
    ]  # fmt: skip
    return times.join(band, on="design", maintain_order="left").with_columns(products_)


def cost_sets(rows: pl.DataFrame, draws: Sequence[float]) -> dict[str, pl.DataFrame]:
    """Costs of the designs by several measures and libraries; those of CATCH have no ranges and only draw 0."""
    study = {
        "package": "package_cost_usd",
        "price at a margin": "accelerator_price_usd",
        "ownership per hour": "usd_per_chip_hour",
    }
    libraries = {
        "with design": ("a100", draws, None, True),
        "stacks built up": ("a100_built_up", draws, None, False),
        "CATCH, stock": ("a100_catch", (0.0,), None, False),
        "CATCH, public": ("a100_catch_public", (0.0,), None, False),
        "CATCH, public, 160 usd": ("a100_catch_public", (0.0,), {"package.stack_price": 160.0}, False),
    }
    sets = {title: row_costs(rows, column) for title, column in study.items()}
    return sets | {title: package_costs(*arguments)[0] for title, arguments in libraries.items()}


def shares_by_set(times: pl.DataFrame, sets: Mapping[str, pl.DataFrame]) -> list[dict[str, object]]:
    """Rows by claim: the share of draws in which it holds by each set of costs; of one without draws, yes or no."""
    rows: list[dict[str, object]] = [{"claim": claim.name} for claim in CLAIMS]
    for title, costs in sets.items():
        for row, answer in zip(rows, answers(products(times, costs)).to_dicts(), strict=True):
            row[title] = answer["margin"] > 0.0 if np.isnan(answer["share"]) else round(answer["share"], 3)
    return rows


def serving_answers(rows: pl.DataFrame, costs: pl.DataFrame) -> list[dict[str, object]]:
    """Shares of the claims on inference and both works by how requests are served, beside whether each design fits."""
    training = named(rows).filter(pl.col("task") == "training", pl.col(DRAW) == 0.0)
    chosen = [claim for claim in CLAIMS if claim.work != "training"]
    answered: list[dict[str, object]] = []
    for part in named(frame_of(SERVING)).partition_by(
        "microbatch", "sequence_length", "output_length", maintain_order=True
    ):
        served = part.row(0, named=True)
        times = work_times(training, part)
        shares = answers(products(times, costs), chosen)
        misfits = times.filter(~pl.col("fits"))["design"].to_list()
        answered.append(
            {"prompt": served["sequence_length"], "answer": served["output_length"], "together": served["microbatch"]}
            | {row["claim"]: round(row["share"], 3) for row in shares.to_dicts()}
            | {"does not fit": ", ".join(misfits)}
        )
    return answered


SETTING = ("zero_stage", "microbatch", "sequence_parallel")
"""Columns that tell settings of training apart."""
SURE = 0.95
"""Share of the draws, in favour or against, from which on a takeaway is determined."""


def verdict(share: float) -> str:
    """What a share of draws says of a takeaway."""
    return "yes" if share >= SURE else "no" if share <= 1.0 - SURE else "undetermined"


def training_answers(rows: pl.DataFrame, costs: pl.DataFrame) -> list[dict[str, object]]:
    """Shares of the claims on training and both works by setting of training, in each of which as little is computed
    again as fits; a design that holds no training state has an infinite time. Last, what all settings together say."""
    named_rows = named(rows)
    inference = named_rows.filter(pl.col("task") == "inference", pl.col(DRAW) == 0.0)
    chosen = [claim for claim in CLAIMS if claim.work != "inference"]
    answered: list[dict[str, object]] = []
    for part in named(frame_of(TRAINING)).partition_by(*SETTING, maintain_order=True):
        fitting = pl.when("feasible").then("iteration_time_s").otherwise(float("inf"))
        times = work_times(part.with_columns(iteration_time_s=fitting), inference)
        shares = {row["claim"]: row["share"] for row in answers(products(times, costs), chosen).to_dicts()}
        setting = part.row(0, named=True)
        again = dict(part.select("design", "recompute").iter_rows())
        answered.append(
            {name: setting[name] for name in SETTING}
            | {name: round(share, 3) for name, share in shares.items()}
            | {"4 stacks": again["A100-4HBM"], "5 stacks": again[REFERENCE]}
        )
    names = [claim.name for claim in chosen]
    least, most = (
        {name: extreme(float(str(row[name])) for row in answered) for name in names} for extreme in (min, max)
    )
    said = {
        name: verdict(most[name]) if verdict(least[name]) == verdict(most[name]) else "undetermined" for name in names
    }
    return [*answered, {**dict.fromkeys(SETTING, "all"), **said, "4 stacks": "", "5 stacks": ""}]


def _table(rows: Sequence[Mapping[str, object]]) -> str:
    return listing([dict(row) for row in rows], {name: name for name in rows[0]})


PARTS = ("T1 fewer", "T2", "T3 5-6", "T3 6-8", "T3 half 4", "T3 half 6", "T4 fewer")
"""Claims of few pairs, for the tables of what they need and hinge on."""


def turn_row(times: pl.DataFrame, claim: PaperClaim) -> dict[str, object]:
    """A row of the table of prices of stacks."""
    at_low, price = turn(times, "a100", claim, "part/hbm2e_16gb/price", *STACK_PRICE_USD)
    return {"claim": claim.name, "at 0 usd": at_low, "turns at usd": price}


def hinge_row(designs: pl.DataFrame, inputs: Mapping[str, np.ndarray], claim: PaperClaim) -> dict[str, str]:
    """A row of the table of inputs: the first ones, and their rank correlation."""
    named_ = [f"{name} {value:+.2f}" for name, value in hinges(designs, inputs, claim).items()]
    return {"claim": claim.name} | {str(number): text for number, text in enumerate(named_, 1)}


def report() -> str:
    """All tables of the study, as text."""
    rows = named(frame_of(STUDY))
    times, costs = study_times(rows), row_costs(rows, "package_cost_usd")
    draws = tuple(sorted(rows[DRAW].unique()))
    designs, (_, inputs) = products(times, costs), package_costs("a100", draws)
    parts = [claim for claim in CLAIMS if claim.name in PARTS]
    blocks: dict[str, Sequence[Mapping[str, object]]] = {
        "Designs: seconds, usd per package with its band, products over those of A100-5HBM": summary(rows).to_dicts(),
        "Claims: margin of the values, share of draws in which it is above 0, its band": answers(designs).to_dicts(),
        "What times must be: the product of `less` is the smaller one where time_ratio is above cost_ratio": pl.concat(
            [needs(times, costs, claim) for claim in parts]
        ).to_dicts(),
        "Inputs with the largest rank correlation with the margin": [hinge_row(designs, inputs, c) for c in parts],
        "Price of a stack, 0 to 2,000 usd, at which a claim turns round": [turn_row(times, c) for c in CLAIMS],
        "Shares by what counts as cost, and by library": shares_by_set(times, cost_sets(rows, draws)),
        "Shares by how requests are served": serving_answers(rows, costs),
        "Shares by setting of training, with what is computed again by 4 and 5 stacks": training_answers(rows, costs),
    }
    return "\n\n".join(f"{title}\n{_table(block)}" for title, block in blocks.items())


if __name__ == "__main__":
    print(report())
