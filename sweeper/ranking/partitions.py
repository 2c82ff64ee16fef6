"""Unit models: what share of its bound a partition reaches, learned from the operators of graphs that were placed.

The label of a graph is the best of its placements: a search finds that one. Graphs of the same number are the same on
all fabrics of a study, so that folds keep them together.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sweeper.errors import EnvironmentFault, UsageFault
from sweeper.kernels.shared.demand import (
    DEMANDS,
    FIELDS,
    HIDDEN,
    Sites,
    UnitModel,
    demands,
    share_by_rules,
    share_learned,
)
from sweeper.library.entries import Entry
from sweeper.library.library import Library
from sweeper.library.unit_models import model_hash
from sweeper.placing.blocks import block
from sweeper.placing.cutting import Operator, Units
from sweeper.placing.labels import LABEL
from sweeper.placing.place import units_of
from sweeper.ranking.dataset import assert_dealt
from sweeper.ranking.measures import rank, relative_errors
from sweeper.views.datasets import reading, scan
from sweeper.views.text import shown_table
from sweeper.words.fabrics import FABRIC

SHAPE = {"hidden_layer_sizes": (HIDDEN,), "activation": "tanh", "solver": "lbfgs", "alpha": 0.5, "max_iter": 5000}
"""The network that scikit-learn trains, and how much large weights cost."""
MEAN, RULES, LEARNED = WAYS = ("mean", "rules", "learned")
"""Ways of telling a share: the mean of all others, the busiest part, the network."""


@dataclass(frozen=True, eq=False)
class Partitions:
    """Placed partitions of a study: demands [partition, DEMANDS], the share that the best placement of each reaches,
    its fabric and the number of its graph."""

    study: str
    demands: np.ndarray
    share: np.ndarray
    fabric: np.ndarray
    graph: np.ndarray

    def taken(self, at: np.ndarray) -> "Partitions":
        """Some of them."""
        return Partitions(self.study, self.demands[at], self.share[at], self.fabric[at], self.graph[at])

    @property
    def by_rules(self) -> np.ndarray:
        """Shares as the rules say."""
        return np.array([share_by_rules(row) for row in self.demands])


def sites_of(fabric: Entry) -> Sites:
    """Numbers of a fabric as its partitions are cut."""
    by_column = {attribute.column: fabric.values[name].number for name, attribute in FABRIC.items()}
    return Sites(*(by_column[name] for name in Sites._fields))


def demands_of(operators: list[Operator], units: Units, sites: Sites) -> np.ndarray:
    """What operators ask for that are cut as their sharding says."""
    found = np.empty(len(DEMANDS))
    demands(np.array([_row(each, units) for each in operators]), len(operators), sites, found)
    return found


def _row(operator: Operator, units: Units) -> list[float]:
    """An operator with its pieces. The inner dimension of a batch is not cut."""
    how = operator.sharding
    cycles = 0.0 if operator.inner else units.cycles[operator.function]
    row = [
        operator.rows, operator.columns, operator.inner, cycles, operator.inner > 0 and len(operator.inputs) > 1,
        how.rows, how.columns, how.inner if operator.inner and operator.batch == 1 else 1,
    ]  # fmt: skip
    assert len(row) == FIELDS
    return [float(value) for value in row]


def read_partitions(directory: str, library: Library) -> Partitions:
    """Partitions of a finished dataset of labels. Raises NoDataset, UsageFault for a dataset of another kind."""
    with reading(directory):
        data = scan(directory)
        if LABEL not in data.collect_schema():
            raise UsageFault(f"{directory} holds no labelled placements; run a study of placements")
        best = data.filter("feasible").group_by("fabric", "graph").agg(
            pl.col(LABEL).max(), pl.col("block", "sizes", "shard").first()
        )  # fmt: skip
        rows = best.with_columns(pl.col("fabric", "block").cast(str)).sort("fabric", "graph").collect()
    entries = {name: library.asked("fabric", name) for name in rows["fabric"].unique()}
    units = {name: units_of(entry) for name, entry in entries.items()}
    sites = {name: sites_of(entry) for name, entry in entries.items()}
    found = [
        demands_of(block(kind, json.loads(sizes), json.loads(shard)), units[fabric], sites[fabric])
        for fabric, kind, sizes, shard in rows.select("fabric", "block", "sizes", "shard").iter_rows()
    ]
    name = directory.rstrip("/").rpartition("/")[2].rpartition("-")[0]
    return Partitions(name, np.array(found), *(rows[key].to_numpy() for key in (LABEL, "fabric", "graph")))


def trained(partitions: Partitions, seed: int = 0) -> UnitModel:
    """A network that has learned by how much shares differ from those of the rules. Raises EnvironmentFault."""
    try:
        from sklearn.neural_network import MLPRegressor
    except ImportError:
        raise EnvironmentFault("scikit-learn trains: pip install sweeper[placement]") from None
    low, high = partitions.demands.min(0), partitions.demands.max(0)
    mean, deviation = partitions.demands.mean(0), partitions.demands.std(0)
    # What is the same in all of them tells nothing.
    scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=deviation > 1e-9 * np.abs(mean))
    beyond = np.log(partitions.share / partitions.by_rules)
    network = MLPRegressor(random_state=seed, **SHAPE).fit((partitions.demands - mean) * scale, beyond)
    first, second = network.coefs_
    weights = first.T * scale
    hidden = np.column_stack([weights, network.intercepts_[0] - weights @ mean])
    return UnitModel(np.column_stack([low, high]), hidden, np.append(second[:, 0], network.intercepts_[1]))


def shares_of(model: UnitModel, partitions: Partitions) -> np.ndarray:
    """Shares as a network says."""
    return np.array([share_learned(row, model) for row in partitions.demands])


def validated(partitions: Partitions, folds: int) -> dict[str, Any]:
    """Errors of every way on graphs that it has not learned from, over all and by fabric. Raises UsageFault for fewer
    graphs than folds."""
    assert_dealt(partitions.graph, folds)
    graphs, number = np.unique(partitions.graph, return_inverse=True)
    fold = (np.random.default_rng(0).permutation(len(graphs)) % folds)[number]
    predicted = {way: np.empty(len(partitions.share)) for way in WAYS}
    for each in range(folds):
        seen, asked = partitions.taken(fold != each), partitions.taken(fold == each)
        predicted[MEAN][fold == each] = seen.share.mean()
        predicted[RULES][fold == each] = asked.by_rules
        predicted[LEARNED][fold == each] = shares_of(trained(seen), asked)
    parts = {"all": np.full(len(fold), True)}
    parts |= {name: partitions.fabric == name for name in dict.fromkeys(partitions.fabric)}
    return {"folds": folds, "parts": {name: _measured(partitions.share, predicted, at) for name, at in parts.items()}}


def _measured(share: np.ndarray, predicted: dict[str, np.ndarray], at: np.ndarray) -> dict[str, Any]:
    return {
        "partitions": int(at.sum()),
        "mean_share": float(share[at].mean()),
        **{
            way: {
                "relative_error": float(relative_errors(values[at], share[at]).mean()),
                "rank": rank(values[at], share[at]),
            }
            for way, values in predicted.items()
        },
    }


def text(found: dict[str, Any]) -> str:
    """Errors as a table."""
    titles = ("fabric", "partitions", "mean share", *(f"{way} {what}" for way in WAYS for what in ("RE", "rank")))
    return shown_table(
        titles,
        [
            (name, part["partitions"], part["mean_share"], *(value for way in WAYS for value in part[way].values()))
            for name, part in found["parts"].items()
        ],
    )


def as_yaml(name: str, model: UnitModel, partitions: Partitions) -> str:
    """A unit model as a library has it."""
    fabrics = ", ".join(dict.fromkeys(partitions.fabric))
    lines = [
        f"# Written by sweeper fit-units; weights with hash {model_hash(model)}.",
        "",
        f"{name}:",
        f"  description: what share of its bound a partition reaches, learned from {len(partitions.share)} placed ones",
        f'  source: "sweeper fit-units {partitions.study} --save {name}.yaml"',
        "  grade: fitted",
        f"  fits: {{fabric: [{fabrics}]}}",
        "  ranges:",
        *(f"    {key}: [{low!r}, {high!r}]" for key, (low, high) in zip(DEMANDS, model.ranges.tolist())),
        "  hidden:",
        *(f"    - {row}" for row in model.hidden.tolist()),
        f"  last: {model.last.tolist()}",
        "",
    ]
    return "\n".join(lines)
