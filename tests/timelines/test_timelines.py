"""A training step played out: it takes what the model says, tracks hold one thing at a time, and the trace is one."""

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from sweeper.cli import main
from sweeper.errors import UsageFault
from sweeper.planning.plan import Plan, make_plan
from sweeper.timelines.schedule import FORWARD
from sweeper.timelines.slices import COMPUTE, NETWORK, Slice, blocks_of, exposed_share, slices
from sweeper.timelines.step import Block, Span, Step, step_of
from sweeper.timelines.summary import summary
from tests.support.examples import examples

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
EXACT = ("one_f_one_b", "zero_bubble_h1", "gpipe")


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
    close = 1e-3 if step.schedule in EXACT else 0.03
    assert found.pipeline_played_s == pytest.approx(step.pipeline_time_s, rel=close)
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
        assert each.start_s + each.seconds <= (played.total_s + step.after_s) * (1 + 1e-9)
        tracks[each.stage, each.track, nested.get(each.kind, "whole")].append(each)
    for on_track in tracks.values():
        # What follows the pipeline may begin beside the last passes.
        inside = sorted((each for each in on_track if each.microbatch >= 0), key=lambda each: each.start_s)
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
    again = sum(each.seconds for each in found if each.name == "recomputation")
    of_layers = [block for block in step.layer.values() for span in block.spans if not span.collective]
    computing = sum(span.seconds for block in step.layer.values() for span in block.spans if not span.collective)
    assert of_layers and ran == pytest.approx(step.layers * computing, rel=1e-6)
    assert again == pytest.approx(step.layers * sum(block.again_s for block in step.layer.values()), rel=1e-6)


def test_layers_fill_their_passes(step: Step) -> None:
    """The first microbatch on the first stage: layers and the embedding take what the pass takes."""
    (done, *_), *_ = step.played().done
    task = done.cell[0]
    blocks = blocks_of(step, task)
    assert sum(block.seconds for block in blocks) == pytest.approx(done.worked_s - done.start_s, rel=1e-6)
    assert task.kind == FORWARD and len(blocks) == step.layers // step.chunks_of_stage + 1


def test_collectives_that_nothing_hides_are_waited_for(plan: Plan) -> None:
    """Of overlaps 0, 0.6 and 1, at the first schedule without recomputation."""
    shares = [exposed_share(step_of(plan, point).layer[FORWARD]) for point in (0, 2, 4)]
    assert shares == pytest.approx([1.0, 0.4, 0.0], abs=1e-9)


@examples(100)
@given(st.lists(st.tuples(st.floats(1e-6, 1.0), st.booleans()), min_size=1, max_size=8), st.floats(0.0, 2.0))
def test_the_exposed_share_is_a_share_and_explains_the_time(operators: list[tuple[float, bool]], extra: float) -> None:
    spans = tuple(Span(str(at), seconds, sent, "") for at, (seconds, sent) in enumerate(operators))
    computing, sending = (sum(s.seconds for s in spans if s.collective == sent) for sent in (False, True))
    share = exposed_share(Block("layer", computing + extra * sending, 0.0, spans))
    assert share == pytest.approx(min(extra, 1.0), abs=1e-6) if sending else share == 0.0


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
    assert {event["tid"] for event in events} == {0, 1} and NETWORK in json.dumps(events)
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
        ({"schedule": "dual_pipe", "pipeline_parallel": 1, "data_parallel": 32}, ""),
        ({"schedule": "dual_pipe", "pipeline_parallel": 3, "data_parallel": 8, "chips": 96, "dim_y": 12}, "even"),
    ],
)  # fmt: skip
def test_what_cannot_be_played_is_refused(tmp_path: Path, changed: dict[str, object], said: str) -> None:
    path = tmp_path / "other.yaml"
    fixed = {name: value for name, value in AXES.items() if not isinstance(value, list)}
    path.write_text(yaml.safe_dump({**STUDY, "axes": {**fixed, **changed}}, sort_keys=False))
    shown = CliRunner().invoke(main, ["trace", str(path), "0"])
    assert shown.exit_code == (2 if said else 0) and said in shown.output, shown.output
    if said:
        with pytest.raises(UsageFault):
            step_of(make_plan(path), 0)


def test_graphs_of_kernels_have_no_timeline() -> None:
    shown = CliRunner().invoke(main, ["trace", "table6_sn10", "0"])
    assert shown.exit_code == 2 and "no training step" in shown.output


def test_a_trace_needs_its_ending(study: Path) -> None:
    shown = CliRunner().invoke(main, ["trace", str(study), "0", "--out", "step.txt"])
    assert shown.exit_code == 2 and ".json" in shown.output
