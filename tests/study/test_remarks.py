"""Remarks: a study is told what it leaves open and may not mean; its results and exit code are the same."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sweeper.cli import main
from sweeper.errors import SpecError
from sweeper.study.study import load_study
from tests.places import ROOT, STUDIES
from tests.support.small_specs import write_files

ALONE = "microbatch is 1 where a study does not say: up to 8 microbatches of one sample pass one after another"
PARTIAL = "x5: {source: a roadmap, grade: estimate, logic_area: 0.5}\n"
TRAINING = """
study: trained
axes:
  workload: gpt2_small
  chip: h100_sxm5_80gb
  memory: hbm3_h100
  link: nvlink4
  topology: switch
  chips: 2
  dim_x: 2
  batch_size: [2, 16]
  data_parallel: 2
output: {mode: all, columns: [iteration_time_s]}
"""
SERVING = TRAINING.replace("batch_size: [2, 16]", "task: inference\n  batch_size: 2")


def call(tmp_path: Path, text: str, *arguments: str) -> Result:
    (tmp_path / "trained.yaml").write_text(text)
    command, *more = arguments
    return CliRunner().invoke(main, [command, str(tmp_path / "trained.yaml"), *more])


def warnings(result: Result) -> list[str]:
    """What is warned of, beside that planning takes a while."""
    return [line for line in result.stderr.splitlines() if line.startswith("warning: ")]


def test_samples_that_pass_one_after_another_are_told_once(tmp_path: Path) -> None:
    two = TRAINING.replace("  data_parallel: 2\n", "boxes:\n- axes: {data_parallel: 2}\n- axes: {tensor_parallel: 2}\n")
    for text, count in ((TRAINING, 8), (two, 8)):
        planned = call(tmp_path, text, "plan", "--json")
        assert planned.exit_code == 0
        assert json.loads(planned.stdout)["study"] == "trained"
        (line,) = planned.stderr.splitlines()
        assert line.startswith(f"warning: {tmp_path / 'trained.yaml'}:11:3: axes.batch_size: {ALONE}")
        assert f"up to {count} " in line and "say microbatch: 1 if that is meant, or sweep it" in line


def test_a_run_is_told_too_and_ends_as_ever(tmp_path: Path) -> None:
    ran = call(tmp_path, TRAINING, "run", "--out", str(tmp_path / "out"), "-q", "--json")
    assert ran.exit_code == 0 and json.loads(ran.stdout)["rows"] == 2
    assert ran.stderr.count(ALONE) == 1 == len(ran.stderr.splitlines())


@pytest.mark.parametrize(
    "text",
    [
        TRAINING.replace("data_parallel: 2", "data_parallel: 2\n  microbatch: 1"),
        TRAINING.replace("axes:", "assumptions: {microbatch: 1}\naxes:"),
        TRAINING.replace("[2, 16]", "2"),  # a sample for each replica
        TRAINING.replace("  batch_size: [2, 16]\n  data_parallel", "  tensor_parallel"),
    ],
)
def test_what_is_said_or_has_no_choice_is_not_told(text: str, tmp_path: Path) -> None:
    planned = call(tmp_path, text, "plan")
    assert planned.exit_code == 0, planned.output
    assert planned.stderr == ""


@pytest.mark.parametrize(
    ("axes", "tokens"),
    [
        ("sequence_length: [1024, 1500, 2048]\n  microbatch: 1", 2048),
        ("task: inference\n  output_length: 8\n  sequence_length: 1024\n  microbatch: 2", 1032),
        ("task: inference\n  output_length: 9\n  microbatch: 2", 1033),  # after a prompt of the model's own length
    ],
)
def test_sequences_beyond_what_a_model_knows_are_told(tmp_path: Path, axes: str, tokens: int) -> None:
    text = TRAINING.replace("[2, 16]\n", f"2\n  {axes}\n")
    (line,) = call(tmp_path, text, "plan").stderr.splitlines()
    column = "sequence_length" if "sequence_length" in text else "output_length"
    told = f"axes.{column}: gpt2_small knows 1024 positions, and sequences have up to {tokens} tokens: say"
    assert f"{told} workload.learned_positions of the model that is meant" in line
    meant = text.replace("axes:\n", "axes:\n  workload.learned_positions: 4096\n")
    assert call(tmp_path, meant, "plan").stderr == ""


def test_of_requests_it_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "served.yaml").write_text(SERVING)
    with pytest.raises(SpecError, match="2 requests would be served one after another"):
        load_study(tmp_path / "served.yaml")


def test_ports_that_the_price_leaves_out_are_told(tmp_path: Path) -> None:
    network = "topology: dgx_2\n  outer_link: infiniband_ndr\n  chips: 16\n  dim_x: 8\n  dim_y: 2\n  microbatch: 1"
    servers = TRAINING.replace("topology: switch\n  chips: 2\n  dim_x: 2", network).replace("[2, 16]", "16")
    servers = servers.replace("data_parallel: 2", "data_parallel: 16")
    said = servers.replace("axes:\n", "assumptions: {outer_links: per_chip}\naxes:\n")
    priced = said.replace("[iteration_time_s]", "[iteration_time_s, system_price_usd]")
    (line,) = call(tmp_path, priced, "plan").stderr.splitlines()
    assert f"{tmp_path / 'trained.yaml'}:3:15: assumptions.outer_links: " in line
    assert "say outer_links: per_chip_priced to count them all" in line
    one_each = priced.replace("dim_x: 8\n  dim_y: 2", "dim_x: 1\n  dim_y: 16")
    for meant in (said, one_each, priced.replace("per_chip", "per_chip_priced"), priced.replace("per_chip", "shared")):
        assert call(tmp_path, meant, "plan").stderr == ""


def test_factors_that_a_technology_leaves_out_are_told_once(tmp_path: Path) -> None:
    """A study of two boxes with an entry of one factor, one without any, and one of ours, which states all."""
    library = write_files(tmp_path / "mine", {"technologies/mine.yaml": PARTIAL})
    chip = "template: gpu_n7\n  technology: [x5, as_template, public_n5_from_n7]\n  stack: hbm2e\n  microbatch: 1"
    made = TRAINING.replace("chip: h100_sxm5_80gb\n  memory: hbm3_h100", chip).replace("  data_parallel: 2\n", "")
    boxes = "boxes:\n- axes: {data_parallel: 2}\n- axes: {tensor_parallel: 2}\n"
    planned = call(tmp_path, made.replace("output:", f"{boxes}output:"), "plan", "--library", str(library))
    assert planned.exit_code == 0, planned.output
    (line,) = warnings(planned)
    assert line.startswith(
        f"warning: {tmp_path / 'trained.yaml'}:6:3: axes.technology: technology x5 states no logic_p"
    )
    given = made.replace("  microbatch: 1", "  microbatch: 1\n  technology.voltage: 0.9\n  data_parallel: 2")
    (line,) = warnings(call(tmp_path, given, "plan", "--library", str(library)))
    assert "lane_energy" in line and "voltage" not in line


def test_that_partitions_may_not_fit_is_told_once_where_units_are_placed() -> None:
    placed = CliRunner().invoke(main, ["plan", "table6_sn10_units"])
    (line,) = warnings(placed)
    assert placed.exit_code == 0 and "table6_sn10_units.yaml:25:7: boxes[2].axes.unit_placement: " in line
    assert "shares by rules are of operators cut over all compute units" in line
    assert "as if every operator were in one piece: whether more pieces have memory units" in line
    assert warnings(CliRunner().invoke(main, ["plan", "table6_sn10"])) == []


def test_our_studies_say_what_they_mean() -> None:
    starts = (ROOT / "specs" / "starts").glob("*.yaml")
    examples = (ROOT / "examples").glob("*_study.yaml")
    for path in [*STUDIES, *starts, *examples]:
        assert load_study(path, [ROOT / "examples" / "my_library"]).remarks == (), path
