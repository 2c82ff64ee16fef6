"""Fused attention: its twin in plain Python, roofline bounds, limits, and what must grow with what."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.transformers import attention
from sweeper.kernels.transformers.rates import Chip, Rates
from tests.support.examples import compared, examples
from tests.support.quick import quick
from tests.twins import naive_attention

FAST = examples(150)
KERNELS = ("attention_time", "attention_backward_time")
H100 = {
    "element_B": 2.0,
    "kv_B": 2.0,
    "peak_flops": 989.4e12,
    "exponentials_per_s": 16 * 132 * 1.83e9,
    "memory_Bps": 3.35e12,
    "cores": 132.0,
    "core_sram_B": 228e3,
}
SHAPE = {"batch": 4.0, "heads": 32.0, "kv_heads": 8.0, "head_size": 128.0, "value_size": 128.0, "causal": 1.0}


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """Any attention on any chip: past tokens, grouped heads, unequal head sizes, tiny and huge on-chip memory."""
    kv_heads, group = draw(st.integers(1, 16)), draw(st.integers(1, 16))
    queries = draw(st.one_of(st.just(1), st.integers(1, 600)))
    return {
        "batch": draw(st.integers(1, 300)),
        "heads": kv_heads * group,
        "kv_heads": kv_heads,
        "queries": queries,
        "context": queries + draw(st.one_of(st.just(0), st.integers(0, 200_000))),
        "head_size": draw(st.sampled_from([32, 64, 80, 128, 192, 256, 576])),
        "value_size": draw(st.sampled_from([32, 64, 80, 128, 256, 512])),
        "causal": draw(st.sampled_from([0.0, 1.0])),
        "element_B": draw(st.sampled_from([1.0, 2.0, 4.0])),
        "kv_B": draw(st.sampled_from([0.5, 1.0, 2.0, 4.0])),
        "peak_flops": draw(st.floats(1e12, 1e16)),
        "exponentials_per_s": draw(st.one_of(st.just(math.inf), st.floats(1e10, 1e14))),
        "memory_Bps": draw(st.floats(1e11, 2e13)),
        "cores": draw(st.integers(1, 1000)),
        "core_sram_B": float(draw(st.integers(1_000, 4_000_000))),
        "matrix_width": draw(st.sampled_from([0, 0, 128, 256])),
    }


LEAST_ROWS = 64.0


def run(name: str, case: dict[str, Any], least_rows: float = LEAST_ROWS) -> tuple[float, float, float, float]:
    number = {key: float(value) for key, value in case.items()}
    shape = attention.Attention(*(number[field] for field in attention.Attention._fields))
    rates = Rates(1.0, number["peak_flops"], 1.0, 1.0, 1.0, number["exponentials_per_s"], number["memory_Bps"], 1.0)
    chip = Chip(number["cores"], number["core_sram_B"], 0.0, 0.0, 1.0, number.get("matrix_width", 0.0))
    result: tuple[float, float, float, float]
    if name == "attention_time":
        result = attention.attention_time(shape, rates, chip, least_rows)
    else:
        result = attention.attention_backward_time(shape, rates, chip)
    return result


def seconds(name: str, case: dict[str, Any]) -> float:
    return max(run(name, case)[:2])


@pytest.mark.parametrize("name", KERNELS)
@compared()
@given(case=quick(cases()))
def test_attention_equals_its_twin(name: str, case: dict[str, Any]) -> None:
    twin: Callable[..., tuple[float, ...]] = getattr(naive_attention, name)
    got, want = run(name, case), twin(**case)
    assert got[3] == pytest.approx(want[3], rel=1e-15), "operations"
    # Two numbers of parts may take the same time to the last bit: compare what the kernel takes, then the rest.
    assert max(got[:2]) == pytest.approx(max(want[:2]), rel=1e-12)
    assert got[2:] == pytest.approx(want[2:], rel=1e-12)
    assert min(got[:2]) == pytest.approx(min(want[:2]), rel=1e-12)


@compared()
@given(case=quick(cases()), least_rows=st.sampled_from([16, 64, 128]))
def test_tile_rows_equal_their_twin(case: dict[str, Any], least_rows: int) -> None:
    got = run("attention_time", case, float(least_rows))
    want = naive_attention.attention_time(**case, least_rows=least_rows)
    assert max(got[:2]) == pytest.approx(max(want[:2]), rel=1e-12)
    assert got[2:] == pytest.approx(want[2:], rel=1e-12)


@pytest.mark.parametrize("name", KERNELS)
@FAST
@given(case=cases())
def test_no_attention_beats_the_roofline(name: str, case: dict[str, Any]) -> None:
    compute_s, memory_s, memory_B, flops = run(name, case)
    scores = case["batch"] * case["heads"] * naive_attention.pairs(case["queries"], case["context"], case["causal"] > 0)
    width = case["head_size"] + case["value_size"]
    once_B = case["batch"] * width * (
        case["heads"] * case["queries"] * case["element_B"] + case["kv_heads"] * case["context"] * case["kv_B"]
    )  # fmt: skip
    assert memory_B >= once_B * (1 - 1e-12)
    assert memory_s >= memory_B / case["memory_Bps"] * (1 - 1e-12)
    assert compute_s >= flops / case["peak_flops"] * (1 - 1e-12)
    assert compute_s >= scores / case["exponentials_per_s"] * (1 - 1e-12)


@pytest.mark.parametrize("name", KERNELS)
@FAST
@given(case=cases(), factor=st.integers(2, 5))
def test_larger_batch_takes_no_less(name: str, case: dict[str, Any], factor: int) -> None:
    assert seconds(name, case | {"batch": case["batch"] * factor}) >= seconds(name, case) * (1 - 1e-12)
    assert seconds(name, case | {"batch": case["batch"] + 1}) >= seconds(name, case) * (1 - 1e-12)


@FAST
@given(case=cases(), more=st.integers(1, 5000))
def test_longer_context_takes_no_less(case: dict[str, Any], more: int) -> None:
    longer = case | {"context": case["context"] + more}
    assert seconds("attention_time", longer) >= seconds("attention_time", case) * (1 - 1e-12)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("causal", [0.0, 1.0])
def test_longer_prompts_take_longer(name: str, causal: float) -> None:
    times = [
        seconds(name, SHAPE | H100 | {"causal": causal, "queries": 2.0**i, "context": 2.0**i}) for i in range(7, 18)
    ]
    assert times == sorted(times)
    assert times[-1] / times[-2] == pytest.approx(4.0, rel=0.02), "quadratic when long"


@pytest.mark.parametrize("name", KERNELS)
def test_causal_mask_halves_long_sequences(name: str) -> None:
    """It leaves (n + 1) / 2 of n keys to the average query."""
    for n, tolerance in ((65536.0, 0.01), (8192.0, 0.06)):
        case = SHAPE | H100 | {"queries": n, "context": n}
        masked, full = run(name, case), run(name, case | {"causal": 0.0})
        assert masked[3] / full[3] == pytest.approx((n + 1) / (2 * n), rel=1e-14)
        assert masked[0] / full[0] == pytest.approx(0.5, rel=tolerance)
    one = SHAPE | H100 | {"queries": 1.0, "context": 4096.0}
    assert run("attention_time", one)[3] == run("attention_time", one | {"causal": 0.0})[3], "one query sees all"


@pytest.mark.parametrize("name", KERNELS)
def test_small_heads_leave_half_of_a_wide_matrix_unit_idle(name: str) -> None:
    case = SHAPE | H100 | {"queries": 131072.0, "context": 131072.0, "exponentials_per_s": math.inf}
    fitting, wide = (run(name, case | {"matrix_width": width})[0] for width in (128.0, 256.0))
    products_s = wide - fitting  # what sums of query gradients take is the same
    assert products_s == pytest.approx(run(name, case)[3] / H100["peak_flops"], rel=0.02)
    assert fitting == run(name, case)[0]


def test_backward_has_five_products_instead_of_two() -> None:
    case = SHAPE | H100 | {"queries": 8192.0, "context": 8192.0}
    forward, backward = run("attention_time", case), run("attention_backward_time", case)
    assert backward[3] / forward[3] == 2.5
    assert 2.5 < backward[0] / forward[0] < 4.0, "and adds up query gradients"


def test_long_prompts_approach_products_plus_exposed_exponentials() -> None:
    case = SHAPE | H100 | {"queries": 131072.0, "context": 131072.0}
    compute_s, memory_s, _, flops = run("attention_time", case)
    products_s = flops / H100["peak_flops"]
    exponentials_s = flops / (4 * 128) / H100["exponentials_per_s"]
    assert compute_s == pytest.approx(products_s + 0.5 * exponentials_s, rel=0.02)
    assert memory_s < 0.05 * compute_s
    free = run("attention_time", case | {"exponentials_per_s": math.inf})
    assert free[0] == pytest.approx(products_s, rel=0.02)


def test_long_decode_approaches_the_time_to_read_the_cache() -> None:
    case = SHAPE | H100 | {"batch": 64.0, "queries": 1.0, "context": 131072.0}
    compute_s, memory_s, memory_B, _ = run("attention_time", case)
    assert memory_B == pytest.approx(64 * 8 * 131072 * 256 * 2, rel=1e-3)
    assert memory_s == pytest.approx(memory_B / H100["memory_Bps"], rel=0.01)
    assert compute_s < memory_s
    assert run("attention_time", case | {"kv_B": 1.0})[2] == pytest.approx(memory_B / 2, rel=1e-3)


def test_context_is_split_for_idle_cores() -> None:
    """One sequence with one key head: without parts, one core would read the whole cache."""
    case = SHAPE | H100 | {"batch": 1.0, "kv_heads": 1.0, "queries": 1.0, "context": 131072.0}
    memory_B = run("attention_time", case)[2]
    alone_s = memory_B / (H100["memory_Bps"] / H100["cores"])
    assert seconds("attention_time", case) < alone_s / 20


def test_equal_tiles_run_in_rounds() -> None:
    """132 tiles fill 132 cores; one more needs a second round."""
    case = SHAPE | H100 | {"heads": 1.0, "kv_heads": 1.0, "queries": 128.0, "context": 8192.0, "causal": 0.0}
    full = run("attention_time", case | {"batch": 132.0})[0]
    assert run("attention_time", case | {"batch": 67.0})[0] == full
    assert run("attention_time", case | {"batch": 133.0})[0] == pytest.approx(2 * full, rel=1e-12)


def test_few_queries_cost_as_much_as_the_least_tile() -> None:
    case = SHAPE | H100 | {"kv_heads": 32.0, "batch": 64.0, "queries": 1.0, "context": 8192.0}
    times = [run("attention_time", case | {"queries": q, "causal": 0.0})[0] for q in (1.0, 64.0, 65.0)]
    assert times[0] == times[1]
    assert times[2] > 1.5 * times[1]
