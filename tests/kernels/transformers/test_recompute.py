"""Selective recompute by part of a layer: what is repeated, and what need not be kept."""

from typing import Any

import numpy as np
import pytest

from sweeper.kernels.codes import RECOMPUTE_MODULES
from tests.kernels.transformers.test_models import EXACT, evaluate, mapped

PARTS = RECOMPUTE_MODULES[1:]
NO_PART = {f"recompute_{part}": 0.0 for part in PARTS}
WANTED = ("hardware_flops", "work_flops", "layer_stored_B", "recompute_time_s", "network_time_s", "iteration_time_s")


def experts(**changes: Any) -> dict[str, Any]:
    """DeepSeek-V3, all layers with experts, over two nodes."""
    fixed = {"expert_parallel": 16.0, "batch_size": 16.0, "zero_stage": 1.0, "sequence_length": 4096.0}
    return mapped("deepseek_v3", 1, 1, 16, **{**fixed, "workload.dense_layers": 0.0, **changes})


def again(*parts: str, share: float = 1.0, **changes: Any) -> dict[str, Any]:
    chosen = {f"recompute_{part}": share for part in parts}
    return experts(recompute="selective", **{**NO_PART, **chosen, **changes})


def told(*points: dict[str, Any]) -> list[dict[str, float]]:
    values = evaluate(list(points), WANTED)
    return [{name: float(values[name][i]) for name in WANTED} for i in range(len(points))]


def test_no_part_is_nothing() -> None:
    none, selective = told(experts(recompute="none"), again())
    assert none == selective


@pytest.mark.parametrize("part", PARTS)
def test_a_part_costs_operations_or_time_and_frees_memory(part: str) -> None:
    point = again(part) if part != "feed_forward" else again(part, **{"workload.dense_layers": 3.0})
    none, some = told({**point, "recompute": "none"}, point)
    assert some["recompute_time_s"] > none["recompute_time_s"] == 0.0
    assert some["hardware_flops"] >= none["hardware_flops"]
    assert some["work_flops"] == none["work_flops"]
    freed = none["layer_stored_B"] - some["layer_stored_B"]
    assert freed > 0.0 or part == "attention"  # fused attention keeps no scores


def test_latents_are_repeated_by_their_own_operations() -> None:
    """DeepSeek-V3: 128 heads of 192 from 1,536, and 128 heads of 128 and 128 from 512, in 61 layers, per token."""
    none, some = told(experts(recompute="none"), again("latents"))
    tokens, layers = 16.0 * 4096.0, 61.0
    flops = 2.0 * tokens * layers * (1536.0 * 128 * 192 + 512.0 * 128 * 256)
    assert some["hardware_flops"] - none["hardware_flops"] == pytest.approx(flops, rel=1e-9)
    freed = 2.0 * 4096.0 * (128 * 192 + 128 * 192 + 128 * 128)
    assert none["layer_stored_B"] - some["layer_stored_B"] == pytest.approx(freed, rel=EXACT)


def test_parts_add_up_and_shares_divide() -> None:
    separate = [told(again(part))[0] for part in ("latents", "norms", "experts")]
    (none,), (half,), (together,) = (
        told(again()),
        told(again("latents", share=0.5)),
        told(again("latents", "norms", "experts")),
    )
    for name in ("recompute_time_s", "hardware_flops", "layer_stored_B"):
        change = sum(each[name] - none[name] for each in separate)
        assert together[name] - none[name] == pytest.approx(change, rel=1e-9)
        assert half[name] - none[name] == pytest.approx((separate[0][name] - none[name]) / 2, rel=1e-9)


def test_experts_hold_their_activation_and_exchange_again() -> None:
    none, whole, both = told(experts(recompute="none"), again("experts"), again("experts", "expert_activations"))
    assert whole == both
    assert whole["network_time_s"] == pytest.approx(1.5 * none["network_time_s"], rel=1e-9)


def test_full_recompute_repeats_every_part() -> None:
    full, parts = told(experts(recompute="full"), again(*PARTS))
    assert full["hardware_flops"] >= parts["hardware_flops"]
    assert full["layer_stored_B"] < parts["layer_stored_B"]
    assert np.isclose(full["work_flops"], parts["work_flops"], rtol=EXACT)
