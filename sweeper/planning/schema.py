"""The dataset as a table: which columns, of which type, with unit, meaning, grade and sources in the schema."""

import json
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from kernels.codes import REASONS
from sweeper.engine.program import Program
from sweeper.engine.space import Grid
from sweeper.study.output import BANDS, OPTIMIZED, Output
from sweeper.words.attributes import Attribute
from sweeper.words.defaults import NAMED_DEFAULTS
from sweeper.words.system import ENTRY_DEFAULTS, GRADES, NUMERIC, ROLES, STAND_INS

LAST_METRICS = (
    "memory_need_B",
    "memory_headroom_B",
    "samples_per_s",
    "utilisation",
    "system_price_usd",
    "system_power_W",
    "cost_efficiency_flops_per_usd",
    "power_efficiency_flops_per_W",
    "cost_per_token_usd",
    "energy_per_token_J",
)
"""Metrics of every study of models, after its own."""

DEFAULT_METRICS = {
    "graph": (
        "iteration_time_s",
        "utilisation",
        "compute_time_s",
        "memory_time_s",
        "network_time_s",
        "transfer_time_s",
        "graph_compute_time_s",
        "graph_memory_time_s",
        "graph_network_time_s",
        "graph_time_s",
        "partitions",
        "mapping_exact",
        "mapping_gap",
        "bubble_time_s",
        "gradient_time_s",
        "optimizer_time_s",
        "memory_intensity_flop_per_B",
        "network_intensity_flop_per_B",
        "attained_flops",
        "samples_per_s",
        "memory_need_B",
        "memory_headroom_B",
        "system_price_usd",
        "system_power_W",
        "cost_efficiency_flops_per_usd",
        "power_efficiency_flops_per_W",
    ),
    "training": (
        "iteration_time_s",
        "tokens_per_s",
        "tokens_per_s_per_chip",
        "model_flops_utilisation",
        "hardware_flops_utilisation",
        "compute_time_s",
        "l2_time_s",
        "memory_time_s",
        "overhead_time_s",
        "network_time_s",
        "hidden_network_time_s",
        "transfer_time_s",
        "recompute_time_s",
        "bubble_time_s",
        "gradient_time_s",
        "optimizer_time_s",
        "required_tensor_Bps",
        "required_data_Bps",
        "weights_B",
        "gradients_B",
        "optimizer_B",
        "activations_B",
        "working_B",
        *LAST_METRICS,
    ),
    "inference": (
        "iteration_time_s",
        "time_to_first_token_s",
        "time_per_output_token_s",
        "request_time_s",
        "requests_per_s",
        "output_tokens_per_s",
        "output_tokens_per_s_per_chip",
        "loaded_time_per_output_token_s",
        "longest_token_gap_s",
        "compute_time_s",
        "l2_time_s",
        "memory_time_s",
        "overhead_time_s",
        "network_time_s",
        "transfer_time_s",
        "model_flops_utilisation",
        "weights_B",
        "working_B",
        "cache_memory_B",
        *LAST_METRICS,
    ),
    "calculon": (
        "iteration_time_s",
        "samples_per_s",
        "utilisation",
        "forward_time_s",
        "backward_time_s",
        "recompute_time_s",
        "optimizer_time_s",
        "network_time_s",
        "transfer_time_s",
        "offload_time_s",
        "bubble_time_s",
        "gradient_time_s",
        "memory_need_B",
        "offload_need_B",
        "memory_headroom_B",
        "system_price_usd",
        "system_power_W",
        "cost_efficiency_flops_per_usd",
        "power_efficiency_flops_per_W",
    ),
}
"""Metrics of a study that does not choose, by family of its workloads; of models by task."""

PACKAGE_METRICS = (
    "package_cost_usd",
    "package_design_usd",
    "package_area_mm2",
    "package_yield",
    "accelerator_price_usd",
    "accelerator_carbon_kg",
    "usd_per_chip_hour",
)
"""Further metrics of a study that names packages."""

BAND_SHARES = {"p05": 0.05, "p50": 0.5, "p95": 0.95}
"""Quantiles that the mode `bands` keeps of a metric, by the ending of their columns."""

SEARCH_COLUMNS = {
    "search_weighting": "number of the row of weights, from 0",
    "search_evaluations": "designs evaluated to find this one",
    "search_step": "step at which the best start last improved by more than 1e-4",
    "search_converged": "share of the starts that gained less than 1e-4 in their last 20 steps",
    "search_spread": "median of what the starts found, over the best of them, less one",
}
"""Columns of the mode `optimized` that tell how a search went."""

FEASIBLE_SHARE = "feasible_share"
"""Column of the mode `bands`: share of the points that its quantiles are of."""

NAMES = pa.dictionary(pa.int32(), pa.string())
ALWAYS = (
    *("workload", "chip", "topology", "memory", "link", "partitioning", "chips", "dim_x", "dim_y", "dim_z"),
    *("tensor_parallel", "pipeline_parallel", "data_parallel", "microbatch"),
)
"""Axis columns that every dataset has, whether a study varies them or not."""


def attribute_of(name: str) -> Attribute | None:
    """Unit and meaning of a numeric axis column, dotted overrides included."""
    return NUMERIC.get(name)


def dataset_name(axis_column: str) -> str:
    """Name of an axis column in the dataset: overrides get role, attribute and unit."""
    attribute = attribute_of(axis_column)
    if attribute is None:
        return axis_column
    role, _, dotted = axis_column.partition(".")
    return f"{role}_{attribute.column}" if dotted else attribute.column


def axis_columns(grids: Sequence[Grid], mode: str) -> dict[str, list[float | str]]:
    """Axis columns of the dataset with every value they take: those that vary, and the usual ones.

    Where a row stands for all points of a search, searched columns have no value.
    """
    hidden = {name for grid in grids for axis in grid.axes if axis.searched and mode == BANDS for name in axis.columns}
    names = list(dict.fromkeys([*ALWAYS, *(name for grid in grids for name in grid.columns)]))
    names = [name for name in names if name not in hidden]
    found = {name: list(dict.fromkeys(value for grid in grids for value in axis_values(grid, name))) for name in names}
    return {name: found[name] for name in names if name in ALWAYS or len(found[name]) > 1}


def axis_values(grid: Grid, name: str) -> Sequence[float | str]:
    """Values of a column in one box; what the engine assumes where the box does not give it."""
    if name in grid.columns:
        return grid.columns[name].values
    if name in STAND_INS:
        return axis_values(grid, STAND_INS[name])
    if name in ENTRY_DEFAULTS:
        return (ENTRY_DEFAULTS[name],)
    attribute = attribute_of(name)
    if attribute is None:
        return (NAMED_DEFAULTS.get(name, "kernel_by_kernel" if name == "partitioning" else ""),)
    overrides_entry = "." in name
    return (np.nan if overrides_entry or attribute.default is None else attribute.default,)


def _field(name: str, kind: pa.DataType, unit: str, about: str, role: str, grade: str, sources: str) -> pa.Field:
    metadata = {"unit": unit, "description": about, "role": role, "grade": grade, "source": sources}
    return pa.field(name, kind, nullable=False, metadata=metadata)


def _axis_field(name: str, values: Sequence[float | str]) -> pa.Field:
    attribute = attribute_of(name)
    if attribute is None:
        about = "assumption" if name in NAMED_DEFAULTS else "library entry" if name in ROLES else "axis"
        return _field(name, NAMES, "", about, "parameter", "", "")
    whole = attribute.integer and all(float(value).is_integer() for value in values)
    kind = pa.int64() if whole else pa.float64()
    return _field(dataset_name(name), kind, attribute.unit, attribute.about, "parameter", "", "")


def lineage(program: Program, column: str) -> tuple[set[str], set[tuple[str, str]]]:
    """Equations and graded library sources from which a column is computed."""
    equations: set[str] = set()
    sources: set[tuple[str, str]] = set()
    writers = {o.name: e for stage in program.stages for e in stage.fusion.equations for o in e.outputs}
    waiting = [column]
    seen = set(waiting)
    while waiting:
        name = waiting.pop()
        if name in program.given:
            sources.update(program.given[name].sources)
            continue
        equations.add(f"{writers[name].name}: {writers[name].source}")
        for parent in writers[name].inputs:
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    return equations, sources


def _band_fields(field: pa.Field) -> list[pa.Field]:
    """Quantiles and mean of a metric over the searched points that can run."""
    return [field.with_name(f"{field.name}_{ending}") for ending in (*BAND_SHARES, "mean")]


def bands(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """Quantiles and mean [row] of a metric [row, point] over the points that are not NaN; NaN where all are."""
    known = np.any(~np.isnan(values), axis=1)
    found = {f"{name}_{ending}": np.full(len(values), np.nan) for ending in (*BAND_SHARES, "mean")}
    if known.any():
        quantiles = np.nanquantile(values[known], list(BAND_SHARES.values()), axis=1)
        for ending, quantile in zip(BAND_SHARES, quantiles, strict=True):
            found[f"{name}_{ending}"][known] = quantile
        found[f"{name}_mean"][known] = np.nanmean(values[known], axis=1)
    return found


def _metric_field(name: str, programs: Iterable[Program], float32: bool) -> pa.Field:
    unit, about = "", ""
    grades: set[str] = set()
    sources: set[str] = set()
    for program in programs:
        origin = program.outputs.get(name) or program.given[name]
        unit, about = origin.unit, origin.about
        _, graded = lineage(program, name)
        grades.update(grade for _, grade in graded)
        sources.update(source for source, _ in graded)
    weakest = max(grades, key=GRADES.index, default="")
    kind = pa.float32() if float32 else pa.float64()
    return _field(name, kind, unit, about, "metric", weakest, json.dumps(sorted(sources)))


def dataset_schema(
    axes: Mapping[str, Sequence[float | str]],
    metrics: Sequence[str],
    programs: Sequence[Program],
    output: Output,
    metadata: dict[str, str],
) -> pa.Schema:
    """Schema of every part of a study's dataset, with axes as `axis_columns` gives them. The grade of a metric is the
    weakest among its inputs."""
    fields = [_field("point_id", pa.int64(), "", "number of the point in the study", "key", "", "")]
    fields += [_axis_field(name, values) for name, values in axes.items()]
    fields.append(_field("feasible", pa.bool_(), "", "whether the point can run", "metric", "", ""))
    fields.append(_field("infeasible_reason", NAMES, "", "first check that fails", "parameter", "", ""))
    found = [_metric_field(name, programs, output.float32) for name in metrics]
    if output.mode == BANDS:
        about = "share of the searched points that can run; quantiles are of these"
        fields.append(_field(FEASIBLE_SHARE, pa.float64(), "", about, "metric", "", ""))
        found = [band for field in found for band in _band_fields(field)]
    if output.mode == OPTIMIZED:
        found += [_field(name, pa.float64(), "", about, "metric", "", "") for name, about in SEARCH_COLUMNS.items()]
    fields += found
    return pa.schema(fields, metadata=metadata)


def _axis_array(
    grid: Grid, name: str, values: list[float | str], digits: list[np.ndarray], kind: pa.DataType
) -> pa.Array:
    column = grid.columns.get(name, grid.columns.get(STAND_INS.get(name, name)))
    own = axis_values(grid, name)
    codes = np.zeros(len(digits[0]), np.int32) if column is None else column.codes[digits[column.axis]]
    if kind == NAMES:
        position = {value: code for code, value in enumerate(values)}
        recode = np.array([position[value] for value in own], np.int32)
        return pa.DictionaryArray.from_arrays(recode[codes], pa.array([str(value) for value in values]))
    return pa.array(pa.array(own, pa.float64()).cast(kind).to_numpy()[codes])


def table(
    schema: pa.Schema,
    axes: Mapping[str, list[float | str]],
    grid: Grid,
    numbers: np.ndarray,
    values: Mapping[str, np.ndarray],
) -> pa.Table:
    """Rows of the dataset for points numbered within a box; `axes` as `axis_columns` gives them."""
    digits = grid.digits(numbers)
    axis_of = {dataset_name(name): name for name in axes}
    reasons = values["infeasible_reason"].astype(np.int32)
    arrays = []
    for column in schema:
        if column.name == "point_id":
            arrays.append(pa.array(numbers + grid.offset))
        elif column.name == "feasible":
            arrays.append(pa.array(reasons == 0))
        elif column.name == "infeasible_reason":
            arrays.append(pa.DictionaryArray.from_arrays(reasons, pa.array(REASONS)))
        elif column.name in axis_of:
            name = axis_of[column.name]
            arrays.append(_axis_array(grid, name, axes[name], digits, column.type))
        else:
            arrays.append(pa.array(values[column.name]).cast(column.type))
    return pa.Table.from_arrays(arrays, schema=schema)
