"""What this machine and installation are, for bug reports and for the manifest of a run."""

import os
import platform
from importlib.metadata import version
from typing import Any

from sweeper.engine.compilation.cache import kernel_hash
from sweeper.plugins import installed

PACKAGES = ("sweeper", "ray", "numba", "llvmlite", "numpy", "pyarrow", "polars", "pydantic", "pint")


def environment() -> dict[str, Any]:
    """Versions, processor count, plug-ins, and the variables that change how sweeper runs."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "packages": {name: version(name) for name in PACKAGES},
        "kernel_hash": kernel_hash(),
        "plugins": installed(),
        "variables": {
            name: os.environ[name]
            for name in sorted(os.environ)
            if name.startswith(("NUMBA_", "RAY_", "SWEEPER_", "POLARS_"))
            and not name.endswith(("TOKEN", "SECRET", "KEY", "PASSWORD"))
        },
    }
