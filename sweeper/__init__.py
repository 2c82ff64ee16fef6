"""sweeper: sweep workloads x chips x memories x links x topologies x mappings, and find the best.

    import sweeper
    plan = sweeper.plan("specs/studies/dse80.yaml")
    result = sweeper.run(plan, backend="ray")
    sweeper.scan(result.directory).filter(feasible=True)    # a polars.LazyFrame

Importing this package points Numba at the kernel cache, so it must come before `numba` and `kernels`. What it offers
is loaded when first used: a worker that only evaluates never loads Polars.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sweeper.kernel_cache import configure

configure()

if TYPE_CHECKING:
    from sweeper.analysis import best, breakdown, heatmap, pareto, ratios, scan, units
    from sweeper.errors import EnvironmentFault, OutputConflict, SpecError, SweeperError
    from sweeper.execution import RunResult, run
    from sweeper.lineage import explain
    from sweeper.planning import Plan
    from sweeper.planning import make_plan as plan
    from sweeper.study import load_study as load
    from sweeper.uncertainty import compare

HOME = {
    "best": "analysis",
    "breakdown": "analysis",
    "compare": "uncertainty",
    "heatmap": "analysis",
    "pareto": "analysis",
    "ratios": "analysis",
    "scan": "analysis",
    "units": "analysis",
    "EnvironmentFault": "errors",
    "OutputConflict": "errors",
    "SpecError": "errors",
    "SweeperError": "errors",
    "RunResult": "execution",
    "run": "execution",
    "explain": "lineage",
    "Plan": "planning",
    "plan": "planning.make_plan",
    "load": "study.load_study",
}
"""Module of every public name, with the name there if it is another."""

__all__ = [
    "EnvironmentFault",
    "OutputConflict",
    "Plan",
    "RunResult",
    "SpecError",
    "SweeperError",
    "best",
    "breakdown",
    "compare",
    "explain",
    "heatmap",
    "load",
    "pareto",
    "plan",
    "ratios",
    "run",
    "scan",
    "units",
]


def __getattr__(name: str) -> Any:
    if name not in HOME:
        raise AttributeError(f"module 'sweeper' has no attribute {name!r}")
    module, _, there = HOME[name].partition(".")
    return getattr(import_module(f"sweeper.{module}"), there or name)
