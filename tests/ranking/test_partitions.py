"""Shares of the bound from operators alone: what a partition asks for, what is learned from placed ones, and sweeps."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.dataset
import pytest
from click.testing import CliRunner

from sweeper.cli import main
from sweeper.errors import SpecError
from sweeper.kernels.shared.demand import BURSTS, DEMANDS, HIDDEN, UnitModel, share_by_rules, share_learned
from sweeper.library.library import Library, builtin_specs
from sweeper.library.unit_models import model_hash, read_unit_model
from sweeper.placing import graph as graph_of_units
from sweeper.placing.blocks import block
from sweeper.placing.cutting import Cutting, bound_cycles
from sweeper.placing.graph import FUNCTIONS, MULTIPLIES, READS, READS_WEIGHTS
from sweeper.placing.place import units_of
from sweeper.planning.plan import Plan, make_plan
from sweeper.ranking.partitions import (
    Partitions,
    as_yaml,
    demands_of,
    read_partitions,
    shares_of,
    sites_of,
    trained,
    validated,
)
from sweeper.ranking.simulated import Effort, SimulatedPartition, mapped_point
from sweeper.running.execution import run
from tests.support.labels import labelled

LIBRARY = Library.load([builtin_specs()])
STUDY = """\
study: placed
axes:
  workload: small
  partitioning: optimal
  chip: sn10
  memory: ddr4_sn10
  link: pcie5
  topology: ring
  chips: 2
  dim_x: 2
  dim_y: 1
  tensor_parallel: 2
  fabric: plasticine_narrow
  unit_placement: rules
output: {mode: all}
"""
WORKLOAD = """\
small:
  description: attention and a layer behind it, small
  source: none
  grade: assumed
  parameters: {hidden: 128, heads: 4, head_size: 32, sequence: 64, layers: 2, global_batch: 4, word: 2 B}
  layers: layers
  batch: global_batch
  word: word
  stage_boundary: hidden*sequence*word*microbatch
  tiles: sequence
  kernels:
    - {name: q, type: gemm, outer: heads, m: head_size, k: hidden, n: sequence*microbatch, weight: true, tile: n}
    - {name: k, type: gemm, outer: heads, m: head_size, k: hidden, n: sequence*microbatch, weight: true, tile: n}
    - {name: v, type: gemm, outer: heads, m: head_size, k: hidden, n: sequence*microbatch, weight: true, tile: n}
    - {name: scores, type: batched_gemm, outer: heads*microbatch, m: sequence, k: head_size, n: sequence, tile: n,
       inputs: [k, q]}
    - {name: softmax, type: elementwise, outer: heads*microbatch, m: sequence, n: sequence, tile: n, inputs: [scores]}
    - {name: mixture, type: batched_gemm, outer: heads*microbatch, m: head_size, k: sequence, n: sequence, tile: n,
       inputs: [v, softmax]}
    - {name: proj, type: gemm, m: hidden, k: hidden, n: sequence*microbatch, weight: true, tile: n, inputs: [mixture]}
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A labelled dataset."""
    return labelled(tmp_path_factory.mktemp("labels"))


@pytest.fixture(scope="module")
def partitions(directory: str) -> Partitions:
    """Its partitions."""
    return read_partitions(directory, LIBRARY)


@pytest.fixture(scope="module")
def library(partitions: Partitions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with a small workload and a unit model."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "workloads").mkdir()
    (folder / "workloads" / "small.yaml").write_text(WORKLOAD)
    (folder / "unit_models").mkdir()
    (folder / "unit_models" / "mine.yaml").write_text(as_yaml("mine", trained(partitions), partitions))
    return folder


def study_of(folder: Path, *changes: tuple[str, str]) -> Path:
    """The study with some of its text replaced."""
    text = STUDY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "placed.yaml"
    path.write_text(text)
    return path


LEARNED = ("unit_placement: rules", "unit_placement: learned\n  unit_model: mine")


# what operators ask for


@pytest.mark.parametrize("fabric", ["plasticine_narrow", "sn10_like"])
@pytest.mark.parametrize(
    ("name", "sizes", "shard"),
    [
        ("gemm", {"rows": 48, "columns": 130, "inner": 200}, {"rows": 2, "columns": 3, "inner": 2}),
        ("mlp", {"rows": 64, "width": 100, "depth": 3}, {"rows": 1, "columns": 5, "inner": 1}),
        ("ffn", {"rows": 33, "hidden": 96, "feed_forward": 300}, {"rows": 3, "columns": 2, "inner": 3}),
    ],
)
def test_what_is_asked_for_is_what_the_cut_units_do(
    name: str, sizes: dict[str, int], shard: dict[str, int], fabric: str
) -> None:
    """Demands come from the operators alone; the graph of their units has the same, piece by piece."""
    entry = LIBRARY.find("fabric", fabric)
    units, operators = units_of(entry), block(name, sizes, shard)
    graph = Cutting(units, operators).cut()
    bound = bound_cycles(units, operators, graph)
    asked = dict(zip(DEMANDS, demands_of(operators, units, sites_of(entry))))
    working = [member.cycles for member in graph.actors if member.task in (MULTIPLIES, *FUNCTIONS.values())]
    assert asked["busy"] == pytest.approx(max(working) / bound)
    assert 2.0 ** asked["pieces"] == pytest.approx(len(working))
    sent = {
        task: max(flow.cycles for flow in graph.flows if graph.actors[flow.source].task == task)
        for task in (READS, READS_WEIGHTS)
    }
    assert max(asked["left"], asked["result"]) >= sent[READS] / bound * (1 - 1e-12)
    assert asked["right"] == pytest.approx(sent[READS_WEIGHTS] / bound)
    assert asked["lanes"] == entry.values["lanes"].number


def test_samples_have_as_many_bursts_as_are_simulated() -> None:
    assert BURSTS == graph_of_units.BURSTS


def test_more_lanes_and_ports_never_ask_for_more() -> None:
    operators = block("ffn", {}, {})
    found = [
        dict(zip(DEMANDS, demands_of(operators, units_of(entry), sites_of(entry))))
        for entry in (LIBRARY.find("fabric", name) for name in ("plasticine", "plasticine_narrow"))
    ]
    assert found[0]["lane_load"] == pytest.approx(found[1]["lane_load"] / 2.0)
    assert found[0]["entering"] == pytest.approx(found[1]["entering"] / 2.0)
    assert found[0]["busy"] == found[1]["busy"]


# what is learned


def test_the_best_placement_of_every_graph_is_its_label(directory: str, partitions: Partitions) -> None:
    data = pl.scan_parquet(f"{directory}/**/*.parquet").select("graph", "share_of_bound").collect()
    best = data.group_by("graph").agg(pl.col("share_of_bound").max()).sort("graph")
    assert partitions.share.tolist() == best["share_of_bound"].to_list()
    assert (partitions.demands[:, DEMANDS.index("busy")] * partitions.share <= 1.0 + 1e-9).all()


def test_a_unit_model_fits_what_it_saw_and_is_the_same_again(partitions: Partitions) -> None:
    model = trained(partitions)
    learned, busiest = shares_of(model, partitions), partitions.by_rules
    error = [np.abs(each / partitions.share - 1.0).mean() for each in (learned, busiest)]
    assert error[0] < 0.5 * error[1]
    assert all(np.array_equal(a, b) for a, b in zip(model, trained(partitions)))
    assert learned[0] != shares_of(trained(partitions.taken(np.arange(1, len(learned)))), partitions)[0]


def test_kept_out_graphs_are_kept_out(partitions: Partitions) -> None:
    """A graph is in one fold on all fabrics: predictions of it do not change with its label."""
    found = validated(partitions, 4)["parts"]
    assert found["all"]["partitions"] == len(partitions.share)
    assert found["all"]["mean"]["rank"] < 0.5
    twice = Partitions(
        "x", *(np.concatenate([getattr(partitions, name)] * 2) for name in ("demands", "share", "fabric", "graph"))
    )
    assert validated(twice, 4)["parts"]["all"]["mean"] == pytest.approx(found["all"]["mean"])


def test_a_unit_model_that_was_written_is_the_same(partitions: Partitions, library: Path) -> None:
    entry = Library.load([library, builtin_specs()]).find("unit_model", "mine")
    model = read_unit_model(entry)
    assert model_hash(model) == model_hash(trained(partitions))
    assert model_hash(model) in (library / "unit_models" / "mine.yaml").read_text()
    assert entry.fits == {"fabric": ("plasticine_narrow",)}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("  last: [", "  last: [0.1, ", f"found {HIDDEN + 2} numbers; there are {HIDDEN + 1}"),
        ("  ranges:", "  ranges:\n    colour: [0.0, 1.0]", "unknown key of the ranges of a unit model 'colour'"),
        ("    busy: [", "    busy: [99.0, 1.0] # ", "the least comes first"),
        ("  last: [", "  lost: [", "unknown key"),
        ("  grade: fitted\n", "", "lacks"),
        ("    busy: [", "    busy: [.nan, 1.0] # ", "found .nan"),
    ],
)
def test_a_mistake_in_a_unit_model_is_named(old: str, new: str, words: str, library: Path, tmp_path: Path) -> None:
    (tmp_path / "unit_models").mkdir()
    text = (library / "unit_models" / "mine.yaml").read_text()
    assert old in text
    (tmp_path / "unit_models" / "mine.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(SpecError, match=words.replace("[", r"\[")):
        make_plan(study_of(tmp_path, LEARNED), [tmp_path, library])


# sweeps


def rows(study: Path, library: Path, out: Path) -> tuple[pl.DataFrame, dict[str, str]]:
    """The dataset of a study, and its metadata."""
    result = run(make_plan(study, [library]), out=out, quiet=True)
    table = pyarrow.dataset.dataset([str(part) for part in Path(result.directory).rglob("*.parquet")]).to_table()
    return pl.DataFrame(table), {key.decode(): value.decode() for key, value in table.schema.metadata.items()}


def test_compute_takes_as_much_longer_as_placement_says(library: Path, tmp_path: Path) -> None:
    found = {}
    for choice, changes in {
        "ideal": [("  fabric: plasticine_narrow\n", ""), ("rules", "ideal")],
        "rules": [],
        "learned": [LEARNED],
    }.items():
        text = [
            *changes,
            (
                "output: {mode: all}",
                "output: {mode: all, columns: [graph_compute_time_s, unit_share, unit_placement_known]}",
            ),
        ]
        found[choice], metadata = rows(study_of(tmp_path, *text), library, tmp_path / choice)
        assert ("sweeper.unit_models" in metadata) == (choice == "learned")
    assert found["ideal"]["unit_share"].item() == 1.0
    for choice in ("rules", "learned"):
        share = found[choice]["unit_share"].item()
        assert 0.1 < share < 1.0
        assert found[choice]["graph_compute_time_s"].item() * share == pytest.approx(
            found["ideal"]["graph_compute_time_s"].item()
        )
    model = read_unit_model(Library.load([library, builtin_specs()]).find("unit_model", "mine"))
    assert json.loads(metadata["sweeper.unit_models"]) == {"mine": model_hash(model)}


def test_a_study_that_places_units_says_so_in_its_columns(library: Path, tmp_path: Path) -> None:
    """What the training had not is told apart: here, more units than any graph of it."""
    found, _ = rows(
        study_of(tmp_path, LEARNED, ("fabric: plasticine_narrow", "fabric: plasticine_narrow\n  fabric.rows: [8, 80]")),
        library,
        tmp_path,
    )
    assert {"unit_share", "unit_placement_known"} <= set(found.columns)
    assert found.sort("fabric_rows")["unit_placement_known"].to_list()[1] == 0.0


def test_a_demand_beyond_the_training_counts_as_one_at_its_edge() -> None:
    ranges = np.column_stack([np.zeros(len(DEMANDS)), np.ones(len(DEMANDS))])
    model = UnitModel(ranges, np.full((HIDDEN, len(DEMANDS) + 1), 0.01), np.full(HIDDEN + 1, -0.01))
    inside, outside = np.ones(len(DEMANDS)), np.ones(len(DEMANDS))
    outside[DEMANDS.index("pieces")] = 7.0
    assert share_learned(inside, model) == share_learned(outside, model) < share_by_rules(inside)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("  fabric: plasticine_narrow\n", "")], "add an axis such as fabric"),
        ([("rules", "learned")], "add an axis such as unit_model"),
        ([("rules", "ideal")], "nothing reads it"),
        (
            [LEARNED, ("fabric: plasticine_narrow", "fabric: plasticine")],
            "unit_model mine goes with fabric plasticine_narrow",
        ),
        ([("fabric: plasticine_narrow", "fabric: sn30_like")], "fabric sn30_like goes with chip sn30"),
        ([("rules", "rules\n  unit_allocation: integer")], "unit_allocation: integer already counts whole units"),
        ([("rules", "simulated")], "allowed: ideal, learned, rules"),
    ],
)
def test_what_a_study_lacks_or_contradicts_is_named(
    changes: list[tuple[str, str]], words: str, library: Path, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=words):
        make_plan(study_of(tmp_path, *changes), [library])


# one point, simulated


def placed(plan: Plan, effort: Effort) -> list[SimulatedPartition]:
    """The partitions of the first point."""
    mapped = mapped_point(plan, 0)
    return [mapped.simulated(partition, effort) for partition in mapped.partitions]


def test_partitions_of_a_point_are_placed_and_simulated(library: Path, tmp_path: Path) -> None:
    plan = make_plan(study_of(tmp_path), [library])
    found = placed(plan, Effort(2, 2000))
    assert [name for each in found for name in each.kernels] == ["q", "k", "v", "scores", "softmax", "mixture", "proj"]
    for each in found:
        assert each.simulated_share is not None
        assert 0.05 < each.simulated_share <= 1.0
        assert each.units <= 64
        slower = each.simulated_total_s >= each.total_s
        assert slower == (each.simulated_share <= each.expected_share) or each.simulated_total_s == each.total_s
    assert placed(plan, Effort(2, 2000)) == found


def test_a_partition_that_fits_nowhere_says_why(library: Path, tmp_path: Path) -> None:
    changes = ("fabric: plasticine_narrow", "fabric: plasticine_narrow\n  fabric.memory_capacity: 64 B")
    (only, *_) = placed(make_plan(study_of(tmp_path, changes), [library]), Effort(1, 100))
    assert only.simulated_share is None
    assert "memory unit" in only.reason


def test_the_commands(directory: str, library: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    saved = tmp_path / "again.yaml"
    done = runner.invoke(main, ["fit-units", directory, "--folds", "3", "--save", str(saved), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["parts"]["all"]["learned"]["relative_error"] < 0.5
    assert (
        saved.read_text().partition("ranges")[2]
        == (library / "unit_models" / "mine.yaml").read_text().partition("ranges")[2]
    )
    study = str(study_of(tmp_path))
    options = ["--library", str(library), "--out", str(tmp_path), "--simulate", "--moves", "500", "--candidates", "1"]
    done = runner.invoke(main, ["map", study, "0", *options])
    assert done.exit_code == 0, done.output
    assert "simulated ms" in done.output
    assert runner.invoke(main, ["fit-units", directory, "--folds", "99"]).exit_code == 2
    plain = study_of(tmp_path, ("  fabric: plasticine_narrow\n", ""), ("rules", "ideal"))
    done = runner.invoke(
        main, ["map", str(plain), "0", "--library", str(library), "--out", str(tmp_path), "--simulate"]
    )
    assert done.exit_code == 2
    assert done.output == (
        "point 0 lies on no fabric: add the axes fabric: sn10_like and unit_placement: rules, or others like these\n"
    )


def test_what_has_no_graph_is_told_so_before_anything_is_said(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["map", "calculon_search", "0", "--out", str(tmp_path), "--simulate"])
    assert done.exit_code == 2 and "no graph of kernels" in done.output and len(done.output.splitlines()) == 1


def test_placing_tells_how_far_it_is(library: Path, tmp_path: Path) -> None:
    options = ["--library", str(library), "--out", str(tmp_path), "--simulate", "--moves", "10", "--candidates", "1"]
    path = study_of(tmp_path, ("partitioning: optimal", "partitioning: kernel_by_kernel"))
    done = CliRunner().invoke(main, ["map", str(path), "0", *options])
    assert done.exit_code == 0 and "partition 1 of 7" not in done.stdout
    told = [line.partition(":")[0] for line in done.stderr.splitlines() if line.startswith("partition ")]
    assert told == [f"partition {number} of 7" for number in range(1, 8)]
