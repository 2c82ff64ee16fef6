"""Recurrent layers: the table against chunks counted by hand, and what must follow for training and serving them."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.transformers.operators import D
from sweeper.library.library import Library, builtin_specs
from sweeper.library.table_workload import read_table
from tests.kernels.transformers.test_models import (
    EXACT,
    SERVING,
    TRAINING,
    Point,
    assert_no_less,
    evaluate,
    mapped,
    numbers,
)
from tests.support.examples import examples
from tests.twins.naive_scan import KINDS, Kind, Ledger, Sequence, chunked, delta_map, random_sequence, recurrence

LIBRARY = Library.load([builtin_specs()])
MODELS = ("minimax_text_01", "qwen3_next_80b_a3b", "kimi_linear_48b_a3b")
STATE_B = 4.0
"""Bytes of an element of a state."""


class Shape(NamedTuple):
    """Heads, keys that they share, widths of both, tokens of a chunk, chunks."""

    heads: int
    key_heads: int
    key: int
    value: int
    chunk: int
    chunks: int

    @property
    def tokens(self) -> int:
        return self.chunk * self.chunks


def decays_of(kind: Kind, shape: Shape) -> int:
    """Decays that a token gives a head."""
    return {"fixed": 0, "head": 1, "channel": shape.key}[kind.decays]


def recurrent(kind: Kind, shape: Shape, context: int = 1, **others: Any) -> Point:
    """A model of such layers alone that trains one sample."""
    sizes = {
        "layers": 2, "attention_free_layers": 2, "feed_forward_free_layers": 2, "scan_layers": 2,
        "scan_heads": shape.heads, "scan_key_heads": shape.key_heads, "scan_key_size": shape.key,
        "scan_value_size": shape.value, "scan_chunk": shape.chunk, "scan_decays": decays_of(kind, shape),
        "scan_delta": kind.delta,
    }  # fmt: skip
    given = {f"workload.{name}": float(number) for name, number in sizes.items()}
    own = {"sequence_length": float(shape.tokens * context), "batch_size": 1.0}
    return mapped("mamba2_130m", context=context, **(own | given | others))


def dims(model: str, points: list[Point], operator: str, column: str = "operator_dims") -> np.ndarray:
    """Numbers of an operator, of every point."""
    names = [each.name for each in read_table(LIBRARY.find("workload", model)).operators]
    return evaluate(points, (column,))[column][:, names.index(operator)]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Kind, Shape, int]:
    """A kind of layer, its shape, a seed. Decays by channel are of keys of more than one."""
    kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    key_heads, shared = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    key, value, chunk, chunks = (draw(st.integers(least, most)) for least, most in ((2, 6), (1, 6), (1, 7), (1, 3)))
    return kind, Shape(key_heads * shared, key_heads, key, value, chunk, chunks), draw(st.integers(0, 2**32 - 1))


def by_hand(kind: Kind, shape: Shape, seed: int) -> tuple[Sequence, np.ndarray]:
    """A random sequence, and the states before it."""
    rng = np.random.default_rng(seed)
    drawn = random_sequence(rng, kind, shape.tokens, shape.heads, shape.key_heads, shape.key, shape.value)
    return drawn, rng.normal(size=(shape.heads, shape.key, shape.value))


# against the chunks counted by hand


@given(cases())
@examples(60)
def test_chunks_by_hand_give_what_the_recurrence_gives(case: tuple[Kind, Shape, int]) -> None:
    kind, shape, _ = case
    drawn, states = by_hand(*case)
    for plain, by_chunks in zip(
        recurrence(kind, drawn, states), chunked(kind, drawn, states, shape.chunk, Ledger()), strict=True
    ):
        np.testing.assert_allclose(by_chunks, plain, rtol=1e-9, atol=1e-9)


@given(cases())
@examples(40)
def test_chips_that_share_a_sequence_know_what_they_do_to_a_state(case: tuple[Kind, Shape, int]) -> None:
    """So a factor and a term of every head are enough to send."""
    kind, shape, _ = case
    drawn, states = by_hand(*case)
    if kind.delta:
        factor, term = delta_map(kind, drawn, shape.chunk, Ledger())
        np.testing.assert_allclose(factor @ states + term, recurrence(kind, drawn, states)[1], rtol=1e-9, atol=1e-9)


@given(cases())
@examples(25)
def test_the_table_counts_what_was_counted_by_hand(case: tuple[Kind, Shape, int]) -> None:
    """Operations and bytes of a layer on one chip, and on one of two that share a sequence of twice the length."""
    kind, shape, _ = case
    ledger, handed = Ledger(), Ledger()
    drawn, states = by_hand(*case)
    chunked(kind, drawn, states, shape.chunk, ledger)
    if kind.delta:
        delta_map(kind, drawn, shape.chunk, handed)
    alone = dims("mamba2_130m", [recurrent(kind, shape)], "scan")[0]
    shared = dims("mamba2_130m", [recurrent(kind, shape, context=2)], "scan")[0]
    for found, more in ((alone, Ledger()), (shared, handed)):
        assert found[D.matrix_flops] == pytest.approx(ledger.products + more.products, rel=EXACT)
        assert found[D.flops] == pytest.approx(ledger.others + more.others, rel=1e-9)
        assert found[D.bytes] == pytest.approx(ledger.moved_B + more.moved_B, rel=1e-9)


def test_a_chunk_is_no_longer_than_the_sequence() -> None:
    shapes = [Shape(4, 4, 8, 8, chunk, 1) for chunk in (16, 4096)]
    points = [recurrent(KINDS["gated delta"], shape, sequence_length=16.0) for shape in shapes]
    found = dims("mamba2_130m", points, "scan")
    np.testing.assert_array_equal(found[0], found[1])


# training


@pytest.mark.parametrize("model", MODELS)
def test_operations_are_the_recurrences(model: str) -> None:
    """Twice the parameters that multiply; five operations on an element of the state with a decay alone (decay, write,
    read), seven with a delta rule (and what was held is read); softmax layers see half of the text."""
    p = numbers(model)
    size = p["scan_layers"] * p["scan_heads"] * p["scan_key_size"] * p["scan_value_size"]
    assert p["scan_step_flops"] == 5 + 2 * p["scan_delta"]
    bare = {"workload.scan_step_flops": 1.0}
    flops = [evaluate([mapped(model, **more)], ("model_flops_per_token",))["model_flops_per_token"][0]
             for more in ({}, bare)]  # fmt: skip
    assert flops[0] - flops[1] == pytest.approx((p["scan_step_flops"] - 1) * size, rel=1e-9)


def test_a_delta_rule_does_more_than_a_decay() -> None:
    """Twice the products within a chunk and half as many again with the state; and the inverse."""
    shape = Shape(8, 8, 64, 64, 64, 4)
    plain, delta = (dims("mamba2_130m", [recurrent(KINDS[kind], shape)], "scan")[0] for kind in
                    ("lightning", "delta"))  # fmt: skip
    inner = shape.heads * shape.value
    more = 2 * shape.tokens * (3 * shape.chunk * inner + shape.value * inner)
    assert delta[D.matrix_flops] - plain[D.matrix_flops] == pytest.approx(more, rel=EXACT)
    assert delta[D.bytes] > plain[D.bytes]
    assert delta[D.stored] - plain[D.stored] == 2 * shape.tokens * shape.chunk * shape.heads


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("parallel", [0.0, 1.0])
def test_a_tensor_group_shares_out_heads(model: str, parallel: float) -> None:
    """Weights but norms, narrow products and routers; operations; activations. The rest of a layer is split as ever."""
    points = [mapped(model, t, sequence_parallel=parallel, batch_size=1.0) for t in (1, 2, 8)]
    found = evaluate(points, (*TRAINING, "parameters"))
    whole = found["dense_parameters_per_chip"] + found["expert_parameters_per_chip"]
    np.testing.assert_allclose(whole * [1, 2, 8], whole[0], rtol=0.02)
    assert np.all(np.diff(found["iteration_time_s"]) < 0.0)
    scan = dims(model, points, "scan")
    np.testing.assert_allclose(scan[:, D.matrix_flops] * [1, 2, 8], scan[0, D.matrix_flops], rtol=EXACT)
    np.testing.assert_allclose(scan[:, D.flops] * [1, 2, 8], scan[0, D.flops], rtol=EXACT)
    assert np.all(np.diff(found["activations_B"]) < 0.0)


@pytest.mark.parametrize("model", MODELS)
def test_recomputing_gives_memory_and_takes_time(model: str) -> None:
    runs = {
        (recompute, kept): evaluate([mapped(model, 8, recompute=recompute, kept_results=kept)], TRAINING)
        for recompute, kept in (("none", "none"), ("full", "products"), ("full", "none"))
    }
    none, some, full = runs.values()
    for less, more in ((none, some), (some, full)):
        assert more["hardware_flops"] > less["hardware_flops"]
        assert more["activations_B"] < less["activations_B"]
        assert more["iteration_time_s"] > less["iteration_time_s"]


def test_time_of_a_scan_is_linear_in_the_length() -> None:
    lengths = [recurrent(kind, Shape(32, 32, 128, 128, 64, n)) for kind in KINDS.values() for n in (128, 256, 512)]
    for times in evaluate(lengths, TRAINING)["pipeline_time_s"].reshape(-1, 3):
        once, twice = np.diff(times)
        assert twice == pytest.approx(2 * once, rel=0.02)


# sequences on several chips


@pytest.mark.parametrize("exchange", ["ring", "all_gather", "all_to_all"])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_states_are_handed_on(kind: str, exchange: str) -> None:
    """In 32 bits, with the factor of a delta rule; or every chip has all tokens of fewer heads and hands on nothing."""
    shape = Shape(8, 8, 16, 32, 64, 4)
    points = [recurrent(KINDS[kind], shape, context, context_exchange=exchange, sequence_length=1024.0)
              for context in (2, 4)]  # fmt: skip
    sent, out, back = (dims("mamba2_130m", points, name)[:, D.message] for name in
                       ("scan_states_gather", "scan_scatter_heads", "scan_gather_heads"))  # fmt: skip
    if exchange == "all_to_all":
        assert np.all(sent == 0.0)
        scalars = KINDS[kind].delta + decays_of(KINDS[kind], shape)
        widths = shape.heads * np.array([2 * shape.key + shape.value + scalars, shape.value])
        np.testing.assert_allclose([out, back], 2 * np.outer(widths, [512.0, 256.0]), rtol=EXACT)
        return
    state = shape.heads * shape.key * (shape.value + shape.key * KINDS[kind].delta)
    np.testing.assert_allclose(sent, STATE_B * state * np.array([2.0, 4.0]), rtol=EXACT)
    assert not np.any(out) and not np.any(back)
    network = evaluate(points, ("network_time_s",))["network_time_s"]
    assert np.all(network > 0.0)


def test_a_chip_alone_hands_nothing_on() -> None:
    for kind in KINDS.values():
        found = evaluate([recurrent(kind, Shape(8, 8, 16, 32, 64, 4))], TRAINING)
        assert found["network_time_s"][0] == 0.0


def test_chips_that_share_a_sequence_are_faster() -> None:
    for model in MODELS:
        points = [mapped(model, 8, context=c, sequence_length=65536.0, batch_size=1.0) for c in (1, 2, 4)]
        assert np.all(np.diff(evaluate(points, TRAINING)["pipeline_time_s"]) < 0.0), model


# serving


@pytest.mark.parametrize("model", MODELS)
def test_a_server_keeps_states_and_the_keys_of_the_other_layers(model: str) -> None:
    """States of 32 bits, whatever the length of the text, and what a convolution reads of tokens before."""
    p = numbers(model)
    lengths = (512.0, 65536.0)
    points = [mapped(model, 8, task="inference", sequence_length=n, output_length=64.0) for n in lengths]
    kept = evaluate(points, SERVING)["cache_memory_B"]
    attending = p["layers"] - p["attention_free_layers"]
    row = (
        p["kv_latent"] + p["rope_size"]
        if p["kv_latent"]
        else 2 * p["kv_heads"] * p["head_size"] / min(8, p["kv_heads"])
    )
    inner, keys = p["scan_heads"] * p["scan_value_size"], p["scan_key_heads"] * p["scan_key_size"]
    state = STATE_B * inner * p["scan_key_size"] + 2 * p["scan_kernel"] * (inner + 2 * keys)
    expected = [8 * (p["scan_layers"] * state / 8 + attending * row * 2 * (n + 64.0)) for n in lengths]
    np.testing.assert_allclose(kept, expected, rtol=EXACT)


def test_a_step_reads_and_writes_the_state() -> None:
    for model in MODELS:
        p = numbers(model)
        point = mapped(model, task="inference", sequence_length=4096.0, output_length=64.0, batch_size=1.0)
        inner, keys = p["scan_heads"] * p["scan_value_size"], p["scan_key_heads"] * p["scan_key_size"]
        step = dims(model, [point], "scan_step", "decode_dims")[0]
        state = inner * p["scan_key_size"]
        window = (2 * p["scan_kernel"] + 2) * (inner + 2 * keys) * 2
        assert step[D.bytes] == 2 * STATE_B * state + window
        assert step[D.flops] == p["scan_step_flops"] * state
        assert dims(model, [point], "scan", "decode_dims")[0][D.count] == 0.0


def test_a_long_text_hardly_slows_a_model_of_recurrent_layers() -> None:
    """Three layers of four of Qwen3-Next do not see the text again: its cache, and what a longer text adds to the time
    of a token, are a quarter of those of Qwen3-30B-A3B, all of whose layers see it (24 and 96 KiB per token)."""
    chips: dict[str, Any] = {"chip": "h200_sxm5_141gb", "memory": "hbm3e", "link": "nvlink4"}
    for batch in (1.0, 16.0):
        served = {"task": "inference", "output_length": 64.0, "batch_size": batch, "microbatch": batch, **chips}
        cache, growth, slower = [], [], []
        for model in ("qwen3_next_80b_a3b", "qwen3_30b_a3b"):
            points = [mapped(model, 2, sequence_length=n, **served) for n in (2048.0, 262144.0)]
            found = evaluate(points, SERVING)
            near, far = found["time_per_output_token_s"]
            growth.append(far - near)
            slower.append(far / near)
            cache.append(np.diff(found["cache_memory_B"])[0])
        assert cache[0] == pytest.approx(0.25 * cache[1], rel=EXACT)
        assert growth[0] == pytest.approx(0.25 * growth[1], rel=0.1)
        assert slower[0] - 1 < 0.25 * (slower[1] - 1)


def test_kimi_linear_reads_long_prompts_faster_than_its_latent_attention_alone() -> None:
    """Caches are three quarters smaller (arXiv:2510.26692, abstract: up to 75 %). Times follow from shares of layers:
    the longer the prompt, the nearer to four, which is no check of a published speed."""
    chips: dict[str, Any] = {"chip": "h100_sxm5_80gb", "memory": "hbm3_h100", "link": "nvlink4",
                             "outer_link": "infiniband_ndr", "task": "inference", "batch_size": 1.0}  # fmt: skip
    latent = {"workload.attention_free_layers": 0.0, "workload.scan_layers": 0.0}
    faster = [1.0]
    for tokens in (2.0**18, 2.0**19, 2.0**20):
        point = mapped("kimi_linear_48b_a3b", 8, sequence_length=tokens, output_length=1.0, **chips)
        found = evaluate([point, point | latent], SERVING)
        own, other = found["time_to_first_token_s"]
        faster.append(other / own)
        own, other = found["cache_memory_B"]
        assert own / other == pytest.approx(0.25, abs=0.015)
    assert faster == sorted(faster)
    assert faster[-1] < 4.0  # one layer of four attends to everything


def test_wider_states_take_longer() -> None:
    for task, answer in (("training", "iteration_time_s"), ("inference", "time_per_output_token_s")):
        serving = {"task": task, "output_length": 64.0} if task == "inference" else {}
        for name in ("scan_key_size", "scan_value_size"):
            points = [mapped("qwen3_next_80b_a3b", 8, sequence_length=8192.0, **serving, **{f"workload.{name}": width})
                      for width in (64.0, 128.0, 256.0)]  # fmt: skip
            times = evaluate(points, (answer,))[answer]
            assert_no_less(times[1:], times[:-1])
            assert times[2] > times[0]
