"""How chunks and Ray's errors are told."""

from collections.abc import Sequence


def chunks_of(chunks: Sequence[int]) -> str:
    """The chunks of a call.

    >>> chunks_of([3]), chunks_of([3, 4, 7])
    ('chunk 3', '3 chunks from 3 to 7')
    """
    return f"chunk {chunks[0]}" if len(chunks) == 1 else f"{len(chunks)} chunks from {chunks[0]} to {chunks[-1]}"


def brief(error: Exception) -> str:
    """The last telling line of one of Ray's long messages, with its class."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:500]
