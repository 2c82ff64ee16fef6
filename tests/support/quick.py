"""Examples from one seed: what a strategy draws, without the bookkeeping by which Hypothesis shrinks.

An example of a kernel has dozens of numbers. Hypothesis takes ten times as long to draw them one by one as kernel and
twin take together; for what all strategies ask of it (`hypothesis.internal.conjecture.data.ConjectureData`), a random
generator stands in here. What fails is then no smaller than what was drawn, but it is drawn again from its seed.

Numbers of a wide range are drawn by their order of magnitude, and now and then at its ends: so each term of an
equation is the largest now and then.
"""

from contextlib import AbstractContextManager, nullcontext
from random import Random
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")

WIDE = 100.0
"""Ranges whose ends differ by this factor are drawn by their order of magnitude."""
AT_END = 0.05
"""Share of the numbers that lie at either end of their range."""


class Quick:
    """What strategies ask of Hypothesis, answered by a random generator."""

    frozen = False
    unique_element_depth = 0

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.depth = 0

    def draw(self, strategy: st.SearchStrategy[T], *_: Any, **__: Any) -> T:
        return strategy.do_draw(self)  # type: ignore[arg-type]

    def draw_boolean(self, p: float = 0.5, *, forced: bool | None = None, **_: Any) -> bool:
        return self.random.random() < p if forced is None else forced

    def draw_integer(self, min_value: int, max_value: int, **_: Any) -> int:
        return self.random.randint(min_value, max_value)

    def draw_float(self, min_value: float, max_value: float, **_: Any) -> float:
        end = self.random.random()
        if end < 2 * AT_END:
            return min_value if end < AT_END else max_value
        if 0.0 < WIDE * min_value < max_value:
            return min(max(min_value * (max_value / min_value) ** self.random.random(), min_value), max_value)
        return self.random.uniform(min_value, max_value)

    def track_arg_label(self, label: str) -> AbstractContextManager[dict[Any, Any]]:
        return nullcontext({})

    def start_span(self, label: int) -> None:
        """Spans are for shrinking; collections count them."""
        self.depth += 1

    def stop_span(self, *, discard: bool = False) -> None:
        """The end of a span."""
        self.depth -= 1


def quick(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[T]:
    """The same from one seed."""
    return st.integers(0, 2**32 - 1).map(lambda seed: Quick(seed).draw(strategy))
