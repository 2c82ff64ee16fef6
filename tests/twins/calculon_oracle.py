"""Calculon's model of GPT training in plain Python: one execution in, its time and memory out; and its search space.

Source: Isaev, McDonald, Dennison and Vuduc, SC'23, doi 10.1145/3581784.3607102; program calculon-ai/calculon, commit
caa4b11. Restated from its equations; inputs keep Calculon's names and units, so that its JSON files can be given as
they are. Results have SI units in their names. Training only: Calculon's inference has no cache and no generation.

A model is a list of layers (`block_layers`). A block is their sum (`block_sums`), once for a block in the middle of a
chunk (base) and once for the last one, which also talks to the next pipeline stage (edge). A batch is composed of
those two by closed forms (`batch_times`, `data_parallel_exposed_s`, `memory`).

`repaired=False` is Calculon as it is. `repaired=True` differs from it in exactly these points:

1. Recomputation counts the flops and bytes of the layer; Calculon adds the running sum of the block so far. Only the
   overlap of data-parallel communication reads these counters.
2. The tile that `pipe` cannot overlap is exposed communication; Calculon also adds it to the computing time.
3. A tiled row-parallel product stores its input, and reads it in the backward pass, whatever the collective; Calculon
   stores and reads none for all-reduce.
4. With selective recomputation the input of the query, key and value products is stored in full unless a shard of it
   is stored and gathered again. Calculon drops it even where there is no shard, that is without sequence parallelism.
   What is stored in full is not gathered again either (the edge block of `p2p_rs_ag`).
5. A tiled column-parallel product that does not gather its input again stores the gathered input besides the shard,
   and reads it in the backward pass, as the untiled pair of all-gather and product does; Calculon stores the shard
   only and gathers nothing. So overlap no longer changes what is stored.
6. The exposed time of an overlapped data-parallel collective that takes c seconds is at least u c and at most
   (1 + u) c, where u is the share of the processor that the collective occupies: while it runs, and only then, it
   slows computing by u. Calculon has no upper bound, and drops u c just where the collective begins to show.
7. The edge block's tiled products overlap the edge block's collective; Calculon takes the base block's.
10. The optimizer's flops count once per batch in the efficiencies, not once per microbatch.
11. No message, no latency: without a pipeline there is no point-to-point message.

Kept, as inputs or conventions of the original: step curves of efficiency (8); `must_be_filled` accepts any divisor
(9); a tiled column-parallel product under all-reduce reads no output gradient, a tiled row-parallel one counts its
output gradient twice.
"""

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Values = Mapping[str, Any]
Curve = Sequence[tuple[float, float]]

ELEMENT_B = {"float8": 1, "float16": 2, "bfloat16": 2, "float32": 4}
STAGES = ("forward", "input_gradient", "weight_gradient")


# rates of the system


def efficiency(curve: Curve, amount: float) -> float:
    """The step curve's value: that of the first (largest) threshold which `amount` reaches."""
    return next(value for threshold, value in curve if amount >= threshold)


def flops_s(flops: float, engine: Values) -> float:
    """Seconds for `flops` on an engine of `tflops` and a curve over GFLOP."""
    return flops / (engine["tflops"] * 1e12 * efficiency(engine["gflops_efficiency"], flops / 1e9))


def bytes_s(moved_B: float, memory: Values) -> float:
    """Seconds to move bytes to or from a memory of `GBps` and a curve over MB."""
    return moved_B / (memory["GBps"] * 1e9 * efficiency(memory["MB_efficiency"], moved_B / 1e6))


def processing_s(compute_s: float, memory_s: float, system: Values) -> float:
    """A layer's time: the longer of computing and moving, or both."""
    return max(compute_s, memory_s) if system["processing_mode"] == "roofline" else compute_s + memory_s


def network_s(operation: str, message_B: float, peers: int, network: Values) -> float:
    """Seconds of one collective: latency and scaled bytes over the bandwidth of one direction."""
    scale, offset = network["ops"][operation]
    sent_B = message_B * scale * (1 + (offset or 0) / peers)
    return network["latency"] + sent_B / (network["bandwidth"] * 1e9 * network["efficiency"])


# one block as layers


@dataclass(frozen=True)
class Layer:
    """What one layer of one block does for one microbatch on one processor.

    `flops` and `moved_B` are per stage. `collective` is "column" (gathers before or reduces the input gradient) or
    "row" (reduces its result or gathers the gradient) or "". `tiled`: the collective overlaps with the layer's product.
    """

    name: str
    flops: tuple[float, float, float]
    moved_B: tuple[float, float, float]
    weights: float = 0
    working_B: float = 0
    stored_B: float = 0
    gradient_B: float = 0
    matrix: bool = False
    recomputed: bool = False
    collective: str = ""
    tiled: bool = False
    repeated: bool = False


def block_layers(application: Values, execution: Values, repaired: bool) -> list[Layer]:
    """The layers of one transformer block, in order."""
    h, f, s = application["hidden"], application["feedforward"], application["seq_size"]
    a, k = application["attn_heads"], application["attn_size"]
    t, b = execution["tensor_par"], execution["microbatch_size"]
    E = ELEMENT_B[execution["datatype"]]
    sharded = execution["tensor_par_comm_type"] == "rs_ag"
    tiled = execution["tensor_par_overlap"] != "none"
    multihead = execution["attention_type"] == "multihead"
    full = execution["activation_recompute"] == "full"
    attention = execution["activation_recompute"] in ("full", "attn_only")
    redo = execution["seq_par_ag_redo"]
    regather_attention = full or (attention and (sharded or not repaired)) or redo
    regather_mlp = full or redo
    M = b * s
    A = M * h
    X = M // t * h if sharded else A
    N = a // t * s * s * b

    def layer(
        name: str,
        flops: tuple[float, float, float],
        inputs: float,
        outputs: float,
        *,
        weights: float = 0,
        kept: float | None = None,
        gradient: float | None = None,
        stores: bool = True,
        stores_output: bool = True,
        reuses: bool = False,
        moved_B: tuple[float, float, float] | None = None,
        **flags: Any,
    ) -> Layer:
        """A layer by its element counts; `kept` (inputs if not given) is read again in the backward pass."""
        kept = inputs if kept is None else kept
        gradient = outputs if gradient is None else gradient
        backward_B = (weights + kept + gradient) * E
        default_B = ((inputs + outputs + weights) * E, backward_B, backward_B if weights else 0)
        return Layer(
            name,
            flops,
            moved_B or default_B,
            weights=weights,
            working_B=0 if reuses else kept * E,
            stored_B=kept * E * stores - outputs * E * (not stores_output),
            gradient_B=gradient * E,
            **flags,
        )

    def linear(name: str, n: int, m: int, **more: Any) -> Layer:
        """Product of M rows, from n to m columns."""
        return layer(name, (2 * M * n * m,) * 3, M * n, M * m, weights=n * m, matrix=True, **more)

    def tiled_linear(name: str, n: int, m: int, collective: str, repeated: bool) -> Layer:
        """Product of M rows from n to m columns over the tensor group, overlapped with its collective."""
        n, m = (n, m // t) if collective == "column" else (n // t, m)
        whole = M * n
        shard = M * n // t if sharded and collective == "column" else 0
        if collective == "row":
            kept = whole if sharded or repaired else 0
            gradient = 2 * (M * m // t) if sharded else 2 * M * m
        else:
            kept = whole if not sharded or (repaired and not repeated) else shard
            gradient = M * m if sharded else 0
        flags = {"recomputed": full, "collective": collective, "tiled": True, "repeated": repeated}
        made = linear(name, n, m, kept=kept, gradient=gradient, **flags)
        besides_B = shard * E if kept != shard else 0
        return replace(made, working_B=made.working_B + besides_B, stored_B=made.stored_B + besides_B)

    def communication(name: str, collective: str, repeated: bool) -> Layer:
        """The collective by itself: where it reduces it adds t shares, and it copies its buffer."""
        if t == 1:
            return Layer(name, (0, 0, 0), (0, 0, 0), collective=collective, repeated=repeated)
        adds, copies, shard = A * (t - 1) / t, 2 * A * E, A * E / t
        row = collective == "row"
        held = shard if sharded else A * E * row
        return Layer(
            name,
            (adds * row, adds * (not row), 0),
            (copies * (sharded or row), copies * (sharded or not row), 0),
            working_B=held,
            stored_B=0 if row else held,
            gradient_B=shard if sharded else A * E * (not row),
            collective=collective,
            repeated=repeated,
        )

    def fork(name: str, size: float, users: int, **more: Any) -> Layer:
        """One tensor with several readers, whose gradients are added."""
        return layer(name, (0, users * size, 0), size, 0, moved_B=(0, size * E * (users + 1), 0), gradient=0, **more)

    def norm(name: str) -> Layer:
        return layer(name, (9 * X, 14 * X, 7 * X), X, X, weights=2 * h, stores=False, reuses=True, recomputed=full)

    def dropout(name: str, size: float, recomputed: bool, stores: bool = True) -> Layer:
        """Mask of one byte per element; nothing else is kept."""
        moved_B = 2 * size * E + size
        return Layer(
            name,
            (size, size, 0),
            (moved_B, moved_B, 0),
            working_B=size,
            stored_B=size * stores,
            gradient_B=size,
            recomputed=recomputed,
        )

    def residual(name: str) -> Layer:
        return layer(name, (X, 2 * X, 0), 2 * X, X, stores=False, reuses=True, recomputed=full)

    def batched(name: str, m: int, n: int, p: int, **more: Any) -> Layer:
        """Products (m x n)(n x p) of every local head and sample."""
        count = b * a // t
        inputs, outputs = count * (m * n + n * p), count * m * p
        return layer(name, (2 * count * m * n * p, 4 * count * m * n * p, 0), inputs, outputs, matrix=True, **more)

    def projections() -> Iterator[Layer]:
        """From the norm to queries, keys and values."""
        shared = {"recomputed": full, "stores": False, "reuses": True}
        stored = {"recomputed": regather_attention, "stores": not regather_attention}
        if tiled:
            columns = 3 * a * k if multihead else a * k
            yield tiled_linear("query_key_value", h, columns, "column", regather_attention)
            if not multihead:
                yield fork("key_value_fork", A, 2, **stored)
        else:
            yield communication("attention_gather", "column", regather_attention)
            yield fork("query_key_value_fork", A, 3, **stored)
            yield linear("query", h, a * k // t, **shared)
        if not tiled or not multihead:
            width = a * k // t if multihead else k
            yield linear("key", h, width, **shared)
            yield linear("value", h, width, **shared)

    def column(name: str, n: int, m: int) -> Iterator[Layer]:
        """Feed-forward product that follows a gather."""
        if tiled:
            yield tiled_linear(name, n, m, "column", regather_mlp)
        else:
            yield communication(name + "_gather", "column", regather_mlp)
            yield linear(name, n, m // t, recomputed=full, stores=not regather_mlp)

    def row(name: str, n: int, m: int) -> Iterator[Layer]:
        """Product that a reduction follows."""
        if tiled:
            yield tiled_linear(name, n, m, "row", full)
        else:
            yield linear(name, n // t, m, recomputed=full)
            yield communication(name + "_reduce", "row", full)

    elementwise_B = 2 * N * E
    gelu = f * M // t
    gelu_kept = 0 if execution["fused_activation"] else gelu
    return [
        fork("attention_fork", X, 2, recomputed=full),
        norm("attention_norm"),
        *projections(),
        batched("scores", s, k, s, recomputed=attention, stores_output=not attention),
        layer(
            "softmax",
            (5 * N, 8 * N, 0),
            N,
            N,
            moved_B=(elementwise_B, elementwise_B, 0),
            recomputed=attention,
            stores_output=not attention,
        ),
        dropout("scores_dropout", N, attention, stores=not attention),
        batched("values", s, s, k, recomputed=full),
        *row("projection", a * k, h),
        dropout("attention_dropout", X, full),
        residual("attention_residual"),
        fork("mlp_fork", X, 2, recomputed=full),
        norm("mlp_norm"),
        *column("up", h, f),
        layer(
            "gelu",
            (8 * gelu, 13 * gelu, 0),
            gelu,
            gelu,
            kept=gelu_kept,
            gradient=gelu_kept,
            moved_B=(2 * gelu * E, 2 * gelu * E, 0),
            recomputed=full,
        ),
        *row("down", f, h),
        dropout("mlp_dropout", X, full),
        residual("mlp_residual"),
    ]


# one block as sums


@dataclass(frozen=True)
class Tensor:
    """The tensor-parallel collectives of a base or an edge block: what is sent, by whom and over what."""

    network: Values
    peers: int
    message_B: float
    element_B: int
    split: bool
    pipe: bool
    vector: Values

    def operation(self, collective: str, stage: str) -> str:
        """The collective of a stage; the re-communication of a forward collective is that collective."""
        if self.peers == 1 or not collective:
            return ""
        reduces = (collective == "row") == (stage != "input_gradient")
        if reduces:
            return "reduce_scatter" if self.split else "all_reduce"
        return "all_gather" if self.split else ""

    def sent_s(self, collective: str, stage: str) -> float:
        operation = self.operation(collective, stage)
        return network_s(operation, self.message_B, self.peers, self.network) if operation else 0.0

    def tiled_s(self, layer: Layer, stage: str) -> float:
        """Link time of a collective that overlaps with a product: the addition of shares is part of it."""
        if stage == "weight_gradient":
            return self.sent_s(layer.collective, "forward") if layer.repeated else 0.0
        adds = "reduce" in self.operation(layer.collective, stage)
        added = self.message_B / self.element_B * (self.peers - 1) / self.peers
        return self.sent_s(layer.collective, stage) + (flops_s(added, self.vector) if adds else 0.0)


def overlapped_s(
    compute_s: float, memory_s: float, link_s: float, tensor: Tensor, system: Values, repaired: bool
) -> tuple[float, float]:
    """Processing time and exposed communication of a product in as many tiles as there are peers.

    While one tile is sent the next is computed, at 1 - u of the speed. What a tile's message takes longer than its
    slowed computing is exposed; otherwise the messages cost the share u of their time. `pipe` exposes one more tile.
    """
    whole_s = processing_s(compute_s, memory_s, system)
    if link_s == 0:
        return whole_s, 0.0
    tiles, usage = tensor.peers, tensor.network["processor_usage"]
    slowed_s = compute_s / (1 - usage)
    excess_s = (link_s - slowed_s) / tiles
    if excess_s > 0:
        time_s = (whole_s + (tiles - 1) * processing_s(slowed_s, memory_s, system)) / tiles
        exposed_s = (tiles - 1) * excess_s
    else:
        time_s = whole_s + (tiles - 1) / tiles * link_s * usage
        exposed_s = 0.0
    if tensor.pipe:
        exposed_s += link_s / tiles
        time_s += 0.0 if repaired else link_s / tiles
    return time_s, exposed_s


@dataclass
class Block:
    """Sums over the layers of one block, one microbatch; `optimizer` once per batch. Times in seconds.

    Per stage (the three of STAGES, "recompute", "optimizer"): processing time, and of it computing and memory alone.
    Per stage with a collective ("recompute" stands for its repetition): time on the link, and exposed.
    """

    time_s: dict[str, float]
    compute_s: dict[str, float]
    memory_s: dict[str, float]
    link_s: dict[str, float]
    exposed_s: dict[str, float]
    flops: dict[str, float]


def block_sums(
    layers: Sequence[Layer], tensor: Tensor, overlap: Tensor, shard: int, system: Values, datatype: str, repaired: bool
) -> Block:
    """Sum the layers. `overlap` are the collectives that tiled products hide (Calculon: always the base block's)."""
    matrix, vector = system["matrix"][datatype], system["vector"][datatype]
    zero = dict.fromkeys((*STAGES, "recompute", "optimizer"), 0.0)
    block = Block(*(dict(zero) for _ in range(6)))

    def add(stage: str, time_s: float, compute_s: float, memory_s: float, flops: float) -> None:
        block.time_s[stage] += time_s
        block.compute_s[stage] += compute_s
        block.memory_s[stage] += memory_s
        block.flops[stage] += flops

    for layer in layers:
        exposed_forward_s = 0.0
        for stage, flops, moved_B in zip(STAGES, layer.flops, layer.moved_B, strict=True):
            compute_s = flops_s(flops, matrix if layer.matrix else vector)
            memory_s = bytes_s(moved_B, system["mem1"])
            time_s, link_s, exposed_s = processing_s(compute_s, memory_s, system), 0.0, 0.0
            if layer.tiled:
                link_s = tensor.tiled_s(layer, stage)
                hidden_s = overlap.tiled_s(layer, stage)
                time_s, exposed_s = overlapped_s(compute_s, memory_s, hidden_s, overlap, system, repaired)
            elif layer.collective:
                if stage != "weight_gradient":
                    link_s = exposed_s = tensor.sent_s(layer.collective, stage) + time_s
                time_s = 0.0
            add(stage, time_s, compute_s, memory_s, flops)
            if stage == "forward":
                exposed_forward_s = exposed_s
                if layer.recomputed:
                    if repaired:
                        add("recompute", time_s, compute_s, memory_s, flops)
                    else:
                        sums = (total["forward"] for total in (block.compute_s, block.memory_s, block.flops))
                        add("recompute", time_s, *sums)
            if stage != "weight_gradient":
                block.link_s[stage] += link_s
                block.exposed_s[stage] += exposed_s
        if layer.repeated:
            again_s = tensor.sent_s(layer.collective, "forward")
            block.link_s["recompute"] += again_s
            block.exposed_s["recompute"] += exposed_forward_s if layer.tiled else again_s
        compute_s = flops_s(11 * layer.weights / shard, vector)
        memory_s = bytes_s(optimizer_B(layer.weights, datatype) / shard, system["mem1"])
        add("optimizer", processing_s(compute_s, memory_s, system), compute_s, memory_s, 11 * layer.weights / shard)
    return block


def optimizer_B(weights: float, datatype: str) -> float:
    """Adam's two moments in 32 bits, and a 32-bit copy of the weights if they are shorter."""
    return weights * (8 if ELEMENT_B[datatype] == 4 else 12)


# a batch


def rejection(application: Values, execution: Values, system: Values) -> str:
    """Why an execution cannot be laid out, or nothing: "split", "network", "interleaving", "offload"."""
    degrees = {name: execution[f"{name}_par"] for name in ("tensor", "pipeline", "data")}
    t, p = degrees["tensor"], degrees["pipeline"]
    if any(application[name] % t for name in ("hidden", "feedforward", "attn_heads")):
        return "split"
    if execution["tensor_par_comm_type"] != "ar" and execution["microbatch_size"] * application["seq_size"] % t:
        return "split"
    for tier, network in enumerate(system["networks"]):
        used = math.prod(n for name, n in degrees.items() if execution[f"{name}_par_net"] == tier)
        if used > network["size"] or (network["must_be_filled"] and network["size"] % used):
            return "network"
    blocks = -(-application["num_blocks"] // p)
    if blocks % execution["pipeline_interleaving"]:
        return "interleaving"
    offloads = any(execution[f"{name}_offload"] for name in ("weight", "activations", "optimizer"))
    return "offload" if offloads and blocks <= 2 else ""


def data_parallel_exposed_s(
    execution: Values,
    network: Values,
    base: Block,
    edge: Block,
    backward_s: tuple[float, float],
    blocks: int,
    microbatches: int,
    block_link_s: float,
    pipeline_s: float,
    repaired: bool,
) -> float:
    """Exposed seconds of the data-parallel collectives if they overlap with the backward pass.

    The gradients of every chunk but the last are sent while the next chunk's p microbatches are processed; those of
    the last chunk while its remaining blocks are; those of the very last block have nothing to hide behind.
    """
    p, v = execution["pipeline_par"], execution["pipeline_interleaving"]
    sharded = execution["optimizer_sharding"]
    usage = network["processor_usage"]
    backward = ("input_gradient", "weight_gradient", "recompute")

    def window_s(block: Block, whole_s: float) -> float:
        """Time of a block's backward pass that communication can use: not while memory or its own link is busy."""
        free_s = whole_s - sum(block.memory_s[stage] for stage in backward)
        if not sharded:
            free_s += optimizer_s
        if execution["data_par_net"] == execution["tensor_par_net"]:
            free_s -= block.link_s["recompute"] + block.link_s["input_gradient"]
        return free_s

    def shown_s(inflection_s: float, sent_s: float) -> float:
        """Cost of a collective: the excess over its window, or else the slow-down of what hides it."""
        if repaired:
            return min(max(inflection_s, usage * sent_s), (1 + usage) * sent_s)
        return inflection_s if inflection_s > 0 else usage * sent_s

    optimizer_s = base.time_s["optimizer"] - base.memory_s["optimizer"]
    compute_s = sum(base.compute_s[stage] for stage in backward)
    if not sharded:
        compute_s += base.compute_s["optimizer"]
    base_s, edge_s = backward_s
    chunk_window_s = (blocks - 1) * window_s(base, base_s) + window_s(edge, edge_s)
    chunk_link_s = blocks * block_link_s
    collisions = 0.0
    if execution["data_par_net"] == execution["pipeline_par_net"]:
        chunk_backward_s = (blocks - 1) * base_s + edge_s
        collisions = min(chunk_link_s // chunk_backward_s, microbatches % p or p)
    inflection_s = chunk_link_s - (p * chunk_window_s - collisions * pipeline_s) + p * blocks * compute_s * usage
    body_s = (v - 1) * shown_s(inflection_s, chunk_link_s)
    last_window_s = 0.0
    if blocks > 1:
        last_window_s = chunk_window_s - pipeline_s - (base_s + edge_s) / 2 + (0.0 if sharded else optimizer_s)
    last_link_s = (blocks - 1) * block_link_s
    tail_s = shown_s(last_link_s + compute_s * usage - last_window_s, last_link_s)
    return block_link_s + body_s + tail_s


def memory(layers: Sequence[Layer], execution: Values, blocks: int, microbatches: int, checkpoint_B: float) -> Values:
    """Bytes on the first pipeline stage; `tier1_B` and `tier2_B` are what the two memories must hold."""
    p, v = execution["pipeline_par"], execution["pipeline_interleaving"]
    E = ELEMENT_B[execution["datatype"]]
    shard = execution["data_par"] if execution["optimizer_sharding"] else 1
    full = execution["activation_recompute"] == "full"
    count = sum(layer.weights for layer in layers)
    weight_B, gradient_B, optimizer = count * E, count * E / shard, optimizer_B(count, execution["datatype"]) / shard
    working_B = sum(layer.working_B for layer in layers)
    stored_B = 0.0 if full else sum(layer.stored_B for layer in layers)
    in_flight = min(microbatches, p) * (1 + (p - 1) / (v * p) if v > 1 else 1)
    sizes = {
        "block_weight_B": weight_B,
        "block_optimizer_B": optimizer,
        "block_stored_B": stored_B,
        "block_working_B": working_B,
        "weight_B": blocks * weight_B,
        "weight_gradient_B": 4 * count + gradient_B * (blocks - 1),
        "optimizer_B": blocks * optimizer,
        "activation_B": working_B + (0.0 if full else stored_B * (blocks * in_flight - 1)),
        "checkpoint_B": blocks * checkpoint_B * in_flight,
        "activation_gradient_B": sum(layer.gradient_B for layer in layers),
    }
    tier1_B, tier2_B = sizes["activation_gradient_B"], 0.0
    parts = {
        "weight": (sizes["weight_B"], 2 * weight_B, sizes["weight_B"]),
        "activations": (
            sizes["activation_B"] + sizes["checkpoint_B"],
            working_B + stored_B + 2 * checkpoint_B,
            sizes["checkpoint_B"] if full else sizes["activation_B"],
        ),
        "optimizer": (
            sizes["weight_gradient_B"] + sizes["optimizer_B"],
            4 * count + gradient_B + 2 * optimizer,
            blocks * (gradient_B + optimizer),
        ),
    }
    for name, (here_B, left_B, away_B) in parts.items():
        offloaded = execution[f"{name}_offload"]
        tier1_B += left_B if offloaded else here_B
        tier2_B += away_B if offloaded else 0.0
    return sizes | {"tier1_B": tier1_B, "tier2_B": tier2_B}


def evaluate(application: Values, execution: Values, system: Values, repaired: bool = True) -> dict[str, Any]:
    """Times, bytes and efficiencies of one batch. `reason` is why it is infeasible, or "".

    An execution that does not fit ("memory", "second_memory") has all results; one that cannot be laid out (see
    `rejection`) has the reason only. The sum of the times after `total_s` up to `data_exposed_s` is `total_s`.
    """
    reason = rejection(application, execution, system)
    if reason:
        return {"reason": reason}
    t, p, d = (execution[f"{name}_par"] for name in ("tensor", "pipeline", "data"))
    v, datatype = execution["pipeline_interleaving"], execution["datatype"]
    E = ELEMENT_B[datatype]
    stage_blocks = -(-application["num_blocks"] // p)
    missing = stage_blocks * p - application["num_blocks"]
    chunk_blocks = stage_blocks // v
    microbatches = execution["batch_size"] // d // execution["microbatch_size"]
    shard = d if execution["optimizer_sharding"] else 1
    full = execution["activation_recompute"] == "full"
    comm = execution["tensor_par_comm_type"]
    networks = {name: system["networks"][execution[f"{name}_par_net"]] for name in ("tensor", "pipeline", "data")}
    tokens = execution["microbatch_size"] * application["seq_size"]
    A_B = tokens * application["hidden"] * E
    layers = block_layers(application, execution, repaired)

    def tensor(split: bool) -> Tensor:
        pipe = execution["tensor_par_overlap"] == "pipe"
        return Tensor(networks["tensor"], t, A_B, E, split, pipe, system["vector"][datatype])

    base_tensor, edge_tensor = tensor(comm == "rs_ag"), tensor(comm != "ar")
    base = block_sums(layers, base_tensor, base_tensor, shard, system, datatype, repaired)
    edge = block_sums(layers, edge_tensor, edge_tensor if repaired else base_tensor, shard, system, datatype, repaired)
    sizes = memory(layers, execution, stage_blocks, microbatches, A_B if full else 0)

    def per_batch(of: str, *stages: str) -> float:
        """A sum over all blocks and microbatches of one processor."""
        base_sum, edge_sum = (sum(getattr(block, of)[stage] for stage in stages) for block in (base, edge))
        return microbatches * v * ((chunk_blocks - 1) * base_sum + edge_sum)

    # messages between pipeline stages
    message_B = 0.0 if p == 1 else A_B if comm == "ar" else tokens // t * application["hidden"] * E
    pipeline_s = network_s("p2p", message_B, 2, networks["pipeline"])
    if p == 1 and repaired:
        pipeline_s = 0.0

    # one block, with what moving to and from the second memory adds
    held_B = A_B if full else sizes["block_stored_B"]
    away_B = {
        "weight": execution["weight_offload"] * sizes["block_weight_B"],
        "activations": execution["activations_offload"] * held_B,
        "optimizer": execution["optimizer_offload"] * sizes["block_optimizer_B"],
    }
    forward_away_s = bytes_s(max(away_B["weight"], away_B["activations"]), system["mem2"])
    backward_away_s = bytes_s(sum(away_B.values()), system["mem2"])

    def block_s(block: Block, last: bool) -> tuple[float, float, float, float]:
        """Forward and backward time of a block, and the part of each that is waiting for the second memory."""
        forward_s = block.time_s["forward"] + block.exposed_s["forward"] + last * pipeline_s
        backward_s = (
            sum(block.time_s[stage] for stage in ("recompute", "input_gradient", "weight_gradient"))
            + block.exposed_s["recompute"]
            + block.exposed_s["input_gradient"]
            + last * pipeline_s
        )
        backward_memory_s = block.memory_s["input_gradient"] + block.memory_s["weight_gradient"]
        forward_wait_s = max(0.0, forward_away_s + block.memory_s["forward"] - forward_s)
        backward_wait_s = max(0.0, backward_away_s + backward_memory_s - backward_s)
        return forward_s + forward_wait_s, backward_s + backward_wait_s, forward_wait_s, backward_wait_s

    base_s, edge_s = block_s(base, False), block_s(edge, True)
    chunk_s = [(chunk_blocks - 1) * of_base + of_edge for of_base, of_edge in zip(base_s, edge_s, strict=True)]

    # pipeline bubble: 1F1B, interleaved if v > 1; late stages may lack a block
    late = microbatches % p
    idle_chunks = p - 1 + (v - 1) * (p - late if late else 0)
    shorter_s = sum(edge_s[:2]) if chunk_blocks == 1 else (sum(base_s[:2]) + sum(edge_s[:2])) / 2
    bubble_s = idle_chunks * (chunk_s[0] + chunk_s[1]) - missing * shorter_s

    # data parallelism
    operations = () if d == 1 else ("reduce_scatter", "all_gather") if shard > 1 else ("all_reduce",)
    block_link_s = sum(network_s(operation, sizes["block_weight_B"], d, networks["data"]) for operation in operations)
    data_exposed_s = stage_blocks * block_link_s
    if execution["data_par_overlap"]:
        data_exposed_s = data_parallel_exposed_s(
            execution,
            networks["data"],
            base,
            edge,
            (base_s[1], edge_s[1]),
            chunk_blocks,
            microbatches,
            block_link_s,
            pipeline_s,
            repaired,
        )

    times = {
        "forward_s": per_batch("time_s", "forward"),
        "backward_s": per_batch("time_s", "input_gradient", "weight_gradient"),
        "optimizer_s": stage_blocks * base.time_s["optimizer"],
        "forward_offload_s": microbatches * v * chunk_s[2],
        "backward_offload_s": microbatches * v * chunk_s[3],
        "recompute_s": per_batch("time_s", "recompute"),
        "recommunication_exposed_s": per_batch("exposed_s", "recompute"),
        "bubble_s": bubble_s,
        "tensor_exposed_s": per_batch("exposed_s", "forward", "input_gradient"),
        "pipeline_exposed_s": 2 * microbatches * v * pipeline_s if p > 1 else 0.0,
        "data_exposed_s": data_exposed_s,
    }
    total_s = sum(times.values())
    per_microbatch = sum(base.flops[stage] for stage in STAGES)
    optimizer_flops = base.flops["optimizer"] * (1 if repaired else microbatches)
    ideal_s = stage_blocks * (microbatches * per_microbatch + optimizer_flops)
    ideal_s /= system["matrix"][datatype]["tflops"] * 1e12
    computing_s = times["forward_s"] + times["backward_s"] + times["optimizer_s"]
    if sizes["tier1_B"] > system["mem1"]["GiB"] * 2**30:
        reason = "memory"
    elif sizes["tier2_B"] > system["mem2"]["GiB"] * 2**30:
        reason = "second_memory"
    return {
        "reason": reason,
        "total_s": total_s,
        **times,
        "data_link_s": stage_blocks * block_link_s,
        "tensor_link_s": per_batch("link_s", "forward", "input_gradient"),
        **sizes,
        "compute_efficiency": ideal_s / computing_s,
        "system_efficiency": computing_s / total_s,
        "total_efficiency": ideal_s / total_s,
        "samples_per_s": execution["batch_size"] / total_s,
    }


# the search space


def divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def search_boxes(
    application: Values, num_procs: int, max_batch: int, system: Values, datatype: str = "float16"
) -> list[list[list[dict[str, Any]]]]:
    """Calculon's search for one model and number of processors, as products of small tables.

    A box is a list of tables; a table is a list of rows; an execution takes one row of each. There is a box for every
    division (t, p, d) of the processors: heads and the hidden size divisible by t, blocks by p. In a box,

    - interleaving divides the blocks of a stage, and is 1 without a pipeline;
    - microbatches divide the samples of a replica, max_batch over d rounded down; there must be one;
    - recomputation, collective, repeated all-gather and offloaded activations are one table: an all-gather may be
      repeated under sequence parallelism unless all is recomputed, and then activations are not offloaded either;
    - sharding and overlap of data parallelism need d > 1, tiling needs t > 1;
    - each group of more than one processor is put on any network.

    Fused activation and multi-head attention always.
    """
    second = [False, True] if system["mem2"]["GiB"] > 0 else [False]

    def rows(*names: str, of: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        return [dict(zip(names, row, strict=True)) for row in of]

    def tier(name: str, degree: int) -> list[dict[str, Any]]:
        return rows(f"{name}_par_net", of=[(n,) for n in range(len(system["networks"]) if degree > 1 else 1)])

    modes = [
        (recompute, comm, redo, away)
        for recompute in ("full", "attn_only", "none")
        for comm in ("ar", "p2p_rs_ag", "rs_ag")
        for redo in ([False, True] if comm == "rs_ag" and recompute != "full" else [False])
        for away in (second if recompute != "full" else [False])
    ]
    boxes = []
    for t in divisors(num_procs):
        if application["hidden"] % t or application["attn_heads"] % t:
            continue
        for p in divisors(num_procs // t):
            if application["num_blocks"] % p:
                continue
            d = num_procs // (t * p)
            replica = max_batch // d
            if replica == 0:
                continue
            fixed = {
                "num_procs": num_procs,
                "tensor_par": t,
                "pipeline_par": p,
                "data_par": d,
                "batch_size": replica * d,
                "datatype": datatype,
                "fused_activation": True,
                "attention_type": "multihead",
                "training": True,
            }
            interleavings = divisors(application["num_blocks"] // p) if p > 1 else [1]
            samples = [b for b in divisors(replica) if b * application["seq_size"] % t == 0]
            either = [(False,), (True,)] if d > 1 else [(False,)]
            boxes.append(
                [
                    [fixed],
                    rows("pipeline_interleaving", of=[(v,) for v in interleavings]),
                    rows("microbatch_size", of=[(b,) for b in samples]),
                    rows(
                        "activation_recompute",
                        "tensor_par_comm_type",
                        "seq_par_ag_redo",
                        "activations_offload",
                        of=modes,
                    ),
                    rows("optimizer_sharding", of=either),
                    rows("data_par_overlap", of=either),
                    rows("tensor_par_overlap", of=[(o,) for o in (("none", "ring", "pipe") if t > 1 else ("none",))]),
                    rows("weight_offload", of=[(o,) for o in second]),
                    rows("optimizer_offload", of=[(o,) for o in second]),
                    tier("tensor", t),
                    tier("pipeline", p),
                    tier("data", d),
                ]
            )
    return boxes


def box_size(box: Sequence[Sequence[Any]]) -> int:
    return math.prod(len(table) for table in box)


def joined(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {name: value for row in rows for name, value in row.items()}


def executions(
    application: Values, num_procs: int, max_batch: int, system: Values, datatype: str = "float16"
) -> Iterator[dict[str, Any]]:
    """Every execution of the search."""
    for box in search_boxes(application, num_procs, max_batch, system, datatype):
        for rows in itertools.product(*box):
            yield joined(rows)


def sampled_executions(boxes: Sequence[Sequence[Any]], count: int, seed: int) -> list[dict[str, Any]]:
    """A uniform sample of the executions of some boxes, with repetition."""
    generator = random.Random(seed)
    chosen = generator.choices(boxes, weights=[box_size(box) for box in boxes], k=count)
    return [joined([generator.choice(table) for table in box]) for box in chosen]
