"""Do the tests notice faults? Plants those of `tests/faults/` in a copy of the checkout, one at a time, and tests it.

    python -m tests.mutate                       all faults, with the usual examples
    python -m tests.mutate --room graphs         those of one list
    python -m tests.mutate --only l2_bound       those named
    python -m tests.mutate --seeds 10            ten times, each with other examples
    python -m tests.mutate --json                the same for programs

A fault is killed if a test fails. One that keeps the tests from running at all (an import that fails, no end within
`--timeout`) counts as survived: no assertion noticed it. Exit code 1 if fewer than 95 % of those that are not said to
be equivalent are killed in every run, or one said to be equivalent is; 2 if the lists do not fit the code.

Kernels run as plain Python (NUMBA_DISABLE_JIT) where the tests pass so, which takes a fraction of compiling them. What
a test without random examples notices it notices in every seed, so such tests run once.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.places import ROOT
from tests.support.faults import Fault, chosen, misfits, read_faults

ENOUGH = 0.95
FIXED, RANDOM = ("-m", "not hypothesis"), ("-m", "hypothesis")
"""Options that choose the tests without random examples, and those with them."""
NO_TESTS = 5
"""Exit code of pytest where these options leave nothing to run."""
KILLED, SURVIVED, BROKEN = "killed", "survived", "does not run"


@dataclass(frozen=True)
class Run:
    """What became of some tests: a verdict on the code, the tests that failed, the seconds that it took, the tests that
    could not be run, and the last line of what was printed."""

    verdict: str
    failed: tuple[str, ...]
    seconds: float
    errors: tuple[str, ...] = ()
    last: str = ""


@dataclass(frozen=True)
class Checkout:
    """A copy of the tracked files, to be damaged; its kernels are compiled into a cache of its own."""

    root: Path
    cache: Path

    def run(
        self, tests: Sequence[str], plain: bool, seed: int | None, timeout: float, options: Sequence[str] = ()
    ) -> Run:
        """Run tests; unless `-x` is among the options, all of them."""
        profile = "faults" if seed is None else "faults_seeded"
        command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "-n", "0"]
        command += [
            *options,
            "--hypothesis-profile",
            profile,
            *([] if seed is None else ["--hypothesis-seed", str(seed)]),
        ]
        kernels = {"NUMBA_DISABLE_JIT": "1"} if plain else {"SWEEPER_CACHE_DIR": str(self.cache)}
        environment = {**os.environ, "PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1", **kernels}
        started = time.monotonic()
        try:
            done = subprocess.run(
                [*command, *tests],
                check=False,
                cwd=self.root,
                env=environment,
                capture_output=True,
                text=True,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            return Run(BROKEN, (), time.monotonic() - started, last=f"no end within {timeout} s")
        failed, errors = (
            tuple(re.findall(rf"^{outcome} (.*?)(?: - .*)?$", done.stdout, re.MULTILINE))
            for outcome in ("FAILED", "ERROR")
        )
        verdict = KILLED if failed else SURVIVED if done.returncode in (0, NO_TESTS) else BROKEN
        last = (done.stdout + done.stderr).strip().rpartition("\n")[2]
        return Run(verdict, failed, time.monotonic() - started, errors, last)

    def runs(
        self, tests: Sequence[str], plain: bool, seeds: Sequence[int], timeout: float
    ) -> Iterator[tuple[str, Run]]:
        """Run tests until one fails, in every seed in which the outcome may differ: what the run is, and the run."""
        if not seeds:
            yield "", self.run(tests, plain, None, timeout, ("-x",))
            return
        fixed = self.run(tests, plain, None, timeout, ("-x", *FIXED))
        if fixed.verdict != SURVIVED:
            yield " every seed", fixed
            return
        for seed in seeds:
            yield f" seed {seed}", self.run(tests, plain, seed, timeout, ("-x", *RANDOM))

    @contextmanager
    def planted(self, fault: Fault) -> Iterator[None]:
        """The copy with a fault."""
        path = self.root / fault.file
        text = path.read_text(encoding="utf-8")
        path.write_text(fault.plant(text), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(text, encoding="utf-8")


@contextmanager
def copied() -> Iterator[Checkout]:
    """A copy of the tracked files, until it is left."""
    with tempfile.TemporaryDirectory(prefix="sweeper-faults-") as directory:
        root = Path(directory, "checkout")
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).is_file() or (ROOT / name).is_symlink():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, root / name, follow_symlinks=False)
        yield Checkout(root, Path(directory, "cache"))


def passing(
    checkout: Checkout, suites: Iterable[tuple[str, ...]], plain: bool, timeout: float, seed: int | None = None
) -> set[tuple[str, ...]]:
    """Those of some sets of tests that the code as it is passes, all run at once; with a seed, the random ones."""
    remaining = list(dict.fromkeys(suites))
    if not remaining:
        return set()
    tests = list(dict.fromkeys(test for suite in remaining for test in suite))
    run = checkout.run(tests, plain, seed, timeout * len(tests), () if seed is None else RANDOM)
    if run.verdict == BROKEN and not run.errors:
        return set()
    wrong = (*run.failed, *run.errors)
    return {
        suite
        for suite in remaining
        if not any(name.startswith(test) or test.startswith(name) for test in suite for name in wrong)
    }


def share(faults: Sequence[Fault], runs: dict[str, list[Run]]) -> float:
    """Share of the faults, equivalent ones aside, that were killed in every run."""
    counted = [fault for fault in faults if not fault.equivalent]
    return sum(all(run.verdict == KILLED for run in runs[fault.id]) for fault in counted) / max(1, len(counted))


def wrongly_excused(faults: Sequence[Fault], runs: dict[str, list[Run]]) -> list[str]:
    """Faults said to change nothing that a test noticed."""
    return [fault.id for fault in faults if fault.equivalent and any(run.verdict == KILLED for run in runs[fault.id])]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="ID")
    parser.add_argument("--room", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--seeds", type=int, default=0, help="runs with seeds 0, 1, ... instead of the usual examples")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for the tests of one fault")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    faults = chosen(read_faults(), asked.only, asked.room)
    log = sys.stderr if asked.json else sys.stdout
    wrong = misfits(faults) or ([] if faults else ["no such fault"])
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return 2
    seeds = range(asked.seeds)
    runs: dict[str, list[Run]] = {fault.id: [] for fault in faults}
    with copied() as checkout:
        suites = {fault.tests for fault in faults}
        plain = passing(checkout, sorted(suites), True, asked.timeout)
        compiled = passing(checkout, sorted(suites - plain), False, asked.timeout)
        failing = sorted(" ".join(suite) for suite in suites - plain - compiled)
        if failing:
            print("\n".join(f"fails without a fault: {suite}" for suite in failing), file=sys.stderr)
            return 2
        print(f"{len(plain)} sets of tests pass as plain Python, {len(compiled)} are compiled", file=log, flush=True)
        for seed in seeds:
            steady = passing(checkout, plain, True, asked.timeout, seed) | passing(
                checkout, compiled, False, asked.timeout, seed
            )
            if unsteady := sorted(" ".join(suite) for suite in suites - steady):
                print("\n".join(f"fails without a fault, seed {seed}: {suite}" for suite in unsteady), file=sys.stderr)
                return 2
        for fault in faults:
            with checkout.planted(fault):
                for at, run in checkout.runs(fault.tests, fault.tests in plain, seeds, asked.timeout):
                    runs[fault.id].append(run)
                    note = " (equivalent)" if fault.equivalent else ""
                    why = f" ({run.last})" if run.verdict == BROKEN else ""
                    print(f"{fault.id}{note}{at}: {run.verdict}{why}, {run.seconds:.1f} s", file=log, flush=True)
    killed, excused = share(faults, runs), wrongly_excused(faults, runs)
    if asked.json:
        print(json.dumps({"share": killed, "runs": {name: [asdict(run) for run in of] for name, of in runs.items()}}))
    counted = sum(not fault.equivalent for fault in faults)
    print(f"{killed:.1%} of {counted} faults killed in every run", file=log)
    print("".join(f"said to be equivalent, but killed: {name}\n" for name in excused), end="", file=log)
    return 1 if killed < ENOUGH or excused else 0


if __name__ == "__main__":
    sys.exit(main())
