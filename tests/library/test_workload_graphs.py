"""Workload graphs of the library against published sizes: parameters, operations, collectives; all of them run."""

import csv
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sweeper
from sweeper.kernels.codes import KERNEL_TYPES
from sweeper.kernels.graphs.sharding import K, M, N
from sweeper.library import graph_arrays as graph
from sweeper.library.graph_workload import Workload, read_workload
from sweeper.library.layers.model import graph_of
from sweeper.library.library import Library, builtin_specs
from sweeper.study.columns import Stock
from tests.places import DATA, ROOT

GRAPHS = {
    "gpt3_175b_layers": 72,
    "gpt3_175b_11_layers": 198,
    "gpt_256k_forward": 18,
    "llama3_70b_layers_training": 41,
    "llama3_70b_2_layers_training": 82,
    "mixtral_8x7b_experts": 38,
    "mixtral_4_experts": 22,
    "dit_xl_2": 21,
    "unet": 31,
}
"""Kernels of each graph."""


def workload(name: str) -> Workload:
    return read_workload(Library.load([builtin_specs()]).find("workload", name))


def published(model: str) -> int:
    """Parameters of a model as published."""
    with (DATA / "published_models.csv").open() as file:
        return next(int(row["published_parameters"]) for row in csv.DictReader(file) if row["model"] == model)


def sizes(given: Workload) -> np.ndarray:
    """Rows (outer x m), depth and columns of every kernel for one sample on one chip."""
    mapping = {name: np.ones(1) for name in graph.dimension_symbols(given) - given.parameters.keys()}
    symbols = mapping | {name: np.full(1, value) for name, value in given.parameters.items()}
    dims = graph.dimensions(given).evaluate(symbols, 1)[0]
    return np.stack([dims[:, 0] * dims[:, M], dims[:, K], dims[:, N]], axis=1)


def weights(name: str, phase: str = "forward") -> float:
    """Entries of all weights of a phase."""
    given = workload(name)
    found = [size[0] * size[1] for kernel, size in zip(given.kernels, sizes(given)) if kernel.weight]
    phases = [kernel.phase for kernel in given.kernels if kernel.weight]
    return float(sum(size for size, at in zip(found, phases) if at == phase))


def product_flops(name: str) -> float:
    """Operations of all products of matrices for one sample."""
    given = workload(name)
    return float(
        sum(2 * size.prod() for kernel, size in zip(given.kernels, sizes(given)) if kernel.type != "elementwise")
    )


@pytest.mark.parametrize(("name", "kernels"), GRAPHS.items())
def test_kernels(name: str, kernels: int) -> None:
    given = workload(name)
    assert len(given.kernels) == kernels
    assert {kernel.type for kernel in given.kernels} <= set(KERNEL_TYPES)


@pytest.mark.parametrize(("name", "layers"), [("gpt3_175b_layers", 4), ("gpt3_175b_11_layers", 11)])
def test_gpt3_layers(name: str, layers: int) -> None:
    """Each layer is the published graph of one layer, joined to the next by the sum that ends it."""
    one, several = workload("gpt3_175b_forward"), workload(name)
    assert [kernel.name for kernel in several.kernels] == [
        f"{kernel.name}_{layer}" for layer in range(1, layers + 1) for kernel in one.kernels
    ]
    assert np.array_equal(sizes(several), np.tile(sizes(one), (layers, 1)))
    assert several.scalars["layers"].evaluate(several.parameters) * layers == {4: 96, 11: 88}[layers]
    inside = len(graph.edges(one))
    assert len(graph.edges(several)) == layers * inside + layers - 1
    assert weights(name) == layers * 12 * 12288**2


def test_gpt_256k() -> None:
    """The "100T" model: 12 hidden^2 per layer."""
    assert weights("gpt_256k_forward") * 128 == 12 * 256_000**2 * 128 == 100_663_296_000_000


@pytest.mark.parametrize(("name", "layers"), [("llama3_70b_layers_training", 1), ("llama3_70b_2_layers_training", 2)])
def test_llama3_70b(name: str, layers: int) -> None:
    """Matrices of a layer: what the weights' files hold, less embedding, head and norms. Training does six operations
    per weight and token, and 12 x tokens x hidden per token in attention (PaLM, appendix B, without a causal mask)."""
    embedding_and_head, norms = 2 * 128_256 * 8192, (2 * 80 + 1) * 8192
    layer = (published("llama3_70b") - embedding_and_head - norms) / 80
    assert layer == 855_638_016
    assert weights(name) == weights(name, "backward") == layers * layer
    tokens = 8192
    assert product_flops(name) == layers * tokens * (6 * layer + 12 * tokens * 8192)
    given = workload(name)
    gradients = [size for kernel, size in zip(given.kernels, sizes(given)) if kernel.gradient]
    assert len(gradients) == 7 * layers
    assert sum(rows * columns for rows, _, columns in gradients) == layers * layer


def test_llama3_70b_backward_starts_at_the_last_layer() -> None:
    names = [kernel.name for kernel in workload("llama3_70b_2_layers_training").kernels]
    assert names.index("down_2") < names.index("grad_2") < names.index("norm1_b_2") < names.index("grad_1")


def test_mixtral() -> None:
    """The eight experts and the router are what the weights' files hold, less attention, norms, embedding, head."""
    attention = 2 * 4096**2 + 2 * 4096 * 1024
    others = 32 * (attention + 2 * 4096) + 4096 + 2 * 32_000 * 4096
    assert weights("mixtral_8x7b_experts") * 32 == published("mixtral_8x7b") - others
    expert, tokens = 3 * 4096 * 14336, 4096
    assert product_flops("mixtral_8x7b_experts") == 2 * tokens * (2 * expert + 8 * 4096)
    assert product_flops("mixtral_4_experts") == 2 * tokens * (2 * expert + 4 * 4096)


def test_dit_xl_2() -> None:
    """118.6 "Gflops", which are multiply-adds, and 675 million parameters: DiT paper, table 4."""
    assert product_flops("dit_xl_2") * 28 / 2 == pytest.approx(118.6e9, rel=5e-4)
    patches, last = 2 * 2 * 4 * 1152, 1152 * (2 * 2 * 8) + 2 * 1152**2
    times_and_classes, biases = 256 * 1152 + 1152**2 + 1001 * 1152, 28 * (3 + 1 + 4 + 1 + 6) * 1152
    assert weights("dit_xl_2") * 28 + patches + last + times_and_classes + biases == pytest.approx(675e6, abs=0.5e6)


def test_unet() -> None:
    """The 23 convolutions of the paper's figure: side and channels of what each makes, channels of what it reads."""
    figure = [
        (570, 64, 1), (568, 64, 64), (282, 128, 64), (280, 128, 128), (138, 256, 128), (136, 256, 256),
        (66, 512, 256), (64, 512, 512), (30, 1024, 512), (28, 1024, 1024),
        (54, 512, 1024), (52, 512, 512), (102, 256, 512), (100, 256, 256), (198, 128, 256), (196, 128, 128),
        (390, 64, 128), (388, 64, 64),
    ]  # fmt: skip
    up = [(56, 512, 1024), (104, 256, 512), (200, 128, 256), (392, 64, 128)]
    threes = sum(9 * made * read for _, made, read in figure)
    twos = sum(4 * made * read for _, made, read in up)
    assert weights("unet") == threes + twos + 2 * 64
    work = sum(2 * side**2 * 9 * made * read for side, made, read in figure)
    work += sum(2 * side**2 * made * read for side, made, read in up)  # each pixel comes of one of the lower level
    assert product_flops("unet") == work + 2 * 388**2 * 2 * 64
    given = workload("unet")
    skips = [kernel for kernel in given.kernels if kernel.name.startswith("concat")]
    assert [[given.kernels[i].name for i in kernel.inputs] for kernel in skips] == [
        [f"down_b_{level}", f"up_{level}"] for level in (4, 3, 2, 1)
    ]


def test_norms_say_over_what_they_reduce() -> None:
    """Of every graph of the library and of the examples, so that a split of that dimension is paid."""
    library = Library.load([ROOT / "examples" / "my_library", builtin_specs()])
    read = Stock(library)
    graphs = {name: graph_of(read.workload(name)) for name in library.names("workload")}
    norms = {
        f"{name}: {kernel.name}": kernel.reduces
        for name, found in graphs.items()
        for kernel in (found.kernels if found else ())
        if kernel.type == "elementwise" and any(word in kernel.name for word in ("norm", "ln", "softmax", "top_k"))
    }
    assert len(norms) > 100
    assert [name for name, dimension in norms.items() if dimension != "m"] == []


STUDY = """\
study: graphs
assumptions: full_physics
axes:
  workload: [{workloads}]
  chip: sn40l
  memory: hbm_sn40l
  memory.capacity: 100 TB
  link: nvlink4
  topology: ring
  chips: 8
  dim_x: 8
  tensor_parallel: 8
  partitioning: [{partitioning}]
output: {{columns: [utilisation, iteration_time_s, parameters_B, graph_gradients_B]}}
"""


def evaluate(folder: Path, partitioning: str, *names: str) -> pl.DataFrame:
    path = folder / "graphs.yaml"
    path.write_text(STUDY.format(workloads=", ".join(names), partitioning=partitioning))
    plan = sweeper.plan(path)
    return pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)])


def test_mapped(tmp_path: Path) -> None:
    """Every graph runs on eight chips; the best partitioning is no slower than one kernel at a time."""
    frame = evaluate(tmp_path, "kernel_by_kernel, optimal", *GRAPHS)
    assert frame.height == 2 * len(GRAPHS)
    assert frame["feasible"].all()
    assert frame["utilisation"].is_between(0.0, 0.9).all()
    apart, best = (frame.filter(pl.col("partitioning") == name) for name in ("kernel_by_kernel", "optimal"))
    both = apart.join(best, on="workload", suffix="_best")
    assert (both["iteration_time_s_best"] <= both["iteration_time_s"]).all()


def test_llama3_70b_sharded_as_megatron_does(tmp_path: Path) -> None:
    """The given split needs two all-reduces of a layer's forward and two of its backward pass and nothing else; at the
    calibrated share of links, each launched."""
    layers, columns = 2, "graph_network_time_s, graph_time_s"
    path = tmp_path / "sharded.yaml"
    text = STUDY.format(workloads="llama3_70b_2_layers_training", partitioning="kernel_by_kernel")
    text = text.replace("utilisation", columns).replace("axes:", "axes:\n  sharding: [given, least_time]")
    path.write_text(text.replace("  link: nvlink4", "  link: nvlink4\n  latency: ignored"))
    plan = sweeper.plan(path)
    given, least = pl.DataFrame(plan.evaluate(0)).sort("sharding").to_dicts()
    assert (given["sharding"], least["sharding"]) == ("given", "least_time")
    for row in (given, least):
        assert row["parameters_B"] * 8 == row["graph_gradients_B"] * 8 == layers * 2 * 855_638_016
    tensor_B = 8192 * 8192 * 2
    all_reduce_s = 5e-6 + 2 * 7 / 8 * tensor_B / (0.8 * 450e9)
    assert given["graph_network_time_s"] == pytest.approx(layers * 4 * all_reduce_s, rel=1e-12)
    assert least["graph_time_s"] < given["graph_time_s"]
