"""A night as Markdown and as one HTML file, for people: what is wrong first, then the answers and what moved."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from jinja2 import Environment

from sweeper.nights.causes import Cause
from sweeper.nights.diff import Difference
from sweeper.nights.inputs import Change
from sweeper.nights.records import NightRecord
from sweeper.nights.winners import Winner
from sweeper.running.progress import duration
from sweeper.views.pages import templates
from sweeper.views.text import show

PAGES = ("summary.md", "summary.html")
LEAST = 0.005
"""Part of a movement below which a cause is not told."""
LONGEST = 60
"""Letters of a value that a table shows."""


class Answer(NamedTuple):
    """A winner in words: its study and workload, the objective with its value, the system, and what was there before:
    the change in percent, and the system if it was another one; nothing without an earlier night."""

    study: str
    workload: str
    objective: str
    value: str
    system: str
    change: str
    instead_of: str


def pages(record: NightRecord, before: NightRecord | None) -> dict[str, str]:
    """The files of a night for people, by name."""
    told = {"night": record, "answers": list(answers(record, before)), "lasted": duration(record.seconds)}
    return {name: _templates().get_template(f"{name}.j2").render(told) for name in PAGES}


def answers(record: NightRecord, before: NightRecord | None) -> Iterator[Answer]:
    """The winners of a night, beside those of an earlier one."""
    earlier = {
        (study.name, winner.question): winner
        for study in (before.studies if before else ())
        for winner in study.winners
    }
    for study in record.studies:
        for winner in study.winners:
            old = earlier.get((study.name, winner.question))
            yield Answer(
                study=study.name,
                workload=winner.workload,
                objective=f"{winner.sense} {winner.objective}",
                value=f"{show(winner.value)} {winner.unit}".strip(),
                system=system_text(winner.system),
                change=_change(old, winner),
                instead_of=system_text(old.system) if old and dict(old.system) != dict(winner.system) else "",
            )


def system_text(system: Mapping[str, Any]) -> str:
    """Values by name, in words."""
    return ", ".join(f"{name} {show(value)}" for name, value in system.items())


def change_text(change: Change) -> tuple[str, str, str, str]:
    """An input that differs: its name, kind, and what it was and is, in words."""

    def told(value: Any) -> str:
        if isinstance(value, list) and len(value) == 1:
            (value,) = value
        text = brief_text("absent" if value is None else show(value))
        numbers = all(isinstance(each, float | int) for each in (value if isinstance(value, list) else [value]))
        return f"{text} {change.unit}" if change.unit and numbers else text

    return change.name, change.kind, told(change.before), told(change.after)


def brief_text(text: str) -> str:
    """A text, cut where it is long."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def cause_text(causes: Sequence[Cause], column: str) -> str:
    """Causes of the movement of a column with their shares, and what they leave; `-` where none was found."""
    mine = [cause for cause in causes if cause.column == column]
    known = [cause for cause in mine if cause.share is not None and abs(cause.share) >= LEAST]
    known.sort(key=lambda cause: -abs(cause.share or 0.0))
    told = [f"{cause.change} {100 * (cause.share or 0.0):.3g} %" for cause in known]
    left = 1.0 - sum(cause.share or 0.0 for cause in mine)
    if mine and abs(left) >= LEAST:
        untried = [cause.change for cause in mine if cause.share is None]
        told.append(f"left {100 * left:.3g} %" + (f" ({', '.join(untried[:3])})" if untried else ""))
    return ", ".join(told) or "-"


def diff_page(found: Sequence[Difference], remarks: Sequence[str], before: str, after: str) -> str:
    """What moved between two runs or nights, as one HTML file."""
    told = {"found": found, "remarks": remarks, "before": before, "after": after}
    return _templates().get_template("diff.html.j2").render(told)


def _change(old: Winner | None, new: Winner) -> str:
    """How far a value moved; nothing if it did not."""
    if old is None or old.value == new.value:
        return ""
    return f"{100 * (new.value / old.value - 1):+.3g} %" if old.value else "from 0"


@cache
def _templates() -> Environment:
    environment = templates("sweeper.nights")
    environment.globals |= {"change_text": change_text, "cause_text": cause_text, "system_text": system_text}
    environment.filters["cell"] = _cell
    return environment


def _cell(text: str) -> str:
    """A text of one line that says in Markdown what it says: no cell ends in it, and no tag begins."""
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return plain.replace("|", "\\|")
