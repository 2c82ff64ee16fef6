"""What a study searches for and what it keeps: objectives, output modes, and whether they go together."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sweeper.errors import Problems, brief
from sweeper.library.uncertain import DRAW
from sweeper.reading import checks
from sweeper.reading.expressions import Expression
from sweeper.reading.nodes import Node, error

BANDS = "bands"
"""Mode that reduces the searched axes, draws above all, to quantiles of every column."""
OPTIMIZED = "optimized"
"""Mode that searches continuous columns too; a study has it if it says what to optimize."""
PERTURBED = "perturbed"
"""Mode that does the searches again for other numbers, which no study has by itself."""
MODES = ("all", "feasible", "best", "top_k", "pareto", BANDS, OPTIMIZED)
SEARCHING = ("best", "top_k", "pareto")
"""Modes that reduce the searched axes by the objectives."""
SENSES = {"minimise": 1.0, "maximise": -1.0}
"""Directions of an objective, as the sign that turns it into a cost."""
MAX_TOP_K = 1_000_000


@dataclass(frozen=True)
class Objective:
    """A column to minimise or maximise."""

    column: str
    sense: str

    @property
    def sign(self) -> float:
        """Factor that turns the column into a cost."""
        return SENSES[self.sense]


@dataclass(frozen=True)
class StudyOutput:
    """What a study keeps: rows by `mode`, the metric `columns` (None: the usual ones), in float32 if asked."""

    mode: str
    columns: tuple[str, ...] | None = None
    float32: bool = False
    top_k: int = 10


def read_objectives(node: Node) -> tuple[Objective, ...]:
    """Objectives as written: one, or a list. Raises SpecError."""
    objectives: dict[str, Objective] = {}
    for item in checks.items(node, "objective") if isinstance(node.value, tuple) else (node,):
        senses = checks.fields(item, "an objective", SENSES) if isinstance(item.value, dict) else {}
        if len(senses) != 1:
            raise error(item, f"found {item.kind}; an objective is {{minimise: column}} or {{maximise: column}}")
        for sense, value in senses.items():
            column = checks.text(value, "the column of an objective")
            if column in objectives:
                raise error(value, f"column {column!r} is an objective already")
            objectives[column] = Objective(column, sense)
    return tuple(objectives.values())


def read_constraints(node: Node) -> tuple[Expression, ...]:
    """Conditions on columns that a point must meet to count as one that can run. Raises SpecError."""
    return tuple(map(_constraint, checks.items(node, "constraints")))


def _constraint(node: Node) -> Expression:
    """One condition on numbers: what compares nothing would hold for every number but 0."""
    condition = checks.condition(node, "a constraint")
    if not condition.compares:
        raise error(node, f"{brief(condition.text)} compares nothing; a constraint is e.g. memory_need_B < 64e9")
    if not condition.symbols:
        raise error(node, f"{brief(condition.text)} asks nothing of a point; a constraint is e.g. memory_need_B < 64e9")
    return condition


def read_output(node: Node, mode: str) -> StudyOutput:
    """What to keep; the mode is `mode` if none is written."""
    written = checks.fields(node, "output", ("mode", "columns", "float32", "top_k"))
    usual = StudyOutput(mode)
    output = StudyOutput(
        written.read("mode", checks.choice, "output mode", MODES, default=mode),
        written.read("columns", checks.texts, "columns", default=usual.columns),
        written.read("float32", checks.boolean, "float32", default=usual.float32),
        written.read("top_k", checks.whole, "top_k", 1, MAX_TOP_K, default=usual.top_k),
    )
    if "top_k" in written and output.mode != "top_k":
        written.problems.append(node.key_problem("top_k", f"nothing reads it in mode {output.mode}; say mode: top_k"))
    written.problems.raise_any()
    return output


def unfit_mode(
    root: Node,
    written: Mapping[str, Node],
    output: StudyOutput,
    objectives: Sequence[Objective],
    searched: Collection[str],
) -> Problems:
    """Problems of a mode that does not go with the objectives and the search."""
    mode, bands, goals = output.mode, output.mode == BANDS, len(objectives)
    node = written.get("output", root)
    goal = written.get("objective", node)
    example = "objective: {minimise: iteration_time_s}"
    choices = set(searched) - {DRAW}
    rules = (
        (bands and choices, node, "mode bands searches draws only: a quantile over choices says nothing"),
        (not bands and DRAW in searched, node, "the best draw is luck: sweep draws, or take mode bands"),
        (bands and goals, goal, "mode bands keeps quantiles of all points and takes no objective"),
        (not bands and not goals, node, f"mode {mode} needs an objective, e.g. {example}"),
        (not searched, node, f"mode {mode} needs at least one axis under 'search' in every box"),
        (goals > 1 and mode != "pareto", goal, f"found {goals} objectives; mode {mode} takes one, mode pareto several"),
    )
    return Problems(at.problem(message) for wrong, at, message in rules if wrong and mode in (*SEARCHING, BANDS))
