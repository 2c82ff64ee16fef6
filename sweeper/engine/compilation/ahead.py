"""Kernels compiled ahead by other processes, so that all processors take part in it.

The process that evaluates loads each kernel when it comes to it. One that is not compiled yet is the next that another
process compiles: whoever compiles takes half a gigabyte of memory that it gives back by ending only. What none of them
compiles, because it was not foreseen or they have died, the process that evaluates compiles itself. What somebody
compiles nobody else does (`turns`), so it makes no difference to any result who was faster, or whether the others were
there at all.
"""

import gc
import io
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from types import TracebackType
from typing import IO, Any, NamedTuple

from sweeper.engine.compilation.numba_cache import TURNS
from sweeper.engine.compilation.stages import load_stage, stage_name

LENGTH_B = 8
"""Bytes that say how long the next kernel's pickle is."""
DONE = b"."
FIRST_NOTE_S, NOTE_S = 5.0, 10.0
"""When it is told how many kernels are compiled, and at which intervals again."""
MOST = 8
"""Processes beyond which kernels would wait for each other; each takes half a gigabyte of memory."""

log = logging.getLogger("sweeper")


class Kernel(NamedTuple):
    """Something to compile for arguments of some Numba types: the stage of a generated `source`, or, without one, the
    equation or function of this name in a module."""

    source: str
    module: str
    name: str
    types: tuple[Any, ...]

    @property
    def dispatcher(self) -> Any:
        """Numba's function."""
        if self.source:
            return load_stage(self.source)
        found = getattr(import_module(self.module), self.name)
        return getattr(found, "function", found)

    @property
    def key(self) -> tuple[str, tuple[Any, ...]]:
        """Full name of the function, and its types."""
        module = stage_name(self.source) if self.source else self.module
        return f"{module}.{self.name}", self.types


class Ahead:
    """Context manager: other processes compile kernels, given in the order in which they will be needed."""

    def __init__(self, kernels: Iterable[Kernel], processes: int) -> None:
        self._waiting = {kernel.key: kernel for kernel in kernels}
        self._count = len(self._waiting)
        self._processes = [self._started() for _ in range(min(processes, MOST, self._count))]
        self._working = len(self._processes)
        self._compiled_now: set[Any] = set()
        self._changed = threading.Condition()
        self._begun = self._noted = time.monotonic()

    def __enter__(self) -> Callable[[], str]:
        """Start the processes; gives what tells in words how far they are, nothing once no kernel waits."""
        TURNS.helpers.update(process.pid for process in self._processes)
        TURNS.leave = self._leave
        for process in self._processes:
            threading.Thread(target=self._feed, args=(process,), daemon=True).start()
        return self._told

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        TURNS.leave = None
        with self._changed:
            self._waiting.clear()
        for process in self._processes:
            process.kill()
            process.wait()

    @staticmethod
    def _started() -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", __name__]
        # of a session of its own: Ctrl-C is for the process that evaluates
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)

    def _leave(self, name: str, types: tuple[Any, ...]) -> None:
        """Leave a kernel to others if it waits for them: it is the next, and they have tried it when this returns."""
        key = name, types
        with self._changed:
            if key in self._waiting:
                self._waiting = {key: self._waiting.pop(key), **self._waiting}
            self._changed.wait_for(
                lambda: self._working == 0 or not (key in self._waiting or key in self._compiled_now)
            )

    def _feed(self, process: "subprocess.Popen[bytes]") -> None:
        """Hand one kernel after the other to a process, until none is left or it has died."""
        assert process.stdin is not None
        try:
            with suppress(OSError):
                while (kernel := self._next()) is not None and self._tried(process, kernel):
                    self._tell()
                process.stdin.close()
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    def _tried(self, process: "subprocess.Popen[bytes]", kernel: Kernel) -> bool:
        """Hand a kernel to a process and wait for it; whether it answered."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            data = pickle.dumps(kernel)
            process.stdin.write(len(data).to_bytes(LENGTH_B, "big") + data)
            process.stdin.flush()
            return process.stdout.read(len(DONE)) == DONE
        finally:
            with self._changed:
                self._compiled_now.discard(kernel.key)
                self._changed.notify_all()

    def _next(self) -> Kernel | None:
        with self._changed:
            for key in self._waiting:
                self._compiled_now.add(key)
                return self._waiting.pop(key)
        return None

    def _told(self) -> str:
        seen = self._count - len(self._waiting)
        return f"compiling kernels, which are kept for later runs: {seen} of {self._count}" if self._waiting else ""

    def _tell(self) -> None:
        with self._changed:
            now = time.monotonic()
            if now - self._begun < FIRST_NOTE_S or now - self._noted < NOTE_S or not self._waiting:
                return
            self._noted, text = now, self._told()
        log.warning(text)


def processors() -> int:
    """Processors that this process may run on."""
    return len(os.sched_getaffinity(0))


def serve(asked: IO[bytes], told: IO[bytes] | io.FileIO, compile_now: Callable[[Kernel], None]) -> None:
    """Compile kernels as they come, and say of each when it is done; in silence if whoever asked has gone."""
    with suppress(BrokenPipeError):
        while len(length := asked.read(LENGTH_B)) == LENGTH_B:
            # what does not compile will be compiled again, and fail, where it is needed
            with suppress(Exception):
                compile_now(pickle.loads(asked.read(int.from_bytes(length, "big"))))
            told.write(DONE)
            told.flush()


def compile_kernel(kernel: Kernel) -> None:
    """Compile a kernel into the cache on disk, unless it is there."""
    kernel.dispatcher.compile(kernel.types)


if __name__ == "__main__":
    log.disabled = True
    gc.freeze()  # what was imported stays
    with io.FileIO(sys.stdout.fileno(), "w", closefd=False) as told:  # unbuffered: nothing is left to flush
        serve(sys.stdin.buffer, told, compile_kernel)
