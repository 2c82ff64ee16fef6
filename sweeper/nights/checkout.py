"""Which commit of sweeper runs, where it runs from a checkout."""

import subprocess
from pathlib import Path

import sweeper

HOME = Path(sweeper.__file__).parent


def commit(home: Path = HOME) -> str:
    """The commit of the checkout that the package is part of, with `-dirty` if files of it differ from that; "" for a
    package that is installed, even inside a repository of something else."""
    try:
        _git(home, "ls-files", "--error-unmatch", "__init__.py")
        return _git(home, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(home: Path, *words: str) -> str:
    ran = subprocess.run(["git", "-C", str(home), *words], capture_output=True, text=True, check=True)
    return ran.stdout.strip()
