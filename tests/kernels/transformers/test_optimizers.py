"""Optimizers through the engine: published overheads of Muon, bytes of state, who orthogonalises what."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.codes import FORMAT_B, FORMATS
from sweeper.kernels.transformers.optimizers.muon import LONGEST, M, busiest
from tests.kernels.transformers.test_models import EXACT, evaluate, mapped
from tests.support.examples import examples

STEPS = 5


def found(columns: tuple[str, ...], *points: dict[str, Any]) -> dict[str, np.ndarray]:
    return evaluate(points, columns)


def newton_schulz(rows: float, columns: float) -> float:
    """Operations by Jordan 2024: every step multiplies X X', its square, and the sum of both with X."""
    short, long = sorted((rows, columns))
    return STEPS * (2 * short * short * long + 2 * short**3 + 2 * short * short * long)


# published overheads

PUBLISHED = {
    "gpt2_small": (768, 524_288, 0.007),
    "llama3_1_405b": (16_384, 16_000_000, 0.005),
}
"""Width of the model, tokens of a batch, overhead: Jordan 2024, "Runtime analysis", of NanoGPT's speedrun and Llama
405B; his bound is steps x width / tokens."""
MATRICES = {
    "gpt2_small": 12 * (4 * [(768, 768)] + 2 * [(768, 3072)]),
    "llama3_1_405b": 126 * (2 * [(16384, 16384)] + 2 * [(16384, 1024)] + [(16384, 2 * 53248), (53248, 16384)]),
}
"""Query, key, value and output matrix, and those of the feed-forward part, whose gate is not taken apart."""


@pytest.mark.parametrize("model", PUBLISHED)
def test_overhead_of_newton_schulz_is_the_published_one(model: str) -> None:
    width, tokens, published = PUBLISHED[model]
    bound = STEPS * width / tokens
    assert round(bound, 3) == published
    length = 1024.0
    point = mapped(model, sequence_length=length, batch_size=tokens / length)
    adam, muon = found(("hardware_flops",), point, {**point, "optimizer": "muon"})["hardware_flops"]
    own = muon - adam
    assert own == pytest.approx(sum(itertools.starmap(newton_schulz, MATRICES[model])), rel=1e-9)
    products = 6 * tokens * sum(rows * columns for rows, columns in MATRICES[model])
    assert 0.5 * bound < own / products < bound < 0.01
    assert own / adam < own / products


def test_the_bound_is_that_of_square_matrices() -> None:
    """T m / B, of m x m; less of any other matrix whose shorter side is m."""
    for columns in (1.0, 1.5, 4.0):
        share = newton_schulz(4096, columns * 4096) / (6 * 4096 * columns * 4096 * 1e6)
        assert (share == pytest.approx(STEPS * 4096 / 1e6, rel=EXACT)) == (columns == 1.0)
        assert share <= STEPS * 4096 / 1e6 * (1 + EXACT)


@pytest.mark.parametrize("replicas", [2, 8, 64])
@pytest.mark.parametrize("model", ["gpt2_small", "llama3_8b", "deepseek_v2_lite"])
def test_messages_beyond_those_of_adam_are_at_most_a_quarter(model: str, replicas: int) -> None:
    """Liu 2025, section 2.3: between 1 and 1.25 times as much, with gradients and weights sent in 32 bits."""
    names = ("matrix_message_dense_B", "matrix_message_expert_B", "dense_parameters_per_chip",
             "expert_parameters_per_chip")  # fmt: skip
    own = found(names, mapped(model, 1, 1, replicas, optimizer="muon", zero_stage=1.0))
    dense, expert, parameters, routed = (float(own[name][0]) for name in names)
    of_adam = (4 + 4) * (parameters + routed)
    assert 1.0 < (of_adam + dense + expert) / of_adam <= 1.25


def test_the_optimizer_takes_a_hundredth_of_an_iteration() -> None:
    """Liu 2025, section 2.3: the optimizer usually takes 1 to 3 % of the passes. A model of the shape of Moonlight (16
    billion parameters, 3 of them active) in batches of 16.8 million tokens; its chips are not told: these are any."""
    model = mapped("deepseek_v2_lite", 1, 1, 256, optimizer="muon", zero_stage=1.0, expert_parallel=8.0,
                   batch_size=2048.0, sequence_length=8192.0)  # fmt: skip
    took = found(("optimizer_time_s", "matrix_exchange_s", "pipeline_time_s"), model)
    assert 0.001 < (took["optimizer_time_s"][0] + took["matrix_exchange_s"][0]) / took["pipeline_time_s"][0] < 0.03


# state


@pytest.mark.parametrize(
    ("optimizer", "moment", "each"),
    [("adam", "fp32", 12.0), ("adam", "bf16", 8.0), ("adam", "int8", 6.0), ("sgd_momentum", "fp32", 8.0),
     ("sgd_momentum", "bf16", 6.0)],
)  # fmt: skip
def test_state_is_a_master_copy_and_the_moments(optimizer: str, moment: str, each: float) -> None:
    """DeepSeek-V3, section 3.3.2: two moments in bf16 beside a master copy in fp32; Dettmers 2022: in 8 bits."""
    point = mapped("llama3_8b", optimizer=optimizer, moment_format=moment)
    own = found(("optimizer_B", "dense_parameters_per_chip"), point)
    assert own["optimizer_B"] == pytest.approx(each * own["dense_parameters_per_chip"], rel=EXACT)


@pytest.mark.parametrize("model", ["llama3_8b", "mixtral_8x7b"])
def test_muon_keeps_one_moment_of_matrices(model: str) -> None:
    """Liu 2025, section 2.3: half of what AdamW adds. Embeddings, head and norms are left to AdamW."""
    names = ("optimizer_B", "dense_parameters_per_chip", "expert_parameters_per_chip",
             "matrix_dense_parameters_per_chip", "matrix_expert_parameters_per_chip")  # fmt: skip
    own = found(names, mapped(model, optimizer="muon"))
    state, dense, expert, dense_matrices, expert_matrices = (float(own[name][0]) for name in names)
    layers, vocabulary, norms = 32, 128256 if model == "llama3_8b" else 32000, (2 * 32 + 1) * 4096
    assert expert_matrices == expert
    assert dense - dense_matrices == 2 * vocabulary * 4096 + norms
    assert layers * 4096 * (4096 + 2 * 1024 + 4096) <= dense_matrices
    matrices = dense_matrices + expert_matrices
    assert state == pytest.approx(12 * (dense + expert - matrices) + 8 * matrices, rel=EXACT)


@pytest.mark.parametrize("optimizer", ["adam", "muon", "sgd_momentum"])
@pytest.mark.parametrize("moment", ["fp32", "bf16", "fp8"])
def test_an_update_moves_what_it_keeps(optimizer: str, moment: str) -> None:
    """What is not kept is neither read nor written."""
    usual = mapped("llama3_8b", 1, 1, 8, zero_stage=1.0)
    names = ("optimizer_time_s", "orthogonalise_s", "optimizer_B", "attainable_memory_Bps")
    own = found(names, usual, {**usual, "optimizer": optimizer, "moment_format": moment})
    moved = (own["optimizer_time_s"] - own["orthogonalise_s"]) * own["attainable_memory_Bps"]
    assert moved[0] - moved[1] == pytest.approx(2 * (own["optimizer_B"][0] - own["optimizer_B"][1]), rel=1e-9, abs=1.0)


# who does what


def test_all_replicas_do_all_of_it_unless_they_share_the_state() -> None:
    whole, alone, shared, sharded = (
        mapped("llama3_8b", 1, 1, replicas, optimizer="muon", zero_stage=stage)
        for replicas, stage in ((1, 3.0), (8, 0.0), (8, 1.0), (8, 3.0))
    )
    own = found(("orthogonalise_s", "matrix_exchange_s", "update_flops"), whole, alone, shared, sharded)
    seconds, exchange, flops = own.values()
    assert seconds[0] == seconds[1] > seconds[2] == seconds[3] > seconds[0] / 8
    assert exchange[0] == exchange[1] == 0.0 < exchange[2] < exchange[3]
    assert flops[0] == flops[1] == pytest.approx(8 * flops[3], rel=EXACT)
    assert flops[3] < flops[2] < flops[0] * seconds[2] / seconds[0] * 1.1


@pytest.mark.parametrize("stage", [0.0, 1.0, 2.0, 3.0])
def test_what_it_takes_is_part_of_the_iteration(stage: float) -> None:
    adam = mapped("mixtral_8x7b", 2, 2, 8, zero_stage=stage, expert_parallel=2.0, gradient_all_reduce="exposed")
    names = ("iteration_time_s", "optimizer_time_s", "orthogonalise_s", "gradient_time_s", "matrix_exchange_s",
             "pipeline_time_s", "energy_J")  # fmt: skip
    own = found(names, adam, {**adam, "optimizer": "muon"})
    more = {name: values[1] - values[0] for name, values in own.items()}
    assert own["orthogonalise_s"][0] == own["matrix_exchange_s"][0] == 0.0
    assert more["orthogonalise_s"] > 0.0
    assert (more["matrix_exchange_s"] > 0.0) == (stage > 0.0)
    assert more["gradient_time_s"] == pytest.approx(more["matrix_exchange_s"], rel=1e-6, abs=1e-12)
    assert more["optimizer_time_s"] < more["orthogonalise_s"]  # one moment less is read and written
    both = more["optimizer_time_s"] + more["gradient_time_s"]
    assert more["iteration_time_s"] == pytest.approx(both, rel=1e-6)
    assert more["pipeline_time_s"] == 0.0
    assert more["energy_J"] > 0.0


def test_a_tensor_group_orthogonalises_shards() -> None:
    """Megatron Core, `--muon-tp-mode blockwise`: 8 chips have matrices of an eighth, whose shorter side is shorter."""
    one, eight = found(("update_flops",), *(mapped("llama3_8b", t, optimizer="muon") for t in (1, 8)))["update_flops"]
    assert eight < one / 8


@pytest.mark.parametrize("rows", [2, 4])
def test_a_grid_orthogonalises_blocks(rows: int) -> None:
    """Every chip has its own: rows of a matrix over the rows of the grid, columns over its columns."""
    point = mapped("gpt2_small", 4 * rows, microbatch=float(rows), batch_size=float(rows), tensor_rows=float(rows))
    adam, muon = found(("hardware_flops",), point, {**point, "optimizer": "muon"})["hardware_flops"]
    matrices = 12 * (4 * [(768, 768)] + [(768, 3072), (3072, 768)])
    blocks = [(height / rows, width / 4) for height, width in matrices]
    assert muon - adam == pytest.approx(4 * rows * sum(itertools.starmap(newton_schulz, blocks)), rel=1e-9)


def test_a_model_without_matrices_of_hidden_layers_has_nothing_to_orthogonalise() -> None:
    frozen = mapped("llama3_8b", optimizer="muon", **{"workload.lora_rank": 16.0, "workload.lora_qkv": 0.0})
    assert found(("orthogonalise_s",), frozen)["orthogonalise_s"][0] == 0.0


def cut(matrices: int, parts: int) -> list[int]:
    """Matrices of which each of some equal parts of a buffer has something."""
    found = []
    for part in range(parts):
        first, last = part * matrices // parts, -(-(part + 1) * matrices // parts)
        found.append(last - first)
    return found


@examples(200)
@given(matrices=st.integers(1, 60), parts=st.integers(1, 80))
def test_parts_of_a_buffer_touch_in_the_mean_what_is_counted(matrices: int, parts: int) -> None:
    """Every cut that is not at the edge of a matrix makes one more of two."""
    row = np.zeros(2 * len(M))
    row[M.seconds], row[LONGEST + M.seconds] = float(matrices), 1.0
    counted = busiest(row, M.seconds, float(parts), 1.0)
    mean = sum(cut(matrices, parts)) / parts
    aligned = sum(part * matrices % parts == 0 for part in range(1, parts))
    if parts <= matrices:
        assert mean == pytest.approx(counted - aligned / parts, rel=1e-9)
    assert counted <= matrices * (1 + EXACT)


@examples(200)
@given(times=st.lists(st.floats(0.01, 10.0), min_size=1, max_size=40), owners=st.integers(1, 20))
def test_no_owner_has_more_than_is_counted(times: list[float], owners: int) -> None:
    """Whoever has least gets the next matrix (Graham 1969)."""
    loads = [0.0] * owners
    for time in times:
        loads[loads.index(min(loads))] += time
    row = np.zeros(2 * len(M))
    row[M.seconds], row[LONGEST + M.seconds] = sum(times), max(times)
    assert max(loads) <= busiest(row, M.seconds, float(owners), 1.0) * (1 + 1e-9)


def test_formats_of_moments_have_their_widths() -> None:
    own = found(
        ("optimizer_B", "dense_parameters_per_chip"), *(mapped("gpt2_small", moment_format=name) for name in FORMATS)
    )
    assert own["optimizer_B"] / own["dense_parameters_per_chip"] == pytest.approx(4 + 2 * np.array(FORMAT_B), rel=EXACT)
