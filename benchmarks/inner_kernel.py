"""The innermost loops of a search, compiled by Numba from generated source, against the same maths written in C++.

Measured are the stages that run once per point, on the inputs that they get in a search of dse80_dense: Numba's as
the engine calls them, and one C++ loop over the same arrays (inner_kernel.cpp).
"""

import ctypes
import math
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.machine import gxx
from benchmarks.studies import shipped
from benchmarks.table import NotMeasured, Row, Target
from benchmarks.timing import medians
from sweeper.engine.evaluation import Evaluation
from sweeper.engine.program import Stage
from sweeper.kernels.codes import REASONS
from sweeper.planning.columns import STRUCTURE
from sweeper.planning.modes import FEW_POINTS
from sweeper.planning.plan import Plan

SOURCE = Path(__file__).with_suffix(".cpp")
EQUATIONS = frozenset(
    {
        "training_state",
        "memory_need",
        "feasibility",
        "bought_feasibility",
        "transfer_per_microbatch",
        "one_forward_one_backward",
        "overlapped_gradient_time",
        "iteration",
    }
)
"""What inner_kernel.cpp computes."""

OUTPUTS = ("infeasible_reason", "iteration_time_s")
VARIANTS = ("rows", "blocks")
STRICT = "-ffp-contract=off"
TARGET = Target(0.8, at_least=True)
ALIKE_ULP = 64
"""Representable numbers between two results of the same maths at most, whether or not products are joined to sums."""

Loop = Callable[[], object]


@dataclass(frozen=True)
class Inner:
    """The last stages over one tile: how Numba runs them, and their inputs as C++ needs them.

    `combinations` counts those that each stage runs over. `inputs` gives the name of every column and the number of
    the index by which points find their entry in it, -1 for a constant; `results` gives what Numba wrote, by point.
    """

    points: int
    combinations: list[int]
    equations: frozenset[str]
    run: Loop
    results: Callable[[], dict[str, np.ndarray]]
    inputs: list[tuple[str, int]]
    columns: list[np.ndarray]
    indices: list[np.ndarray]


def measure(directory: Path, quick: bool) -> list[Row]:
    """A tile of dse80_dense, whose model is a table of operators; `quick` with one set of C++ flags."""
    compiler = gxx()
    if compiler is None:
        raise NotMeasured("there is no g++ on this machine, so C++ cannot be compared with")
    rounds, contractions = (1, ((STRICT,),)) if quick else (15, ((STRICT,), ()))
    return _compare(directory, compiler, "dse80_dense", inner(shipped("dse80_dense")), rounds, contractions)


def inner(plan: Plan) -> Inner:
    """The last stages of a study's first program over a small first tile, with everything before them evaluated."""
    grid = plan.grids[0]
    names = [name for name in (*STRUCTURE, "placement") if name in grid.columns]
    tile = next(grid.tiles(range(len(grid.axes)), [(0, size) for size in grid.sizes], FEW_POINTS))
    for name in names:
        axis = grid.columns[name].axis
        tile[axis] = (tile[axis][0], tile[axis][0] + 1)
    domain = grid.slice(tile)
    codes = {name: factor.codes[name][0] for factor in domain for name in names if name in factor.codes}
    structure = {name: str(grid.columns[name].values[code]) for name, code in codes.items() if name in STRUCTURE}
    program = plan.columns.program(grid, structure, OUTPUTS)
    evaluation = Evaluation(program, domain)
    calls: list[Loop] = []
    for stage in program.stages:
        evaluation.run(stage)
    last = [stage for stage in program.stages if not EQUATIONS.isdisjoint(_equations(stage))]
    for stage in last:
        evaluation.run(replace(stage, run=lambda *arguments, run=stage.run: calls.append(lambda: run(*arguments))))

    def run() -> None:
        for call in calls:
            call()

    written = {output.name for stage in last for equation in stage.fusion.equations for output in equation.outputs}
    read = sorted({argument.name for stage in last for argument in stage.fusion.arguments} - written)
    origins = list(dict.fromkeys(program.origins[name] for name in read if program.origins[name][0]))
    return Inner(
        points=math.prod(factor.size for factor in domain),
        combinations=[evaluation.distinct(stage.needs).count for stage in last],
        equations=frozenset(name for stage in last for name in _equations(stage)),
        run=run,
        results=lambda: {name: evaluation.at_points(name) for name in OUTPUTS},
        inputs=[(name, origins.index(program.origins[name]) if program.origins[name][0] else -1) for name in read],
        columns=[np.ascontiguousarray(evaluation.column(name), np.float64) for name in read],
        indices=[np.ascontiguousarray(evaluation.index(None, origin).all, np.int32) for origin in origins],
    )


def _equations(stage: Stage) -> set[str]:
    return {equation.name for equation in stage.fusion.equations}


def _compare(
    directory: Path, compiler: str, name: str, stages: Inner, rounds: int, contractions: tuple[tuple[str, ...], ...]
) -> list[Row]:
    if stages.equations != EQUATIONS or set(stages.combinations) != {stages.points}:
        different = ", ".join(sorted(stages.equations ^ EQUATIONS)) or "the points they run over"
        raise NotMeasured(f"inner_kernel.cpp is not what the last stages of {name} compute: {different}")
    calls = max(1, int(3e6 / stages.points))
    stages.run()
    numba_results = stages.results()
    rows = []
    for contraction in contractions:
        loops, outputs = _build(directory, compiler, stages, contraction)
        numba, *rivals = medians([stages.run, *loops], rounds, calls)
        best = min(rivals)
        fastest = VARIANTS[rivals.index(best)]
        note = f"Numba {stages.points / numba / 1e6:.4g} M points/s, C++ ({fastest}) {stages.points / best / 1e6:.4g}"
        flags = " ".join(("-O3 -march=native", *contraction))
        target = TARGET if contraction else None
        rows.append(Row(f"{name}: Numba / C++ {flags}", best / numba, "x", target, f"{note}; {stages.points:,} points"))
        steps = [_ulps(numba_results[column], found[column]) for found in outputs for column in OUTPUTS]
        if max(steps) > ALIKE_ULP:
            raise NotMeasured(f"{max(steps):,} ulp lie between inner_kernel.cpp and the last stages of {name}")
        rows.append(Row("  largest difference in units of the last place", float(max(steps)), "ulp"))
    return rows


def _build(
    directory: Path, compiler: str, stages: Inner, contraction: tuple[str, ...]
) -> tuple[list[Loop], list[dict[str, np.ndarray]]]:
    """Compile the C++ twin; its two loops, and the arrays into which each has written once."""
    lines = [f"INDEX({number})\n" for number in range(len(stages.indices))]
    for column, (name, index) in enumerate(stages.inputs):
        lines.append(f"CONSTANT({name}, {column})\n" if index < 0 else f"GATHERED({name}, {column}, {index})\n")
    (directory / "inputs.inc").write_text("".join(lines))
    library = directory / f"inner_kernel_{len(list(directory.glob('*.so')))}.so"
    codes = (f"-D{name.upper()}={code}.0" for code, name in enumerate(REASONS) if name)
    flags = (*codes, "-std=c++17", "-O3", "-march=native", *contraction, "-shared", "-fPIC", f"-I{directory}")
    subprocess.run([compiler, *flags, "-o", str(library), str(SOURCE)], check=True)
    loaded = ctypes.CDLL(str(library))
    indices = (ctypes.c_void_p * len(stages.indices))(*(index.ctypes.data for index in stages.indices))
    columns = (ctypes.c_void_p * len(stages.columns))(*(column.ctypes.data for column in stages.columns))
    loops, outputs = [], []
    for variant in VARIANTS:
        found = {name: np.empty(stages.points) for name in OUTPUTS}
        loops.append(_loop(loaded[variant], stages, indices, columns, found))
        loops[-1]()
        outputs.append(found)
    return loops, outputs


def _loop(
    function: Callable[..., object],
    stages: Inner,
    indices: ctypes.Array[ctypes.c_void_p],
    columns: ctypes.Array[ctypes.c_void_p],
    found: dict[str, np.ndarray],
) -> Loop:
    places = [ctypes.c_void_p(found[name].ctypes.data) for name in OUTPUTS]
    return lambda: function(ctypes.c_int64(stages.points), indices, columns, *places)


def _ulps(left: np.ndarray, right: np.ndarray) -> int:
    """Largest distance of two arrays of positive numbers, counted in representable numbers."""
    return int(np.abs(left.view(np.int64) - right.view(np.int64)).max())
