"""Where compiled kernels live: one cache directory per version of everything that their machine code depends on.

Numba sees a change in the file of a cached function, but not in the files of the functions that it calls: an edited
helper would go on giving old numbers. The directory is therefore named after a hash of all kernel sources, of the
libraries that compile them and of the processor they are compiled for. `configure` must run before Numba is imported,
because Numba reads its settings at import.
"""

import hashlib
import os
import platform
import sys
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from sweeper.engine.compilation.own_files import own_directory
from sweeper.errors import EnvironmentFault
from sweeper.plugins import computing

KERNELS = "sweeper.kernels"
"""Package of our kernels; modules of plug-ins import it beside those of their own."""
COMPILERS = ("numba", "llvmlite", "numpy")
"""Packages whose versions decide the machine code."""

X86_64_V3 = frozenset({"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"})
"""Flags of /proc/cpuinfo that the portable target x86-64-v3 needs beyond the older levels."""

LOCATORS = "sweeper.engine.compilation.numba_cache.OwnLocator,IPythonCacheLocator,ZipCacheLocator"
"""Numba's setting by which it imports our changes of its cache; the others serve functions without a file."""

FORMAT = "verified files 4"
"""Changes with what the cache's files look like and with the names of machine code in them, so that versions of sweeper
do not meet in one directory."""


def configure() -> Path:
    """Point Numba at the cache of these kernels and at the portable target; returns the cache directory.

    Sets NUMBA_CACHE_DIR and NUMBA_CACHE_LOCATOR_CLASSES (values set by the user would defeat the purpose and are
    replaced; SWEEPER_CACHE_DIR moves the cache), NUMBA_NUM_THREADS=1 (processes are the parallelism) and, unless the
    user chose one, NUMBA_CPU_NAME. May be called again. Raises EnvironmentFault if Numba was imported before with
    other settings, or if the directory cannot be written or is open to others.
    """
    os.environ.setdefault("NUMBA_CPU_NAME", _portable_cpu())
    os.environ.setdefault("NUMBA_CPU_FEATURES", "")
    directory = cache_dir()
    if "numba" in sys.modules:
        config = sys.modules["numba"].config
        used, by = config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES
        if used != str(directory) or by != LOCATORS:
            place = repr(used) if used else "beside the sources"
            raise EnvironmentFault(
                f"numba was imported with its own cache {place} instead of sweeper's in {str(directory)!r}: "
                "import sweeper before numba"
            )
    os.environ["NUMBA_CACHE_DIR"] = str(directory)
    os.environ["NUMBA_CACHE_LOCATOR_CLASSES"] = LOCATORS
    os.environ["NUMBA_NUM_THREADS"] = "1"
    for folder in (_user_cache(), directory.parent, directory):
        own_directory(folder)
    return directory


def cache_dir() -> Path:
    """Directory of this version's compiled kernels, whether it exists or not."""
    return _user_cache() / "numba" / kernel_hash()


def generated_dir() -> Path:
    """Directory of generated stage modules; it lies in the cache because they call the kernels hashed there."""
    return cache_dir() / "generated"


def secret_path() -> Path:
    """The secret that the files of this user's caches are signed with; without it all are compiled again."""
    return cache_dir().parent / "key"


def kernel_hash() -> str:
    """Hex digest of the kernel sources, of the compiler's version, of the target and of the cache's format."""
    parts = [FORMAT, source_hash(KERNELS), platform.python_version(), os.environ.get("NUMBA_CPU_NAME", "")]
    parts += [f"{package} {version(package)}" for package in COMPILERS]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@cache
def source_hash(package: str) -> str:
    """Hex digest of the names and contents of all Python files of a package, those of its sub-packages included, or of
    the one of a module.

    Raises EnvironmentFault if it is not installed.
    """
    spec = find_spec(package)
    if spec is None:
        raise EnvironmentFault(f"package {package!r} is not installed here")
    files = {
        file.relative_to(folder).as_posix(): file
        for folder in spec.submodule_search_locations or ()
        for file in Path(folder).rglob("*.py")
    }
    if not files and spec.origin is not None:
        files = {"": Path(spec.origin)}
    digest = hashlib.sha256()
    for name in sorted(files):
        text = files[name].read_bytes()
        digest.update(f"{name} {len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest()


def plugin_hash(module: str) -> str:
    """Hex digest of the package of a plug-in that a module is of; "" of other modules. What is compiled of it is kept
    under this name, as that of ours is under `kernel_hash`."""
    package = module.partition(".")[0]
    return source_hash(package) if package in computing() else ""


def _user_cache() -> Path:
    chosen = os.environ.get("SWEEPER_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sweeper"


def _portable_cpu() -> str:
    """`x86-64-v3` where the processor has it, so that a cluster of mixed machines computes alike; else `generic`."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return "generic"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return "generic"
    flags = next((line.split(":")[1].split() for line in lines if line.startswith("flags")), [])
    return "x86-64-v3" if set(flags) >= X86_64_V3 else "generic"
