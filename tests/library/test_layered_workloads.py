"""Models whose layers are graphs of kernels: what is read of an entry, and the mistakes that are named."""

from pathlib import Path

import pytest

from sweeper.errors import SpecError
from sweeper.library.layers.model import LayeredModel, graph_of, kernel_rows, read_layers
from sweeper.library.library import Library, builtin_specs
from sweeper.library.table_workload import read_table
from sweeper.study.columns import Stock
from tests.support.small_specs import write_files

HEAD = "mine:\n  extends: gpt3_175b\n  source: s\n  grade: assumed\n"
WORD = "  word: activation_B\n"
KERNELS = (
    "{name: up, type: gemm, m: feed_forward, k: hidden, n: tokens, weight: true, tile: n}",
    "{name: gelu, type: elementwise, m: feed_forward, n: tokens, operations: 8, inputs: [up]}",
)


def entry_text(kernels: tuple[str, ...] = KERNELS, scalars: str = WORD) -> str:
    return HEAD + scalars + "  kernels:\n" + "".join(f"  - {kernel}\n" for kernel in kernels)


def read(folder: Path, text: str) -> LayeredModel:
    library = Library.load([builtin_specs(), write_files(folder, {"workloads/mine.yaml": text})])
    return read_layers(library.find("workload", "mine"))


def test_a_model_has_the_table_that_it_extends_and_a_graph(tmp_path: Path) -> None:
    library = Library.load([builtin_specs()])
    table, model = read_table(library.find("workload", "gpt3_175b")), read(tmp_path, entry_text())
    assert model.family == "layers"
    assert [each.name for each in model.operators] == [each.name for each in table.operators]
    assert model.parameters == table.parameters
    assert [kernel.name for kernel in model.graph.kernels] == ["up", "gelu"]
    assert model.graph.kernels[1].inputs == (0,)
    assert model.graph.kernels[0].weight
    assert model.graph.kernels[1].operations.evaluate({}) == 8.0
    assert len(kernel_rows(model)) == 2
    assert {"word", "tiles"} == model.graph.scalars.keys()
    assert model.graph.scalars["tiles"].evaluate({}) == 1.0


def test_the_family_follows_from_what_an_entry_has(tmp_path: Path) -> None:
    """Operators and kernels: a model whose layers are graphs; one of the two: a table or a graph."""
    stock = Stock(Library.load([builtin_specs(), write_files(tmp_path, {"workloads/mine.yaml": entry_text()})]))
    mine, table, graph = (stock.workload(name) for name in ("mine", "gpt3_175b", "gpt3_1t"))
    assert isinstance(mine, LayeredModel)
    assert not isinstance(table, LayeredModel)
    assert (graph_of(mine), graph_of(table), graph_of(graph)) == (mine.graph, None, graph)
    assert mine.partitions.keys() == mine.graph.partitions.keys() >= {"kernel_by_kernel", "single", "optimal"}


def test_kernels_may_name_definitions_and_columns_of_the_mapping(tmp_path: Path) -> None:
    """`tokens` is a definition of the table, which depends on the microbatch."""
    up, _ = read(tmp_path, entry_text()).graph.kernels
    assert "tokens" in up.n.symbols
    wide = "{name: a, type: elementwise, m: hidden, n: tokens * tensor_parallel}"
    (kernel,) = read(tmp_path, entry_text((wide,))).graph.kernels
    assert kernel.n.symbols == {"tokens", "tensor_parallel"}


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("{name: a, type: gemm, m: wideness, k: 1, n: 1}", "unknown name 'wideness'"),
        ("{name: a, type: softmax, m: 1, n: 1}", "softmax"),
        ("{name: a, type: elementwise, m: 1, n: 1, inputs: [b]}", "unknown kernel 'b'"),
        ("{name: a, type: elementwise, m: 1}", "'n'"),
        ("{name: a, type: elementwise, m: 1, n: 1, causal: perhaps}", "causal"),
        ('{name: "a_{i}", repeat: {i: [0, microbatch]}, type: elementwise, m: 1, n: 1}', "microbatch"),
        ("{name: a, repeat: {i: [0, 1]}, type: elementwise, m: 1, n: 1}", "duplicate kernel 'a'"),
        ("{name: a, type: gemm, place: layer, m: 1, k: 1, n: 1}", "place"),
    ],
)
def test_mistakes_of_kernels_are_named(tmp_path: Path, kernel: str, words: str) -> None:
    with pytest.raises(SpecError, match=words) as caught:
        read(tmp_path, entry_text((kernel,)))
    assert all(problem.line == 7 for problem in caught.value.problems)


def test_the_bytes_of_an_element_have_no_default(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="word"):
        read(tmp_path, entry_text(scalars=""))


def test_mistakes_of_the_table_are_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="operator 'a' stands twice"):
        read(tmp_path, entry_text() + "  operators:\n" + "  - {name: a, type: gemm}\n" * 2)


def test_gpt3_1t_has_one_backward_kernel_and_one_gradient_for_each_weight() -> None:
    library = Library.load([builtin_specs()])
    graph = read_layers(library.find("workload", "gpt3_1t_layers")).graph
    weights = {i for i, kernel in enumerate(graph.kernels) if kernel.weight and kernel.phase == "forward"}
    assert len(graph.kernels) == 24
    assert {graph.kernels[i].name for i in weights} == {"qkv", "projection", "up", "down"}
    for phase in ("backward", "update"):
        shared = [kernel.of for kernel in graph.kernels if kernel.phase == phase and kernel.of is not None]
        assert len(shared) == len(weights)
        assert set(shared) == weights
    assert all(kernel.gradient for kernel in graph.kernels if kernel.phase == "update")
