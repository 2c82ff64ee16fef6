"""No graph of the library does on any chip what is no product faster than its vector units can."""

from pathlib import Path

import numpy as np
import pytest

import sweeper
from sweeper.inputs.families import family_of
from sweeper.kernels.graphs.loads import FLOPS
from sweeper.kernels.graphs.sharding import ELEMENTWISE, OPERATIONS_EACH, SCAN, TYPE
from sweeper.library.library import Library, builtin_specs
from sweeper.planning.plan import Plan
from sweeper.study.columns import Stock
from tests.places import ROOT

EXAMPLES = ROOT / "examples" / "my_library"
LIBRARY = Library([EXAMPLES, builtin_specs()])
CHIPS = [name for name in LIBRARY.names("chip") if name != "generated"]
GRAPHS = [name for name in LIBRARY.names("workload") if family_of(Stock(LIBRARY).workload(name)) in ("graph", "layers")]

BY_ARRAY = {"h100_sxm", "h100_sxm_half", "tpu_v4", "sn30", "wse_2", "sn10", "sn40l", "a100_dfmodel"} | {
    "a100_dfmodel_fp32", "h100_dfmodel_fp64"
}  # fmt: skip
"""Chips as DFModel describes them, by the array of a core alone: one of its columns works on vectors, an operation a
cycle. That is the peak over twice the columns."""
WITHOUT_MATRIX_UNITS = {"p100_sxm2_fp64", "p100_pcie_fp64", "v100_sxm2_fp64", "v100_pcie_fp64"}
"""Their products run on their vector units, in 64 bits."""
ONLY_PRODUCTS = {"dlrm_793b", "dlrm_a", "fft_1t", "fft_550g", "hpl_1m", "hpl_5m", "hpl_eos"}
"""Graphs of the publication that have nothing but products."""

STUDY = f"""\
study: vectors
override: memory
axes:
  workload: [{", ".join(GRAPHS)}]
  chip: [{", ".join(CHIPS)}]
  memory: hbm3
  link: nvlink4
  topology: ring
  chips: 8
  dim_x: 8
  data_parallel: 8
output: {{columns: [iteration_time_s]}}
"""
COLUMNS = ("kernel_traits", "kernel_dims", "kernel_loads", "kernel_together_s", "kernel_alone_s", "chip_peak_flops",
           "chip_vector_flops", "chip_stages")  # fmt: skip


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    path: Path = tmp_path_factory.mktemp("vectors") / "vectors.yaml"
    path.write_text(STUDY)
    return sweeper.plan(path, [EXAMPLES])


@pytest.mark.parametrize("graph", GRAPHS)
def test_vectors_take_their_time(plan: Plan, graph: str) -> None:
    """Operations over seconds of every elementwise kernel and scan, on every chip: the rate of its vector units, and
    less than its matrix peak. A kernel alone is no faster."""
    first = GRAPHS.index(graph) * len(CHIPS)
    values = plan.points(range(first, first + len(CHIPS)), COLUMNS)
    kinds = values["kernel_traits"][..., TYPE]
    vectors = (kinds == ELEMENTWISE) | (kinds == SCAN)
    assert vectors.any() != (graph in ONLY_PRODUCTS)
    operations = values["kernel_loads"][..., FLOPS] * values["kernel_dims"][..., OPERATIONS_EACH]
    assert (operations[vectors] > 0.0).all()
    for number, chip in enumerate(CHIPS):
        mine = vectors[number]
        peak, stated = values["chip_peak_flops"][number], values["chip_vector_flops"][number]
        together_s, alone_s = values["kernel_together_s"][number][mine], values["kernel_alone_s"][number][mine]
        rates = operations[number][mine] / together_s
        expected = peak / (2.0 * values["chip_stages"][number]) if chip in BY_ARRAY else stated
        assert rates == pytest.approx(np.full(mine.sum(), expected), rel=1e-12), chip
        assert expected <= peak if chip in WITHOUT_MATRIX_UNITS else expected <= peak / 2.0, chip
        assert (alone_s >= together_s).all(), chip


def test_every_chip_states_its_vector_units() -> None:
    """Of those that stand beside them, DFModel's excepted."""
    silent = {name for name in CHIPS if LIBRARY.find("chip", name).values["vector_flops"].number == 0.0}
    assert silent == BY_ARRAY
