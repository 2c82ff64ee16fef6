"""`shards` of a workload: the splits of another run of the same graph."""

from pathlib import Path

import pytest

from sweeper.errors import SpecError
from sweeper.library.graph_workload import Workload, read_workload
from sweeper.library.library import Library, builtin_specs
from tests.support.small_specs import write_files

BASE = """
mlp:
  description: two layers
  source: test
  grade: assumed
  parameters: {width: 64, word: 2 B}
  layers: 1
  batch: 1
  word: word
  shards: {first: m}
  kernels:
    - {name: first, type: gemm, m: width, k: width, n: microbatch, weight: true, shard: k}
    - {name: second, type: gemm, m: width, k: width, n: microbatch, weight: true, shard: k, inputs: [first]}
other:
  extends: mlp
  source: test
  shards: {second: n}
afresh:
  extends: mlp
  source: test
  kernels:
    - {name: only, type: gemm, m: width, k: width, n: microbatch, weight: true, shard: k}
"""


def read(folder: Path, name: str, text: str = BASE) -> Workload:
    write_files(folder, {"workloads/mlp.yaml": text})
    return read_workload(Library.load([folder, builtin_specs()]).find("workload", name))


def shards(workload: Workload) -> dict[str, str]:
    return {kernel.name: kernel.shard for kernel in workload.kernels}


def test_they_replace_those_of_kernels(tmp_path: Path) -> None:
    assert shards(read(tmp_path, "mlp")) == {"first": "m", "second": "k"}


def test_an_entry_that_extends_adds_its_own(tmp_path: Path) -> None:
    assert shards(read(tmp_path, "other")) == {"first": "m", "second": "n"}


def test_new_kernels_have_their_own(tmp_path: Path) -> None:
    assert shards(read(tmp_path, "afresh")) == {"only": "k"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [("third: m", "unknown kernel 'third'"), ("first: q", "unknown shard 'q'"), ("first: [m]", "shard must be text")],
)
def test_mistakes(tmp_path: Path, wrong: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        read(tmp_path, "mlp", BASE.replace("first: m", wrong))


def test_the_two_kernels_of_the_run_on_tpus() -> None:
    library = Library.load([builtin_specs()])
    base, run = (shards(read_workload(library.find("workload", name))) for name in ("gpt3_1t", "gpt3_175b_training"))
    assert {name: run[name] for name in run if run[name] != base[name]} == {"ln1": "m", "dropout3": "m"}
