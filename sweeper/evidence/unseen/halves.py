"""Runs, each predicted by constants that were fitted without its model, or without its system.

The models of a stack (a calibration of the registry, with the rows that it is fitted to) are cut into two halves; what
is fitted to one answers the other. A fit starts from nothing: its first guess is the stated default, and what tables
leave open is chosen anew with the constants of the half, until the choices stay. Constants that a stack takes over from
other stacks stay as they are. Runs that no calibration is fitted to are predicted as they stand.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sweeper.evidence.calibration import Calibration, Sample
from sweeper.evidence.fitting import Errors
from sweeper.evidence.measured_rows import MeasuredPoint
from sweeper.evidence.predictions import OtherConstants, evaluate, settle
from sweeper.evidence.registry import our_library
from sweeper.evidence.unseen.contrasts import speedups
from sweeper.evidence.unseen.runs import Run, by_stack, errors_of, has_experts, machine_runs, runs
from sweeper.words.columns import number_default
from sweeper.words.software import CALIBRATION
from sweeper.words.system import ENTRY_DEFAULTS

ROUNDS = 4
"""How often a fit and the choices that depend on it are made in turn, at most."""


def unseen_board(task: str = "training") -> dict[str, Any]:
    """Everything that is said of runs whose models no constant was fitted to: by stack, by table and of all, dense
    models and those with experts, and what narrow formats gain; and of other workloads by stack."""
    found = runs(task)
    told = unseen(found)
    kinds = {
        "dense": [run for run in told if not has_experts(run)],
        "with experts": [r for r in told if has_experts(r)],
    }
    files = {run.file: [each for each in told if each.file == run.file] for run in told}
    return {
        "stacks": errors_by_stack(told),
        "machines": errors_by_stack(unseen(machine_runs())),
        "groups": {name: errors_of(rows) for name, rows in {**files, **kinds, "all": told}.items() if rows},
        "left_out": {name: len(rows) for name, rows in by_stack(found).items() if name not in by_stack(told)},
        "speedups": speedups(told),
    }


def errors_by_stack(told: Sequence[Run]) -> dict[str, Any]:
    """Errors of runs, and how many constants are fitted, by stack."""
    return {
        name: {"constants": 0 if (stack := rows[0].calibration) is None else len(stack.fit), **errors_of(rows)}
        for name, rows in by_stack(told).items()
    }


def unseen(found: Sequence[Run]) -> list[Run]:
    """The same runs as constants say that were fitted to other models; without those whose stack has too few models or
    rows for that."""
    told: list[Run] = []
    for stack in by_stack(found).values():
        calibration = stack[0].calibration
        told += stack if calibration is None else by_other_half(calibration, stack)
    return told


def by_other_half(calibration: Calibration, stack: Sequence[Run]) -> list[Run]:
    """Runs of a stack, each half of its models predicted by constants of the other; none where a half has no more rows
    than there are constants."""
    sides = halves([run.model for run in stack])
    parts = [[run for run, side in zip(stack, sides, strict=True) if side == one] for one in (0, 1)]
    if min(map(len, parts)) <= len(calibration.fit):
        return []
    told = []
    for part, other in (parts, parts[::-1]):
        constants = fitted_to(calibration, [run.point for run in other])
        answers = evaluate([run.point for run in part], constants)
        told += [
            replace(run, scored=replace(run.scored, predicted=value, fits=fits))
            for run, (value, fits) in zip(part, answers, strict=True)
        ]
    return told


def halves(models: Sequence[Hashable]) -> list[int]:
    """The half of every row, 0 or 1: its models in turn, in the order of what they are called.

    >>> halves(["b", "a", "c", "b"])
    [1, 0, 0, 1]
    """
    order = sorted(set(models), key=repr)
    return [order.index(model) % 2 for model in models]


def fitted_to(calibration: Calibration, points: Sequence[MeasuredPoint]) -> OtherConstants:
    """Constants of a calibration and of all that share them, fitted to some points from the stated default on."""
    constants = everywhere(calibration, first_guess(calibration))
    chosen: list[MeasuredPoint] = []
    for _ in range(ROUNDS):
        before, chosen = chosen, settle(points, constants)
        if chosen == before:
            break
        errors = Errors(calibration, Sample(tuple(chosen), ()))
        best = np.exp(errors.search(np.arange(len(chosen))))
        constants = everywhere(calibration, {name: float(best[at]) for name, at in calibration.constants.items()})
    return constants


def first_guess(calibration: Calibration) -> dict[str, float]:
    """What the constants that a calibration fits are without it."""
    values = our_library().find("calibration", str(ENTRY_DEFAULTS["calibration"])).values
    return {
        name: values[name].number if name in values else number_default(CALIBRATION[name])
        for name in calibration.constants
    }


def everywhere(calibration: Calibration, constants: Mapping[str, float]) -> OtherConstants:
    """Constants for every stack that shares them."""
    return dict.fromkeys(calibration.stacks, constants)
