"""What a box gives to the equations: numbers of entries and of axes that replace them, stand-ins, choices, draws."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from sweeper.engine.space import Axis, Grid
from sweeper.inputs.families import FAMILIES, family_of
from sweeper.inputs.numbers import Surroundings, array, attribute_of, constant, number, selector_of, values_of
from sweeper.inputs.workloads import parameters, remembered
from sweeper.kernels.codes import DIMENSION_KINDS, FORMAT_B, FORMATS
from sweeper.kernels.draws import drawn as kernel_drawn
from sweeper.library.entries import Value
from sweeper.library.library import Library
from sweeper.library.uncertain import is_uncertain, key_of, values_in
from sweeper.planning.plan import Plan
from sweeper.study.columns import Stock
from sweeper.study.study import load_study
from sweeper.words.system import ATTRIBUTES, NUMERIC
from tests.support.small_specs import FILES, write_files

LINES = {
    "chip": "[alpha, beta]",
    "memory": "dram",
    "link": "cable",
    "topology": "[ring_1d, torus]",
    "microbatch": "[1, 2]",
}

UNCERTAIN = """\
vague: {source: s, grade: estimate, bandwidth: {value: 100 GB/s, low: 50 GB/s, high: 200 GB/s}, capacity: 64 GiB}
sure: {source: s, grade: estimate, bandwidth: 1 TB/s, capacity: 64 GiB}
"""


def points(root: Path, *wanted: str, **change: str) -> dict[str, list[float]]:
    """Columns of all points of a study of the toy, some axes changed."""
    axes = "".join(f"  {name.replace('__', '.')}: {text}\n" for name, text in {**LINES, **change}.items())
    write_files(root, {**FILES, "memories/vague.yaml": UNCERTAIN})
    (root / "study.yaml").write_text(
        f"study: toys\naxes:\n  workload: toy\n  chips: 8\n  dim_x: 8\n{axes}output: {{mode: all, columns: []}}\n"
    )
    plan = Plan(load_study(root / "study.yaml", [root]))
    return {name: column.tolist() for name, column in plan.points(range(plan.point_count), wanted).items()}


def test_numbers_are_those_of_the_entry_of_the_point(tmp_path: Path) -> None:
    found = points(tmp_path, "chip_given_peak_flops", "chip_power_W", "memory_bandwidth_Bps", "microbatch")
    assert found["chip_given_peak_flops"] == [1e13] * 4 + [4e13] * 4
    assert found["chip_power_W"] == [100.0] * 8  # beta extends alpha
    assert found["memory_bandwidth_Bps"] == [1e11] * 8
    assert found["microbatch"] == [1.0, 2.0] * 4


def test_an_axis_replaces_a_number_of_every_entry(tmp_path: Path) -> None:
    found = points(tmp_path, "chip_power_W", "chip_given_peak_flops", chip__power="[300 W, 200 W]", topology="ring_1d")
    assert sorted(set(found["chip_power_W"])) == [200.0, 300.0]
    assert sorted(set(found["chip_given_peak_flops"])) == [1e13, 4e13]
    once = points(tmp_path / "b", "chip_power_W", chip__power="250 W")
    assert set(once["chip_power_W"]) == {250.0}


def test_other_links_are_the_link_unless_a_study_names_them(tmp_path: Path) -> None:
    names = ("link_bandwidth_Bps", "outer_link_bandwidth_Bps", "outer_link_latency_s")

    def links(place: str, **change: str) -> tuple[set[float], ...]:
        found = points(tmp_path / place, *names, **change)
        return tuple(set(found[name]) for name in names)

    assert links("a") == ({5e10}, {5e10}, {1e-7})
    assert links("b", outer_link="fibre") == ({5e10}, {5e10}, {0.0})
    assert links("c", link__bandwidth="1 GB/s") == ({1e9}, {1e9}, {1e-7})
    assert links("d", link__bandwidth="1 GB/s", outer_link="cable") == ({1e9}, {5e10}, {1e-7})
    assert links("e", outer_link__bandwidth="2 GB/s") == ({5e10}, {2e9}, {1e-7})
    both = links("f", link__bandwidth="1 GB/s", outer_link__bandwidth="2 GB/s")
    assert both == ({1e9}, {2e9}, {1e-7})


def test_dimensions_that_a_topology_lacks_are_absent(tmp_path: Path) -> None:
    found = points(tmp_path, *(f"topology_kind_{letter}" for letter in "xyz"), chip="alpha", microbatch="1")
    ring, absent = float(DIMENSION_KINDS.index("ring")), float(DIMENSION_KINDS.index("absent"))
    assert found == {
        "topology_kind_x": [ring, ring],
        "topology_kind_y": [absent, ring],
        "topology_kind_z": [absent, absent],
    }


def test_choices_are_codes_and_formats_are_bytes(tmp_path: Path) -> None:
    found = points(
        tmp_path, "weight_B", "gradient_B", "overlap", weight_format="[fp8, fp32]", overlap="[none, full]",
        chip="alpha", topology="ring_1d", microbatch="1",
    )  # fmt: skip
    assert found["weight_B"] == [1.0, 1.0, 4.0, 4.0]
    assert set(found["gradient_B"]) == {FORMAT_B[FORMATS.index("fp32")]} == {4.0}
    assert found["overlap"][:2] == found["overlap"][2:] and len(set(found["overlap"])) == 2


def test_a_number_with_a_range_is_drawn_where_draws_are_counted(tmp_path: Path) -> None:
    found = points(
        tmp_path, "memory_bandwidth_Bps", "draw", memory="[vague, sure]", draw="{range: [0, 200, 1]}",
        chip="alpha", topology="ring_1d", microbatch="1",
    )["memory_bandwidth_Bps"]  # fmt: skip
    vague, sure = found[:201], found[201:]
    assert set(sure) == {1e12}
    assert vague[0] == 1e11  # draw 0 is the value
    assert len(set(vague[1:])) == 200 and min(vague) >= 5e10 and max(vague) <= 2e11
    value = Value(1e11, "B/s", "s", "estimate", 5e10, 2e11)
    key = key_of("memory", "vague", "bandwidth")
    expected = np.empty(3)
    kernel_drawn(1e11, (5e10, 2e11), 0.0, (key, key), 0.0, np.array([1.0, 2.0, 200.0]), expected)
    assert [vague[1], vague[2], vague[200]] == expected.tolist()
    assert values_in(np.array([1.0]), value, key)[0] == vague[1]


@pytest.mark.parametrize(
    ("low", "high", "uncertain"), [(2.0, 2.0, False), (1.0, 2.0, True), (2.0, 3.0, True), (1.0, 3.0, True)]
)
def test_a_number_is_uncertain_if_it_may_be_less_or_more(low: float, high: float, uncertain: bool) -> None:
    assert is_uncertain(Value(2.0, "", "s", "estimate", low, high)) is uncertain


def test_streams_of_draws_have_keys_of_their_own() -> None:
    """SHA-256 of `kind/entry/name`, as sha256sum gives it, eight bytes, the least first: datasets depend on it."""
    names = [("memory", "vague", "bandwidth"), ("memory", "vague", "capacity"), ("chip", "vague", "bandwidth")]
    keys = [int(key_of(*name)) for name in names]
    assert len(set(keys)) == 3
    assert int(key_of("a", "b", "c")) == int.from_bytes(bytes.fromhex("d76a7b72669c9cec"), "little")


@pytest.fixture
def box(tmp_path: Path) -> Surroundings:
    """Two chips, one memory, two microbatches."""
    library = Library.load([write_files(tmp_path, FILES)])
    axes = (
        Axis("chip", ("chip",), (("alpha",), ("beta",)), False),
        Axis("memory", ("memory",), (("dram",),), False),
        Axis("microbatch", ("microbatch",), ((1.0,), (2.0,)), True),
    )
    return Surroundings(Grid(axes, 2, 0), library, {})


def test_a_column_needs_what_varies_and_nothing_else(box: Surroundings) -> None:
    assert box.varies("chip") and not box.varies("memory") and not box.varies("link")
    assert (box.only("memory"), box.only("tensor_parallel")) == ("dram", 1.0)
    power = attribute_of(box, "chip", "power", ATTRIBUTES["chip"]["power"])
    bandwidth = attribute_of(box, "memory", "bandwidth", ATTRIBUTES["memory"]["bandwidth"])
    assert (power.needs, bandwidth.needs) == ({"chip"}, frozenset())
    assert number(box, "microbatch", NUMERIC["microbatch"]).needs == {"microbatch"}
    assert number(box, "batch_size", NUMERIC["batch_size"]).build({}, 1).tolist() == [1.0]
    assert power.build({"chip": np.array([1.0, 0.0])}, 2).tolist() == [100.0, 100.0]


def test_a_column_says_where_each_of_its_numbers_comes_from(box: Surroundings) -> None:
    peak = attribute_of(box, "chip", "peak_flops", ATTRIBUTES["chip"]["peak_flops"])
    assert peak.sources == (("a datasheet", "datasheet"), ("another datasheet", "datasheet"))
    price = attribute_of(box, "chip", "price", ATTRIBUTES["chip"]["price"])
    assert price.sources == (("a price list", "estimate"), ("a price list", "assumed"))
    assert constant("x", 2.0, "s", "").build({}, 1).tolist() == [2.0]
    assert array("x", np.arange(3), "").build({}, 1).shape == (1, 3)


def test_the_role_that_stands_in_gives_way_to_one_that_is_named(box: Surroundings) -> None:
    assert selector_of(box.grid, "outer_link") == "link"
    named = dataclasses.replace(box.grid.axes[1], name="outer_link", columns=("outer_link",), rows=(("cable",),))
    grid = Grid((*box.grid.axes, named), 3, 0)
    assert selector_of(grid, "outer_link") == "outer_link"
    assert values_of(grid, "outer_link") == ("cable",)
    assert values_of(box.grid, "calibration") == ("uncalibrated",)


def test_parameters_of_a_graph_are_numbers_that_an_axis_may_replace(tmp_path: Path) -> None:
    library = Library.load([write_files(tmp_path, FILES)])
    workload = Stock(library).workload("toy")
    given = parameters(Surroundings(Grid((), 0, 0), library, {}), workload)
    assert {name: column.build({}, 1).tolist() for name, column in given.items()} == {
        "hidden": [64.0],
        "samples": [32.0],
        "word": [2.0],
    }
    assert given["word"].sources == (("invented", "assumed"),)
    axis = Axis("samples", ("workload.samples",), ((8.0,), (16.0,)), False)
    swept = parameters(Surroundings(Grid((axis,), 1, 0), library, {}), workload)["samples"]
    assert (swept.needs, swept.made_of) == (frozenset({"workload.samples"}),) * 2
    assert swept.build({"workload.samples": np.array([16.0, 8.0])}, 2).tolist() == [16.0, 8.0]


def test_a_builder_remembers_its_last_values_only() -> None:
    calls: list[float] = []

    def build(values: dict[str, np.ndarray], n: int) -> np.ndarray:
        calls.append(float(values["x"][0]))
        return values["x"] * 2.0

    again = remembered(build)
    for value in (1.0, 1.0, 2.0, 1.0):
        assert again({"x": np.array([value])}, 1).tolist() == [2.0 * value]
    assert calls == [1.0, 2.0, 1.0]


def test_families_know_the_lengths_of_their_arrays(tmp_path: Path) -> None:
    write_files(tmp_path, FILES)
    axes = "{workload: toy, chip: alpha, memory: dram, link: cable, topology: ring_1d, chips: 8, dim_x: 8}"
    (tmp_path / "study.yaml").write_text(f"study: s\naxes: {axes}")
    workload = load_study(tmp_path / "study.yaml", [tmp_path]).workloads["toy"]
    assert family_of(workload) == "graph"
    sizes = {
        name: FAMILIES["graph"].sizes(workload, name) for name in ("halves", "kernel_by_kernel", "single", "optimal")
    }
    parts = {name: size["partition"] for name, size in sizes.items()}
    assert parts == {"halves": 2, "kernel_by_kernel": 5, "single": 1, "optimal": 5}  # chosen: one each at most
    assert {(size["kernel"], size["read"]) for size in sizes.values()} == {(5, 6)}
