"""Machine code only of kernels that Python calls: what we change in how Numba compiles (`numba.core` of 0.68).

Numba makes of every function all that anybody may want of it: a wrapper that takes Python's objects apart, and machine
code of it and of all that it calls. A kernel that only other kernels call is optimised and translated again as a part
of each of them; its own machine code and wrapper are never used, and took a third of all compilation. So a function
that is compiled because another needs it is *inner*: it has no wrapper, is kept as bitcode, and is optimised once it
is part of one that Python calls, an *entry*. What is inner may become an entry later: then it is compiled once more.

Numba numbers the functions of a process, so that names of machine code differ where functions have the same name, as
those have that one function makes with different closures (its own sort and argsort among them). But what several
processes have compiled meets in the cache, in one module and in one process; of two with one name the first is taken
for both, silently (Numba's issue 10486). So functions get random numbers here.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from llvmlite.binding import parse_bitcode  # type: ignore[import-untyped]
from numba.core import caching, codegen, dispatcher
from numba.core.bytecode import FunctionIdentity
from numba.core.environment import lookup_environment

ENVIRONMENT = "_ZN08NumbaEnv"
"""How names of variables begin that say where a function's Python objects are."""
RELEASE = "NRT_decref"
"""The function that is called where references are counted."""
NUMBER_BITS = 64
"""Length of a function's number: enough that no two of a cache are alike, even of processes that began as one."""


class Library(codegen.JITCodeLibrary):
    """Code of a function with all that it calls: becomes machine code once the address of something in it is asked for.

    Numba asks for the address of the wrapper as soon as it has compiled a function, so that those with one never wait.
    """

    has_code = False
    """Whether there is machine code of it."""
    _bitcode = b""
    """Of what was loaded with its machine code, until somebody links it, which few do."""

    def get_pointer_to_function(self, name: str) -> int:
        """Address of a function; 0 if it is not in here."""
        self._ensure_finalized()
        if not self.has_code and self._defines(name):
            if self._defines(RELEASE):
                # Inlined, counts can be seen to cancel, as long as no loop is unrolled.
                self._passed(loop_vectorize=False, slp_vectorize=False, opt=1)
            self._passed()
            self._final_module.verify()
            self._make_code()
        address: int = super().get_pointer_to_function(name)
        return address

    def _passed(self, **options: Any) -> None:
        passes, builder = self._codegen._module_pass_manager(**options)
        passes.run(self._final_module, builder)

    def _optimize_final_module(self) -> None:
        self._passed(loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap")

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def _defines(self, name: str) -> bool:
        try:
            return not self._final_module.get_function(name).is_declaration
        except NameError:
            return False

    def _make_code(self) -> None:
        super()._finalize_final_module()
        self.has_code = True
        for variable in self._final_module.global_variables:
            environment = lookup_environment(variable.name) if variable.name.startswith(ENVIRONMENT) else None
            if environment is not None:
                self._codegen.set_env(variable.name, environment)

    def _get_module_for_linking(self) -> Any:
        if self._bitcode:
            self._shared_module, self._bitcode = parse_bitcode(self._bitcode), b""
        return super()._get_module_for_linking()

    def serialize_using_object_code(self) -> tuple[str, str, Any]:
        """What is kept of it on disk: bitcode, and machine code with what it defines if there is any."""
        if not self.has_code:
            return self.name, "bitcode", self._final_module.as_bitcode()
        name, kind, (code, bitcode) = super().serialize_using_object_code()
        symbols = [*self._final_module.functions, *self._final_module.global_variables]
        defined = [symbol.name for symbol in symbols if not symbol.is_declaration]
        return name, kind, (code, bitcode, defined)

    @classmethod
    def _unserialize(cls, codegen: Any, state: tuple[str, str, Any]) -> "Library":
        name, kind, data = state
        self: Library
        if kind == "bitcode":
            self = super()._unserialize(codegen, state)
        else:
            code, bitcode, defined = data
            self = codegen.create_library(name)
            self.enable_object_caching()
            self._set_compiled_object(code)
            self._bitcode = bitcode
            self._make_code()
            codegen._engine._defined_symbols.update(defined)
        return self


_open = 0
"""Compilations that have begun, each but the first for the one before. Who changes it holds Numba's lock."""


@contextmanager
def compiling() -> Iterator[None]:
    """Inside, a function is compiled or loaded."""
    global _open
    _open += 1
    try:
        yield
    finally:
        _open -= 1


def is_inner() -> bool:
    """Whether the function that is compiled now is for another one, not for Python."""
    return _open > 1


def forget_inner(overloads: dict[tuple[Any, ...], Any], types: tuple[Any, ...]) -> None:
    """Forget a function's overload for some types where Python wants to call it and cannot."""
    if not is_inner() and types in overloads and not overloads[types].library.has_code:
        del overloads[types]


def _flags(self: Any, flags: Any) -> Any:
    """Flags of a compilation."""
    flags.no_cpython_wrapper |= is_inner()
    flags.no_cfunc_wrapper = True
    return flags


_numba_key, _numba_set, _numba_add = (
    caching.Cache._index_key,
    codegen.JITCPUCodegen.set_env,
    dispatcher._DispatcherBase.add_overload,
)


def _key(self: Any, signature: Any, code: Any) -> tuple[Any, ...]:
    """Under which an overload is kept: its last part says whether it is inner."""
    return (*_numba_key(self, signature, code), is_inner())


def _set_env(self: Any, name: str, environment: Any) -> None:
    """Say where the objects of a function are, if there is machine code of it."""
    if self._engine.is_symbol_defined(name):
        _numba_set(self, name, environment)


def _add_overload(self: Any, result: Any) -> None:
    """Note what was compiled; an inner function is not offered to Python."""
    if is_inner():
        self.overloads[tuple(result.signature.args)] = result
    else:
        _numba_add(self, result)


FunctionIdentity._unique_ids = iter(partial(secrets.randbits, NUMBER_BITS), -1)
codegen.JITCPUCodegen._library_class = Library
codegen.JITCPUCodegen.set_env = _set_env  # type: ignore[method-assign]
caching.Cache._index_key = _key  # type: ignore[method-assign]
dispatcher._FunctionCompiler._customize_flags = _flags  # type: ignore[attr-defined]
dispatcher._DispatcherBase.add_overload = _add_overload  # type: ignore[method-assign, assignment]
