"""Prompts that begin alike: blocks of tokens by number, and where a server keeps those of requests that are done."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweeper.errors import UsageFault
from sweeper.kernels.serving.prefixes import NONE, NOWHERE, Prefixes

CHIP = "chip"
"""The tier of the memory that holds the caches of running requests."""


@dataclass(frozen=True)
class Blocks:
    """Whole blocks of `size` tokens of prompts: request i begins with `numbers[first[i]:first[i + 1]]`. Equal numbers
    stand for equal beginnings, up to the end of the block; they are whole, from 0."""

    size: int
    first: np.ndarray
    numbers: np.ndarray

    @classmethod
    def of(cls, size: int, chains: Sequence[Sequence[int]]) -> "Blocks":
        """Those of some requests.

        >>> Blocks.of(16, [[7, 8], [7, 9, 3]]).numbers
        array([0, 1, 0, 2, 3])
        """
        first = _starts(np.array([len(chain) for chain in chains], np.int64))
        known: dict[int, int] = {}
        named = [known.setdefault(number, len(known)) for chain in chains for number in chain]
        return cls(size, first, np.array(named, np.int64))

    @classmethod
    def begun(cls, size: int, prompts: np.ndarray, texts: np.ndarray, common: int) -> "Blocks":
        """Those of prompts of which each begins with up to `common` tokens of one of some texts, and goes on alone."""
        first = _starts(prompts // size)
        place = np.arange(first[-1]) - np.repeat(first[:-1], np.diff(first))
        alike = place < common // size
        numbers = np.repeat(texts, np.diff(first)) * (common // size) + place
        numbers[~alike] = (int(texts.max(initial=0)) + 1) * (common // size) + np.arange(np.count_nonzero(~alike))
        return cls(size, first, _renumbered(numbers))

    @classmethod
    def none(cls, requests: int) -> "Blocks":
        """Of requests that have nothing in common."""
        return cls(1, np.zeros(requests + 1, np.int64), np.zeros(0, np.int64))

    def taken(self, which: np.ndarray) -> "Blocks":
        """Those of some of the requests."""
        if not len(self.numbers):
            return Blocks.none(len(which))
        first = _starts(np.diff(self.first)[which])
        places = np.arange(first[-1]) + np.repeat(self.first[which] - first[:-1], np.diff(first))
        return Blocks(self.size, first, _renumbered(self.numbers[places]))


def _starts(lengths: np.ndarray) -> np.ndarray:
    """Where each of some chains starts [n + 1], one after the other."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _renumbered(numbers: np.ndarray) -> np.ndarray:
    """Numbers from 0, without gaps."""
    return np.unique(numbers, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True)
class Tier:
    """Where blocks go for which the tier before has no room: its name, the bytes that it holds for each chip, and the
    bytes that each chip gets back from it per second."""

    name: str
    capacity_B: float
    bandwidth_Bps: float


MOST_KEPT = 50_000_000
"""Blocks over all servers beyond which nobody keeps track of them."""


def prefixes_of_servers(blocks: Blocks, tiers: Sequence[Tier], token_B: float, servers: int) -> Prefixes:
    """What so many servers know before the first request, each for itself: one after the other along a first axis.
    Raises UsageFault for very many blocks."""
    one: dict[str, Any] = prefixes_of(blocks, tiers, token_B)._asdict()
    if servers * len(one["tier"]) > MOST_KEPT:
        raise UsageFault(f"{servers:,} servers of prompts and {len(one['tier']):,} blocks are too many: say fewer")
    own = list(one)[list(one).index("found") :]
    return Prefixes(**one | {name: np.repeat(one[name][None], servers, axis=0) for name in own})


def prefixes_of(blocks: Blocks, tiers: Sequence[Tier], token_B: float) -> Prefixes:
    """What a server knows before the first request; a token takes so many bytes of a chip."""
    count, several = int(blocks.numbers.max(initial=-1)) + 1, 1 + len(tiers)
    block_B = max(token_B, 1e-30) * blocks.size
    most = [min(tier.capacity_B / block_B, count) for tier in tiers]
    seconds = [token_B / tier.bandwidth_Bps for tier in tiers]
    return Prefixes(
        size=blocks.size,
        first=blocks.first,
        blocks=blocks.numbers,
        most=np.array([0, *map(int, most)], np.int64),
        token_s=np.array([0.0, *seconds]),
        found=np.zeros(several + 1, np.int64),
        tier=np.full(count, NOWHERE, np.int64),
        users=np.zeros(count, np.int64),
        older=np.full(count, NONE, np.int64),
        newer=np.full(count, NONE, np.int64),
        ends=np.full((several, 2), NONE, np.int64),
        kept=np.zeros(several, np.int64),
        used=np.zeros(1, np.int64),
    )
