"""Numbers that the published system printed, as listed in section H of the project's notes on it, from kernels alone.

Every row has its number (H1 to H12) and source there; values stand as they were printed, and are met to half a unit of
their last digit (and to single precision, in which the original keeps its inputs).
"""

import csv
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from sweeper.kernels.codes import CHANNELS, DIMENSION_KINDS, KERNEL_TYPES, PHASES, SHARDS, SWITCHES
from sweeper.kernels.graphs.loads import BYTES
from sweeper.kernels.models import MODELS
from tests.places import DATA
from tests.twins.naive import call, edge_array, orders

GIGA, NANO = 1e9, 1e-9
SINGLE_PRECISION = 2e-7


def assert_printed(got: float, printed: str) -> None:
    """A value agrees with a printed one."""
    digit = 10.0 ** int(Decimal(printed).as_tuple().exponent)
    want = float(printed)
    assert abs(got - want) <= 0.5 * digit + SINGLE_PRECISION * abs(want), (got, want)


# the model, put together by name

PUBLISHED = {
    "overlap": "full", "efficiencies": "listed", "weight_traffic": "none", "gradient_traffic": "none",
    "optimizer_traffic": "none",
    "tensor_traffic": "per_edge", "capacity_model": "weights_and_activations", "sharding": "given",
    "pipeline_bubble": "published", "pipeline_transfer": "per_iteration", "gradient_all_reduce": "amortised",
    "all_reduce_model": "two_phases", "all_to_all_model": "published", "latency": "ignored",
    "process_grid_network": "topology_free",
    "outer_links": "per_chip", "placement": "tensor_pipeline_data", "weight_tiling": "free", "unit_allocation": "ideal",
    "chip_cost": "listed",
    "voltage_floor": "fewer_units",
    "cache_network": "shared_ports",
    "memory_devices": "perimeter_limited",
    "generated_counts": "whole", "chip_split": "given",
    "device_mapping": "dimensions", "unit_placement": "ideal", "contention": "none",
}  # fmt: skip
"""Assumptions of the published study."""
UNKNOWN_THEN = {
    "divisible_graph": 0.0,
    "cut_boundary_B": 0.0,
    "resident_microbatches": 1.0,
    "chip_reconfiguration_s": 0.0,
}
"""What the published study does not have: shared graphs, microbatches that wait on chip, a cost of exchange."""


def solve(columns: Mapping[str, Any], wanted: str, **switches: str) -> Any:
    """A column by the equations that the assumptions select."""
    chosen = {**PUBLISHED, **switches}
    assert chosen.keys() == SWITCHES.keys()
    active = [e for e in MODELS["graph"] if e.when is None or chosen.get(e.when[0]) in e.when[1]]
    writers = {output.name: equation for equation in active for output in equation.outputs}
    known = (
        {name: float(SWITCHES[name].index(choice)) for name, choice in chosen.items()} | UNKNOWN_THEN | dict(columns)
    )

    def value(column: str) -> Any:
        if column == "partition_share":  # as many as there are partitions, which its equation is not given
            known[column] = np.ones(len(value("partition_loads")))
        if column not in known:
            equation = writers[column]
            inputs = {name: value(name) for name in equation.inputs}
            known.update(call(equation, inputs))
        return known[column]

    return value(wanted)


# hardware: sections D.1, D.2 and D.3

with (DATA / "dfmodel_systems.csv").open() as file:
    CHIPS = {row["chip"]: {f"chip_{key}": float(value) for key, value in row.items() if key != "chip"}
             for row in csv.DictReader(file)}  # fmt: skip
MEMORIES = {"ddr": (300 * GIGA, 0.16248), "hbm": (3072 * GIGA, 0.05624)}
LINKS = {"pcie": (50 * GIGA, 0.052), "nvlink": (450 * GIGA, 0.0104)}
TOPOLOGIES = {
    "2d_torus": ("ring", "ring"), "3d_torus": ("ring", "ring", "ring"), "dragonfly": ("fully_connected",) * 2,
    "dgx_1": ("ring", "switch"), "dgx_2": ("switch", "switch"),
}  # fmt: skip
DIMS = {
    ("LLM", "3d_torus"): (8, 64, 2), ("HPL", "3d_torus"): (4, 8, 32), ("DLRM", "3d_torus"): (8, 8, 16),
    ("FFT", "3d_torus"): (8, 8, 16), ("DLRM", "2d_torus"): (32, 32), ("FFT", "2d_torus"): (32, 32),
    ("DLRM", "dragonfly"): (32, 32), ("FFT", "dragonfly"): (32, 32), ("HPL", "dgx_1"): (32, 32),
    ("HPL", "2d_torus"): (32, 32), ("HPL", "dragonfly"): (32, 32), ("HPL", "dgx_2"): (32, 32),
}  # fmt: skip


def network(kinds: Sequence[str], dims: Sequence[int], inner: float, outer: float | None = None) -> dict[str, float]:
    """Columns of a network."""
    found = {"link_bandwidth_Bps": inner, "outer_link_bandwidth_Bps": inner if outer is None else outer}
    for axis, kind, dim in zip("xyz", [*kinds, "absent", "absent"], [*dims, 1, 1]):
        found[f"topology_kind_{axis}"] = float(DIMENSION_KINDS.index(kind))
        found[f"dim_{axis}"] = float(dim)
    return found | {"chips": float(np.prod(dims)), "link_efficiency": 1.0}


def system(workload: str, chip: str, topology: str, memory: str, link: str) -> dict[str, float]:
    """Columns of one of the 80 systems. For the LLM the faster link serves the first dimension only."""
    dims = DIMS.get((workload, topology), (8, 128))
    inner, outer = LINKS[link], LINKS["pcie" if workload == "LLM" else link]
    found = network(TOPOLOGIES[topology], dims, inner[0], outer[0]) | CHIPS[chip]
    found |= {"memory_bandwidth_Bps": MEMORIES[memory][0], "memory_energy_J_per_B": MEMORIES[memory][1] / GIGA}
    found |= {"memory_capacity_B": 1e12, "memory_price_usd_per_Bps": 1 / GIGA, "memory_price_usd_per_B": 0.0}
    found |= {"compute_efficiency": 0.9, "memory_efficiency": 1.0}
    for name, energy in (("link", inner[1]), ("outer_link", outer[1])):
        found |= {f"{name}_price_usd_per_Bps": 2 / GIGA, f"{name}_switch_price_usd_per_Bps": 24 / GIGA}
        found |= {f"{name}_energy_J_per_B": energy / GIGA, f"{name}_switch_energy_J_per_B": 0.052 / GIGA}
    return found


# graphs: section C

Graph = dict[str, Any]
SN30 = [
    [*range(1, 13)],
    [13, 14],
    [15, 16, 17, 18],
    [19, 20, 21, 36],
    [22, 23, 24, 37],
    [*range(25, 36), *range(38, 42)],
]
VENDOR = [[*range(1, 6)], [*range(6, 14)], [14], [*range(15, 19)]]
DFMODEL = [[*range(1, 6)], [*range(6, 10)], [*range(10, 16)], [*range(16, 19)]]
FOUR_BY_TWO = [[1, 2, 3, 5], [4, *range(6, 12)], [12, 13, 14], [*range(15, 19)]]


def graph(
    rows: Sequence[tuple[str, str, bool, str, bool, bool, str]],
    dims: Sequence[Sequence[float]],
    edges: Sequence[tuple[int, int, int]],
    parts: Sequence[Sequence[int]] | str,
) -> Graph:
    """Arrays of a graph; rows are (type, phase, weight, tile, gradient, fixed, shard), partitions count from one."""
    codes = [
        (
            KERNEL_TYPES.index(kind),
            PHASES.index(phase),
            weight,
            SHARDS.index(tile),
            gradient,
            fixed,
            SHARDS.index(shard),
            SHARDS.index("none"),
            0,
        )
        for kind, phase, weight, tile, gradient, fixed, shard in rows
    ]
    each = {"each": [[i + 1] for i in range(len(rows))], "single": [[*range(1, len(rows) + 1)]]}
    members = each[parts] if isinstance(parts, str) else parts
    part_of = {i: part for part, group in enumerate(members) for i in group}
    array = edge_array(sorted(edges))
    return {
        "kernel_traits": np.array(codes, np.int64),
        "kernel_dims": np.array(
            [[*row[:7], 1.0, 0.0, *row[7:], *[0.0] * (8 + len(CHANNELS) - len(row))] for row in dims]
        ),
        "graph_edges": array,
        "partition_of": np.array([part_of[i + 1] for i in range(len(rows))], np.int64),
        "partitions": float(len(members)),
        "stage_of": np.zeros(len(rows), np.int64),
        **orders([phase == "forward" for _, phase, *_ in rows], array, ()),
    }


def partitioned(partition_of: np.ndarray) -> Graph:
    """Columns of another partitioning."""
    return {"partition_of": partition_of, "partitions": float(partition_of.max() + 1)}


def read(name: str) -> list[dict[str, str]]:
    with (DATA / name).open() as file:
        return list(csv.DictReader(file))


GPT3_175B = {25600: 12288, 102400: 49152, 160: 128}
"""Dimensions of GPT-3 175B by those of GPT-3 1T."""


def gpt3(parts: Sequence[Sequence[int]] | str, kernels: int = 41, replaced: Mapping[int, int] | None = None) -> Graph:
    """A GPT-3 layer; `replaced` gives other dimensions. Without backward half its last kernel is replicated (E.4)."""
    rows, dims = [], []
    for row in read("gpt3_1t_kernels.csv")[:kernels]:
        shard = "none" if kernels < 41 and row["id"] == "18" else row["shard"]
        flags = row["weight"] == "1", row["tile"], row["gradient"] == "1", False, shard
        rows.append((row["type"], row["phase"], *flags))
        sizes = [int(row[name]) for name in ("m", "k", "n")]
        outer = int(row["outer"])
        if replaced:
            sizes = [replaced.get(size, size) for size in sizes]
            outer = 96 if outer == 160 else outer
        dims.append([float(outer), *map(float, sizes), 1.0, 1.0, 1.0])
    edges = [(int(e["src"]) - 1, int(e["dst"]) - 1, int(e["operand"])) for e in read("gpt3_1t_edges.csv")]
    return graph(rows, dims, [edge for edge in edges if edge[1] < kernels], parts)


LLM = {"batch": 3072.0, "microbatch": 1.0, "steps": 1.0, "layers": 128.0, "word_B": 2.0, "tiles": 2048.0}
LLM |= {"stage_boundary_B": 25600.0 * 2048 * 2, "optimizer_state_B": 0.0}
ONCE = {"microbatch": 1.0, "steps": 1.0, "layers": 1.0, "word_B": 2.0, "tiles": 1.0, "stage_boundary_B": 0.0}
ONCE |= {"optimizer_state_B": 0.0}


def dlrm(parts: str) -> Graph:
    """C.2: forward, backward and weight update of 20 layers; the embeddings travel at the fifth."""
    rows: list[Any] = [("gemm", "forward", True, "none", False, False, "none")] * 20
    rows += [("gemm", "backward", True, "none", False, False, "none")] * 20
    rows += [("batched_gemm", "update", False, "none", True, False, "none")] * 20
    exchanged = 600.0 * 15 * 93 * 512 * 2
    dims = [[1.0, 6750.0, 6750.0, 512.0, 1.0, 1.0, 1.0] for _ in range(40)]
    dims += [[1.0, 6750.0, 512.0, 6750.0, 1.0, 1.0, 1.0] for _ in range(20)]
    world = CHANNELS.index("all_to_all_world")
    for i in (5, 36):
        dims[i - 1] += [exchanged, *[0.0] * world, exchanged / 1024]
    edges = [(i, i + 1, 0) for i in (*range(1, 20), *range(21, 40))]
    edges += [(i, 60 - i, 0) for i in range(1, 20)] + [(i, i + 21, 1) for i in range(21, 40)]
    return graph(rows, dims, [(u - 1, v - 1, operand) for u, v, operand in edges], parts)


def hpl(order: int, block: int, parts: str) -> Graph:
    """C.3 on a square grid of 32 x 32 chips."""
    rows: list[Any] = [("gemm", "forward", False, "none", False, True, "none")] * 64
    sides = [float(order - i * block) for i in range(64)]
    first = CHANNELS.index("broadcast_column")
    sent = [[0.0] * first + [side * block * 2 / 32] * 2 for side in sides]
    dims = [[1.0, side, side, float(block), 32.0, 32.0, 1.0, 0.0, *bytes_] for side, bytes_ in zip(sides, sent)]
    return graph(rows, dims, [(i, i + 1, 0) for i in range(63)], parts)


def fft(parts: str) -> Graph:
    """C.4."""
    rows: list[Any] = [("gemm", "forward", False, "none", False, True, "none")] * 2
    side = 2.0**20
    dims = [[1.0, side, 512.0, side, 1024.0, 1.0, 1.0] for _ in range(2)]
    dims[0] += [0.0, *[0.0] * CHANNELS.index("all_to_all_world"), side * side * 2 / 1024**2]
    return graph(rows, dims, [(0, 1, 0)], parts)


def parallel(tensor: int, pipeline: int, data: int) -> dict[str, float]:
    return {"tensor_parallel": float(tensor), "pipeline_parallel": float(pipeline), "data_parallel": float(data)}


def case(workload: str, chip: str, topology: str, memory: str, link: str) -> dict[str, Any]:
    """All columns of one of the 320 published points."""
    columns: dict[str, Any] = dict(system(workload, chip, topology, memory, link))
    parts = "single" if chip == "wse-2" else "each"
    if workload == "LLM":
        dims = DIMS.get((workload, topology), (8, 128))
        groups = parallel(dims[0], dims[1], dims[2] if len(dims) == 3 else 1)
        return columns | LLM | groups | gpt3(SN30 if chip == "sn30" else parts)
    if workload == "DLRM":
        return columns | ONCE | parallel(1, 1, 1024) | {"batch": 125000.0 * 1024} | dlrm(parts)
    size = (5242880, 81920) if chip == "wse-2" else (1048576, 2048)
    return (
        columns
        | ONCE
        | parallel(1024, 1, 1)
        | {"batch": 1.0}
        | (hpl(*size, parts) if workload == "HPL" else fft(parts))
    )


# H1 to H4: closed forms


@pytest.mark.parametrize(
    ("kind", "gigabytes_per_s", "nanoseconds"),
    [
        ("ring", 50, "3670016"),
        ("fully_connected", 50, "524288"),
        ("ring", 450, "407779.556"),
        ("fully_connected", 450, "58254.222"),
        ("switch", 50, "3670016"),
    ],
)
def test_H1_all_reduce(kind: str, gigabytes_per_s: float, nanoseconds: str) -> None:
    columns = network([kind], [8], gigabytes_per_s * GIGA) | parallel(8, 1, 1)
    assert_printed(solve(columns, "all_reduce_tensor_s_per_B") * 104_857_600 / NANO, nanoseconds)


def test_H1_gradient_all_reduce_spread_over_microbatches() -> None:
    columns = network(["ring"] * 3, [8, 64, 2], 50 * GIGA) | parallel(8, 64, 2) | LLM | gpt3("each")
    rate = solve(columns, "amortised_gradient_s_per_B")
    assert solve(columns, "graph_gradients_B") == 655.36e6 * 2 + 163.84e6 * 4
    assert_printed(rate * solve(columns, "graph_gradients_B") / NANO, "25600")


@pytest.mark.parametrize(
    ("topology", "dims", "gigabytes_per_s", "message", "nanoseconds"),
    [
        ("2d_torus", (32, 32), 50, 2_097_152, "343597383.68"),
        ("3d_torus", (8, 8, 16), 50, 2_097_152, "171798691.84"),
        ("dragonfly", (32, 32), 50, 2_097_152, "42949672.96"),
        ("dgx_1", (8, 128), 450, 2_097_152, "9544371.769"),
        ("dgx_2", (8, 128), 450, 2_097_152, "9544371.769"),
        ("2d_torus", (32, 32), 50, 837_000, "137134080"),
    ],
)
def test_H2_all_to_all(
    topology: str, dims: tuple[int, ...], gigabytes_per_s: float, message: int, nanoseconds: str
) -> None:
    columns = network(TOPOLOGIES[topology], dims, gigabytes_per_s * GIGA)
    assert_printed(solve(columns, "all_to_all_world_s_per_B") * message / NANO, nanoseconds)


@pytest.mark.parametrize(("gigabytes_per_s", "nanoseconds"), [(50, "536870912"), (25, "1073741824")])
def test_H3_pipeline_transfer(gigabytes_per_s: float, nanoseconds: str) -> None:
    columns = network(["ring", "ring"], [8, 128], 450 * GIGA, gigabytes_per_s * GIGA) | parallel(8, 128, 1) | LLM
    assert_printed(solve(columns, "transfer_per_iteration_s") / NANO, nanoseconds)


@pytest.mark.parametrize(
    ("stages", "microbatches", "layers_per_stage", "factor"),
    [
        (128, 3072, 1, "1.0413411458"),
        (64, 1536, 2, "1.041015625"),
        (8, 48, 16, "1.0097222222"),
        (128, 96, 1, "2.3229166667"),
        (64, 512, 2, "1.123046875"),
        (2, 4, 64, "1.0039682540"),
        (16, 16384, 2, "1.00091552734"),
    ],
)
def test_H4_pipeline_factor(stages: int, microbatches: int, layers_per_stage: int, factor: str) -> None:
    columns = {"batch": float(microbatches), "microbatch": 1.0, "layers": float(layers_per_stage * stages)}
    columns |= parallel(1, stages, 1) | {"pass_time_s": 1.0, "transfer_per_pass_s": 0.0}
    got = solve(columns, "pipeline_time_s") / microbatches
    assert abs(got - float(factor)) <= 0.5001 * 10.0 ** int(Decimal(factor).as_tuple().exponent)


# H5 to H7: one chip


@pytest.mark.parametrize(
    ("workload", "kernels", "chip", "nanoseconds"),
    [
        ("LLM", [14], "h100", "1501496.6"),
        ("DLRM", [1], "h100", "52194.17"),
        ("HPL", [1], "h100", "4920104.0"),
        ("FFT", [1], "h100", "1230026.0"),
        ("FFT", [1], "sn30", "1988410.8"),
        ("FFT", [1], "tpu", "4438417.3"),
        ("FFT", [1, 2], "wse-2", "325207.6"),
        ("LLM", range(1, 42), "h100", "13694676"),
        ("LLM", range(1, 42), "sn30", "22138266.7"),
        ("LLM", range(1, 42), "wse-2", "1810373.56"),
    ],
)
def test_H5_H7_compute(workload: str, kernels: Sequence[int], chip: str, nanoseconds: str) -> None:
    columns = case(workload, chip, "2d_torus", "hbm", "nvlink")
    columns |= partitioned(np.arange(len(columns["partition_of"])))
    flops = solve(columns, "partition_loads")[[i - 1 for i in kernels], 0].sum()
    assert_printed(flops / solve(columns, "attainable_flops") / NANO, nanoseconds)


def test_H5_work_per_chip() -> None:
    ffn0 = solve(case("LLM", "h100", "2d_torus", "ddr", "pcie"), "partition_loads")[13, 0]
    assert_printed(ffn0, "1.3421773e12")
    assert_printed(solve(case("FFT", "h100", "2d_torus", "ddr", "pcie"), "partition_loads")[0, 0], "1.0995e12")


H6 = {
    1: 209715200, 2: 734003200, 3: 131072000, 4: 131072000, 5: 131072000, 6: 193986560, 7: 335544320, 8: 503316480,
    9: 207093760, 10: 117964800, 12: 419430400, 13: 314572800, 14: 157286400, 15: 157286400, 16: 157286400,
    19: 104857600, 29: 13107200, 34: 13107200, 35: 13107200, 36: 157286400, 37: 157286400, 38: 117964800,
    39: 117964800, 40: 117964800, 41: 117964800,
}  # fmt: skip
"""Memory traffic per kernel in bytes, kernel by kernel, 8 chips per layer."""


def test_H6_H7_memory_traffic_kernel_by_kernel() -> None:
    tensors = solve(case("LLM", "h100", "2d_torus", "hbm", "nvlink"), "partition_loads")[:, 1]
    assert {i: tensors[i - 1] for i in H6} == H6
    assert_printed(tensors.sum(), "8.5564e9")


def test_H6_tensors_between_kernels() -> None:
    """The bytes that the original lists for every edge leave one kernel and enter the other."""
    expected = np.zeros(41)
    for row in read("gpt3_1t_edges.csv"):
        for end in ("src", "dst"):
            expected[int(row[end]) - 1] += float(row["bytes_per_chip"])
    tensors = solve(case("LLM", "h100", "2d_torus", "hbm", "nvlink"), "partition_loads")[:, 1]
    assert tensors.tolist() == expected.tolist()


def test_H7_memory_traffic_of_six_partitions() -> None:
    tensors = solve(case("LLM", "sn30", "2d_torus", "ddr", "pcie"), "partition_loads")[:, 1].sum()
    assert tensors == 2_222_981_120
    assert_printed(tensors, "2.2230e9")


def test_work_of_each_kernel_and_of_a_batch() -> None:
    """C.1: floating-point operations of every kernel, and 3.85072240461978e19 per batch."""
    columns = case("LLM", "h100", "2d_torus", "ddr", "pcie")
    for i, row in enumerate(read("gpt3_1t_kernels.csv")):
        alone = {name: columns[name][i : i + 1] for name in ("kernel_traits", "kernel_dims")}
        assert solve(alone, "graph_flops") == float(row["flops"])
    assert_printed(solve(columns, "work_flops"), "3.85072240461978e19")


# H8 and H9: whole points

H8 = [
    ("LLM", "h100", "2d_torus", "hbm", "nvlink", "none", "58.4742"),
    ("LLM", "h100", "2d_torus", "ddr", "nvlink", "full", "113.8664"),
    ("LLM", "wse-2", "dragonfly", "ddr", "pcie", "full", "7.24566"),
    ("LLM", "wse-2", "dgx_2", "ddr", "pcie", "full", "47.4984"),
    ("LLM", "wse-2", "3d_torus", "ddr", "pcie", "full", "47.5656"),
    ("LLM", "sn30", "dragonfly", "hbm", "nvlink", "full", "71.3572"),
    ("LLM", "tpu", "dgx_1", "hbm", "pcie", "full", "178.8804"),
    ("LLM", "sn30", "2d_torus", "ddr", "pcie", "none", "142.0231"),
    ("DLRM", "h100", "2d_torus", "ddr", "pcie", "full", "34733.86"),
    ("DLRM", "tpu", "dgx_2", "ddr", "nvlink", "full", "2317.76"),
    ("DLRM", "h100", "2d_torus", "hbm", "nvlink", "none", "4316.88"),
    ("HPL", "h100", "2d_torus", "ddr", "pcie", "full", "0.277743"),
    ("HPL", "h100", "2d_torus", "ddr", "pcie", "none", "0.491930"),
    ("HPL", "sn30", "2d_torus", "ddr", "pcie", "full", "0.448988"),
    ("HPL", "wse-2", "dgx_1", "ddr", "nvlink", "full", "14.20243"),
    ("FFT", "tpu", "dragonfly", "ddr", "nvlink", "full", "0.01431656"),
    ("FFT", "sn30", "3d_torus", "hbm", "pcie", "full", "0.1737871"),
    ("FFT", "wse-2", "dgx_1", "ddr", "nvlink", "full", "0.009544372"),
    ("FFT", "h100", "dgx_2", "hbm", "nvlink", "full", "0.0107744"),
    ("FFT", "h100", "2d_torus", "ddr", "pcie", "none", "0.360374"),
]


@pytest.mark.parametrize(("workload", "chip", "topology", "memory", "link", "overlap", "printed"), H8)
def test_H8_batch_seconds(
    workload: str, chip: str, topology: str, memory: str, link: str, overlap: str, printed: str
) -> None:
    """The DLRM runs read bytes as nanoseconds (C.2), which shows without overlap."""
    gradients = "bytes_as_nanoseconds" if workload == "DLRM" and chip != "wse-2" else "amortised"
    columns = case(workload, chip, topology, memory, link)
    assert_printed(solve(columns, "iteration_time_s", overlap=overlap, gradient_all_reduce=gradients), printed)


H9 = [
    ("LLM", "h100", "2d_torus", "hbm", "nvlink", "40745728", "958402.5"),
    ("LLM", "h100", "3d_torus", "ddr", "pcie", "35980800", "829312.3"),
    ("LLM", "h100", "2d_torus", "ddr", "nvlink", "37907200", "831400.6"),
    ("LLM", "sn30", "2d_torus", "ddr", "pcie", "17757184", "511325.0"),
    ("LLM", "sn30", "dragonfly", "hbm", "nvlink", "47802112", "750705.1"),
    ("LLM", "tpu", "dgx_1", "hbm", "pcie", "8303940.5", "355635.4"),
    ("LLM", "wse-2", "2d_torus", "ddr", "pcie", "3099425536", "20841223.9"),
    ("LLM", "wse-2", "dgx_2", "ddr", "pcie", "3100391936", "20841182.3"),
    ("FFT", "tpu", "dragonfly", "ddr", "nvlink", "45411012.5", "401806.0"),
    ("FFT", "sn30", "3d_torus", "hbm", "pcie", "21139712", "641946.1"),
    ("FFT", "h100", "dgx_2", "hbm", "nvlink", "50416128", "977263.9"),
    ("HPL", "sn30", "3d_torus", "ddr", "pcie", "18531584", "515443.4"),
]


@pytest.mark.parametrize(("workload", "chip", "topology", "memory", "link", "usd", "watts"), H9)
def test_H9_price_and_power(
    workload: str, chip: str, topology: str, memory: str, link: str, usd: str, watts: str
) -> None:
    columns = system(workload, chip, topology, memory, link)
    assert_printed(solve(columns, "system_price_usd"), usd)
    assert_printed(solve(columns, "system_power_W"), watts)


# H10 to H12


@pytest.mark.parametrize("sharding", ["given", "least_bytes"])
def test_H10_least_bytes(sharding: str) -> None:
    """419,430,400 B, all of it all-reduces, of exactly four kernels that are split by k."""
    columns = case("LLM", "h100", "2d_torus", "ddr", "pcie")
    assert solve(columns, "sharding_cost", sharding=sharding) == (419_430_400 if sharding == "least_bytes" else 0)
    loads = solve(columns, "kernel_loads", sharding=sharding)
    reduced = BYTES + CHANNELS.index("all_reduce_tensor")
    assert loads[:, reduced].sum() == 419_430_400
    assert [int(i) + 1 for i in np.flatnonzero(loads[:, reduced])] == [10, 16, 23, 29]
    assert not loads[:, reduced + 1 : reduced + 3].any()


def test_H11_sram_of_the_six_partitions() -> None:
    """Two dozen units of 163.84 MB, four to a partition: merging any two partitions of a half exceeds the chip."""
    columns = case("LLM", "sn30", "2d_torus", "ddr", "pcie")
    capacity = columns["chip_sram_capacity_B"]
    assert solve(columns, "all_weights_B") == 24 * 163_840_000
    assert solve(columns, "partition_loads")[:, 2].tolist() == [4 * 163_840_000] * 6
    assert 4 * 163_840_000 <= solve(columns | {"tiles": 2048.0}, "partition_sram_B") <= capacity
    for at in (0, 1, 3, 4):
        merged = columns["partition_of"] - (columns["partition_of"] > at)
        assert solve(columns | partitioned(merged), "partition_sram_B") > capacity


def test_H11_sram_of_the_wafer_and_of_the_sn10() -> None:
    wafer = case("LLM", "wse-2", "2d_torus", "ddr", "pcie")
    assert_printed(solve(wafer, "all_weights_B"), "3.93e9")
    assert solve(wafer, "partition_sram_B") <= wafer["chip_sram_capacity_B"]
    small = wafer | gpt3("each", 18, GPT3_175B)
    weights = solve(small, "partition_loads")[:, 2]
    assert_printed(weights[2], "37.75e6")
    assert weights.sum() == 12 * weights[2]


def test_H12_latency_of_two_all_reduces() -> None:
    columns = network(["ring"], [16], 50 * GIGA) | parallel(16, 1, 1)
    columns |= {"link_latency_s": 150 * NANO, "outer_link_latency_s": 150 * NANO}
    rate = solve(columns, "all_reduce_tensor_s_per_B", latency="included")
    latency = solve(columns, "all_reduce_tensor_latency_s", latency="included")
    assert_printed(2 * rate * 8192 / NANO, "614.4")
    assert_printed(2 * latency / NANO, "9000")
    assert solve(columns, "all_reduce_tensor_latency_s") == 0.0


@pytest.mark.parametrize(
    ("parts", "dims", "utilisation"),
    [
        ("each", (8,), "0.139862"),
        (VENDOR, (8,), "0.566388"),
        (DFMODEL, (8,), "0.672796"),
        (FOUR_BY_TWO, (4, 2), "0.857211"),
    ],
)
def test_E4_mappings_of_table_VI(parts: Any, dims: tuple[int, ...], utilisation: str) -> None:
    """Forward pass of GPT-3 175B on eight SN10; a pipeline of one stage passes nothing on."""
    columns: dict[str, Any] = network(["ring"] * len(dims), dims, 50 * GIGA) | CHIPS["sn10"]
    columns |= {"memory_bandwidth_Bps": 100 * GIGA, "memory_efficiency": 1.0, "compute_efficiency": 0.9}
    columns |= LLM | {"layers": 96.0, "batch": 2304.0, "stage_boundary_B": 12288.0 * 2048 * 2}
    columns |= parallel(dims[0], 1, 8 // dims[0]) | gpt3(parts, 18, GPT3_175B)
    columns |= {"system_price_usd": 1.0, "system_power_W": 1.0}
    assert_printed(solve(columns, "utilisation"), utilisation)
