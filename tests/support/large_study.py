"""A study of many rows from equations that compile in seconds: what a chip architect sweeps around one graph."""

from typing import Any


def numbers(low: float, high: float, count: int) -> list[float]:
    """Numbers evenly from one to the other."""
    return [round(low + (high - low) * at / (count - 1), 9) for at in range(count)]


def large_study(count: int, partitionings: int = 1) -> dict[str, Any]:
    """`count` cubed points for each of some mappings of one graph, all of which can run."""
    names = ["vendor_8x1", "kernel_by_kernel", "dfmodel_8x1"][:partitionings]
    return {
        "study": "many_rows",
        "assumptions": "dfmodel_published",
        "axes": {
            "workload": "gpt3_175b_forward",
            "chip": "sn10",
            "memory": "ddr4_sn10",
            "link": "pcie5",
            "topology": "ring",
            "chips": 8,
            "dim_x": 8,
            "tensor_parallel": 8,
            "data_parallel": 1,
            "partitioning": names,
            "memory.bandwidth": [f"{value} GB/s" for value in numbers(50.0, 400.0, count)],
            "link.bandwidth": [f"{value} GB/s" for value in numbers(10.0, 100.0, count)],
            "compute_efficiency": numbers(0.5, 1.0, count),
        },
        "output": {"mode": "all"},
        "objective": {"minimise": "iteration_time_s"},
    }
