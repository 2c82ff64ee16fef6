"""What comes before the first row: help, a plan, a plan of 10^12 points, and kernels that were never compiled.

Each is a process of its own; seconds are wall time where somebody waits, and processor time where machines do.
"""

import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import yaml

from benchmarks.peer_points import STUDY as PEER
from benchmarks.search import LLAMA
from benchmarks.table import Row, Target
from sweeper.library.library import builtin_specs

HELP_S, PLAN_S, LARGE_S = (Target(bound, at_least=False) for bound in (0.15, 0.6, 0.5))
FIRST_ROW = {"dse80": Target(20.0, at_least=False), "llama": Target(8.0, at_least=False)}
KERNELS_S = Target(25.0, at_least=False)
MEMORY = Target(400.0, at_least=False)
FIRST = """
import sys, time
from pathlib import Path
import sweeper
started = time.monotonic()
plan = sweeper.plan(Path(sys.argv[1]))
with plan.compiling():
    plan.evaluate(0)
    print(time.monotonic() - started, flush=True)
    for chunk in range(1, plan.chunk_count):
        plan.evaluate(chunk)
[peak_kB] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")]
print(int(peak_kB) / 1e3)
"""
"""A run without files: seconds to the rows of the first chunk, and megabytes at most. (`getrusage` would count what the
process that starts this one had.)"""


def measure(directory: Path, quick: bool) -> list[Row]:
    """All of them; `quick` compiles nothing."""
    rounds = 1 if quick else 5
    dse80 = builtin_specs() / "studies" / "dse80.yaml"
    rows = [
        Row("sweeper --help", _wall_s(rounds, "--help"), "s", HELP_S, "wall time"),
        Row("sweeper plan dse80", _cpu_s(rounds, "plan", str(dse80)), "s", PLAN_S, "CPU time of the process"),
        Row("plan of 10^12 points", _planned_s(directory), "s", LARGE_S, "CPU time beyond the imports"),
    ]
    return rows if quick else [*rows, *_cold("dse80", dse80, directory), *_cold("llama", LLAMA, directory)]


def _called(*arguments: str) -> None:
    """A command, as after an installation that has compiled the modules."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [str(Path(sys.executable).with_name("sweeper")), *arguments]
    subprocess.run(command, check=True, capture_output=True, env=environment)


def _wall_s(rounds: int, *arguments: str) -> float:
    """Least seconds of a command: what disturbs it only adds to them."""
    found = []
    for _ in range(rounds):
        started = time.monotonic()
        _called(*arguments)
        found.append(time.monotonic() - started)
    return min(found)


def _spent_s() -> float:
    """Processor seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cpu_s(rounds: int, *arguments: str) -> float:
    """Median processor seconds of a command."""
    found = []
    for _ in range(rounds):
        before = _spent_s()
        _called(*arguments)
        found.append(_spent_s() - before)
    return statistics.median(found)


def _planned_s(directory: Path) -> float:
    """Processor seconds of planning the peer's study with five thousand values of each bandwidth."""
    content = yaml.safe_load(PEER.read_text())
    for name in ("memory.bandwidth", "link.bandwidth", "outer_link.bandwidth"):
        content["axes"][name]["geomspace"][2] = 5000
    path = directory / "large.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    code = (
        "import sys, time, sweeper; from pathlib import Path; sweeper.plan; t = time.process_time(); "
        "plan = sweeper.plan(Path(sys.argv[1])); assert plan.point_count > 10**12 and plan.chunk_count; "
        "print(time.process_time() - t)"
    )
    found = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True)
    return float(found.stdout)


def _cold(name: str, study: Path, directory: Path) -> list[Row]:
    """A run with an empty cache of kernels."""
    environment = {**os.environ, "SWEEPER_CACHE_DIR": str(directory / f"{name}-cache")}
    before = _spent_s()
    command = [sys.executable, "-c", FIRST, str(study)]
    found = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    spent = _spent_s() - before
    first, memory_MB = map(float, found.stdout.split())
    again = _spent_s()
    subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    kernels = spent - (_spent_s() - again)
    return [
        Row(f"{name}, empty cache: first chunk", first, "s", FIRST_ROW[name], "wall time, all processors"),
        Row(f"{name}, empty cache: compilation", kernels, "s", KERNELS_S, "CPU time beyond that of the next run"),
        Row(f"{name}, empty cache: memory of the process", memory_MB, "MB", MEMORY),
    ]
