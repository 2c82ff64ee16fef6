"""A heap of events in time: whole numbers, so that no two machines order them differently."""

import numpy as np

from kernels.equation import compiled


@compiled
def push(heap: np.ndarray, count: int, key: int) -> int:
    """Add a key to the first `count` entries of a heap; returns how many there are then."""
    at = count
    while at > 0 and heap[(at - 1) // 2] > key:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = key
    return count + 1


@compiled
def pop(heap: np.ndarray, count: int) -> int:
    """Remove the smallest key, `heap[0]`; returns how many there are then.

    >>> heap = np.array([3, 5, 4])
    >>> pop(heap, 3), heap[:2].tolist()
    (2, [4, 5])
    """
    count -= 1
    key, at = heap[count], 0
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = key
    return count
