"""What we change in Numba's cache: with `numba_code` and `numba_time` all that we use of its private parts (of 0.68).

Numba unpickles whatever lies in its cache files, so that a damaged one ends the process with a traceback and a planted
one runs code in it. Here nothing is unpickled before it is known to be what a process of this user has written:

- Damage (a file cut short, emptied, with flipped bits): an index file begins with a digest of its content, and holds
  the digest of every data file. What does not fit is as good as missing and compiled again.
- Files from elsewhere (a cache unpacked or copied from another machine, a file planted under our name while the
  directory stood open): the index file's digest is keyed (HMAC-SHA256) with a secret that stands beside the caches
  (mode 0600), and covers the name of the file and the version of the source, so that neither a forged file nor
  a genuine one in a wrong place is taken.
- Files of other users: are not read at all, see `own_files`.
- Two processes that write at a time (see `turns`) where files cannot be locked: one may lose what the other has found,
  and compile it again. None calls the wrong machine code, because the index says by digest which data file it means.

Who can read the secret can do all that this user can; there is no defence against that, nor is one needed.

Numba imports this module itself, by the name in NUMBA_CACHE_LOCATOR_CLASSES (`cache.configure`), before it makes the
cache of the first function: so nobody waits for the import of Numba who does not need it.
"""

import hashlib
import hmac
import os
import pickle
import secrets
from collections.abc import Callable, Hashable
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import caching, dispatcher, sigutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.serialize import dumps

from sweeper.engine.compilation.cache import KERNELS, cache_dir, plugin_hash, secret_path
from sweeper.engine.compilation.numba_code import compiling, forget_inner, is_inner
from sweeper.engine.compilation.numba_time import rarely_collecting, without_algebra
from sweeper.engine.compilation.own_files import ADVICE, own_directory, read_own, write_own
from sweeper.engine.compilation.turns import Turns
from sweeper.errors import EnvironmentFault

SECRET_B = DIGEST_B = 32

SECRET = secret_path()
TURNS = Turns(cache_dir())
"""The turns of this process to compile."""
ENTRIES: dict[tuple[Any, tuple[Any, ...]], None] = {}
"""Functions that this process has called from Python and that are kept in caches, with the types of the arguments."""


class OwnLocator(caching.UserProvidedCacheLocator):
    """Numba's locator of functions in files whose cache is at NUMBA_CACHE_DIR, in directories that are ours."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)
        self._cache_path += plugin_hash(py_func.__module__ or "")[:16]

    def ensure_cache_path(self) -> None:
        """Raises EnvironmentFault if the directory is not ours."""
        own_directory(Path(self.get_cache_path()))


class VerifiedFiles:
    """The cache files of one function: an index of its overloads (.nbi), and the machine code of each (.nbc).

    Takes the place of `numba.core.caching.IndexDataCacheFile`.
    """

    def __init__(self, cache_path: str, filename_base: str, source_stamp: object) -> None:
        self._folder = Path(cache_path)
        self._base = filename_base
        self._index_path = self._folder / f"{filename_base}.nbi"
        self._meaning = f"{self._folder.name}/{self._index_path.name} {source_stamp!r}\n".encode()

    def load(self, key: Hashable) -> Any:
        """What was saved for a key; None if nothing was, or if a file is damaged or not ours."""
        data = self.content(key)
        return None if data is None else pickle.loads(data)

    def holds(self, key: Hashable) -> bool:
        """Whether `load` finds something."""
        return self.content(key) is not None

    def save(self, key: Hashable, value: Any) -> None:
        """Save what was compiled for a key. Raises EnvironmentFault."""
        self.put(key, dumps(value))

    def put(self, key: Hashable, data: bytes) -> None:
        """Save what `content` gave elsewhere. Raises EnvironmentFault."""
        index = self._index()
        number = index[key][0] if key in index else len(index) + 1
        write_own(self._data_path(number), data)
        self._save_index(index | {key: (number, hashlib.sha256(data).digest())})

    @property
    def has_entry(self) -> bool:
        """Whether something was saved that Python can call."""
        return not all(inner for *_, inner in self._index())

    def flush(self) -> None:
        """Forget everything."""
        self._save_index({})

    def content(self, key: Hashable) -> bytes | None:
        """What was saved for a key, as it is kept."""
        number, digest = self._index().get(key, (0, b""))
        data = read_own(self._data_path(number)) if digest else None
        return data if data is not None and hashlib.sha256(data).digest() == digest else None

    def _data_path(self, number: int) -> Path:
        return self._folder / f"{self._base}.{number}.nbc"

    def _index(self) -> dict[Any, tuple[int, bytes]]:
        """Number and digest of the data file of every overload; empty if there is no index of ours."""
        content = read_own(self._index_path) or b""
        genuine = hmac.compare_digest(content[:DIGEST_B], self._sign(content[DIGEST_B:]))
        return pickle.loads(content[DIGEST_B:]) if genuine else {}

    def _save_index(self, index: dict[Hashable, tuple[int, bytes]]) -> None:
        payload = dumps(index)
        write_own(self._index_path, self._sign(payload) + payload)

    def _sign(self, payload: bytes) -> bytes:
        return hmac.digest(_secret(SECRET), self._meaning + payload, "sha256")


class Later:
    """Stands for the cache of one of our functions until somebody asks something of it: there are eight hundred, of
    which a process calls some, and each takes a quarter of a millisecond."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_function":  # of a copy that is being made
            raise AttributeError(name)
        _numba_caching(self._function)
        return getattr(self._function._cache, name)


_numba_caching = dispatcher.Dispatcher.enable_caching


def _caching(self: Any) -> None:
    """`Dispatcher.enable_caching`; others' sources may change before they are first called, ours are hashed already."""
    if f"{self.py_func.__module__}.".startswith(f"{KERNELS}."):
        self._cache = Later(self)
    else:
        _numba_caching(self)


def is_compiled(function: Any) -> bool:
    """Whether a compiled function is in the cache, for calls from Python with some types, or cannot be."""
    files = getattr(function._cache, "_cache_file", None)
    return files is None or bool(files.has_entry)


@cache
def _secret(path: Path) -> bytes:
    """The secret of this user's caches, made when first needed; a damaged one is replaced, and all with it."""
    for _ in range(2):
        present, secret = os.path.lexists(path), read_own(path, secret=True)  # in this order: others may make it now
        if secret is not None and len(secret) == SECRET_B:
            return secret
        if present:
            path.unlink()
        draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        write_own(draft, secrets.token_bytes(SECRET_B))
        try:
            os.link(draft, path)  # unlike a renaming, this leaves the secret of a process that was faster
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            draft.replace(path)
        draft.unlink(missing_ok=True)
    raise EnvironmentFault(f"cannot keep the secret of the kernel cache in {str(path)!r}: {ADVICE}")


def _in_turn(compile_now: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`Dispatcher.compile`, which loads or compiles an overload, such that it waits for its turn before it compiles."""

    def compile_in_turn(self: Any, signature: Any) -> Any:
        # Numba's own lock comes first wherever both are taken, so that threads cannot wait for each other.
        with global_compiler_lock, compiling(), rarely_collecting():
            without_algebra()
            types = tuple(sigutils.normalize_signature(signature)[0])
            forget_inner(self.overloads, types)
            files = getattr(self._cache, "_cache_file", None)
            if files is None or types in self.overloads:
                return compile_now(self, signature)
            if not is_inner():
                ENTRIES[self, types] = None
            key = self._cache._index_key(signature, self.targetctx.codegen())
            name = f"{self.py_func.__module__}.{self.py_func.__name__}"
            leave = TURNS.leave  # another thread may end it
            if leave is not None and not is_inner() and not files.holds(key):
                leave(name, types)
            with TURNS.turn(name, lambda: files.holds(key)):
                return compile_now(self, signature)

    return compile_in_turn


caching.IndexDataCacheFile = VerifiedFiles
dispatcher.Dispatcher.enable_caching = _caching  # type: ignore[method-assign]
dispatcher.Dispatcher.compile = _in_turn(dispatcher.Dispatcher.compile)  # type: ignore[method-assign, assignment]
