"""Charts of a dataset: which there are, which columns each shows, and drawing those that a dataset has."""

import base64
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from itertools import chain
from pathlib import Path

import polars as pl

from sweeper.engine.compilation.cache import source_hash
from sweeper.errors import UsageFault, listed
from sweeper.files import write_whole
from sweeper.plugins import Chart, find, home, loaded, named
from sweeper.running.storage.listing import parts
from sweeper.running.storage.places import folder
from sweeper.running.storage.resolved import read_resolved
from sweeper.shown import Shown
from sweeper.views.analysis import OBJECTIVES, TIMES, best
from sweeper.views.datasets import reading, scan
from sweeper.views.pictures.curves import curves_figure
from sweeper.views.pictures.figures import HEAT_MAPS, breakdown_figure, folded, heat_maps, pareto_figure
from sweeper.views.pictures.labels import SYSTEM_COLUMNS, SYSTEM_ROWS
from sweeper.views.pictures.plot import Chosen, plot_figure
from sweeper.views.pictures.rooflines import ROOFLINE, roofline_figure

CELL = ("workload", *SYSTEM_ROWS, *SYSTEM_COLUMNS)
FRAME = ("point_id", *CELL, "feasible", "infeasible_reason")
"""Columns that every chart of ours reads."""
FASTEST = {"iteration_time_s": "minimise"}
FRONT = {**FASTEST, "system_price_usd": "minimise"}


@dataclass(frozen=True, repr=False)
class Drawn(Shown):
    """Pictures of a dataset, and the charts that were left out, each with the reason.

    A notebook shows the pictures, as in `docs/tutorials/notebook.ipynb`.
    """

    files: list[Path]
    left_out: dict[str, str]

    def facts(self) -> dict[str, object]:
        """Where the pictures are, and what was left out."""
        return {path.name: path for path in self.files} | {f"no {name}": why for name, why in self.left_out.items()}

    def _repr_html_(self) -> str:
        pictures = (path for path in self.files if path.suffix == ".png")
        texts = (base64.b64encode(path.read_bytes()).decode() for path in pictures)
        return "".join(f"<img style='max-width:100%' src='data:image/png;base64,{text}'>" for text in texts)


def _heat_maps(frame: pl.DataFrame, into: Path, study: str) -> list[Path]:
    cells = best(frame, CELL, FASTEST).collect()
    note = f"{study}{_fastest(frame, CELL)}"
    absent = frame.join(cells, on=CELL, how="anti").unique(CELL)
    return heat_maps(pl.concat([cells.select(frame.columns), absent]), into, note)


def _pareto(frame: pl.DataFrame, into: Path, study: str) -> list[Path]:
    return pareto_figure(frame, FRONT, into, study)


def _rooflines(frame: pl.DataFrame, into: Path, study: str) -> list[Path]:
    drawn = [*CELL, "partitioning"]
    return roofline_figure(best(frame, drawn, FASTEST), into, f"{study}{_fastest(frame, drawn)}")


def _fastest(frame: pl.DataFrame, by: Sequence[str]) -> str:
    """What a title says where the fastest of several rows is shown for each combination of some columns."""
    over = folded(frame, by)
    return f", fastest over {listed(over)}" if over else ""


CHARTS = {
    "heat_map": Chart(
        "utilisation, cost and power efficiency of systems", frozenset([*FRAME, *FASTEST, *HEAT_MAPS]), _heat_maps
    ),
    "breakdown": Chart("shares of compute, memory and network", frozenset([*FRAME, *TIMES.values()]), breakdown_figure),
    "pareto": Chart("time of an iteration against the price of the system", frozenset([*FRAME, *FRONT]), _pareto),
    "roofline": Chart("what limits the fastest of each system", frozenset([*FRAME, *FASTEST, *ROOFLINE]), _rooflines),
    "curves": Chart("metrics over the axis that varies most", frozenset({"point_id", "feasible"}), curves_figure),
}
"""Our charts, by the name that `sweeper show --chart` takes."""


def all_charts() -> dict[str, Chart]:
    """Every chart by name: ours and those of plug-ins. Raises EnvironmentFault as `sweeper.plugins.find` does."""
    return loaded("charts", CHARTS)


def draw(directory: str, charts: Sequence[str] = (), verify: bool = False, chosen: Chosen | None = None) -> Drawn:
    """Draw some charts of a dataset, or all that it has the columns for, or the one that is chosen by its columns;
    beside the data, or for a URI in ./figures.

    A dataset that is not as it was committed is refused, also where its pictures are drawn; `verify` as for `scan`.
    Pictures depend on the dataset and on the code alone, so they are drawn once and then only listed. Raises UsageFault
    if the dataset lacks columns of a chart that is asked for, or of all, or has nothing to draw, and for a choice that
    cannot be drawn.

    >>> sorted(CHARTS)
    ['breakdown', 'curves', 'heat_map', 'pareto', 'roofline']
    """
    place = folder(directory)
    with reading(directory):
        parts(directory, verify=verify)
        columns = scan(directory).collect_schema().names()
    if charts and chosen:
        raise UsageFault("a chart is either named or chosen by its columns, not both")
    ours = CHARTS if chosen is None else {"plot": _plot(chosen, directory)}
    asked = {name: find("charts", ours, name) for name in charts or (named("charts", ours) if chosen is None else ours)}
    lacks = {name: sorted(chart.needs.difference(columns)) for name, chart in asked.items()}
    left_out = {name: f"which shows {', '.join(missing)}" for name, missing in lacks.items() if missing}
    if left_out and (charts or len(left_out) == len(asked)):
        raise UsageFault(f"{place.name}: {left_out_text(left_out)}")
    into = Path("figures") / place.name if "://" in directory else Path(directory) / "figures"
    told = "" if chosen is None else f"-{sha256(repr(chosen).encode()).hexdigest()[:12]}"
    frame, study = cache(partial(_rows, directory)), place.name.rsplit("-", 1)[0]
    notes = {
        name: into / f".{name}{told}-{source_hash(home('charts', ours, name))[:12]}"
        for name in asked
        if name not in left_out
    }
    with _made(into):
        known = {name: pictures for name, note in notes.items() if (pictures := _noted(note)) is not None}
        new = {name: list(asked[name].draw(frame(), into, study)) for name in notes if name not in known}
        files = known | new
        left_out |= {name: NOTHING for name in notes if not files[name]}
        if not any(files.values()):
            raise UsageFault(f"{place.name}: {left_out_text(left_out)}")
        for name, pictures in new.items():
            write_whole(notes[name], "\n".join(path.name for path in pictures))
    return Drawn(sorted(chain.from_iterable(files.values())), left_out)


NOTHING = "for which no row is feasible, or nothing varies that it shows"


def left_out_text(left_out: dict[str, str]) -> str:
    """Which charts are not drawn, and why."""
    return "; ".join(f"no {name}, {why}" for name, why in left_out.items())


def _rows(directory: str) -> pl.DataFrame:
    with reading(directory):
        return scan(directory).collect()


def _plot(chosen: Chosen, directory: str) -> Chart:
    """The chart of what is chosen, which prefers the objectives of the study."""
    study = read_resolved(folder(directory))["study"]
    objectives = {column: sense for column, sense, *_ in study.get("objectives") or ()}
    draw_chosen = partial(plot_figure, chosen=chosen, senses=objectives | OBJECTIVES)
    return Chart("what is chosen", frozenset({"point_id", "feasible"}), draw_chosen)


@contextmanager
def _made(into: Path) -> Iterator[None]:
    """Make a folder that goes again, with those around it, if nothing comes into it."""
    into.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):
            os.removedirs(into)


def _noted(note: Path) -> list[Path] | None:
    """Pictures of a chart of which a note says that the same code drew them; None without one, or if one is gone."""
    if not note.exists():
        return None
    files = [note.with_name(name) for name in note.read_text().splitlines()]
    return files if all(file.exists() for file in files) else None
