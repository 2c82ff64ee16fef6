"""Memory for columns of many points."""

from typing import Any

import numpy as np
import pyarrow as pa


def room(shape: int | tuple[int, ...], kind: Any = np.float64) -> np.ndarray:
    """An array to be written, in memory of Arrow's pool. NumPy gives large arrays back to the system and gets other
    pages for the next ones, which takes as long as writing them; the pool takes the same pages again.

    >>> room((2, 3), np.int32).shape
    (2, 3)
    """
    kind, count = np.dtype(kind), int(np.prod(shape))
    found: np.ndarray = np.frombuffer(pa.allocate_buffer(count * kind.itemsize), kind, count)
    return found.reshape(shape)
