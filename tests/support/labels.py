"""A small study of placements, labelled: what cost models and unit models are tried on."""

from pathlib import Path

from sweeper.placing.decisions import load_decisions
from sweeper.placing.labels import DecisionPlan
from sweeper.running.execution import run

STUDY = """\
study: few
placements:
  fabrics: [plasticine_narrow]
  blocks:
    gemm: {rows: [32, 64], columns: [64, 128], inner: [64, 128]}
    ffn: {rows: [32, 64], hidden: [64, 96], feed_forward: [128, 192]}
  shard: {rows: [1, 2], columns: [2, 4], samples: [1, 2]}
  units: [8, 60]
  graphs: 12
  decisions: 6
  moves: [0, 20, 50, 200]
"""
"""12 graphs with 6 decisions each."""


def labelled(folder: Path) -> str:
    """Directory of the dataset, which is written into a folder."""
    path = folder / "few.yaml"
    path.write_text(STUDY)
    return run(DecisionPlan(load_decisions(path)), out=folder, quiet=True).directory
