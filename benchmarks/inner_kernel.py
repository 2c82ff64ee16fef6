"""The innermost loops of a search, compiled by Numba from generated source, against the same maths written in C++.

Measured are the stages that run once per point, on the inputs that they get in a search of dse80: Numba's as the
engine calls them, and one C++ loop over the same arrays (inner_kernel.cpp).
"""

import ctypes
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.machine import gxx
from benchmarks.studies import shipped
from benchmarks.table import Row, Target
from benchmarks.timing import medians
from sweeper.plan import STRUCTURE, TILE_POINTS, Plan
from sweeper.program import Evaluation

SOURCE = Path(__file__).with_suffix(".cpp")
EQUATIONS = frozenset(
    {"training_memory_need", "feasibility", "one_forward_one_backward", "overlapped_gradient_time", "iteration"}
)
"""What inner_kernel.cpp computes."""

OUTPUTS = ("infeasible_reason", "iteration_time_s")
VARIANTS = ("rows", "blocks")
STRICT = "-ffp-contract=off"
TARGET = Target(0.8, at_least=True)

Loop = Callable[[], object]


@dataclass(frozen=True)
class Inner:
    """The last stages over one tile: how Numba runs them, and their inputs as C++ needs them.

    `inputs` gives name, access and number of the index of every column; `equations` says what is computed.
    """

    points: int
    run: Loop
    results: dict[str, np.ndarray]
    equations: frozenset[str]
    inputs: list[tuple[str, str, int]]
    columns: list[np.ndarray]
    indices: list[np.ndarray]


def measure(directory: Path, quick: bool) -> list[Row]:
    """The first LLM box of dse80, and a tile of dse80_dense."""
    compiler = gxx()
    if compiler is None:
        return [Row("inner kernel against C++", "skipped", note="there is no g++ on this machine")]
    rounds = 3 if quick else 15
    rows = []
    for name in ("dse80", "dse80_dense"):
        rows += _compare(directory, compiler, name, inner(shipped(name)), rounds)
    return rows


def inner(plan: Plan) -> Inner:
    """The stages of finest granularity of a study's first program, with everything before them evaluated."""
    grid = plan.grids[0]
    tile = next(grid.tiles(range(len(grid.axes)), [(0, size) for size in grid.sizes], TILE_POINTS))
    structural = {name for name in STRUCTURE if name in grid.columns}
    for axis, (low, _) in enumerate(tile):
        if structural.intersection(grid.axes[axis].columns):
            tile[axis] = (low, low + 1)
    domain = grid.slice(tile)
    structure = {
        name: str(grid.columns[name].values[factor.codes[name][0]])
        for name in structural
        for factor in domain
        if name in factor.codes
    }
    program = plan.program(grid, structure, OUTPUTS)
    evaluation = Evaluation(program, domain)
    last = [stage for stage in program.stages if stage.needs == program.stages[-1].needs]
    calls: list[Loop] = []
    inputs: list[tuple[str, str, int]] = []
    columns: list[np.ndarray] = []
    indices: list[np.ndarray] = []
    origins: list[object] = []
    for stage in program.stages:
        evaluation.run(stage)
        if stage not in last:
            continue
        evaluation.run(replace(stage, run=lambda *arguments, run=stage.run: calls.append(lambda: run(*arguments))))
        written = {output.name for each in last for e in each.fusion.equations for output in e.outputs}
        for argument in stage.fusion.arguments:
            if argument.name in written or argument.name in {name for name, _, _ in inputs}:
                continue
            number = 0
            if argument.access == "gathered":
                origin = stage.origins[argument.index]
                if origin not in origins:
                    origins.append(origin)
                    indices.append(np.ascontiguousarray(evaluation.index(stage.needs, origin), np.int32))
                number = origins.index(origin)
            inputs.append((argument.name, argument.access.upper(), number))
            columns.append(np.ascontiguousarray(evaluation.column(argument.name), np.float64))

    def run() -> None:
        for call in calls:
            call()

    results = {name: evaluation.columns[name] for name in OUTPUTS}
    equations = frozenset(equation.name for stage in last for equation in stage.fusion.equations)
    return Inner(evaluation.distinct(last[0].needs).count, run, results, equations, inputs, columns, indices)


def _compare(directory: Path, compiler: str, name: str, stages: Inner, rounds: int) -> list[Row]:
    if stages.equations != EQUATIONS:
        different = ", ".join(sorted(stages.equations ^ EQUATIONS))
        return [Row(f"{name}: inner kernel against C++", "skipped", note=f"the C++ twin differs in {different}")]
    calls = max(1, int(3e6 / stages.points))
    rows = []
    for contraction in ((STRICT,), ()):
        loops, outputs = _build(directory, compiler, stages, contraction)
        stages.run()
        numba, *rivals = medians([stages.run, *loops], rounds, calls)
        best = min(rivals)
        fastest = VARIANTS[rivals.index(best)]
        note = f"Numba {stages.points / numba / 1e6:.4g} M points/s, C++ ({fastest}) {stages.points / best / 1e6:.4g}"
        flags = " ".join(("-O3 -march=native", *contraction))
        target = TARGET if contraction else None
        rows.append(Row(f"{name}: Numba / C++ {flags}", best / numba, "x", target, f"{note}; {stages.points:,} points"))
        steps = [_ulps(stages.results[column], found[column]) for found in outputs for column in OUTPUTS]
        rows.append(Row("  largest difference in units of the last place", float(max(steps)), "ulp"))
    return rows


def _build(
    directory: Path, compiler: str, stages: Inner, contraction: tuple[str, ...]
) -> tuple[list[Loop], list[dict[str, np.ndarray]]]:
    """Compile the C++ twin; its two loops, and the arrays into which each has written once."""
    lines = [f"INDEX({number})\n" for number in range(len(stages.indices))]
    lines += [f"INPUT({name}, {access}, {n}, {i})\n" for n, (name, access, i) in enumerate(stages.inputs)]
    (directory / "inputs.inc").write_text("".join(lines))
    library = directory / f"inner_kernel_{len(list(directory.glob('*.so')))}.so"
    flags = ("-std=c++17", "-O3", "-march=native", *contraction, "-shared", "-fPIC", f"-I{directory}")
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
