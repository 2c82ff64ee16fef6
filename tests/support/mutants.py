"""Valid studies and library entries, mutated: keys deleted, renamed, doubled and moved, types changed, text damaged.

A mutant depends on its seed and number alone. What it may do: be read, or be refused with positions that exist; a
feasible row of it has numbers. Anything else is a fault of the reader or of the model.
"""

import copy
import random
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import yaml

import sweeper
from sweeper.errors import SpecError, SweeperError
from sweeper.library.library import FOLDERS, builtin_specs
from sweeper.planning.contents import REASON
from sweeper.planning.plan import Plan
from sweeper.reading.nodes import parse_yaml
from tests.places import ROOT
from tests.places import STUDIES as OURS

MOST_POINTS = 2000
"""Points of a chunk that is evaluated whole."""
BOXES, SAMPLE = 3, 100
"""Boxes of a larger study, and points of each, that are evaluated."""
LIMIT_S = 180.0
"""Processor time of a mutant, with the kernels that it may have to compile."""

STUDIES = (*OURS, *sorted((ROOT / "examples").glob("*.yaml")))
MY_LIBRARY = ROOT / "examples" / "my_library"

VALUES: tuple[Any, ...] = (
    None, "", " ", True, False, 0, 1, -1, 3, 0.5, -0.0, 1e-300, 1e308, 2**53, 2**80, float("nan"), float("inf"),
    "nan GB",
    "1e999 B", "0 B", "1 GB/s", "700 W", "no", "010", "1_000", "12:30", "é\u2028", "\u202e", "{i}", "x" * 5000, "../x",
    "a b", "..", "9**9**9", "1/0", "min", "chips", "a.b.c", "__import__('os')", [], {}, [[]], [None], [{}], {"": ""},
    {"a": {"b": {"c": []}}}, {"columns": []}, {"columns": ["chip"], "rows": [[]]}, {"library": None},
    {"library": "all"},
    {"range": [0, 1, 0]}, {"linspace": [0, 1, 2]}, {"divisors_of": "1e12 + 1"}, {"powers_of_two": [1, 64]},
    {"value": "1 GB", "low": "2 GB"}, list(range(300)), ["x"] * 300,
)  # fmt: skip
"""What a value may become."""
NAMES = (
    "", " ", "a b", "../x", "<<", "null", "true", "3", "x" * 300, "name", "columns", "value", "extends", "aliases",
    "study", "axes", "search", "chips", "workload", "chip", "objective", "output", "mode", "é", "\n",
)  # fmt: skip
"""What a key may become."""

Spot = tuple[Any, Any]
"""A container and a key of it."""


@dataclass(frozen=True)
class Mutant:
    """A study, and a library entry or none, one of them mutated; `about` says what was done."""

    study: bytes
    entry: bytes
    folder: str
    about: str


class Hang(Exception):
    """A mutant took more processor time than it may."""


def spots(tree: Any) -> list[Spot]:
    """Every container of a tree with each of its keys."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else []
    return [found for key in keys for found in [(tree, key), *spots(tree[key])]]


def _delete(spot: Spot, all_spots: list[Spot], chance: random.Random) -> None:
    del spot[0][spot[1]]


def _rename(spot: Spot, all_spots: list[Spot], chance: random.Random) -> None:
    holder, key = spot
    if isinstance(holder, dict):
        new = chance.choice([f"{key}x", str(key)[:-1], str(key).upper(), chance.choice(NAMES)])
        items = [(new if old == key else old, value) for old, value in holder.items()]
        holder.clear()
        holder.update(items)
    else:
        holder.insert(key, copy.deepcopy(holder[key]))


def _replace(spot: Spot, all_spots: list[Spot], chance: random.Random) -> None:
    spot[0][spot[1]] = copy.deepcopy(chance.choice(VALUES))


def _swap(spot: Spot, all_spots: list[Spot], chance: random.Random) -> None:
    holder, key = chance.choice(all_spots)
    spot[0][spot[1]] = copy.deepcopy(holder[key])


def _exchange(spot: Spot, all_spots: list[Spot], chance: random.Random) -> None:
    holder, key = spot
    other = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key], holder[other] = holder[other], holder[key]


def _retype(spot: Spot, all_spots: list[Spot], chance: random.Random) -> None:
    value = spot[0][spot[1]]
    if isinstance(value, dict):
        changed: list[Any] = [list(value), list(value.values()), str(value), None, True, [value]]
    elif isinstance(value, list):
        changed = [dict.fromkeys(map(str, value)), value[0] if value else None, str(value), value * 2, value[:1], {}]
    else:
        changed = [[value], {"value": value}, {str(value): None}, None, True, str(value), [value, value], [[value]]]
    spot[0][spot[1]] = chance.choice(changed)


def _nest(spot: Spot, all_spots: list[Spot], chance: random.Random) -> None:
    for _ in range(chance.choice([1, 2, 5, 60])):
        value = spot[0][spot[1]]
        spot[0][spot[1]] = chance.choice([[value], {"values": value}])


def _add(spot: Spot, all_spots: list[Spot], chance: random.Random) -> None:
    if isinstance(spot[0], dict):
        spot[0][chance.choice(NAMES)] = copy.deepcopy(chance.choice(VALUES))
    else:
        spot[0].append(copy.deepcopy(chance.choice(VALUES)))


def _scale(spot: Spot, all_spots: list[Spot], chance: random.Random) -> None:
    value = spot[0][spot[1]]
    if isinstance(value, int | float) and not isinstance(value, bool):
        spot[0][spot[1]] = value * chance.choice([0, -1, 1e-6, 1e6, 1e30, 0.5, 3])
    elif isinstance(value, str):
        number, _, unit = value.partition(" ")
        spot[0][spot[1]] = chance.choice(
            [
                f"0 {unit}",
                f"{number}e30 {unit}",
                f"{number}e300 {unit}",
                f"{number}e-300 {unit}",
                f"-{value}",
                f"{value} * 0",
                f"1e-30 {unit}",
            ]
        )


TREE: tuple[Callable[[Spot, list[Spot], random.Random], None], ...] = (
    _delete, _rename, _replace, _replace, _swap, _exchange, _retype, _retype, _nest, _add, _scale,
)  # fmt: skip
"""Mutations of a tree at a spot."""


def _noise(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + chance.choice("*&!{}[]().,:;/-?|>%@`#\"' \t\n\r\0\x07\x85\u2028\ufeffé1e<") + text[at + 1 :]


def _cut(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return chance.choice([text[:at], text[at:], text[:at] + text[min(at + 20, len(text)) :]])


def _line(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    at, to = chance.randrange(len(lines)), chance.randrange(len(lines))
    change = chance.choice(
        ["double", "move", "indent", "tab", "anchor", "tag", "merge", "alias", "document", "comment"]
    )
    head, colon, rest = lines[at].partition(": ")
    lines[at : at + 1] = {
        "double": [lines[at]] * 2,
        "move": [lines[to], lines[at]],
        "indent": [" " * chance.choice([1, 2, 4]) + lines[at]],
        "tab": ["\t" + lines[at]],
        "anchor": [f"{head}{colon}&x {rest}", lines[to].partition(": ")[0] + ": *x"],
        "tag": [f"{head}{colon}{chance.choice(['!!str', '!!python/object:os.x', '!x', '!!float', '!!map'])} {rest}"],
        "merge": [lines[at], lines[at][: len(lines[at]) - len(lines[at].lstrip())] + "<<: {a: b}"],
        "alias": [f"{head}{colon}*{chance.choice(['x', 'model', 'tokens'])}"],
        "document": ["---", lines[at]],
        "comment": ["# " + lines[at]],
    }[change]
    return "\n".join(lines)


def _wide(text: str, chance: random.Random) -> str:
    at = chance.choice([i for i, letter in enumerate(text) if letter in ",:\n"] or [0])
    return text[:at] + chance.choice([", x" * 20_000, " [" * 60, "x" * 100_000, " " * 10_000, "\n" * 1000]) + text[at:]


TEXT = (_noise, _noise, _cut, _line, _line, _line, _line, _wide)
"""Mutations of a text."""


def _bytes(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    noise = bytes(chance.choices(range(256), k=chance.randint(1, 4)))
    changed = [
        data[:at] + noise + data[at + 1 :],
        b"\xef\xbb\xbf" + data,
        data.decode("utf-8", "replace").encode("utf-16"),
        b"",
        noise,
    ]
    return chance.choices(changed, [6, 2, 1, 1, 1])[0]


def dumped(tree: Any) -> str:
    """A tree as YAML, in either style."""
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=10_000)


def mutated(text: str, chance: random.Random) -> tuple[bytes, str]:
    """A text with some mutations, and their names."""
    done = []
    if chance.random() < 0.75:
        tree = {"": parse_yaml(text).plain()}
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            all_spots = [spot for spot in spots(tree) if spot[1] != ""]
            if not all_spots:
                break
            mutate = chance.choice(TREE)
            mutate(chance.choice(all_spots), all_spots, chance)
            done.append(mutate.__name__)
        text = dumped(tree[""])
    else:
        for _ in range(chance.choice([1, 1, 2])):
            change = chance.choice(TEXT)
            text = change(text, chance)
            done.append(change.__name__)
    data = text.encode("utf-8", "replace")
    if chance.random() < 0.05:
        data = _bytes(data, chance)
        done.append("_bytes")
    return data, " ".join(done)


@cache
def entries() -> tuple[tuple[str, str, str, tuple[Path, ...]], ...]:
    """Folder, name and text of every bundled library entry that some study names, and these studies."""
    texts = {path: path.read_text(encoding="utf-8") for path in STUDIES}
    found = []
    for folder in FOLDERS.values():
        for path in sorted((builtin_specs() / folder).glob("*.yaml")):
            for name, entry in parse_yaml(path.read_text(encoding="utf-8")).plain().items():
                users = tuple(study for study, text in texts.items() if name in text)
                if users:
                    found.append((folder, name, dumped({name: entry}), users))
    return tuple(found)


def mutant(seed: int, number: int) -> Mutant:
    """The mutant of a number: of a study, or of an entry that a study names."""
    chance = random.Random(f"{seed}/{number}")
    if chance.random() < 0.5:
        path = chance.choice(STUDIES)
        data, done = mutated(path.read_text(encoding="utf-8"), chance)
        return Mutant(data, b"", "", f"{path.name}: {done}")
    folder, name, text, users = chance.choice(entries())
    data, done = mutated(text, chance)
    path = chance.choice(users)
    return Mutant(path.read_bytes(), data, folder, f"{folder}/{name} in {path.name}: {done}")


@contextmanager
def processor_limit(seconds: float) -> Iterator[None]:
    """Raise Hang after so much processor time."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def lived(one: Mutant, root: Path) -> tuple[str, str]:
    """What becomes of a mutant in an empty directory: `refused`, `evaluated`, or a fault and its message."""
    write(one, root)
    try:
        with processor_limit(LIMIT_S):
            plan = sweeper.plan(root / "study.yaml", [root / "library", MY_LIBRARY])
            wrong = not_numbers(plan)
    except SpecError as fault:
        lengths = {file: line_lengths(Path(file)) for file in {problem.file for problem in fault.problems}}
        misplaced = [
            str(problem)
            for problem in fault.problems
            if not 1 <= problem.line <= len(lengths[problem.file])
            or not 1 <= problem.column <= lengths[problem.file][problem.line - 1] + 1
        ]
        return ("misplaced", misplaced[0]) if misplaced else ("refused", "")
    except SweeperError:
        return "refused", ""
    except Exception as fault:  # Whatever else comes out is what this looks for.
        return type(fault).__name__, str(fault)
    return ("not a number", wrong) if wrong else ("evaluated", "")


def write(one: Mutant, root: Path) -> None:
    """Write the files of a mutant."""
    (root / "library").mkdir(parents=True)
    (root / "study.yaml").write_bytes(one.study)
    if one.folder:
        (root / "library" / one.folder).mkdir()
        (root / "library" / one.folder / "mutant.yaml").write_bytes(one.entry)


def line_lengths(file: Path) -> list[int]:
    """Length of every line of a file; an empty file has one line."""
    return [len(line) for line in file.read_bytes().decode("utf-8-sig", "replace").splitlines() or [""]]


def not_numbers(plan: Plan) -> str:
    """Columns of feasible points that are no finite numbers, though the study asks for them.

    Looked at is the first chunk if it is small, else some points of the first boxes.
    """
    if plan.chunk_points(0) <= MOST_POINTS and plan.study.optimize is None:
        rows = plan.evaluate(0)
        return _not_finite({name: rows[name].to_numpy() for name in rows.column_names}, _asked(plan))
    wanted = [name for name in plan.contents.searched_columns if name in (REASON, *_asked(plan))]
    found = []
    for grid in plan.grids[:BOXES]:
        sample = np.unique(np.linspace(0, grid.points - 1, SAMPLE).astype(np.int64)) + grid.offset
        values = plan.points(sample.tolist(), wanted)
        found.append(_not_finite({"feasible": values.pop(REASON) == 0, **values}, _asked(plan)))
    return ", ".join(filter(None, found))


def _asked(plan: Plan) -> set[str]:
    """Columns that a feasible point has to have."""
    return {"iteration_time_s", *(objective.column for objective in plan.study.objectives)}


def _not_finite(columns: Mapping[str, np.ndarray], asked: set[str]) -> str:
    """Columns among those asked for of which a feasible row is no finite number."""
    feasible = columns.get("feasible", np.True_)
    return ", ".join(sorted(name for name in asked & columns.keys() if (feasible & ~np.isfinite(columns[name])).any()))
