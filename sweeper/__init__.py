"""sweeper: sweep workloads x chips x memories x links x topologies x mappings, and find the best.

    import sweeper
    plan = sweeper.plan("dse80")            # or a path, the text of a study, or the same as a dict
    result = sweeper.run(plan, backend="ray")
    sweeper.scan(result.directory).filter(feasible=True)    # a polars.LazyFrame

Importing this package points Numba at the kernel cache, so it must come before `numba`. What it offers is
loaded when first used: a worker that only evaluates never loads Polars.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeper.engine.compilation.cache import configure
from sweeper.errors import EnvironmentFault as _Fault

try:
    configure()
except _Fault as fault:
    if Path(sys.argv[0]).name not in ("sweeper", "-m"):
        raise
    # The command line has not begun yet: its guard, which would say this, is not there.
    print(fault, file=sys.stderr)
    sys.exit(fault.exit_code)

if TYPE_CHECKING:
    from sweeper.errors import EnvironmentFault, OutputConflict, SpecError, SweeperError
    from sweeper.evidence.scoreboard import score_files as score
    from sweeper.library.library import Library
    from sweeper.planning.plan import Plan
    from sweeper.planning.plan import make_plan as plan
    from sweeper.running.execution import run
    from sweeper.running.states import RunResult
    from sweeper.study.study import Study
    from sweeper.study.study import load_study as load
    from sweeper.views.analysis import best, breakdown, heatmap, pareto, ratios
    from sweeper.views.charts import draw
    from sweeper.views.datasets import scan, scan_all, units
    from sweeper.views.lineage import explain
    from sweeper.views.uncertainty import compare

HOME = {
    "errors": ("EnvironmentFault", "OutputConflict", "SpecError", "SweeperError"),
    "evidence.scoreboard": ("score",),
    "library.library": ("Library",),
    "planning.plan": ("Plan", "plan"),
    "running.execution": ("run",),
    "running.states": ("RunResult",),
    "study.study": ("Study", "load"),
    "views.analysis": ("best", "breakdown", "heatmap", "pareto", "ratios"),
    "views.charts": ("draw",),
    "views.datasets": ("scan", "scan_all", "units"),
    "views.lineage": ("explain",),
    "views.uncertainty": ("compare",),
}
"""Public names by the module that has them."""

THERE = {"plan": "make_plan", "load": "load_study", "score": "score_files"}
"""Public names that the module calls otherwise."""

__all__ = [
    "EnvironmentFault",
    "Library",
    "OutputConflict",
    "Plan",
    "RunResult",
    "SpecError",
    "Study",
    "SweeperError",
    "best",
    "breakdown",
    "compare",
    "draw",
    "explain",
    "heatmap",
    "load",
    "pareto",
    "plan",
    "ratios",
    "run",
    "scan",
    "scan_all",
    "score",
    "units",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    home = next((module for module, names in HOME.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'sweeper' has no attribute {name!r}")
    return getattr(import_module(f"sweeper.{home}"), THERE.get(name, name))
