"""What can go wrong, as exceptions with an exit code; a mistake in a file is a `Problem` with its position."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeVar

Item = TypeVar("Item")
Value = TypeVar("Value")

MOST_SHOWN = 100
"""Mistakes that a message lists; the rest are counted."""
MOST_NAMES = 12
"""Allowed names that a message lists; of more it shows those that are near, and what lists them."""


@dataclass(frozen=True, order=True)
class Place:
    """Where something stands. `line` and `column` count from 1; `path` names the place in words (`axes.chip[2]`)."""

    file: str
    line: int
    column: int
    path: str

    def problem(self, message: str) -> "Problem":
        """A mistake at this place."""
        return Problem(self.file, self.line, self.column, self.path, message)


@dataclass(frozen=True, order=True)
class Problem(Place):
    """One mistake in one file."""

    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}: "
        return f"{where}{self.path}: {self.message}" if self.path else where + self.message


class SweeperError(Exception):
    """Base of all errors that a user can mend; `exit_code` is what the command line returns."""

    exit_code = 1


class UsageFault(SweeperError):
    """A command asks for something that does not exist."""

    exit_code = 2


class NoSuchPoint(UsageFault, IndexError):
    """A point or a chunk is asked for that a study does not have."""


class Misuse(UsageFault, ValueError):
    """A function is asked for something that its arguments do not allow."""


class EnvironmentFault(SweeperError):
    """The machine, not the study, is at fault: Ray unreachable, disk full, a package too old."""

    exit_code = 3


class NoDataset(EnvironmentFault, FileNotFoundError):
    """There is no finished dataset where one is read, or it is damaged."""

    def __str__(self) -> str:
        return str(self.args[0])


class OutputConflict(SweeperError):
    """The output directory holds something that this run must not overwrite."""

    exit_code = 4


class Interrupted(SweeperError):
    """The user stopped a run; what it had committed is kept, and running it again goes on from there."""

    exit_code = 130


class SpecError(SweeperError):
    """All mistakes found in a study and the library files it uses, sorted by file and position."""

    exit_code = 2

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: list[Problem] = sorted(set(problems))
        super().__init__(self.problems)

    def __str__(self) -> str:
        more = len(self.problems) - MOST_SHOWN
        lines = [str(problem) for problem in self.problems[:MOST_SHOWN]]
        return "\n".join([*lines, *([f"... and {more} more mistakes"] if more > 0 else [])])


class Problems(list[Problem]):
    """Problems met so far by a reader that carries on after a mistake to find the others."""

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Keep the problems of a SpecError raised inside the block instead of passing the error on."""
        try:
            yield
        except SpecError as error:
            self.extend(error.problems)

    def raise_any(self) -> None:
        """Raise SpecError if there is any problem."""
        if self:
            raise SpecError(self)


def every(items: Iterable[Item], read: Callable[[Item], Value]) -> list[Value]:
    """What `read` makes of every item. Raises SpecError with the problems of all items that it refuses."""
    problems, values = Problems(), []
    for item in items:
        with problems.collecting():
            values.append(read(item))
    problems.raise_any()
    return values


def unknown(what: str, word: str, allowed: Iterable[str], also: Iterable[str] = (), kind: str = "") -> str:
    """Message about a name that is not allowed: what was found, the nearest valid name, what is allowed.

    Names in `also` are valid too but not worth listing. Of many names those that are near are shown, and how to list
    all, which `sweeper list` does if there is a `kind`.

    >>> unknown("chip", "tpuv4", ["tpu_v4", "h100"])
    "unknown chip 'tpuv4', did you mean 'tpu_v4'? (allowed: h100, tpu_v4)"
    """
    names = sorted(set(allowed))
    folded = {name.casefold(): name for name in [*also, *names]}
    near = [folded[name] for name in get_close_matches(word[:100].casefold(), folded, n=3, cutoff=0.6)]
    hint = f", did you mean {near[0]!r}?" if near else ""
    parts = ", ".join(part.strip() for part in word[:100].split(","))
    several = f"; several are a list: [{parts}]" if "," in word and word.isprintable() else ""
    return f"unknown {what} {brief(word)}{hint} ({_allowed(names, word, near, kind)}){several}"


def _allowed(names: Sequence[str], word: str, near: Sequence[str], kind: str) -> str:
    """What is allowed, in words: all names if they are few, else those like a word, but for the nearest, and what lists
    all."""
    if len(names) <= MOST_NAMES:
        return f"allowed: {', '.join(names) or 'nothing'}"
    # The same attribute of another role, which few letters may have in common with the word.
    alike = [name for name in names if "." in word and name.partition(".")[2] == word.partition(".")[2]]
    others = [name for name in dict.fromkeys([*near, *alike]) if name not in near[:1]][:MOST_NAMES]
    first = f"also near: {', '.join(others)}; " if others else ""
    some = "" if kind or others else f"allowed: {', '.join(names[:MOST_NAMES])}, ...; "
    return f"{first}{some}{len(names)} in all{f': sweeper list {kind}' if kind else ''}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first names of a list, and how many more there are.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def brief(value: object) -> str:
    """A value as it is quoted in a message: at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
