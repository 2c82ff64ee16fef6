"""Build what a release would be and use it where nothing else is installed: `make release-check`.

    python -m tests.release                     takes about five minutes, and fetches what the lock names

The wheel, and the one that the sdist gives, are installed with the locked versions into environments of their own,
which also have the package of other people that is called `kernels`, and the example plug-in. There `sweeper run dse80`
and the first study of the README are run. Version, tag and changelog have to agree. Exit code 1 if something is not as
it has to be.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import click

from tests.places import ROOT
from tests.support.report import Report

PLUGIN = ROOT / "examples" / "plugin"
TOP = {"sweeper"}
"""Packages that a wheel of ours puts into an environment."""


def said(*command: object, cwd: Path = ROOT) -> str:
    """What a command that must end well says."""
    found = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)
    if found.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {found.stderr[-2000:] or found.stdout[-2000:]}")
    return found.stdout


def built(project: Path, target: str, into: Path) -> Path:
    """The wheel or the sdist of a project."""
    said(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", into, cwd=project)
    (made,) = into.iterdir()
    return made


def tops(wheel: Path) -> set[str]:
    """First names of what a wheel installs."""
    names = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    return {name for name in names if not name.endswith(".dist-info")}


def versions_agree(version: str) -> list[str]:
    """What is wrong with the version of a commit: its tag and its chapter of the changelog."""
    tags = said("git", "tag", "--points-at", "HEAD").split()
    chapters = re.findall(r"^## \[(.+?)\] - (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    newest, when = chapters[0]
    if tags:
        wrong = [] if f"v{version}" in tags else [f"the tags {tags} do not name the version {version}"]
        dated = newest == version and re.fullmatch(r"\d{4}-\d\d-\d\d", when)
        return (
            wrong if dated else [*wrong, f"the changelog begins with {newest} - {when}, not with {version} and a date"]
        )
    return [] if when == "unreleased" else [f"no tag, but the changelog begins with {newest} - {when}"]


def environment(place: Path, wheels: list[Path | str]) -> Callable[..., str]:
    """An environment with wheels or packages and the locked versions they need; gives what calls its programs."""
    said(sys.executable, "-m", "venv", place)
    said(place / "bin" / "pip", "install", "-q", "-c", pins(place), *wheels)

    def call(program: str, *words: object) -> str:
        return said(place / "bin" / program, *words, cwd=place)

    return call


def pins(place: Path) -> Path:
    """The locked versions, as constraints."""
    lock = (ROOT / "requirements.lock").read_text()
    place.mkdir(exist_ok=True)
    path = place / "pins.txt"
    path.write_text("\n".join(line.rstrip("\\ ") for line in re.findall(r"^[\w.-]+==.*", lock, re.MULTILINE)))
    return path


def tutorial(place: Path) -> tuple[Path, list[list[str]]]:
    """The first study of the README, as a file, and the commands that go with it."""
    readme = (ROOT / "README.md").read_text()
    studies = re.findall(r"```yaml.*?\n(.*?)```", readme, re.DOTALL)
    path = place / "bandwidth.yaml"
    path.write_text(next(text for text in studies if text.startswith("study: bandwidth")))
    shell = "\n".join(re.findall(r"```sh\n(.*?)```", readme, re.DOTALL))
    lines = re.findall(r"^sweeper (\w+ bandwidth\.yaml.*?)(?:\s+#.*)?$", shell, re.MULTILINE)
    return path, [re.findall(r'"[^"]*"|\S+', line) for line in lines]


def used(call: Callable[..., str], place: Path) -> str:
    """Use an installation as the README says. Gives what the main study answers."""
    for order in ("kernels, sweeper.kernels.codes", "sweeper.kernels.codes, kernels"):
        call("python", "-c", f"import {order}; assert kernels.get_kernel and sweeper.kernels.codes.REASONS")
    _, commands = tutorial(place)
    for words in commands:
        call("sweeper", *(word.strip('"') for word in words))
    assert '"problem": ""' in call("sweeper", "env", "--json") and "cooled" in call("sweeper", "list", "family")
    return call("sweeper", "run", "dse80", "-q").splitlines()[-2]


@click.command()
def main() -> None:
    """Build what a release would be, and use it where nothing else is installed."""
    report, work = Report(), Path(tempfile.mkdtemp(prefix="sweeper-release-"))
    try:
        with report.step("wheel") as found:
            wheel = built(ROOT, "wheel", work / "wheel")
            found(tops(wheel) == TOP, f"{wheel.name} has {', '.join(sorted(tops(wheel)))}")
        with report.step("version") as found:
            version = wheel.name.split("-")[1]
            wrong = versions_agree(version)
            found(not wrong, "; ".join(wrong) or f"{version}: tag and changelog agree")
        with report.step("sdist") as found:
            sdist = built(ROOT, "sdist", work / "sdist")
            shutil.unpack_archive(sdist, work, filter="data")
            again = built(work / sdist.name.removesuffix(".tar.gz"), "wheel", work / "again")
            same = zipfile.ZipFile(wheel).namelist() == zipfile.ZipFile(again).namelist()
            found(same, f"{sdist.name} gives {'the same' if same else 'another'} wheel")
        plugin = built(shutil.copytree(PLUGIN, work / "plugin"), "wheel", work / "plugins")
        for name, made in (("wheel", wheel), ("sdist", again)):
            with report.step(f"{name} in a clean environment") as found:
                place = work / f"environment-{name}"
                call = environment(place, [made, plugin, "kernels"])
                found(True, f"installed, {call('sweeper', '--version').strip()}")
                found(True, used(call, place))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(report.failed > 0)


if __name__ == "__main__":
    main()
