"""`sweeper serve`: pass times from the models of a study, traffic, and what a user is told."""

import json
import math
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import sweeper
from sweeper.cli import main
from sweeper.errors import UsageFault
from sweeper.kernels.serving.load import attended_s, pass_s
from sweeper.planning.plan import Plan
from sweeper.serving.apart import Part, apart_under_load, moving_of
from sweeper.serving.load import Admission, Load, text, under_load
from sweeper.serving.passes import TIMES, WHY, Replica, assert_runs, budget_of, lengths_of, replica_of
from sweeper.serving.traces import read_trace
from sweeper.serving.traffic import Traffic, drawn

AXES: dict[str, Any] = {
    "workload": "llama3_8b",
    "task": "inference",
    "chip": "h100_sxm5_80gb",
    "memory": "hbm3_h100",
    "link": "nvlink4",
    "topology": "switch",
    "chips": 8,
    "dim_x": 8,
    "tensor_parallel": 8,
    "sequence_length": 1024,
    "output_length": 128,
    "requests": {"columns": ["batch_size", "microbatch"], "rows": [[1, 1], [16, 16], [64, 64]]},
}


def plan_of(**axes: Any) -> Plan:
    named = {name: value for name, value in {**AXES, **axes}.items() if value is not None}
    return sweeper.plan({"study": "served", "axes": named})


@cache
def replica() -> Replica:
    return replica_of(plan_of(), 0, 1024, 128)


@pytest.mark.parametrize(("point", "batch"), [(0, 1), (1, 16), (2, 64)])
def test_a_full_server_delivers_what_the_closed_form_says(point: int, batch: int) -> None:
    """Lengths vary, so that requests do not end together, and prompts come one by one."""
    names = ["requests_per_s", "loaded_time_per_output_token_s", "loaded_time_to_first_token_s"]
    told = plan_of(max_batched_tokens=8192).points([point], names)
    spread = 0.5
    longest = [length / (1.0 - 0.5 * spread) for length in (1024, 128)]
    load = under_load(replica(), drawn(Traffic(3_000, *longest, spread, clients=batch)), batch, Admission(batch, 8192))
    assert load.requests_per_s == pytest.approx(told["requests_per_s"][0], rel=0.03)
    assert load.time_per_output_token_s.mean == pytest.approx(told["loaded_time_per_output_token_s"][0], rel=0.03)
    open_load = under_load(replica(), drawn(Traffic(3_000, 1024, 128, rate=told["requests_per_s"][0])))
    tolerance = {1: 0.2, 16: 0.05, 64: 0.1}[
        batch
    ]  # one that comes by itself meets others, and 64 are a queue now and then
    assert open_load.time_to_first_token_s.mean == pytest.approx(told["loaded_time_to_first_token_s"][0], rel=tolerance)


@pytest.mark.parametrize("lengths", [(128, 128), (512, 128), (1024, 256)], ids=str)
def test_what_is_steady_is_what_requests_by_chance_see(lengths: tuple[int, int]) -> None:
    """The closed form reads a study's passes, the simulation asks for many more: where the first says that it is as
    good, it is, for a model on one chip, whose head is a large part of it."""
    found = {"columns": ["batch_size", "microbatch"], "rows": [[each, each] for each in (8, 16, 64, 256)]}
    plan = plan_of(chips=1, dim_x=1, tensor_parallel=1, sequence_length=lengths[0], output_length=lengths[1],
                   max_batched_tokens=8192, requests=found)  # fmt: skip
    names = ["requests_per_s", "loaded_time_to_first_token_s", "loaded_time_per_output_token_s", "steady_load"]
    told = plan.points([0, 1, 2, 3], names)
    assert told["steady_load"][0] == 1.0 and told["steady_load"][3] == 0.0
    server = replica_of(plan, 0, *lengths)
    for point, requests in ((point, (8, 16, 64)[point]) for point in range(3) if told["steady_load"][point]):
        rate, first_s, between_s = (told[name][point] for name in names[:3])
        closed = drawn(Traffic(4_000, lengths[0] / 0.75, lengths[1] / 0.75, 0.5, clients=requests))
        load = under_load(server, closed, requests, Admission(requests, 8192))
        assert load.requests_per_s == pytest.approx(rate, rel=0.03)
        assert load.time_per_output_token_s.mean == pytest.approx(between_s, rel=0.03)
        open_load = under_load(server, drawn(Traffic(20_000, *lengths, rate=rate)), 0, Admission(4_096, 8192))
        assert open_load.time_to_first_token_s.mean == pytest.approx(first_s, rel=0.05)


@pytest.mark.parametrize("clients", [16, 64])
def test_the_rate_of_a_closed_loop_hardly_hinges_on_how_long_it_is_watched(clients: int) -> None:
    """What is half done when its last request is sent counts as half; what comes later is of fewer clients."""

    def load(of_each: int, seed: int) -> Load:
        traffic = Traffic(of_each * clients, 256, 512, 0.5, clients=clients, seed=seed)
        return under_load(replica(), drawn(traffic), clients)

    long = load(100, 0)
    for of_each, tolerance in ((2, 0.06), (10, 0.02)):
        loads = [load(of_each, seed) for seed in range(8)]
        for rate in ("requests_per_s", "output_tokens_per_s"):
            found = np.mean([getattr(short, rate) for short in loads])
            assert found == pytest.approx(getattr(long, rate), rel=tolerance)


@pytest.mark.parametrize("law", ["geometric", "linear"])
def test_servers_that_draft_deliver_what_the_closed_form_says(law: str) -> None:
    drafting = {"speculated_tokens": 2, "acceptance_rate": 0.7, "acceptance_law": law, "draft_layers": 1}
    plan = plan_of(max_batched_tokens=8192, **drafting)
    told = plan.points([2], ["requests_per_s", "loaded_time_per_output_token_s"])
    longest = [length / 0.75 for length in (1024, 128)]
    load = under_load(
        replica_of(plan, 2, 1024, 128), drawn(Traffic(3_000, *longest, 0.5, clients=64)), 64, Admission(64, 8192)
    )
    assert load.requests_per_s == pytest.approx(told["requests_per_s"][0], rel=0.03)
    assert load.time_per_output_token_s.mean == pytest.approx(told["loaded_time_per_output_token_s"][0], rel=0.03)
    plain = under_load(replica(), drawn(Traffic(300, *longest, 0.5, clients=1)), 1)
    alone = under_load(replica_of(plan, 0, 1024, 128), drawn(Traffic(300, *longest, 0.5, clients=1)), 1)
    assert alone.time_per_output_token_s.mean < 0.7 * plain.time_per_output_token_s.mean


def test_passes_have_room_for_all_that_is_verified() -> None:
    """In boxes of which one is silent about drafts, too."""
    boxes = [
        {"axes": each}
        for each in ({"data_parallel": 1}, {"data_parallel": 1, "speculated_tokens": 3, "draft_layers": 1})
    ]
    plan = sweeper.plan({"study": "served", "axes": AXES, "boxes": boxes})
    asked = drawn(Traffic(10, 1024, 128, clients=1))
    under_load(replica_of(plan, 0, 1024, 128), asked, 1, Admission(256, 512))
    server = replica_of(plan, 3, 1024, 128)
    assert server.drafts.tokens == 3
    with pytest.raises(UsageFault, match=r"no room for 4 tokens, all but one of them drafts, .* at most --slots 128"):
        under_load(server, asked, 1, Admission(256, 512))


def test_an_idle_server_answers_as_its_models_say() -> None:
    told = plan_of().points([0], ["time_to_first_token_s", "time_per_output_token_s", "request_time_s"])
    load = under_load(replica(), drawn(Traffic(100, 1024, 128, rate=0.01)), 0)
    assert load.time_to_first_token_s.mean == pytest.approx(told["time_to_first_token_s"][0], rel=0.02)
    assert load.time_per_output_token_s.mean == pytest.approx(told["time_per_output_token_s"][0], rel=0.02)
    assert load.request_time_s.p99 == pytest.approx(told["request_time_s"][0], rel=0.02)


def test_quantiles_of_few_requests_are_not_known() -> None:
    seen = [under_load(replica(), drawn(Traffic(count, 64, 4, rate=1.0))).request_time_s for count in (9, 10, 99, 100)]
    assert [math.isnan(each.p90) for each in seen] == [True, False, False, False]
    assert [math.isnan(each.p99) for each in seen] == [True, True, True, False]


@pytest.mark.parametrize("length", [100, 8_192, 65_536])
def test_a_prompt_of_any_length_takes_what_its_models_say(length: int) -> None:
    told = plan_of(sequence_length=length).points([0], ["time_to_first_token_s"])["time_to_first_token_s"][0]
    alone = drawn(Traffic(3, length, 4, clients=1))
    load = under_load(replica_of(plan_of(), 0, length, 4), alone, 1, Admission(1, length))
    assert load.time_to_first_token_s.mean == pytest.approx(told, rel=0.05)


@pytest.mark.parametrize("workload", ["llama3_8b", "llama3_70b"])
@pytest.mark.parametrize(("length", "share"), [(2048, 0.5), (2048, 0.98), (32768, 0.9), (32768, 0.99)])
def test_a_prompt_that_goes_on_from_a_cache_takes_what_its_models_say(workload: str, length: int, share: float) -> None:
    """A few tokens that attend to many take their reading, or tiles half full, and no multiple of few attended to.
    Between two numbers of tokens that are asked for, tiles of these few may begin to be several."""
    one = {"batch_size": 1, "microbatch": 1, "output_length": 2, "requests": None}
    plan = plan_of(workload=workload, sequence_length=length, cached_share=[0.0, share], **one)
    told_s = plan.points([1], ["prefill_s"])["prefill_s"][0]
    timing, new = replica_of(plan, 0, length, 2).timing, (1.0 - share) * length
    took_s = pass_s(timing, 0.0, 0.0, new, new * (length - 0.5 * (new - 1.0)))
    assert took_s == pytest.approx(told_s, rel=0.2 if share == 0.98 else 0.06)


def test_parts_of_prompts_that_pass_whole_in_the_model_take_their_share_of_it() -> None:
    """An encoder has no cache to go on from: its chunks take what their tokens and pairs are of the whole."""
    plan = plan_of(workload="t5_3b", chips=1, dim_x=1, tensor_parallel=1, sequence_length=4096)
    timing = replica_of(plan, 0, 4096, 128).timing
    whole_s, part_s = (attended_s(timing, tokens, tokens * 4096.0) for tokens in (4096.0, 64.0))
    assert 0.0 < part_s == pytest.approx(whole_s / 64.0)


def test_loads_of_one_token_are_told_without_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load = under_load(replica(), drawn(Traffic(400, 2048, 1, clients=4)), 4)
    assert load.requests_per_s == pytest.approx(load.output_tokens_per_s)


def test_the_cache_holds_what_memory_leaves() -> None:
    plan = plan_of(requests={"columns": ["batch_size", "microbatch"], "rows": [[64, 64]]}, sequence_length=8192)
    left = plan.points([0], ["memory_headroom_B"])["memory_headroom_B"][0]
    fits = left / 64 > 0.0
    assert (replica().cache_tokens(8192) > 64 * 8192) == fits
    assert replica_of(plan_of(**{"calibration.memory_reserve": "40 GB"}), 0, 1024, 128).cache_tokens(
        8192
    ) < replica().cache_tokens(8192)


def test_more_load_is_slower_and_fuller() -> None:
    loads = [under_load(replica(), drawn(Traffic(600, 1024, 128, 0.2, rate=rate)), 0) for rate in (1.0, 10.0, 40.0)]
    for name in ("time_to_first_token_s", "time_per_output_token_s"):
        means = [getattr(load, name).mean for load in loads]
        assert means == sorted(means)
    assert [load.busy_share for load in loads] == sorted(load.busy_share for load in loads)


def test_replicas_share_the_traffic() -> None:
    two = replica_of(plan_of(tensor_parallel=4, data_parallel=2), 0, 1024, 128)
    assert two.replicas == 2 and two.chips == 8
    one = replace(two, replicas=1, chips=4)
    both, half = (
        under_load(server, drawn(Traffic(requests, 1024, 128, clients=clients)), clients)
        for server, requests, clients in ((two, 400, 8), (one, 200, 4))
    )
    assert (both.requests, both.replicas) == (400, 2) and both.time_to_first_token_s == half.time_to_first_token_s
    assert both.requests_per_s == pytest.approx(2.0 * half.requests_per_s, rel=1e-12)
    assert both.output_tokens_per_s_per_chip == pytest.approx(half.output_tokens_per_s_per_chip, rel=1e-12)
    assert both.busy_share == pytest.approx(half.busy_share, rel=1e-12)
    with pytest.raises(UsageFault, match="7 clients of 2 replicas: say a multiple of 2"):
        under_load(two, drawn(Traffic(100, 1024, 128, clients=7)), 7)
    with pytest.raises(UsageFault, match="1 requests for 2 replicas: say at least one for each"):
        under_load(two, drawn(Traffic(1, 1024, 128, rate=1.0)))


def test_replicas_deliver_no_more_than_what_arrives() -> None:
    eight = replica_of(plan_of(tensor_parallel=1, data_parallel=8), 0, 1024, 128)
    load = under_load(eight, drawn(Traffic(9, 1024, 128, rate=1.0, variation=0.0)))
    assert load.seconds > 8.0 and load.requests_per_s == pytest.approx(9.0 / load.seconds, rel=1e-12)


def test_the_rate_of_a_closed_loop_is_that_of_replicas_which_all_have_requests() -> None:
    """One of two has the long answers, and is done long after the other."""
    two = replica_of(plan_of(tensor_parallel=4, data_parallel=2), 0, 1024, 128)
    asked = drawn(Traffic(400, 256, 128, clients=8))
    outputs = np.where(np.arange(400) % 2, 16, 128)
    load = under_load(two, replace(asked, outputs=outputs), 8)
    alone = [
        under_load(replace(two, replicas=1), drawn(Traffic(200, 256, output, clients=4)), 4).requests_per_s
        for output in (16, 128)
    ]
    assert load.requests_per_s == pytest.approx(sum(alone), rel=0.03)


def test_a_queue_that_grows_is_told() -> None:
    few, many = (under_load(replica(), drawn(Traffic(600, 1024, 128, 0.2, rate=rate))) for rate in (1.0, 1000.0))
    assert few.waiting <= 2 and "no first token" not in text(few, {})
    last = under_load(replica(), drawn(Traffic(1, 1024, 128, rate=1.0)))
    assert last.waiting == 0 and "no first token" not in text(last, {})
    assert many.waiting > 500 and f"{many.waiting / 600:.1%} of the requests had no first token" in text(many, {})
    assert under_load(replica(), drawn(Traffic(600, 1024, 128, clients=300)), 300).waiting == 0


def test_the_longest_request_of_a_trace_has_a_position() -> None:
    plan = plan_of(workload="gpt2_small", tensor_parallel=1, chips=1, dim_x=1)
    assert replica_of(plan, 0, 100, 10, 1024.0).replicas == 1
    with pytest.raises(UsageFault, match="knows 1024 positions, and requests have 5010 tokens"):
        replica_of(plan, 0, 100, 10, 5010.0)


def test_replicas_that_share_experts_are_told() -> None:
    spread = {"workload": "mixtral_8x7b", "tensor_parallel": 1, "data_parallel": 8, "requests": None}
    spread |= {"weight_format": "fp8", "expert_format": "fp8"}
    asked = drawn(Traffic(80, 1024, 128, rate=10.0))
    for experts in (1, 8):
        plan = plan_of(**spread, expert_parallel=experts, batch_size=8, microbatch=1)
        load = under_load(replica_of(plan, 0, 1024, 128), asked)
        assert load.sharing_experts == experts
        assert (f"experts lie over {experts} replicas, which pass together" in text(load, {})) == (experts > 1)


def test_the_same_seed_gives_the_same_requests() -> None:
    asked = Traffic(500, 100, 50, 0.5, rate=3.0, variation=2.0, seed=7)
    first, again, other = drawn(asked), drawn(asked), drawn(Traffic(500, 100, 50, 0.5, rate=3.0, variation=2.0, seed=8))
    assert first.arrival_s.tobytes() == again.arrival_s.tobytes() and (first.prompts == again.prompts).all()
    assert (first.prompts != other.prompts).any()
    assert first.prompts.min() >= 50 and first.prompts.max() <= 100
    gaps = np.diff(drawn(Traffic(200_000, 1, 1, rate=4.0, variation=0.5)).arrival_s)
    assert gaps.mean() == pytest.approx(0.25, rel=0.01) and gaps.std() / gaps.mean() == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize("workload", ["mamba2_2_7b", "qwen3_next_80b_a3b"])
def test_models_with_states_deliver_what_the_closed_form_says(workload: str) -> None:
    """Layers of Mamba-2 and of gated DeltaNet keep states, all or three quarters of them."""
    plan = plan_of(workload=workload, max_batched_tokens=8192)
    server = replica_of(plan, 2, 1024, 128)
    told = plan.points([2], ["requests_per_s", "loaded_time_per_output_token_s", "cache_memory_B"])
    longest = [length / 0.75 for length in (1024, 128)]
    load = under_load(server, drawn(Traffic(3_000, *longest, 0.5, clients=64)), 64, Admission(64, 8192))
    assert load.requests_per_s == pytest.approx(told["requests_per_s"][0], rel=0.05)
    assert load.time_per_output_token_s.mean == pytest.approx(told["loaded_time_per_output_token_s"][0], rel=0.05)
    kept_B = 64 * (server.state_B + (1024 + 128) * server.token_B)
    assert kept_B == pytest.approx(told["cache_memory_B"][0], rel=0.01)
    few = replace(server, room_B=20.5 * (server.state_B + 1152 * server.token_B) + float(server.working_B.max()))
    crowd = under_load(few, drawn(Traffic(300, 1024, 128, clients=64)), 64, Admission(64, 8192))
    assert crowd.request_time_s.mean > 1.5 * load.request_time_s.mean, "twenty have room, the others wait"
    with pytest.raises(UsageFault, match="what its prompts have in common is not simulated"):
        under_load(server, drawn(Traffic(10, 1024, 128, rate=1.0, common=512)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "training", "batch_size": 8, "requests": [1]}, "serves nothing"),
        ({"tensor_parallel": 4, "pipeline_parallel": 2}, "is a pipeline"),
        ({"tensor_parallel": 4}, "point 0 of served cannot run: parallelism_mismatch"),
        ({"data_parallel": 8}, "cannot run: parallelism_mismatch"),
        ({"compute_format": "nvfp4"}, "cannot run: format_unsupported"),
        ({"workload": "gpt3_175b", "workload.learned_positions": 1100}, "knows 1100 positions, and requests have 1152"),
        ({"cached_share": 0.5}, "has a cached_share, which a simulation finds"),
        ({"workload": "llama3_1_405b", "chips": 1, "dim_x": 1, "tensor_parallel": 1}, "does not hold its weights"),
    ],
)
def test_what_is_no_server_is_refused(changes: dict[str, Any], message: str) -> None:
    axes = {**AXES, **changes}
    if changes.get("task"):
        axes = {name: value for name, value in axes.items() if name not in ("requests", "output_length")}
    with pytest.raises(UsageFault, match=message):
        replica_of(sweeper.plan({"study": "served", "axes": axes}), 0, 1024, 128)


def test_a_server_asks_what_its_models_leave_unknown() -> None:
    told = {name: np.ones(3) for name in TIMES} | {WHY: np.zeros(3)}
    assert_runs(told, "point 0")
    with pytest.raises(UsageFault, match="point 0 has no round_time_s for some of the passes"):
        assert_runs(told | {"round_time_s": np.array([1.0, np.nan, 1.0])}, "point 0")


def test_requests_have_whole_tokens(tmp_path: Path) -> None:
    path = tmp_path / "served.yaml"
    path.write_text(json.dumps({"study": "served", "axes": AXES | {"output_length": 2.5}}))
    result = call("serve", path, 0, "--rate", 1)
    assert result.exit_code == 2 and "no request has 2.5 tokens: say --output, a whole number" in result.stderr
    assert call("serve", path, 0, "--rate", 1, "--requests", 10, "--output", 3).exit_code == 0


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "served.yaml"
    path.write_text(json.dumps({"study": "served", "axes": AXES}))
    return path


def test_the_command(study: Path, tmp_path: Path) -> None:
    shown = call("serve", study, 1, "--rate", 5, "--requests", 300, "--ttft", 0.001)
    assert shown.exit_code == 0 and "to the first token" in shown.stdout and "0.0% within the limits" in shown.stdout
    held = call("serve", study, 1, "--rate", 5, "--requests", 300, "--ttft", 1000).stdout
    assert "100.0% within the limits" in held and "between tokens" in held
    one = call("serve", study, 1, "--rate", 5, "--requests", 300, "--output", 1).stdout
    assert "within the limits" not in one and "between tokens" not in one and "nan" not in one
    told = json.loads(call("serve", study, 1, "--clients", 16, "--requests", 300, "--json").stdout)
    assert told["standing"] == "uncalibrated" and "uncalibrated, and without the host's own time" in shown.stdout
    assert told["requests"] == 300 and told["good"] == 1.0 and told["time_to_first_token_s"]["p90"] > 0.0
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n10,1024,128\n10.5,512,64\n")
    told = json.loads(call("serve", study, 0, "--trace", trace, "--json").stdout)
    assert told["requests"] == 2 and told["refused"] == 0
    assert (read_trace(trace).arrival_s == [0.0, 0.5]).all()
    rows = [*("0,100,10" for _ in range(150)), "0.5,200,20", "+10,100,10", " +9,100,10"]
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    late = read_trace(trace)
    assert late.arrival_s[-3:].tolist() == [0.5, 9.0, 10.0] and late.prompts[-3] == 200
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,100,10\n1,9000000,10\n", encoding="utf-8-sig")
    told = json.loads(call("serve", study, 0, "--trace", trace, "--ttft", 1000, "--json").stdout)
    assert (told["refused"], told["good"]) == (1, 0.5)
    even = call("serve", study, 1, "--rate", 5, "--requests", 30, "--variation", 1e-200)
    assert even.exit_code == 2 and "a variation of 1e-200 is none: say 0, or at least 0.001" in even.stderr
    assert lengths_of(sweeper.plan(study), 0) == (1024.0, 128.0)
    assert told["host_s"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give one of --clients, --rate and --trace"),
        (("--rate", 1, "--clients", 2), "give one of --clients, --rate and --trace"),
        (("--trace", "nowhere.csv"), "is no trace with the columns arrival_s, prompt_tokens, output_tokens"),
        (("--rate", 1, "--prompt", 10**7), "no request is so short"),
        (("--rate", "nan"), "nan is not a finite number"),
        (("--rate", 1, "--budget", 10**7), "leave no room for caches"),
        (("--rate", 1, "--spread", "nan"), "nan is not a finite number"),
        (("--rate", 1, "--prompt", 10**20), "is not in the range"),
        (("--trace", "trace.csv", "--seed", 3), "nothing reads --seed beside --trace: leave it out"),
        (("--clients", 2, "--variation", 0.5), "nothing reads --variation beside --clients: leave it out"),
        (("--clients", 2, "--decode-servers", 2), "nothing reads --decode-servers without --prefill: leave it out"),
        (("--clients", 2, "--prefill", 0, "--reserved", 0), "nothing reads --reserved beside --prefill: leave it out"),
        (("--clients", 2, "--prefill", 9), "9"),
        (("--clients", 2, "--seed", 3), "nothing reads --seed of requests that are all alike, and come evenly"),
        (("--rate", 1, "--variation", 0, "--seed", 3), "nothing reads --seed of requests that are all alike"),
        (("--rate", 1, "--output", 1, "--reserved", 0.5), "nothing reads --reserved of requests of one token"),
        (("--rate", 1, "--output", 1, "--prefill", 0), "requests of one token need no servers for generated ones"),
        (("--rate", 1e-9), "requests come for"),
        (("--rate", 1, "--common", 16, "--tier", "host=1B@1GB/s"), "host holds 1 B a chip, and a block of 16 tokens"),
        (("--clients", 9, "--requests", 8), "9 clients have 8 requests: say at least one for each (--requests)"),
        (("--rate", 1, "--common", 1025), "prompts have at most 1024 tokens, and cannot begin with 1025 (--common)"),
        (("--rate", 1, "--output", 1, "--tpot", 1), "nothing reads --tpot of requests of one token: leave it out"),
        (("--rate", 1, "--texts", 3), "nothing reads --texts without --common: leave it out"),
        (("--rate", 1, "--tier", "host=1GB@1GB/s"), "nothing reads --tier without --common and --trace: leave it out"),
        (("--rate", 1, "--common", 9, *("--tier", "a=1GB@1GB/s") * 2), "two tiers have the same name"),
        (("--rate", 1, "--swing", 0.5), "have them come for a period at least"),
        (("--rate", 1, "--common", 9), "9 tokens in common are no block of 16"),
        (("--rate", 1, "--common", 16, "--tier", "host=0GB@1GB/s"), "a tier holds something, up to an exabyte"),
        (("--rate", 1, "--common", 9, "--tier", "host=1GB"), "is no tier; write e.g. host=256GB@50GB/s"),
        (("--rate", 1, "--common", 9, "--tier", "host=1@1GB/s"), "'1' needs a unit"),
        (("--rate", 1, "--common", 9, "--tier", "host=1GB@0GB/s"), "gives back 1 B/s to 1 EB/s"),
        (("--rate", 1, "--prompt", 10**7, "--prefill", 0), "the caches for prompts hold"),
    ],
)
def test_what_is_asked_wrongly_is_one_line(study: Path, options: tuple[Any, ...], message: str) -> None:
    result = call("serve", study, 0, *options)
    assert result.exit_code == 2 and message in result.stderr and result.stdout == ""


LINE = {"timestamp": 500, "input_length": 1100, "output_length": 64, "hash_ids": [1, 2, 3]}


def test_a_trace_of_blocks_is_read_and_found_again(study: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    lines = [LINE | {"timestamp": 20_500, "hash_ids": [1, 2, 9]}, LINE]
    trace.write_text("\n".join(map(json.dumps, lines)))
    read = read_trace(trace)
    assert read.arrival_s.tolist() == [0.0, 20.0] and read.prompts.tolist() == [1100, 1100]
    assert read.blocks.size == 512 and read.blocks.first.tolist() == [0, 2, 4], "the third block is no whole one"
    told = json.loads(call("serve", study, 0, "--trace", trace, "--tier", "host=1GB@1TB/s", "--json").stdout)
    assert told["found"] == {"chip": pytest.approx(1024 / 2200), "host": 0.0}


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        ("arrival_s,prompt_tokens,output_tokens", "0,true,10", "trace.csv:2: prompt_tokens is 'true', and no number"),
        ("arrival_s,prompt_tokens,output_tokens", "nan,1,10", "trace.csv:2: arrival_s is 'nan', and no number"),
        ("arrival_s,prompt_tokens,output_tokens", "0,300.5,10", "trace.csv:2: 300.5 tokens; requests have whole"),
        ("arrival_s,prompt_tokens,output_tokens", "0,300", "trace.csv:2: 2 values for 3 columns"),
        ("arrival_s,prompt_tokens,output_token", "0,1,1", "trace.csv:1: unknown column 'output_token', did you mean"),
        ("arrival_s,prompt_tokens,output_tokens,priority", "0,1,1,3", "trace.csv:1: unknown column 'priority'"),
        ("arrival_s,prompt_tokens,output_tokens,prompt_tokens", "0,1,1,9", "trace.csv:1: prompt_tokens is given twice"),
        ("arrival_s,prompt_tokens", "0,1", "trace.csv:1: a request has arrival_s, prompt_tokens, output_tokens"),
        ("arrival_s,prompt_tokens,output_tokens", "", "a trace has requests"),
        ("arrival_s,prompt_tokens,output_tokens", "0,1,1\n1e16,1,1", "trace.csv:3: 1e+16 s after the first"),
    ],
)
def test_a_trace_that_says_what_nothing_reads_is_refused(tmp_path: Path, header: str, row: str, message: str) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(f"{header}\n{row}\n")
    with pytest.raises(UsageFault) as refused:
        read_trace(trace)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"timestamp": "now"}, "timestamp is 'now', and no number"),
        ({"priorty": 3}, "trace.jsonl:1: unknown key 'priorty'"),
        ({"hash_ids": [1, "2"]}, "whole numbers of blocks"),
        ({"hash_ids": [1, 1]}, "a block is named twice"),
        ({"input_length": 0.5, "hash_ids": [1]}, "whole numbers of tokens, at least one"),
        ({"hash_ids": [1, 2, 3, 4]}, "4 hash_ids of a prompt of 1100 tokens, 512 a block"),
        ({"hash_ids": [1]}, "1 hash_ids of a prompt of 1100 tokens, 512 a block; name all of them, or none"),
        ({"input_length": 1e30}, "1e+30 tokens are too many"),
        ({"timestamp": 10**400}, "and no number"),
    ],
)
def test_a_trace_of_blocks_that_cannot_be_is_refused(
    study: Path, tmp_path: Path, line: dict[str, Any], message: str
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(json.dumps(LINE | line))
    result = call("serve", study, 0, "--trace", trace)
    assert result.exit_code == 2 and message in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([LINE, LINE | {"hash_ids": [5, 2]}], "trace.jsonl:2: block 2 follows block 5 here, and block 1 further up"),
        ([LINE, LINE | {"hash_ids": [2]}], "trace.jsonl:2: block 2 follows no block here, and block 1 further up"),
    ],
)
def test_a_block_has_one_beginning(tmp_path: Path, lines: list[dict[str, Any]], message: str) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(UsageFault, match=message):
        read_trace(trace)
    trace.write_text(json.dumps(LINE)[:-1] + ', "input_length": 2048}')
    with pytest.raises(UsageFault, match=r"trace.jsonl:1: input_length is given twice"):
        read_trace(trace)


def test_prompts_that_begin_alike_answer_sooner_and_slower_tiers_hold_more(study: Path) -> None:
    options = ("--rate", 8, "--requests", 600, "--json")
    alike = ("--common", 900, "--texts", 400)
    plain, chip, host, slow = (
        json.loads(call("serve", study, 0, *options, "--set", "memory.capacity=6 GB", *more).stdout)
        for more in ((), alike, (*alike, "--tier", "host=64GB@50GB/s"), (*alike, "--tier", "disk=64GB@1MB/s"))
    )
    assert slow.pop("unread").keys() == {"disk"} and chip.pop("unread") == {}
    assert slow == chip, "tokens pass anew sooner than they come from a disk"
    assert plain["found"] == {} and chip["found"].keys() == {"chip"}
    assert sum(host["found"].values()) > 1.1 * chip["found"]["chip"] > 0.0
    firsts = [each["time_to_first_token_s"]["mean"] for each in (plain, chip, host)]
    assert firsts[2] < firsts[1] < firsts[0]


def test_servers_of_prompts_keep_what_prompts_have_in_common(study: Path) -> None:
    """Two of them know each text sooner or later, each for itself."""
    load = ("--rate", 20, "--requests", 400, "--prefill", 0, "--prefill-servers", 2, "--json")
    plain, common = (json.loads(call("serve", study, 1, *load, *more).stdout) for more in ((), ("--common", 960)))
    assert plain["found"] == {} and common["found"]["chip"] == pytest.approx(398 / 400 * 960 / 1024, rel=1e-9)
    assert common["time_to_first_token_s"]["mean"] < plain["time_to_first_token_s"]["mean"]
    slow = call("serve", study, 1, *load[:-1], "--common", 960, "--tier", "tape=1TB@1MB/s").stdout
    assert "not read, since tokens pass anew sooner in full passes: tape below" in slow


def test_prompts_may_have_servers_of_their_own(study: Path) -> None:
    """Tokens come as fast as without prompts, and first tokens wait for the servers of prompts alone."""
    options = ("--clients", 32, "--requests", 640, "--json")
    together, apart, wide = (
        json.loads(call("serve", study, 0, *options, *more).stdout)
        for more in ((), ("--prefill", 0), ("--prefill", 0, "--prefill-servers", 4, "--decode-servers", 2))
    )
    between = [each["time_per_output_token_s"]["mean"] for each in (together, apart, wide)]
    assert between[2] < between[1] < between[0]
    assert wide["time_to_first_token_s"]["mean"] < apart["time_to_first_token_s"]["mean"]
    assert apart["busy_share"] is None and together["busy_share"] > 0.9
    chips = [each["output_tokens_per_s"] / each["output_tokens_per_s_per_chip"] for each in (together, apart, wide)]
    assert chips == pytest.approx([8.0, 16.0, 48.0])


def test_caches_move_over_the_outer_link(study: Path) -> None:
    server = replica()
    assert server.link_Bps == plan_of().points([0], ["link_bandwidth_Bps"])["link_bandwidth_Bps"][0]
    slow = replace(server, link_Bps=server.link_Bps / 10.0)
    quick, late = moving_of(server, server), moving_of(slow, server)
    assert late.send_s == pytest.approx(10.0 * late.receive_s) == pytest.approx(server.token_B / slow.link_Bps)
    one = Part(server, 1, Admission())
    loads = [
        apart_under_load(Part(each, 1, Admission()), one, drawn(Traffic(20, 1024, 128, rate=0.1)))
        for each in (server, slow)
    ]
    later_s = loads[1].time_to_first_token_s.mean - loads[0].time_to_first_token_s.mean
    assert later_s == pytest.approx(1024 * (late.send_s - quick.send_s), rel=1e-6)


def test_states_move_and_take_room_on_both_kinds_of_servers() -> None:
    """A state is the same for any length: so is its way."""
    plan = plan_of(workload="mamba2_2_7b", chips=1, dim_x=1, tensor_parallel=1)
    server = replica_of(plan, 0, 1024, 128)
    slow = replace(server, link_Bps=server.link_Bps / 100.0)
    way_s = slow.state_B / slow.link_Bps
    for prompt in (512, 1024):
        firsts = [
            apart_under_load(Part(each, 1, Admission()), Part(server, 1, Admission()), alone).time_to_first_token_s.mean
            for each in (server, slow)
            for alone in [drawn(Traffic(5, prompt, 8, rate=0.1, variation=0.0))]
        ]
        assert firsts[1] - firsts[0] == pytest.approx(way_s * 0.99, rel=1e-3)
    few = replace(server, room_B=server.working_B[-1] + 4.5 * server.state_B)
    crowd = drawn(Traffic(64, 1024, 128, clients=64))
    plenty, scarce = (
        apart_under_load(Part(server, 8, Admission()), Part(each, 1, Admission()), crowd, 64) for each in (server, few)
    )
    assert scarce.request_time_s.mean > 2.0 * plenty.request_time_s.mean, "four at a time"


def test_a_pass_takes_what_the_study_says() -> None:
    assert budget_of(plan_of(), 0) == 8192 and budget_of(plan_of(max_batched_tokens=2048), 0) == 2048


@pytest.mark.parametrize(("requests", "drafts"), [(96, 0), (768, 0), (1536, 0), (3000, 0), (500, 2)])
def test_a_pass_of_many_generating_requests_takes_what_its_models_say(requests: int, drafts: int) -> None:
    """Between the numbers of requests that a study is asked for, and beyond them; caches half full of answers."""
    several = {"columns": ["batch_size", "microbatch"], "rows": [[requests, requests]]}
    drafting = {"speculated_tokens": drafts, "draft_layers": 1} if drafts else {}
    plan = plan_of(requests=several, sequence_length=256, output_length=256, **drafting)
    timing = replica_of(plan, 0, 256, 256).timing
    told_s = plan.points([0], ["round_time_s"])["round_time_s"][0]
    took_s = pass_s(timing, float(requests * (1 + drafts)), requests * 384.0, 0.0, 0.0)
    assert took_s == pytest.approx(told_s, rel=0.02)


def test_a_stack_of_a_backend_adds_what_its_host_takes() -> None:
    host = {"calibration.request_host": "80 ms", "calibration.pass_host": "2 ms"}
    plain, slow = (replica_of(plan_of(**more), 0, 1024, 128) for more in ({}, host))
    assert plain.host_s == 0.0 and slow.host_s == pytest.approx(0.08)
    np.testing.assert_allclose(slow.timing.linear_s - plain.timing.linear_s, 0.002)
    alone = drawn(Traffic(5, 1024, 128, clients=1))
    waits = [under_load(each, alone, 1).time_to_first_token_s.mean for each in (plain, slow)]
    assert waits[1] - waits[0] == pytest.approx(0.082)


def test_loads_without_a_second_token_have_no_time_between_tokens() -> None:
    load = under_load(replica(), drawn(Traffic(10, 100, 1, rate=1.0)), 0)
    assert isinstance(load, Load) and np.isnan(load.time_per_output_token_s.mean)
