"""The pages of a night: well formed, with everything escaped; what is wrong first, then answers and what moved."""

import json
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from sweeper.nights.pages import pages
from sweeper.nights.records import NightRecord, StudyRecord, as_record
from sweeper.nights.winners import Winner

VOID = ("meta", "br", "link", "img", "hr")
EVIL = "<script>alert(1)</script> & a|b <b> \"quoted\" 'so'"
WINNER = Winner("gpt", "iteration_time_s", "minimise", 2.0, "s", {"chip": "a", "chips": 8})
STUDY = StudyRecord(
    "fine", "fine.yaml", "complete", "fine-0123", points=1234567, rows=1000, feasible_rows=999, chunks=3,
    computed_chunks=3, worker_seconds=1234.56, winners=[WINNER],
)  # fmt: skip
NIGHT = NightRecord("2026-01-02T03-04-05Z", "0.1.0", 3725.0, "2026-01-01T03-04-05Z", [STUDY])


class Page(HTMLParser):
    """What a page says: its elements must close each other in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text: list[str] = []
        self.heads: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data
        if self.open and self.open[-1] in ("h1", "h2"):
            self.heads.append(data)
        if "style" not in self.open:
            self.text.append(data)


def html(record: NightRecord, before: NightRecord | None = None) -> Page:
    return Page(pages(record, before)["summary.html"])


def markdown(record: NightRecord, before: NightRecord | None = None) -> str:
    return pages(record, before)["summary.md"]


def cells(line: str) -> list[str]:
    """Cells of a line of a Markdown table."""
    return [cell.strip() for cell in line.replace("\\|", "\0").strip("|").split("|")]


def test_a_night_without_problems() -> None:
    page = html(NIGHT)
    assert page.heads == ["Night of 2026-01-02T03-04-05Z", "Answers", "Studies"]
    text = " ".join("".join(page.text).split())
    assert "1 studies in 1:02:05" in text and "No problems." in text
    assert "compared with the night of 2026-01-01T03-04-05Z" in text
    assert "compared" not in "".join(html(replace(NIGHT, baseline="")).text)
    answers, studies = page.tables
    assert answers[1] == ["fine", "gpt", "minimise iteration_time_s", "2 s", "", "chip a, chips 8", ""]
    assert studies[1] == ["fine", "complete", "1,234,567", "1,000", "999", "3 of 3", "1,234.6", "fine-0123"]
    assert {len(row) for row in answers} == {7} and {len(row) for row in studies} == {8}
    assert not {"script", "link", "img", "iframe"} & {*page.seen}, "one file that needs no other"


def test_problems_come_first() -> None:
    failed = replace(STUDY, name="bad", state="failed", problem="3 chunks failed; chunk 1: ValueError", winners=[])
    night = replace(NIGHT, studies=[failed, STUDY], conditions=["fine: time_s > 3 in 1 row"])
    page, text = html(night), markdown(night)
    assert page.heads == ["Night of 2026-01-02T03-04-05Z", "Problems", "Answers", "Studies"]
    told = ["bad: 3 chunks failed; chunk 1: ValueError", "fine: time_s > 3 in 1 row"]
    assert night.problems == told and night.exit_code == 1
    whole = "".join(page.text)
    assert "No problems." not in whole and "No problems." not in text
    for said in (whole, text):
        at = [said.index(part) for part in (*told, "Answers", "Studies")]
        assert at == sorted(at)


@pytest.mark.parametrize(
    "place", ["name", "problem", "condition", "workload", "system", "instead of", "run", "version"]
)
def test_whatever_is_told_is_text(place: str) -> None:
    winner = replace(WINNER, workload=EVIL) if place == "workload" else WINNER
    winner = replace(winner, system={"chip": EVIL}) if place == "system" else winner
    study = replace(STUDY, winners=[winner])
    if place in ("name", "run"):
        study = replace(study, **{place: EVIL})
    if place == "problem":
        study = replace(study, problem=EVIL, state="failed")
    night = replace(NIGHT, studies=[study], conditions=[EVIL] if place == "condition" else [])
    night = replace(night, version=EVIL) if place == "version" else night
    before = replace(NIGHT, studies=[replace(STUDY, winners=[replace(WINNER, system={"chip": EVIL})])])
    page = html(night, before if place == "instead of" else None)
    assert EVIL in "".join(page.text)
    assert not {"script", "b"} & {*page.seen}
    assert [len(row) for row in page.tables[0]] == [7, 7] and [len(row) for row in page.tables[1]] == [8, 8]
    if place == "version":
        return
    text = markdown(night, before if place == "instead of" else None)
    assert "<script>" not in text and "<b>" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [len(cells(row)) for row in rows] == [7] * 3 + [9] * 3


def test_a_problem_of_several_lines_is_one_item() -> None:
    told = "a.yaml:3:1: axes: wrong\na.yaml:4:1: axes: wrong, too\n\n# no heading"
    night = replace(NIGHT, studies=[replace(STUDY, problem=told, state="refused", winners=[])])
    items = [line for line in markdown(night).splitlines() if line.startswith("- ")]
    assert items == ["- fine: a.yaml:3:1: axes: wrong a.yaml:4:1: axes: wrong, too # no heading"]
    assert html(night).seen.count("li") == 1


def moved(old: Winner, new: Winner) -> tuple[str, str]:
    """Change and replaced system of an answer, the same on both pages."""
    night, before = (replace(NIGHT, studies=[replace(STUDY, winners=[winner])]) for winner in (new, old))
    row = html(night, before).tables[0][1]
    line = next(line for line in markdown(night, before).splitlines() if line.startswith("| fine | gpt"))
    assert cells(line) == row
    return row[4], row[6]


def test_what_moved_and_what_was_replaced() -> None:
    other = replace(WINNER, system={"chip": "b", "chips": 8})
    assert moved(WINNER, WINNER) == ("", "")
    assert moved(WINNER, replace(WINNER, value=2.2)) == ("+10 %", "")
    assert moved(WINNER, replace(WINNER, value=1.0)) == ("-50 %", "")
    assert moved(other, WINNER) == ("", "chip b, chips 8")
    assert moved(replace(other, value=4.0), WINNER) == ("-50 %", "chip b, chips 8")
    assert moved(replace(WINNER, value=0.0), WINNER) == ("from 0", "")
    assert moved(replace(WINNER, workload="llama"), WINNER) == ("", ""), "another question"
    assert moved(replace(WINNER, objective="power_W"), WINNER) == ("", "")


def test_what_was_not_computed_is_unchanged_and_what_failed_is_not() -> None:
    done = replace(STUDY, computed_chunks=0)
    assert html(replace(NIGHT, studies=[done])).tables[1][1][1] == "unchanged"
    unfinished = replace(done, state="unfinished", problem="3 of 3 chunks are left")
    assert html(replace(NIGHT, studies=[unfinished])).tables[1][1][1] == "unfinished"


def test_a_night_of_nothing() -> None:
    page = html(replace(NIGHT, studies=[replace(STUDY, winners=[], feasible_rows=None)]))
    assert "None." in "".join(page.text) and page.tables[0][1][4] == "-"
    assert html(replace(NIGHT, studies=[])).heads[0] == markdown(replace(NIGHT, studies=[])).splitlines()[0][2:]


def test_a_record_is_read_as_it_was_written() -> None:
    night = replace(
        NIGHT,
        studies=[replace(STUDY, tried={"feasible": 3}, keys=["chip"])],
        conditions=[EVIL],
        checked=[],
        gone=[EVIL],
    )
    assert as_record(json.dumps(night.plain()).encode()) == night
    earlier = {name: value for name, value in night.plain().items() if name not in ("commit", "gone")}
    assert as_record(json.dumps(earlier).encode()) == replace(night, gone=())
