"""How a run shows that it goes on: a bar on a terminal, a line every few seconds elsewhere, or nothing."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

LINE_INTERVAL_S = 5.0
PATIENCE_S = 2.0
"""Seconds that something may take without a word."""
POINTS = "points"
"""What the progress of one run counts."""


@contextmanager
def phase(what: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Tell what goes on, if it goes on for longer than `PATIENCE_S`, so that no start is silent."""
    timer = Timer(PATIENCE_S, tell, [f"{what} ..."])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Progress:
    """What a run tells its watcher; this one shows nothing. Points are counted, since chunks differ in size."""

    def start(self, points: float, done: float) -> None:
        """The run begins with `done` of its `points` computed by earlier runs."""

    def advance(self, points: float) -> None:
        """A chunk of so many points is committed."""

    def fail(self, message: str) -> None:
        """A chunk is given up."""

    def note(self, message: str) -> None:
        """Something else worth a line."""

    def close(self) -> None:
        """The run ends, successfully or not."""


class Lines(Progress):
    """Plain lines for logs: one every few seconds, one for every failure and note, one at the end.

    `clock` tells the time in seconds, `unit` is what is counted.
    """

    def __init__(
        self,
        stream: TextIO,
        interval_s: float = LINE_INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
        unit: str = POINTS,
    ) -> None:
        self._stream = stream
        self._unit = unit
        self._interval = interval_s
        self._clock = clock
        self._points = self._done = self._before = 0.0
        self._failed = 0
        self._started = self._shown = clock()

    def start(self, points: float, done: float) -> None:
        self._points, self._done, self._before = points, done, done
        self._started = self._shown = self._clock()
        if done:
            self.note(f"{done:,.0f} of {points:,.0f} {self._unit} are committed already")

    def advance(self, points: float) -> None:
        self._done += points
        if self._clock() - self._shown >= self._interval:
            self._show()

    def fail(self, message: str) -> None:
        self._failed += 1
        self.note(message)

    def note(self, message: str) -> None:
        print(message, file=self._stream, flush=True)

    def close(self) -> None:
        self._show()

    def _show(self) -> None:
        self._shown = self._clock()
        rate = (self._done - self._before) / max(self._shown - self._started, 1e-9)
        unfinished = rate > 0.0 and self._done < self._points
        left = f", {duration((self._points - self._done) / rate)} left" if unfinished else ""
        failed = f", {self._failed} chunks failed" if self._failed else ""
        share = self._done / max(self._points, 1)
        unit = self._unit
        rated = f", {rate:,.0f} {unit}/s" if unit == POINTS else ""
        self.note(f"{self._done:,.0f} of {self._points:,.0f} {unit} ({share:.1%}){rated}{left}{failed}")


class _Rate(ProgressColumn):
    """What is counted per second of this run."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed or 0:,.0f} {task.fields['unit']}/s")


class Bar(Progress):
    """A bar on a terminal, with notes scrolling above it."""

    def __init__(self, stream: TextIO, unit: str = POINTS) -> None:
        self._bar = RichProgress(
            BarColumn(),
            TextColumn("{task.percentage:>5.1f}%"),
            _Rate(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[failed]}"),
            console=Console(file=stream),
        )
        self._task = self._bar.add_task("", total=None, failed="", unit=unit)
        self._failed = 0

    def start(self, points: float, done: float) -> None:
        self._bar.update(self._task, total=points, completed=done)
        self._bar.start()

    def advance(self, points: float) -> None:
        self._bar.advance(self._task, points)

    def fail(self, message: str) -> None:
        self._failed += 1
        self._bar.update(self._task, failed=f"{self._failed} chunks failed")
        self.note(message)

    def note(self, message: str) -> None:
        self._bar.console.print(message, markup=False, highlight=False)

    def close(self) -> None:
        self._bar.stop()


def progress_on_stderr(unit: str = POINTS) -> Progress:
    """The bar if standard error is a terminal, lines otherwise."""
    return Bar(sys.stderr, unit) if sys.stderr.isatty() else Lines(sys.stderr, unit=unit)


def duration(seconds: float) -> str:
    """Seconds as `h:mm:ss`, in whole seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
