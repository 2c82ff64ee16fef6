"""A night as Markdown and as one HTML file, for people: what is wrong first, then the answers and what moved."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from sweeper.nights.records import NightRecord
from sweeper.nights.winners import Winner
from sweeper.running.progress import duration
from sweeper.views.text import show

PAGES = ("summary.md", "summary.html")


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
                system=_system(winner.system),
                change=_change(old, winner),
                instead_of=_system(old.system) if old and dict(old.system) != dict(winner.system) else "",
            )


def _system(system: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {show(value)}" for name, value in system.items())


def _change(old: Winner | None, new: Winner) -> str:
    """How far a value moved; nothing if it did not."""
    if old is None or old.value == new.value:
        return ""
    return f"{100 * (new.value / old.value - 1):+.3g} %" if old.value else "from 0"


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("sweeper.nights"),
        autoescape=lambda name: bool(name and name.endswith(".html.j2")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["cell"] = _cell
    return environment


def _cell(text: str) -> str:
    """A text of one line that says in Markdown what it says: no cell ends in it, and no tag begins."""
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return plain.replace("|", "\\|")
