"""Installed packages that register plug-ins, as a folder that Python looks for packages in."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.small_specs import write_files


def installed(site: Path, package: str, points: Mapping[str, str], files: Mapping[str, str]) -> Path:
    """Install a package `package` that registers `points`, values by `kind/name`, into a folder `site`."""
    sections = {kind: "" for kind, _, _ in (point.partition("/") for point in points)}
    for point, value in points.items():
        kind, _, name = point.partition("/")
        sections[kind] += f"{name} = {value}\n"
    about = site / f"{package}-1.0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("".join(f"[sweeper.{kind}]\n{text}\n" for kind, text in sections.items()))
    write_files(site, files)
    return site


def sweeper(site: Path, *words: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Call the command line where the packages of a folder are installed."""
    folders = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    command = [sys.executable, "-m", "sweeper", *words]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def answer(site: Path, *words: str, cwd: Path | None = None) -> Any:
    """What a command that must end well says as JSON."""
    found = sweeper(site, *words, "--json", cwd=cwd)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)
