"""Run sweeper on hosts that are namespaces of this machine, with the cluster file as shipped: `make cluster-test`.

    python -m tests.cluster                     takes about ten minutes on two processors, and 8 GB of memory

Prints what was asked, what was found, and how long it took. Exit code 1 if something was not as it has to be; 0 with
the reason where no hosts can be made (only root can). Everything lies below one directory and one namespace, and is
gone at the end.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from tests.cluster.hosts import lacking
from tests.places import ROOT

WHEELS = ["-m", "pip", "download", "-qq", "--only-binary", ":all:"]


def origin(work: Path) -> None:
    """A repository of the commit that is checked out, with what is changed and not committed yet."""
    git = ["git", "-C", str(ROOT)]
    changed = subprocess.run([*git, "stash", "create"], capture_output=True, text=True, check=True).stdout.strip()
    place = work / "origin.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(place)], check=True)
    subprocess.run([*git, "push", "-q", str(place), f"{changed or 'HEAD'}:refs/heads/main"], check=True)


def wheels(work: Path) -> None:
    """What the hosts install, since they see no package index: the lock, and what the extra `cluster` adds to it."""
    lock, place = ROOT / "requirements.lock", work / "wheels"
    subprocess.run([sys.executable, *WHEELS, "--require-hashes", "-r", str(lock), "-d", str(place)], check=True)
    pins = work / "pins.txt"
    pins.write_text("\n".join(re.findall(r"^[\w.-]+==[^ ;]+", lock.read_text(), re.MULTILINE)))
    ray = re.search(r'cluster = \["(.*)"\]', (ROOT / "pyproject.toml").read_text())
    assert ray is not None
    subprocess.run([sys.executable, *WHEELS, "-c", str(pins), "-d", str(place), ray[1]], check=True)


@click.command()
def main() -> None:
    """Run sweeper on a cluster of hosts that are namespaces of this machine."""
    if reason := lacking():
        click.echo(f"cluster-test skipped: {reason}")
        return
    work = Path(tempfile.mkdtemp(prefix="sweeper-cluster-", dir="/var/tmp"))
    try:
        click.echo("fetching what the hosts install", err=True)
        origin(work)
        wheels(work)
        alone = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        ended = subprocess.run([*alone, sys.executable, "-m", "tests.cluster.inside", str(work)], check=False, cwd=ROOT)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(ended.returncode)


if __name__ == "__main__":
    main()
