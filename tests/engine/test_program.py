"""A program: which equations hold, on what each column depends, and which stages decide whether a point can run."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sweeper.engine.program import InputColumn, Program, UnknownColumn, choose, dependencies, required


def equation(
    name: str, inputs: tuple[str, ...], outputs: tuple[str, ...], when: tuple[str, tuple[str, ...]] | None = None
) -> Any:
    """What a program asks of an equation."""
    written = tuple(SimpleNamespace(name=output) for output in outputs)
    return SimpleNamespace(name=name, inputs=inputs, outputs=written, when=when)


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
