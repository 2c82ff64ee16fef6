"""How small is too small: the number of equal chiplets of 800 mm2 of logic at which a package costs the least, by node
and defect density, and how sure that is.

Many chiplets lose little silicon to defects, but pay for interfaces, area of the interposer and placements that fail.
All numbers of chiplets share their draws, so that the best one is known in each draw.

`python -m replications.chiplet_study` prints the table.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from sweeper.designs.package_draws import evaluate_design
from sweeper.library.library import Library, builtin_specs
from sweeper.library.packages.reader import read_package
from sweeper.library.uncertain import DRAW
from sweeper.views.frames import frame_of
from sweeper.views.text import listing
from sweeper.views.uncertainty import bands

STUDY = "chiplet_count"
DRAWS = tuple(range(301))
CELL = ("node", "node_defect_density_per_mm2")
COUNT = "package_chiplets"


def cells(rows: pl.DataFrame) -> list[tuple[str, float]]:
    """Nodes and defect densities (1/mm2) of the study."""
    return list(rows.select(*CELL).unique(maintain_order=True).iter_rows())


def costs_by_count(
    node: str, defect_density: float, counts: Sequence[float], draws: Sequence[float] = DRAWS
) -> pl.DataFrame:
    """Cost in USD of a package that works by number of chiplets and draw: `count`, `draw`, `cost`, and `with_design`,
    which includes its share of design and masks."""
    library = Library.load([builtin_specs()])
    design = read_package(library.find("package", "chiplets"), library)
    frames = []
    for count in counts:
        places: dict[str, float | str] = {"node.defect_density": defect_density, "package.chiplets": count}
        evaluated = evaluate_design(design, library, {"node": node, **places}, draws)
        frame = pl.DataFrame({DRAW: np.asarray(draws, np.float64), "cost": evaluated.cost_usd})
        with_design = evaluated.cost_usd + evaluated.of("design_usd_with_children")
        frames.append(frame.with_columns(pl.lit(count).alias("count"), pl.Series("with_design", with_design)))
    return pl.concat(frames)


def best_counts(costs: pl.DataFrame, cost: str = "cost") -> pl.DataFrame:
    """The number of chiplets of least cost in each draw, and that cost: `draw`, `count`, `least`."""
    return costs.sort(cost, "count").group_by(DRAW).first().select(DRAW, "count", least=cost).sort(DRAW)


def optimum(costs: pl.DataFrame, cost: str = "cost") -> dict[str, Any]:
    """The best number of chiplets: for the values (`best`), in the draws (quantiles, and shares of the most frequent
    ones), the band of the least cost, and of what one die costs over it."""
    best = best_counts(costs, cost)
    drawn = best.filter(pl.col(DRAW) > 0.0)
    counts = drawn["count"].to_numpy()
    low, middle, high = np.quantile(counts, (0.05, 0.5, 0.95), method="nearest")
    shares = {int(count): float((counts == count).mean()) for count in np.unique(counts)}
    one = costs.filter(pl.col("count") == 1.0, pl.col(DRAW) > 0.0).sort(DRAW)[cost].to_numpy()
    ratio = bands(one / drawn["least"].to_numpy())
    least = bands(drawn["least"].to_numpy())
    return {
        "best": best.filter(pl.col(DRAW) == 0.0)["count"].first(),
        "p5": float(low),
        "p50": float(middle),
        "p95": float(high),
        "shares": ", ".join(f"{count}: {share:.2f}" for count, share in shares.items()),
        "usd": best.filter(pl.col(DRAW) == 0.0)["least"].first(),
        "usd p5": least[0],
        "usd p95": least[2],
        "one die p5": ratio[0],
        "one die p95": ratio[2],
    }


def optima(cost: str = "cost", draws: Sequence[float] = DRAWS) -> list[dict[str, Any]]:
    """The optimum of every node and defect density of the study."""
    rows = frame_of(STUDY)
    counts = rows[COUNT].unique().sort().to_list()
    return [
        {"node": node, "defects/cm2": 100.0 * density} | optimum(costs_by_count(node, density, counts, draws), cost)
        for node, density in cells(rows.with_columns(pl.col("node").cast(pl.String)))
    ]


def report() -> str:
    """Tables of the optima, as text."""
    titles = {"cost": "Least cost of a package", "with_design": "The same with its share of design and masks"}
    blocks = {title: optima(cost) for cost, title in titles.items()}
    return "\n\n".join(
        f"{title}\n{listing(block, {name: name for name in block[0]})}" for title, block in blocks.items()
    )


if __name__ == "__main__":
    print(report())
