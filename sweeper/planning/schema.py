"""The dataset as a table: which columns, of which type, with unit, meaning, grade and sources in the schema."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from sweeper.engine.program import Program
from sweeper.engine.space import Grid, Points
from sweeper.inputs.numbers import selector_of, values_of
from sweeper.words.columns import engine_column, numeric
from sweeper.words.defaults import NAMED_DEFAULTS
from sweeper.words.system import GRADES, ROLES

ENCODING = {"compression": "zstd", "compression_level": 1, "row_group_size": 250_000}
"""How parts are written as Parquet. Smaller row groups cost writing time and size, larger ones gain nothing."""

ROUNDED = f"; rounded to float32, by at most {np.finfo(np.float32).eps / 2:.1g} of it"
"""What the schema says of metrics that a study wants in float32; they are computed in float64."""
NAMES = pa.dictionary(pa.int32(), pa.string())
ALWAYS = (
    *("workload", "chip", "topology", "memory", "link", "partitioning", "chips", "dim_x", "dim_y", "dim_z"),
    *("tensor_parallel", "pipeline_parallel", "data_parallel", "microbatch"),
)
"""Axis columns that every dataset has, whether a study varies them or not."""


def joined(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays one after the other.

    >>> joined([np.array([1.0, 2.0]), np.array([3.0])]).tolist()
    [1.0, 2.0, 3.0]
    """
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def axis_columns(grids: Sequence[Grid], hidden: Collection[str]) -> dict[str, list[float | str]]:
    """Axis columns of the dataset with every value they take: those that vary and the usual ones, none hidden."""
    names = [n for n in dict.fromkeys([*ALWAYS, *(n for grid in grids for n in grid.columns)]) if n not in hidden]
    taken = {name: list(dict.fromkeys(value for grid in grids for value in values_of(grid, name))) for name in names}
    return {name: values for name, values in taken.items() if name in ALWAYS or len(values) > 1}


def field(
    name: str, kind: pa.DataType, unit: str, about: str, role: str, grade: str = "", sources: str = ""
) -> pa.Field:
    """A column of the dataset with its meaning; `role` is key, parameter or metric. Numbers that are not known are
    null."""
    metadata = {"unit": unit, "description": about, "role": role, "grade": grade, "source": sources}
    return pa.field(name, kind, nullable=pa.types.is_floating(kind), metadata=metadata)


def _axis_field(name: str, values: Sequence[float | str]) -> pa.Field:
    attribute = numeric(name)
    if attribute is None:
        about = "assumption" if name in NAMED_DEFAULTS else "library entry" if name in ROLES else "axis"
        return field(name, NAMES, "", about, "parameter")
    whole = attribute.integer and all(float(value).is_integer() for value in values)
    kind = pa.int64() if whole else pa.float64()
    return field(engine_column(name), kind, attribute.unit, attribute.about, "parameter")


def lineage(program: Program, column: str) -> tuple[set[str], set[tuple[str, str]]]:
    """Equations and graded library sources from which a column is computed."""
    equations: set[str] = set()
    sources: set[tuple[str, str]] = set()
    writers = {o.name: e for stage in program.stages for e in stage.fusion.equations for o in e.outputs}
    waiting = [column]
    seen = set(waiting)
    while waiting:
        name = waiting.pop()
        if name in program.inputs:
            sources.update(program.inputs[name].sources)
            continue
        equations.add(f"{writers[name].name}: {writers[name].source}")
        for parent in writers[name].inputs:
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    return equations, sources


def metric_field(name: str, programs: Iterable[Program], float32: bool) -> pa.Field:
    """A metric as some programs compute it; its grade is the weakest among its inputs."""
    unit, about = "", ""
    grades: set[str] = set()
    sources: set[str] = set()
    for program in programs:
        origin = program.outputs.get(name) or program.inputs[name]
        unit, about = origin.unit, origin.about
        _, graded = lineage(program, name)
        grades.update(grade for _, grade in graded)
        sources.update(source for source, _ in graded)
    weakest = max(grades, key=GRADES.index, default="")
    kind = pa.float32() if float32 else pa.float64()
    about += ROUNDED if float32 else ""
    return field(name, kind, unit, about, "metric", weakest, json.dumps(sorted(sources)))


def dataset_schema(
    axes: Mapping[str, Sequence[float | str]], metrics: Sequence[pa.Field], metadata: dict[str, str]
) -> pa.Schema:
    """Schema of every part of a study's dataset, with axes as `axis_columns` gives them."""
    fields = [field("point_id", pa.int64(), "", "number of the point in the study", "key")]
    fields += [_axis_field(name, values) for name, values in axes.items()]
    fields.append(field("feasible", pa.bool_(), "", "whether the point can run", "metric"))
    fields.append(field("infeasible_reason", NAMES, "", "first check that fails", "parameter"))
    return pa.schema([*fields, *metrics], metadata=metadata)


def _axis_array(points: Points, name: str, values: list[float | str], kind: pa.DataType) -> pa.Array:
    column, own = selector_of(points.grid, name), values_of(points.grid, name)
    if kind == NAMES:
        position = {value: code for code, value in enumerate(values)}
        codes = points.taken(column, np.array([position[value] for value in own], np.int32))
        return pa.DictionaryArray.from_arrays(codes, pa.array([str(value) for value in values]), safe=False)
    numbers = pa.array(own, pa.float64()).cast(kind).to_numpy()
    taken = points.taken(column, numbers)
    return pa.array(taken) if np.isfinite(numbers).all() else _known(taken)


def _known(values: np.ndarray) -> pa.Array:
    """Numbers, null where they are not finite."""
    finite = np.isfinite(values)
    return pa.array(values) if finite.all() else pa.array(values, mask=~finite)


def dataset_rows(
    schema: pa.Schema,
    axes: Mapping[str, list[float | str]],
    points: Points,
    values: Mapping[str, np.ndarray | pa.Array],
    reason_names: Sequence[str],
) -> pa.Table:
    """Rows of the dataset for points; `axes` as `axis_columns` gives them. An axis has the values of the points unless
    `values` gives others. `reason_names` are those of the reasons why points cannot run, by their codes."""
    axis_of = {engine_column(name): name for name in axes}
    reasons = values["infeasible_reason"].astype(np.int32)
    arrays = []
    for column in schema:
        if column.name == "point_id":
            offset = points.grid.offset
            arrays.append(pa.array(points.numbers + offset if offset else points.numbers))
        elif column.name == "feasible":
            arrays.append(pa.array(reasons == 0))
        elif column.name == "infeasible_reason":
            arrays.append(pa.DictionaryArray.from_arrays(reasons, pa.array(reason_names), safe=False))
        elif column.name in axis_of and column.name not in values:
            name = axis_of[column.name]
            arrays.append(_axis_array(points, name, axes[name], column.type))
        elif column.type == NAMES:
            named = values[column.name]
            arrays.append(named if isinstance(named, pa.Array) else pa.array(named, pa.string()).cast(NAMES))
        else:
            arrays.append(_known(values[column.name].astype(column.type.to_pandas_dtype(), copy=False)))
    return pa.Table.from_arrays(arrays, schema=schema)
