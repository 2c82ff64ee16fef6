"""sweeper against the same iteration in JAX, compiled, over axes that broadcast, on one core, in both precisions.

JAX runs in a process of its own: it wants to be told before it starts how many processors to take.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peer_arrays
from benchmarks.peer_points import SAME, Case, Comparison, Rival, comparison
from benchmarks.table import NotMeasured, Row

SINGLE = 1e-5
"""Relative difference of sums in single precision."""


def measure(directory: Path, quick: bool) -> list[Row]:
    """All rates, and how far the numbers differ."""
    if find_spec("jax") is None:
        raise NotMeasured("there is no jax in this environment; make bench installs it")
    compared = comparison(directory, quick)
    found = [Row("sweeper, mode all", compared.rate, "points/s", note=f"{len(compared.ours):,} points compared")]
    for bits, least, most in ((64, 0.3, SAME), (32, 0.15, SINGLE)):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            seconds, difference = pool.submit(_timed, compared, bits).result()
        found += compared.told(f"JAX, float{bits}", seconds, difference, least, most)
    return found


def _timed(compared: Comparison, bits: int) -> tuple[float, float]:
    """Processor seconds and difference, in a process that has not started JAX yet."""
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return compared.timed(_compiled(bits, compared.cases))


def _compiled(bits: int, cases: Sequence[Case]) -> Rival:
    """What evaluates a case, compiled for each of them beforehand."""
    import jax  # only here: it starts threads

    jax.config.update("jax_enable_x64", bits == 64)
    numpy = jax.numpy

    def whole(case: Case, memory: Any, inner: Any, outer: Any) -> list[Any]:
        values = peer_arrays.evaluate(numpy, case.on(memory, inner, outer), case.price, case.power)
        return [numpy.broadcast_to(each, case.shape) for each in values]

    kind = {64: np.float64, 32: np.float32}[bits]
    axes = {id(case): [axis.astype(kind) for axis in np.ix_(*case.axes)] for case in cases}
    programs = {id(case): jax.jit(partial(whole, case)).lower(*axes[id(case)]).compile() for case in cases}
    return lambda case: [np.asarray(values) for values in programs[id(case)](*axes[id(case)])]
