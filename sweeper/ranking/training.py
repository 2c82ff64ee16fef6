"""Training of networks over graphs in JAX: batches of decisions, the loss, the steps.

JAX and optax are needed for training alone: `pip install sweeper[placement]`.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

# One thread, so that sums have one order whatever the machine; before JAX is there, which reads it once.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import jax
import jax.numpy as jnp
import numpy as np
import optax

from sweeper.kernels.placement.judging.network import Layer
from sweeper.ranking.dataset import Decisions, Table
from sweeper.ranking.recipe import Recipe

MARGIN = 64
"""Sizes of batches are rounded up to multiples of it."""
NEAR = 0.1
"""Error of a logarithm below which its square counts, above it its size."""
APART = 0.1
"""Labels further apart than this part of the scale of ranks are ranked."""
DECAY, WARM = 1e-4, 0.1
"""Decay of weights, and part of the steps in which their rate rises."""

Batch = Mapping[str, Any]
"""Arrays of some decisions, padded to given sizes; rows that pad belong to one decision more."""


def layer(key: Any, inputs: int, outputs: int, *rounds: int) -> Layer:
    """A layer, or one for every round, with weights by chance."""
    weight = jax.random.normal(key, (*rounds, inputs, outputs)) * np.sqrt(2.0 / inputs)
    return Layer(weight, jnp.zeros((*rounds, outputs)))


def embedding(key: Any, many: int, wide: int) -> Any:
    """Rows by chance, for so many things."""
    return 0.3 * jax.random.normal(key, (many, wide))


def mean_of(values: Any, at: Any, count: int) -> Any:
    """Mean of the rows that go to each of so many receivers."""
    many = jax.ops.segment_sum(jnp.ones((len(at), 1)), at, count)
    return jax.ops.segment_sum(values, at, count) / jnp.maximum(many, 1.0)


def most_of(values: Any, at: Any, count: int) -> Any:
    """Largest of the rows, none of them below 0, that go to each receiver."""
    return jnp.maximum(jax.ops.segment_max(values, at, count), 0.0)


def through(own: Layer, *values: Any, number: int | None = None) -> Any:
    """What a layer, or that of a round, makes of rows side by side; not below 0."""
    weight, bias = (own.weight, own.bias) if number is None else (own.weight[number], own.bias[number])
    return jax.nn.relu(jnp.concatenate(values, 1) @ weight + bias)


def loss(found: Any, batch: Batch, recipe: Recipe) -> Any:
    """Error of predicted logarithms; and, for every two decisions of a graph, how far the model is from telling which
    is faster."""
    wanted = jnp.log(batch["label"])
    error = jnp.abs(found - wanted)
    near = jnp.where(error < NEAR, error**2 / (2.0 * NEAR), error - NEAR / 2.0).mean()
    apart = wanted[:, None] - wanted
    pairs = (batch["graph"][:, None] == batch["graph"]) & (apart > APART * recipe.rank_scale)
    wrong = jax.nn.softplus((found - found[:, None]) / recipe.rank_scale) * pairs
    return near + recipe.rank_weight * wrong.sum() / jnp.maximum(pairs.sum(), 1)


@dataclass(frozen=True)
class Learner:
    """A kind of network: tables that it reads of decisions; its columns, by a table that has as many rows; which of
    them number rows of other tables; what makes an untrained one; and what predicts logarithms of shares of a batch."""

    tables: Callable[[Decisions], Mapping[str, Table]]
    columns: Mapping[str, tuple[str, ...]]
    points_to: Mapping[str, str]
    initial: Callable[[Any, Decisions, Recipe], Any]
    log_shares: Callable[[Any, Batch, int], Any]


class Batches:
    """Batches of decisions, all of one size, that of the largest."""

    def __init__(self, learner: Learner, decisions: Decisions, chosen: list[np.ndarray]) -> None:
        self.learner, self.decisions, self.chosen = learner, decisions, chosen
        self.tables = learner.tables(decisions)
        self.counts = {name: self.tables[columns[0]].counts for name, columns in learner.columns.items()}
        most = {name: max(int(count[at].sum()) for at in chosen) for name, count in self.counts.items()}
        self.sizes = {name: -(-(count + 1) // MARGIN) * MARGIN for name, count in most.items()}

    def __iter__(self) -> Iterator[Batch]:
        return map(self.batch, self.chosen)

    def batch(self, at: np.ndarray) -> Batch:
        """Arrays of some decisions."""
        own = self.decisions
        found = {"label": own.label[at], "graph": own.graph[at], "summary": own.summary[at]}
        offset = {name: np.cumsum([0, *count[at]]) for name, count in self.counts.items()}
        for name, columns in self.learner.columns.items():
            for column in columns:
                rows = [self.tables[column].of(each) for each in at]
                target = self.learner.points_to.get(column)
                if target is not None:
                    rows = [each + start for each, start in zip(rows, offset[target])]
                last = self.sizes[target] - 1 if target is not None else 0
                found[column] = padded(np.concatenate(rows), self.sizes[name], last)
            found[f"of_{name}"] = padded(
                np.repeat(np.arange(len(at)), self.counts[name][at]), self.sizes[name], len(at)
            )
        return found


def padded(rows: np.ndarray, size: int, value: int) -> np.ndarray:
    """Rows, and more of one value, as JAX takes them."""
    kind = np.int32 if np.issubdtype(rows.dtype, np.integer) else np.result_type(float)
    found = np.full((size, *rows.shape[1:]), value, kind)
    found[: len(rows)] = rows
    return found


def epochs(decisions: Decisions, recipe: Recipe) -> list[np.ndarray]:
    """Batches of all epochs: some decisions of one graph stay together, so that they can be ranked. Those of a graph
    that has too few come again until there are enough, and so do graphs."""
    random = np.random.default_rng(recipe.seed)
    members = [np.flatnonzero(decisions.graph == number) for number in np.unique(decisions.graph)]
    batches: list[np.ndarray] = []
    for _ in range(recipe.epochs):
        some = [
            np.resize(shuffled[start : start + recipe.decisions], recipe.decisions)
            for each in members
            for shuffled in (random.permutation(each),)
            for start in range(0, max(len(each) - recipe.decisions, 0) + 1, recipe.decisions)
        ]
        order = np.resize(random.permutation(len(some)), max(len(some), recipe.graphs))
        batches += [
            np.concatenate([some[each] for each in order[start : start + recipe.graphs]])
            for start in range(0, len(order) - recipe.graphs + 1, recipe.graphs)
        ]
    return batches


def trained(learner: Learner, decisions: Decisions, recipe: Recipe, before: Any = None) -> Any:
    """A network that has learned from decisions, as arrays of NumPy; one that has learned before may be given."""
    batches = Batches(learner, decisions, epochs(decisions, recipe))
    many = recipe.graphs * recipe.decisions
    network = learner.initial(jax.random.PRNGKey(recipe.seed), decisions, recipe) if before is None else before
    rates = optax.cosine_onecycle_schedule(len(batches.chosen), recipe.rate, pct_start=WARM)
    rule = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rates, weight_decay=DECAY))

    def lost(network: Any, batch: Batch) -> Any:
        return loss(learner.log_shares(network, batch, many), batch, recipe)

    @jax.jit
    def step(network: Any, state: Any, batch: Batch) -> tuple[Any, Any]:
        change, state = rule.update(jax.grad(lost)(network, batch), state, network)
        return optax.apply_updates(network, change), state

    state = rule.init(network)
    for batch in batches:
        network, state = step(network, state, batch)
    return jax.tree.map(np.asarray, network)


def predicted(learner: Learner, network: Any, decisions: Decisions, many: int = 32) -> np.ndarray:
    """Predicted shares of decisions, in batches of so many."""
    count = len(decisions)
    at = np.minimum(np.arange(-(-count // many) * many), count - 1)
    weights = jax.tree.map(jnp.asarray, network)
    apply = jax.jit(lambda batch: learner.log_shares(weights, batch, many))
    found = [np.asarray(apply(batch)) for batch in Batches(learner, decisions, list(at.reshape(-1, many)))]
    return np.exp(np.concatenate(found)[:count].astype(float))
