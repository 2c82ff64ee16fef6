"""Checks that a person reads while they run: what was asked, what was found, and how long it took."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Report:
    """What was asked and found."""

    failed = 0

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[bool, str], None]]:
        """One step; what it gives is told what holds, in words."""
        begun = time.monotonic()

        def found(holds: bool, what: str) -> None:
            self.failed += not holds
            print(f"{'ok  ' if holds else 'FAIL'} {time.monotonic() - begun:6.1f} s  {name}: {what}", flush=True)

        try:
            yield found
        except Exception as error:  # the other steps are worth knowing, too
            found(False, f"{type(error).__name__}: {error}")
