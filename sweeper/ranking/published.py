"""The network of "Learned Cost Model for Placement on Reconfigurable Dataflow Hardware", as its Algorithm 1 says.

Units in use are nodes, the routes between them edges. A unit is known by its kind, what it does and its stage; a route
by its length. Widths and rounds are not given there, nor what is meant by MAX: it is read as max(., 0).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sweeper.kernels.placement.features import ACTOR, SINK
from sweeper.kernels.placement.judging.network import STAGES, STEEP, Layer
from sweeper.placing.graph import TASKS
from sweeper.ranking.dataset import Decisions, Table
from sweeper.ranking.network import KINDS, WIDE
from sweeper.ranking.recipe import Recipe
from sweeper.ranking.training import Batch, Learner, embedding, layer, mean_of

LENGTH = (SINK.index("hops"),)
"""Features of a route that the paper names."""


class Weights(NamedTuple):
    """Mean and deviation of features of units and of routes; embeddings; first layers; layers of the rounds; the
    perceptron at the end."""

    unit_scale: Any
    route_scale: Any
    task: Any
    stage: Any
    unit: Layer
    route: Layer
    edges: Layer
    nodes: Layer
    first: Layer
    second: Layer
    last: Layer


@dataclass(frozen=True)
class Sight:
    """What the network sees: whether units are known at all, which features they have besides; and which features
    routes have."""

    units: bool
    unit_features: tuple[int, ...]
    route_features: tuple[int, ...]


PUBLISHED = Sight(True, (), LENGTH)
NO_NODES, NO_EDGES = Sight(False, (), LENGTH), Sight(True, (), ())
EVERYTHING = Sight(True, tuple(range(len(ACTOR))), tuple(range(len(SINK))))
"""As in the paper; without embeddings of nodes; without those of edges; and with all features of ours."""


def tables(decisions: Decisions) -> Mapping[str, Table]:
    """Units in use with the kind, task and stage of their first actor and the largest of each feature; and routes."""
    units: list[np.ndarray] = []
    ends: list[np.ndarray] = []
    routes: list[np.ndarray] = []
    features: list[np.ndarray] = []
    own = decisions.tables
    for each in range(len(decisions)):
        names, first, number = np.unique(own["node_unit"].of(each), return_index=True, return_inverse=True)
        columns = [own[f"node_{name}"].of(each)[first] for name in ("kind", "task", "stage")]
        units.append(np.stack(columns, 1))
        most = np.zeros((len(names), len(ACTOR)))
        np.maximum.at(most, number, own["actor"].of(each))
        features.append(most)
        source, reader = number[own["sink_source"].of(each)], number[own["sink_reader"].of(each)]
        apart = source != reader
        ends.append(np.stack([source, reader], 1)[apart])
        routes.append(own["sink"].of(each)[apart])
    every, ways = stacked(units), stacked(ends)
    return {
        **{name: Table(every.rows[:, i], every.first) for i, name in enumerate(("kind", "task", "stage"))},
        **{name: Table(ways.rows[:, i], ways.first) for i, name in enumerate(("source", "reader"))},
        "unit": stacked(features),
        "route": stacked(routes),
    }


def stacked(rows: list[np.ndarray]) -> Table:
    """Rows of all decisions."""
    return Table(np.concatenate(rows), np.cumsum([0, *map(len, rows)]))


def initial(key: Any, decisions: Decisions, recipe: Recipe) -> Weights:
    """A network that knows nothing yet."""
    keys, width, rounds, seen = iter(jax.random.split(key, 16)), recipe.width, recipe.rounds, tables(decisions)
    task, stage = (embedding(next(keys), many, wide) for many, wide in zip((len(TASKS), STAGES), WIDE[1:]))
    return Weights(
        unit_scale=scale_of(seen["unit"].rows),
        route_scale=scale_of(seen["route"].rows),
        task=task,
        stage=stage,
        unit=layer(next(keys), KINDS + sum(WIDE[1:]) + len(ACTOR), width),
        route=layer(next(keys), len(SINK), width),
        edges=layer(next(keys), 2 * width, width, rounds),
        nodes=layer(next(keys), 2 * width, width, rounds),
        first=layer(next(keys), width, 64),
        second=layer(next(keys), 64, 32),
        last=Layer(np.zeros((32, 1)), np.zeros(1)),
    )


def scale_of(rows: np.ndarray) -> np.ndarray:
    """Mean and deviation of features as they enter."""
    entered = np.log1p(STEEP * np.maximum(rows, 0.0))
    return np.stack([entered.mean(0), entered.std(0) + 1e-3])


def log_shares(network: Weights, batch: Batch, many: int, sight: Sight) -> Any:
    """Logarithms of predicted shares: Algorithm 1."""

    def scaled(name: str, scale: Any, kept: tuple[int, ...]) -> Any:
        mask = jnp.zeros(batch[name].shape[1]).at[jnp.array(kept, int)].set(1.0)
        mean, deviation = jax.lax.stop_gradient(scale)
        return mask * (jnp.log1p(STEEP * jnp.maximum(batch[name], 0.0)) - mean) / deviation

    known = [
        jax.nn.one_hot(batch["kind"], KINDS),
        network.task[batch["task"]],
        network.stage[jnp.minimum(batch["stage"], STAGES - 1)],
    ]
    known = [column * float(sight.units) for column in known]
    unit = linear(network.unit, *known, scaled("unit", network.unit_scale, sight.unit_features))
    route = linear(network.route, scaled("route", network.route_scale, sight.route_features))
    count = len(unit)
    here = jnp.concatenate([batch["source"], batch["reader"]])
    there = jnp.concatenate([batch["reader"], batch["source"]])
    edges = mean_of(jnp.concatenate([route, route]), here, count)
    for number in range(network.nodes.bias.shape[0]):
        neighbours = mean_of(unit[there], here, count)
        told = jax.nn.relu(linear(network.edges, edges, neighbours, number=number))
        unit = linear(network.nodes, unit, told, number=number)
    found = mean_of(unit, batch["of_unit"], many + 1)[:many]
    found = jax.nn.relu(linear(network.first, found))
    found = jax.nn.relu(linear(network.second, found))
    return jax.nn.log_sigmoid(linear(network.last, found)[:, 0])


def linear(own: Layer, *values: Any, number: int | None = None) -> Any:
    """What a layer, or that of a round, makes of rows side by side."""
    weight, bias = (own.weight, own.bias) if number is None else (own.weight[number], own.bias[number])
    return jnp.concatenate(values, 1) @ weight + bias


def learner(sight: Sight) -> Learner:
    """The paper's network that sees so much."""
    columns = {"unit": ("unit", "kind", "task", "stage"), "route": ("route", "source", "reader")}
    points_to = {"source": "unit", "reader": "unit"}
    return Learner(tables, columns, points_to, initial, partial(log_shares, sight=sight))
