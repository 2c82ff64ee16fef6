"""Studies of placements: drawn graphs, labels as rows, and one clear error for each mistake."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from sweeper.cli import main
from sweeper.errors import SpecError
from sweeper.kernels.placement.features import Features
from sweeper.placing.blocks import block
from sweeper.placing.decisions import DecisionStudy, load_decisions
from sweeper.placing.labels import LABEL, NODES, DecisionPlan
from sweeper.running.execution import run
from sweeper.views.datasets import scan
from tests.places import ROOT

STUDY = """\
study: few
placements:
  fabrics: [plasticine_narrow]
  blocks:
    gemm: {rows: [32, 64], columns: [64, 128], inner: 64}
    mha: {rows: 32, hidden: 64, heads: [2, 4], head_width: 16}
  shard: {rows: [1, 2], columns: [2, 4], samples: [1, 2]}
  units: [8, 90]
  graphs: 4
  decisions: 3
  moves: [0, 200]
  congestion: [0, 0.01]
"""


def study_of(folder: Path, text: str = STUDY) -> DecisionStudy:
    """A study of placements from its text."""
    path = folder / "few.yaml"
    path.write_text(text)
    return load_decisions(path)


def test_labels_are_rows_with_features_and_the_same_bytes_for_any_backend(tmp_path: Path) -> None:
    plan = DecisionPlan(study_of(tmp_path))
    plan.check()
    here = run(plan, out=tmp_path / "here", quiet=True)
    there = run(plan, out=tmp_path / "there", backend="ray", workers=2, quiet=True)
    assert (here.rows, here.points, here.feasible) == (12, 12, 12)
    parts = [sorted((Path(result.directory) / "data").iterdir()) for result in (here, there)]
    assert [part.read_bytes() for part in parts[0]] == [part.read_bytes() for part in parts[1]]
    rows = scan(here.directory).sort("point_id").collect()
    assert rows["point_id"].to_list() == list(range(12))
    assert rows["block"].cast(str).to_list() == [*["gemm"] * 3, *["mha"] * 3] * 2
    assert ((rows[LABEL] > 0.0) & (rows[LABEL] <= 1.0 / rows["peak"].clip(1.0) + 1e-9)).all()
    assert np.allclose(rows[LABEL] * rows["interval_cycles"], rows["bound_cycles"])
    lengths = rows.select(pl.col(f"node_{name}").list.len() for name in NODES)
    assert (lengths.to_numpy() == rows["actors"].to_numpy()[:, None]).all()
    assert all(rows[name].list.len().min() >= 0 for name in Features._fields)
    # The same study again has nothing to do; one that lost a part makes the same part again.
    parts[0][1].unlink()
    again = run(plan, out=tmp_path / "here", quiet=True)
    assert again.computed_chunks == 1
    assert parts[0][1].read_bytes() == parts[1][1].read_bytes()


def test_a_graph_is_found_from_its_number_alone(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    fabric = study.fabrics[0]
    graphs = [study.graph(fabric, number) for number in range(4)]
    again = replace(study, graphs=1000).graph(fabric, 3)
    assert (again.sizes, again.shard) == (graphs[3].sizes, graphs[3].shard)
    assert len({json.dumps([graph.sizes, graph.shard]) for graph in graphs}) > 1
    assert all(study.units[0] <= len(graph.units.kinds) <= study.units[1] for graph in graphs)
    other = replace(study, seed=1)
    assert [study.graph(fabric, n).sizes for n in range(20)] != [other.graph(fabric, n).sizes for n in range(20)]


def test_every_value_is_drawn(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    for values in ((1,), (1, 2), (1, 2, 3, 5, 8)):
        assert {study.pick("x", values, draw) for draw in range(1, 200)} == set(values)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("fabrics: [plasticine_narrow]", "fabrics: [plasticin]", "3:13: placements.fabrics[1]: "),
        ("gemm: {rows", "gem: {rows", "5:5: placements.blocks.gem: unknown key of blocks 'gem', did you mean 'gemm'"),
        ("inner: 64}", "depth: 64}", "unknown key of size of gemm 'depth' (allowed: columns, inner, rows)"),
        ("inner: 64}", "inner: 6.5}", "found '6.5'; inner must be a whole number"),
        ("inner: 64}", "inner: [64, 64]}", "'64' is given twice"),
        ("shard: {rows", "shard: {row", "unknown key of sharding 'row', did you mean 'rows'"),
        ("units: [8, 90]", "units: [90, 8]", "found 90 and 8; the least comes first"),
        ("units: [8, 90]", "units: [8]", "found 1 numbers; units has two"),
        ("graphs: 4", "graphs: 0", "graphs must lie from 1 to"),
        ("  graphs: 4\n", "", "placements lacks the key 'graphs'"),
        ("congestion: [0, 0.01]", "congestion: [0, -1]", "placements.congestion[2]: "),
        ("placements:", "chips: 4\nplacements:", "unknown key of a study of placements 'chips'"),
        ("study: few\n", "", "a study of placements needs the key study"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_where_it_stands(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in STUDY
    with pytest.raises(SpecError) as caught:
        study_of(tmp_path, STUDY.replace(old, new))
    assert words in str(caught.value)


def test_graphs_that_fit_nowhere_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    study_of(tmp_path, STUDY.replace("units: [8, 90]", "units: [3000, 4000]"))
    found = CliRunner().invoke(main, ["run", str(tmp_path / "few.yaml"), "--out", str(tmp_path / "out")])
    assert found.exit_code == 2
    assert "no gemm in 1000 tries can be placed on plasticine_narrow" in found.output
    assert not (tmp_path / "out").exists()


def test_commands_that_take_such_a_study_and_those_that_do_not(tmp_path: Path) -> None:
    study_of(tmp_path, STUDY.replace("graphs: 4", "graphs: 2"))
    path, out = str(tmp_path / "few.yaml"), str(tmp_path / "out")
    size = CliRunner().invoke(main, ["plan", path, "--json"])
    assert json.loads(size.output)["points"] == 6
    done = CliRunner().invoke(main, ["run", path, "--out", out, "-q"])
    assert done.exit_code == 0
    assert "best over worst" in done.output
    state = CliRunner().invoke(main, ["status", path, "--out", out, "--json"])
    assert json.loads(state.output)["complete"]
    refused = CliRunner().invoke(main, ["explain", path, "--point", "0"])
    assert refused.exit_code == 2


def test_the_study_that_we_train_on_has_enough_decisions() -> None:
    study = load_decisions(ROOT / "specs" / "studies" / "placements.yaml")
    assert study.graphs * study.decisions * len(study.fabrics) >= 6000
    assert study.graphs >= 400
    assert {drawing.block for drawing in study.drawings} == {"gemm", "mlp", "ffn", "mha"}


def test_a_layer_is_attention_and_what_reads_it() -> None:
    operators = block("layer", {}, {"rows": 1, "columns": 1})
    names = [operator.name for operator in operators]
    assert len(set(names)) == len(names)
    reads = {operator.name: operator.inputs for operator in operators}
    assert reads["ffn_product_1"] == ("norm",)
    assert reads["ffn_sum"] == ("ffn_product_2", "norm")
