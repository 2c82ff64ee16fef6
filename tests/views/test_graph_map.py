"""Mappings shown: as a table, as a graph, as a drawing, on the command line."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.transforms import Bbox

import sweeper
from sweeper.cli import main
from sweeper.errors import UsageFault
from sweeper.library.library import builtin_specs
from sweeper.views.graph_map.drawing import KERNEL_HEIGHT, draw_graph_map, places, rects
from sweeper.views.graph_map.partitions import Edge, GraphMap, Partition, PlacedKernel, as_json, graph_map_of
from sweeper.views.graph_map.text import BOTTLENECKS, SCOPE, dot, labelled, proof, ranges, size_text, text

STUDIES = builtin_specs() / "studies"

TABLE_6_MS = {
    0: [22.195],
    1: [0.839, 1.762, 1.118, 1.762],
    2: [0.839, 0.252, 1.762, 1.762],
    3: [1.258, 1.510, 2.237, 2.237],
}
"""Times of the partitions of DFModel's Table VI by point of table6_sn10; of kernel by kernel, their sum."""


@cache
def mapped(study: str, point: int) -> GraphMap:
    return graph_map_of(sweeper.plan(STUDIES / f"{study}.yaml"), point)


def chain(partitions: int, kernels: int) -> GraphMap:
    """A mapping of a chain of kernels with a skip past every second one, dealt out evenly."""
    part_of = [i * partitions // kernels for i in range(kernels)]
    names = [f"kernel_{i}" for i in range(kernels)]
    ends = [(i, i + 1) for i in range(kernels - 1)] + [(i, i + 2) for i in range(0, kernels - 2, 2)]
    phases = ("forward", "backward", "update")
    limits = list(BOTTLENECKS)
    return GraphMap(
        study="made",
        point_id=7,
        workload="chain",
        chip="chip",
        partitioning="even",
        infeasible_reason="",
        kernels=tuple(
            PlacedKernel(name, "gemm", phases[i * 3 // kernels], "m", part_of[i] + 1, None)
            for i, name in enumerate(names)
        ),
        edges=tuple(Edge(names[i], names[j], 1e6 * (i + 1), part_of[i] != part_of[j]) for i, j in ends),
        partitions=tuple(
            Partition(
                p + 1,
                None,
                tuple(name for i, name in enumerate(names) if part_of[i] == p),
                *(1e-3, 2e-3, 3e-3, 3e-3),
                limits[p % len(limits)],
                *(1e6, 1e5, 1e7),
            )
            for p in range(partitions)
        ),
        sram_capacity_B=4e6,
        graph_time_s=3e-3 * partitions,
        objective="iteration_time_s",
        objective_value=1.0,
        mapping_time_s=None,
        mapping_bound_s=None,
        mapping_exact=None,
    )


# from a study


@pytest.mark.parametrize("point", TABLE_6_MS)
def test_table_6(point: int) -> None:
    found = mapped("table6_sn10", point)
    times = [1e3 * part.total_s for part in found.partitions]
    if point == 0:
        assert [part.kernels for part in found.partitions] == [(kernel.name,) for kernel in found.kernels]
        times = [sum(times)]
    assert times == pytest.approx(TABLE_6_MS[point], abs=5e-4)
    assert found.graph_time_s == pytest.approx(sum(part.total_s for part in found.partitions), rel=1e-12)


def test_the_published_partitions_of_sn30() -> None:
    found = mapped("dfmodel_published", 20)
    assert (found.workload, found.chip, found.partitioning) == ("gpt3_1t", "sn30", "sn30_published")
    assert len(found.kernels) == 41
    assert [len(part.kernels) for part in found.partitions] == [12, 2, 4, 4, 4, 15]
    assert sum(kernel.shard == "k" for kernel in found.kernels) == 4
    assert all(0.9 * found.sram_capacity_B < part.sram_B <= found.sram_capacity_B for part in found.partitions)


def consistent(found: GraphMap) -> None:
    """Every kernel stands in one partition, and what is said about partitions and tensors agrees with that."""
    part_of = {kernel.name: kernel.partition for kernel in found.kernels}
    members = {name: part.number for part in found.partitions for name in part.kernels}
    assert members == part_of
    assert sum(len(part.kernels) for part in found.partitions) == len(found.kernels)
    for edge in found.edges:
        assert part_of[edge.producer] <= part_of[edge.consumer]
        assert edge.cut == (part_of[edge.producer] != part_of[edge.consumer])
        assert edge.size_B > 0.0
    for part in found.partitions:
        times = {"compute": part.compute_s, "memory": part.memory_s, "network": part.network_s}
        assert times.get(part.bottleneck, 0.0) == max(times.values())


@pytest.mark.parametrize(("study", "point"), [("table6_sn10", 3), ("dfmodel_published", 20), ("dfmodel_published", 80)])
def test_the_parts_of_a_mapping_agree(study: str, point: int) -> None:
    consistent(mapped(study, point))


def test_no_map_of_an_operator_table() -> None:
    with pytest.raises(UsageFault, match="megatron_22b is not a graph of kernels"):
        mapped("optimus_memory", 0)


# as text


def test_the_table() -> None:
    lines = text(mapped("table6_sn10", 3)).splitlines()
    assert lines[0] == "gpt3_175b_forward on sn10, dfmodel_4x2: 18 kernels in 4 partitions, study table6_sn10, point 3"
    assert lines[2].split()[:6] == ["1", "1.11866", "1.25829", "0", "1.25829", "memory"]
    assert lines[2].endswith("add_prev..q, v")
    assert lines[6].split() == ["sum", "6.89876", "5.53648", "3.0199", "7.24262"]
    assert lines[7].startswith("graph time 7.24262 ms, iteration_time_s 800.976")


def test_what_is_proved() -> None:
    plain = chain(3, 9)
    assert "nothing is proved" in text(plain)
    assert plain.gap is None
    searched = replace(plain, mapping_time_s=9e-3, mapping_bound_s=9e-3, mapping_exact=True)
    assert proof(searched) == f"proved optimal: {SCOPE} takes less than 9 ms"
    assert searched.gap == 0.0
    bounded = replace(plain, mapping_time_s=10e-3, mapping_bound_s=9e-3, mapping_exact=False)
    assert proof(bounded) == f"best found 10 ms, {SCOPE} takes less than 9 ms: gap 11.11 %"
    assert bounded.gap == pytest.approx(1 / 9)
    assert text(replace(plain, infeasible_reason="sram_capacity")).count("infeasible: sram_capacity") == 1


@given(st.lists(st.booleans(), min_size=1, max_size=12).filter(any))
def test_ranges_name_every_kernel_once(chosen: list[bool]) -> None:
    order = [f"k{i}" for i in range(len(chosen))]
    names = [name for name, taken in zip(order, chosen) if taken]

    def spelled(item: str) -> list[str]:
        first, _, last = item.partition("..")
        return order[order.index(first) : order.index(last or first) + 1]

    items = ranges(names, order).split(", ")
    assert [name for item in items for name in spelled(item)] == names


def test_sizes() -> None:
    assert [size_text(size) for size in (0.0, 999.0, 1e3, 50331648.0, 2.5e9, 3e12)] == [
        "0 B", "999 B", "1 kB", "50.3 MB", "2.5 GB", "3 TB"
    ]  # fmt: skip


def test_labels() -> None:
    kernel = PlacedKernel("q", "gemm", "forward", "outer", 1, None)
    assert labelled(kernel) == "q /outer"
    assert labelled(replace(kernel, shard="none")) == "q"


def test_stages_are_shown_where_there_are_several() -> None:
    plain = chain(2, 4)
    staged = replace(plain, partitions=tuple(replace(part, stage=part.number) for part in plain.partitions))
    assert "STAGE" not in text(plain)
    assert text(staged).splitlines()[1].split()[:2] == ["PARTITION", "STAGE"]
    assert 'label="2 @2: 3 ms' in dot(staged)


def test_json_has_units_in_its_names() -> None:
    found = json.loads(json.dumps(as_json(mapped("table6_sn10", 2))))
    assert found["graph_time_s"] == pytest.approx(4.61392e-3, rel=1e-5)
    assert found["gap"] is None
    for kind in ("partitions", "edges"):
        numbers = {key for row in found[kind] for key, value in row.items() if isinstance(value, float)}
        assert numbers and all(re.search(r"_(s|B)$", key) for key in numbers)


# as a graph


def test_dot() -> None:
    found = mapped("table6_sn10", 3)
    graph = dot(found)
    assert graph.count("{") == graph.count("}") == 1 + len(found.partitions)
    clusters = re.findall(r'subgraph cluster_(\d+) \{\n +label="\d+: \S+ ms, (\w+)".*?color="(#\w{6})"', graph)
    assert clusters == [(str(part.number), part.bottleneck, BOTTLENECKS[part.bottleneck]) for part in found.partitions]
    arrows = re.findall(r'^  "(\w+)" -> "(\w+)" \[label="[\d.]+ \w+", style=(\w+)\];$', graph, re.MULTILINE)
    assert arrows == [(e.producer, e.consumer, "dashed" if e.cut else "solid") for e in found.edges]
    assert '"proj" [label="proj /k"];' in graph


def test_dot_quotes_names() -> None:
    plain = chain(1, 2)
    odd = 'a"b\\'
    kernels = (replace(plain.kernels[0], name=odd), plain.kernels[1])
    named = replace(
        plain,
        kernels=kernels,
        edges=(Edge(odd, "kernel_1", 1.0, False),),
        partitions=(replace(plain.partitions[0], kernels=(odd, "kernel_1")),),
    )
    assert r'"a\"b\\" -> "kernel_1"' in dot(named)


# as a drawing


def apart(rectangles: list[Bbox]) -> Iterator[bool]:
    for a, b in combinations(rectangles, 2):
        yield a.x1 <= b.x0 or b.x1 <= a.x0 or a.y1 <= b.y0 or b.y1 <= a.y0


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40))
def test_nothing_overlaps(sizes: list[int]) -> None:
    parts = [
        replace(chain(1, 1).partitions[0], number=n + 1, kernels=tuple(f"{n}_{i}" for i in range(size)))
        for n, size in enumerate(sizes)
    ]
    found = rects(parts)
    assert all(apart(list(found.values())))
    for part in parts:
        box, kernels = found[part.number], list(places(part, found[part.number]).values())
        assert len(kernels) == len(part.kernels)
        assert all(apart(kernels))
        for kernel in kernels:
            assert box.x0 < kernel.x0 < kernel.x1 < box.x1
            assert box.y0 < kernel.y0 < kernel.y0 + KERNEL_HEIGHT < box.y1


@pytest.mark.parametrize(("partitions", "kernels"), [
    (1, 1), (1, 200), (6, 41), (41, 41), pytest.param(200, 200, marks=pytest.mark.nightly)
])  # fmt: skip
def test_drawings_of_any_size(partitions: int, kernels: int, tmp_path: Path) -> None:
    found = chain(partitions, kernels)
    path = draw_graph_map(found, tmp_path / "map.svg")
    drawing = path.read_text(encoding="utf-8")
    root = ElementTree.fromstring(drawing)
    width, height = (float(root.attrib[side].removesuffix("pt")) / 72.0 for side in ("width", "height"))
    assert 0.3 < width / height < 5.0
    # Matplotlib says in a comment what a text drawn as outlines reads.
    assert all(f"<!-- {labelled(kernel)} -->" in drawing for kernel in found.kernels)


def test_equal_mappings_give_equal_drawings(tmp_path: Path) -> None:
    first, second = (draw_graph_map(chain(2, 5), tmp_path / name).read_bytes() for name in ("a.svg", "b.svg"))
    assert first == second


# on the command line


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_the_command(tmp_path: Path) -> None:
    unread = call("map", "table6_sn10", 2, "--out", tmp_path / "maps", "--moves", 10, "--seed", 1)
    assert unread.exit_code == 2 and "add it, or leave out --moves and --seed" in unread.stderr
    assert not (tmp_path / "maps").exists()
    result = call("map", "table6_sn10", 2, "--out", tmp_path / "maps")
    assert result.exit_code == 0, result.output
    assert "ffn1..add2" in result.stdout
    written = [line.removeprefix("wrote ") for line in result.stderr.splitlines()]
    assert [Path(path).name for path in written] == ["table6_sn10_2.dot", "table6_sn10_2.svg"]
    assert all(Path(path).stat().st_size > 1000 for path in written)
    plain = call("map", "table6_sn10", 2, "--out", tmp_path / "maps", "--json")
    assert json.loads(plain.stdout)["partitions"][1]["kernels"] == ["mha1", "softmax", "dropout1", "mha2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table6_sn10", 4), "point 4 is not in 0..3"),
        (("optimus_memory", 0), "is not a graph of kernels"),
        (("no_such_study", 0), "unknown study"),
    ],
)
def test_mistakes_leave_nothing(arguments: tuple[str, int], message: str, tmp_path: Path) -> None:
    result = call("map", *arguments, "--out", tmp_path / "maps")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "maps").exists()


OWN = """
dense:
  description: two dense layers, forward only
  source: example
  grade: assumed
  parameters: {width: 8192, samples: 4096, word: 2 B}
  layers: 1
  batch: samples
  word: word
  kernels:
  - {name: first, type: gemm, m: width, k: width, n: microbatch, weight: true, shard: m}
  - {name: second, type: gemm, m: width, k: width, n: microbatch, weight: true, shard: m, inputs: [first]}
"""


def test_times_are_those_of_weights_that_stay(tmp_path: Path) -> None:
    """A stage passes its microbatches in as many times the graph time that the map tells."""
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads" / "own.yaml").write_text(OWN)
    axes = {"workload": "dense", "chip": "sn30", "memory": "ddr4", "link": "pcie5", "topology": "ring", "chips": 8,
            "dim_x": 8, "tensor_parallel": 8, "partitioning": ["kernel_by_kernel", "optimal"]}  # fmt: skip
    plan = sweeper.plan({"study": "stays", "axes": axes, "output": {"mode": "all"}}, [tmp_path])
    told = plan.points([0, 1], ["weights_resident", "pass_time_s", "repeats_per_stage"])
    assert told["weights_resident"].tolist() == [0.0, 1.0]
    for point in (0, 1):
        found = graph_map_of(plan, point)
        assert found.weights_stay is bool(point)
        assert found.graph_time_s == pytest.approx(told["pass_time_s"][point] / told["repeats_per_stage"][point])
        assert found.graph_time_s == pytest.approx(sum(part.total_s for part in found.partitions))
        assert ("weights stay on chip" in text(found)) is bool(point)
