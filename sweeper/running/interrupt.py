"""Ctrl-C and SIGTERM: the first asks the run to stop after the chunks in progress, the second kills it."""

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Context manager that turns signals into a flag; `on_request` is called once, inside the handler.

    Handlers can be set in the main thread only; elsewhere the flag is never raised.
    """

    def __init__(self, on_request: Callable[[], None]) -> None:
        self._on_request = on_request
        self._before: dict[int, Any] = {}
        self.signal = 0

    @property
    def requested(self) -> bool:
        return self.signal != 0

    def __enter__(self) -> "Stop":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._receive) for number in SIGNALS}
        return self

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        with suppress(OSError, RuntimeError):  # The terminal may be gone, or be written to at this moment.
            self._on_request()

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
