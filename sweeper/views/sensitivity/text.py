"""The answer of a sensitivity as text."""

import math
from collections.abc import Iterator, Sequence

from sweeper.planning.sensitivity.parameters import as_varied
from sweeper.planning.sensitivity.perturbed import KEPT, ROBUST
from sweeper.views.sensitivity.answer import Elasticity, Policy, Sensitivity, Step
from sweeper.views.text import aligned
from sweeper.views.uncertainty import by_chance

MOST = 20
"""Numbers that the text and the picture show."""
MOST_STEPS = 40
"""Steps of axes that they show."""

OF_NUMBERS = (
    *("number", "elasticity", "least", "most", "to less", "to more"),
    *("matters in", "turns in", "rank correlation"),
)
OF_STEPS = ("box", "axis", "from", "to", "times better", "p05", "p95", "sure gain", "unsure", "sure loss")
OF_POLICIES = ("design", "worse in half of the draws", "in the worst 5 %", "cannot run in draws")
ABOUT = {KEPT: "the best for the values themselves", ROBUST: "the best over all draws"}
"""Headings of the tables, and what designs are called."""


def text(answer: Sensitivity) -> str:
    """The answer in words and tables."""
    return "\n".join(_lines(answer))


def _lines(answer: Sensitivity) -> Iterator[str]:
    known = answer.combinations - answer.infeasible
    yield f"{answer.study}: best {answer.objective} in {known:,} combinations of the swept axes"
    if answer.infeasible:
        yield f"{answer.infeasible:,} combinations cannot run and take no part"
    if answer.unsigned:
        why = f"{answer.objective} is not positive: choose another objective"
        yield f"{answer.unsigned:,} combinations take no part in steps, as {why}"
    yield ""
    yield f"Which number buys most: percent that the best changes by where it is 1 % more (found at {_sides(answer)})"
    if answer.draws:
        chance = min(by_chance(answer.able), 1.0)
        yield f"(rank correlations below {chance:.2f} may be chance: {answer.able} draws can run)"
    yield from _table(OF_NUMBERS, [_elasticity_row(each) for each in answer.elasticities], 1, MOST, "numbers")
    if any(each.turns for each in answer.elasticities):
        yield "(turns: less and more both make the best worse, or both better: the elasticity is what they leave)"
    if answer.idle:
        yield f"no effect of {len(answer.idle)}: {', '.join(answer.idle)}"
    if answer.limiting:
        only = f"no effect where it can run, but not all of {_sides(answer)} can"
        yield f"{only}: {', '.join(answer.limiting)}"
    if answer.unable:
        why = "no step can run, or the objective is not positive"
        yield f"no elasticity of {len(answer.unable)} ({why}): {', '.join(answer.unable)}"
    if answer.steps:
        yield ""
        yield f"What a step buys: how many times better the best becomes, and {drawn(answer)}"
        yield from _table(OF_STEPS, [_step_row(each) for each in answer.steps], 4, MOST_STEPS, "steps")
    if answer.policies:
        yield ""
        yield "What it costs to choose the design before the numbers are known, against one made for each of the draws"
        yield from _table(OF_POLICIES, [_policy_row(each) for each in answer.policies], 1, MOST, "designs")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], named: int, most: int, what: str) -> Iterator[str]:
    """At most so many rows as a table whose first `named` columns are names, and how many there are if more."""
    yield aligned([heads, *rows[:most]], right=range(named, len(heads)))
    if len(rows) > most:
        yield f"... the first {most} of {len(rows)} {what}"


def _sides(answer: Sensitivity) -> str:
    return f"{100.0 * answer.step:g} % less and more"


def drawn(answer: Sensitivity) -> str:
    """What the draws vary."""
    if not answer.draws:
        return "no draws"
    spread = f"varied within {100.0 * answer.spread:g} %" if answer.spread else "held"
    return f"its band over {answer.draws} draws of all numbers within their intervals, {spread} where they have none"


def _policy_row(policy: Policy) -> tuple[str, ...]:
    ends = (f"{100.0 * (end - 1.0):.2g} %" if math.isfinite(end) else "cannot run" for end in (policy.p50, policy.p95))
    return (ABOUT[policy.design], *ends, f"{100.0 * policy.unable:.2g} %")


def _elasticity_row(each: Elasticity) -> tuple[str, ...]:
    correlation = "-" if math.isnan(each.correlation) else f"{each.correlation:+.2f}"
    slopes = (each.mean, each.least, each.most, each.less, each.more)
    shown = ("-" if math.isnan(value) else f"{value:+.3f}" for value in slopes)
    return (as_varied(each.parameter), *shown, f"{each.matters:,}", f"{each.turns:,}", correlation)


def _step_row(step: Step) -> tuple[str, ...]:
    ends = ("-" if math.isnan(value) else f"{value:.3f}" for value in (step.p05, step.p95))
    counts = (step.sure_gain, step.unsure, step.sure_loss) if not math.isnan(step.p05) else ("-", "-", "-")
    return (step.box, step.axis, step.before, step.after, f"{step.gain:.3f}", *ends, *map(str, counts))
