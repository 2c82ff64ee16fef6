"""Tensor groups that are grids of chips: messages of a run by hand, published costs, what is conserved and refused."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from sweeper.errors import SpecError
from sweeper.kernels.codes import DIMENSION_KINDS, GROUPS, OPERATIONS, OPERATOR_TYPES, REASONS
from sweeper.kernels.transformers.groups import G, group_extents
from sweeper.kernels.transformers.operators import D
from sweeper.library.library import Library, builtin_specs
from sweeper.library.table_workload import read_table
from sweeper.planning.plan import make_plan
from tests.kernels.transformers.test_device_mapping import network
from tests.kernels.transformers.test_models import EXACT, evaluate, mapped
from tests.planning.test_unread import TRANSFORMER
from tests.support.examples import examples, first_of
from tests.twins.naive import call
from tests.twins.naive_grid import Grid, random_weights, train
from tests.twins.naive_models import mappings

OPERATORS = {op.name: op for op in read_table(Library.load([builtin_specs()]).find("workload", "decoder")).operators}
COLLECTIVES = {
    name: OPERATIONS[operator.words["operation"]]
    for name, operator in OPERATORS.items()
    if OPERATOR_TYPES[operator.words["type"]] == "collective" and GROUPS[operator.words["group"]].startswith("tensor")
}
"""Operations of the collectives of tensor groups."""
ADJOINT = {"all_gather": "reduce_scatter", "reduce_scatter": "all_gather"}
ACTIVATION_B, WEIGHT_B, GRADIENT_B, SUM_B = 2.0, 2.0, 4.0, 4.0
"""Bytes of elements in the usual formats; sums of norms and of the loss are kept in 32 bits."""
SWITCH = {"topology": "switch", "dim_y": 1.0}


def on_grid(rows: int, columns: int, samples: float, **changes: Any) -> dict[str, Any]:
    """One microbatch of GPT-3 on one tensor group, all of whose chips stand at one switch."""
    chips = rows * columns
    fixed = {"tensor_rows": float(rows), "microbatch": samples, "batch_size": samples, "dim_x": float(chips), **SWITCH}
    return mapped(changes.pop("workload", "gpt3_6_7b"), chips, **{**fixed, **changes})


def operator(found: dict[str, np.ndarray], name: str) -> np.ndarray:
    """Numbers of an operator of every point."""
    return found["operator_dims"][:, list(OPERATORS).index(name)]


def messages(dims: np.ndarray) -> dict[tuple[str, str, str], float]:
    """Bytes of every collective of a tensor group by operator, operation and pass."""
    found = {}
    for i, name in enumerate(OPERATORS):
        if name in COLLECTIVES and dims[i, D.count] > 0.0:
            operation = COLLECTIVES[name]
            found[name, operation, "forward"] = dims[i, D.count] * dims[i, D.message]
            found[name, ADJOINT.get(operation, operation), "backward"] = dims[i, D.count] * dims[i, D.backward_message]
    return {key: value for key, value in found.items() if value > 0.0}


# against the run by hand

HIDDEN, HEAD, INNER, WORDS, POSITIONS, TOKENS, SAMPLES = 32, 4, 48, 64, 16, 3, 8
GRIDS = ((2, 1), (4, 1), (2, 2), (2, 4), (4, 2), (8, 2), (4, 4))


def by_hand(shape: tuple[int, int]) -> tuple[float, dict[str, np.ndarray], Grid]:
    """Loss, gradients and grid of a small random model."""
    rng = np.random.default_rng(7)
    weights = random_weights(rng, HIDDEN, INNER, WORDS, POSITIONS)
    words, targets = rng.integers(0, WORDS, (2, SAMPLES, TOKENS))
    return train(weights, words, targets, HEAD, shape)


def test_the_run_by_hand_differentiates() -> None:
    """Its gradients are those of finite differences."""
    rng = np.random.default_rng(3)
    weights = random_weights(rng, HIDDEN, INNER, WORDS, POSITIONS)
    words, targets = rng.integers(0, WORDS, (2, SAMPLES, TOKENS))
    _, gradients, _ = train(weights, words, targets, HEAD, (1, 1))
    for name, array in weights.items():
        direction = rng.normal(size=array.shape)
        moved = [train({**weights, name: array + step * direction}, words, targets, HEAD, (1, 1))[0]
                 for step in (1e-6, -1e-6)]  # fmt: skip
        assert (moved[0] - moved[1]) / 2e-6 == pytest.approx((gradients[name] * direction).sum(), rel=1e-5, abs=1e-8)


def test_every_grid_trains_the_same_model() -> None:
    """So the messages counted are enough."""
    loss, gradients, _ = by_hand((1, 1))
    for shape in (*GRIDS, (1, 4)):
        other_loss, others, _ = by_hand(shape)
        assert other_loss == pytest.approx(loss, rel=1e-12)
        for name, gradient in gradients.items():
            np.testing.assert_allclose(others[name], gradient, rtol=1e-9, atol=1e-12)


@pytest.fixture(scope="module")
def small() -> dict[str, np.ndarray]:
    """What the engine has for the grids of the run by hand."""
    numbers = {
        "hidden": HIDDEN, "layers": 1, "heads": HIDDEN / HEAD, "kv_heads": HIDDEN / HEAD, "head_size": HEAD,
        "feed_forward": INNER, "vocabulary": WORDS, "learned_positions": POSITIONS, "tied_embeddings": 0, "bias": 1,
        "norm_bias": 1, "dropout": 0,
    }  # fmt: skip
    model = {f"workload.{name}": float(value) for name, value in numbers.items()}
    points = [on_grid(*shape, SAMPLES, sequence_length=float(TOKENS), **model) for shape in GRIDS]
    return evaluate(points, ("operator_dims", "dense_parameters_per_chip", "hardware_flops"))


def test_table_has_the_messages_of_the_run_by_hand(small: dict[str, np.ndarray]) -> None:
    """Bytes of every collective and pass, and no collective more."""

    def width(name: str, operation: str) -> float:
        if name.endswith("_statistics") or name == "loss_sums":
            return SUM_B
        if "_weights_" not in name:
            return ACTIVATION_B
        return WEIGHT_B if operation == "all_gather" else GRADIENT_B

    for n, shape in enumerate(GRIDS):
        counted = by_hand(shape)[2].messages
        expected = {key: width(*key[:2]) * elements for key, elements in counted.items()}
        assert messages(small["operator_dims"][n]) == pytest.approx(expected, rel=EXACT)


def test_table_has_the_parameters_of_the_run_by_hand(small: dict[str, np.ndarray]) -> None:
    """Norms and biases included: a chip keeps its blocks alone."""
    for n, shape in enumerate(GRIDS):
        kept = sum(blocks[0][0].size for blocks in by_hand(shape)[2].weights.values())
        assert small["dense_parameters_per_chip"][n] == pytest.approx(kept, rel=EXACT)


# published costs

MATRICES = ("qkv", "projection", "up", "down")
INPUTS = ("attention", "projection", "feed_forward", "down")


def volume(found: dict[tuple[str, str, str], float], names: tuple[str, ...], during: str) -> dict[str, float]:
    """Bytes of gathered inputs and weights of the products of a layer in a pass, and of their gradients."""
    ends = {"inputs": ("_gather", "_regather"), "weights": ("_weights_gather", "_weights_regather")}
    return {
        kind: sum(b for (name, _, when), b in found.items()
                  if when == during and name in {f"{x}{end}" for end in ends[kind] for x in names})
        for kind in ends
    }  # fmt: skip


@pytest.mark.parametrize(
    ("q", "samples", "tokens", "width"), [(2, 4, 512, 1024), (4, 16, 512, 2048), (8, 64, 256, 4096)]
)
def test_a_square_grid_moves_what_optimus_says(q: int, samples: int, tokens: int, width: int) -> None:
    """Xu et al. 2021, table 1, of p chips: log2(p) / (2 sqrt(p)) (7 bsh + 12 h^2) elements forward, three times as many
    backward with full recompute, sent by trees. Megatron-LM: 4 (p - 1) / p bsh forward, twice that backward.

    A tree passes a block on log2(q) times, once in every of q steps; a message of the table is these q blocks.
    """
    model = {"hidden": width, "layers": 1, "heads": 32, "kv_heads": 32, "head_size": width / 32, "bias": 0}
    model |= {"feed_forward": 4 * width, "norms": 2}
    point = {f"workload.{name}": float(value) for name, value in model.items()} | {"gradient_format": "bf16"}
    point |= {"sequence_length": float(tokens), "recompute": "full"}
    flat, square = evaluate(
        [on_grid(1, q * q, samples, **point), on_grid(q, q, samples, **point)], ("operator_dims",)
    )["operator_dims"]  # fmt: skip
    p, bsh, norms = q * q, samples * tokens * width, 2 * 2 * width
    found = messages(square)
    sent = {during: volume(found, MATRICES + INPUTS, during) for during in ("forward", "backward")}
    tree = math.log2(q)
    inputs, weights = (tree / ACTIVATION_B * sent["forward"][kind] for kind in ("inputs", "weights"))
    assert inputs == pytest.approx(math.log2(p) / (2 * math.sqrt(p)) * 7 * bsh, rel=EXACT)
    assert weights == pytest.approx(math.log2(p) / (2 * math.sqrt(p)) * (12 * width**2 + norms), rel=EXACT)
    # full recompute gathers again what the forward pass gathered
    inputs, weights = (tree / ACTIVATION_B * sum(sent[d][kind] for d in sent) for kind in ("inputs", "weights"))
    assert inputs == pytest.approx(math.log2(p) / (2 * math.sqrt(p)) * 21 * bsh, rel=EXACT)
    assert weights == pytest.approx(math.log2(p) / (2 * math.sqrt(p)) * (36 * width**2 + 2 * norms), rel=EXACT)
    reduced = {during: sum(b for (name, operation, when), b in messages(flat).items()
                           if when == during and operation == "all_reduce" and OPERATORS[name].words["place"] < 4)
               for during in ("forward", "backward")}  # fmt: skip
    ring = 2 * (p - 1) / p / ACTIVATION_B
    assert ring * reduced["forward"] == pytest.approx(4 * (p - 1) / p * bsh, rel=EXACT)
    assert ring * sum(reduced.values()) == pytest.approx(8 * (p - 1) / p * bsh, rel=EXACT)


def test_a_product_moves_six_panels() -> None:
    """Colossal-AI's documentation of 2D tensor parallelism: 6 (q - 1) / q of a panel of a product with as much input as
    weights, forward and backward, by rings. Here 4,096 tokens and 4,096 x 4,096 weights."""
    q, width = 4, 4096
    point = {"workload.bias": 0.0, "workload.norm_bias": -0.0, "sequence_length": 256.0, "gradient_format": "bf16"}
    found = messages(evaluate([on_grid(q, q, 16.0, **point)], ("operator_dims",))["operator_dims"][0])
    sent = sum(
        sum(volume(found, ("projection",), during).values()) for during in ("forward", "backward")
    ) / ACTIVATION_B  # fmt: skip
    panel = width * width / q
    assert (q - 1) / q * sent == pytest.approx(6 * (q - 1) / q * panel, rel=EXACT)


def test_a_grid_of_one_column_shards_weights() -> None:
    """Samples apart, weights gathered in both passes and gradients scattered: what ZeRO stage 3 sends, by matrices."""
    t = 8
    point = {"gradient_all_reduce": "exposed"}
    column = on_grid(t, 1, 8.0, **point)
    shards = column | {"tensor_rows": 1.0, "tensor_parallel": 1.0, "data_parallel": float(t), "microbatch": 1.0}
    found = evaluate([column, shards | {"zero_stage": 3.0}], ("operator_dims", "layer_stored_B", "weights_B"))
    sent = messages(found["operator_dims"][0])
    forward, backward = (volume(sent, MATRICES + INPUTS, during) for during in ("forward", "backward"))
    width = 4096.0
    layer = 12 * width**2 + 9 * width + 4 * width
    assert forward["weights"] == pytest.approx(WEIGHT_B * layer, rel=EXACT)
    assert backward["weights"] == pytest.approx(GRADIENT_B * layer + WEIGHT_B * 12 * width**2, rel=EXACT)
    assert found["layer_stored_B"][0] == found["layer_stored_B"][1]
    rows = evaluate([column], ("group_network",))["group_network"][0]
    assert rows[G.tensor_row, 0] * rows[G.tensor_row, 1] == 1.0  # inputs stay


# what is conserved

SIZES = ("layer_stored_B", "dense_parameters_per_chip", "activations_B", "cache_memory_B", "weights_B", "optimizer_B")


@pytest.mark.parametrize("workload", ["gpt3_6_7b", "llama2_7b"])
def test_every_chip_keeps_its_share(workload: str) -> None:
    """Of a grid of t chips each keeps a t-th of weights, state, activations and cache; all together compute as one."""
    shapes = [(1, 1), (2, 2), (2, 4), (8, 1), (4, 4)]
    for task in ("training", "inference"):
        point: dict[str, Any] = {"workload": workload, "task": task, "sequence_length": 512.0, "output_length": 64.0}
        found = evaluate(
            [on_grid(*shape, 8.0, **point) for shape in shapes], (*SIZES, "hardware_flops", "mapping_reason")
        )
        assert set(found["mapping_reason"][1:]) <= {0.0, float(REASONS.index("memory_capacity"))}
        for n, (rows, columns) in enumerate(shapes):
            assert found["hardware_flops"][n] == pytest.approx(found["hardware_flops"][0], rel=1e-9)
            for name in SIZES:
                assert found[name][n] * rows * columns == pytest.approx(found[name][0], rel=1e-9), name


def test_one_row_is_megatron() -> None:
    """What a study that says nothing gets, bit for bit; the row is the tensor group, a column one chip."""
    wanted = ("iteration_time_s", "network_time_s", "memory_need_B", "required_tensor_Bps", "group_network")
    for parallel in (0.0, 1.0):
        silent = mapped("gpt3_6_7b", 8, 2, 2, sequence_parallel=parallel)
        found = evaluate([silent, silent | {"tensor_rows": 1.0}], wanted)
        for name in wanted:
            np.testing.assert_array_equal(found[name][0], found[name][1])
        network = found["group_network"][0]
        np.testing.assert_array_equal(network[G.tensor_row], network[G.tensor])
        assert network[G.tensor_column, :2].tolist() == [1.0, 1.0]


def test_grids_join_the_other_parallelisms() -> None:
    """Stages, replicas and chips that share a sequence: all compute as one chip, exchanges are those of a block."""
    alone = on_grid(1, 1, 8.0, sequence_length=4096.0)
    context = mapped("gpt3_6_7b", 4, 1, 1, 2, microbatch=8.0, batch_size=8.0, sequence_length=4096.0)
    points = [alone, context, context | {"tensor_rows": 2.0}]
    points += [mapped("gpt3_6_7b", 4, 2, 2, microbatch=4.0, batch_size=8.0, sequence_length=4096.0, tensor_rows=4.0)]
    found = evaluate(points, ("hardware_flops", "operator_dims", "mapping_reason", "transfer_time_s"))
    assert found["hardware_flops"] == pytest.approx([found["hardware_flops"][0]] * 4, rel=1e-9)
    passed = operator(found, "context_ring")[:, D.message]
    assert passed[2] == passed[1] > 0.0  # fewer heads or fewer samples
    assert found["transfer_time_s"][3] > 0.0


@given(given_sizes=mappings())
@examples(200)
def test_rows_and_columns_make_the_tensor_group(given_sizes: dict[str, float]) -> None:
    columns: dict[str, Any] = given_sizes | {"placement": 0.0}
    found: Any = call(group_extents, columns)["group_extents"]
    np.testing.assert_array_equal(found[G.tensor_row] * found[G.tensor_column], found[G.tensor])


def test_rows_are_neighbours() -> None:
    """Sixteen chips on nodes of eight: a row of eight fills a node, a column crosses nodes."""
    found = evaluate([mapped("gpt3_6_7b", 16, tensor_rows=2.0)], ("group_extents",))["group_extents"][0]
    assert found[G.tensor_row].tolist() == [8.0, 1.0]
    assert found[G.tensor_column].tolist() == [1.0, 2.0]


def test_rows_and_columns_of_a_torus_are_its_lines() -> None:
    """Routed, a grid of 4 x 4 chips on a torus of 4 x 4: as a tensor group of 4 with 4 replicas would lie."""
    kinds = (DIMENSION_KINDS.index("ring"),) * 2
    grid = network(kinds, (4, 4), tensor=16.0, tensor_grid_rows=4.0)
    lines = network(kinds, (4, 4), tensor=4.0, data=4.0)
    np.testing.assert_array_equal(grid[G.tensor_row], lines[G.tensor])
    np.testing.assert_array_equal(grid[G.tensor_column], lines[G.data])


# what is claimed


def row_and_grid(q: int, samples: float, **changes: Any) -> dict[str, np.ndarray]:
    """GPT-3 175B with as many heads as divide over 64 chips, on q x q chips in a row, with sequence parallelism or
    without, and on a grid of them."""
    model = {"workload.heads": 128.0, "workload.kv_heads": 128.0, "workload.head_size": 96.0}
    point = {"workload": "gpt3_175b", **model, **changes}
    row, grid = on_grid(1, q * q, samples, **point), on_grid(q, q, samples, **point)
    return evaluate([row, row | {"sequence_parallel": 1.0}, grid], ("network_time_s", "layer_stored_B"))


def test_large_groups_move_and_keep_less_on_a_grid() -> None:
    """Xu et al. 2021: traffic of a row does not shrink with its chips, that of a grid does; and without sequence
    parallelism, of which they did not know, each chip of a row keeps inputs of products and norms whole."""
    found = row_and_grid(8, 64.0)
    time_s, stored_B = found["network_time_s"], found["layer_stored_B"]
    assert time_s[2] < min(time_s[:2]) / 1.5
    assert stored_B[2] < stored_B[0] / 5
    assert stored_B[2] == pytest.approx(stored_B[1], rel=EXACT)


@pytest.mark.parametrize(("q", "changes"), [(2, {}), (8, {"sequence_length": 32.0})])
def test_small_groups_and_small_batches_move_more_on_a_grid(q: int, changes: dict[str, float]) -> None:
    """Of bsh four chips move 21 / 4 on a grid and 6 in a row, but weights come on top; of few tokens these are most."""
    time_s = row_and_grid(q, 64.0 if q == 2 else 8.0, **changes)["network_time_s"]
    assert time_s[2] > time_s[0]


def test_gathered_blocks_are_working_memory() -> None:
    """The panels of one product live: at the down product of GPT-3 6.7B, 8 / 2 samples of 2,048 tokens by 16,384
    elements, and half of 16,384 x 4,096 gradients in 32 bits; and of the embedding the half of the table."""
    found = evaluate([on_grid(2, 2, 8.0, calibration="uncalibrated")], ("operator_dims",))
    panel_B = 4 * 2048 * 16384 * ACTIVATION_B + (16384 * 4096 + 4096) / 2 * GRADIENT_B
    assert operator(found, "qkv")[0, D.working] == pytest.approx(panel_B, rel=EXACT)
    table_B = (51200 / 2 * 4096 + 2048 * 4096 / 2) * GRADIENT_B
    assert operator(found, "embedding_weights_gather")[0, D.working] == pytest.approx(table_B, rel=0.02)
    assert operator(evaluate([on_grid(1, 4, 8.0)], ("operator_dims",)), "qkv")[0, D.working] == 0.0


# what cannot be


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"microbatch": 6.0, "batch_size": 6.0}, "microbatch_indivisible"),
        ({"tensor_rows": 3.0, "microbatch": 6.0, "batch_size": 6.0}, "parallelism_mismatch"),
        ({"workload.heads": 33.0}, "heads_indivisible"),
        ({"workload": "mixtral_8x7b"}, "grid_unsupported"),
        ({"workload.lora_rank": 16.0}, "grid_unsupported"),
        ({"workload": "deepseek_v3"}, "grid_unsupported"),
        ({"workload": "mixtral_8x7b", "tensor_rows": 1.0}, ""),
    ],
)
def test_what_no_grid_splits_is_infeasible(changes: dict[str, Any], reason: str) -> None:
    point = on_grid(4, 2, 8.0, **{**changes, "memory.capacity": 1e15})
    (found,) = evaluate([point], ("mapping_reason",))["mapping_reason"]
    assert REASONS[int(found)] == reason


def problem(tmp_path: Path, text: str) -> str:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    try:
        make_plan(path)
    except SpecError as fault:
        return str(fault)
    return ""


@pytest.mark.parametrize("workload", first_of(["lstm_deepflow", "eager_decoder", "encoder_decoder", "single_gemm"]))
def test_only_tables_that_read_rows_have_any(tmp_path: Path, workload: str) -> None:
    study = TRANSFORMER.replace("gpt3_175b", workload)
    told = problem(tmp_path, f"{study}  tensor_rows: 2\n  microbatch: 2\n")
    assert f"tensor_rows is 2.0, but nothing reads it for workload {workload}" in told


def test_a_grid_splits_norms_anyway(tmp_path: Path) -> None:
    grid = f"{TRANSFORMER}  tensor_rows: 2\n  microbatch: 2\n"
    assert problem(tmp_path, grid) == ""
    assert "nothing reads sequence_parallel in the study" in problem(tmp_path, f"{grid}  sequence_parallel: 1\n")
