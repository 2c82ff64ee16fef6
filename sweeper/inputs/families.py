"""Families of workloads: which equations each has, what its workloads give them, and what a study of it shows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from types import ModuleType
from typing import Any

from sweeper.engine.program import InputColumn
from sweeper.errors import EnvironmentFault, brief, listed
from sweeper.inputs.numbers import Surroundings
from sweeper.inputs.workloads import graph_columns, layer_columns, table_columns
from sweeper.kernels.codes import SWITCHES
from sweeper.kernels.equation import Equation, declared
from sweeper.kernels.models import MODELS, instead
from sweeper.library.graph_workload import Workload
from sweeper.library.layers.model import LayeredModel
from sweeper.library.table_workload import OperatorTable, layout_of
from sweeper.plugins import Variant, assert_free, assert_words, label, loaded
from sweeper.reading.units import QuantityError, check_unit
from sweeper.words.columns import GIVEN
from sweeper.words.metrics import CALCULON_METRICS, GRAPH_METRICS, LAYER_METRICS, OPERATOR_METRICS
from sweeper.words.numbers import ADDED


@dataclass(frozen=True)
class Family:
    """A family of workloads.

    `metrics`: the usual ones, by task if it has several, else by its own name; `inputs(around, workload, partitioning,
    known)`: the columns that a workload gives, `known` being those that the space gives; `sizes(workload,
    partitioning)`: lengths of the named dimensions of its arrays.
    """

    equations: tuple[Equation, ...]
    metrics: Mapping[str, tuple[str, ...]]
    inputs: Callable[[Surroundings, Any, str, Mapping[str, InputColumn]], Iterable[InputColumn]]
    sizes: Callable[[Any, str], dict[str, int]]


def _operators(workload: OperatorTable, partitioning: str) -> dict[str, int]:
    return {"operator": len(workload.operators)}


def _graph(workload: Workload, partitioning: str) -> dict[str, int]:
    return {
        "kernel": len(workload.kernels),
        "read": sum(len(kernel.inputs) + len(kernel.carried) for kernel in workload.kernels),
        "partition": max(workload.partitions[partitioning], default=len(workload.kernels) - 1) + 1,
    }


def _layers(workload: LayeredModel, partitioning: str) -> dict[str, int]:
    return {**_operators(workload, partitioning), **_graph(workload.graph, partitioning)}


FAMILIES = {
    "graph": Family(MODELS["graph"], GRAPH_METRICS, graph_columns, _graph),
    "layers": Family(MODELS["layers"], LAYER_METRICS, layer_columns, _layers),
    "operators": Family(MODELS["operators"], OPERATOR_METRICS, table_columns, _operators),
    "calculon": Family(MODELS["calculon"], CALCULON_METRICS, table_columns, _operators),
}
"""Our families, by the names that `sweeper.kernels.models` gives them."""


@cache
def families() -> Mapping[str, Family]:
    """Every family by name: ours and those of plug-ins, each with the equations that plug-ins add to all of them.

    Raises EnvironmentFault for plug-ins that cannot be what they say, or that are in each other's way.
    """
    _check_numbers()
    added = _added_equations()
    every = {name: replace(ours, equations=(*ours.equations, *added)) for name, ours in FAMILIES.items()}
    for name, variant in loaded("families", FAMILIES).items():
        if name not in FAMILIES:
            layout_of(name)  # refuses what is like no table
            _check(label("families", name), _equations(variant.equations), variant.equations)
            every[name] = _like(every[variant.like], name, variant)
    return every


def _like(ours: Family, name: str, variant: Variant) -> Family:
    """A family of a plug-in, given the one that it is like."""
    tasks = {name if key == variant.like else key: metrics for key, metrics in ours.metrics.items()}
    metrics = tasks if variant.metrics is None else dict.fromkeys(tasks, variant.metrics)
    return replace(ours, equations=instead(_equations(variant.equations), ours.equations), metrics=metrics)


@cache
def _ours() -> tuple[frozenset[str], frozenset[str]]:
    """Columns that our equations read, and those that they write."""
    every = [equation for ours in MODELS.values() for equation in ours]
    written = frozenset(output.name for equation in every for output in equation.outputs)
    return frozenset(name for equation in every for name in equation.inputs), written


def _check_numbers() -> None:
    """Raise EnvironmentFault for a number of a plug-in that would hide a column of ours, or be hidden by it, and for
    one whose unit is not that of its column."""
    for plugin, numbers in ADDED.items():
        names = {*numbers, *(number.column for number in numbers.values())}
        assert_free(label("numbers", plugin), sorted(names), frozenset().union(*_ours()), "an equation has")
        _check_units(label("numbers", plugin), ((number.column, number.unit) for number in numbers.values()))


def _check_units(whose: str, units: Iterable[tuple[str, str]]) -> None:
    """Raise EnvironmentFault for a unit of a plug-in's column that is unknown or not that of its name."""
    try:
        for column, unit in units:
            check_unit(column, unit)
    except QuantityError as fault:
        raise EnvironmentFault(f"{whose}: {fault}") from None


def _added_equations() -> list[Equation]:
    """Equations that plug-ins add to every family."""
    added: list[Equation] = []
    for name, given in loaded("equations").items():
        own, whose = _equations(given), label("equations", name)
        _check(whose, own, given)
        others = [*(equation for ours in MODELS.values() for equation in ours), *added]
        written = {output.name for other in others for output in other.outputs}
        names = {other.name for other in others}
        twice = [o.name for equation in own for o in equation.outputs if o.name in written]
        twice += [equation.name for equation in own if equation.name in names and equation.name not in twice]
        twice += [one.outputs[0].name for one, other in combinations(own, 2) if _collide(one, other)]
        if twice:
            raise EnvironmentFault(
                f"{whose} writes {listed(twice)}, as another equation does; only a family of its own may replace it"
            )
        added += own
    return added


def _collide(one: Equation, other: Equation) -> bool:
    """Whether two equations write the same column under the same choices."""
    (switch, choices), (another, others) = (each.when or ("", ()) for each in (one, other))
    apart = switch == another != "" and set(choices).isdisjoint(others)
    return not apart and bool({o.name for o in one.outputs} & {o.name for o in other.outputs})


def _equations(given: Any) -> tuple[Any, ...]:
    """Equations of a plug-in: those that a module declares, or as they are given."""
    if isinstance(given, ModuleType):
        return declared(given)
    return tuple(given) if isinstance(given, Sequence) else (given,)


def _check(whose: str, equations: Sequence[Equation], given: Any) -> None:
    """Raise EnvironmentFault if a plug-in, as it is given, has no equations, or if one writes what is no column of its
    own, in a unit that is none or another than its name says, or depends on a choice that there is not."""
    if not equations or not all(isinstance(equation, Equation) for equation in equations):
        raise EnvironmentFault(f"{whose} is no equations: see sweeper.kernels.equation; found {brief(given)}")
    names = [output.name for equation in equations for output in equation.outputs]
    read, written = _ours()
    assert_words(whose, names)
    # What is given comes first: an equation that writes it would never be asked.
    assert_free(whose, names, GIVEN | (read - written), "a study gives")
    _check_units(whose, ((output.name, output.unit) for equation in equations for output in equation.scalars))
    for equation in equations:
        switch, choices = equation.when or ("", ())
        if switch and not {*choices} <= {*SWITCHES.get(switch, ())}:
            raise EnvironmentFault(
                f"{whose}: {equation.name} is for {switch}: {', '.join(choices)}, which is no choice that a study has"
            )


def family_of(workload: Workload | OperatorTable) -> str:
    """Name of the family that a workload belongs to."""
    return workload.family if isinstance(workload, OperatorTable) else "graph"
