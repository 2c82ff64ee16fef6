"""sweeper: sweep workloads x chips x memories x links x topologies x mappings, and find the best.

    import sweeper
    plan = sweeper.plan("specs/studies/dse80.yaml")
    result = sweeper.run(plan, backend="ray")
    sweeper.scan(result.directory).filter(feasible=True)    # a polars.LazyFrame

Importing this package points Numba at the kernel cache, so it must come before `numba` and `kernels`.
"""

from sweeper.kernel_cache import configure

configure()

from sweeper.analysis import best, breakdown, heatmap, pareto, ratios, scan, units  # noqa: E402
from sweeper.errors import EnvironmentFault, OutputConflict, SpecError, SweeperError  # noqa: E402
from sweeper.explain import explain  # noqa: E402
from sweeper.plan import Plan, make_plan  # noqa: E402
from sweeper.run import RunResult, run  # noqa: E402
from sweeper.study import load_study as load  # noqa: E402

plan = make_plan

__all__ = [
    "EnvironmentFault",
    "OutputConflict",
    "Plan",
    "RunResult",
    "SpecError",
    "SweeperError",
    "best",
    "breakdown",
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
