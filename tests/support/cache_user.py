"""A process that uses a kernel cache of its own: evaluates the tiny kernels, counts compilations, spoils the cache.

python -m tests.support.cache_user evaluate     say "ready", await a line, print a Use as JSON
python -m tests.support.cache_user hold         take the turn to compile one of them, say "ready", await a line
python -m tests.support.cache_user damage N     damage N files, one after the other; print what went wrong as JSON
python -m tests.support.cache_user forge        plant files that only the secret tells from ours; the same
"""

import importlib.util
import json
import marshal
import os
import pickle
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import sweeper  # noqa: F401 - before numba and kernels
from sweeper.engine.compilation.cache import cache_dir, generated_dir

SIDES = (1.0, 2.5, 3.0)
ANSWER = [6.0, 4.0, 8.0, 3.0, 2.0, 12.5, 18.0, 6.0, 37.5, 54.0]
"""Worked by hand: 3 * 2, 2 * 2, 2 * 2 * 2, 3 * 1, then areas and prices of the sides."""


@dataclass
class Use:
    """What the kernels gave, and how often each was compiled in this process."""

    answer: list[float]
    compiled: dict[str, int]


def use() -> Use:
    """Evaluate all tiny kernels, loaded anew: nothing of an earlier use in this process is known any more."""
    from sweeper.engine.compilation.stages import load_stage
    from sweeper.engine.fuse import Argument, Fusion, Loop

    sys.modules.pop("tests.support.tiny_kernels", None)
    load_stage.cache_clear()
    tiny: Any = import_module("tests.support.tiny_kernels")
    given = [tiny.tripled(2.0), tiny.doubled(2.0), tiny.area.function(2.0), tiny.price.function(1.0)]
    stage: Any = Loop(
        Fusion((tiny.area, tiny.price), (Argument("side_mm", "own"),), ("area_mm2", "price_usd"))
    ).compiled()
    areas, prices = np.empty(len(SIDES)), np.empty(len(SIDES))
    stage(1, len(SIDES), np.array(SIDES), areas, prices)
    kernels = {"doubled": tiny.doubled, "tripled": tiny.tripled, "stage": stage}
    kernels |= {"area": tiny.area.function, "price": tiny.price.function}
    counts = {name: sum(kernel.stats.cache_misses.values()) for name, kernel in kernels.items()}
    return Use([*given, *areas.tolist(), *prices.tolist()], counts)


class Evil:
    """Makes a directory when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self._marker = str(marker)

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (self._marker,)


def spoilt(content: bytes, marker: Path, chance: random.Random) -> Iterator[tuple[str, bytes]]:
    """Ways to damage a file, for ever."""
    code = f"\n__import__('os').mkdir({str(marker)!r})\n".encode()
    evil = pickle.dumps(Evil(marker))
    while True:
        place = chance.randrange(len(content))
        flipped = content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]
        yield "cut short", content[:place]
        yield "flipped bit", flipped
        yield "appended", content + code
        yield "emptied", b""
        yield "planted pickle", evil
        yield "planted pickle after what Numba expects", pickle.dumps("0.68.0") + evil
        yield "planted code", code


def damage(count: int) -> list[str]:
    """Damage files in turn; complaints about what was executed, kept, or answered otherwise."""
    marker = cache_dir() / "executed"
    chance = random.Random(1)
    use()
    files = sorted(path for path in cache_dir().rglob("*") if path.suffix in (".py", ".nbi", ".nbc"))
    ways = {path: spoilt(path.read_bytes(), marker, chance) for path in files}
    sources = {path: path.read_bytes() for path in files if path.suffix == ".py"}
    complaints = [] if len(files) == 11 and len(sources) == 1 else [f"files {files}"]
    for number in range(count):
        # One file of each kind in turn.
        kind = [path for path in files if path.suffix == (".py", ".nbi", ".nbc")[number % 3]]
        path = kind[number // 3 % len(kind)]
        way, content = next(ways[path])
        path.write_bytes(content)
        first, second = use(), use()
        wrong = {
            "executed": marker.exists(),
            "another answer": first.answer != ANSWER or second.answer != ANSWER,
            "not compiled once": sum(first.compiled.values()) != (path not in sources),
            "not kept": any(second.compiled.values()),
            "not written": path in sources and path.read_bytes() != sources[path],
        }
        complaints += [f"{path.name} {way}: {what}" for what, found in wrong.items() if found]
        if marker.exists():
            marker.rmdir()
    return complaints


def forge() -> list[str]:
    """Plant an index signed with another secret, a genuine one in a wrong place, and byte code beside a stage."""
    from sweeper.engine.compilation import numba_cache

    marker = cache_dir() / "executed"
    use()
    complaints = []
    tiny: Any = import_module("tests.support.tiny_kernels")
    files = tiny.doubled._cache._cache_file
    genuine = numba_cache._secret
    numba_cache._secret = lambda path: bytes(32)
    payload = pickle.dumps(Evil(marker))
    files._index_path.write_bytes(files._sign(payload) + payload)
    numba_cache._secret = genuine
    found = use()
    if marker.exists() or found.answer != ANSWER or found.compiled["doubled"] != 1:
        complaints.append(f"index with another secret: {found}")

    def in_wrong_place(kind: str) -> None:
        folder = files._index_path.parent
        (source,) = folder.glob(f"*.tripled-*{kind}")
        (target,) = folder.glob(f"*.doubled-*{kind}")
        target.write_bytes(source.read_bytes())

    for kinds in ((".nbc",), (".nbi",), (".nbc", ".nbi")):
        for kind in kinds:
            in_wrong_place(kind)
        found = use()
        if found.answer != ANSWER or found.compiled["doubled"] != 1:
            complaints.append(f"files of another kernel {kinds}: {found}")

    (stage,) = generated_dir().glob("stage_*.py")
    evil = compile(f"__import__('os').mkdir({str(marker)!r})", str(stage), "exec")
    status = stage.stat()
    header = importlib.util.MAGIC_NUMBER + bytes(4)
    header += int(status.st_mtime).to_bytes(4, "little") + status.st_size.to_bytes(4, "little")
    byte_code = Path(importlib.util.cache_from_source(str(stage)))
    byte_code.parent.mkdir(exist_ok=True)
    byte_code.write_bytes(header + marshal.dumps(evil))
    if use().answer != ANSWER or marker.exists():
        complaints.append("planted byte code")
    return complaints


def main(task: str, *arguments: str) -> None:
    """See the module."""
    if task == "hold":
        from sweeper.engine.compilation.turns import Turns

        with Turns(cache_dir()).turn("tests.support.tiny_kernels.doubled", lambda: False):
            print("ready", flush=True)
            sys.stdin.readline()
    elif task == "evaluate":
        import_module("tests.support.tiny_kernels")  # loads Numba, so that what comes after "ready" is quick
        print("ready", flush=True)
        sys.stdin.readline()
        print(json.dumps(asdict(use())), flush=True)
    else:
        print(json.dumps(damage(int(arguments[0])) if task == "damage" else forge()))


if __name__ == "__main__":
    main(*sys.argv[1:])
