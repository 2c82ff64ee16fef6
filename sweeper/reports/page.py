"""One HTML file of one run or several: everything inside it, nothing fetched."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import polars as pl
from jinja2 import Environment

from sweeper.errors import EnvironmentFault, UsageFault, listed
from sweeper.files import write_whole
from sweeper.library.uncertain import DRAW
from sweeper.planning.plan import Plan
from sweeper.reports import evidence
from sweeper.reports.answers import CASES, Answers, answered, answers, asked
from sweeper.reports.choices import REDUCING, Choice, choices
from sweeper.reports.points import Causes, causes
from sweeper.reports.rows import POINT, packed, page_rows
from sweeper.running.storage.listing import status
from sweeper.running.storage.places import folder
from sweeper.running.storage.resolved import read_resolved
from sweeper.running.storage.store import MANIFEST
from sweeper.shown import FEWEST
from sweeper.views.analysis import OBJECTIVES
from sweeper.views.datasets import axes_of, columns, reading, scan
from sweeper.views.marks import standing_lines
from sweeper.views.pages import templates
from sweeper.views.pictures.curves import SEARCHED
from sweeper.views.text import without_nan

MOST_ROWS = 100_000
"""Rows of a run that a page holds if nobody says."""


@dataclass(frozen=True)
class Asked:
    """A run, and the plan of its study if that is still what ran; else why it is not."""

    run: str
    plan: Plan | None = None
    remark: str = ""


@dataclass(frozen=True)
class Section:
    """What the page says of a run."""

    run: str
    study: str
    question: Mapping[str, Any]
    answers: Answers
    unanswered: str
    reduced: bool
    draws: bool
    causes: Causes
    rows: int
    of_rows: int
    same: Mapping[str, Any]
    reasons: Sequence[tuple[str, int, float]]
    standing: Sequence[str]
    grades: Mapping[str, int]
    sourced: Sequence[evidence.Sourced]
    calibrations: Sequence[evidence.Calibrated]
    columns: Sequence[Mapping[str, str]]
    code: Mapping[str, str]
    told: str
    packed: str


def report(runs: Sequence[Asked], most_rows: int = MOST_ROWS) -> str:
    """The page of some runs, as HTML. Raises NoDataset as `scan` does, EnvironmentFault without Plotly."""
    sections = [_section(asked, most_rows) for asked in runs]
    told = {"sections": sections, "plotly": _plotly(), "version": metadata.version("sweeper"), "digits": FEWEST}
    return _templates().get_template("report.html.j2").render(told)


def write_report(runs: Sequence[Asked], file: Path, most_rows: int = MOST_ROWS) -> None:
    """Write the page of some runs. Raises UsageFault for another ending than .html, EnvironmentFault for a file
    that cannot be written, and as `report` does.

    >>> import sweeper, tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> plan = sweeper.plan("table6_sn10")
    >>> run = sweeper.run(plan, out=place, quiet=True)
    >>> write_report([Asked(run.directory, plan)], place / "report.html")
    >>> "The most utilisation is 0.857211" in (place / "report.html").read_text()
    True
    """
    if file.suffix != ".html":
        raise UsageFault(f"a report is an .html file, not {str(file)!r}")
    text = report(runs, most_rows)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, text)


def _section(asked_of: Asked, most_rows: int) -> Section:
    place = folder(asked_of.run)
    with reading(asked_of.run):
        dataset = scan(asked_of.run)
        described = columns(asked_of.run)
        resolved = read_resolved(place)
        manifest = json.loads(place.get(MANIFEST) or b"{}")
        study = resolved["study"]
        if "library" not in study:
            raise UsageFault(f"{place.name} is a run of placements; sweeper judge-placements tells about these")
        if study.get("perturbation") is not None:  # A row for each changed number: points of it compare with nothing.
            raise UsageFault(f"{place.name} is a run of a sensitivity or break-even, which tell about these themselves")
        objectives = asked(dataset, dict(study["objectives"]))
        units = dict(described.select("column", "unit").iter_rows())
        axes = axes_of(dataset.collect_schema().names())
        chosen, mode = choices(study, axes), study["output"][0]
        found = answers(dataset, answered(objectives, mode), units, chosen)
        shown = page_rows(dataset, objectives, most_rows)
        rows = dataset.group_by(pl.col("infeasible_reason").cast(pl.String)).len().collect()
        counts = {reason or evidence.FEASIBLE: count for reason, count in rows.iter_rows()}
        standing = standing_lines(dataset, asked_of.run)
    told_causes = causes(asked_of.plan, found, asked_of.remark)
    frame = _ordered(shown.frame, axes, objectives, chosen)
    about = {row["column"]: (row["unit"], row["description"]) for row in described.to_dicts()}
    told, values = packed(frame, axes, about, {**OBJECTIVES, **objectives})
    page = {
        "run": place.name,
        "rows": frame.height,
        "columns": told,
        "tornadoes": told_causes.tornadoes,
        "no_tornado": told_causes.remark or "answer",
    }
    return Section(
        run=place.name,
        study=resolved["name"],
        question=_question(study, resolved["points"]),
        answers=found,
        unanswered=_unanswered(objectives, shown.feasible),
        reduced=mode in REDUCING,
        draws=DRAW in axes,
        causes=told_causes,
        rows=frame.height,
        of_rows=shown.feasible,
        same=shown.same,
        reasons=evidence.reasons(manifest, counts),
        standing=standing,
        grades=evidence.grades(study),
        sourced=evidence.sourced(study),
        calibrations=evidence.calibrations(study),
        columns=described.to_dicts(),
        code=_code(resolved, status(place)),
        told=json.dumps(without_nan(page)).replace("<", "\\u003c"),
        packed=values,
    )


def _ordered(
    frame: pl.DataFrame, axes: Sequence[str], objectives: Mapping[str, str], among: Sequence[Choice]
) -> pl.DataFrame:
    """Columns in the order in which a page offers them: what is swept, what is searched, objectives, other metrics.

    Of axes that go together the first comes before the others of any: two of one table make no map. One workload and
    task is looked at first, and the others by filters, so that what is the same in each of them comes late, too.
    """
    mine = [name for name in axes if name in frame.columns]
    of = [name for name in CASES if name in mine]
    groups = frame.partition_by(of) if of else [frame]
    varying = {name for name in mine if any(group[name].n_unique() > 1 for group in groups)} - {*of}
    leads = {next((name for name in choice.axes if name in varying), "") for choice in among}
    places = {name: (name not in varying, name == DRAW, name not in leads, name in SEARCHED) for name in mine}
    first = [name for name in objectives if name in frame.columns]
    return frame.select(*dict.fromkeys([POINT, *sorted(mine, key=places.__getitem__), *first, *frame.columns]))


def _unanswered(objectives: Mapping[str, str], rows: int) -> str:
    """Why a run has no answer, if it has none."""
    if not rows:
        return "No row is feasible."
    if not objectives:
        return f"The study has no objective, and its rows none of the usual metrics ({listed(list(OBJECTIVES))})."
    return f"No feasible row has a number for {listed(list(objectives))}."


def _question(study: Mapping[str, Any], points: int) -> dict[str, Any]:
    """What a study asks: objectives, constraints, and how many values each of its axes has."""
    axes: dict[str, str] = {}
    for box in study["boxes"]:
        for *names, how, rows in box:
            if len(rows) > 1:
                axes[" + ".join(names)] = f"{len(rows)} {how}"
    return {
        "objectives": [
            f"{sense if at else sense.title()} {name}" for at, (name, sense) in enumerate(study["objectives"])
        ],
        "constraints": study["constraints"],
        "axes": axes,
        "mode": study["output"][0],
        "points": points,
    }


def _code(resolved: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, str]:
    code = resolved["study"]["code"]
    return {
        "content hash of study, library and code": resolved["hash"],
        "equations": f"{len(code['equations'])} in {len(code['kernels'])} modules",
        "evaluation": code["evaluation"][:12],
        "complete": "yes" if told["complete"] else "no",
    }


def _plotly() -> str:
    try:
        text: str = import_module("plotly.offline").get_plotlyjs()
    except ImportError:
        raise EnvironmentFault("a report needs plotly: pip install 'sweeper[report]'") from None
    return text


@cache
def _templates() -> Environment:
    return templates("sweeper.reports")
