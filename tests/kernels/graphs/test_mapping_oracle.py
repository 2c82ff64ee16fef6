"""The oracles of the partition optimiser against answers found by hand, and against each other."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from tests.support.examples import examples
from tests.twins.mapping_oracle import (
    INFEASIBLE,
    TILINGS,
    Instance,
    brute_force,
    evaluate,
    exhaustive,
    instances,
    lower_bound,
    medium_instance,
    order_ideals,
    random_instance,
    solve_mip,
)

SOLVERS = [exhaustive, brute_force, solve_mip]


def graph(kernels: int, *edges: tuple[int, int], **values: Any) -> Instance:
    """Forward kernels of 1 s and an output of 8 B on a chip of 1 B/s, 100 B of SRAM and as many units as kernels."""
    zeros = (0.0,) * kernels
    plain = Instance(
        flops_s=(1.0,) * kernels,
        network_s=zeros,
        column_s=zeros,
        row_s=zeros,
        dram_B=zeros,
        weight_B=zeros,
        gradient_B=zeros,
        output_B=(8.0,) * kernels,
        forward=(True,) * kernels,
        gradient=(False,) * kernels,
        edges=edges,
        bandwidth_Bps=1.0,
        sram_B=100.0,
        units=kernels,
        tiles=1,
        overlap=False,
        per_tensor=True,
        weight_reads=0.0,
        gradient_moves=0,
        reconfiguration_s=0.0,
        live_budget_B=math.inf,
        tiling="free",
    )
    return replace(plain, **values)


FORK = ((0, 1), (0, 2))
PER_EDGE = {"per_tensor": False}


def heavy(input_B: float, **values: Any) -> Instance:
    """Kernel 1 has weights of 250 B, which are worked through in 3 parts, and reads an input of these bytes."""
    return graph(2, (0, 1), weight_B=(0.0, 250.0), output_B=(input_B, 4.0), weight_reads=1.0, **values)


def training(**values: Any) -> Instance:
    """Two forward kernels and two others; both forward outputs are activations stored for these."""
    return graph(4, (0, 1), (0, 3), (1, 2), (2, 3), forward=(True, True, False, False), **values)


BY_HAND = [
    # Fused, a chain moves nothing, not even its first and last tensors.
    ("fused", graph(2, (0, 1)), (0, 0), 2),
    # Alone, kernel 0 reads and writes 8 B, kernel 1 too.
    ("cut", graph(2, (0, 1)), (0, 1), 2 + 4 * 8),
    ("alone, streamed", graph(1, overlap=True, streamed=True, network_s=(3.0,), alone_s=(5.0,)), (0,), 5 + 3),
    ("alone, overlap", graph(1, overlap=True, network_s=(3.0,), alone_s=(5.0,)), (0,), 5),
    (
        "together, streamed",
        graph(2, (0, 1), overlap=True, streamed=True, network_s=(3.0,) * 2, alone_s=(5.0,) * 2),
        (0, 0),
        6,
    ),
    ("cut, overlap", graph(2, (0, 1), overlap=True), (0, 1), 4 * 8),
    ("cut, per edge: no ends", graph(2, (0, 1), **PER_EDGE), (0, 1), 2 + 2 * 8),
    ("reconfiguration of each of two", graph(2, (0, 1), reconfiguration_s=5.0), (0, 1), 2 + 4 * 8 + 10),
    ("no reconfiguration of one", graph(2, (0, 1), reconfiguration_s=5.0), (0, 0), 2),
    ("written once, read once", graph(3, *FORK), (0, 1, 1), 3 + 8 + 8 + 8 + 2 * 8),
    ("written once, read twice", graph(3, *FORK), (0, 1, 2), 3 + 8 + 8 + 2 * 8 + 2 * 8),
    ("an edge each", graph(3, *FORK, **PER_EDGE), (0, 1, 1), 3 + 2 * 16),
    ("an operand twice, per edge", graph(2, (0, 1), (0, 1), **PER_EDGE), (0, 1), 2 + 2 * 16),
    ("an operand twice, per tensor", graph(2, (0, 1), (0, 1)), (0, 1), 2 + 4 * 8),
    ("a weight gradient stays", graph(2, (0, 1), gradient=(False, True)), (0, 1), 2 + 3 * 8),
    ("explicit bytes", graph(1, dram_B=(7.0,)), (0,), 1 + 7),
    ("the longer direction", graph(2, network_s=(1.0, 1.0), column_s=(2.0, 2.0), row_s=(3.0, 0.0)), (0, 0), 2 + 2 + 4),
    # Weights stay on the chip if one partition holds all of them; otherwise they are read.
    ("resident", graph(2, (0, 1), weight_B=(20.0, 20.0), weight_reads=0.25, gradient_moves=2), (0, 0), 2),
    ("read", graph(2, (0, 1), weight_B=(20.0, 20.0), weight_reads=0.25), (0, 1), 2 + 4 * 8 + 10),
    ("gradients", graph(2, (0, 1), gradient_B=(20.0, 20.0), gradient_moves=2), (0, 1), 2 + 4 * 8 + 80),
    ("a weight that does not fit is read", graph(1, weight_B=(101.0,), weight_reads=1.0), (0,), 1 + 101),
    # Kernel 1 reads 16 B and writes 4 B: as they are, or three times, or without more as 16 B of inputs fit.
    ("tiling: free", heavy(16.0), (0, 1), 2 + 32 + 20 + 250),
    ("tiling: repeats", heavy(16.0, tiling="repeats_traffic"), (0, 1), 2 + 32 + 60 + 250),
    ("tiling: inputs fit", heavy(16.0, tiling="least_traffic"), (0, 1), 2 + 32 + 20 + 250),
    # 110 B of inputs in 2 parts: they are read twice more, 220 B, rather than 250 B of weights once more.
    ("tiling: inputs", heavy(110.0, tiling="least_traffic"), (0, 1), 2 + 220 + 114 + 250 + 220),
    # 300 B of inputs in 3 parts: the weights are read twice more, 500 B, rather than 300 B of inputs.
    ("tiling: weights", heavy(300.0, tiling="least_traffic"), (0, 1), 2 + 600 + 304 + 250 + 500),
    # Kernel 2 reads from kernels 0 and 1: a buffer of three tiles, one of two.
    ("buffers fit", graph(3, (0, 1), (0, 2), (1, 2), sram_B=40.0), (0, 0, 0), 3),
    ("buffers do not", graph(3, (0, 1), (0, 2), (1, 2), sram_B=39.0), (0, 0, 0), math.inf),
    ("buffers of edges fit", graph(3, (0, 1), (0, 2), (1, 2), sram_B=56.0, **PER_EDGE), (0, 0, 0), 3),
    ("buffers of edges do not", graph(3, (0, 1), (0, 2), (1, 2), sram_B=55.0, **PER_EDGE), (0, 0, 0), math.inf),
    ("smaller tiles", graph(3, (0, 1), (0, 2), (1, 2), sram_B=20.0, tiles=2), (0, 0, 0), 3),
    ("input buffers fit", graph(3, *FORK, sram_B=16.0), (0, 1, 1), 3 + 5 * 8),
    ("input buffers do not", graph(3, *FORK, sram_B=15.0), (0, 1, 1), math.inf),
    ("too few units", graph(2, (0, 1), units=1), (0, 0), math.inf),
    # A stored activation is no live tensor; per edge it is one.
    ("live", training(live_budget_B=0.0), (0, 0, 1, 1), 4 + 6 * 8),
    ("live edges", training(live_budget_B=16.0, **PER_EDGE), (0, 0, 1, 1), 4 + 32),
    ("dead edges", training(live_budget_B=15.0, **PER_EDGE), (0, 0, 1, 1), math.inf),
    ("kept over a partition", graph(3, *FORK, live_budget_B=7.0), (0, 1, 2), math.inf),
    ("kept once", graph(3, *FORK, live_budget_B=8.0), (0, 1, 2), 3 + 6 * 8),
    # Order.
    ("against an edge", graph(2, (0, 1)), (1, 0), math.inf),
    ("a gap", graph(2, (0, 1)), (0, 2), math.inf),
    ("phases in one: the tensor waits in memory", graph(2, (0, 1), forward=(True, False)), (0, 0), 2 + 2 * 8),
    ("phases in one, by edge", graph(2, (0, 1), forward=(True, False), per_tensor=False), (0, 0), 2),
    ("phases mixed in one of two", graph(3, (0, 1), (1, 2), forward=(True, False, False)), (0, 0, 1), math.inf),
    ("phases in the wrong order", graph(2, forward=(True, False)), (1, 0), math.inf),
]


@pytest.mark.parametrize(
    ("instance", "assignment", "time_s"), [case[1:] for case in BY_HAND], ids=[c[0] for c in BY_HAND]
)
def test_a_mapping_takes_the_time_found_by_hand(instance: Instance, assignment: tuple[int, ...], time_s: float) -> None:
    assert evaluate(instance, assignment) == time_s


@pytest.mark.parametrize("solve", SOLVERS)
def test_the_best_cut_of_a_chain_is_at_its_smallest_tensor(solve: Any) -> None:
    chain = graph(4, (0, 1), (1, 2), (2, 3), output_B=(9.0, 2.0, 9.0, 1.0), units=3)
    # {0, 1}, {2, 3}: reads 9 and 2, writes 2 and 1.
    assert solve(chain) == (4 + 14, (0, 0, 1, 1))
    assert solve(replace(chain, units=2), 1) == INFEASIBLE
    assert solve(replace(chain, units=4)) == (4, (0, 0, 0, 0))


@pytest.mark.parametrize("solve", SOLVERS)
def test_a_balanced_cut_beats_a_small_tensor(solve: Any) -> None:
    """With overlap, compute of one kernel hides the explicit traffic of another, so those two are fused."""
    pair = graph(3, flops_s=(6.0, 0.0, 6.0), dram_B=(0.0, 6.0, 6.0), output_B=(0.0,) * 3, overlap=True, units=2)
    assert solve(pair).time_s == 12
    assert evaluate(pair, (0, 1, 0)) == 18


@pytest.mark.parametrize("solve", SOLVERS)
def test_nothing_is_feasible_without_memory_for_a_live_tensor(solve: Any) -> None:
    assert solve(graph(2, (0, 1), units=1, live_budget_B=7.0)) == INFEASIBLE
    assert solve(graph(2, (0, 1), units=1, live_budget_B=8.0)).time_s == 2 + 4 * 8


def agree(instance: Instance, *answers: Any) -> None:
    """The same time from every oracle, of a mapping that takes it, and no less than the bound."""
    for time_s, assignment in answers:
        assert time_s == pytest.approx(answers[0][0], rel=1e-9)
        assert time_s >= lower_bound(instance) * (1 - 1e-12)
        if assignment:
            assert evaluate(instance, assignment) == pytest.approx(time_s, rel=1e-12)
        else:
            assert time_s == math.inf


@given(instances(5))
@examples(150)
def test_ideals_find_what_enumeration_finds(instance: Instance) -> None:
    for most_partitions in (None, 2):
        agree(instance, exhaustive(instance, most_partitions), brute_force(instance, most_partitions))


def test_all_three_agree_on_small_graphs() -> None:
    rng = np.random.default_rng(4)
    for kernels in rng.integers(1, 7, 200):
        instance = random_instance(rng, int(kernels))
        agree(instance, exhaustive(instance), brute_force(instance), solve_mip(instance))


@pytest.mark.nightly
def test_the_program_finds_what_ideals_find() -> None:
    rng = np.random.default_rng(5)
    found = []
    for kernels in rng.integers(6, 10, 60):
        instance = random_instance(rng, int(kernels))
        best = brute_force(instance)
        agree(instance, best, solve_mip(instance))
        agree(instance, brute_force(instance, 3), solve_mip(instance, 3))
        found.append((instance, len(set(best.assignment))))
    # The instances ask something: all switches, most with several partitions.
    for switch in ("overlap", "per_tensor"):
        assert {getattr(instance, switch) for instance, _ in found} == {True, False}
    assert {instance.tiling for instance, _ in found} == set(TILINGS)
    assert sum(partitions > 1 for _, partitions in found) > len(found) / 2
    assert any(partitions == 0 for _, partitions in found) and any(partitions > 5 for _, partitions in found)


def test_the_program_finds_what_ideals_find_in_medium_graphs() -> None:
    rng = np.random.default_rng(6)
    drawn = (medium_instance(rng) for _ in range(60))
    narrow = [(instance, most) for instance, most in drawn if len(order_ideals(instance)) < 250]
    assert len(narrow) > 8
    for instance, most in narrow:
        agree(instance, brute_force(instance, most), solve_mip(instance, most))


def test_random_instances_come_from_the_seed() -> None:
    one, same, other = (random_instance(np.random.default_rng(seed), 9, units=3) for seed in (1, 1, 2))
    assert one == same != other and one.units == 3
