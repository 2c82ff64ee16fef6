"""A dense solver as an operator table: against the same step by step, and against the graph that DFModel draws."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.transformers.test_models import Point, evaluate
from tests.support.examples import examples
from tests.twins.naive_linpack import Grid, solve_s

BOUNDLESS = 1e18
IDEAL: Point = {
    "chip": "v100_sxm2_fp64", "memory": "hbm2_v100_16gb", "link": "nvlink2", "outer_link": "infiniband_edr",
    "topology": "dgx_2", "outer_links": "per_chip", "latency": "ignored", "workload": "linpack", "task": "inference",
    "calibration": "v100_hpl", "calibration.gemm_efficiency": 1.0, "calibration.memory_efficiency": 1.0,
    "calibration.outer_link_efficiency": 1.0, "calibration.link_efficiency": 1.0, "calibration.kernel_overhead": 0.0,
    "calibration.collective_launch": 0.0, "collective_algorithm": "ring", "link_efficiency": 1.0,
    "chip.l2_bandwidth": BOUNDLESS, "chip.l2_capacity": BOUNDLESS,
}  # fmt: skip
"""A solver on chips that attain all that they have; nothing costs time but what it does and sends."""
PEAK = 7.8e12


def solver(rows: int, columns: int, **others: Any) -> Point:
    """On a grid of chips with a port each."""
    chips = float(rows * columns)
    found = IDEAL | {"chips": chips, "dim_x": 1.0, "dim_y": chips, "tensor_parallel": float(columns)}
    return (
        found | {"context_parallel": float(rows)} | {name.replace("__", "."): value for name, value in others.items()}
    )


def seconds(*points: Point) -> list[float]:
    return evaluate(points, ["layer_forward_s"])["layer_forward_s"].tolist()


SIDES = st.sampled_from([1, 2, 4, 8])


@examples(20)
@given(SIDES, SIDES, st.sampled_from([1e8, 1e9, 1e10, 1e11]), st.sampled_from([1e10, 1e11, 1e12]), st.integers(1, 3))
def test_parts_of_a_shrinking_matrix_are_its_steps(
    rows: int, columns: int, port: float, memory: float, passes: int
) -> None:
    order, block = 98304 * 4, 512
    point = solver(rows, columns, workload__n=float(order), workload__k=float(block), memory__bandwidth=memory,
                   outer_link__bandwidth=port, workload__row_passes=float(passes))  # fmt: skip
    (found,) = seconds(point)
    assert found == pytest.approx(solve_s(order, block, Grid(rows, columns, PEAK, memory, port), passes), rel=0.03)


def test_messages_share_the_update_that_they_run_beside() -> None:
    """Where the update takes longer than all of them together they cost nothing; else what is left of them counts."""
    order = {"workload__n": 393216.0, "workload__row_passes": 2.0}
    alone = seconds(solver(4, 4, **order, outer_link__bandwidth=BOUNDLESS))[0]
    hidden = seconds(solver(4, 4, **order, outer_link__bandwidth=1e11))[0]
    slow, slower = seconds(*(solver(4, 4, **order, outer_link__bandwidth=rate) for rate in (1e7, 0.5e7)))
    assert hidden == pytest.approx(alone, rel=0.02)
    assert slower == pytest.approx(2 * slow, rel=0.03) and slow > 20 * alone


def test_without_look_ahead_panels_are_waited_for() -> None:
    order = {"workload__n": 393216.0, "outer_link__bandwidth": 1e10}
    ahead, behind = seconds(solver(4, 4, **order), solver(4, 4, **order) | {"calibration.async_tensor": 0.0})
    panels_s = 393216.0**2 / 2 / 4 * 8 * 3 / 4 / 1e10
    assert behind - ahead == pytest.approx(panels_s, rel=0.03)


GRAPH: Point = {
    "chip": "h100_sxm", "memory": "hbm3", "link": "nvlink4", "outer_link": "nvlink4", "topology": "dgx_1",
    "chips": 1024.0, "dim_x": 32.0, "dim_y": 32.0, "outer_links": "per_chip", "latency": "ignored",
    "link_efficiency": 1.0, "compute_efficiency": 1.0, "chip.core_sram": 1e12,
}  # fmt: skip
"""A system of DFModel's study, with on-chip memory that holds what a product reads."""


def drawn(column: str, **others: float | str) -> float:
    """The first 64 block steps as DFModel draws them: a time of the graph."""
    point = GRAPH | {"workload": "hpl_1m", "tensor_parallel": 1024.0, "efficiencies": "listed"} | others
    return float(evaluate([point], [column])[column][0])


def solved(**others: float | str) -> float:
    """The same steps of our solver: those of the whole matrix, less those of what is left after them."""
    grid = {"tensor_parallel": 32.0, "context_parallel": 32.0, "workload.k": 2048.0, "workload.word": 2.0}
    least = {f"{part}.bandwidth": BOUNDLESS for part in ("memory", "link", "outer_link")}
    orders = ({"workload.n": order} for order in (1048576.0, 1048576.0 - 64 * 2048.0))
    whole, rest = seconds(*(IDEAL | GRAPH | least | grid | order | others for order in orders))
    return whole - rest


def test_the_graph_and_the_table_are_one_solver() -> None:
    """Operations, the trailing matrix through memory, and panels. The table factorises panels and solves for U besides;
    the graph sends what a chip keeps, too."""
    order, block, steps = 1048576.0, 2048.0, 64
    edge = sum(order - i * block for i in range(steps)) / 32  # of what is left on a chip, in all steps
    narrow = 2 * edge * block**2 / (2 / 3 * (order**3 - (order - steps * block) ** 3) / 1024)
    assert solved() == pytest.approx(drawn("graph_compute_time_s") * (1 + narrow), rel=0.015)
    memory = {"memory.bandwidth": 1e10}
    narrow_s = 2 * edge * block * 4 / 1e10  # read, half of it made anew and written
    assert solved(**memory) == pytest.approx(drawn("graph_memory_time_s", **memory) + narrow_s, rel=0.03)
    panels = {"link.bandwidth": 1e9, "outer_link.bandwidth": BOUNDLESS}
    one_way = {**panels, "workload.row_passes": 0.0}
    assert solved(**one_way) == pytest.approx(drawn("graph_network_time_s", **panels) * 31 / 32, rel=0.03)


def test_as_published_the_trailing_matrix_takes_no_memory_traffic() -> None:
    published, counted = (drawn("graph_memory_time_s", tensor_traffic=how) for how in ("per_edge", "per_tensor"))
    left = [1048576.0 - i * 2048.0 for i in range(64)]
    assert counted - published == pytest.approx(sum(2 * side**2 * 2 / 1024 for side in left) / 3.35e12, rel=0.1)
    assert published < 0.1 * counted
