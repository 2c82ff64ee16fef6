"""How chunks and Ray's errors are told."""

from collections.abc import Callable, Sequence


def chunks_of(chunks: Sequence[int], named: Callable[[int], str]) -> str:
    """The chunks of a call, called what `named` calls them.

    >>> chunks_of([3], "chunk {}".format), chunks_of([3, 4, 7], "chunk {}".format)
    ('chunk 3', '3 chunks from chunk 3 to chunk 7')
    """
    first, last = named(chunks[0]), named(chunks[-1])
    return first if len(chunks) == 1 else f"{len(chunks)} chunks from {first} to {last}"


def brief(error: Exception) -> str:
    """The last telling line of one of Ray's long messages, with its class."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:500]
