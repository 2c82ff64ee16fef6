"""Memory that a process frees stays with it."""

import resource

import numpy as np

from sweeper.engine.memory import keep_freed_memory


def test_arrays_get_the_pages_of_those_before_them() -> None:
    """Each of these would get 2,048 pages of its own from the system (or a few huge ones, which are cleared)."""
    assert keep_freed_memory()
    np.ones(1 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        np.ones(1 << 20)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 100
