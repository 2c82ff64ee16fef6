"""A graph network that predicts how much of the bound a placement attains.

Actors, streams, and groups of lanes that several streams share are nodes; they tell each other, round after round, who
makes what for whom and who shares a lane with whom. Messages are pooled by their maximum, since the slowest part
decides, and by their mean. What comes out is by how much the rate stays behind that of the busiest part, which is
known, starting from what the schedule says.

Source: as in "Learned Cost Model for Placement on Reconfigurable Dataflow Hardware", Algorithm 1, with maxima over
messages, and with shared lanes as nodes: RouteNet (Rusek et al., SOSR 2019).
"""

import math
from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import borrowing, compiled
from sweeper.kernels.placement.features import Features
from sweeper.kernels.placement.summary import PEAK, SCHEDULE

STAGES = 32
"""Stages that have an embedding of their own; later ones share the last."""
LATE = 0.02
"""By how much, as a logarithm, a schedule stays behind its busiest part at least, before layers add to it."""
STEEP = 8.0
"""Features enter as log(1 + STEEP x)."""


class Layer(NamedTuple):
    """A layer: weights [inputs, outputs], and what is added to each output."""

    weight: np.ndarray
    bias: np.ndarray


class Round(NamedTuple):
    """Layers of all rounds, each with a first dimension of rounds: messages of streams to groups and back, along pairs;
    of sinks' readers to streams and back, along sinks; and the updates of groups, streams and actors."""

    stream_message: Layer
    group_message: Layer
    sink_message: Layer
    reader_message: Layer
    group: Layer
    stream: Layer
    actor: Layer


class Scales(NamedTuple):
    """Mean and deviation [2, features] of the inputs."""

    actor: np.ndarray
    sink: np.ndarray
    stream: np.ndarray
    group: np.ndarray
    pair: np.ndarray
    summary: np.ndarray


class Network(NamedTuple):
    """A trained network. Embeddings of an actor's unit, task and stage; first layers; rounds; and three last layers."""

    scales: Scales
    kind: np.ndarray
    task: np.ndarray
    stage: np.ndarray
    actor: Layer
    stream: Layer
    group: Layer
    rounds: Round
    first: Layer
    second: Layer
    last: Layer


class Nodes(NamedTuple):
    """Of every actor: kind of its unit, task, stage, and its unit."""

    kind: np.ndarray
    task: np.ndarray
    stage: np.ndarray
    unit: np.ndarray


@borrowing
def add_product(found: np.ndarray, values: np.ndarray, weight: np.ndarray) -> None:
    """Add values [n, k], times weights [k, outputs], to what was found [n, outputs].

    Four rows and two columns at a time, so that what is loaded is used several times.
    """
    rows, inputs = values.shape[0] // 4 * 4, values.shape[1] // 2 * 2
    for i in range(0, rows, 4):
        for k in range(0, inputs, 2):
            a, b, c, d = values[i, k], values[i + 1, k], values[i + 2, k], values[i + 3, k]
            e, f, g, h = values[i, k + 1], values[i + 1, k + 1], values[i + 2, k + 1], values[i + 3, k + 1]
            for j in range(found.shape[1]):
                one, two = weight[k, j], weight[k + 1, j]
                found[i, j] += a * one + e * two
                found[i + 1, j] += b * one + f * two
                found[i + 2, j] += c * one + g * two
                found[i + 3, j] += d * one + h * two
    for i in range(values.shape[0]):
        for k in range(inputs if i < rows else 0, values.shape[1]):
            for j in range(found.shape[1]):
                found[i, j] += values[i, k] * weight[k, j]


@borrowing
def rectify(values: np.ndarray) -> None:
    """Put 0 in place of what is below."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            values[i, j] = max(values[i, j], 0.0)


@compiled
def biased(rows: int, bias: np.ndarray) -> np.ndarray:
    """A bias in every row."""
    found = np.empty((rows, len(bias)))
    found[:] = bias
    return found


@compiled
def most_told(messages: np.ndarray, receiver: np.ndarray, receivers: int) -> np.ndarray:
    """Largest message, none of them below 0, that each receiver gets; 0 where it gets none. Message i goes to
    receiver[i]."""
    most = np.zeros((receivers, messages.shape[1]))
    for i in range(len(receiver)):
        for j in range(messages.shape[1]):
            most[receiver[i], j] = max(most[receiver[i], j], messages[i, j])
    return most


@compiled
def mean_told(messages: np.ndarray, receiver: np.ndarray, receivers: int) -> np.ndarray:
    """Mean message that each receiver gets; 0 where it gets none."""
    mean, many = np.zeros((receivers, messages.shape[1])), np.zeros(receivers)
    for i in range(len(receiver)):
        many[receiver[i]] += 1.0
        for j in range(messages.shape[1]):
            mean[receiver[i], j] += messages[i, j]
    for i in range(receivers):
        part = 1.0 / max(many[i], 1.0)
        for j in range(messages.shape[1]):
            mean[i, j] *= part
    return mean


@compiled
def scaled(values: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Features as they enter."""
    return (np.log(1.0 + STEEP * np.maximum(values, 0.0)) - scale[0]) / scale[1]


@compiled
def entered(values: np.ndarray, scale: np.ndarray, layer: Layer) -> np.ndarray:
    """First states."""
    found = biased(len(values), layer.bias)
    add_product(found, scaled(values, scale), layer.weight)
    rectify(found)
    return found


@compiled
def add_told(found: np.ndarray, states: np.ndarray, at: np.ndarray, weight: np.ndarray) -> None:
    """Add the row `at` of states, times weights, to each row of what was found."""
    told = np.zeros((len(states), found.shape[1]))
    add_product(told, states, weight)
    for i in range(len(at)):
        for j in range(found.shape[1]):
            found[i, j] += told[at[i], j]


@compiled
def edge_messages(edge: np.ndarray, states: np.ndarray, at: np.ndarray, layer: Layer, number: int) -> np.ndarray:
    """What nodes, a row `at` for every edge, tell along edges in a round."""
    found = biased(len(edge), layer.bias[number])
    weight, known = layer.weight[number], edge.shape[1]
    add_product(found, edge, weight[:known])
    add_told(found, states, at, weight[known:])
    rectify(found)
    return found


@compiled
def first_states(network: Network, nodes: Nodes, seen: Features) -> np.ndarray:
    """First states of actors, with the embeddings of what they are."""
    found, weight = biased(len(seen.actor), network.actor.bias), network.actor.weight
    known = scaled(seen.actor, network.scales.actor)
    kind, task = known.shape[1], known.shape[1] + network.kind.shape[1]
    stage = task + network.task.shape[1]
    add_product(found, known, weight[:kind])
    add_told(found, network.kind, nodes.kind, weight[kind:task])
    add_told(found, network.task, nodes.task, weight[task:stage])
    add_told(found, network.stage, np.minimum(nodes.stage, STAGES - 1), weight[stage:])
    rectify(found)
    return found


@compiled
def updated(
    states: np.ndarray, most: np.ndarray, mean: np.ndarray, other: np.ndarray, layer: Layer, number: int
) -> np.ndarray:
    """States after what nodes were told in a round: the largest, the mean, and something else."""
    width = states.shape[1]
    found = biased(len(states), layer.bias[number])
    weight = layer.weight[number]
    add_product(found, states, weight[:width])
    add_product(found, most, weight[width : 2 * width])
    add_product(found, mean, weight[2 * width : 3 * width])
    add_product(found, other, weight[3 * width :])
    rectify(found)
    return states + found


@compiled
def share_of_bound(network: Network, nodes: Nodes, seen: Features, summary: np.ndarray) -> float:
    """Predicted rate over that at the bound, never above that of the busiest part."""
    actor = first_states(network, nodes, seen)
    sink = scaled(seen.sink, network.scales.sink)
    stream = entered(seen.stream, network.scales.stream, network.stream)
    group = entered(seen.group, network.scales.group, network.group)
    pair = scaled(seen.pair, network.scales.pair)
    actors, streams, groups = len(actor), len(stream), len(group)
    source = np.empty(streams, np.int64)
    source[seen.sink_stream] = seen.sink_source
    rounds, width = network.rounds, actor.shape[1]
    for number in range(len(rounds.actor.bias)):
        told = edge_messages(pair, stream, seen.pair_stream, rounds.stream_message, number)
        most, mean = most_told(told, seen.pair_group, groups), mean_told(told, seen.pair_group, groups)
        group = updated(group, most, mean, np.empty((groups, 0)), rounds.group, number)
        told = edge_messages(pair, group, seen.pair_group, rounds.group_message, number)
        most, mean = most_told(told, seen.pair_stream, streams), mean_told(told, seen.pair_stream, streams)
        told = edge_messages(sink, actor, seen.sink_reader, rounds.sink_message, number)
        ends = np.empty((streams, 2 * width))
        ends[:, :width], ends[:, width:] = actor[source], most_told(told, seen.sink_stream, streams)
        stream = updated(stream, most, mean, ends, rounds.stream, number)
        told = edge_messages(sink, stream, seen.sink_stream, rounds.reader_message, number)
        most, mean = most_told(told, seen.sink_reader, actors), mean_told(told, seen.sink_reader, actors)
        actor = updated(actor, most, mean, most_told(stream, source, actors), rounds.actor, number)
    found = np.zeros((1, 6 * width + len(summary)))
    at = 0
    for states in (actor, stream, group):
        if len(states):
            for j in range(width):
                found[0, at + j] = max(states[:, j].max(), 0.0)
                found[0, at + width + j] = states[:, j].sum() / len(states)
        at += 2 * width
    found[0, at:] = scaled(summary, network.scales.summary)
    for layer in (network.first, network.second):
        result = biased(1, layer.bias)
        add_product(result, found, layer.weight)
        rectify(result)
        found = result
    result = biased(1, network.last.bias)
    add_product(result, found, network.last.weight)
    peak = max(summary[PEAK], 1.0)
    late = max(math.log(max(summary[SCHEDULE], peak) / peak), LATE)
    behind = np.logaddexp(0.0, result[0, 0] + math.log(math.expm1(late)))
    return math.exp(-behind) / peak
