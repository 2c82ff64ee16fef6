"""How chunks and Ray's errors are told."""

import re
from collections.abc import Callable, Sequence

LOG = re.compile(r"^\[\d{4}-\d\d-\d\d [^\]]*\] \S+: ")
"""What a line of Ray's log begins with."""
NO_REASON = (":info_message:", "(raylet)")
"""Marks of lines that tell what Ray does about a loss, and of messages about machines."""


def chunks_of(chunks: Sequence[int], named: Callable[[int], str]) -> str:
    """The chunks of a call, called what `named` calls them.

    >>> chunks_of([3], "chunk {}".format), chunks_of([3, 4, 7], "chunk {}".format)
    ('chunk 3', '3 chunks from chunk 3 to chunk 7')
    """
    first, last = named(chunks[0]), named(chunks[-1])
    return first if len(chunks) == 1 else f"{len(chunks)} chunks from {first} to {last}"


def last_words(said: str) -> str:
    """The last line of what a process that has ended said which may be the reason; nothing if there is none.

    >>> last_words("[2026-11-30 08:09:57,828 E 296 299] gcs_client.cc:60: Failed to connect to GCS.")
    'Failed to connect to GCS.'
    """
    flush = (line for line in said.splitlines() if line[:1].strip())  # what is indented belongs to another line
    lines = [LOG.sub("", line).strip() for line in flush if not any(mark in line for mark in NO_REASON)]
    return lines[-1][:300] if lines else ""


def brief(error: Exception) -> str:
    """The last telling line of one of Ray's long messages, with its class."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:500]
