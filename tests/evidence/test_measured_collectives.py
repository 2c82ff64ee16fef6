"""Rows of tables of collectives as points: hosts, networks, libraries, messages, and what is refused."""

import pytest

from sweeper.evidence.measured import measured_point
from sweeper.evidence.measured_rows import MeasuredPoint
from sweeper.evidence.predictions import evaluate
from sweeper.evidence.registry import registry

ALL_REDUCE = {
    "collective": "all_reduce", "system": "s", "accelerator": "H100-SXM5-80GB", "n_ranks": "16", "n_nodes": "2",
    "intra_node_net": "NVLink4+NVSwitch", "intra_link_bw_Bps_per_dir": "450000000000.0",
    "inter_node_net": "8x400Gb/s RoCE", "inter_bw_Bps_per_accel": "50000000000.0", "library": "NCCL 2.30",
    "algo": "auto", "message_bytes": "1073741824", "message_bytes_definition": "per-rank buffer", "time_s": "0.004",
    "notes": "",
}  # fmt: skip


def collective(**change: str) -> MeasuredPoint | str:
    return measured_point({**ALL_REDUCE, **change}, "library_collective", registry())


def test_a_collective_becomes_the_columns_of_a_study() -> None:
    point = collective()
    assert isinstance(point, MeasuredPoint), point
    expected = {
        "chips": 16.0, "dim_x": 8.0, "dim_y": 2.0, "tensor_parallel": 16.0, "data_parallel": 1.0,
        "workload.operation": 0.0, "workload.message": 2.0**30, "link": "nvlink4_nvls", "link.bandwidth": 4.5e11,
        "outer_link": "roce_400", "outer_link.bandwidth": 5e10, "calibration": "h100_nccl_hosts",
        "collective_algorithm": "library",
    }  # fmt: skip
    assert {name: point.columns[name] for name in expected} == expected
    assert (point.answer, point.measured) == ("layer_forward_s", 0.004)
    assert point.group == "collectives on two hosts or more above 1 MB"


ONE_HOST = {"n_ranks": "8", "n_nodes": "1", "inter_node_net": "", "inter_bw_Bps_per_accel": ""}
GATHER = {"collective": "all_gather", "message_bytes": "3000"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (ONE_HOST, {"dim_x": 8.0, "dim_y": 1.0, "calibration": "h100_nccl"}),
        ({"inter_bw_Bps_per_accel": ""}, {"outer_link.bandwidth": 5e10}),
        ({"inter_bw_Bps_per_accel": "", "inter_node_net": "16 NICs x 100Gb/s?"}, {"outer_link.bandwidth": 2.5e10}),
        ({"inter_node_net": "EFA v3 16x200Gb/s"}, {"outer_link": "efa_v3", "calibration": "h100_nccl_efa"}),
        ({"inter_node_net": "GPUDirect-TCPX"}, {"outer_link": "gpudirect_tcpx", "calibration": "h100_nccl_tcpx"}),
        ({"inter_node_net": "HDR IB + SHARP"}, {"outer_link": "infiniband_hdr_sharp"}),
        ({"library": "torch NCCL 2.27 blocking"}, {"workload.wait": 2e-5, "workload.out_of_place": 0}),
        ({"library": "NCCL, -g 8: ~32us launch floor"}, {"calibration.collective_host": 2e-6}),
        ({"algo": "NVLSTree forced"}, {"collective_algorithm": "library_nvls"}),
        ({"algo": "RING (NVLS off)"}, {"collective_algorithm": "library_ring"}),
        ({"algo": "RING/LL <=1MiB, NVLS >=2MiB"}, {"collective_algorithm": "library"}),
        ({"algo": "CollNet/SHARP"}, {"collective_algorithm": "library_collnet"}),
        ({"accelerator": "V100-SXM2"}, {"calibration": "uncalibrated_nccl"}),
        ({**ONE_HOST, "intra_node_net": "PCIe4"}, {"link": "pcie4", "calibration": "uncalibrated_nccl"}),
        ({**ONE_HOST, "accelerator": "L40S"}, {"dim_x": 2.0, "dim_y": 2.0, "dim_z": 2.0, "calibration": "l40s_nccl"}),
        ({**ONE_HOST, "accelerator": "MI300X", "n_ranks": "2"}, {"chips": 8.0, "dim_x": 8.0, "data_parallel": 4.0}),
        ({"accelerator": "GB200", "n_ranks": "8"}, {"dim_x": 8.0, "dim_y": 1.0, "calibration": "gb200_nccl"}),
        ({**GATHER, "message_bytes_definition": "total gathered buffer"}, {"workload.message": 3000.0}),
        ({**GATHER, "message_bytes_definition": "per-rank buffer"}, {"workload.message": 48000.0}),
        ({**GATHER, "message_bytes_definition": "sent ((n-1)/n of output)"}, {"workload.message": 3200.0}),
        ({"collective": "sendrecv"}, {"workload.operation": 5.0}),
    ],
    ids=str,
)
def test_what_a_row_says_reaches_its_column(change: dict[str, str], expected: dict[str, object]) -> None:
    point = collective(**change)
    assert isinstance(point, MeasuredPoint), point
    for name, value in expected.items():
        found = point.columns[name]
        assert found == (value if isinstance(value, str) else pytest.approx(value, rel=1e-12)), name


@pytest.mark.parametrize(("system", "whole"), [("b60", 4.0), ("h100_sxm", 1.0)])
@pytest.mark.parametrize("operation", ["all_gather", "reduce_scatter", "all_reduce"])
def test_one_library_states_a_gather_by_what_a_rank_gives(system: str, whole: float, operation: str) -> None:
    row = {"system": system, "op_name": operation, "num_gpus": "4", "size_bytes": "3000", "latency_us": "5"}
    point = measured_point(row, "collective", registry())
    assert isinstance(point, MeasuredPoint), point
    assert point.columns["workload.message"] == (3000.0 * whole if operation == "all_gather" else 3000.0)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"time_s": ""}, "message or time is not given"),
        ({"message_bytes": ""}, "message or time is not given"),
        ({"accelerator": "unknown (likely A100)"}, "accelerator is not given"),
        ({"accelerator": "abacus"}, "unknown accelerator"),
        ({"collective": "p2p: host->device"}, "collective 'p2p'"),
        ({"inter_bw_Bps_per_accel": "", "inter_node_net": "fast"}, "the network between hosts is not given"),
        ({"n_ranks": "9"}, "ranks do not fill hosts"),
        ({"library": "DeepEP normal kernels"}, "library 'DeepEP normal kernels'"),
        ({"message_bytes_definition": "furlongs"}, "message_bytes_definition 'furlongs'"),
    ],
    ids=str,
)
def test_what_is_not_known_is_refused(change: dict[str, str], reason: str) -> None:
    assert reason in str(collective(**change))


def seconds(**change: str) -> float:
    """What the model says of a row."""
    point = collective(**change)
    assert isinstance(point, MeasuredPoint), point
    ((value, _),) = evaluate([point], {})
    return value


def test_what_the_host_adds_and_the_least_that_it_takes() -> None:
    small = {**ONE_HOST, "message_bytes": "8"}
    free = seconds(**small, library="NCCL")
    assert 5e-6 < free < 2e-5
    assert seconds(**small, library="torch NCCL blocking") == pytest.approx(free + 2e-5, rel=1e-3)
    assert seconds(**small, library="NCCL: ~33us launch floor") == pytest.approx(33e-6, rel=1e-12)
    large = {**ONE_HOST, "message_bytes": "100000000"}
    assert seconds(**large, library="NCCL: ~33us launch floor") == seconds(**large, library="NCCL")


def test_slower_networks_and_more_hosts_take_longer() -> None:
    gather = {"collective": "all_gather", "message_bytes_definition": "total gathered buffer"}
    assert seconds(**gather) < seconds(**gather, inter_bw_Bps_per_accel="25000000000.0")
    assert seconds(message_bytes="8") < seconds(message_bytes="8", n_ranks="64", n_nodes="8")
    assert seconds(message_bytes="8") < seconds(message_bytes="8", inter_node_net="EFA v3") / 3.0
