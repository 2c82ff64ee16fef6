"""Measured servers under load: what rows become, by hand, and how they are answered."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweeper.evidence.calibration import calibrations
from sweeper.evidence.loads import Servers, in_flight, lengths_of
from sweeper.evidence.measured import measured_point, rows_about
from sweeper.evidence.measured_rows import MeasuredPoint, Refusal, Unmodelled
from sweeper.evidence.predictions import LoadPredictor, evaluate
from sweeper.evidence.registry import registry
from sweeper.evidence.scoreboard import score, score_files
from sweeper.evidence.tables import scores
from sweeper.kernels.serving.drafts import NO_DRAFTS
from sweeper.library.library import builtin_specs
from sweeper.serving.apart import Part, apart_under_load
from sweeper.serving.load import Admission, under_load
from sweeper.serving.passes import DRAFT, LINKS, NUMBERS, READING, TOLD, asked, replica_from
from sweeper.serving.traffic import Traffic, drawn

ROW = {
    "source": "inferencex", "device": "h200_sxm", "model": "meta-llama/Llama-3.1-70B", "backend": "trtllm",
    "backend_version": "", "quantisation": "fp8", "kv_assumed": "fp8", "mode": "agg", "tp": "4", "pp": "1",
    "attention_dp": "1", "moe_tp": "4", "moe_ep": "1", "gpus": "4", "input_length": "1024", "output_length": "1024",
    "concurrency": "16", "ttft_ms": "130", "tpot_ms": "10", "suspect": "",
}  # fmt: skip
EXPERTS = {
    **ROW, "device": "b200_sxm", "model": "openai/gpt-oss-120b", "quantisation": "fp4", "tp": "1", "attention_dp": "4",
    "moe_tp": "2", "moe_ep": "2",
}  # fmt: skip
READINGS = ("served_between", "served_first", "served_rate")


APART = {
    **ROW, "device": "gb200", "model": "deepseek-ai/DeepSeek-R1", "quantisation": "fp4", "mode": "disagg", "tp": "",
    "attention_dp": "", "moe_tp": "", "moe_ep": "", "concurrency": "64", "prefill_num_workers": "2",
    "prefill_tp_size": "1", "prefill_pp_size": "1", "prefill_attention_dp_size": "4", "prefill_moe_tp_size": "1",
    "prefill_moe_ep_size": "4", "decode_num_workers": "4", "decode_tp_size": "8", "decode_pp_size": "1",
    "decode_attention_dp_size": "1", "decode_moe_tp_size": "1", "decode_moe_ep_size": "8",
}  # fmt: skip


def point(row: dict[str, str], layout: str) -> MeasuredPoint:
    found = measured_point(row, layout, registry())
    assert isinstance(found, MeasuredPoint), found
    return found


def test_a_row_is_read_three_times() -> None:
    between, first, rate = (point(ROW, layout) for layout in READINGS)
    assert (between.measured, first.measured) == (0.010, 0.130)
    # Little's law: 16 in flight, each of 921.6 tokens on average, on four chips
    assert rate.measured == pytest.approx(16 * 921.6 / (0.130 + 920.6 * 0.010) / 4)
    assert [found.group.partition(",")[0] for found in (between, first, rate)] == ["TPOT", "TTFT", "tokens/s/GPU"]
    assert first.group == "TTFT, Llama-3.1-70B on h200_sxm by trtllm"
    columns = between.columns
    assert columns["workload"] == "llama3_70b" and columns["calibration"] == "h200_trtllm"
    assert (columns["tensor_parallel"], columns["data_parallel"], columns["chips"]) == (4.0, 1.0, 4.0)
    assert (columns["weight_format"], columns["compute_format"], columns["cache_format"]) == ("fp8", "fp8", "fp8")
    assert between.load == first.load == rate.load
    assert between.load is not None and between.load.traffic == Traffic(160, 1024.0, 1024.0, 0.2, clients=16)
    assert between.load.admission == Admission(2048, 8192, 1)


def test_experts_have_formats_and_groups_of_their_own() -> None:
    found = point(EXPERTS, "served_between")
    columns = found.columns
    assert (columns["weight_format"], columns["expert_format"], columns["expert_compute_format"]) == (
        "bf16", "mxfp4", "mxfp8",
    )  # fmt: skip
    assert (columns["expert_parallel"], columns["expert_tensor_parallel"], columns["data_parallel"]) == (2, 2, 4)
    assert found.load is not None and found.load.traffic.clients == 4, "of one of four replicas"
    hopper = point({**EXPERTS, "device": "h100_sxm", "backend": "vllm"}, "served_between").columns
    assert hopper["expert_compute_format"] == "bf16" and hopper["calibration"] == "h100_vllm"


@pytest.mark.parametrize(
    ("changes", "kind", "why"),
    [
        ({"mode": "half"}, Refusal.METHOD, "a server that is half"),
        ({"suspect": "mtp"}, Refusal.EXCLUDED, "suspects it: mtp"),
        ({"pp": "2"}, Refusal.LOAD, "pipeline"),
        ({"model": "who/Knows-1B"}, Refusal.WORD, "unknown model"),
        ({"quantisation": "int3"}, Refusal.WORD, "int3"),
        ({"tp": "1", "attention_dp": "3", "moe_tp": "3"}, Refusal.IMPOSSIBLE, "16 requests in flight on 3 replicas"),
        ({"prefix": "512"}, Refusal.METHOD, "a cache has the beginning"),
        ({"moe_tp": "8"}, Refusal.IMPOSSIBLE, "experts on 8 chips, attention on 4"),
        ({"concurrency": "30000"}, Refusal.IMPOSSIBLE, "30000 requests in flight"),
        ({"ttft_ms": ""}, Refusal.INCOMPLETE, "ttft_ms is not given"),
        ({"device": "abacus"}, Refusal.ACCELERATOR, "abacus"),
    ],
)
def test_what_is_refused(changes: dict[str, str], kind: Refusal, why: str) -> None:
    found = measured_point({**ROW, **changes}, "served_first", registry())
    assert isinstance(found, Unmodelled) and found.kind is kind and why in str(found)


def told(point: MeasuredPoint) -> dict[str, Any]:
    """What the model says of each row that is asked for a server, one by one, without what evaluates them together."""
    found: dict[str, Any] = {}
    rows = [dict(zip(NUMBERS, row)) for row in asked(*lengths_of(point), int(float(point.columns["data_parallel"])))]
    for name in set(TOLD) - {READING, DRAFT, *LINKS}:
        points = [MeasuredPoint("", {**point.columns, **row}, name, 1.0) for row in rows]
        found[name] = np.array([value for value, _ in evaluate(points, {})])
    return {
        **found, READING: np.zeros(len(rows)), DRAFT: np.zeros(len(rows)),
        **dict.fromkeys(LINKS, np.full(len(rows), 5e10)),
    }  # fmt: skip


def test_the_answer_is_that_of_the_simulated_server() -> None:
    between, first, rate = (point(ROW, layout) for layout in READINGS)
    server = replica_from(told(between), *lengths_of(between), 1, 4, NO_DRAFTS)
    load = under_load(server, drawn(Traffic(160, 1024.0, 1024.0, 0.2, clients=16)), 16, Admission(2048, 8192, 1.0))
    answers = [value for value, fits in evaluate([between, first, rate], {}) if fits]
    want = [load.time_per_output_token_s.mean, load.time_to_first_token_s.mean, load.output_tokens_per_s_per_chip]
    np.testing.assert_allclose(answers, want, rtol=1e-12)


def test_prompts_and_tokens_may_have_servers_of_their_own() -> None:
    between, first = (point(APART, layout) for layout in ("apart_between", "apart_first"))
    assert between.group == "apart TPOT, DeepSeek-R1 on gb200 by trtllm" and between.load == first.load
    tokens, load = between.columns, first.load
    assert load is not None and load.apart is not None
    prompts = dict(load.apart.columns)
    assert (tokens["tensor_parallel"], tokens["data_parallel"], tokens["expert_parallel"]) == (8.0, 1.0, 8.0)
    assert (prompts["tensor_parallel"], prompts["data_parallel"], prompts["expert_parallel"]) == (1.0, 4.0, 4.0)
    assert (load.apart.prefill_servers, load.apart.decode_servers) == (2, 4)
    assert load.traffic.clients == 64, "of all servers together"
    assert in_flight(between).columns["microbatch"] == 16.0, "of one of four servers"
    assert tokens["dim_x"] == 8.0 and prompts["dim_x"] == 4.0


@pytest.mark.parametrize(
    ("changes", "kind", "why"),
    [
        ({"decode_num_workers": ""}, Refusal.INCOMPLETE, "decode_num_workers is not given"),
        ({"prefill_pp_size": "2"}, Refusal.LOAD, "pipeline"),
        ({"decode_moe_ep_size": "4"}, Refusal.IMPOSSIBLE, "experts on 4 chips, attention on 8"),
    ],
)
def test_what_is_refused_of_servers_apart(changes: dict[str, str], kind: Refusal, why: str) -> None:
    found = measured_point({**APART, **changes}, "apart_first", registry())
    assert isinstance(found, Unmodelled) and found.kind is kind and why in str(found)


def test_a_row_is_read_as_what_it_is() -> None:
    for row, layout, other in ((ROW, "served_first", "apart_first"), (APART, "apart_between", "served_rate")):
        assert rows_about([row], layout) == [row] and rows_about([row], other) == []


def test_the_answer_is_that_of_the_simulated_pools() -> None:
    between, first = (point(APART, layout) for layout in ("apart_between", "apart_first"))
    assert first.load is not None and first.load.apart is not None
    admission = first.load.admission
    prompts = replace(first, columns=dict(first.load.apart.columns))
    before = Part(replica_from(told(prompts), *lengths_of(first), 4, 4, NO_DRAFTS), 2, admission)
    after = Part(replica_from(told(first), *lengths_of(first), 1, 8, NO_DRAFTS), 4, admission)
    # told() says another link: the caches move so fast that it does not matter
    load = apart_under_load(before, after, drawn(first.load.traffic), 64)
    answers = [value for value, fits in evaluate([between, first], {}) if fits]
    np.testing.assert_allclose(answers, [load.time_per_output_token_s.mean, load.time_to_first_token_s.mean], rtol=0.02)
    assert len(Servers([between, first]).rows) == 2 * len(asked(*lengths_of(first), 1)), "each side is asked once"


def test_a_run_is_simulated_once_for_all_readings() -> None:
    points = [point(ROW, layout) for layout in READINGS] + [point({**ROW, "concurrency": "32"}, "served_first")]
    servers = Servers(points)
    assert len(set(servers.keys)) == 1 and len(servers.rows) == len(asked(*lengths_of(points[0]), 1))
    longer = point({**ROW, "input_length": "8192"}, "served_first")
    both = len(servers.rows) + len(asked(*lengths_of(longer), 1))
    assert len(Servers([*points, longer]).rows) == both, "passes depend on the lengths"


def test_constants_of_candidates_are_those_of_the_library() -> None:
    points = [point(ROW, "served_first"), point(ROW, "served_between")]
    constants = {"pass_host": 0, "request_host": 1}
    values = np.array([[1e-4, 0.02], [2e-3, 0.3]])
    found = LoadPredictor(points, constants)(values)
    for candidate, (pass_host, request_host) in zip(found, values, strict=True):
        replaced = {"h200_trtllm": {"pass_host": pass_host, "request_host": request_host}}
        np.testing.assert_allclose(candidate, [value for value, _ in evaluate(points, replaced)], rtol=1e-12)
    assert (found[1] > found[0]).all()
    assert found[1, 0] - found[0, 0] > 0.27, "a request's own time counts in full"


def test_a_table_is_scored_by_all_that_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(",".join(ROW) + "\n" + ",".join(ROW.values()) + "\n")
    board = score_files(path)
    sets = board["sets"]
    assert [*board["parts"]] == [f"{what}, Llama-3.1-70B on h200_sxm by trtllm" for what in
                                 ("TPOT", "TTFT", "tokens/s/GPU")]  # fmt: skip
    assert "tokens/s/GPU, Llama-3.1-70B on h200_sxm by trtllm" in scores(board)
    assert {name: found["rows"] for name, found in sets.items()} == {
        "serving TPOT": 1, "serving TTFT": 1, "serving throughput": 1,
    }  # fmt: skip


QUEUED = {
    "group": "trtllm-perf-v0.20", "model": "Llama-3.1-8B-Instruct", "arch": "dense", "hidden": "4096", "n_layers": "32",
    "n_heads": "32", "n_kv_heads": "8", "head_dim": "128", "ffn_hidden": "14336", "ffn_gated": "1", "vocab": "128256",
    "accelerator": "H200-SXM", "precision": "fp8", "kv_precision": "fp8", "tp": "1", "n_accel": "1", "input_len": "100",
    "output_len": "100", "engine": "TensorRT-LLM v0.20", "mode": "offline-max-throughput (in-flight batching)",
    "notes": "total; 3000 requests queued at once", "output_tokens_per_s": "20000",
}  # fmt: skip


def test_requests_that_are_all_there_at_once() -> None:
    found = point(QUEUED, "inference")
    assert found.load is not None and found.load.traffic.requests == 3000 and found.load.traffic.clients == 0
    assert (drawn(found.load.traffic).arrival_s == 0.0).all()
    assert found.answer == "output_tokens_per_s" and found.columns["calibration"] == "h200_trtllm_bench"
    ((value, fits),) = evaluate([found], {})
    ((more, _),) = evaluate([point({**QUEUED, "notes": "30000 requests queued at once"}, "inference")], {})
    assert fits and 1e3 < value < more, "the more there are, the less the last ones count that leave slots empty"
    unknown = measured_point({**QUEUED, "notes": ""}, "inference", registry())
    assert isinstance(unknown, Unmodelled) and unknown.kind is Refusal.INCOMPLETE


def test_all_in_flight_at_once() -> None:
    columns = in_flight(point(EXPERTS, "served_rate")).columns
    numbers = [columns[name] for name in ("batch_size", "microbatch", "sequence_length", "output_length")]
    assert numbers == pytest.approx([16.0, 4.0, 921.6, 921.6])


def test_rows_have_the_roofline_beside_and_tell_what_was_fitted() -> None:
    (between,) = score([ROW], "served_between", table="serving_e2e.csv")
    (rate,) = score([ROW], "served_rate", table="serving_e2e.csv")
    assert between.ideal is not None and rate.ideal is not None
    assert 0.0 < between.ideal.value < between.predicted and rate.ideal.value > rate.predicted
    assert between.fitted_in == ("h200_trtllm",) and rate.fitted_in == ()
    assert math.isfinite(between.error) and between.fits


def test_calibrations_of_servers_leave_out_models() -> None:
    served = [found for found in calibrations().values() if "serving_e2e.csv" in found.files]
    assert len(served) == 7
    assert all(found.source == "model" and len(found.fit) <= 4 for found in served)
    assert builtin_specs().joinpath("measurements", "serving_e2e.csv").exists()
