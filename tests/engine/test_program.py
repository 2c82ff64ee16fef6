"""A program: which equations hold, on what each column depends, and which stages decide whether a point can run."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sweeper.engine.program import (
    LONG,
    InputColumn,
    Program,
    UnknownColumn,
    build_program,
    choose,
    dependencies,
    required,
)
from sweeper.errors import EnvironmentFault
from sweeper.kernels.equation import Output
from sweeper.kernels.equation import equation as declared


def equation(
    name: str, inputs: tuple[str, ...], outputs: tuple[str, ...], when: tuple[str, tuple[str, ...]] | None = None
) -> Any:
    """What a program asks of an equation."""
    written = tuple(SimpleNamespace(name=output) for output in outputs)
    function = SimpleNamespace(__module__="water")
    return SimpleNamespace(name=name, inputs=inputs, outputs=written, when=when, function=function)


def given(name: str, *needs: str) -> InputColumn:
    return InputColumn(name, frozenset(needs), lambda values, n: np.zeros(n), "", "")


def test_an_equation_holds_under_its_choices() -> None:
    always = equation("always", (), ("a",))
    some = equation("some", (), ("b",), ("overlap", ("full", "half")))
    none = equation("none", (), ("b", "c"), ("overlap", ("none",)))
    chosen = {choice: choose({"overlap": choice}, [always, some, none]) for choice in ("full", "half", "none")}
    assert chosen["full"] == chosen["half"] == {"a": always, "b": some}
    assert chosen["none"] == {"a": always, "b": none, "c": none}


def test_the_last_of_several_equations_writes_a_column() -> None:
    first, last = equation("listed", (), ("peak",)), equation("generated", (), ("peak",))
    assert choose({}, [first, last]) == {"peak": last}


def test_equations_come_after_those_that_they_read_from_and_each_once() -> None:
    cost = equation("cost", ("area", "price"), ("cost",))
    area = equation("area", ("side",), ("area", "edge"))
    price = equation("price", ("edge",), ("price",))
    other = equation("other", ("side",), ("other",))
    writers = choose({}, [cost, area, price, other])
    assert [each.name for each in required(["cost"], writers, {"side"})] == ["area", "price", "cost"]
    assert required(["side"], writers, {"side"}) == []
    with pytest.raises(UnknownColumn, match=r"no column 'cots' \(did you mean 'cost'\?\)"):
        required(["cots"], writers, {"side"})


def test_equations_that_read_each_other_are_named() -> None:
    area, edge = equation("area", ("side", "edge"), ("area",)), equation("edge", ("rim",), ("edge",))
    rim, own = equation("rim", ("area",), ("rim",)), equation("own", ("own",), ("own",))
    writers = choose({}, [area, edge, rim, own, equation("cost", ("area",), ("cost",))])
    for wanted, told in (
        ("own", "own of water reads own, which own writes"),
        ("cost", "area of water reads edge, edge of water reads rim, rim of water reads area, which area writes"),
    ):
        with pytest.raises(EnvironmentFault) as fault:
            required([wanted], writers, {"side"})
        assert str(fault.value) == f"equations in a circle: {told}"


def test_a_column_depends_on_what_any_of_its_inputs_depends_on() -> None:
    inputs = {"x": given("x", "chip"), "y": given("y", "memory"), "k": given("k")}
    found = dependencies([equation("z", ("x", "k", "y"), ("z",)), equation("w", ("z", "k"), ("w",)),
                          equation("c", ("k",), ("c",))], inputs)  # fmt: skip
    assert {name: set(needs) for name, needs in found.items()} == {
        "x": {"chip"}, "y": {"memory"}, "k": set(), "z": {"chip", "memory"}, "w": {"chip", "memory"}, "c": set(),
    }  # fmt: skip


def test_stages_that_decide_whether_a_point_can_run_are_all_that_lead_to_the_reason() -> None:
    def stage(number: int, reads: tuple[str, ...], keeps: tuple[str, ...]) -> Any:
        arguments = tuple(SimpleNamespace(name=name) for name in reads)
        return SimpleNamespace(number=number, fusion=SimpleNamespace(kept=keeps, arguments=arguments))

    stages = (
        stage(0, ("side",), ("area",)),
        stage(1, ("side",), ("time",)),
        stage(2, ("area",), ("need",)),
        stage(3, ("need", "side"), ("infeasible_reason",)),
        stage(4, ("infeasible_reason", "time"), ("rank",)),
    )
    program = Program({}, stages, {}, {}, {}, {}, (), frozenset())
    assert program.feasibility == {0, 2, 3}


def lists(name: str) -> Output:
    return Output(name, "", "", (LONG + 1,))


@declared(lists("first"), source="")
def write_first(x: float, y: float, first: np.ndarray) -> None:
    first[:] = x + y


@declared(lists("second"), source="")
def write_second(first: np.ndarray, x: float, second: np.ndarray) -> None:
    second[:] = x * first


@declared(Output("total", "", ""), source="")
def add(second: np.ndarray, z: float) -> float:
    return float(second.sum()) + z


@declared(Output("pair", "", "", (2,)), source="")
def write_pair(x: float, y: float, pair: np.ndarray) -> None:
    pair[:] = x + y


@declared(Output("both", "", ""), source="")
def add_pair(pair: np.ndarray, x: float) -> float:
    return float(pair.sum()) + x


def test_what_handles_short_arrays_only_is_evaluated_with_the_numbers_and_not_folded() -> None:
    """Telling its combinations apart would take longer."""
    inputs = {"x": given("x", "chip"), "y": given("y", "memory")}
    values = dict.fromkeys(("chip", "memory"), np.arange(2.0))
    program = build_program(["both"], (write_pair, add_pair), inputs, {}, {}, values)
    [stage] = program.stages
    assert [equation.name for equation in stage.fusion.equations] == ["write_pair", "add_pair"]
    assert (stage.folds, stage.whole) == (False, False)


@pytest.mark.parametrize(
    ("z", "wanted", "stages", "kept"),
    [
        ((), ["total"], [["write_first", "write_second", "add"]], [("total",)]),
        (("memory",), ["total"], [["write_first", "write_second", "add"]], [("total",)]),
        (("memory",), ["total", "first"], [["write_first", "write_second", "add"]], [("first", "total")]),
        (("chip", "memory"), ["total"], [["write_first", "write_second"], ["add"]], [("second",), ("total",)]),
        (("link",), ["total"], [["write_first", "write_second"], ["add"]], [("second",), ("total",)]),
    ],
)
def test_what_passes_arrays_on_is_one_stage_unless_it_reads_what_makes_more_combinations_differ(
    z: tuple[str, ...], wanted: list[str], stages: list[list[str]], kept: list[tuple[str, ...]]
) -> None:
    inputs = {"x": given("x", "chip"), "y": given("y", "memory"), "z": given("z", *z)}
    values = dict.fromkeys(("chip", "memory", "link"), np.arange(2.0))
    program = build_program(wanted, (write_first, write_second, add), inputs, {}, {}, values)
    assert [[each.name for each in stage.fusion.equations] for stage in program.stages] == stages
    assert [stage.fusion.kept for stage in program.stages] == kept
