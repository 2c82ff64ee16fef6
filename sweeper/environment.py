"""What this machine and installation are, for bug reports and for the manifest of a run."""

import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib.metadata import version
from pkgutil import resolve_name
from typing import Any

from sweeper.engine.compilation.cache import kernel_hash
from sweeper.errors import EnvironmentFault
from sweeper.plugins import installed, misnamed
from sweeper.running import BACKENDS

PACKAGES = ("sweeper", "ray", "numba", "llvmlite", "numpy", "pyarrow", "polars", "pydantic", "pint")


CHECKS = (
    *("sweeper.inputs.families:families", "sweeper.library.library:installed_studies"),
    "sweeper.views.charts:all_charts",
)
"""What refuses plug-ins that load, but cannot be what they say."""


def environment(formats: Mapping[str, Any], checks: Iterable[Callable[[], object]] = ()) -> dict[str, Any]:
    """Versions, processor count, plug-ins, what is wrong with these together (`formats` are ours, and `checks` refuse
    more of them), and the variables that change how sweeper runs."""
    ours = {"backends": BACKENDS, "formats": formats}
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "packages": {name: version(name) for name in PACKAGES},
        "kernel_hash": kernel_hash(),
        "plugins": installed(ours),
        "plugin_faults": list(dict.fromkeys(_faults(checks))),
        "variables": {
            name: os.environ[name]
            for name in sorted(os.environ)
            if name.startswith(("NUMBA_", "RAY_", "SWEEPER_", "POLARS_"))
            and not name.endswith(("TOKEN", "SECRET", "KEY", "PASSWORD"))
        },
    }


def _faults(checks: Iterable[Callable[[], object]]) -> Iterator[str]:
    """What is wrong with plug-ins together; the same may keep several checks from being made."""
    yield from misnamed()
    # Modules refuse plug-ins while they are imported, too: each check imports its own.
    every: list[Callable[[], object]] = [*(partial(_call, name) for name in CHECKS), *checks]
    for check in every:
        try:
            check()
        except EnvironmentFault as fault:
            yield str(fault)


def _call(name: str) -> object:
    return resolve_name(name)()
