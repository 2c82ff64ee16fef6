"""Memory that a process frees stays with it."""

import resource

import numpy as np

from sweeper.engine.memory import keep_freed_memory


def test_arrays_get_the_pages_of_those_before_them() -> None:
    """Eight at a time, of 2,048 pages each, which would go back to the system (one alone would be kept anyhow)."""

    def faults() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(20):
            together = [np.ones(1 << 20) for _ in range(8)]
            assert len(together) == 8
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    assert keep_freed_memory()
    faults()
    assert faults() < 100
