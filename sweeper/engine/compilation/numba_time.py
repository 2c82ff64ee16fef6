"""What Numba's compiler does over and over, done once or not at all (`numba.core` of 0.68).

- The flags of a compilation are a part of the key under which it looks up whatever it has specialised, and all of their
  thirty values are asked for, one by one, each time that two keys are compared.
- Around each of several hundred thousand calls into LLVM it makes two events, which nobody listens to.
- A function is compiled anew for every constant that it is called with. Ours are inlined anyway where that pays.
- Before its first function it imports scipy.linalg to see whether there are routines of linear algebra: no kernel calls
  any, and every process that evaluates would carry them.
- It makes millions of objects that live until it is done, and Python's collector of garbage looks at all of them each
  time that some hundreds have been added.
"""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

from llvmlite.binding.ffi import lib  # type: ignore[import-untyped]
from numba.core import dispatcher
from numba.core.targetconfig import TargetConfig
from numba.core.types.misc import unliteral

ALGEBRA = "scipy.linalg"
FEW_COLLECTIONS = (50_000, 20, 100)
"""Thresholds of the collector while something is compiled."""


@contextmanager
def rarely_collecting() -> Iterator[None]:
    """Inside, garbage is collected rarely. May be entered again inside; who does holds Numba's lock."""
    usual = gc.get_threshold()
    gc.set_threshold(*FEW_COLLECTIONS)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


@cache
def without_algebra() -> None:
    """Have Numba see no linear algebra, unless somebody has imported it; others may import it later.

    A function of somebody else that is compiled in the same process and calls `np.dot` is then refused by Numba, which
    asks for SciPy: `import scipy.linalg` before sweeper compiles its first kernel is what helps.
    """
    if ALGEBRA not in sys.modules:
        sys.modules[ALGEBRA] = None  # type: ignore[assignment]
        try:
            import_module("numba.np.arraymath")
        finally:
            del sys.modules[ALGEBRA]


@cache
def _defaults(kind: type[TargetConfig]) -> dict[str, Any]:
    return {name: option.default for name, option in kind.options.items()}


def _values(self: TargetConfig) -> dict[str, Any]:
    """All values by name."""
    return _defaults(type(self)) | self._values  # type: ignore[arg-type]


def _hash(self: TargetConfig) -> int:
    """Numba's is that of the names, which are the same for all that it compares."""
    return hash(TargetConfig)


def _general(call_template: Callable[..., Any]) -> Callable[..., Any]:
    """`_DispatcherBase.get_call_template`, to which constants of a call are numbers like others."""

    def general(self: Any, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        if str(self.py_func.__module__).startswith("numba."):  # what was executed as text has no module
            return call_template(self, args, kws)
        kws = {name: unliteral(kind) for name, kind in kws.items()}
        return call_template(self, tuple(map(unliteral, args)), kws)

    return general


dispatcher._DispatcherBase.get_call_template = _general(  # type: ignore[method-assign]
    dispatcher._DispatcherBase.get_call_template
)
TargetConfig.values = _values  # type: ignore[method-assign]
TargetConfig.__hash__ = _hash  # type: ignore[method-assign]
lib._lock._cblist.clear()
