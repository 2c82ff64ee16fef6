"""Least sum of costs over the kernels and edges of a graph, exactly, by eliminating one kernel after the other."""

import numpy as np

from kernels.equation import compiled


@compiled
def eliminate(
    option_cost: np.ndarray,
    edge_cost: np.ndarray,
    option_counts: np.ndarray,
    elimination_scope: np.ndarray,
    elimination_edges: np.ndarray,
    elimination_messages: np.ndarray,
    best: np.ndarray,
) -> float:
    """Minimise the sum of `option_cost[i, x_i]` and `edge_cost[e, x_u, x_v]`; write the chosen options to `best`.

    Kernel i has `option_counts[i]` options. Row s of `elimination_scope` is (kernel, width, scope...); of
    `elimination_edges` (count, then edge, whether the kernel is its producer, position of the other end in the scope);
    of `elimination_messages` (count, then step, positions of that step's scope, -1 for the kernel itself). Returns the
    least cost. Ties go to the earlier option.
    """
    kernels = option_cost.shape[0]
    offset = np.empty(kernels + 1, np.int64)
    offset[0] = 0
    for step in range(kernels):
        size = 1
        for j in range(elimination_scope[step, 1]):
            size *= option_counts[elimination_scope[step, 2 + j]]
        offset[step + 1] = offset[step] + size
    table = np.empty(offset[kernels])
    argument = np.zeros(offset[kernels], np.int64)
    width = elimination_scope.shape[1] - 2
    digits = np.empty(width + 1, np.int64)
    total = 0.0
    for step in range(kernels):
        kernel = elimination_scope[step, 0]
        wide = elimination_scope[step, 1]
        digits[:] = 0
        for row in range(offset[step], offset[step + 1]):
            least = np.inf
            for x in range(option_counts[kernel]):
                cost = option_cost[kernel, x]
                for j in range(elimination_edges[step, 0]):
                    edge = elimination_edges[step, 1 + 3 * j]
                    other = digits[elimination_edges[step, 3 + 3 * j]]
                    forward = elimination_edges[step, 2 + 3 * j] == 1
                    cost += edge_cost[edge, x, other] if forward else edge_cost[edge, other, x]
                for j in range(elimination_messages[step, 0]):
                    at = 1 + j * (width + 1)
                    source = elimination_messages[step, at]
                    index = 0
                    for q in range(elimination_scope[source, 1]):
                        position = elimination_messages[step, at + 1 + q]
                        digit = x if position < 0 else digits[position]
                        index = index * option_counts[elimination_scope[source, 2 + q]] + digit
                    cost += table[offset[source] + index]
                if cost < least:
                    least = cost
                    argument[row] = x
            table[row] = least
            for j in range(wide - 1, -1, -1):
                digits[j] += 1
                if digits[j] < option_counts[elimination_scope[step, 2 + j]]:
                    break
                digits[j] = 0
        if wide == 0:
            total += table[offset[step]]
    for step in range(kernels - 1, -1, -1):
        index = 0
        for j in range(elimination_scope[step, 1]):
            other = elimination_scope[step, 2 + j]
            index = index * option_counts[other] + best[other]
        best[elimination_scope[step, 0]] = argument[offset[step] + index]
    return total
