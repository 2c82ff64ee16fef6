"""Blocks of models as operators: a product, perceptrons, feed-forward layers and attention."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from sweeper.errors import UsageFault, unknown
from sweeper.placing.cutting import Operator, Sharding


def gemm(rows: int, columns: int, inner: int, sharding: Sharding) -> list[Operator]:
    """A product with weights."""
    return [Operator("product", rows, columns, inner, sharding=sharding)]


def mlp(rows: int, widths: list[int], sharding: Sharding) -> list[Operator]:
    """Products with weights, an activation behind each but the last; `widths` are those of its inputs and results."""
    operators, source = list[Operator](), ""
    for number, (inner, columns) in enumerate(pairwise(widths), 1):
        operators.append(Operator(f"product_{number}", rows, columns, inner, inputs=(source,), sharding=sharding))
        source = operators[-1].name
        if number < len(widths) - 1:
            how = Sharding(sharding.rows, sharding.columns, samples=sharding.samples)
            operators.append(
                Operator(f"activation_{number}", rows, columns, function="activation", inputs=(source,), sharding=how)
            )
            source = operators[-1].name
    return operators


def ffn(rows: int, hidden: int, feed_forward: int, sharding: Sharding) -> list[Operator]:
    """A feed-forward layer: two products with an activation between them, what came in added, and a norm."""
    by_rows = Sharding(sharding.rows, samples=sharding.samples)
    return [
        *mlp(rows, [hidden, feed_forward, hidden], sharding),
        Operator("sum", rows, hidden, function="sum", inputs=("product_2", ""), sharding=by_rows),
        Operator("norm", rows, hidden, function="norm", inputs=("sum",), sharding=by_rows),
    ]


def mha(rows: int, hidden: int, heads: int, head_width: int, sharding: Sharding) -> list[Operator]:
    """Attention of some heads over the rows of a sample, with its four projections, what came in added, and a norm.

    Raises UsageFault unless each piece has whole heads.
    """
    if heads % min(sharding.columns, heads):
        raise UsageFault(f"{heads} heads must be a multiple of the pieces along columns, or fewer than these")
    width = heads * head_width
    by_rows = Sharding(sharding.rows, samples=sharding.samples)
    by_heads = Sharding(sharding.rows, min(sharding.columns, heads), samples=sharding.samples)
    projections = [Operator(name, rows, width, hidden, sharding=sharding) for name in ("query", "key", "value")]
    return [
        *projections,
        Operator(
            "scores", rows, heads * rows, head_width, batch=heads, inputs=("query", "key"), transposed=True,
            sharding=by_heads,
        ),
        Operator("softmax", rows, heads * rows, function="softmax", inputs=("scores",), sharding=by_heads),
        Operator("mixture", rows, width, rows, batch=heads, inputs=("softmax", "value"), sharding=by_heads),
        Operator("output", rows, hidden, width, inputs=("mixture",), sharding=sharding),
        Operator("sum", rows, hidden, function="sum", inputs=("output", ""), sharding=by_rows),
        Operator("norm", rows, hidden, function="norm", inputs=("sum",), sharding=by_rows),
    ]  # fmt: skip


def layer(rows: int, hidden: int, heads: int, head_width: int, feed_forward: int, sharding: Sharding) -> list[Operator]:
    """A layer of a transformer: attention, and behind it a feed-forward layer."""
    attention = mha(rows, hidden, heads, head_width, sharding)
    return [*attention, *behind(attention[-1].name, "ffn_", ffn(rows, hidden, feed_forward, sharding))]


def behind(source: str, prefix: str, operators: list[Operator]) -> list[Operator]:
    """Operators under other names that read what another one makes, in place of what comes from outside."""
    return [
        replace(each, name=prefix + each.name, inputs=tuple(prefix + name if name else source for name in each.inputs))
        for each in operators
    ]


def perceptrons(rows: int, width: int, depth: int, sharding: Sharding) -> list[Operator]:
    """So many products of one width, with activations."""
    return mlp(rows, [width] * (depth + 1), sharding)


@dataclass(frozen=True)
class BlockKind:
    """A kind of block: what makes it of sizes and sharding, and its sizes where nothing else is said."""

    make: Callable[..., list[Operator]]
    sizes: Mapping[str, int]


BLOCKS = {
    "gemm": BlockKind(gemm, {"rows": 256, "columns": 256, "inner": 256}),
    "mlp": BlockKind(perceptrons, {"rows": 128, "width": 256, "depth": 2}),
    "ffn": BlockKind(ffn, {"rows": 128, "hidden": 128, "feed_forward": 512}),
    "mha": BlockKind(mha, {"rows": 128, "hidden": 128, "heads": 4, "head_width": 32}),
    "layer": BlockKind(layer, {"rows": 128, "hidden": 128, "heads": 4, "head_width": 32, "feed_forward": 512}),
}
"""Kinds of blocks by name."""
SHARDS = {"rows": 2, "columns": 4, "inner": 1, "samples": 2}
"""Pieces along each dimension, and samples that a buffer has room for, where nothing else is said."""


def block(name: str, sizes: Mapping[str, int], shards: Mapping[str, int]) -> list[Operator]:
    """Operators of a block with some sizes and sharding. Raises UsageFault for names that it does not know.

    >>> [operator.name for operator in block("mlp", {"depth": 2}, {"rows": 1})]
    ['product_1', 'activation_1', 'product_2']
    """
    if name not in BLOCKS:
        raise UsageFault(unknown("block", name, BLOCKS))
    kind = BLOCKS[name]
    for what, given, known in (("size", sizes, kind.sizes), ("sharding", shards, SHARDS)):
        for key in given:
            if key not in known:
                raise UsageFault(unknown(what, key, known))
    how = {**SHARDS, **shards}
    sharding = Sharding(how["rows"], how["columns"], how["inner"], how["samples"])
    operators = kind.make(**{**kind.sizes, **sizes}, sharding=sharding)
    for each in operators:
        cut, wide = each.sharding, each.batch if each.batch > 1 else each.columns
        if cut.rows > each.rows or cut.columns > wide or (each.inner and cut.inner > each.inner):
            asked = (("rows", cut.rows, each.rows), ("columns", cut.columns, wide), ("inner", cut.inner, each.inner))
            name, pieces, there = next(kind for kind in asked if kind[1] > kind[2])
            raise UsageFault(f"{each.name} has {there:,} {name}, and is to be cut into {pieces:,} pieces of them")
    return operators
