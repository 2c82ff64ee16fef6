"""Exchange of experts and of sequences: what is sent of a token, what hides it, and who waits for whom."""

from typing import Any

import numpy as np
import pytest

from sweeper.kernels.codes import DIMENSION_KINDS
from sweeper.kernels.transformers.collectives import Group, dispatch_time, dispatched, distinct
from tests.kernels.transformers.test_models import EXACT, assert_no_less, evaluate, mapped

SWITCH = float(DIMENSION_KINDS.index("switch"))
MOE: dict[str, Any] = {"microbatch": 1.0, "sequence_length": 4096.0, "zero_stage": 1.0}


def group(inner: float, outer: float) -> Group:
    return Group(inner, outer, 450e9, 50e9, 1e-6, 5e-6, SWITCH, SWITCH, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0)


def mixture(**changes: Any) -> dict[str, Any]:
    """DeepSeek-V3 on four nodes, an expert group over all of them."""
    return mapped("deepseek_v3", 1, 1, 32, expert_parallel=32.0, batch_size=32.0, **(MOE | changes))


def layer(points: list[dict[str, Any]], answer: str = "layer_forward_s") -> np.ndarray:
    return evaluate(points, (answer,))[answer]


def test_distinct_places() -> None:
    """Throws of dice: of six faces, two throws show 11/6 on average; one place is always hit."""
    assert distinct(2.0, 6.0) == pytest.approx(11 / 6, rel=EXACT)
    assert distinct(8.0, 1.0) == 1.0
    assert distinct(1.0, 64.0) == pytest.approx(1.0, rel=EXACT)


def test_a_token_goes_once_to_a_node_and_once_to_a_chip() -> None:
    """Two nodes of two chips, two experts per token, by counting the 16 pairs of chips: 1.75 chips, 1.5 nodes."""
    near, far = dispatched(1e6, 2.0, 0.0, group(2.0, 2.0))
    assert near == pytest.approx(1e6 * 1.75 / 2, rel=EXACT)  # half of a token's chips are on the rail that it came by
    assert far == pytest.approx(1e6 * 1.5 / 2, rel=EXACT)  # half of the nodes are its own
    assert dispatched(1e6, 2.0, 1.0, group(2.0, 2.0))[1] == pytest.approx(1e6 / 2, rel=EXACT)
    slow = dispatch_time(1e6, 2.0, 0.0, group(2.0, 2.0), 3e-6, 0.0)
    assert slow == pytest.approx(3e-6 + 0.75e6 / 50e9 + 6e-6, rel=EXACT)
    assert dispatch_time(1e6, 2.0, 0.0, group(1.0, 1.0), 3e-6, 0.0) == 0.0


def test_copies_for_every_expert_are_never_faster() -> None:
    per_expert, per_chip, limited, unlimited = layer(
        [
            mixture(expert_dispatch="per_expert"),
            mixture(expert_dispatch="per_chip"),
            mixture(expert_dispatch="per_chip", **{"workload.nodes_per_token": 1.0}),
            mixture(expert_dispatch="per_chip", **{"workload.nodes_per_token": 0.0}),
        ],
        "network_time_s",
    )
    assert per_expert > 2.0 * per_chip
    assert unlimited >= per_chip > limited


def test_each_kind_of_traffic_has_its_own_share() -> None:
    """All of the experts' exchange hidden, the rest not; and the other way round, with tensor parallelism."""
    point = mapped("mixtral_8x7b", 4, 1, 8, expert_parallel=8.0, batch_size=8.0, sequence_parallel=1.0, **MOE)
    shares = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)]
    hidden = layer([point | {"tensor_overlap": t, "expert_overlap": e} for t, e in shares], "hidden_network_time_s")
    assert hidden[0] == 0.0
    assert min(hidden[1:3]) > 0.0
    assert hidden[3] == pytest.approx(hidden[1] + hidden[2], rel=1e-9)


def test_busier_chips_take_longer_by_the_work_of_their_experts() -> None:
    even, busy = (
        evaluate([mixture(expert_imbalance=load)], ("hardware_flops", "layer_forward_s")) for load in (1.0, 1.5)
    )
    assert busy["layer_forward_s"] > even["layer_forward_s"]
    assert 1.0 < busy["hardware_flops"] / even["hardware_flops"] < 1.5


def test_kernels_of_single_experts_add_their_overhead() -> None:
    """Of eight local experts, two products forward: eight kernels each instead of one."""
    overhead = {"calibration.kernel_overhead": 1e-3, "microbatch": 8.0}
    one, each = layer([mixture(**overhead), mixture(**overhead, **{"calibration.expert_launches": 1.0})])
    expert_share = 58 / 61
    assert each - one == pytest.approx(2 * 7 * 1e-3 * expert_share, rel=1e-3)


def rings(context: int, **changes: Any) -> dict[str, Any]:
    return mapped("gpt3_6_7b", 1, 1, 1, context, microbatch=1.0, batch_size=1.0, zero_stage=1.0, **changes)


def test_a_ring_hides_behind_attention_and_a_gather_does_not() -> None:
    """Long sequences: attention grows with the square, what is passed on does not."""
    lengths = (2048.0, 131072.0)
    passed, gathered = (
        evaluate([rings(16, context_exchange=how, sequence_length=s) for s in lengths], ("network_time_s",))[
            "network_time_s"
        ]
        for how in ("ring", "all_gather")
    )
    assert passed[1] == 0.0 < passed[0]
    assert_no_less(gathered, passed)
    assert gathered[1] / gathered[0] == pytest.approx(64.0, rel=0.1)


def test_ways_to_share_a_sequence_compute_the_same() -> None:
    found = evaluate(
        [rings(8, context_exchange=how, sequence_length=8192.0) for how in ("ring", "all_to_all", "all_gather")],
        ("hardware_flops", "infeasible_reason"),
    )
    np.testing.assert_allclose(found["hardware_flops"], found["hardware_flops"][0], rtol=EXACT)
    assert list(found["infeasible_reason"]) == [0.0] * 3


WANTED = ("expert_parameters_per_chip", "hardware_flops", "network_time_s", "mapping_reason", "layer_stored_B")


def sharing(expert_tensor: float, experts: float, **changes: Any) -> dict[str, Any]:
    """Mixtral on four tensor groups of four chips, sequences split over them."""
    fixed = {"expert_tensor_parallel": expert_tensor, "expert_parallel": experts, "batch_size": 4.0, **MOE}
    return mapped("mixtral_8x7b", 4, 1, 4, **{**fixed, "sequence_parallel": 1.0, **changes})


def told(*points: dict[str, Any]) -> list[dict[str, float]]:
    values = evaluate(list(points), WANTED)
    return [{name: float(values[name][i]) for name in WANTED} for i in range(len(points))]


def test_an_expert_is_shared_as_the_tensor_group_says_unless_a_study_does() -> None:
    silent, said = told(sharing(0.0, 4.0), sharing(4.0, 4.0))
    assert silent == said


def test_whole_experts_are_spread_over_tensor_groups_first() -> None:
    """Four groups of four hold eight experts: two quarters on each chip, or half an expert of every chip's own."""
    shared, whole, halved = told(sharing(4.0, 4.0), sharing(1.0, 8.0), sharing(2.0, 8.0))
    assert whole["mapping_reason"] == halved["mapping_reason"] == 0.0
    one_expert = 3 * 4096 * 14336
    assert shared["expert_parameters_per_chip"] == pytest.approx(32 * one_expert * 2 / 4, rel=EXACT)
    assert whole["expert_parameters_per_chip"] == pytest.approx(32 * one_expert, rel=EXACT)  # 8 chips hold 8 experts
    assert halved["expert_parameters_per_chip"] == pytest.approx(32 * one_expert / 2, rel=EXACT)
    for each in (whole, halved):  # nothing is computed twice
        assert each["hardware_flops"] == pytest.approx(shared["hardware_flops"], rel=1e-9)


def test_whole_experts_gather_no_activations_of_a_tensor_group() -> None:
    """Two experts per token: shared by four chips each gathers what the others hold, alone it takes its own part."""
    inside = {"workload.experts_per_token": 2.0, "expert_overlap": 0.0}
    shared, whole = told(sharing(4.0, 1.0, **inside), sharing(1.0, 4.0, **inside))
    assert whole["network_time_s"] < shared["network_time_s"]


@pytest.mark.parametrize(("expert_tensor", "experts"), [(3.0, 4.0), (1.0, 2.0), (2.0, 3.0), (1.0, 32.0)])
def test_experts_fill_whole_tensor_groups(expert_tensor: float, experts: float) -> None:
    (found,) = told(sharing(expert_tensor, experts))
    assert found["mapping_reason"] != 0.0
