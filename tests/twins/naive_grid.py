"""A transformer, trained by hand on a grid of chips by SUMMA: every array in blocks, every message counted.

The oracle of `tensor_rows` in specs/workloads/decoder.yaml. Nothing is counted by a formula: a chip has its block of
every array and exchanges what it must so that loss and gradients are those of one chip. Rows of the grid are samples,
columns features; of a matrix the rows of the grid are its rows, the columns its columns. Source: van de Geijn and Watts
1997 (SUMMA), Xu et al. 2021 (arXiv:2104.05343), with panels that are gathered where these broadcast block after block.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Blocks = list[list[Array]]
"""A block of every chip, by row and column of the grid."""
Back = Callable[[Blocks], Blocks]
"""What makes the gradient of an input of that of a result."""
NORM = ("scale", "shift")
"""Weights of a norm."""


@dataclass
class Grid:
    """Chips, the blocks of weights and of their gradients that they keep, and elements of the messages of one chip by
    operator, operation and pass."""

    rows: int
    columns: int
    weights: dict[str, Blocks]
    gradients: dict[str, Blocks] = field(default_factory=dict)
    messages: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def each(self, function: Callable[..., Array], *arrays: Blocks) -> Blocks:
        """A function of the blocks of every chip."""
        return [[function(*(a[i][j] for a in arrays)) for j in range(self.columns)] for i in range(self.rows)]

    def gather_row(self, array: Blocks, name: str, during: str) -> Blocks:
        """All features of the samples of a row."""
        whole = [np.concatenate(row, axis=-1) for row in array]
        self.messages[name, "all_gather", during] += whole[0].size
        return [[panel] * self.columns for panel in whole]

    def scatter_row(self, parts: Blocks, name: str, during: str) -> Blocks:
        """The sum over a row, a slice of its features on every chip."""
        self.messages[name, "reduce_scatter", during] += parts[0][0].size
        return [np.split(sum(row[1:], row[0]), self.columns, axis=-1) for row in parts]

    def sum_row(self, parts: Blocks, name: str, during: str) -> Blocks:
        """The sum over a row, on every chip of it."""
        self.messages[name, "all_reduce", during] += parts[0][0].size
        return [[sum(row[1:], row[0])] * self.columns for row in parts]

    def gather_column(self, weight: str, name: str, during: str) -> Blocks:
        """What the chips of a column keep of a weight."""
        whole = [np.concatenate([row[j] for row in self.weights[weight]]) for j in range(self.columns)]
        self.messages[name, "all_gather", during] += whole[0].size
        return [whole] * self.rows

    def scatter_column(self, weight: str, parts: Blocks, name: str) -> None:
        """The gradient of a weight: the sum over a column, the part on every chip that it keeps of the weight."""
        self.messages[name, "reduce_scatter", "backward"] += parts[0][0].size
        sums = [np.split(sum(parts[i][j] for i in range(self.rows)), self.rows) for j in range(self.columns)]
        self.gradients[weight] = [[sums[j][i] for j in range(self.columns)] for i in range(self.rows)]


def blocks_of(array: Array, rows: int, columns: int) -> Blocks:
    """Blocks of a matrix; of a vector, whose elements belong to columns, the parts of a column's slice."""
    if array.ndim == 1:
        slices = [np.split(part, rows) for part in np.split(array, columns)]
        return [[slices[j][i] for j in range(columns)] for i in range(rows)]
    return [np.split(row, columns, axis=1) for row in np.split(array, rows)]


def product(grid: Grid, x: Blocks, inputs: str, weight: str) -> tuple[Blocks, Back]:
    """Y = XW + b by SUMMA, and dX = dY W^T, dW = X^T dY."""
    panels, matrix = f"{inputs}_gather", f"{weight}_weights_gather"
    wide = grid.gather_row(x, panels, "forward")
    y = grid.each(lambda a, b: a @ b, wide, grid.gather_column(weight, matrix, "forward"))
    biased = f"{weight}_bias" in grid.weights
    if biased:
        y = grid.each(np.add, y, grid.gather_column(f"{weight}_bias", matrix, "forward"))

    def back(dy: Blocks) -> Blocks:
        again = grid.gather_column(weight, f"{weight}_weights_regather", "backward")
        dx = grid.scatter_row(grid.each(lambda d, w: d @ w.T, dy, again), panels, "backward")
        wide = grid.gather_row(x, f"{inputs}_regather", "backward")
        grid.scatter_column(weight, grid.each(lambda a, d: a.T @ d, wide, dy), matrix)
        if biased:
            grid.scatter_column(f"{weight}_bias", grid.each(lambda d: d.sum(0), dy), matrix)
        return dx

    return y, back


def norm(grid: Grid, x: Blocks, name: str, weights: str) -> tuple[Blocks, Back]:
    """Layer norm: what a row sums are two numbers per token and pass."""
    width = x[0][0].shape[1] * grid.columns
    gathered = f"{weights}_weights_gather"
    scale, shift = (grid.gather_column(f"{name}_{part}", gathered, "forward") for part in NORM)
    sums = grid.sum_row(grid.each(lambda a: np.stack([a.sum(1), (a**2).sum(1)]), x), f"{name}_statistics", "forward")
    spread = grid.each(lambda s: np.sqrt(s[1] / width - (s[0] / width) ** 2 + 1e-5)[:, None], sums)
    even = grid.each(lambda a, s, d: (a - s[0][:, None] / width) / d, x, sums, spread)

    def back(dy: Blocks) -> Blocks:
        grid.scatter_column(f"{name}_scale", grid.each(lambda d, e: (d * e).sum(0), dy, even), gathered)
        grid.scatter_column(f"{name}_shift", grid.each(lambda d: d.sum(0), dy), gathered)
        scaled = grid.each(np.multiply, dy, scale)
        parts = grid.each(lambda d, e: np.stack([d.sum(1), (d * e).sum(1)]), scaled, even)
        sums = grid.sum_row(parts, f"{name}_statistics", "backward")
        return grid.each(
            lambda d, e, s, w: (d - (s[0][:, None] + e * s[1][:, None]) / width) / w, scaled, even, sums, spread
        )

    return grid.each(lambda e, a, b: e * a + b, even, scale, shift), back


def attention(grid: Grid, qkv: Blocks, tokens: int, size: int) -> tuple[Blocks, Back]:
    """Causal attention of the samples and heads of a chip: nothing is exchanged."""
    hidden = np.triu(np.full((tokens, tokens), -np.inf), 1)

    def parts(block: Array) -> Array:
        return block.reshape(-1, tokens, block.shape[1] // (3 * size), 3, size).transpose(3, 0, 2, 1, 4)

    def shares(q: Array, k: Array) -> Array:
        scores = np.exp(q @ k.swapaxes(-1, -2) / size**0.5 + hidden)
        found: Array = scores / scores.sum(-1, keepdims=True)
        return found

    def forward(block: Array) -> Array:
        q, k, v = parts(block)
        return (shares(q, k) @ v).transpose(0, 2, 1, 3).reshape(len(block), -1)

    def backward(block: Array, dy: Array) -> Array:
        q, k, v = parts(block)
        p, d = shares(q, k), dy.reshape(-1, tokens, q.shape[1], size).transpose(0, 2, 1, 3)
        dp = d @ v.swapaxes(-1, -2)
        ds = p * (dp - (dp * p).sum(-1, keepdims=True)) / size**0.5
        found = np.stack([ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ d])
        return found.transpose(1, 3, 2, 0, 4).reshape(block.shape)

    return grid.each(forward, qkv), lambda dy: grid.each(backward, qkv, dy)


def columns_of(grid: Grid) -> Blocks:
    """The column of the grid in which every chip stands."""
    return [[np.array(float(j)) for j in range(grid.columns)]] * grid.rows


def embedding(grid: Grid, words: Blocks) -> tuple[Blocks, Callable[[Blocks], None]]:
    """A chip has the words of its column of the grid, and a part of their vectors; it knows no other words."""
    gathered, tokens = "embedding_weights_gather", words[0][0].shape[1]

    def own(column: Array, ids: Array) -> tuple[Any, Any]:
        """Places of words in the table of a column, and whether they are there."""
        here = ids.reshape(-1).astype(int) - int(column) * len(table[0][0])
        return np.clip(here, 0, len(table[0][0]) - 1), ((here >= 0) & (here < len(table[0][0])))[:, None]

    table = grid.each(np.transpose, grid.gather_column("embedding", gathered, "forward"))
    places = grid.gather_column("positions", gathered, "forward")
    columns = columns_of(grid)
    found = grid.each(lambda j, ids, t: t[own(j, ids)[0]] * own(j, ids)[1], columns, words, table)
    x = grid.scatter_row(found, "embedding_scatter", "forward")
    x = grid.each(lambda a, p: a + np.tile(p[:tokens], (len(a) // tokens, 1)), x, places)

    def back(dx: Blocks) -> None:
        def of_places(d: Array, p: Array) -> Array:
            found = np.zeros_like(p)
            found[:tokens] = d.reshape(-1, tokens, d.shape[1]).sum(0)
            return found

        def of_table(j: Array, ids: Array, d: Array, t: Array) -> Array:
            found = np.zeros_like(t)
            np.add.at(found, own(j, ids)[0], d * own(j, ids)[1])
            return found.T

        grid.scatter_column("positions", grid.each(of_places, dx, places), gathered)
        wide = grid.gather_row(dx, "embedding_scatter", "backward")
        grid.scatter_column("embedding", grid.each(of_table, columns, words, wide, table), gathered)

    return x, back


def loss_of(grid: Grid, logits: Blocks, targets: Blocks, total: int) -> tuple[float, Blocks]:
    """Cross-entropy of all samples; a row sums three numbers per token, the largest logit among them."""
    largest = [[np.max([b.max(1) for b in row], 0)[:, None]] * grid.columns for row in logits]
    columns = columns_of(grid)

    def hits(j: Array, a: Array, ids: Array) -> Array:
        found: Array = np.arange(a.shape[1]) + j * a.shape[1] == ids.reshape(-1, 1)
        return found

    parts = grid.each(
        lambda j, a, m, ids: np.stack([np.exp(a - m).sum(1), (a * hits(j, a, ids)).sum(1)]),
        columns, logits, largest, targets,
    )  # fmt: skip
    sums = grid.sum_row(parts, "loss_sums", "forward")
    grid.messages["loss_sums", "all_reduce", "forward"] += largest[0][0].size
    loss = sum(float((np.log(s[0][0]) + m[0][:, 0] - s[0][1]).sum()) for s, m in zip(sums, largest, strict=True))
    gradient = grid.each(
        lambda j, a, m, ids, s: (np.exp(a - m) / s[0][:, None] - hits(j, a, ids)) / total,
        columns, logits, largest, targets, sums,
    )  # fmt: skip
    return loss / total, gradient


def random_weights(
    rng: np.random.Generator, hidden: int, inner: int, vocabulary: int, positions: int
) -> dict[str, Array]:
    """Weights of a model of one layer; columns of queries, keys and values are ordered by heads; words are columns."""
    shapes: dict[str, tuple[int, ...]] = {"qkv": (hidden, 3 * hidden), "projection": (hidden, hidden)}
    shapes |= {"up": (hidden, inner), "down": (inner, hidden), "head": (hidden, vocabulary)}
    shapes |= {f"{name}_bias": shapes[name][1:] for name in ("qkv", "projection", "up", "down")}
    shapes |= {f"{name}_{part}": (hidden,) for name in ("attention", "feed_forward", "final") for part in NORM}
    shapes |= {"embedding": (hidden, vocabulary), "positions": (positions, hidden)}
    return {name: rng.normal(size=shape) / 2 for name, shape in shapes.items()}


def train(
    weights: dict[str, Array], words: Array, targets: Array, size: int, shape: tuple[int, int]
) -> tuple[float, dict[str, Array], Grid]:
    """Loss, gradients and the grid, for words [sample, token] and heads of a size on a grid of rows and columns."""
    rows, columns = shape
    grid = Grid(rows, columns, {name: blocks_of(array, rows, columns) for name, array in weights.items()})
    read, wanted = ([[part] * columns for part in np.split(ids, rows)] for ids in (words, targets))
    x, to_words = embedding(grid, read)
    even, to_x = norm(grid, x, "attention", "qkv")
    qkv, to_even = product(grid, even, "attention", "qkv")
    attended, to_qkv = attention(grid, qkv, words.shape[1], size)
    added, to_attended = product(grid, attended, "projection", "projection")
    middle = grid.each(np.add, x, added)
    even, to_middle = norm(grid, middle, "feed_forward", "up")
    wide, to_second = product(grid, even, "feed_forward", "up")
    bent = grid.each(np.tanh, wide)
    added, to_bent = product(grid, bent, "down", "down")
    result = grid.each(np.add, middle, added)
    even, to_result = norm(grid, result, "final", "head")
    logits, to_third = product(grid, even, "head", "head")
    loss, gradient = loss_of(grid, logits, wanted, words.size)
    gradient = to_result(to_third(gradient))
    into = grid.each(lambda d, b: d * (1 - b**2), to_bent(gradient), bent)
    gradient = grid.each(np.add, gradient, to_middle(to_second(into)))
    into = to_qkv(to_attended(gradient))
    to_words(grid.each(np.add, gradient, to_x(to_even(into))))
    return loss, {name: whole(blocks) for name, blocks in grid.gradients.items()}, grid


def whole(blocks: Blocks) -> Array:
    """The array of its blocks."""
    if blocks[0][0].ndim == 1:
        return np.concatenate([row[j] for j in range(len(blocks[0])) for row in blocks])
    return np.block(blocks)
