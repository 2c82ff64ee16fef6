"""Values that a command takes as `NAME=VALUE`, read as a study would read them."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

import numpy as np

from sweeper.errors import Misuse, SpecError, UsageFault, unknown
from sweeper.reading.nodes import parse_yaml
from sweeper.study.columns import Stock, read_value

Settings = Mapping[str, float | str]
"""Values of columns, as a study gives them: names of entries, and numbers in the units of the vocabulary."""


def read_pairs(
    texts: Iterable[str], allowed: Collection[str], what: str, example: str, stock: Stock
) -> dict[str, float | str]:
    """Values by name from texts `NAME=VALUE`.

    Raises UsageFault for a text of another form, for a name that is not allowed or given twice, and for a value that
    does not fit its name.
    """
    values: dict[str, float | str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (equals and name and value):
            raise UsageFault(f"found {text!r}; write NAME=VALUE, e.g. {example}")
        if name not in allowed:
            # Paths are many: the nearest is told, none is listed.
            paths = [other for other in allowed if "/" in other]
            more = f"; and numbers of entries such as {min(paths)}" if paths else ""
            raise UsageFault(unknown(f"setting of {what}", name, {*allowed} - {*paths}, also=paths) + more)
        if name in values:
            raise UsageFault(f"{name} is given twice")
        try:
            values[name] = read_value(name, parse_yaml(value, name), stock)
        except SpecError as fault:
            # Mistakes in files of the library stay as they are.
            if any(problem.file != name for problem in fault.problems):
                raise
            raise UsageFault(f"{name}: {'; '.join(problem.message for problem in fault.problems)}") from None
    return values


WHY_IDLE = "nothing reads it, it does not bind, or it is so anyway"
"""Why a setting may change nothing."""


def idle(settings: Settings, names: Iterable[str], found: Callable[[Settings], Mapping[str, float]]) -> list[str]:
    """Those of the names without which the same is found: what they set is not read, does not bind, or has this value
    anyway."""
    own = list(found(settings).values())

    def unchanged(name: str) -> bool:
        with suppress(Misuse):  # not possible without it
            others = found({other: value for other, value in settings.items() if other != name})
            return np.array_equal(own, list(others.values()), equal_nan=True)
        return False

    return [name for name in names if unchanged(name)]
