"""Cost models compared: tables as Table I, Fig. 2 and Table III of the paper, with what is published beside them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from sweeper.ranking.measures import MEASURES, drawn_scores, interval, scores
from sweeper.ranking.models import GROUPED, MODELS, PROTOCOLS
from sweeper.ranking.trials.relearning import WAYS
from sweeper.views.datasets import reading, scan
from sweeper.views.text import shown_table

BEST = ("ensemble", "network")
"""Ours; the first of them that was compared is what the others are compared with."""
PUBLISHED = {
    ("rules", "all"): (0.406, 0.468),
    ("published", "all"): (0.193, 0.808),
    ("published", "mlp"): (0.148, 0.778),
    ("published", "ffn"): (0.404, 0.563),
    ("published", "mha"): (0.139, 0.794),
    ("no_edges", "mlp"): (0.343, 0.291),
    ("no_edges", "ffn"): (0.576, 0.116),
    ("no_edges", "mha"): (0.297, 0.337),
    ("no_nodes", "mlp"): (0.205, 0.428),
    ("no_nodes", "ffn"): (0.413, 0.293),
    ("no_nodes", "mha"): (0.249, 0.477),
}
"""Relative error and rank correlation, on a chip and a compiler of SambaNova: tables I and III of the paper."""
ALL = "all"
ABOUT = {name: model.about for name, model in MODELS.items()} | WAYS
"""Models, and ways to learn a change, in words."""


def read_predictions(directory: str) -> pl.DataFrame:
    """Predictions of all models, in the order of decisions."""
    with reading(directory):
        return scan(directory).sort("protocol", "model", "point_id").collect()


def compared(directory: str) -> dict[str, Any]:
    """What the models attain, as plain data: over all decisions with intervals, by kind of block, and by how much ours
    is better."""
    frame = read_predictions(directory)
    names = [name for name in ABOUT if name in frame["model"].unique()]
    protocols = sorted(frame["protocol"].cast(str).unique(), key=_rank)
    over_all = [row for protocol in protocols for name in names for row in _over_all(frame, protocol, name)]
    blocks = [row for name in names for row in _by_block(frame, name)]
    return {"over_all": over_all, "by_block": blocks, "better": list(_better(frame, names))}


def _rank(protocol: str) -> int:
    """Position of a protocol: those of PROTOCOLS, or by number of graphs."""
    return PROTOCOLS.index(protocol) if protocol in PROTOCOLS else int(protocol.split()[0])


def _of(frame: pl.DataFrame, protocol: str, model: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions, labels and graphs of a model."""
    own = frame.filter(protocol=protocol, model=model)
    return own["predicted"].to_numpy(), own["label"].to_numpy(), own["graph"].to_numpy()


def _over_all(frame: pl.DataFrame, protocol: str, model: str) -> Iterator[dict[str, Any]]:
    own = _of(frame, protocol, model)
    if len(own[0]):
        found, draws = scores(*own), drawn_scores(*own)
        yield {
            "protocol": protocol,
            "model": model,
            **dict(zip(MEASURES, found.tolist())),
            **{f"{name}_interval": interval(draws[:, i]) for i, name in enumerate(MEASURES)},
            "published": PUBLISHED.get((model, ALL)),
        }


def _by_block(frame: pl.DataFrame, model: str) -> Iterator[dict[str, Any]]:
    for block in sorted(frame["block"].cast(str).unique()):
        own = _of(frame.filter(pl.col("block").cast(str) == block), GROUPED, model)
        if len(own[0]):
            found = dict(zip(MEASURES, scores(*own).tolist()))
            yield {"model": model, "block": block, **found, "published": PUBLISHED.get((model, block))}


def _better(frame: pl.DataFrame, names: list[str]) -> Iterator[dict[str, Any]]:
    """By how much the measures of others differ from those of ours, on the same graphs."""
    best = next((name for name in BEST if name in names), None)
    if best is None:
        return
    ours = drawn_scores(*_of(frame, GROUPED, best))
    for name in names:
        if name != best:
            apart = drawn_scores(*_of(frame, GROUPED, name)) - ours
            yield {"model": name, "than": best} | {key: interval(apart[:, i]) for i, key in enumerate(MEASURES)}


def text(found: dict[str, Any]) -> str:
    """The tables in words."""
    titles = ("protocol", "model", "RE", "", "rank", "", "within graph", "", "published RE, rank")
    rows = [
        (
            row["protocol"],
            ABOUT[row["model"]],
            *(cell for name in MEASURES for cell in (round(row[name], 3), span(row[f"{name}_interval"]))),
            _pair(row["published"]),
        )
        for row in found["over_all"]
    ]
    blocks = [
        (row["block"], ABOUT[row["model"]], *(round(row[name], 3) for name in MEASURES), _pair(row["published"]))
        for row in sorted(found["by_block"], key=lambda row: str(row["block"]))
    ]
    better = [(ABOUT[row["model"]], *(span(row[name]) for name in MEASURES)) for row in found["better"]]
    parts = [shown_table(titles, rows)]
    if blocks:
        columns = ("block", "model", "RE", "rank", "within graph", "published RE, rank")
        parts += ["by kind of block, grouped folds:", shown_table(columns, blocks)]
    if better:
        than = ABOUT[found["better"][0]["than"]]
        parts += [f"more than {than} has, 95 % of draws:", shown_table(("model", "RE", "rank", "within graph"), better)]
    return "\n\n".join(parts)


def span(ends: tuple[float, float]) -> str:
    """An interval in words."""
    return f"{ends[0]:.3f} to {ends[1]:.3f}"


def _pair(values: tuple[float, float] | None) -> str:
    return f"{values[0]:.3f}, {values[1]:.3f}" if values else ""
