"""Run the quick tests under every Python that sweeper is for and that this machine has: `make pythons`.

    python -m tests.pythons                     takes about ten minutes for each
    python -m tests.pythons --version 3.13 tests/engine

Each interpreter gets a clone of the commit that is checked out and an environment of its own from the lock. Exit code
1 if tests fail under one of them, or if a version that the classifiers of `pyproject.toml` claim is not there.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from tests.places import ROOT
from tests.support.report import Report

PYENV = Path.home() / ".pyenv" / "versions"


def claimed() -> list[str]:
    """Versions that the classifiers name."""
    return re.findall(r"Python :: (3\.\d+)\"", (ROOT / "pyproject.toml").read_text())


def interpreter(version: str) -> str | None:
    """An interpreter of a version, on the path or among pyenv's."""
    name = f"python{version}"
    places = [*sorted(map(str, PYENV.glob(f"{version}.*/bin/{name}")), reverse=True), shutil.which(name)]
    return next((place for place in places if place and runs(place)), None)


def runs(python: str) -> bool:
    """Is it an interpreter, rather than a name that a version manager answers with an error?"""
    return subprocess.run([python, "-c", "import venv"], capture_output=True, check=False).returncode == 0


@click.command()
@click.argument("selected", nargs=-1)
@click.option("--version", "versions", multiple=True, help="Version to try instead of all, such as 3.13; repeatable.")
def main(selected: tuple[str, ...], versions: tuple[str, ...]) -> None:
    """Run the quick tests, or those SELECTED, under every Python that sweeper is for."""
    report = Report()
    for version in versions or claimed():
        work = Path(tempfile.mkdtemp(prefix=f"sweeper-python{version}-"))
        try:
            with report.step(f"Python {version}") as found:
                python = interpreter(version)
                if python is None:
                    found(False, "there is no interpreter of this version here")
                    continue
                subprocess.run(["git", "clone", "-q", str(ROOT), str(work / "sweeper")], check=True)
                make = ["make", "-s", f"PYTHON={python}", "test-quick", f"ARGS={' '.join(selected)}"]
                ran = subprocess.run(make, cwd=work / "sweeper", capture_output=True, text=True, check=False)
                last = (ran.stdout.strip() or ran.stderr.strip()).splitlines()[-1]
                failed = f"{last}\n{ran.stdout[-4000:]}{ran.stderr[-2000:]}"
                found(ran.returncode == 0, last if ran.returncode == 0 else failed)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    sys.exit(report.failed > 0)


if __name__ == "__main__":
    main()
