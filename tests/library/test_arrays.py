"""A workload's graph as arrays: edges with their operands, and an order of elimination that settles each once."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from sweeper.kernels.graphs.factors import EDGE, INPUT_GRADIENT, PROVIDED, SERVED, WEIGHT_GRADIENT
from sweeper.library.graph_arrays import edges, elimination, published_order, reads, sharing_order
from sweeper.library.graph_workload import read_workload
from sweeper.library.library import Library
from tests.support.small_specs import FILES, write_files


def test_edges_say_which_operand_of_its_consumer_a_tensor_is(tmp_path: Path) -> None:
    """`step_i` takes `first`, then the step before it, as the workload lists them."""
    workload = read_workload(Library.load([write_files(tmp_path, FILES)]).find("workload", "toy"))
    assert edges(workload).tolist() == [[0, 1, 0], [0, 2, 0], [0, 3, 0], [1, 2, 1], [2, 3, 1], [3, 4, 0]]


SHARED = """\
trained:
  source: invented
  grade: assumed
  parameters: {inner: 64, outer_size: 16, word: 2 B}
  layers: 1
  batch: 8
  word: word
  kernels:
    - {name: norm, type: elementwise, reduces: m, m: inner, n: microbatch, tile: n, carried: [gate]}
    - {name: up, type: gemm, outer: 2, m: outer_size, k: inner, n: microbatch, weight: true, tile: n, inputs: [norm]}
    - {name: gate, type: gemm, m: outer_size, k: inner, n: microbatch, weight: true, tile: n, inputs: [norm]}
    - {name: grad, type: elementwise, phase: backward, m: 2*outer_size, n: microbatch, inputs: [up]}
    - {name: up_b, type: gemm, phase: backward, of: up, m: inner, k: 2*outer_size, n: 8, weight: true, inputs: [grad]}
    - name: up_w
      type: batched_gemm
      phase: update
      of: up
      m: inner
      k: microbatch
      n: 2*outer_size
      tile: k
      gradient: true
      inputs: [norm, grad]
"""


def test_readers_of_a_pass_are_provided_together_and_weights_are_shared(tmp_path: Path) -> None:
    """The norm is read twice forward, once in the backward pass; two variables come after the kernels. What a repeat
    leaves for the next costs a conversion too, but not as published."""
    files = {**FILES, "workloads/more.yaml": SHARED}
    workload = read_workload(Library.load([write_files(tmp_path, files)]).find("workload", "trained"))
    names = [kernel.name for kernel in workload.kernels]
    norm, up, gate, grad, up_b, up_w = (names.index(name) for name in ("norm", "up", "gate", "grad", "up_b", "up_w"))
    found = reads(workload).tolist()
    physical, published = sharing_order(workload), published_order(len(names), reads(workload))

    def e(producer: int, consumer: int) -> int:
        return [edge[:2] for edge in found].index([producer, consumer])

    by_norm, by_grad = len(names), len(names) + 1
    assert sorted(physical.factors.tolist()) == sorted(
        [
            [norm, by_norm, PROVIDED, e(norm, up)], [by_norm, up, SERVED, e(norm, up)],
            [by_norm, gate, SERVED, e(norm, gate)],
            [norm, up_w, EDGE, e(norm, up_w)], [up, grad, EDGE, e(up, grad)], [gate, norm, EDGE, e(gate, norm)],
            [grad, by_grad, PROVIDED, e(grad, up_b)], [by_grad, up_b, SERVED, e(grad, up_b)],
            [by_grad, up_w, SERVED, e(grad, up_w)],
            [up, up_b, INPUT_GRADIENT, 0], [up, up_w, WEIGHT_GRADIENT, 0],
        ]
    )  # fmt: skip
    assert found[e(gate, norm)] == [gate, norm, 0, 1]
    assert published.factors[:, :2].tolist() == edges(workload)[:, :2].tolist()
    assert len(physical.scope) == len(names) + 2


@pytest.mark.parametrize("seed", range(8))
def test_elimination_finds_the_least_sum_over_all_assignments(seed: int) -> None:
    """Kernels with two choices each, random costs of edges: what the tables say is what trying all of them finds."""
    random = np.random.default_rng(seed)
    kernels = int(random.integers(2, 7))
    pairs = [pair for pair in itertools.combinations(range(kernels), 2) if random.random() < 0.6]
    graph = np.array([(a, b, 0) for a, b in pairs], np.int64).reshape(-1, 3)
    cost = random.random((len(pairs), 2, 2))
    tried = itertools.product(range(2), repeat=kernels)
    least = min(sum(cost[edge, choice[a], choice[b]] for edge, (a, b) in enumerate(pairs)) for choice in tried)
    assert least_by_tables(kernels, graph, cost) == pytest.approx(least, abs=1e-12)


def least_by_tables(kernels: int, graph: np.ndarray, cost: np.ndarray) -> float:
    """Variable elimination as the three tables say it."""
    scopes, settled, used = elimination(kernels, graph)
    width = scopes.shape[1] - 2
    messages: list[dict[tuple[int, ...], float]] = []
    total = 0.0
    for step in range(kernels):
        size = int(scopes[step, 1])
        message = {}
        for others in itertools.product(range(2), repeat=size):
            sums = []
            for own in range(2):
                value = 0.0
                for at in range(settled[step, 0]):
                    edge, produces, position = settled[step, 1 + 3 * at : 4 + 3 * at]
                    ends = (own, others[position]) if produces else (others[position], own)
                    value += cost[edge][ends]
                for at in range(used[step, 0]):
                    source, *positions = used[step, 1 + at * (width + 1) : 1 + (at + 1) * (width + 1)]
                    positions = positions[: scopes[source, 1]]
                    value += messages[source][tuple(own if place < 0 else others[place] for place in positions)]
                sums.append(value)
            message[others] = min(sums)
        messages.append(message)
        total += message[()] if not size else 0.0
    return total
