"""What the dataset of a study holds: its axis columns, its metrics, what is the same in every row, and the schema."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from sweeper.engine.program import Program
from sweeper.engine.space import Grid
from sweeper.errors import SpecError
from sweeper.inputs.families import families, family_of
from sweeper.inputs.numbers import values_of
from sweeper.library.unit_models import model_hash, read_unit_model
from sweeper.planning.columns import Columns
from sweeper.planning.design_search import MEMORY
from sweeper.planning.modes import MODES, Mode
from sweeper.planning.schema import axis_columns, dataset_schema, metric_field
from sweeper.planning.sensitivity.parameters import varied
from sweeper.planning.sensitivity.perturbed import varied_fields
from sweeper.planning.standing import UNCALIBRATED_TIMES, standing_field, uncalibrated_times
from sweeper.planning.tried import certain, counts_field, reason_names
from sweeper.study.study import Study
from sweeper.words.columns import engine_column
from sweeper.words.defaults import NAMED_DEFAULTS
from sweeper.words.metrics import PACKAGE_METRICS, UNIT_METRICS
from sweeper.words.numbers import NUMBERS

REASON = "infeasible_reason"
CONSTANTS = "sweeper.constants"
"""Key of the schema's metadata under which it has what is the same in the whole study, as JSON by name."""
UNIT_MODELS = "sweeper.unit_models"
"""Key of the schema's metadata under which it names the unit models of the study."""


@dataclass(eq=False)
class Contents:
    """Columns of the dataset of a study, which has these boxes."""

    study: Study
    grids: Sequence[Grid]
    columns: Columns

    @property
    def mode(self) -> Mode:
        """How points become rows."""
        return MODES[self.study.output.mode]

    @cached_property
    def axes(self) -> dict[str, list[float | str]]:
        """Axis columns and every value they take."""
        searched = {name for grid in self.grids for axis in grid.axes if axis.searched for name in axis.columns}
        hidden = {*self.optimized, *(searched if self.mode.many_points_a_row else ())}
        return axis_columns(self.grids, hidden)

    @cached_property
    def optimized(self) -> tuple[str, ...]:
        """Continuous columns that some box searches, as a study names them."""
        optimize = self.study.optimize
        every = [] if optimize is None else [name for grid in self.grids for name in optimize.columns(grid.columns)]
        return tuple(dict.fromkeys(every))

    def tried(self, grid: Grid) -> list[tuple[str, ...]]:
        """Lists of continuous columns of a box that the searches of its mode give values to."""
        optimize = self.study.optimize
        searched = () if optimize is None else optimize.columns(grid.columns)
        every = (*searched, *varied(self.columns, grid, self.searched_columns))
        return [names for names in dict.fromkeys((searched, every)) if names]

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """Names of the reasons why points cannot run, by their codes."""
        return reason_names(self.study.constraints)

    @cached_property
    def varied(self) -> tuple[str, ...]:
        """Numbers that are varied in some box, as a study names them."""
        every = (name for grid in self.grids for name in varied(self.columns, grid, self.searched_columns))
        return tuple(dict.fromkeys(every))

    @cached_property
    def varied_columns(self) -> tuple[str, ...]:
        """Columns of those that are neither metrics nor axes."""
        return tuple(
            column for column in map(engine_column, self.varied) if column not in {*self.metrics, *self._beside}
        )

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Metric columns: the study's choice, or the usual ones; objectives always."""
        chosen = self._usual if self.study.output.columns is None else self.study.output.columns
        objectives = [objective.column for objective in self.study.objectives]
        every = (*chosen, *map(engine_column, self.optimized), *objectives)
        return tuple(dict.fromkeys(name for name in every if name not in self._beside))

    @property
    def _beside(self) -> frozenset[str]:
        """Columns of the dataset that are no metrics."""
        return frozenset({"feasible", REASON, "point_id", *map(engine_column, self.axes)})

    @property
    def _usual(self) -> list[str]:
        """Metrics of a study that does not choose: those that all its families and tasks share."""
        kinds = {family_of(workload) for workload in self.study.workloads.values()}
        tasks = {str(task) for grid in self.grids for task in values_of(grid, "task")}
        for kind in kinds:
            own = families()[kind].metrics
            for task in sorted(tasks - own.keys()) if kind not in own else ():
                message = f"task: {task}: workloads of the family {kind} know {' and '.join(own)} only"
                raise SpecError([self.study.place("task").problem(message)])
        every = ((kind, *each) for kind in kinds for each in families()[kind].metrics.items())
        known = {key: names for kind, key, names in every if key in {kind, *tasks}}
        first, *others = (known[key] for key in sorted(known))
        shared = [name for name in first if all(name in other for other in others)]
        packages = all("package" in grid.columns for grid in self.grids)
        placed = "graph" in known and any("fabric" in grid.columns for grid in self.grids)
        return [*shared, *(PACKAGE_METRICS if packages else ()), *(UNIT_METRICS if placed else ())]

    @property
    def searched_columns(self) -> tuple[str, ...]:
        """What a search evaluates at every point: whether it can run, the objectives, what the constraints read, and
        how much a design misses."""
        objectives = [objective.column for objective in self.study.objectives]
        told = MEMORY if self.study.optimize is not None and MEMORY[0] in self._usual else ()
        return tuple(dict.fromkeys([REASON, *objectives, *self.constrained_columns, *told]))

    @property
    def constrained_columns(self) -> list[str]:
        """Columns that the constraints read."""
        return sorted({symbol for constraint in self.study.constraints for symbol in constraint.symbols})

    @property
    def all_columns(self) -> tuple[str, ...]:
        """What is evaluated at every point that a row is of."""
        return tuple(dict.fromkeys((REASON, *self.metrics, *self.constrained_columns)))

    @property
    def certain_columns(self) -> tuple[str, ...]:
        """Metrics that must be finite where a point can run, objectives above all."""
        return certain(self.metrics, (objective.column for objective in self.study.objectives))

    @cached_property
    def constants(self) -> dict[str, float | str]:
        """What has one and the same value in the whole study, assumptions that it does not mention included."""
        names = {*NAMED_DEFAULTS, *NUMBERS, *(name for grid in self.grids for name in grid.columns)}
        values = {name: {value for grid in self.grids for value in values_of(grid, name)} for name in sorted(names)}
        return {name: next(iter(taken)) for name, taken in values.items() if len(taken) == 1}

    @property
    def unit_models(self) -> dict[str, str]:
        """Metadata of the schema: hashes of the unit models that the study names, by name, as JSON; nothing if none."""
        names = {str(v) for grid in self.grids if "unit_model" in grid.columns for v in values_of(grid, "unit_model")}
        models = {name: read_unit_model(self.study.library.find("unit_model", name)) for name in sorted(names)}
        return {UNIT_MODELS: json.dumps({name: model_hash(model) for name, model in models.items()})} if names else {}

    def _uncalibrated_times(self) -> str:
        calibrations = sorted({str(name) for grid in self.grids for name in values_of(grid, "calibration")})
        return uncalibrated_times(self.study.library, calibrations)

    def schema(self, programs: Sequence[Program], metadata: dict[str, str]) -> pa.Schema:
        """Schema with unit, meaning, grade and sources of every column, given the programs that write the metrics."""
        metrics = [metric_field(name, programs, self.study.output.float32) for name in self.metrics]
        told = [standing_field(), *([] if self.mode.cuts_searches else [counts_field()])]
        metadata = {**metadata, **self.unit_models, UNCALIBRATED_TIMES: self._uncalibrated_times()}
        own = [name for name in self.varied if engine_column(name) in self.varied_columns]
        return dataset_schema(self.axes, [*told, *self.mode.fields(metrics), *varied_fields(own)], metadata)
