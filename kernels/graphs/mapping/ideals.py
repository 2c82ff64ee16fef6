"""Order ideals of a graph: the sets of kernels that may have run before a cut, as bit sets, smallest first.

An ideal holds the producers of all its kernels. Every order-respecting partition is a chain of ideals, so that a
shortest path over them is an exact optimum (DFModel B.8 stage 2, without a solver). Kernels are in topological order;
taking the last kernel out of an ideal leaves an ideal, so that each is found once, from that one.
"""

import numpy as np

from sweeper.kernels.equation import compiled

WORD = 64
"""Bits of a word of a set."""


@compiled
def copy(source: np.ndarray, target: np.ndarray) -> None:
    """Copy a row; `target[:] = source` would take the compiler a second, for the message of lengths that differ."""
    for j in range(source.shape[0]):
        target[j] = source[j]


@compiled
def ascending(keys: np.ndarray) -> np.ndarray:
    """Positions in ascending order of small whole numbers, equal ones in the order in which they stand."""
    ends = np.zeros(keys.max() + 2, np.int64)
    for i in range(keys.shape[0]):
        ends[keys[i] + 1] += 1
    for key in range(1, ends.shape[0]):
        ends[key] += ends[key - 1]
    order = np.empty(keys.shape[0], np.int64)
    for i in range(keys.shape[0]):
        order[ends[keys[i]]] = i
        ends[keys[i]] += 1
    return order


@compiled
def has(members: np.ndarray, i: int) -> bool:
    """Whether a set has element i."""
    return (members[i // WORD] >> np.uint64(i % WORD)) & np.uint64(1) == np.uint64(1)


@compiled
def add(members: np.ndarray, i: int) -> None:
    """Put element i into a set."""
    members[i // WORD] |= np.uint64(1) << np.uint64(i % WORD)


@compiled
def within(inner: np.ndarray, outer: np.ndarray) -> bool:
    """Whether a set is part of another."""
    for w in range(inner.shape[0]):
        if inner[w] & ~outer[w] != np.uint64(0):
            return False
    return True


@compiled
def predecessors(graph_edges: np.ndarray, group_of: np.ndarray) -> np.ndarray:
    """Sets of kernels that must run before each: producers of its operands, and every kernel of an earlier group."""
    kernels = group_of.shape[0]
    before = np.zeros((kernels, (kernels + WORD - 1) // WORD), np.uint64)
    for e in range(graph_edges.shape[0]):
        add(before[graph_edges[e, 1]], graph_edges[e, 0])
    for i in range(kernels):
        for j in range(kernels):
            if group_of[j] < group_of[i]:
                add(before[i], j)
    return before


@compiled
def all_ideals(before: np.ndarray, order: np.ndarray, most: int) -> np.ndarray:
    """Every ideal, smallest first; no rows if there are more than `most`. `order` is topological."""
    kernels, words = before.shape
    found = np.zeros((most + 1, words), np.uint64)
    last = np.full(most + 1, -1, np.int64)
    count = 1
    at = 0
    while at < count:
        for position in range(last[at] + 1, kernels):
            v = order[position]
            if within(before[v], found[at]):
                if count > most:
                    return found[:0]
                copy(found[at], found[count])
                add(found[count], v)
                last[count] = position
                count += 1
        at += 1
    return found[:count]


@compiled
def free_to_move(before: np.ndarray, ideal: np.ndarray, i: int) -> bool:
    """Whether an ideal stays one when kernel i is put in, or taken out."""
    if not has(ideal, i):
        return within(before[i], ideal)
    for j in range(before.shape[0]):
        if has(ideal, j) and has(before[j], i):
            return False
    return True


@compiled
def toggle(members: np.ndarray, i: int) -> None:
    """Put element i into a set, or take it out."""
    members[i // WORD] ^= np.uint64(1) << np.uint64(i % WORD)


@compiled
def by_size(ideals: np.ndarray, kernels: int) -> np.ndarray:
    """Ideals, smallest first."""
    size = np.zeros(ideals.shape[0], np.int64)
    for n in range(ideals.shape[0]):
        for v in range(kernels):
            size[n] += has(ideals[n], v)
    order = ascending(size)
    found = np.empty_like(ideals)
    for n in range(ideals.shape[0]):
        copy(ideals[order[n]], found[n])
    return found


@compiled
def nearby_ideals(before: np.ndarray, cuts: np.ndarray, most: int) -> np.ndarray:
    """Ideals that differ from given ones by at most two kernels, smallest first, about `most` of them."""
    kernels, words = before.shape
    found = np.empty((most + cuts.shape[0], words), np.uint64)
    count = cuts.shape[0]
    for n in range(count):
        copy(cuts[n], found[n])
    for n in range(1, cuts.shape[0] - 1):
        ideal = cuts[n].copy()
        for i in range(kernels):
            if not free_to_move(before, ideal, i):
                continue
            toggle(ideal, i)
            for j in range(i, kernels):
                # moving kernel i twice stands for not moving a second one
                if count < found.shape[0] and (j == i or free_to_move(before, ideal, j)):
                    copy(ideal, found[count])
                    if j > i:
                        toggle(found[count], j)
                    count += 1
            toggle(ideal, i)
    return by_size(found[:count], kernels)


@compiled
def linear_order(before: np.ndarray, sinks_first: bool) -> np.ndarray:
    """A topological order in which kernels that nothing follows come as early, or as late, as they can."""
    kernels, words = before.shape
    followed = np.zeros(words, np.uint64)
    for i in range(kernels):
        for w in range(words):
            followed[w] |= before[i, w]
    done = np.zeros(words, np.uint64)
    order = np.empty(kernels, np.int64)
    for step in range(kernels):
        chosen = -1
        for i in range(kernels):
            if has(done, i) or not within(before[i], done):
                continue
            preferred = has(followed, i) != sinks_first
            if chosen < 0 or preferred:
                chosen = i
            if preferred:
                break
        order[step] = chosen
        add(done, chosen)
    return order


@compiled
def some_ideals(before: np.ndarray, most: int) -> np.ndarray:
    """Beginnings of one topological order, joined with beginnings of another, smallest first, at most `most`.

    The orders differ in when they run kernels that nothing follows, such as weight gradients, which are what makes
    ideals numerous. The beginnings of the other order are thinned out until they are few enough.
    """
    kernels, words = before.shape
    early = linear_order(before, True)
    late = linear_order(before, False)
    early_place = np.empty(kernels, np.int64)
    late_place = np.empty(kernels, np.int64)
    for step in range(kernels):
        early_place[early[step]] = step
        late_place[late[step]] = step
    most = max(most, kernels + 1)
    pairs = np.empty((most + 1, 2), np.int64)
    stride = 1
    count = most + 1
    while count > most:
        count = 0
        for i in range(kernels + 1):
            for j in range(0, kernels + 1, stride):
                # one pair for each union: the longest first, the shortest second beginning
                longest = i == kernels or late_place[early[i]] >= j
                shortest = j == 0 or early_place[late[j - 1]] >= i
                if count <= most and shortest and (longest or j == 0):
                    pairs[count, 0] = i
                    pairs[count, 1] = j
                    count += 1
        stride *= 2
    found = np.zeros((count, words), np.uint64)
    for n in range(count):
        for step in range(pairs[n, 0]):
            add(found[n], early[step])
        for step in range(pairs[n, 1]):
            add(found[n], late[step])
    return by_size(found, kernels)
