"""A recurrent language model, trained by hand on a grid of chips: every array in slices, every message counted.

The oracle of specs/workloads/lstm.yaml. Nothing is counted by a formula: a chip has the slices it has, multiplies them,
and exchanges what it must so that loss and gradients are those of one chip. A group of chips is a list of arrays.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Parts = list[Array]
GATES = 4


class Model(NamedTuple):
    """Embedding [word, unit]; cells [input or state or 1, gate, unit]; head [unit or 1, word]."""

    embedding: Array
    cells: tuple[Array, ...]
    head: Array


@dataclass
class Ledger:
    """What a group does: operations of products on all its chips; and of one chip the elements of messages by operator,
    operation and pass, its parameters, and the elements it keeps for the backward pass by who keeps them."""

    flops: int = 0
    messages: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    parameters: int = 0
    kept: Counter[str] = field(default_factory=Counter)

    def products(self, left: Parts, right: Parts) -> Parts:
        """A product on every chip."""
        self.flops += sum(2 * a.shape[0] * a.shape[1] * b.shape[1] for a, b in zip(left, right, strict=True))
        return [a @ b for a, b in zip(left, right, strict=True)]

    def gather(self, parts: Parts, operator: str, during: str) -> Parts:
        """The parts side by side, on every chip."""
        whole = np.concatenate(parts, axis=-1)
        self.messages[operator, "all_gather", during] += whole.size
        return [whole] * len(parts)

    def scatter(self, parts: Parts, operator: str, during: str) -> Parts:
        """The sum of the parts, a slice on every chip."""
        self.messages[operator, "reduce_scatter", during] += parts[0].size
        return np.split(sum(parts[1:], parts[0]), len(parts), axis=-1)


def random_model(rng: np.random.Generator, hidden: int, layers: int, vocabulary: int) -> Model:
    """Small weights."""
    cells = tuple(rng.normal(size=(2 * hidden + 1, GATES, hidden)) / 4 for _ in range(layers))
    return Model(rng.normal(size=(vocabulary, hidden)), cells, rng.normal(size=(hidden + 1, vocabulary)) / 4)


def flat(weights: Array) -> Array:
    """A matrix, whatever its columns stand for."""
    return weights.reshape(len(weights), -1)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def update(z: Array, cell: Array) -> tuple[Array, Array, Array]:
    """Gates (input, forget, candidate, output) of some units, their new cell and their state."""
    gates = np.stack([sigmoid(z[:, 0]), sigmoid(z[:, 1]), np.tanh(z[:, 2]), sigmoid(z[:, 3])], 1)
    cell = gates[:, 1] * cell + gates[:, 0] * gates[:, 2]
    return gates, cell, gates[:, 3] * np.tanh(cell)


def update_gradient(gates: Array, cell: Array, before: Array, dh: Array, dc: Array) -> tuple[Array, Array]:
    """Gradients of the gates before their functions, and of the cell before."""
    i, f, g, o = (gates[:, n] for n in range(GATES))
    squashed = np.tanh(cell)
    dc = dc + dh * o * (1 - squashed**2)
    dz = [dc * g * i * (1 - i), dc * before * f * (1 - f), dc * i * (1 - g**2), dh * squashed * o * (1 - o)]
    return np.stack(dz, 1), dc * f


def train(
    model: Model, words: NDArray[np.int64], targets: NDArray[np.int64], t: int, column_row: bool
) -> tuple[float, Model, Ledger]:
    """Loss, gradients and the ledger, for words [step, row] on a group of t chips."""
    ledger = Ledger()
    chips = range(t)
    (steps, rows), (vocabulary, hidden) = words.shape, model.embedding.shape
    layers, width = len(model.cells), hidden // t

    def share(array: Array, axis: int = -1) -> Parts:
        return np.split(array, t, axis=axis)

    def of_product(name: str, weights: Array) -> Parts:
        """Slices of a matrix without its last row: columns, or the rows of the units that a chip has."""
        if not column_row:
            return share(weights[:-1])
        blocks = np.split(weights[:-1], 2 if name == "cell" else 1)
        return [np.concatenate(rows) for rows in zip(*(share(block, 0) for block in blocks), strict=True)]

    embedding, head, head_bias = share(model.embedding), of_product("head", model.head), share(model.head[-1])
    cells = [of_product("cell", cell) for cell in model.cells]
    biases = [share(cell[-1]) for cell in model.cells]
    ledger.parameters = sum(parts[0].size for parts in (embedding, head, head_bias, *cells, *biases))

    def forward_product(inputs: Parts, weights: Parts, exchange: str) -> Parts:
        """The slice of each chip of the product with all weights."""
        parts = ledger.products(inputs, [flat(w) for w in weights])
        parts = [part.reshape(rows, *w.shape[1:]) for part, w in zip(parts, weights, strict=True)]
        return ledger.scatter(parts, exchange, "forward") if column_row else parts

    def backward_product(inputs: Parts, weights: Parts, dy: Parts, exchange: str) -> tuple[Parts, Parts]:
        """Gradients of the weights, and of the inputs: of its own units (column_row), or parts of a sum."""
        dy = [flat(d) for d in (ledger.gather(dy, exchange, "backward") if column_row else dy)]
        dw = ledger.products([x.T for x in inputs], dy)
        dx = ledger.products(dy, [flat(w).T for w in weights])
        return [d.reshape(w.shape) for d, w in zip(dw, weights, strict=True)], dx

    # forward
    h: list[list[Parts]] = [[[np.zeros((rows, width if column_row else hidden)) for _ in chips]] for _ in range(layers)]
    c: list[list[Parts]] = [[[np.zeros((rows, width)) for _ in chips]] for _ in range(layers)]
    gates: list[list[Parts]] = [[] for _ in range(layers)]
    joined: list[list[Parts]] = [[] for _ in range(layers)]
    chances: list[Parts] = []
    loss = 0.0
    for s in range(steps):
        x = [table[words[s]] for table in embedding]
        x = x if column_row else ledger.gather(x, "embedding_gather", "forward")
        ledger.kept["embedding"] += x[0].size
        for n in range(layers):
            joined[n].append([np.concatenate(both, 1) for both in zip(x, h[n][-1], strict=True)])
            z = forward_product(joined[n][-1], cells[n], "gate_scatter")
            found = [update(z[j] + biases[n][j], c[n][-1][j]) for j in chips]
            gates[n].append([one[0] for one in found])
            c[n].append([one[1] for one in found])
            state = [one[2] for one in found]
            x = state if column_row else ledger.gather(state, "state_gather", "forward")
            h[n].append(x)
            ledger.kept["cell_update"] += x[0].size + c[n][-1][0].size + gates[n][-1][0].size
        scores = forward_product(x, head, "logit_scatter")
        scores = [scores[j] + head_bias[j] for j in chips]
        largest = np.max([part.max(1) for part in scores], 0)
        powers = [np.exp(part - largest[:, None]) for part in scores]
        total = np.sum([part.sum(1) for part in powers], 0)
        ledger.messages["softmax_sums", "all_reduce", "forward"] += largest.size + total.size
        chances.append([part / total[:, None] for part in powers])
        ledger.kept["softmax"] += chances[-1][0].size
        loss -= np.log(np.concatenate(chances[-1], 1)[np.arange(rows), targets[s]]).sum()

    # backward
    d_embedding = [np.zeros_like(part) for part in embedding]
    d_cells, d_biases = ([[np.zeros_like(part) for part in parts] for parts in all_] for all_ in (cells, biases))
    d_head, d_head_bias = ([np.zeros_like(part) for part in parts] for parts in (head, head_bias))
    later = [[np.zeros_like(part) for part in h[n][0]] for n in range(layers)]
    dc = [[np.zeros((rows, width)) for _ in chips] for _ in range(layers)]
    for s in reversed(range(steps)):
        dy = share(np.concatenate(chances[s], 1) - np.eye(vocabulary)[targets[s]])
        dw, above = backward_product(h[-1][s + 1], head, dy, "logit_scatter")
        for j in chips:
            d_head[j] += dw[j]
            d_head_bias[j] += dy[j].sum(0)
        for n in reversed(range(layers)):
            dh = [one + other for one, other in zip(above, later[n], strict=True)]
            dh = dh if column_row else ledger.scatter(dh, "state_gather", "backward")
            found = [update_gradient(gates[n][s][j], c[n][s + 1][j], c[n][s][j], dh[j], dc[n][j]) for j in chips]
            dz = [one[0] for one in found]
            dc[n] = [one[1] for one in found]
            dw, dx = backward_product(joined[n][s], cells[n], dz, "gate_scatter")
            above, later[n] = ([np.split(part, 2, 1)[side] for part in dx] for side in (0, 1))
            for j in chips:
                d_cells[n][j] += dw[j]
                d_biases[n][j] += dz[j].sum(0)
        above = above if column_row else ledger.scatter(above, "embedding_gather", "backward")
        for j in chips:
            np.add.at(d_embedding[j], words[s], above[j])

    def whole(parts: Parts, bias: Parts, name: str) -> Array:
        """The matrix of which chips have slices."""
        if not column_row:
            return np.concatenate([np.concatenate(parts, -1), np.concatenate(bias, -1)[None]])
        blocks = zip(*(np.split(part, 2 if name == "cell" else 1) for part in parts), strict=True)
        return np.concatenate([*(np.concatenate(block) for block in blocks), np.concatenate(bias, -1)[None]])

    back = tuple(whole(d_cells[n], d_biases[n], "cell") for n in range(layers))
    gradients = Model(np.concatenate(d_embedding, -1), back, whole(d_head, d_head_bias, "head"))
    return loss, gradients, ledger


def train_grid(
    model: Model, words: NDArray[np.int64], targets: NDArray[np.int64], t: int, r: int, column_row: bool
) -> tuple[float, Model, Ledger]:
    """The same with the rows over r groups of t chips, whose losses and gradients add up; the ledger of one of them."""
    runs = [
        train(model, part, goal, t, column_row)
        for part, goal in zip(np.split(words, r, 1), np.split(targets, r, 1), strict=True)
    ]
    summed = Model(
        sum(g.embedding for _, g, _ in runs),
        tuple(sum(g.cells[n] for _, g, _ in runs) for n in range(len(model.cells))),
        sum(g.head for _, g, _ in runs),
    )
    return sum(loss for loss, _, _ in runs), summed, runs[0][2]
