"""A study: its boxes, what it searches for, and what it keeps, read from YAML with every mistake reported at once."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sweeper.engine.space import Box
from sweeper.errors import Misuse, Place, Problem, Problems, SpecError, listed, unknown
from sweeper.library.graph_workload import Workload
from sweeper.library.library import Library
from sweeper.library.packages.design import PackageDesign
from sweeper.library.table_workload import OperatorTable
from sweeper.library.uncertain import DRAW
from sweeper.reading import checks
from sweeper.reading.expressions import Expression
from sweeper.reading.nodes import Node
from sweeper.shown import Shown
from sweeper.study.box_checks import UNREAD_IF_BALANCED
from sweeper.study.boxes import ReadBox, check_apart, read_box
from sweeper.study.columns import Stock
from sweeper.study.drafts import Asked, BoxDraft, read_drafts
from sweeper.study.optimize import METHODS, Optimize, read_optimize, shares_of, usual_optimize
from sweeper.study.output import (
    BANDS,
    OPTIMIZED,
    PERTURBED,
    SEARCHING,
    Objective,
    StudyOutput,
    read_constraints,
    read_objectives,
    read_output,
    unfit_mode,
)
from sweeper.study.perturb import Perturbation
from sweeper.study.sources import Source, read_source, with_axes
from sweeper.words.fabrics import PLACEMENTS
from sweeper.words.system import GENERATED_FROM, OPTIONAL_ROLES

KEYS = (
    "study",
    "title",
    "description",
    "assumptions",
    "override",
    "axes",
    "boxes",
    "search",
    "objective",
    "constraints",
    "optimize",
    "output",
    "answer",
)
"""Keys of a study."""


@dataclass(frozen=True, eq=False, repr=False)
class Study(Shown):
    """A study with all its names resolved; `workloads` are those that it names, by their canonical names.

    `written` is what it says, as it was read. `answer` is the question in SQL whose answer a run prints; "": the best
    systems.
    A point that misses one of the `constraints` counts as one that cannot run. `asked` tells for every box where its
    columns are given, `places` where the columns stand that objectives, outputs, ranges and constraints name. `remarks`
    are about what is no mistake but may not be meant.

    >>> load_study("table6_sn10").boxes[0].axes[0].columns
    ('workload',)
    """

    name: str
    title: str
    boxes: tuple[Box, ...]
    objectives: tuple[Objective, ...]
    output: StudyOutput
    library: Library
    workloads: Mapping[str, Workload | OperatorTable]
    written: Node
    packages: Mapping[str, PackageDesign] = field(default_factory=dict)
    constraints: tuple[Expression, ...] = ()
    optimize: Optimize | None = None
    perturbation: Perturbation | None = None
    answer: str = ""
    asked: tuple[Mapping[str, Asked], ...] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    remarks: tuple[Problem, ...] = ()

    def place(self, word: str) -> Place:
        """Where the study names a column that it wants, alone or in an expression; else its beginning."""
        within = (place for text, place in self.places.items() if word in text)
        return self.places.get(word) or next(within, Place(self.written.file, 1, 1, word))

    def facts(self) -> dict[str, object]:
        """Its name, title, points, and what it is after."""
        wanted = [f"{objective.sense} {objective.column}" for objective in self.objectives]
        points = sum(math.prod(len(axis.rows) for axis in box.axes) for box in self.boxes)
        return {
            "study": self.name,
            "title": self.title,
            "points": points,
            "objectives": ", ".join(wanted) or "none",
            "mode": self.output.mode,
        }

    @property
    def path(self) -> Path:
        """The file that it was read from; no file, if it was not."""
        return Path(self.written.file)


def load_study(source: Source, library_dirs: Iterable[Path | str] = (), settings: Iterable[str] = ()) -> Study:
    """Read a study; its library is `library_dirs`, earlier ones first, and then the built-in one. `settings` replace
    axes (`["chips=[8, 64]"]`, see `sweeper.study.sources.with_axes`).

    Raises SpecError with all mistakes of the study and of the library entries that it names, UsageFault for a name that
    no study has, Misuse for what is no source of a study.

    >>> load_study("table6_sn10")
    <Study study: table6_sn10, title: Four mappings of GPT-3 175B on eight SN10, points: 4, objectives: none, mode: all>
    >>> said = load_study("table6_sn10").written.plain()
    >>> load_study({**said, "study": "mine"}, settings=["microbatch=[1, 2]"]).name
    'mine'
    """
    root = with_axes(read_source(source), settings)
    if isinstance(root.value, dict) and PLACEMENTS in root.value:
        message = "this is a study of placements, which the command line takes: sweeper plan, run, status and query"
        raise SpecError([root.key_problem(PLACEMENTS, message)])
    checks.mapping(root, "a study")  # else everything that it lacks would be told, too
    problems = Problems()
    stock = Stock(Library.over(library_dirs))
    written = checks.known_fields(root, "a study", KEYS, problems)
    if "study" not in written:
        problems.append(checks.absent(root, "study", "the study has no name; write study: my_study"))
    name = written.read("study", checks.name, "a study's name", default="")
    title = written.read("title", checks.text, "title", default="")
    written.read("description", checks.text, "description", default="")
    answer = written.read("answer", checks.text, "answer", default="")
    drafts = list(read_drafts(root, written, stock, problems))
    read = [read_box(draft, stock, problems) for draft in drafts]
    boxes = [each.box for each in read]
    if not problems:
        problems.extend([*_idle_overrides(drafts, read), *_idle_assumptions(drafts, read)])
    objectives = written.read("objective", read_objectives, default=())
    constraints = written.read("constraints", read_constraints, default=())
    searched = {name for box in boxes for axis in box.axes if axis.searched for name in axis.columns}
    optimize = written.read("optimize", read_optimize, max(len(objectives), 1), default=None)
    usual = OPTIMIZED if optimize else "best" if objectives and searched else "all"
    output = written.read("output", read_output, usual, default=StudyOutput(usual))
    # A study whose axes could not be read has not failed to give them.
    if not problems:
        check_apart(drafts, boxes, output.mode in (*SEARCHING, OPTIMIZED, BANDS), problems)
        problems.extend(unfit_mode(root, written, output, objectives, searched))
        if output.mode == OPTIMIZED:
            problems.extend(_unoptimized(written, boxes, optimize, objectives))
    problems.raise_any()
    return Study(
        name,
        title,
        tuple(boxes),
        objectives,
        output,
        stock.library,
        stock.workloads,
        root,
        packages=stock.packages,
        constraints=constraints,
        optimize=optimize if output.mode == OPTIMIZED else None,
        answer=answer,
        asked=tuple(each.asked for each in read),
        places=_places(written),
        # One of a kind is enough where several boxes have it.
        remarks=tuple(
            found[0]
            for kind in zip(*(each.remarks for each in read if each.remarks), strict=True)
            if (found := [remark for remark in kind if remark])
        ),
    )


def _idle_overrides(drafts: Sequence[BoxDraft], read: Sequence[ReadBox]) -> Iterator[Problem]:
    """Overrides that allow nothing in any box."""
    used = frozenset[Place]().union(*(each.overriding for each in read))
    named = {place: word for draft in drafts for word, place in draft.overrides.items()}
    for place in sorted(named.keys() - used):
        yield place.problem(f"nothing to override: no {named[place]} is of another kind than the entries that it meets")


def _idle_assumptions(drafts: Sequence[BoxDraft], read: Sequence[ReadBox]) -> Iterator[Problem]:
    """Columns that the study itself assumes, while axes give them in every box; a set is for many studies, and may."""
    used = {asked.place for each in read for asked in each.asked.values()}
    given = ((name, one.asked) for draft in drafts for name, one in draft.assumed.items())
    named = {asked.place: name for name, asked in given if not asked.by_set}
    for place in sorted(named.keys() - used):
        yield place.problem(f"nothing reads this {named[place]}: an axis gives it too; leave one of them out")


def _places(written: Mapping[str, Node]) -> dict[str, Place]:
    """Where a study names a column that it wants, as a text or as a key; of several places the first."""
    named = [
        pair
        for key in ("objective", "constraints", "optimize", "output")
        if key in written
        for pair in _named(written[key])
    ]
    return dict(reversed(named))


def _named(node: Node) -> Iterator[tuple[str, Place]]:
    """Keys and texts at and below a node, with their places."""
    if isinstance(node.value, dict):
        yield from ((key, node.key_place(key)) for key in node.value)
    if isinstance(node.value, dict | tuple):
        for child in node.value.values() if isinstance(node.value, dict) else node.value:
            yield from _named(child)
    else:
        yield node.text.strip(), node.place


def optimized(study: Study, replacements: Mapping[str, Any]) -> Study:
    """A study that searches continuous columns too, as it says itself or by default, some fields of that replaced.

    Raises SpecError if it has nothing to optimize.
    """
    node = study.written
    written = checks.mapping(node, "a study")
    count = len(study.objectives)
    said = read_optimize(written["optimize"], count) if "optimize" in written else usual_optimize(count)
    optimize = replace(said, **replacements)
    problems = _unoptimized({"optimize": node, **written}, study.boxes, optimize, study.objectives)
    problems.raise_any()
    return replace(study, optimize=optimize, output=replace(study.output, mode=OPTIMIZED))


NOT_SEARCHED = Optimize((), {}, 1, 1, 0, 1, METHODS[0], ((1.0,),))
"""The search of a study that has no continuous columns to search."""


def perturbed(study: Study, perturbation: Perturbation, objective: str | None = None) -> Study:
    """A study that is done again for other numbers, as a perturbation says, by one of its objectives.

    Raises Misuse for an objective that it has not, and SpecError if it has none, or several and none is chosen, and if
    it sweeps draws.
    """
    place, names = study.place("objective"), [each.column for each in study.objectives]
    if not names:
        raise SpecError(
            [place.problem("nothing to find the best of; add e.g. objective: {minimise: iteration_time_s}")]
        )
    if objective is not None and objective not in names:
        raise Misuse(unknown("objective of the study", objective, names))
    if objective is None and len(names) > 1:
        raise SpecError([place.problem(f"several objectives, {listed(names)}: choose one of them")])
    for box, asked in zip(study.boxes, study.asked, strict=True):
        if any(DRAW in axis.columns for axis in box.axes):
            raise SpecError([asked[DRAW].place.problem("a sensitivity draws by itself: leave this axis out")])
    chosen = [each for each in study.objectives if objective in (None, each.column)]
    optimize = replace(study.optimize or NOT_SEARCHED, weights=((1.0,),))
    output = replace(study.output, mode=PERTURBED)
    return replace(study, objectives=tuple(chosen), optimize=optimize, perturbation=perturbation, output=output)


UNREAD_SHARES = {f"template.{name}" for name in UNREAD_IF_BALANCED}


def _is_balanced(box: Box) -> bool:
    """Whether all chips of a box are balanced."""
    splits = [(axis, axis.columns.index("chip_split")) for axis in box.axes if "chip_split" in axis.columns]
    return bool(splits) and all(row[at] == "balanced" for axis, at in splits for row in axis.rows)


def _unoptimized(
    written: Mapping[str, Node], boxes: Sequence[Box], optimize: Optimize | None, objectives: Sequence[Objective]
) -> Problems:
    """Problems of a search over continuous columns."""
    problems = Problems()
    node = written.get("optimize", written.get("output"))
    assert node is not None
    if optimize is None:
        problems.append(node.problem(f"mode {OPTIMIZED} needs the key optimize, e.g. optimize: {{starts: 10}}"))
    if not objectives:
        problems.append(node.problem("nothing to optimize; add e.g. objective: {minimise: iteration_time_s}"))
    absent = set(optimize.shares or ()) if optimize is not None else set()
    for number, box in enumerate(boxes, 1):
        named = {name for axis in box.axes for name in axis.columns}
        absent -= {*shares_of(named)}
        if DRAW in {name for axis in box.axes if axis.searched for name in axis.columns}:
            problems.append(written.get("search", node).problem("the best draw is luck: sweep draws"))
        if optimize is not None and not optimize.columns(named):
            given = "all that a search may choose is given, or left out of shares: free a share or add a range"
            why = given if "template" in named else "it needs an axis template"
            problems.append(node.problem(f"box {number} leaves no column to optimize; {why}"))
        found_alone = _is_balanced(box) and optimize is not None and {*(optimize.shares or ())} & UNREAD_SHARES
        for name in sorted(found_alone or ()):
            message = f"box {number}: nothing reads {name}: a balanced chip finds it for itself; leave it out of shares"
            problems.append(node.problem(message))
        for name in optimize.ranges if optimize is not None else ():
            role = name.partition(".")[0]
            if role in OPTIONAL_ROLES and role not in named:
                problems.append(node.problem(f"box {number}: nothing has {name} without an axis {role}"))
            if GENERATED_FROM.get(role) in named:
                message = f"box {number}: {name} is generated from the {GENERATED_FROM[role]}; give that a range"
                problems.append(node.problem(message))
    for name in sorted(absent):
        problems.append(node.problem(f"no chip of the study has the part of {name}"))
    return problems
