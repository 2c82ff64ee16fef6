"""Lists of planted faults, `tests/faults/<room>.yaml`: small changes of the code that a test has to notice.

An entry says which text of which file is replaced by what, what goes wrong then, and which tests fail:

    - id: l2_of_weight_gradient           unique among all lists
      file: kernels/transformers/operators.py
      find: "..."                         occurs exactly once in the file
      replace: "..."
      test: tests/kernels/...::test_...   or a list of them; one that fails is enough
      about: the L2 bound of the weight gradient is dropped
      equivalent: ...                     only if nothing observable changes: why. It is then expected to survive.
"""

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.places import ROOT

LISTS = ROOT / "tests" / "faults"
REQUIRED = {"id", "file", "find", "replace", "test", "about"}


@dataclass(frozen=True)
class Fault:
    """A change that makes the code wrong. `equivalent` says why it does not, if so."""

    room: str
    id: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]
    about: str
    equivalent: str = ""

    def plant(self, text: str) -> str:
        """The file's text with the fault."""
        return text.replace(self.find, self.replace)


def read_fault(room: str, entry: dict[str, Any]) -> Fault:
    """A fault from its entry. Raises ValueError if a field is missing or unknown."""
    wrong = REQUIRED - entry.keys() | entry.keys() - REQUIRED - {"equivalent"}
    if wrong:
        raise ValueError(f"{room}: {entry.get('id', entry)}: missing or unknown: {', '.join(sorted(wrong))}")
    named = entry["test"]
    tests = (named,) if isinstance(named, str) else tuple(named)
    return Fault(room, **{**{key: entry[key] for key in entry if key != "test"}, "tests": tests})


def read_faults(folder: Path = LISTS) -> tuple[Fault, ...]:
    """All faults of all lists."""
    return tuple(
        read_fault(path.stem, entry)
        for path in sorted(folder.glob("*.yaml"))
        for entry in yaml.safe_load(path.read_text(encoding="utf-8"))
    )


def misfits(faults: Sequence[Fault], root: Path = ROOT) -> list[str]:
    """What in the lists does not fit the code of a checkout: texts, tests and names that are not there once."""
    ids = [fault.id for fault in faults]
    found = [f"{name}: {ids.count(name)} faults of this name" for name in sorted(set(ids)) if ids.count(name) > 1]
    for fault in faults:
        path = root / fault.file
        times = path.read_text(encoding="utf-8").count(fault.find) if path.is_file() else 0
        if times != 1:
            found.append(f"{fault.id}: the text to replace occurs {times} times in {fault.file}")
        if fault.find == fault.replace:
            found.append(f"{fault.id}: nothing is replaced")
        found += [f"{fault.id}: no test {test}" for test in fault.tests if not exists(test, root)]
    return found


def exists(test: str, root: Path) -> bool:
    """Whether the file of a test is there, and in it the functions or classes that its node id names."""
    file, *names = test.partition("[")[0].split("::")
    return (root / file).is_file() and set(names) <= defined((root / file).read_text(encoding="utf-8"))


@cache
def defined(text: str) -> set[str]:
    """Names of functions and classes of a module."""
    return {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def chosen(faults: Iterable[Fault], ids: Sequence[str], rooms: Sequence[str]) -> tuple[Fault, ...]:
    """Those of some names and rooms; nothing named means all."""
    return tuple(f for f in faults if (not ids or f.id in ids) and (not rooms or f.room in rooms))
