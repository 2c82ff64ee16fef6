"""A training step played out: it takes what the model says, tracks hold one thing at a time, and the trace is one."""

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from sweeper.cli import main
from sweeper.errors import UsageFault
from sweeper.planning.plan import Plan, make_plan
from sweeper.timelines.schedule import FORWARD, GRADIENT
from sweeper.timelines.slices import COLLECTIVES, COMPUTE, REPLICAS, Slice, blocks_of, held_s, slices
from sweeper.timelines.step import Block, Step, step_of
from sweeper.timelines.summary import summary, text
from sweeper.views.lineage import explain

AXES: dict[str, object] = {
    "workload": "gpt3_175b",
    "chip": "h100_sxm5_80gb",
    "memory": "hbm3_h100",
    "topology": "dgx_2",
    "dim_x": 8,
    "dim_y": 16,
    "chips": 128,
    "link": "nvlink4",
    "outer_link": "infiniband_ndr",
    "tensor_parallel": 4,
    "pipeline_parallel": 8,
    "data_parallel": 4,
    "batch_size": 64,
    "microbatch": 1,
    "zero_stage": 1,
    "virtual_stages": 2,
    "schedule": ["one_f_one_b", "interleaved", "zero_bubble_h1", "dual_pipe", "gpipe"],
    "recompute": ["none", "selective", "full"],
    "tensor_overlap": [0, 0.6, 1],
    "gradient_all_reduce": ["overlapped", "exposed"],
}
STUDY = {"study": "steps", "axes": AXES}
SERVED: dict[str, object] = {"task": "inference", "zero_stage": 0, "virtual_stages": 1}
CLOSE = {"one_f_one_b": 1e-9, "gpipe": 1e-9, "zero_bubble_h1": 1e-3, "interleaved": 0.03, "dual_pipe": 0.03}
"""How near closed forms come; those of the first two are exact."""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("steps") / "steps.yaml"
    path.write_text(yaml.safe_dump(STUDY, sort_keys=False))
    return path


@pytest.fixture(scope="module")
def plan(study: Path) -> Plan:
    return make_plan(study)


@pytest.fixture(scope="module", params=range(0, 90, 7))
def step(plan: Plan, request: pytest.FixtureRequest) -> Step:
    return step_of(plan, request.param)


def test_a_step_takes_what_the_model_says(step: Step) -> None:
    """The schedules whose closed forms are exact; the others as their docstrings allow."""
    played = step.played()
    found = summary("steps", 0, step, played)
    assert found.pipeline_played_s == pytest.approx(step.pipeline_time_s, rel=CLOSE[step.schedule])
    assert found.played_s == pytest.approx(found.pipeline_played_s + sum(found.after.values()), rel=1e-12)
    assert step.iteration_time_s == pytest.approx(step.pipeline_time_s + step.after_s, rel=1e-12)
    for each in found.by_stage:
        assert each.working_s + each.sending_s + each.waiting_s == pytest.approx(played.total_s, rel=1e-9)


def test_tracks_hold_one_thing_at_a_time_and_operators_lie_in_their_layers(step: Step) -> None:
    played = step.played()
    found = list(slices(step, played, 2))
    tracks: dict[tuple[int, str, str], list[Slice]] = defaultdict(list)
    nested = {"layer": "layer", "operator": "operator"}
    for each in found:
        assert each.seconds > 0.0 and each.start_s >= 0.0
        if each.track == COMPUTE:
            assert each.start_s + each.seconds <= (played.total_s + step.after_s) * (1 + 1e-9)
        tracks[each.stage, each.track, nested.get(each.kind, "whole")].append(each)
    for on_track in tracks.values():
        inside = sorted(on_track, key=lambda each: each.start_s)
        assert all(b.start_s >= a.start_s + a.seconds - 1e-9 * played.total_s for a, b in pairwise(inside))
    for stage in range(step.stages):
        layers = tracks[stage, COMPUTE, "layer"]
        for operator in tracks[stage, COMPUTE, "operator"]:
            assert any(
                layer.start_s - 1e-9 <= operator.start_s
                and operator.start_s + operator.seconds <= layer.start_s + layer.seconds + 1e-9
                for layer in layers
            )


def test_operators_of_a_layer_take_their_own_time(step: Step) -> None:
    """On the first stage, all of them in every layer of the first microbatch; hidden collectives take none of it."""
    found = [each for each in slices(step, step.played(), 1) if each.stage == 0 and each.track == COMPUTE]
    names = {span.name for block in step.layer.values() for span in block.spans}
    ran = sum(each.seconds for each in found if each.kind == "operator" and each.name in names)
    again = sum(each.seconds for each in found if each.name.startswith("computes again"))
    of_layers = [block for block in step.layer.values() for span in block.spans if not span.collective]
    computing = sum(
        span.seconds * block.slowed for block in step.layer.values() for span in block.spans if not span.collective
    )
    assert of_layers and ran == pytest.approx(step.layers * computing, rel=1e-6)
    assert again == pytest.approx(step.layers * sum(block.again_s for block in step.layer.values()), rel=1e-6)


def test_layers_fill_their_passes(step: Step) -> None:
    """The first microbatch on the first stage: layers and the embedding take what the pass takes."""
    (done, *_), *_ = step.played().done
    task = done.cell[0]
    blocks = blocks_of(step, task)
    assert sum(block.seconds for _, block in blocks) == pytest.approx(done.worked_s - done.start_s, rel=1e-6)
    assert task.kind == FORWARD and len(blocks) == step.layers // step.chunks + 1


def waited_s(block: Block) -> float:
    """Seconds of a block's own pass: compute, slowed by what runs beside it, and what it waits for of collectives."""
    return sum(s.seconds * (s.waited_share if s.collective else block.slowed) for s in block.spans)


EXPERTS = {
    "workload": "deepseek_v3", "tensor_parallel": 2, "pipeline_parallel": 8, "data_parallel": 8, "expert_parallel": 8,
    "microbatch": 1, "batch_size": 64, "expert_overlap": 0.5, "tensor_overlap": 1,
}  # fmt: skip
OTHERS: dict[str, dict[str, object]] = {
    "hidden": {"tensor_overlap": 0.6},
    "repeated": {"tensor_overlap": 0.6, "recompute": "full"},
    "selective": {"tensor_overlap": 0.3, "recompute": "selective"},
    "slowed": {"tensor_overlap": 1, "overlap_slowdown": 0.3},
    "sharded": {"zero_stage": 3, "tensor_overlap": 1},
    "offloaded": {"weight_offload": 1, "activation_offload": 0.5, "zero_stage": 0},
    "ring": {"context_parallel": 2, "data_parallel": 2, "tensor_overlap": 0.5},
    "asynchronous": {"calibration.async_tensor": 1, "tensor_overlap": 0.5},
    "experts": EXPERTS,
}


def other_step(tmp_path: Path, **changed: object) -> tuple[Step, dict[str, float]]:
    """A step of a study with other numbers, and what the model says of it."""
    path = tmp_path / "other.yaml"
    fixed = {name: value for name, value in AXES.items() if not isinstance(value, list)} | {"virtual_stages": 1}
    path.write_text(yaml.safe_dump({**STUDY, "axes": {**fixed, **changed}}, sort_keys=False))
    plan = make_plan(path)
    return step_of(plan, 0), {row["column"]: row["value"] for row in explain(plan, 0)}


@pytest.mark.parametrize("case", OTHERS)
def test_what_a_layer_computes_and_waits_for_is_its_pass(tmp_path: Path, case: str) -> None:
    """Hidden, repeated, slowed, sharded, offloaded, beside other passes, and of experts: as the model's passes say."""
    step, model = other_step(tmp_path, **OTHERS[case])
    forward, back = step.layer[FORWARD], step.layer[GRADIENT]
    assert waited_s(forward) == pytest.approx(model["layer_forward_s"], rel=1e-6)
    assert waited_s(back) + back.again_s == pytest.approx(model["layer_input_gradient_s"], rel=1e-6)
    assert (back.again_s > 0.0) == (case in ("repeated", "selective"))
    assert all(0.0 <= span.waited_share <= 1.0 for block in step.layer.values() for span in block.spans)
    beside = sum(forward.beside)
    assert (beside > 0.0) == (case in ("sharded", "offloaded"))
    found = list(slices(step, step.played(), 1))
    collectives = sum(each.seconds for each in found if each.track == COLLECTIVES and each.stage == 1)
    sent = [block for kind in (FORWARD, GRADIENT) for block in [step.layer[kind]] for _ in range(step.layers)]
    whole = sum(span.seconds for block in sent for span in block.spans if span.collective)
    assert collectives == pytest.approx(whole, rel=1e-9)


def test_experts_and_others_hide_apart(tmp_path: Path) -> None:
    step, _ = other_step(tmp_path, **EXPERTS)
    share = {span.name: span.waited_share for span in step.layer[FORWARD].spans if span.collective}
    assert share["dispatch"] == share["combine"] > share["attention_reduce"]
    assert 1.0 - share["attention_reduce"] == pytest.approx(2.0 * (1.0 - share["dispatch"]))  # overlaps of 1 and 0.5
    layers = {span.name: span.share for span in step.layer[FORWARD].spans}
    assert layers["up"] == pytest.approx(3 / 61) and layers["expert_up"] == pytest.approx(58 / 61)


def test_new_weights_come_after_the_optimizer_and_ignored_messages_nowhere(tmp_path: Path) -> None:
    step, model = other_step(tmp_path)
    found = [each for each in slices(step, step.played(), 0) if each.stage == 0]
    (optimizer,) = (each for each in found if each.kind == "optimizer")
    gradients, weights = (next(each for each in found if each.kind == kind) for kind in
                          ("gradients of replicas", "new weights"))  # fmt: skip
    assert gradients.start_s + gradients.seconds == pytest.approx(optimizer.start_s)
    assert weights.start_s == pytest.approx(optimizer.start_s + optimizer.seconds)
    assert weights.seconds == pytest.approx(model["gradient_gather_s"])
    assert gradients.seconds == pytest.approx(model["gradient_all_reduce_s"] - model["gradient_gather_s"])
    assert gradients.start_s < model["pipeline_time_s"]
    assert sum(part.seconds for part in step.after) == pytest.approx(
        model["iteration_time_s"] - model["pipeline_time_s"]
    )
    ignored, _ = other_step(tmp_path, gradient_all_reduce="ignored")
    assert not [each for each in slices(ignored, ignored.played(), 1) if each.track == REPLICAS]


def test_a_last_stage_with_fewer_layers_keeps_the_pace(tmp_path: Path) -> None:
    step, _ = other_step(tmp_path, workload="gpt_7b", pipeline_parallel=12, data_parallel=2, chips=96, dim_y=12)
    played = step.played()
    assert step.last_layers < step.layers
    last, before = (sum(held_s(step, task) for each in played.done[stage] for task in each.cell) for stage in (-1, -2))
    assert last > 0.0 == before
    found = summary("other", 0, step, played)
    assert found.by_stage[-1].working_s == pytest.approx(found.by_stage[-2].working_s - last, rel=0.2)
    names = [each.name for each in slices(step, played, 1) if each.kind == "layer" and each.stage == step.stages - 1]
    assert sum(name.startswith("layer") for name in names) == 3 * step.last_layers
    assert "keeps the pace of fuller stages" in names


def test_layers_have_the_same_number_both_ways(tmp_path: Path) -> None:
    step, _ = other_step(tmp_path)
    numbers: dict[float, list[str]] = {}
    for task in (task for each in step.played().done[2] for task in each.cell if task.microbatch == 0):
        numbers[task.kind] = [name for name, _ in blocks_of(step, task)]
    assert numbers["forward"][0] == f"layer {2 * step.layers}"
    assert numbers["forward"] == numbers["input gradient"][::-1] == numbers["weight gradient"][::-1]


def test_padding_of_dual_pipe_is_called_so(tmp_path: Path) -> None:
    step, _ = other_step(tmp_path, schedule="dual_pipe", batch_size=16)
    assert (step.real, step.microbatches) == (4, 16)
    named = {each.name for each in slices(step, step.played(), 0) if each.kind == FORWARD}
    assert {name for name in named if "microbatch" in name} == {f"forward of microbatch {k}" for k in (0, 1, 8, 9)}
    assert "forward of padding" in named
    assert "4 microbatches, padded to 16" in text(summary("other", 0, step, step.played()))


def test_the_command_writes_a_trace_and_a_picture(study: Path, tmp_path: Path) -> None:
    trace, picture = tmp_path / "deep/step.json", tmp_path / "step.png"
    asked = ["trace", str(study), "18", "--out", str(trace), "--figure", str(picture)]
    shown = CliRunner().invoke(main, asked)
    assert shown.exit_code == 0, shown.output
    assert "interleaved, 8 stages of 2 chunks, 16 microbatches" in shown.output
    content = json.loads(trace.read_text())
    events = content["traceEvents"]
    assert f"{len(events):,} events" in shown.output and content["otherData"]["study"] == "steps"
    assert {event["ph"] for event in events} == {"M", "X"}
    named = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert "stage 7 of 8 (tensor 4 x data 4 alike)" in named and len(named) == 8
    assert {event["cat"] for event in events if event["ph"] == "X"} > {"forward", "layer", "operator", "collective"}
    assert {event["tid"] for event in events} == {0, 1, 2, 3, 4}
    assert picture.stat().st_size > 10_000
    found = json.loads(CliRunner().invoke(main, ["trace", str(study), "18", "--json"]).stdout)
    assert found["stages"] == len(found["by_stage"]) == 8


def test_the_same_step_gives_the_same_bytes(study: Path, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.json" for name in "ab"]
    for path in paths:
        assert CliRunner().invoke(main, ["trace", str(study), "3", "--out", str(path)]).exit_code == 0
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (SERVED, "no training step"),
        ({"batch_size": 63}, "cannot be played"),
        ({"batch_size": 4_000_000}, "500,000 are played"),
        ({"compute_format": "nvfp4"}, "has no time that could be played: format_unsupported"),
        ({"schedule": "dual_pipe", "pipeline_parallel": 1, "data_parallel": 32}, ""),
        ({"schedule": "dual_pipe", "pipeline_parallel": 3, "data_parallel": 8, "chips": 96, "dim_y": 12}, "even"),
    ],
)  # fmt: skip
def test_what_cannot_be_played_is_refused(tmp_path: Path, changed: dict[str, object], said: str) -> None:
    path = tmp_path / "other.yaml"
    fixed = {name: value for name, value in AXES.items() if not isinstance(value, list)}
    path.write_text(yaml.safe_dump({**STUDY, "axes": {**fixed, "virtual_stages": 1, **changed}}, sort_keys=False))
    shown = CliRunner().invoke(main, ["trace", str(path), "0"])
    assert shown.exit_code == (2 if said else 0) and said in shown.output, shown.output
    if said:
        with pytest.raises(UsageFault):
            step_of(make_plan(path), 0)


def test_layers_that_are_graphs_are_shown_without_operators(tmp_path: Path) -> None:
    """The operators of the model's table are those of its ends: they are not what such a layer is made of."""
    step, _ = other_step(tmp_path, workload="gpt3_1t_layers", recompute="full")
    found = [each for each in slices(step, step.played(), 1) if each.stage == 2]
    assert {each.kind for each in found} >= {"layer", "message"}
    assert not [each for each in found if each.kind in ("operator", "collective")]
    assert step.last[FORWARD].spans


def test_graphs_of_kernels_have_no_timeline() -> None:
    shown = CliRunner().invoke(main, ["trace", "table6_sn10", "0"])
    assert shown.exit_code == 2 and "no training step" in shown.output


def test_a_search_is_said_not_to_be_in_a_trace() -> None:
    shown = CliRunner().invoke(main, ["trace", "node_scaling", "130"])
    assert shown.exit_code == 0 and "of the template's own design" in shown.output


def test_detail_is_that_of_a_trace(study: Path) -> None:
    shown = CliRunner().invoke(main, ["trace", str(study), "0", "--detail", "3"])
    assert shown.exit_code == 2 and "--detail is that of a trace: add --out" in shown.stderr


def test_a_trace_needs_its_ending(study: Path) -> None:
    shown = CliRunner().invoke(main, ["trace", str(study), "0", "--out", "step.txt"])
    assert shown.exit_code == 2 and ".json" in shown.output
