"""Speculative decoding of servers that operator tables describe: what a generating pass with drafts makes and takes."""

from typing import Any

import numpy as np
import pytest

import sweeper
from sweeper.errors import SpecError

AXES: dict[str, Any] = {
    "workload": "llama3_8b",
    "task": "inference",
    "chip": "h100_sxm5_80gb",
    "memory": "hbm3_h100",
    "link": "nvlink4",
    "topology": "switch",
    "chips": 1,
    "dim_x": 1,
    "batch_size": 4,
    "microbatch": 4,
    "sequence_length": 1024,
    "output_length": 257,
}
FREE = {"draft_time": "0 s"}
COLUMNS = (
    "time_to_first_token_s", "time_per_output_token_s", "round_time_s", "tokens_per_round", "generating_passes",
    "draft_pass_s", "request_time_s", "loaded_time_per_output_token_s", "loaded_time_to_first_token_s",
    "requests_per_s", "output_tokens_per_s", "hardware_flops", "decode_stage_s", "decode_ends_s",
)  # fmt: skip


def told(**axes: Any) -> dict[str, np.ndarray]:
    plan = sweeper.plan({"study": "drafts", "axes": {**AXES, **(FREE if "speculated_tokens" in axes else {}), **axes}})
    return plan.points(range(plan.point_count), COLUMNS)


def of_requests() -> np.ndarray:
    """Seconds of a token [requests, without and with three drafts]."""
    axes = {name: value for name, value in AXES.items() if name not in ("batch_size", "microbatch")}
    plan = sweeper.plan({"study": "drafts", "axes": {
        **axes, "sequence_length": 64, "output_length": 64,
        "requests": {"columns": ["batch_size", "microbatch"], "rows": [[1, 1], [64, 64], [512, 512]]},
        "speculated_tokens": [0, 3], **FREE,
    }})  # fmt: skip
    return plan.points(range(6), ("time_per_output_token_s",))["time_per_output_token_s"].reshape(3, 2)


def test_without_drafts_nothing_is_accepted_and_nothing_changes() -> None:
    plain = told()
    none = told(speculated_tokens=[0, 2], acceptance_rate=0.3, draft_layers=2, draft_time="1 ms")
    for name in COLUMNS:
        assert plain[name] == none[name][0], name
    assert plain["tokens_per_round"] == 1.0 and plain["generating_passes"] == 256.0
    assert plain["round_time_s"] == plain["time_per_output_token_s"] and plain["draft_pass_s"] == 0.0


@pytest.mark.parametrize(("law", "tokens"), [("geometric", 1.0 + 0.6 + 0.36 + 0.216), ("linear", 1.0 + 3 * 0.6)])
def test_tokens_of_a_round_follow_the_law(law: str, tokens: float) -> None:
    plan = sweeper.plan({
        "study": "drafts", "assumptions": {"acceptance_law": law},
        "axes": {**AXES, **FREE, "speculated_tokens": 3, "acceptance_rate": 0.6},
    })  # fmt: skip
    found = plan.points([0], COLUMNS)
    assert found["tokens_per_round"] == pytest.approx(tokens)
    assert found["generating_passes"] == pytest.approx(256.0 / tokens)
    assert found["time_per_output_token_s"] == pytest.approx(found["round_time_s"] / tokens)


def test_verifying_reads_weights_once_and_caches_once() -> None:
    """A few requests are bound by memory: five tokens of each take hardly longer than one, if drafts cost nothing."""
    found = told(speculated_tokens=[0, 4], acceptance_rate=1.0)
    one, five = found["round_time_s"]
    assert one < five < 1.1 * one
    assert found["time_per_output_token_s"][1] == pytest.approx(five / 5.0)
    assert found["time_to_first_token_s"][0] == found["time_to_first_token_s"][1]


def test_every_drafted_token_is_computed_whether_it_counts_or_not() -> None:
    """Attention aside, which grows a little with the cache, operations are those of the tokens that pass."""
    found = told(speculated_tokens=[0, 3], acceptance_rate=0.0)
    prompt = told(output_length=1)["hardware_flops"][0]
    generated = found["hardware_flops"] - prompt
    assert generated[1] == pytest.approx(4.0 * generated[0], rel=1e-6)


def test_drafting_takes_the_time_of_its_passes() -> None:
    found = told(speculated_tokens=4, draft_time=["0 ms", "2 ms"])
    assert np.diff(found["round_time_s"]) == pytest.approx(4 * 0.002)
    layers = told(speculated_tokens=4, draft_layers=[0, 1, 3])
    each = layers["decode_stage_s"][0] / 32.0
    drafts = 4.0 * (np.array([1.0, 3.0]) * each + layers["decode_ends_s"][0])
    np.testing.assert_allclose(layers["draft_pass_s"], [0.0, *drafts])
    np.testing.assert_allclose(np.diff(layers["round_time_s"], prepend=layers["round_time_s"][0]), [
        0.0, drafts[0], drafts[1] - drafts[0]
    ])  # fmt: skip


def test_under_load_tokens_come_as_much_sooner_as_passes_are_fewer() -> None:
    """Passes without prompts between them: few requests of long answers."""
    found = told(speculated_tokens=[0, 4], acceptance_rate=[0.8], output_length=4096, sequence_length=16)
    ratio = found["time_per_output_token_s"] / found["loaded_time_per_output_token_s"]
    np.testing.assert_allclose(ratio, 1.0, rtol=0.01)
    np.testing.assert_allclose(found["output_tokens_per_s"], found["requests_per_s"] * 4096)
    assert found["requests_per_s"][1] > 2.0 * found["requests_per_s"][0]


def test_more_requests_gain_less() -> None:
    found = of_requests()
    gains = found[:, 0] / found[:, 1]
    assert gains[0] > gains[1] > gains[2]


def test_drafts_of_a_server_are_a_sequence() -> None:
    with pytest.raises(SpecError, match="nothing reads it for workload llama3_8b"):
        told(tree_width=2)
