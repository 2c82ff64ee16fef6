"""Prompts of a batch in several passes, experts in formats of their own, and what the host adds, in studies."""

from typing import Any

import pytest

import sweeper
from sweeper.errors import SpecError

AXES: dict[str, Any] = {
    "workload": "llama3_70b", "task": "inference", "chip": "h100_sxm5_80gb", "memory": "hbm3_h100", "link": "nvlink4",
    "topology": "switch", "chips": 8, "dim_x": 8, "tensor_parallel": 8, "batch_size": 64, "microbatch": 64,
    "sequence_length": 8192, "output_length": 512, "weight_format": "fp8", "compute_format": "fp8",
    "cache_format": "fp8",
}  # fmt: skip
EXPERTS = {**AXES, "workload": "gpt_oss_120b", "weight_format": "bf16", "compute_format": "bf16"}


def told(names: str, **changes: Any) -> list[float]:
    columns = names.split()
    plan = sweeper.plan({"study": "batches", "axes": {**AXES, **changes}})
    found = plan.points([0], columns)
    return [float(found[name][0]) for name in columns]


def test_prompts_in_passes_need_memory_for_one_pass() -> None:
    whole, parts = (told("working_B weights_B memory_need_B", max_batched_tokens=n) for n in (0, 8192))
    assert parts[0] == pytest.approx(whole[0] / 64.0) and parts[1] == whole[1]
    assert whole[2] - parts[2] == pytest.approx(whole[0] - parts[0])


def test_weights_that_live_elsewhere_come_in_every_pass() -> None:
    names = "time_per_output_token_s prefill_s weights_B"
    here, away = (told(names, weight_offload=share) for share in (0.0, 1.0))
    layers_s = 0.95 * away[2] / 32e9  # without embedding and head
    assert here[0] < 0.5 * layers_s <= away[0] and away[1] >= max(layers_s, here[1])
    quick = told(names, weight_offload=1.0, offload_bandwidth="900 GB/s")
    assert here[0] <= quick[0] < away[0]


@pytest.mark.parametrize("dropout", [0.0, 1.0])
def test_servers_drop_nothing(dropout: float) -> None:
    names = "prefill_s time_per_output_token_s"
    model = {"workload": "gpt3_175b", "sequence_length": 1024}
    assert told(names, **model, **{"workload.dropout": dropout}) == told(names, **model)


def test_passes_of_prompts_take_what_the_parts_take() -> None:
    one = told("prefill_s", batch_size=1, microbatch=1)[0]
    assert told("prefill_s", max_batched_tokens=8192)[0] == pytest.approx(64.0 * one, rel=1e-9)
    # A pass of half a prompt attends to half of the pairs of a prompt on average: no pair is lost or counted twice.
    halves, whole = (told("prefill_s hardware_flops", max_batched_tokens=n) for n in (4096, 8192))
    assert halves[1] == pytest.approx(whole[1]) and whole[0] < halves[0] < 1.2 * whole[0]


def test_a_token_waits_for_a_pass_of_prompts() -> None:
    names = "prompt_gap_s prefill_s"
    one = {"batch_size": 1, "microbatch": 1}
    gap, prefill = told(names, **one)
    assert gap == pytest.approx(prefill), "for one prompt"
    gap, prefill = told(names, **one, max_batched_tokens=2048)
    assert gap == pytest.approx(prefill / 4.0, rel=1e-3), "or for what of one passes at once"
    few = {"output_length": 16384, "max_batched_tokens": 8192}
    (gap, between), (same, _) = (
        told("prompt_gap_s loaded_time_per_output_token_s", **few, **split)
        for split in ({}, {"tensor_parallel": 4, "data_parallel": 2, "microbatch": 32})
    )
    assert gap > 3.0 * between and same > gap, "of those of its replica"


def test_requests_meet_fewer_prompts_than_start_together() -> None:
    """All prompts at once take their time one after the other; by themselves they rarely meet."""
    names = "time_to_first_token_s loaded_time_to_first_token_s loaded_time_to_first_token_p90_s steady_load"
    alone = told(names, batch_size=1, microbatch=1)
    assert alone[0] == pytest.approx(alone[1]) and alone[1] == pytest.approx(alone[2])
    lengths = {"sequence_length": 1024, "max_batched_tokens": 8192, "output_length": 2048}
    together, apart, late, steady = told(names, **lengths)
    assert together > 10.0 * apart and apart < late < 2.0 * apart and steady == 0.0, "more are in flight now and then"
    assert told(names, **lengths, batch_size=16, microbatch=16)[3] == 1.0
    assert told(names, **{**lengths, "output_length": 8})[3] == 0.0, "prompts fill the server"


def test_what_is_cached_of_a_prompt_does_not_pass() -> None:
    """Half of 2,048 tokens: 1,024 pass, each of which reads what all before it left."""
    names = "prefill_s model_flops_per_token tokens_per_iteration cache_memory_B weights_B time_per_output_token_s"
    lengths = {"sequence_length": 2048, "batch_size": 8, "microbatch": 8, "max_batched_tokens": 65536}
    whole, half = told(names, **lengths), told(names, **lengths, cached_share=0.5)
    short = told(names, **{**lengths, "sequence_length": 1024})
    assert short[0] < half[0] < 0.75 * whole[0]
    assert half[2] - short[2] == 0.0 and half[3:] == pytest.approx(whole[3:])
    # 2 operations for each of 2 products, heads and layers, with 1,024 tokens more on average.
    attention = told("model_flops_per_token", **{**lengths, "sequence_length": 4096})[0] - whole[1]
    assert half[1] - short[1] == pytest.approx(attention, rel=0.02), "of a mean context of 1,024 more"


def test_more_that_is_cached_serves_more_requests() -> None:
    names = "requests_per_s loaded_time_to_first_token_s loaded_time_per_output_token_s"
    lengths = {"sequence_length": 8192, "max_batched_tokens": 8192}
    found = [told(names, **lengths, cached_share=share) for share in (0.0, 0.5, 0.9)]
    rates, firsts, betweens = zip(*found, strict=True)
    assert rates[0] < rates[1] < rates[2] and firsts[0] > firsts[1] > firsts[2]
    assert betweens[0] > betweens[1] > betweens[2]


def test_a_pipeline_takes_prompts_one_stage_after_the_other() -> None:
    names = "loaded_time_to_first_token_s loaded_time_per_output_token_s requests_per_s prefill_s"
    stages = {"tensor_parallel": 2, "pipeline_parallel": 4, "microbatch": 1, "batch_size": 1}
    first, between, rate, prefill = told(names, **stages)
    assert prefill < first < 1.05 * prefill
    assert rate == pytest.approx(1.0 / (first + 511.0 * between), rel=1e-6)
    busy = told(names, **{**stages, "batch_size": 32, "microbatch": 8})
    assert busy[2] > 4.0 * rate and busy[0] > first


def test_the_host_adds_to_every_pass_and_request() -> None:
    names = "prefill_s time_to_first_token_s time_per_output_token_s request_time_s"
    plain = told(names, max_batched_tokens=65536)
    slow = told(
        names, max_batched_tokens=65536, **{"calibration.pass_host": "1 ms", "calibration.request_host": "50 ms"}
    )
    added = [after - before for before, after in zip(plain, slow, strict=True)]
    assert added == pytest.approx([0.008, 0.058, 0.001, 0.058 + 511 * 0.001]), "eight passes of prompts"


def test_experts_have_weights_of_their_own() -> None:
    (wide, parameters), (narrow, _) = (
        told("weights_B expert_parameters_per_chip", **{**EXPERTS, "expert_format": name})
        for name in ("as_others", "mxfp4")
    )
    assert wide - narrow == pytest.approx(parameters * (2.0 - 0.5 - 1.0 / 32.0))
    assert told("time_per_output_token_s", **{**EXPERTS, "expert_format": "mxfp4"}) < told(
        "time_per_output_token_s", **EXPERTS
    )


def test_experts_compute_in_a_format_of_their_own() -> None:
    blackwell = {**EXPERTS, "chip": "b200_sxm6_180gb", "memory": "hbm3e_b200", "link": "nvlink5"}
    names = "prefill_s energy_J infeasible_reason"
    wide, narrow = (told(names, **{**blackwell, "expert_compute_format": name}) for name in ("as_others", "mxfp8"))
    assert narrow[0] < wide[0] and narrow[1] < wide[1]
    assert wide[2] == narrow[2] == 0.0
    assert told("infeasible_reason", **{**EXPERTS, "expert_compute_format": "nvfp4"}) != [0.0], "H100 has none"


def test_grouped_products_may_be_slower_than_others() -> None:
    names = "prefill_s time_per_output_token_s"
    fast, slow = (told(names, **{**EXPERTS, "calibration.expert_efficiency": share}) for share in (1.0, 0.25))
    assert slow[0] > 1.3 * fast[0]
    with pytest.raises(SpecError, match="llama3_70b has no routed experts"):
        told(names, **{"calibration.expert_efficiency": 0.25})


@pytest.mark.parametrize("words", [{"max_batched_tokens": 4096}, {"expert_format": "mxfp4"}], ids=str)
@pytest.mark.parametrize("task", [{}, {"task": "training"}], ids=str)
def test_what_only_servers_have_is_refused_in_training(words: dict[str, Any], task: dict[str, Any]) -> None:
    axes = {name: value for name, value in EXPERTS.items() if name not in ("task", "output_length", "cache_format")}
    with pytest.raises(
        SpecError, match=f"nothing reads {next(iter(words))} in training; leave it out, or say task: inference"
    ):
        sweeper.plan({"study": "trained", "axes": {**axes, **task, **words}})
