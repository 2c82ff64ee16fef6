"""Recurrent layers by hand: the plain recurrence, and the same in chunks, kernel by kernel, with everything counted.

The oracle of the scan of specs/workloads/decoder.yaml. Written from Dao and Gu 2024 (arXiv:2405.21060, section 6), Yang
et al. 2024 (arXiv:2406.06484, section 3: chunks of a delta rule with the inverse of a triangle; arXiv:2412.06464,
section 3: its decays; arXiv:2312.06635, section 4: decays by channel) and Kimi Team 2025 (arXiv:2510.26692, section 3:
both). Nothing is counted by a
formula: products, rows of the inverse, decays and every array that a kernel reads or writes are counted as they happen.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
NARROW_B, WIDE_B = 2, 4
"""Bytes of an element of an activation in 16 bits, and of what is kept in 32."""
DECAY_FLOPS = 10
"""Operations to find a decay from what tokens say and to apply it; a decay that is fixed takes one."""


class Kind(NamedTuple):
    """What a layer does to its state: decays that tokens give, of a head or of the channels of its keys, or fixed ones;
    and whether it forgets by the delta rule."""

    decays: str
    delta: bool


KINDS = {
    "state space": Kind("head", False),
    "lightning": Kind("fixed", False),
    "gated linear": Kind("channel", False),
    "delta": Kind("fixed", True),
    "gated delta": Kind("head", True),
    "kimi delta": Kind("channel", True),
}


class Sequence(NamedTuple):
    """Queries and keys [token, key head, key]; values [token, head, value]; logarithms of decays [token, head, key];
    strengths of writing [token, head]."""

    queries: Array
    keys: Array
    values: Array
    decays: Array
    strengths: Array

    def part(self, start: int, stop: int) -> "Sequence":
        """Some of the tokens."""
        return Sequence(*(array[start:stop] for array in self))


@dataclass
class Ledger:
    """Operations of matrix products; of everything else; bytes that kernels read and write."""

    products: int = 0
    others: int = 0
    moved_B: int = 0

    def product(self, left: Array, right: Array) -> Array:
        """A product of two matrices."""
        self.products += 2 * left.shape[0] * left.shape[1] * right.shape[1]
        return left @ right

    def moves(self, array: Array, width_B: int) -> Array:
        """A kernel reads or writes an array."""
        self.moved_B += array.size * width_B
        return array


def random_sequence(
    rng: np.random.Generator, kind: Kind, tokens: int, heads: int, key_heads: int, key: int, value: int
) -> Sequence:
    """Keys of a delta rule have length one."""
    queries, keys = rng.normal(size=(2, tokens, key_heads, key))
    if kind.delta:
        keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    shape = {"fixed": (1, heads, 1), "head": (tokens, heads, 1), "channel": (tokens, heads, key)}[kind.decays]
    decays = np.broadcast_to(-rng.uniform(0.01, 0.3, shape), (tokens, heads, key))
    strengths = rng.uniform(0.1, 0.9, (tokens, heads)) if kind.delta else np.ones((tokens, heads))
    return Sequence(queries, keys, rng.normal(size=(tokens, heads, value)), decays, strengths)


def recurrence(kind: Kind, given: Sequence, states: Array) -> tuple[Array, Array]:
    """Outputs [token, head, value] and last states [head, key, value], token by token."""
    heads = given.values.shape[1]
    shared = heads // given.keys.shape[1]
    outputs, states = np.empty_like(given.values), states.copy()
    for at in range(len(outputs)):
        for head in range(heads):
            key = given.keys[at, head // shared]
            states[head] *= np.exp(given.decays[at, head])[:, None]
            held = key @ states[head] if kind.delta else np.zeros(states.shape[2])
            states[head] += given.strengths[at, head] * np.outer(key, given.values[at, head] - held)
            outputs[at, head] = given.queries[at, head // shared] @ states[head]
    return outputs, states


def chunked(kind: Kind, given: Sequence, states: Array, chunk: int, ledger: Ledger) -> tuple[Array, Array]:
    """The same by chunks, as chains of kernels do it."""
    if kind.delta:
        return _delta_chain(kind, given, states, chunk, ledger)
    return _plain_chain(kind, given, states, chunk, ledger)


def _chunks(given: Sequence, chunk: int) -> list[Sequence]:
    return [given.part(at, at + chunk) for at in range(0, len(given.values), chunk)]


def _summed(kind: Kind, part: Sequence, applied: int, ledger: Ledger) -> Array:
    """Sums of decays from the start of a chunk; those of channels are arrays of their own, applied to some others."""
    summed = np.cumsum(part.decays, axis=0)
    if kind.decays == "channel":
        ledger.moves(part.decays, NARROW_B)
        ledger.moves(summed, WIDE_B)
        ledger.others += applied * summed.size * DECAY_FLOPS
    return summed


def _read(kind: Kind, summed: Array, ledger: Ledger) -> Array:
    """A kernel reads sums of decays: those of heads are too small to count."""
    return ledger.moves(summed, WIDE_B) if kind.decays == "channel" else summed


def _decayed_scores(kind: Kind, left: Array, right: Array, summed: Array, ledger: Ledger) -> Array:
    """left right' of a head [token, token], each with the decay from the one to the other."""
    if kind.decays == "channel":
        ledger.others += left.shape[0] ** 2  # the mask
        return ledger.product(left * np.exp(summed), (right * np.exp(-summed)).T)
    return _decayed(kind, ledger.product(left, right.T), summed, ledger)


def _decayed(kind: Kind, scores: Array, summed: Array, ledger: Ledger) -> Array:
    """Scores of a head, each with the decay of the head from the one token to the other."""
    ledger.others += scores.size * (DECAY_FLOPS if kind.decays == "head" else 1)
    return scores * np.exp(summed[:, None, 0] - summed[None, :, 0])


def _plain_chain(kind: Kind, given: Sequence, states: Array, chunk: int, ledger: Ledger) -> tuple[Array, Array]:
    """Scores of shared keys; what every chunk adds to the state; states from chunk to chunk; outputs."""
    heads, key_heads = given.values.shape[1], given.keys.shape[1]
    shared, parts, wide = heads // key_heads, _chunks(given, chunk), kind.decays == "channel"
    sums = [_summed(kind, part, 3, ledger) for part in parts]
    written = shared > 1 and not wide
    scores: list[list[Array]] = []
    if written:
        for part in parts:
            queries, keys = ledger.moves(part.queries, NARROW_B), ledger.moves(part.keys, NARROW_B)
            each = [ledger.product(queries[:, group], keys[:, group].T) for group in range(key_heads)]
            scores.append([ledger.moves(array, WIDE_B) for array in each])
    added: list[Array] = []
    for part, summed in zip(parts, sums, strict=True):
        keys, values = ledger.moves(part.keys, NARROW_B), ledger.moves(part.values, NARROW_B)
        left = np.exp(_read(kind, summed, ledger)[-1] - summed)
        of_heads = [
            ledger.product((keys[:, head // shared] * left[:, head]).T, values[:, head]) for head in range(heads)
        ]
        added.append(ledger.moves(np.stack(of_heads), WIDE_B))
    before: list[Array] = []
    for summed, new in zip(sums, added, strict=True):
        before.append(ledger.moves(states, NARROW_B))
        states = states * np.exp(summed[-1])[:, :, None] + ledger.moves(new, WIDE_B)
    outputs = []
    for at, (part, summed) in enumerate(zip(parts, sums, strict=True)):
        queries, values = ledger.moves(part.queries, NARROW_B), ledger.moves(part.values, NARROW_B)
        held, keys = ledger.moves(before[at], NARROW_B), part.keys
        _read(kind, summed, ledger)
        if written:
            for array in scores[at]:
                ledger.moves(array, WIDE_B)
        else:
            ledger.moves(keys, NARROW_B)
        out = np.empty_like(values)
        for head in range(heads):
            group = head // shared
            if written:
                own = _decayed(kind, scores[at][group], summed[:, head], ledger)
            else:
                own = _decayed_scores(kind, queries[:, group], keys[:, group], summed[:, head], ledger)
            out[:, head] = ledger.product(np.tril(own), values[:, head])
            out[:, head] += ledger.product(queries[:, group] * np.exp(summed[:, head]), held[head])
        outputs.append(ledger.moves(out, NARROW_B))
    return np.concatenate(outputs), states


def _inverse(lower: Array, ledger: Ledger) -> Array:
    """(1 + lower)^-1 of a matrix strictly below its diagonal, row after row."""
    found = np.eye(len(lower))
    for row in range(len(lower)):
        for column in range(row):
            for middle in range(column + 1, row):
                ledger.others += 2
                found[row, column] -= lower[row, middle] * found[middle, column]
            found[row, column] -= lower[row, column]
    return found


class Corrected(NamedTuple):
    """Of every chunk: sums of decays; what the delta rule reads of a state (W) and writes beside it (U), by head."""

    part: Sequence
    summed: Array
    reads: Array
    writes: Array


def _corrected(kind: Kind, given: Sequence, chunk: int, ledger: Ledger) -> list[Corrected]:
    """The first kernels of a delta rule: sums of decays, scores of keys among themselves, their inverse, W and U."""
    heads, key_heads = given.values.shape[1], given.keys.shape[1]
    shared, found = heads // key_heads, []
    for part in _chunks(given, chunk):
        summed = _summed(kind, part, 4, ledger)
        _read(kind, summed, ledger)
        keys, lower = ledger.moves(part.keys, NARROW_B), np.empty((heads, chunk, chunk))
        for head in range(heads):
            own = keys[:, head // shared]
            score = _decayed_scores(kind, own, own, summed[:, head], ledger)
            lower[head] = np.tril(score * part.strengths[:, head, None], -1)
        ledger.moves(lower, WIDE_B)
        ledger.moves(lower, WIDE_B)
        inverse = ledger.moves(np.stack([_inverse(array, ledger) for array in lower]), NARROW_B)
        ledger.moves(inverse, NARROW_B)
        _read(kind, summed, ledger)
        keys, values = ledger.moves(part.keys, NARROW_B), ledger.moves(part.values, NARROW_B)
        reads, writes = np.empty((chunk, heads, keys.shape[2])), np.empty_like(values)
        for head in range(heads):
            scaled = inverse[head] * part.strengths[None, :, head]
            reads[:, head] = ledger.product(scaled, keys[:, head // shared] * np.exp(summed[:, head]))
            writes[:, head] = ledger.product(scaled, values[:, head])
        ledger.moves(reads, NARROW_B)
        ledger.moves(writes, NARROW_B)
        found.append(Corrected(part, summed, reads, writes))
    return found


def _moved_again(kind: Kind, each: Corrected, ledger: Ledger) -> None:
    """What a kernel that hands states on reads of a chunk."""
    for array in (each.part.keys, each.reads, each.writes):
        ledger.moves(array, NARROW_B)
    _read(kind, each.summed, ledger)


def _delta_chain(kind: Kind, given: Sequence, states: Array, chunk: int, ledger: Ledger) -> tuple[Array, Array]:
    """W and U; states from chunk to chunk with the values that remain; outputs."""
    heads = given.values.shape[1]
    shared = heads // given.keys.shape[1]
    before, remaining, outputs = [], [], []
    chunks = _corrected(kind, given, chunk, ledger)
    for each in chunks:
        _moved_again(kind, each, ledger)
        before.append(ledger.moves(states, NARROW_B))
        left, new = np.exp(each.summed[-1] - each.summed), np.empty_like(each.writes)
        states = states * np.exp(each.summed[-1])[:, :, None]
        for head in range(heads):
            new[:, head] = each.writes[:, head] - ledger.product(each.reads[:, head], before[-1][head])
            states[head] += ledger.product((each.part.keys[:, head // shared] * left[:, head]).T, new[:, head])
        remaining.append(ledger.moves(new, NARROW_B))
    for each, held, new in zip(chunks, before, remaining, strict=True):
        for array in (each.part.queries, each.part.keys, new, held):
            ledger.moves(array, NARROW_B)
        _read(kind, each.summed, ledger)
        out = np.empty_like(new)
        for head in range(heads):
            queries, keys = each.part.queries[:, head // shared], each.part.keys[:, head // shared]
            score = _decayed_scores(kind, queries, keys, each.summed[:, head], ledger)
            out[:, head] = ledger.product(np.tril(score), new[:, head])
            out[:, head] += ledger.product(queries * np.exp(each.summed[:, head]), held[head])
        outputs.append(ledger.moves(out, NARROW_B))
    return np.concatenate(outputs), states


def delta_map(kind: Kind, given: Sequence, chunk: int, ledger: Ledger) -> tuple[Array, Array]:
    """What tokens of a delta rule do to a state that they are handed: it becomes `factor state + term`, by head. The
    ledger counts what finding it takes beside the kernels of the scan that follows."""
    heads, key, value = given.values.shape[1], given.keys.shape[2], given.values.shape[2]
    shared = heads // given.keys.shape[1]
    factor, term = np.stack([np.eye(key)] * heads), np.zeros((heads, key, value))
    for each in _corrected(kind, given, chunk, Ledger()):
        _moved_again(kind, each, ledger)
        left, all_of_it = np.exp(each.summed[-1] - each.summed), np.exp(each.summed[-1])
        for head in range(heads):
            keys = (each.part.keys[:, head // shared] * left[:, head]).T
            gone = ledger.product(keys, ledger.product(each.reads[:, head], factor[head]))
            factor[head] = factor[head] * all_of_it[head][:, None] - gone
            new = each.writes[:, head] - ledger.product(each.reads[:, head], term[head])
            term[head] = term[head] * all_of_it[head][:, None] + ledger.product(keys, new)
    return factor, term
