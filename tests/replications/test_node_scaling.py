"""Pathfinding studies: logic nodes, memories and networks, co-design, and chips per package.

DeepFlow is Ardalani et al., TODAES 2024, Optimus is Kundu et al. 2024. Each test says what the paper states. Rows are
those of the studies in `specs/studies`, fewer of them and searched from fewer designs. Where ours disagrees, both are
there, with what explains it.
"""

from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
import yaml

from replications.panels import Bars, Curves, draw_panels
from replications.pathfinding_figures import PICTURES, layer_shares, node_times, with_nodes
from sweeper.library.library import Library, builtin_specs
from sweeper.planning.plan import make_plan
from sweeper.reading.units import quantity

STUDIES = builtin_specs() / "studies"
QUICK = {"starts": 4, "steps": 30}
USED = tuple(f"{part}_used_mm2" for part in ("core", "register", "l1", "l2"))
NDR, GDR = "infiniband_ndr_x8", "infiniband_gdr_x8"


def spec_of(study: str) -> dict[str, Any]:
    """A study as plain data."""
    found: dict[str, Any] = yaml.safe_load((STUDIES / f"{study}.yaml").read_text())
    return found


def evaluated(spec: Mapping[str, Any]) -> pl.DataFrame:
    """Rows of a study, names as text."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "study.yaml"
        spec = {**spec, "output": {**spec["output"]}}
        if "columns" in spec["output"] and "optimize" in spec:
            extra = ("generated_used_mm2", "generated_draw_W", "l2_latency_s", *USED)
            spec["output"]["columns"] = list(dict.fromkeys([*spec["output"]["columns"], *extra]))
        path.write_text(yaml.safe_dump(dict(spec), sort_keys=False))
        plan = make_plan(path)
        frame = pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)])
    if "technology" not in frame.columns:  # an axis of one value is no column
        frame = frame.with_columns(technology=pl.lit(spec["axes"]["technology"]))
    return with_nodes(frame.with_columns(pl.col(pl.Categorical).cast(pl.String)))


def only(spec: dict[str, Any], axis: str, columns: tuple[str, ...], *kept: tuple[object, ...]) -> None:
    """Keep the rows of a table whose columns have values of `kept`, all of which must be there."""
    table = spec["axes"][axis]
    places = [table["columns"].index(name) for name in columns]
    table["rows"] = [row for row in table["rows"] if tuple(row[place] for place in places) in kept]
    assert len(table["rows"]) == len(kept)


def nodes(*names: str, ladder: str = "paper_cells") -> list[str] | str:
    """What an axis of logic nodes says."""
    found = [f"{ladder}_{name}" for name in names]
    return found if len(found) > 1 else found[0]


@cache
def recurrent() -> pl.DataFrame:
    """The recurrent model: four nodes, four memories with NDR, and the fastest of all."""
    spec = spec_of("node_scaling") | {"optimize": QUICK}
    spec["boxes"] = spec["boxes"][:1]
    spec["axes"]["technology"] = nodes("n12", "n7", "n3", "n1")
    only(
        spec,
        "surroundings",
        ("memory", "link"),
        ("hbm2", NDR),
        ("hbm2e", NDR),
        ("hbm3", NDR),
        ("hbm4", NDR),
        ("hbm4", GDR),
    )
    return evaluated(spec)


def time(together: int, node: str, memory: str, network: str = NDR) -> float:
    """Seconds per iteration of the recurrent model whose products so many chips share."""
    return float(
        recurrent()
        .filter(
            pl.col("tensor_parallel") == together,
            pl.col("node") == node,
            pl.col("memory") == memory,
            pl.col("link") == network,
        )["iteration_time_s"]
        .item()
    )


@cache
def transformer(study: str = "node_scaling") -> pl.DataFrame:
    """GPT-7B at both ends of the ladder, or at its last node with more power."""
    spec = spec_of(study)
    if study == "node_scaling":
        spec["boxes"] = spec["boxes"][1:]
        spec["axes"]["technology"] = nodes("n12", "n1")
        only(spec, "surroundings", ("memory", "link"), ("hbm2", NDR), ("hbm2e", NDR), ("hbm2", GDR))
    else:
        spec["axes"]["technology"] = nodes("n1")
        only(spec, "surroundings", ("memory",), ("hbm2",), ("hbm2e",), ("hbm4",))
    return evaluated(spec)


def gpt(node: str, memory: str, network: str = NDR, study: str = "node_scaling") -> dict[str, Any]:
    """A row of GPT-7B."""
    keys = (pl.col("node") == node, pl.col("memory") == memory, pl.col("link") == network)
    return transformer(study).filter(*keys).row(0, named=True)


# --- the study itself -----------------------------------------------------------------------------------------------


def test_what_is_set_aside_is_what_devices_and_lanes_take() -> None:
    """300 W and 850 mm2 less memory at its rate, its controllers, and eight lanes, with the numbers of the library."""
    library = Library.load([builtin_specs()])
    devices = {"hbm2": 4, "hbm2e": 5, "hbm3": 4, "hbm4": 2}
    lanes = {NDR: "serdes_100g", "infiniband_xdr_x8": "serdes_200g", GDR: "serdes_400g"}
    rows = spec_of("node_scaling")["axes"]["surroundings"]["rows"]
    assert len(rows) == 12
    for memory, bandwidth, network, power, area in rows:
        stack, lane = library.find("stack", memory).values, library.find("lane", lanes[network]).values
        rate, lane_rate = quantity(bandwidth, "B/s"), 8.0 * lane["wire_rate"].number
        watts = 300.0 - rate * stack["energy"].number - lane_rate * lane["energy"].number
        mm2 = 850.0 - devices[memory] * stack["controller_area"].number - 8.0 * lane["area"].number
        assert quantity(power, "W") == pytest.approx(watts, abs=0.005)
        assert quantity(area, "mm^2") == pytest.approx(mm2, abs=0.005)
        assert devices[memory] * stack["wires"].number * stack["wire_rate"].number >= rate
        assert library.find("link", network).values["bandwidth"].number == lane_rate


@pytest.mark.nightly
def test_every_row_can_be_built() -> None:
    """No row lacks anything, and every product of a node, a memory and a network is there."""
    assert make_plan(STUDIES / "node_scaling.yaml").point_count == 7 * 4 * 3 * 3
    assert recurrent()["feasible"].all()


@pytest.mark.nightly
def test_optimized_chips_are_within_their_budgets_and_leave_the_rest_alone() -> None:
    """Parts add up to what is used, with spare cores and slices that no search may spend; banks are as dense as GA100's
    cache with the cells of their process, and cores ask of the L2 no more than a read's time lets them."""
    library = Library.load([builtin_specs()])
    template = {name: value.number for name, value in library.find("template", "volta").values.items()}
    for row in pl.concat([recurrent(), transformer(), transformer("node_scaling_power")], how="diagonal").to_dicts():
        area, power = row["template_chip_area_mm2"], row["template_power_W"] or 1200.0  # the study's, for all rows
        other = template["other_area_share"] * area
        assert sum(row[name] for name in USED) + other == pytest.approx(row["generated_used_mm2"], rel=1e-9)
        assert row["generated_used_mm2"] <= area * (1 + 1e-9) and row["generated_draw_W"] <= power * (1 + 1e-9)
        process = library.find("technology", row["technology"]).values
        bank = template["l2_bank"] * template["l2_cell_area"] * process["sram_area"].number
        assert row["l2_capacity_B"] <= row["l2_used_mm2"] / (bank / (1 - template["l2_overhead"])) * template["l2_bank"]
        assert row["l2_capacity_B"] < 512 * 2**20
        in_flight = row["l2_bandwidth_Bps"] / template["l2_utilisation"] * row["l2_latency_s"]
        assert in_flight <= row["generated_cores"] * template["core_in_flight"] * (1 + 1e-9)


@pytest.mark.nightly
def test_replicas_exceed_every_memory_of_the_papers() -> None:
    """DeepFlow draws its figure for data parallelism; a replica needs more than the 80 GB of any of its memories."""
    need = recurrent().group_by("tensor_parallel").agg(pl.col("memory_need_B").max())
    by_chips = dict(need.iter_rows())
    assert by_chips[1] > 100e9
    assert by_chips[8] < 32e9


# --- DeepFlow, section 9.1, Figure 9 --------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("together", [1, 8])
@pytest.mark.parametrize("memory", ["hbm2", "hbm2e", "hbm3", "hbm4"])
def test_a_newer_node_is_never_slower(together: int, memory: str) -> None:
    """Up to what so short a search leaves."""
    times = [time(together, node, memory) for node in ("n12", "n7", "n3", "n1")]
    assert all(later <= 1.03 * earlier for earlier, later in pairwise(times))


@pytest.mark.nightly
def test_faster_memory_moves_the_saturation_to_later_nodes() -> None:
    """Stated: with improvement in HBM bandwidth the saturation point shifts to the right. What N7 leaves to gain."""
    left = [time(8, "n7", memory) / time(8, "n1", memory) for memory in ("hbm2", "hbm2e", "hbm3", "hbm4")]
    assert all(later >= 0.99 * earlier for earlier, later in pairwise(left))
    assert left[0] < 1.03
    assert left[3] > 1.3


@pytest.mark.nightly
def test_first_step_is_a_jump_where_products_are_spread() -> None:
    """Stated: from N12 to N7 a jump irrespective of memory. Ours: with every memory where products are spread, less
    with HBM2, which binds from N7 on."""
    for memory, least in (("hbm2", 1.05), ("hbm2e", 1.15), ("hbm3", 1.15), ("hbm4", 1.15)):
        assert time(8, "n12", memory) / time(8, "n7", memory) > least


@pytest.mark.nightly
def test_replicas_do_not_feel_logic() -> None:
    """Stated of data parallelism, too. Ours: 32 rows per chip read all weights at every time step, so that memory binds
    at N12 already; seven nodes give less than 1 %, with the two faster memories less than 25 %, all of it by N5."""
    for memory in ("hbm2", "hbm2e"):
        assert time(1, "n12", memory) / time(1, "n1", memory) < 1.01
    assert 1.02 < time(1, "n12", "hbm3") / time(1, "n1", "hbm3") < time(1, "n12", "hbm4") / time(1, "n1", "hbm4") < 1.25
    assert time(1, "n3", "hbm4", GDR) / time(1, "n1", "hbm4", GDR) < 1.01
    assert time(1, "n12", "hbm2") / time(1, "n12", "hbm2e") > 1.4


@pytest.mark.nightly
def test_network_gives_more_than_logic_beyond_n3() -> None:
    """Stated: beyond N3 networks give much larger gains than logic. Ours, N3 to N1 against NDR to GDR with HBM4."""
    for together in (1, 8):
        logic = time(together, "n3", "hbm4") / time(together, "n1", "hbm4")
        network = time(together, "n3", "hbm4") / time(together, "n3", "hbm4", GDR)
        assert network > 1.1 * logic
        assert network > 1.3


@cache
def gain_from_n3(as_logic: tuple[str, ...]) -> float:
    """What N3 to N1 gives with the fastest memory and network, where some of what cells do shrinks as papers say."""
    spec = spec_of("node_scaling") | {"optimize": QUICK}
    spec["boxes"] = spec["boxes"][:1]
    only(spec, "surroundings", ("memory", "link"), ("hbm4", GDR))
    (axes,) = [box["axes"] for box in spec["boxes"]]
    axes["strategy"]["rows"] = [row for row in axes["strategy"]["rows"] if row[0] == 8]
    del spec["axes"]["technology"]
    logic = {"technology.sram_area": 1 / 1.8, "technology.sram_energy": 1 / 1.3}
    rows = [
        [f"paper_cells_{node}", *(logic[name] ** step for name in as_logic)] for node, step in (("n3", 2), ("n1", 5))
    ]
    spec["axes"]["process"] = {"columns": ["technology", *as_logic], "rows": rows}
    first, last = evaluated(spec).sort("step")["iteration_time_s"]
    return float(first / last)


@pytest.mark.nightly
def test_the_energy_of_an_access_decides_what_comes_after_n3() -> None:
    """Not in the papers, which have one factor for all: area of cells alone as theirs changes nothing, energy does."""
    published = gain_from_n3(())
    assert gain_from_n3(("technology.sram_area",)) == pytest.approx(published, rel=0.02)
    assert gain_from_n3(("technology.sram_energy",)) > 1.08 * published


@pytest.mark.nightly
def test_logic_goes_on_with_the_fastest_memory_and_network() -> None:
    """Stated: beyond N3 unchanged even with 3.3 TB/s and 400 GB/s, as caches cannot grow. Ours goes on, by much less
    than the transistors, 1.8 times as many by each of three nodes; on the papers' ladder and their template by more
    than half."""
    assert 1.1 < time(8, "n3", "hbm4", GDR) / time(8, "n1", "hbm4", GDR) < 1.35  # stated: 1
    assert 1.0 / ratio_2021(True, "shared_ports", "fewer_units", "iteration_time_s") > 1.4


@pytest.mark.nightly
def test_the_second_memory_gives_most() -> None:
    """Optimus, section 5.3, of its model: HBM2 to HBM2E reduces time significantly, HBM3 and HBM4 do not. So it is at
    N3 of the recurrent one."""
    first = time(8, "n3", "hbm2") / time(8, "n3", "hbm2e")
    rest = time(8, "n3", "hbm2e") / time(8, "n3", "hbm4")
    assert first > 1.15
    assert rest < 1.05


@pytest.mark.nightly
def test_faster_memory_costs_the_power_of_compute() -> None:
    """Not in the papers: within 300 W, at N12, HBM4 takes 67 W more than HBM2, and is slower."""
    assert time(8, "n12", "hbm4") > 1.02 * time(8, "n12", "hbm2")


# --- switches of 2021 -----------------------------------------------------------------------------------------------


def alone(template: str) -> dict[str, float]:
    """Shares of the parts that a chip with listed memory and network has, over their sum."""
    values = Library.load([builtin_specs()]).find("template", template).values
    found = {}
    for budget in ("area", "power"):
        names = [f"{part}_{budget}_share" for part in ("core", "register", "l1", "l2")]
        total = sum(values[name].number for name in names)
        found |= {name: values[name].number / total for name in names}
    return found


@cache
def of_2021(searched: bool) -> pl.DataFrame:
    """Chip equations of 2021 beside ours at N3 and N1, with the fastest memory and network; optimized, or with the
    template's split."""
    spec = spec_of("node_scaling_2021") | {"optimize": QUICK}
    only(spec, "strategy", ("tensor_parallel",), (8,))
    only(spec, "surroundings", ("memory", "link"), ("hbm4", GDR))
    if not searched:
        del spec["optimize"], spec["objective"]
        spec["axes"] |= {f"template.{name}": value for name, value in alone("deepflow_v100").items()}
    spec["axes"]["technology"] = nodes("n12", "n3", "n1", ladder="paper")
    return evaluated(spec)


def ratio_2021(searched: bool, network: str, floor: str, column: str, first: str = "n3") -> float:
    """A column at N1 over that at another node."""
    frame = of_2021(searched).filter(pl.col("cache_network") == network, pl.col("voltage_floor") == floor)
    first_row, last = (frame.filter(pl.col("node") == node)[column].item() for node in (first, "n1"))
    return float(last) / float(first_row)


@pytest.mark.nightly
def test_ports_per_core_freeze_the_cache_of_a_fixed_split() -> None:
    """Stated: cache capacity increases only marginally at N2 and N1, as crossbars grow with cores and banks. So it does
    with both switches of 2021, from N12 to N1 by less than 5 %; each of ours lets it grow further."""
    frozen = ratio_2021(False, "port_per_core", "throttled", "l2_capacity_B", "n12")
    fewer = ratio_2021(False, "port_per_core", "fewer_units", "l2_capacity_B", "n12")
    shared = ratio_2021(False, "shared_ports", "fewer_units", "l2_capacity_B", "n12")
    assert 1.0 < frozen < 1.05
    assert fewer > 2.0 * frozen
    assert shared > 2.0 * fewer


@pytest.mark.nightly
def test_the_frozen_cache_does_not_stop_an_optimized_chip() -> None:
    """Stated: hence performance stays unchanged. With the switches of 2021 the optimized chip of N1 is as fast as ours
    within 5 %: bandwidth, not capacity, is what its products want, and power buys that. Hence what is flat beyond N3
    is so by memory and network, not by this switch."""
    gains = [
        ratio_2021(True, network, floor, "iteration_time_s")
        for network, floor in (("shared_ports", "fewer_units"), ("port_per_core", "throttled"))
    ]
    assert gains[1] == pytest.approx(gains[0], rel=0.08)
    assert max(gains) < 0.75
    last = of_2021(True).filter(pl.col("node") == "n1")["iteration_time_s"].to_list()
    assert max(last) < 1.08 * min(last)


# --- Optimus, section 5.3, Figures 6 and 7 --------------------------------------------------------------------------


@pytest.mark.nightly
def test_transformer_gains_less_than_its_chips() -> None:
    """Stated: training time decreases drastically, then saturates beyond N5. Ours falls over seven nodes with NDR, by
    less than the chips' peak grows."""
    first, last = gpt("n12", "hbm2"), gpt("n1", "hbm2")
    gain = first["iteration_time_s"] / last["iteration_time_s"]
    assert 1.15 < gain < 0.85 * last["chip_given_peak_flops"] / first["chip_given_peak_flops"]


def share(row: Mapping[str, Any], part: str) -> float:
    """Share of a layer's own time, collectives left out, that something binds."""
    return float(row[f"{part}_time_s"]) / sum(row[f"{name}_time_s"] for name in ("compute", "l2", "memory", "overhead"))


@pytest.mark.nightly
def test_compute_binds_less_with_newer_nodes() -> None:
    """Stated: layers are compute bound, and the more the node scales the more memory bound."""
    first, last = gpt("n12", "hbm2"), gpt("n1", "hbm2")
    assert share(last, "memory") > 2.0 * share(first, "memory")
    assert share(last, "compute") < 0.75 < 0.8 < share(first, "compute")
    assert share(first, "memory") < 0.1


@pytest.mark.nightly
def test_memory_matters_once_power_does_not() -> None:
    """Stated: HBM2 to HBM2E gives a significant reduction, HBM3 and HBM4 no further one. Within 300 W compute of N1 is
    held back by power, not by memory, and the step gives little; with 1200 W for the logic it is as stated."""
    within = gpt("n1", "hbm2")["iteration_time_s"] / gpt("n1", "hbm2e")["iteration_time_s"]
    free = {
        memory: gpt("n1", memory, study="node_scaling_power")["iteration_time_s"]
        for memory in ("hbm2", "hbm2e", "hbm4")
    }
    first, rest = free["hbm2"] / free["hbm2e"], free["hbm2e"] / free["hbm4"]
    assert first > 1.12
    assert first > within
    assert rest < 1.12


@pytest.mark.nightly
def test_faster_networks_improve_training_markedly() -> None:
    """Stated: from 100 to 400 GB/s training times improve markedly. As tensor groups use it; more at the last node."""
    gain = {
        node: gpt(node, "hbm2")["iteration_time_s"] / gpt(node, "hbm2", GDR)["iteration_time_s"]
        for node in ("n12", "n1")
    }
    assert gain["n12"] > 1.12
    assert gain["n1"] > gain["n12"]


# --- co-design: DeepFlow, section 9.2, Figure 10 --------------------------------------------------------------------


@cache
def fixed_chip() -> pl.DataFrame:
    """Times on chips that are not optimized: replicas alone, the median strategy, the best."""
    frame = evaluated(spec_of("codesign_parallelism"))
    seconds = pl.col("iteration_time_s")
    return frame.group_by("node").agg(
        seconds.filter(pl.col("data_parallel") == 512).min().alias("replicas"),
        seconds.median().alias("middling"),
        seconds.min().alias("best"),
    )


def fixed(node: str) -> dict[str, Any]:
    return fixed_chip().filter(pl.col("node") == node).row(0, named=True)


@cache
def co_designed(study: str) -> dict[tuple[str, float], float]:
    """Seconds of a co-design by node and, where shapes vary, width of the model."""
    spec = spec_of(study) | {"optimize": QUICK | {"candidates": 2}}
    spec["axes"]["technology"] = nodes("n12", "n5") if study == "codesign_architecture" else nodes("n12")
    if study == "codesign_model":
        only(spec, "shape", ("workload.hidden",), (17408,), (16384,), (8192,))
    frame = evaluated(spec)
    width = frame["workload_hidden"] if study == "codesign_model" else [16384.0] * frame.height
    return dict(zip(zip(frame["node"], width, strict=True), frame["iteration_time_s"], strict=True))


@pytest.mark.parametrize("node", ["n12", "n7", "n5", "n3"])
def test_parallelism_alone_gives_about_twofold(node: str) -> None:
    """Stated: about twofold, over what is not said. In ours that lies between the gain over the median strategy and
    that over replicas alone."""
    row = fixed(node)
    assert 1.0 < row["middling"] / row["best"] < 2.0 < row["replicas"] / row["best"]


@pytest.mark.nightly
def test_architecture_gives_what_is_stated_and_more_at_later_nodes() -> None:
    """Stated: meaningful at N12 and N7, 20 to 30 % at advanced nodes. Ours: so much at N12, more at N5, as a split for
    one node fits others less."""
    gains = {node: fixed(node)["best"] / co_designed("codesign_architecture")[node, 16384.0] for node in ("n12", "n5")}
    assert 1.15 < gains["n12"] < gains["n5"] * 1.05 < 1.6


def test_more_cores_on_the_same_split_may_be_slower() -> None:
    """Not in the papers: from N5 to N3 cells do not shrink, so that registers of a fixed split feed hardly more
    operations, though twice the units fit, and the L2 delivers no more. The best strategy is no faster."""
    assert 0.97 < fixed("n5")["best"] / fixed("n3")["best"] < 1.01


@pytest.mark.nightly
def test_shapes_of_the_same_size_differ_by_almost_two_nodes() -> None:
    """Stated: the model's shape gives as much as almost two nodes. Ours, at equal numbers of parameters: so does the
    widest over the deepest; from the paper's own shape little is left."""
    times = {width: seconds for (_, width), seconds in co_designed("codesign_model").items()}
    nodes_give = (
        co_designed("codesign_architecture")["n12", 16384.0] / co_designed("codesign_architecture")["n5", 16384.0]
    )
    shape_gives = times[8192.0] / times[17408.0]
    assert 0.8 * nodes_give < shape_gives < 1.1 * nodes_give
    assert 1.0 < times[16384.0] / times[17408.0] < shape_gives**0.5


def test_shapes_have_equal_numbers_of_parameters() -> None:
    sizes = [
        layers * (2 * hidden + 1) * 4 * hidden + (2 * hidden + 1) * 800_000
        for hidden, layers in spec_of("codesign_model")["axes"]["shape"]["rows"]
    ]
    assert max(sizes) < 1.04 * min(sizes)


def test_the_fixed_chip_has_the_split_of_its_template() -> None:
    axes = spec_of("codesign_parallelism")["axes"]
    shares = alone("volta")
    assert {name: axes[f"template.{name}"] for name in shares} == pytest.approx(shares, abs=1e-4)
    for budget in ("area", "power"):
        assert sum(axes[f"template.{name}"] for name in shares if budget in name) <= 1.0


# --- chips per package: DeepFlow, section 9.2, Figure 11 ------------------------------------------------------------


@pytest.mark.nightly
def test_chips_per_package() -> None:
    """Stated: at most 32 %, and marginal beyond four chips. Ours: 12 % with NDR, of which four chips give 9."""
    spec = spec_of("chips_per_package") | {"optimize": QUICK | {"candidates": 2}}
    spec["axes"]["outer_link"] = NDR
    only(spec, "packaging", ("dim_x",), (1,), (4,), (64,))
    frame = evaluated(spec)
    times = dict(zip(frame["dim_x"], frame["iteration_time_s"], strict=True))
    assert 1.05 < times[1] / times[64] <= 1.32
    assert times[4] / times[64] < 1.05
    assert times[1] / times[4] > times[4] / times[64]


# --- pictures -------------------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_tables_of_the_pictures(tmp_path: Path) -> None:
    """A point per row of the study; shares of every bar add up to one; both are drawn."""
    curves = node_times(recurrent().filter(pl.col("tensor_parallel") == 8))
    assert curves["series"].unique(maintain_order=True).to_list() == [
        "HBM2 NDR", "HBM2E NDR", "HBM3 NDR", "HBM4 NDR", "HBM4 GDR",
    ]  # fmt: skip
    assert curves["x"].unique().sort().to_list() == [0.0, 1.0, 3.0, 6.0]
    bars = layer_shares(transformer())
    assert bars.drop("label").sum_horizontal().to_list() == pytest.approx([1.0] * bars.height)
    panels = (Curves("", "s", "step", lambda: curves, logarithmic="y"), Bars("", "share", lambda: bars))
    assert all(file.stat().st_size > 5000 for file in draw_panels("node_scaling", panels, tmp_path))


def test_every_picture_has_a_study() -> None:
    assert all((STUDIES / f"{study}.yaml").exists() for study in PICTURES)
