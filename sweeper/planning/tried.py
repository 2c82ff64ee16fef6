"""What became of the points that a study tried: which can run, which cannot and why, which gave no number."""

import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from sweeper.kernels.codes import REASON, REASONS
from sweeper.planning.schema import NAMES, field
from sweeper.reading.expressions import Expression

INFEASIBLE_COUNTS = "infeasible_counts"
"""Column of the modes that search: of a row of which no point can run, how many points fail which check."""
FEASIBLE = "feasible"
TRIED = b"sweeper.tried"
"""Key under which the metadata of a chunk's rows have its points by reason."""
CERTAIN = ("_s", "_B")
"""Endings of metrics that are numbers wherever a point can run: times, rates, bytes. Others may depend on a price or an
energy that nobody knows, and are then null."""
RATIO = "_per_B"
"""Ending of metrics that are infinite where nothing is moved, and then null."""
BAND = ("_low_s", "_high_s")
"""Endings of the ends of a band, which are null where no band is known."""
SEARCHED_ONLY = "mapping_"
"""Beginning of metrics that are known only where a mapping is searched."""


def certain(metrics: Iterable[str], objectives: Iterable[str]) -> tuple[str, ...]:
    """Metrics without a finite number of which a point does not count as one that can run."""
    wanted = set(objectives)
    return tuple(name for name in metrics if name in wanted or (name.endswith(CERTAIN) and not _uncertain(name)))


def _uncertain(metric: str) -> bool:
    return metric.endswith((RATIO, *BAND)) or metric.startswith(SEARCHED_ONLY)


MISSED = "constraint_failed"
FIRST_CONSTRAINT = len(REASONS)
"""Code of the reason of a study's first constraint; those of the others follow."""


def reason_names(constraints: Iterable[Expression]) -> tuple[str, ...]:
    """Names of the reasons by their codes, those of a study's constraints last.

    >>> reason_names([Expression("memory_need_B < 5e9")])[FIRST_CONSTRAINT:]
    ('constraint_failed: memory_need_B < 5e9',)
    """
    return (*REASONS, *(f"{MISSED}: {constraint.text}" for constraint in constraints))


def judged(
    values: Mapping[str, np.ndarray], names: Iterable[str], constraints: Iterable[Expression] = ()
) -> np.ndarray:
    """Reasons of points: `not_finite` for those that could run but have no finite number in one of some columns, then
    that of the first constraint that a point misses, as one does on a number that is not known."""
    reasons = values["infeasible_reason"]
    for name in names:
        finite = np.isfinite(values[name])
        if not finite.all():
            reasons = np.where((reasons == 0.0) & ~finite, float(REASON.not_finite), reasons)
    for code, constraint in enumerate(constraints, FIRST_CONSTRAINT):
        misses = np.asarray(constraint.evaluate(values)) == 0
        if misses.any():
            reasons = np.where((reasons == 0.0) & misses, float(code), reasons)
    return reasons


def counted(reasons: np.ndarray, names: Sequence[str] = REASONS) -> np.ndarray:
    """Points [search, reason] of reasons [search, point], of which there are as many as names."""
    searches, points = reasons.shape
    if not reasons.any():
        return np.repeat([[points, *[0] * (len(names) - 1)]], searches, axis=0)
    places = reasons.astype(np.int64)
    places += np.arange(searches)[:, None] * len(names)
    return np.bincount(places.reshape(-1), minlength=searches * len(names)).reshape(searches, len(names))


def by_reason(counts: np.ndarray, names: Sequence[str] = REASONS) -> dict[str, int]:
    """Points by reason, those that can run as `feasible`; reasons that no point has are left out.

    >>> by_reason(counted(np.array([[0.0, 1.0, 1.0]]))[0])
    {'feasible': 1, 'area_exceeded': 2}
    """
    return {names[code] or FEASIBLE: int(count) for code, count in enumerate(counts) if count}


REMEDIES = {
    "format_unsupported": "the chip does not compute in compute_format; another chip or format does",
    "chips_mismatch": "dim_x x dim_y x dim_z must be chips",
    "parallelism_mismatch": "the degrees (tensor_parallel, pipeline_parallel, context_parallel, data_parallel) must"
    " multiply to chips, and what splits them (tensor_rows, expert_parallel x expert_tensor_parallel, shard_group) must"
    " divide the chips that it splits",
    "too_many_stages": "pipeline_parallel may be at most the number of layers",
    "too_many_replicas": "data_parallel may be at most batch_size",
    "microbatch_indivisible": "batch_size must be a multiple of data_parallel x microbatch",
    "heads_indivisible": "the workload's attention heads must be a multiple of tensor_parallel",
    "experts_indivisible": "the workload's routed experts must be a multiple of expert_parallel",
    "stages_indivisible": "every stage must have as many layers, a multiple of virtual_stages",
    "units_exceeded": "cut the graph into more partitions, split it over more chips, or take a larger fabric",
    "memory_capacity": "shard over more chips, recompute, take smaller formats or microbatches, or more memory",
}
"""What would make points run that fail for a reason; of the usual ones. Constraints tell that themselves."""


def told(counts: np.ndarray, names: Sequence[str] = REASONS) -> str:
    """The same as text for a search of which no point can run; "" for the others."""
    if counts[0]:
        return ""
    ranked = sorted(by_reason(counts, names).items(), key=lambda item: -item[1])
    return ", ".join(f"{reason} {count}" for reason, count in ranked)


def with_counts(rows: pa.Table, counts: np.ndarray, names: Sequence[str] = REASONS) -> pa.Table:
    """Rows that carry, beside the columns, how many points were tried for them."""
    return rows.replace_schema_metadata({**(rows.schema.metadata or {}), TRIED: json.dumps(by_reason(counts, names))})


def counts_of(rows: pa.Table) -> dict[str, int]:
    """The counts that rows carry; none if they carry none."""
    counts: dict[str, int] = json.loads((rows.schema.metadata or {}).get(TRIED, b"{}"))
    return counts


def counts_field() -> pa.Field:
    """The column of counts by reason."""
    about = "where no point of a search can run: how many fail which check"
    return field(INFEASIBLE_COUNTS, NAMES, "", about, "parameter")
