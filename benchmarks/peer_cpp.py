"""sweeper against the same iteration in idiomatic C++: nested loops over the axes, each sum where it first is known."""

import ctypes
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.machine import gxx
from benchmarks.peer import (
    BATCH,
    EFFICIENCY,
    LAYERS,
    WORK,
    Parts,
    System,
    all_reduce_s,
    iteration_s,
    loads,
    parts_of,
    replicas,
)
from benchmarks.peer_points import Case, comparison
from benchmarks.table import NotMeasured, Row

SOURCE = Path(__file__).with_name("peer.cpp")
FLAGS = ("-std=c++17", "-O3", "-march=native", "-shared", "-fPIC")


def measure(directory: Path, quick: bool) -> list[Row]:
    """Both rates, and how far the numbers differ."""
    compiler = gxx()
    if compiler is None:
        raise NotMeasured("there is no g++ on this machine")
    compared = comparison(directory, quick)
    library = directory / "peer.so"
    subprocess.run([compiler, *FLAGS, "-o", str(library), str(SOURCE)], check=True)
    function = ctypes.CDLL(str(library)).peer
    flags = " ".join(FLAGS[1:3])
    return [
        Row(
            "sweeper, mode all", compared.rate, "points/s", note=f"{compared.points:,} points to Arrow, with their axes"
        ),
        *compared.against(f"C++ over axes, {flags}", partial(loops, function), 0.5),
    ]


def _doubles(*values: float) -> "ctypes.Array[ctypes.c_double]":
    return (ctypes.c_double * len(values))(*values)


def _sums(system: System, parts: Parts) -> list[float]:
    """Price or power of everything but bandwidths, and per byte per second of memory, links and outer links."""
    chips = int(np.prod(system.extents))
    each = [n * link + ports * port for (n, ports), link, port in zip(parts_of(system), parts.links, parts.ports)]
    return [chips * parts.chip, chips * parts.memory, each[0], sum(each[1:])]


def loops(function: "ctypes._NamedFuncPointer", case: Case) -> Sequence[np.ndarray]:
    """The C++ program on a case. It gets what does not depend on bandwidths as numbers, as its user would write it."""
    system = case.system
    tensor, data = system.extents[0], replicas(system)
    operators: list[float] = []
    for flops, traffic, reduced, gradient in loads(tensor):
        inner = all_reduce_s(system.kinds[0], tensor, reduced, 1.0) if reduced else 0.0
        outer = all_reduce_s(system.kinds[-1], data, gradient / (BATCH / data), 1.0) if gradient and data > 1 else 0.0
        operators += [flops / (EFFICIENCY * system.peak_flops), traffic, inner, outer]
    one = case.on(1.0, 1.0, 1.0)
    transfer = iteration_s(one, 0.0)
    passes = iteration_s(one, 1.0) - transfer
    most = WORK * LAYERS * BATCH / (int(np.prod(system.extents)) * system.peak_flops)
    found = [np.empty(int(np.prod(case.shape))) for _ in range(4)]
    function(
        *(part for axis in case.axes for part in (ctypes.c_int64(len(axis)), ctypes.c_void_p(axis.ctypes.data))),
        ctypes.c_int64(len(operators) // 4),
        _doubles(*operators),
        _doubles(passes, transfer, most),
        _doubles(*_sums(system, case.price)),
        _doubles(*_sums(system, case.power)),
        *(ctypes.c_void_p(values.ctypes.data) for values in found),
    )
    return found
