"""The graph network of sweeper.kernels.placement.judging.network in JAX: trained here, scored there.

JAX and optax are needed for training alone: `pip install sweeper[placement]`.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sweeper.kernels.placement.fabric import COMPUTE, MEMORY, PORT
from sweeper.kernels.placement.judging.network import LATE, STAGES, STEEP, Layer, Network, Round, Scales, share_of_bound
from sweeper.kernels.placement.summary import PEAK, SCHEDULE
from sweeper.placing.graph import TASKS
from sweeper.ranking.dataset import SUMMARIES, WIDTHS, Decisions, Table
from sweeper.ranking.recipe import Recipe
from sweeper.ranking.training import Batch, Learner, embedding, layer, mean_of, most_of, through, trained

KINDS, WIDE = len({COMPUTE, MEMORY, PORT}), (4, 6, 4)
"""Kinds of units; width of the embeddings of kind, task and stage."""


def initial(key: Any, decisions: Decisions, recipe: Recipe) -> Network:
    """A network that knows nothing yet but the scales of features."""
    keys, scales = iter(jax.random.split(key, 32)), scales_of(decisions)
    width, rounds = recipe.width, recipe.rounds
    kind, task, stage = (embedding(next(keys), many, wide) for many, wide in zip((KINDS, len(TASKS), STAGES), WIDE))
    entering = {"actor": WIDTHS["actor"] + sum(WIDE), "stream": WIDTHS["stream"], "group": WIDTHS["group"]}
    inputs = {name: layer(next(keys), count, width) for name, count in entering.items()}
    told = {
        "stream_message": WIDTHS["pair"] + width,
        "group_message": WIDTHS["pair"] + width,
        "sink_message": WIDTHS["sink"] + width,
        "reader_message": WIDTHS["sink"] + width,
        "group": 3 * width,
        "stream": 5 * width,
        "actor": 4 * width,
    }
    turns = Round(**{name: layer(next(keys), count, width, rounds) for name, count in told.items()})
    return Network(
        scales,
        kind,
        task,
        stage,
        inputs["actor"],
        inputs["stream"],
        inputs["group"],
        turns,
        layer(next(keys), 6 * width + len(SUMMARIES), 64),
        layer(next(keys), 64, 32),
        Layer(np.zeros((32, 1)), np.zeros(1)),
    )


def scales_of(decisions: Decisions) -> Scales:
    """Mean and deviation of the features as they enter."""
    rows = {name: decisions.tables[name].rows for name in WIDTHS} | {"summary": decisions.summary}
    entered = {name: np.log1p(STEEP * np.maximum(values, 0.0)) for name, values in rows.items()}
    return Scales(**{name: np.stack([each.mean(0), each.std(0) + 1e-3]) for name, each in entered.items()})


def log_shares(network: Network, batch: Batch, many: int) -> Any:
    """Logarithms of predicted shares of a batch of so many decisions. Follows `share_of_bound`, line by line."""
    scales = jax.lax.stop_gradient(network.scales)

    def scaled(name: str) -> Any:
        return (jnp.log1p(STEEP * jnp.maximum(batch[name], 0.0)) - getattr(scales, name)[0]) / getattr(scales, name)[1]

    actor = through(
        network.actor,
        scaled("actor"),
        network.kind[batch["node_kind"]],
        network.task[batch["node_task"]],
        network.stage[jnp.minimum(batch["node_stage"], STAGES - 1)],
    )
    stream, group = through(network.stream, scaled("stream")), through(network.group, scaled("group"))
    sink, pair = scaled("sink"), scaled("pair")
    actors, streams, groups = len(actor), len(stream), len(group)
    source, reader, of_sink = batch["source"], batch["sink_reader"], batch["sink_stream"]
    pair_group, pair_stream = batch["pair_group"], batch["pair_stream"]
    turns = network.rounds
    for number in range(turns.actor.bias.shape[0]):
        say = partial(through, number=number)
        told = say(turns.stream_message, pair, stream[pair_stream])
        group += say(turns.group, group, most_of(told, pair_group, groups), mean_of(told, pair_group, groups))
        told = say(turns.group_message, pair, group[pair_group])
        most, mean = most_of(told, pair_stream, streams), mean_of(told, pair_stream, streams)
        read = most_of(say(turns.sink_message, sink, actor[reader]), of_sink, streams)
        stream += say(turns.stream, stream, most, mean, actor[source], read)
        told = say(turns.reader_message, sink, stream[of_sink])
        most, mean = most_of(told, reader, actors), mean_of(told, reader, actors)
        actor += say(turns.actor, actor, most, mean, most_of(stream, source, actors))
    states = ((actor, "actor"), (stream, "stream"), (group, "group"))
    pooled = [pool(rows, batch[f"of_{name}"], many + 1)[:many] for rows, name in states for pool in (most_of, mean_of)]
    found = through(network.first, *pooled, scaled("summary"))
    found = through(network.second, found)
    found = (found @ network.last.weight + network.last.bias)[:, 0]
    peak = jnp.maximum(batch["summary"][:, PEAK], 1.0)
    late = jnp.maximum(jnp.log(jnp.maximum(batch["summary"][:, SCHEDULE], peak) / peak), LATE)
    return -jnp.log(peak) - jax.nn.softplus(found + jnp.log(jnp.expm1(late)))


TABLES = {
    "actor": ("actor", "node_kind", "node_task", "node_stage"),
    "sink": ("sink", "sink_reader", "sink_stream"),
    "stream": ("stream", "source"),
    "group": ("group",),
    "pair": ("pair", "pair_group", "pair_stream"),
}
"""What has a row for every actor, sink, stream, group, and pair of a group and a stream."""
POINTS_TO = {
    "sink_reader": "actor", "source": "actor", "sink_stream": "stream", "pair_stream": "stream", "pair_group": "group",
}  # fmt: skip
"""Numbers of rows of other tables."""


def sources(decisions: Decisions) -> Table:
    """Actor that makes each stream, as a table."""
    stream, sink = decisions.tables["stream"], decisions.tables["sink_stream"]
    rows = np.zeros(len(stream.rows), np.int64)
    owner = np.repeat(stream.first[:-1], sink.counts)
    rows[owner + sink.rows] = decisions.tables["sink_source"].rows
    return Table(rows, stream.first)


OURS = Learner(
    lambda decisions: {**decisions.tables, "source": sources(decisions)}, TABLES, POINTS_TO, initial, log_shares
)
"""Our network."""


def learned(decisions: Decisions, recipe: Recipe, before: Network | None = None) -> Network:
    """Our network, trained, or one of before trained further; its numbers are those of float32 in float64."""
    started = None if before is None else jax.tree.map(np.float32, before)
    network = trained(OURS, decisions, recipe, started)
    return jax.tree.map(lambda array: np.asarray(array, np.float64), network)


def shares(network: Network, decisions: Decisions) -> np.ndarray:
    """Predicted shares of decisions, one after the other, without JAX."""
    rows = zip(decisions.features(), decisions.summary)
    return np.array([share_of_bound(network, nodes, seen, summary) for (nodes, seen), summary in rows])
