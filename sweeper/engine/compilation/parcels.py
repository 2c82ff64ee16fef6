"""Machine code from one machine to another, so that one compiles and the others do not.

A parcel holds kernels with what this machine's cache has of them. It is for machines with the same sources, compiler
and target, as the cache's directory is. Who opens it looks each function up in its own code and asks under which key it
would keep it, so that what is for other features of a processor is left out. What is not taken is compiled where it is
needed. What is taken is signed with the secret of the cache that it goes to (`numba_cache`); the parcel itself is
trusted as is whatever runs code here.
"""

import logging
import pickle
from collections.abc import Hashable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from numba.core.compiler_lock import global_compiler_lock

from sweeper.engine.compilation.ahead import Kernel, compile_kernel
from sweeper.engine.compilation.cache import kernel_hash
from sweeper.engine.compilation.numba_cache import ENTRIES, TURNS, VerifiedFiles
from sweeper.engine.compilation.stages import is_known, source_of
from sweeper.errors import EnvironmentFault

log = logging.getLogger("sweeper")


class Parcelled(NamedTuple):
    """A kernel with the key under which its machine code is kept, and that."""

    kernel: Kernel
    key: Hashable
    content: bytes


def is_kept(kernel: Kernel) -> bool:
    """Whether this machine's cache has a kernel."""
    if kernel.source and not is_known(kernel.source):
        return False
    files, key = _kept(kernel)
    return files is None or files.holds(key)


def packed(kernels: Iterable[Kernel]) -> bytes:
    """Parcel of some kernels, compiled now if nobody has, and of all others that this process has called."""
    parcel = {}
    for kernel in (*kernels, *_called()):
        with suppress(Exception):  # what does not compile fails where it is needed
            if not is_kept(kernel):
                compile_kernel(kernel)
            files, key = _kept(kernel)
            content = None if files is None else files.content(key)
            if content is not None:
                parcel[kernel.key] = Parcelled(kernel, key, content)
    return pickle.dumps((kernel_hash(), list(parcel.values())))


def unpack(parcel: bytes) -> None:
    """Put the kernels of a parcel into this machine's cache, unless they are there or are for another machine.

    Raises EnvironmentFault if the cache cannot be written.
    """
    version, kernels = pickle.loads(parcel)
    for each in kernels if version == kernel_hash() else ():
        try:
            _take(each)
        except EnvironmentFault:
            raise
        except Exception:
            log.debug("kernel %s is compiled here", each.kernel.key, exc_info=True)


def _take(parcelled: Parcelled) -> None:
    kernel, key, content = parcelled
    files, own = _kept(kernel)
    if files is not None and own == key:
        name, _ = kernel.key
        with global_compiler_lock, TURNS.turn(name, lambda: files.holds(key), "takes over"):
            if not files.holds(key):
                files.put(key, content)


def _kept(kernel: Kernel) -> tuple[VerifiedFiles | None, Hashable]:
    """The files in which a kernel is kept, None if it is not, and its key there."""
    function = kernel.dispatcher
    files: VerifiedFiles | None = getattr(function._cache, "_cache_file", None)
    with global_compiler_lock:  # while another thread compiles, the key would be that of an inner function
        return files, files and function._cache._index_key(kernel.types, function.targetctx.codegen())


def _called() -> list[Kernel]:
    """Kernels that this process has called and that another one can find by name."""
    found = []
    for function, types in list(ENTRIES):
        code = function.py_func
        kernel = Kernel(source_of(code), code.__module__, code.__name__, types)
        if _is(kernel, function):
            found.append(kernel)
    return found


def _is(kernel: Kernel, function: Any) -> bool:
    try:
        return kernel.dispatcher is function
    except (AttributeError, ImportError):  # made inside another function
        return False
