"""The points on which sweeper meets its rivals: ours, timed, and the same as cases that a rival evaluates as arrays."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from benchmarks.peer import Parts, System
from benchmarks.studies import points_of, warm
from benchmarks.table import NotMeasured, Row, Target
from benchmarks.timing import cpu_s
from sweeper.library.library import Library
from sweeper.planning.plan import Plan

STUDY = Path(__file__).with_name("peer.yaml")
RESULTS = ("iteration_time_s", "utilisation", "system_price_usd", "system_power_W")
AXES = ("memory.bandwidth", "link.bandwidth", "outer_link.bandwidth")
SAMPLE = 2000
ROUNDS = 3
SAME = 1e-12
"""Relative difference of programs that do the same sums."""


@dataclass(frozen=True)
class Case:
    """All points of one chip on one network: its bandwidths are arrays, one for memory, links and outer links each."""

    system: System
    price: Parts
    power: Parts
    axes: tuple[np.ndarray, np.ndarray, np.ndarray]

    @property
    def shape(self) -> tuple[int, ...]:
        """Points along each axis."""
        return tuple(map(len, self.axes))

    def on(self, memory: Any, inner: Any, outer: Any) -> System:
        """The system with these bandwidths."""
        beyond = [outer] * (len(self.system.kinds) - 1)
        return replace(self.system, memory_bandwidth=memory, bandwidths=(inner, *beyond))


Rival = Callable[[Case], Sequence[np.ndarray]]
"""What has the four results of every point of a case, in the order of its axes."""


@dataclass(frozen=True)
class Comparison:
    """A study of which some points are looked at closely."""

    plan: Plan
    rounds: int

    @cached_property
    def chunks(self) -> list[int]:
        """All chunks."""
        return list(range(self.plan.chunk_count))

    @cached_property
    def points(self) -> int:
        """All points."""
        return points_of(self.plan, self.chunks)

    @cached_property
    def sample(self) -> np.ndarray:
        """Numbers of some points."""
        return np.unique(np.linspace(0, self.points - 1, SAMPLE, dtype=np.int64))

    @cached_property
    def ours(self) -> np.ndarray:
        """Our results of these points."""
        found = []
        for chunk in self.chunks:
            table = self.plan.evaluate(chunk)
            ids = table["point_id"].to_numpy()
            taken = table.take(pa.array(np.flatnonzero(np.isin(ids, self.sample))))
            found.append(np.stack([taken[name].to_numpy() for name in RESULTS], axis=1))
        return np.concatenate(found)

    @cached_property
    def ours_s(self) -> float:
        """Processor seconds from chunk numbers to Arrow tables of all points."""

        def work() -> None:
            for chunk in self.chunks:
                self.plan.evaluate(chunk)

        return statistics.median(cpu_s(work) for _ in range(self.rounds))

    @property
    def rate(self) -> float:
        """Our points per second."""
        return self.points / self.ours_s

    @cached_property
    def rows(self) -> list[np.ndarray]:
        """Row of every axis for the points of the sample."""
        return self.plan.grids[0].digits(self.sample)

    def inputs(self) -> list[tuple[System, Parts, Parts]]:
        """What a script needs to know of each point of the sample."""
        columns = self.plan.grids[0].columns
        known = self.plan.contents.constants
        found = []
        for at in range(len(self.sample)):
            row = {name: column.values[column.codes[self.rows[column.axis][at]]] for name, column in columns.items()}
            found.append(_inputs(self.plan.study.library, {**known, **row}))
        return found

    @cached_property
    def cases(self) -> list[Case]:
        """The cases, network after network of chip after chip."""
        grid, known = self.plan.grids[0], self.plan.contents.constants
        axes = [np.array(grid.columns[name].values, np.float64) for name in AXES]
        found = []
        for chip in grid.columns["chip"].values:
            for network in grid.axes[grid.columns["topology"].axis].rows:
                named = dict(zip(grid.axes[grid.columns["topology"].axis].columns, network, strict=True))
                bandwidths = {name: axis[0] for name, axis in zip(AXES, axes)}
                row = {**known, "chip": chip, **named, **bandwidths}
                found.append(Case(*_inputs(self.plan.study.library, row), (axes[0], axes[1], axes[2])))
        return found

    def timed(self, rival: Rival) -> tuple[float, float]:
        """Median processor seconds of a rival for all points, and how far it is from ours. Raises NotMeasured if it
        computes something else."""
        cases, seconds = self.cases, []
        theirs = np.empty_like(self.ours)
        for _ in range(self.rounds):
            spent = 0.0
            for number, case in enumerate(cases):
                started = time.process_time()
                found = rival(case)
                spent += time.process_time() - started
                self.keep(number, found, theirs)
            seconds.append(spent)
        return statistics.median(seconds), self.difference(theirs)

    def keep(self, case: int, found: Sequence[np.ndarray], theirs: np.ndarray) -> None:
        """Enter those results of a case that the sample has."""
        columns = self.plan.grids[0].columns
        chips, networks = (self.rows[columns[name].axis] for name in ("chip", "topology"))
        per_chip = len(self.cases) // len(columns["chip"].values)
        at = np.flatnonzero(chips * per_chip + networks == case)
        places = tuple(self.rows[columns[name].axis][at] for name in AXES)
        for i, values in enumerate(found):
            theirs[at, i] = np.reshape(values, self.cases[case].shape)[places]

    def difference(self, theirs: np.ndarray) -> float:
        """Largest relative difference from ours."""
        return float(np.abs(theirs / self.ours - 1.0).max())

    def against(self, name: str, rival: Rival, least: float) -> list[Row]:
        """A rival's rate, ours over it, and whether both compute the same."""
        return self.told(name, *self.timed(rival), least)

    def told(self, name: str, seconds: float, difference: float, least: float, most: float = SAME) -> list[Row]:
        """The rows of a rival. Raises NotMeasured if it computes something else."""
        if not difference <= most:
            raise NotMeasured(f"{name} differs from sweeper by {difference:.2g}")
        return [
            Row(name, self.points / seconds, "points/s", note="one core, CPU time; four results of every point"),
            Row(f"  sweeper / {name}", seconds / self.ours_s, "x", Target(least, at_least=True)),
            Row(f"  {name}: largest relative difference", difference, "", Target(most, at_least=False)),
        ]


def comparison(directory: Path, quick: bool) -> Comparison:
    """The whole study; `quick` some values of every axis."""
    path = STUDY
    if quick:
        content = yaml.safe_load(STUDY.read_text())
        for name in AXES:
            content["axes"][name]["geomspace"][2] = 8
        path = directory / "peer.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False))
    return Comparison(warm(path), 1 if quick else ROUNDS)


def _inputs(library: Library, row: dict[str, Any]) -> tuple[System, Parts, Parts]:
    """What a script needs to know of one point."""

    def number(kind: str, name: str, attribute: str) -> float:
        return float(library.find(kind, name).values[attribute].number)

    chip, memory = str(row["chip"]), str(row["memory"])
    kinds = library.find("topology", str(row["topology"])).dimensions
    links = [str(row["link"]), *[str(row["outer_link"])] * (len(kinds) - 1)]
    lanes = number("chip", chip, "lanes") * number("chip", chip, "stages") * number("chip", chip, "cores")
    system = System(
        peak_flops=2.0 * lanes * number("chip", chip, "frequency"),
        memory_bandwidth=float(row["memory.bandwidth"]),
        bandwidths=(float(row["link.bandwidth"]), *[float(row["outer_link.bandwidth"])] * (len(kinds) - 1)),
        kinds=tuple(kinds),
        extents=tuple(int(row[f"dim_{axis}"]) for axis in "xyz")[: len(kinds)],
    )

    def parts(of_chip: str, of_memory: str, of_link: str, of_port: str) -> Parts:
        return Parts(
            number("chip", chip, of_chip),
            number("memory", memory, of_memory),
            tuple(number("link", link, of_link) for link in links),
            tuple(number("link", link, of_port) for link in links),
        )

    price = parts("price", "price_per_bandwidth", "price_per_bandwidth", "switch_price_per_bandwidth")
    return system, price, parts("power", "energy", "energy", "switch_energy")
