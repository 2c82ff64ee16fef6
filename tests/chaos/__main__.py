"""Disturb a real study on Ray at random moments, and see that it ends as it has to and resumes to the same bytes.

    python -m tests.chaos --minutes 10          rounds, faults, exit codes and times from fault to end
    python -m tests.chaos --only "raylet STOP" --rounds 5

Exit code 1 if there were too few rounds, or one was not as it has to be: another exit code than the fault's, a run that
goes on for more than a minute after it lost Ray, processes left ten seconds after the end, or other bytes after the
resumption.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import psutil

from tests.chaos.faults import FAULTS, FULL, MARK, Fault, Victim, may_mount

STUDY = Path(__file__).parent / "study.yaml"
CODE = "from sweeper.cli import main; main(prog_name='sweeper')"
WORKERS = 2
CHUNK_TIMEOUT_S = 15.0
"""After which a chunk of this study, which takes a tenth of a second, hangs."""
LOST_S = 60.0
"""In which a run that has lost Ray has to end."""
LEFT_S = 10.0
"""After which no process of a run may be left."""
PATIENCE_S = 240.0
MOST_TRIES = 3
"""Tries for each round that is wanted: a fault that finds nobody to hit is none."""
START_S = 4.0
"""In which a run starts: faults at start come at a random moment of it."""


@dataclass(frozen=True)
class Round:
    """What came of one fault: how many it hit, the exit code of the run, seconds from the fault to its end, processes
    that were left, and whether the dataset has the right bytes: at the end if that is 0, and after the resumption."""

    number: int
    fault: str
    parts: int
    hit: int
    code: int
    seconds: float
    left: int
    equal: bool
    fine: bool
    told: str


def start(out: Path, mark: str, *options: str, place: Path) -> "subprocess.Popen[str]":
    """The study on Ray, in a process group of its own."""
    command = [sys.executable, "-c", CODE, "run", str(STUDY), "--out", str(out), "-q"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return subprocess.Popen(
        [*command, *options],
        env={**environment, MARK: mark, "TMPDIR": str(place)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def contents(out: Path) -> dict[str, bytes]:
    """Parts, manifest and marker of the run in a directory."""
    (run,) = (path for path in out.iterdir() if path.is_dir())
    files = [*run.glob("data/*"), run / "manifest.json", run / "_SUCCESS"]
    return {str(file.relative_to(run)): file.read_bytes() for file in files if file.exists()}


def parts(out: Path) -> int:
    """Parts that are there."""
    return len(list(out.glob("*/data/part-*.parquet")))


def wait_until(moment: object, driver: "subprocess.Popen[str]", seconds: float) -> None:
    """Until something holds, the driver has ended, or the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and driver.poll() is None and not moment():  # type: ignore[operator]
        time.sleep(0.01)


def disturbed(number: int, fault: Fault, draw: random.Random, expected: dict[str, bytes], out: Path) -> Round:
    """One round."""
    mark, place = f"{os.getpid()}-{number}", Path(tempfile.mkdtemp(prefix="swc-", dir="/tmp"))
    options = ("--backend", "ray", "--workers", str(WORKERS), "--chunk-timeout", str(CHUNK_TIMEOUT_S))
    driver = start(out, mark, *options, place=place)
    victim = Victim(driver, mark, out)
    early = fault.early and draw.random() < 0.3
    if early:
        time.sleep(draw.uniform(0.0, START_S))
        wait_until(lambda: victim.of_role(fault.role), driver, PATIENCE_S)
    else:
        after = draw.randint(1, len(expected) // 2)
        wait_until(lambda: parts(out) >= after, driver, PATIENCE_S)
    struck, present = time.monotonic(), parts(out)
    hit = fault.strike(victim) if driver.poll() is None else 0
    try:
        _, told = driver.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        driver.kill()
        _, told = driver.communicate()
    seconds = time.monotonic() - struck
    end = time.monotonic() + LEFT_S
    while (left := victim.family()) and time.monotonic() < end:
        time.sleep(0.1)
    for process in left:
        with suppress(psutil.Error):
            process.kill()
    (out / "ballast").unlink(missing_ok=True)
    equal = driver.returncode != 0 or contents(out) == expected
    again = start(out, mark, place=place)
    again.communicate()
    equal &= again.returncode == 0 and contents(out) == expected
    slow = 3 in fault.codes and seconds > LOST_S
    right = driver.returncode in fault.codes
    shutil.rmtree(place, ignore_errors=True)
    fine = right and equal and not left and not slow
    brief = " ".join(told.split())[-200:]
    name = f"{fault.name} at start" if early else fault.name
    return Round(number, name, present, hit, driver.returncode, seconds, len(left), equal, fine, brief)


@contextmanager
def output(small: bool) -> Iterator[Path]:
    """A directory for results; a file system of 8 MB of its own if it is to become full."""
    place = Path(tempfile.mkdtemp(prefix="sweeper-chaos-"))
    if small:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        if small:
            subprocess.run(["umount", str(place)], check=True)
        shutil.rmtree(place, ignore_errors=True)


def undisturbed() -> dict[str, bytes]:
    """What the study gives when it is left alone."""
    with output(small=False) as out:
        driver = start(out, "none", place=out)
        driver.communicate()
        assert driver.returncode == 0
        return contents(out)


def table(rounds: list[Round]) -> str:
    """Rounds by fault: how many, how they ended, and how long that took."""
    by_fault = defaultdict(list)
    for each in rounds:
        by_fault[each.fault].append(each)
    lines = [f"{'fault':24} {'rounds':>6} {'fine':>5} {'median s':>9} {'longest s':>9}  exit codes"]
    for name, several in sorted(by_fault.items()):
        seconds = sorted(each.seconds for each in several)
        codes = sorted({each.code for each in several})
        fine = sum(each.fine for each in several)
        middle = seconds[len(seconds) // 2]
        lines.append(f"{name:24} {len(several):6} {fine:5} {middle:9.1f} {seconds[-1]:9.1f}  {codes}")
    return "\n".join(lines)


@click.command()
@click.option("--minutes", type=float, default=5.0, show_default=True, help="How long to go on.")
@click.option("--rounds", type=int, help="So many rounds, however long they take.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--only", multiple=True, help="Faults whose name begins so; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print every round as JSON.")
def main(minutes: float, rounds: int | None, seed: int, only: tuple[str, ...], as_json: bool) -> None:
    """Disturb a real study on Ray."""
    draw = random.Random(seed)
    chosen = [fault for fault in FAULTS if not only or fault.name.startswith(only)]
    if not chosen:
        raise click.UsageError(f"no fault begins so; there are {', '.join(fault.name for fault in FAULTS)}")
    if not may_mount() and any(fault.name == FULL for fault in chosen):
        click.echo(f"{FULL} is left out: only root may mount the small file system that it needs", err=True)
        chosen = [fault for fault in chosen if fault.name != FULL]
    expected, done = undisturbed(), []
    end = time.monotonic() + 60.0 * minutes
    order: list[Fault] = []
    tried = 0
    while len(done) < rounds and tried < MOST_TRIES * rounds if rounds is not None else time.monotonic() < end:
        order = order or draw.sample(chosen, len(chosen))
        fault = order.pop()
        with output(small=fault.name == FULL) as out:
            each = disturbed(tried, fault, draw, expected, out)
        tried += 1
        if not each.hit:
            click.echo(f"{each.number:4} {each.fault:24} hit nobody: the run had ended, no round", err=True)
            continue
        done.append(each)
        state = "fine" if each.fine else f"NOT FINE: left {each.left}, equal {each.equal}: {each.told}"
        click.echo(f"{each.number:4} {each.fault:24} exit {each.code:4} after {each.seconds:5.1f} s  {state}", err=True)
    click.echo(json.dumps([asdict(each) for each in done], indent=1) if as_json else table(done))
    enough = len(done) >= (rounds or 1)
    sys.exit(0 if enough and all(each.fine for each in done) else 1)


if __name__ == "__main__":
    main()
