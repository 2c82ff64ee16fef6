"""What the figures were measured with: processor, load, versions."""

import os
import platform
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

from sweeper.engine.compilation.cache import source_hash

PACKAGES = ("numba", "llvmlite", "numpy", "pyarrow", "polars", "ray")


def load_average() -> float:
    """Processes that ran or waited for a processor, averaged over the last minute."""
    return round(os.getloadavg()[0], 2)


def gxx() -> str | None:
    """Path of the C++ compiler, None if there is none."""
    return shutil.which("g++")


def describe() -> dict[str, str]:
    """Machine and versions by name."""
    cores = len(os.sched_getaffinity(0))
    compiler = gxx()
    compiled = "none" if compiler is None else _first_line(compiler, "--version")
    return {
        "machine": f"{_processor()}, {cores} cores, {platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
        "g++": compiled,
        "kernel target": os.environ.get("NUMBA_CPU_NAME", ""),
        "sources": f"kernels {source_hash('kernels')[:12]}, sweeper {source_hash('sweeper')[:12]}",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _first_line(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]
