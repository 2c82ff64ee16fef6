"""The recurrent language model: its table against a run by hand, published formulas, limits, and a published claim."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sweeper
from sweeper.evidence.predictions import plan_of_points
from sweeper.kernels.codes import CHOICES, OPERATIONS, OPERATOR_TYPES, PLACES, REASONS
from sweeper.kernels.transformers.operators import D
from sweeper.library.library import Library, builtin_specs
from sweeper.library.table_workload import read_table
from tests.twins.naive_lstm import GATES, Ledger, Model, random_model, train_grid

Point = dict[str, float | str]
EXACT = 1e-12
KINDS = CHOICES["kernel_parallelism"]
ROW_COLUMN, COLUMN_ROW = KINDS
WORD_B = 2.0
"""Bytes of an activation in 16 bits."""
SUM_B = 4.0
"""Bytes of the sums of a softmax."""
LIBRARY = Library.load([builtin_specs()])
SYSTEM: Point = {
    "chip": "v100_sxm2_32gb", "memory": "hbm2", "link": "nvlink2", "outer_link": "nvlink2", "topology": "switch",
    "calibration": "uncalibrated", "gradient_all_reduce": "exposed",
}  # fmt: skip
SIZES = ("hardware_flops", "work_flops", "dense_parameters_per_chip", "layer_stored_B", "activations_B",
         "infeasible_reason")  # fmt: skip
TIMES = ("iteration_time_s", "pipeline_time_s", "network_time_s", "gradient_time_s", "memory_need_B", *SIZES)


def evaluate(points: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> dict[str, np.ndarray]:
    """Columns of points, as the engine finds them."""
    plan = plan_of_points(points)
    grid = plan.grids[0]
    return plan.columns.over(grid, grid.listing(np.arange(len(points))), tuple(columns))


def mapped(workload: str, kind: str, t: int = 1, r: int = 1, data: int = 1, rows: int = 64, **others: Any) -> Point:
    """A workload on a flat switch; a replica takes `rows` samples at once."""
    chips = float(t * r * data)
    found = SYSTEM | {"workload": workload, "kernel_parallelism": kind, "chips": chips, "dim_x": chips}
    found |= {"tensor_parallel": float(t), "context_parallel": float(r), "data_parallel": float(data)}
    return found | {"microbatch": float(rows), "batch_size": float(rows * data), **others}


OPERATORS = {operator.name: operator for operator in read_table(LIBRARY.find("workload", "lstm_lm")).operators}
COLLECTIVES = {
    name: OPERATIONS[operator.words["operation"]]
    for name, operator in OPERATORS.items()
    if OPERATOR_TYPES[operator.words["type"]] == "collective"
}


def operator(dims: np.ndarray, name: str) -> np.ndarray:
    """Numbers of an operator of the model, of every point."""
    return dims[:, list(OPERATORS).index(name)]


# against the run by hand

SHAPES = ((8, 1, 16, 1, 4), (8, 2, 24, 3, 8), (16, 3, 8, 2, 4))
"""Hidden width, layers, vocabulary, steps, rows."""
GRIDS = tuple(product(KINDS, (1, 2, 4, 8), (1, 2, 4)))
CASES = tuple(product(SHAPES, GRIDS))


def by_hand(shape: tuple[int, ...], grid: tuple[str, int, int]) -> tuple[float, Model, Ledger]:
    """Loss, gradients and ledger of a random model on a grid of chips."""
    hidden, layers, vocabulary, steps, rows = shape
    rng = np.random.default_rng(sum(shape))
    model = random_model(rng, hidden, layers, vocabulary)
    words, targets = rng.integers(0, vocabulary, (2, steps, rows))
    kind, t, r = grid
    return train_grid(model, words, targets, t, r, kind == COLUMN_ROW)


def arrays(model: Model) -> tuple[np.ndarray, ...]:
    return model.embedding, *model.cells, model.head


def test_the_run_by_hand_differentiates() -> None:
    """Its gradients are those of finite differences."""
    hidden, layers, vocabulary, steps, rows = SHAPES[1]
    rng = np.random.default_rng(5)
    model = random_model(rng, hidden, layers, vocabulary)
    words, targets = rng.integers(0, vocabulary, (2, steps, rows))
    _, gradients, _ = train_grid(model, words, targets, 1, 1, False)
    for array, gradient in zip(arrays(model), arrays(gradients), strict=True):
        direction = rng.normal(size=array.shape)
        losses = []
        for sign in (1, -1):
            array += sign * 1e-6 * direction
            losses.append(train_grid(model, words, targets, 1, 1, False)[0])
            array -= sign * 1e-6 * direction
        assert (losses[0] - losses[1]) / 2e-6 == pytest.approx((gradient * direction).sum(), rel=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_grid_trains_the_same_model(shape: tuple[int, ...]) -> None:
    """So the messages counted are enough."""
    loss, gradients, _ = by_hand(shape, GRIDS[0])
    for grid in GRIDS:
        other_loss, others, _ = by_hand(shape, grid)
        assert other_loss == pytest.approx(loss, rel=1e-11)
        for one, other in zip(arrays(gradients), arrays(others), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-11)


@pytest.fixture(scope="module")
def tables() -> dict[str, np.ndarray]:
    """What the engine has for all cases."""
    points = [
        mapped(
            "lstm_lm", kind, t, r, rows=rows, sequence_length=float(steps),
            **{"workload.hidden": float(hidden), "workload.layers": float(layers), "workload.vocabulary": float(words)},
        )
        for (hidden, layers, words, steps, rows), (kind, t, r) in CASES
    ]  # fmt: skip
    return evaluate(points, (*SIZES, "operator_dims"))


def test_table_has_the_messages_of_the_run_by_hand(tables: dict[str, np.ndarray]) -> None:
    """Bytes of every collective and pass, over all layers and time steps, and no collective more."""
    adjoint = {"all_gather": "reduce_scatter", "reduce_scatter": "all_gather", "all_reduce": "all_reduce"}
    for n, (shape, grid) in enumerate(CASES):
        messages = by_hand(shape, grid)[2].messages
        for name, operation in COLLECTIVES.items():
            found = operator(tables["operator_dims"], name)[n]
            times = found[D.count] * (shape[1] if PLACES[OPERATORS[name].words["place"]] == "layer" else 1)
            width = SUM_B if name == "softmax_sums" else WORD_B
            forward = width * messages.pop((name, operation, "forward"), 0)
            backward = width * messages.pop((name, adjoint[operation], "backward"), 0)
            assert times * found[D.message] == pytest.approx(forward, rel=EXACT)
            assert times * found[D.backward_message] == pytest.approx(backward, rel=EXACT)
        assert not messages


def test_table_has_the_sizes_of_the_run_by_hand(tables: dict[str, np.ndarray]) -> None:
    """Operations of both passes on all chips, parameters of one, and what one keeps."""
    for n, (shape, (kind, t, r)) in enumerate(CASES):
        ledger = by_hand(shape, (kind, t, r))[2]
        kept = ledger.kept
        found = {name: values[n] for name, values in tables.items()}
        assert REASONS[int(found["infeasible_reason"])] == ""
        assert found["hardware_flops"] == pytest.approx(r * ledger.flops, rel=EXACT)
        assert found["work_flops"] == pytest.approx(r * ledger.flops, rel=EXACT)
        assert found["dense_parameters_per_chip"] == pytest.approx(ledger.parameters, rel=EXACT)
        assert shape[1] * found["layer_stored_B"] == pytest.approx(WORD_B * kept["cell_update"], rel=EXACT)
        assert found["activations_B"] == pytest.approx(WORD_B * (kept["cell_update"] + kept["embedding"]), rel=EXACT)
        softmax = operator(tables["operator_dims"], "softmax")[n]
        assert softmax[D.count] * softmax[D.stored] == pytest.approx(WORD_B * kept["softmax"], rel=EXACT)


# published formulas

DEEPFLOW = {  # hidden, vocabulary, layers, steps
    "lstm_deepflow": (16384, 800_000, 2, 20),
    "lstm_deepflow_64": (19968, 800_000, 2, 20),
    "lstm_v100": (2048, 2048, 1, 10),
}


def test_parameters_are_those_of_deepflow() -> None:
    """(2 D + 1) G D of a layer, (D + 1) V of the softmax, V D of the embedding; in all 38.37 billion of 64 chips."""
    points = [mapped(name, ROW_COLUMN) for name in DEEPFLOW]
    found = evaluate(points, ("parameters", "dense_parameters_per_chip"))
    for n, (d, v, layers, _) in enumerate(DEEPFLOW.values()):
        counted = (2 * d + 1) * GATES * d * layers + (d + 1) * v + v * d
        assert found["parameters"][n] == counted
        assert found["dense_parameters_per_chip"][n] == pytest.approx(counted, rel=EXACT)
    assert found["parameters"][1] == pytest.approx(38.37019059e9, rel=2e-3)


@pytest.mark.parametrize("workload", DEEPFLOW)
def test_what_eager_kernels_cost_is_what_deepflow_counts(workload: str) -> None:
    """Stored: B G D (1 + 9/2) of a cell, 3 B V + B of a softmax, B D of an embedding, per step; moved: 13, 7 and 11
    accesses; five and four kernels."""
    b = 64
    (d, v, _, steps), eager = DEEPFLOW[workload], {"calibration.fused_elementwise": 0.0}
    found = evaluate([mapped(workload, ROW_COLUMN, rows=b, **eager)], ("operator_dims", "layer_stored_B"))
    names = ("embedding", "cell_update", "softmax")
    embedding, cell, softmax = (operator(found["operator_dims"], name)[0] for name in names)
    gates, logits = b * GATES * d, b * v
    assert found["layer_stored_B"][0] == pytest.approx(WORD_B * steps * gates * 5.5, rel=EXACT)
    assert softmax[D.stored] == WORD_B * (3 * logits + b)
    assert embedding[D.stored] == WORD_B * b * d
    assert cell[D.flops] == 5 * gates
    assert cell[D.bytes] == cell[D.input_gradient_bytes] == WORD_B * gates * 13
    assert softmax[D.flops] == (3 * v - 1) * b
    assert softmax[D.input_gradient_flops] == 5 * logits
    assert [softmax[D.bytes], softmax[D.input_gradient_bytes]] == [WORD_B * 7 * logits, WORD_B * 11 * logits]
    assert [cell[D.launches], softmax[D.launches]] == [5, 4]
    assert [cell[D.count], softmax[D.count]] == [steps, steps]


def test_products_are_those_of_deepflow() -> None:
    """Row-column: (B / r, 2 D, G D / t) and (B / r, D, V / t); column-row: the inner dimension over t."""
    t, r, b = 4, 2, 64
    points = [mapped("lstm_deepflow", kind, t, r, rows=b) for kind in KINDS]
    dims = evaluate(points, ("operator_dims",))["operator_dims"]
    d, v, _, _ = DEEPFLOW["lstm_deepflow"]
    for name, inner, columns in (("cell", 2 * d, GATES * d), ("head", d, v)):
        products = operator(dims, name)[:, [D.m, D.k, D.n]].tolist()
        assert products == [[b / r, inner, columns / t], [b / r, inner / t, columns]]


# limits and what is conserved

STRATEGIES = [(kind, t, r, 64 // (t * r)) for kind, t, r in product(KINDS, (1, 4, 16), (1, 4))]


def strategies(workload: str = "lstm_deepflow_64", batch: int = 4096, **changes: Any) -> list[Point]:
    """The same batch on 64 chips."""
    return [mapped(workload, *grid, rows=batch // grid[3]) | changes for grid in STRATEGIES]


def test_kinds_are_one_without_a_group() -> None:
    points = [mapped("lstm_v100", kind, 1, r, data, rows=32) for kind, r, data in product(KINDS, (1, 4), (1, 8))]
    for values in evaluate(points, TIMES).values():
        np.testing.assert_array_equal(*np.split(values, 2))


def test_every_strategy_does_the_same_work() -> None:
    found = evaluate(strategies(), TIMES)
    assert len({*found["work_flops"]}) == 1
    np.testing.assert_allclose(found["hardware_flops"], found["work_flops"], rtol=EXACT)
    shares = [1 / t for _, t, _, _ in STRATEGIES]
    np.testing.assert_allclose(
        found["dense_parameters_per_chip"], found["dense_parameters_per_chip"][0] * np.array(shares), rtol=EXACT
    )


def test_rows_are_replicas() -> None:
    """On a flat network chips that share rows and replicas are alike: same weights, same reduction of gradients."""
    grids = [(kind, t) for kind, t in product(KINDS, (1, 8))]
    shared, apart = (
        evaluate([mapped("lstm_v100", kind, t, r, data, rows=16 * r) for kind, t in grids], TIMES)
        for r, data in ((8, 1), (1, 8))
    )
    for name in TIMES:
        np.testing.assert_allclose(shared[name], apart[name], rtol=EXACT)
    assert np.all(shared["gradient_time_s"] > 0.0)


def test_time_grows_with_the_steps() -> None:
    """Steps are sequential, so time and activations are in proportion to them; gradients and parameters are not."""
    short, long_ = (evaluate(strategies(sequence_length=steps), TIMES) for steps in (10.0, 30.0))
    for name in ("pipeline_time_s", "network_time_s", "layer_stored_B", "work_flops"):
        np.testing.assert_allclose(long_[name], 3 * short[name], rtol=EXACT)
    np.testing.assert_allclose(long_["gradient_time_s"], short["gradient_time_s"], rtol=EXACT)


def test_messages_take_time() -> None:
    """Of a layer: both passes of all steps over the link, of which a chip sends (t - 1) / t."""
    changes = {
        "calibration.link_efficiency": 1.0, "calibration.half_message": 0.0, "calibration.collective_launch": 0.0,
        "calibration.collective_step": 0.0, "latency": "ignored", "collective_algorithm": "ring",
    }  # fmt: skip
    found = evaluate(strategies(**changes), ("network_time_s", "microbatches", "link_bandwidth_Bps"))
    d, _, layers, steps = DEEPFLOW["lstm_deepflow_64"]
    for n, (kind, t, r, data) in enumerate(STRATEGIES):
        width = d if kind == ROW_COLUMN else GATES * d
        sent = 2 * layers * steps * (4096 / data / r) * width * WORD_B * (t - 1) / t
        assert found["network_time_s"][n] == pytest.approx(sent / found["link_bandwidth_Bps"][n], rel=EXACT)


def test_uneven_shares_are_refused() -> None:
    """Units over the group, rows over the context."""
    width = {"workload.hidden": 96.0}
    points = [
        mapped("lstm_v100", ROW_COLUMN, 32, **width),
        mapped("lstm_v100", ROW_COLUMN, 64, **width),
        mapped("lstm_v100", COLUMN_ROW, 64, **width),
        mapped("lstm_v100", ROW_COLUMN, 1, 16, rows=48, **width),
        mapped("lstm_v100", ROW_COLUMN, 1, 32, rows=48, **width),
    ]
    reasons = [REASONS[int(code)] for code in evaluate(points, ("infeasible_reason",))["infeasible_reason"]]
    assert reasons == ["", "heads_indivisible", "heads_indivisible", "", "heads_indivisible"]


def test_a_server_keeps_a_state_and_no_cache() -> None:
    """What requests keep does not grow with what they have read, nor does the time of a step."""
    lengths = (16.0, 512.0)
    points = [
        mapped("lstm_v100", ROW_COLUMN, task="inference", rows=32, sequence_length=length, output_length=8.0)
        for length in lengths
    ]
    found = evaluate(points, ("cache_memory_B", "time_per_output_token_s", "time_to_first_token_s"))
    d, _, layers, _ = DEEPFLOW["lstm_v100"]
    assert found["cache_memory_B"].tolist() == [layers * 32 * 2 * d * WORD_B] * 2
    assert found["time_per_output_token_s"][0] == found["time_per_output_token_s"][1]
    assert found["time_to_first_token_s"][1] > 16 * found["time_to_first_token_s"][0]


# one product over several chips

SPREAD = tuple(product(KINDS, (1, 2, 8), (1, 4)))


def test_a_spread_product_is_its_part_and_its_exchange() -> None:
    """Its time is that of the part of one chip, as `single_gemm` has it, and that of the collective."""
    m, n, k = 4096, 8192, 2048
    size = {"workload.m": float(m), "workload.n": float(n), "workload.k": float(k)}
    points = [mapped("gemm_distributed", *grid, task="inference", rows=1) | size for grid in SPREAD]
    found = evaluate(points, ("layer_forward_s", "operator_dims", "infeasible_reason", "dense_parameters_per_chip"))
    parts, gathers = [], []
    for kind, t, r in SPREAD:
        across, inner = (t, 1) if kind == ROW_COLUMN else (1, t)
        part = {"workload.m": float(m / r), "workload.n": float(n / across), "workload.k": float(k / inner)}
        parts.append(mapped("single_gemm", kind, task="inference", rows=1) | part)
        operation = OPERATIONS.index("all_gather" if kind == ROW_COLUMN else "reduce_scatter")
        message = {"workload.operation": float(operation), "workload.message": m / r * n * WORD_B}
        gathers.append(mapped("single_collective", kind, t, task="inference", rows=1) | message)
    alone, exchange = (evaluate(rows, ("layer_forward_s",))["layer_forward_s"] for rows in (parts, gathers))
    np.testing.assert_allclose(found["layer_forward_s"], alone + exchange, rtol=EXACT)
    assert not np.any(found["infeasible_reason"])
    np.testing.assert_allclose(found["dense_parameters_per_chip"], [n * k / t for _, t, _ in SPREAD], rtol=EXACT)
    assert np.all(
        np.prod(found["operator_dims"][:, 0][:, [D.m, D.n, D.k]], 1) == [m * n * k / t / r for _, t, r in SPREAD]
    )


# the study


def test_the_choice_of_parallelism_gives_twofold(tmp_path: Path) -> None:
    """DeepFlow, section 9.2: about twofold from parallelism alone, here against replicas alone; row-column wins."""
    result = sweeper.run(sweeper.plan(builtin_specs() / "studies" / "lstm_parallelism.yaml"), out=tmp_path)
    frame = sweeper.scan(result.directory).collect()
    assert frame.height == 2 * (28 + 55)
    for chips, floor in ((64, 2.0), (512, 4.0)):
        here = frame.filter(pl.col("chips") == chips).sort("iteration_time_s")
        alone = here.filter(pl.col("tensor_parallel") == 1)
        assert alone["infeasible_reason"].cast(pl.String).unique().to_list() == ["memory_capacity"]
        assert alone["iteration_time_s"].min() > floor * here["iteration_time_s"][0]
        assert here["kernel_parallelism"][0] == ROW_COLUMN
        assert here["infeasible_reason"].cast(pl.String)[0] == ""
