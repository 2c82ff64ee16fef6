"""A place in an object store (S3, Google Cloud, Azure), as `obstore` reaches it.

Addresses are those of Polars, so that what writes a part and what reads it are told the same: the options of an address
(`s3://bucket/results?region=eu-west-1`) are those of the `object_store` library, on which both stand. Credentials come
from the environment (`AWS_ACCESS_KEY_ID`, ...) or from the machine's role, never from an address, which is printed.

A part is one request, so a killed writer leaves no half of an upload behind. Requests that a store turns away for want
of capacity are repeated after a pause that grows.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property, partial
from io import RawIOBase
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import from_url

from sweeper.errors import EnvironmentFault
from sweeper.running.storage.folders import BLOCK_B, Data, Folder, StoredFile

if TYPE_CHECKING:
    from obstore.store import RetryConfig

RETRY: "RetryConfig" = {
    "max_retries": 20,
    "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=5), "base": 2.0},
    "retry_timeout": timedelta(seconds=60),
}
"""A request is repeated up to 20 times within a minute, after pauses that grow to 5 s."""

SECRET = ("secret", "token", "password", "access_key", "account_key", "sas")
"""Parts of the names of options that no address may have."""

ENDPOINT, ALLOW_HTTP = "aws_endpoint_url", "allow_http"

CLIENT = frozenset({ALLOW_HTTP, "allow_invalid_certificates", "connect_timeout", "proxy_url", "timeout"})
"""Options of the connection, which `obstore` takes apart from those of the store."""


@dataclass(frozen=True)
class ObjectFolder(Folder):
    """A prefix in an object store. There are no renames, hence no drafts.

    `address` is that of the prefix, with its options.
    """

    address: str

    def __post_init__(self) -> None:
        _ = self.store

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectFolder, (self.address,)

    def __str__(self) -> str:
        return self.address

    @cached_property
    def options(self) -> Mapping[str, str]:
        return store_options(self.address)

    @cached_property
    def store(self) -> Any:
        """The store at the prefix. Raises EnvironmentFault if it cannot be opened."""
        client = {name: value for name, value in self.options.items() if name in CLIENT}
        config = {name: value for name, value in self.options.items() if name not in CLIENT}
        try:
            return from_url(_bare(self.address), config=config, client_options=client, retry_config=RETRY)  # type: ignore[call-overload]
        except (BaseError, ValueError, TypeError, OSError) as error:
            raise EnvironmentFault(f"cannot open {self.address!r}: {_line(error)}") from None

    @property
    def name(self) -> str:
        return urlsplit(self.address).path.rstrip("/").rpartition("/")[2]

    def folders(self) -> list[str]:
        with self._asking(""):
            found = obstore.list_with_delimiter(self.store)["common_prefixes"]
        return sorted(prefix.rstrip("/").rpartition("/")[2] for prefix in found)

    def inside(self, name: str) -> "ObjectFolder":
        parts = urlsplit(self.address)
        return replace(self, address=urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}")))

    def uri(self, path: str) -> str:
        return f"{_bare(self.address).rstrip('/')}/{path}"

    def put(self, path: str, data: Data) -> None:
        with self._asking(path):
            obstore.put(self.store, path, memoryview(data).cast("B"), use_multipart=False)

    def put_new(self, path: str, data: Data) -> bool:
        try:
            with self._asking(path):
                obstore.put(self.store, path, memoryview(data).cast("B"), mode="create", use_multipart=False)
        except FileExistsError:
            return self.get(path) == bytes(data)  # The answer to an earlier attempt of ours may have been lost.
        return True

    def get(self, path: str) -> bytes | None:
        try:
            with self._asking(path):
                return bytes(obstore.get(self.store, path).bytes())
        except FileNotFoundError:
            return None

    def sha256(self, path: str) -> str:
        digest = hashlib.sha256()
        with self._asking(path):
            for block in obstore.get(self.store, path).stream(min_chunk_size=BLOCK_B):
                digest.update(block)
        return digest.hexdigest()

    def open(self, path: str) -> RawIOBase:
        with self._asking(path):
            return _Stored(obstore.open_reader(self.store, path), partial(self._asking, path))

    def entries(self, path: str) -> dict[str, StoredFile]:
        with self._asking(path):
            found = obstore.list_with_delimiter(self.store, path or None)["objects"]
        named = {entry["path"].rpartition("/")[2]: entry for entry in found}
        return {
            name: StoredFile(entry["size"], entry["last_modified"].timestamp())
            for name, entry in named.items()
            if name and not name.startswith(".")
        }

    def remove(self, path: str) -> None:
        try:
            with self._asking(path):
                obstore.delete(self.store, path)
        except FileNotFoundError:
            return

    def remove_all(self, paths: Sequence[str]) -> None:
        with suppress(FileNotFoundError), self._asking(""):
            obstore.delete(self.store, list(paths))

    def sweep(self, path: str) -> None:
        return None

    @contextmanager
    def _asking(self, path: str) -> Iterator[None]:
        """Turn the library's errors into those of a file system, in a line each."""
        try:
            yield
        except AlreadyExistsError:
            raise FileExistsError(f"{self.uri(path)} exists") from None
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{self.uri(path)}: {_line(error)}") from None
        except BaseError as error:
            raise OSError(f"{self.uri(path)}: {_line(error)}") from None


class _Stored(RawIOBase):
    """An object as a file that can seek: Parquet readers ask for its end first."""

    def __init__(self, file: Any, asking: Callable[[], AbstractContextManager[None]]) -> None:
        self._file, self._asking = file, asking

    def readinto(self, buffer: Any) -> int:
        with self._asking():
            data = bytes(self._file.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())


def store_options(address: str) -> dict[str, str]:
    """Options of an address as `object_store` and Polars take them. Raises EnvironmentFault for one that is a secret.

    Besides those of `object_store` the names that Arrow has for S3 are known. An address without encryption is
    allowed where one is given.

    >>> store_options("s3://bucket/results?region=eu-west-1&endpoint_override=127.0.0.1:9000&scheme=http")
    {'region': 'eu-west-1', 'aws_endpoint_url': 'http://127.0.0.1:9000', 'allow_http': 'true'}
    """
    parts = urlsplit(address)
    bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    secret = [name for name in given if any(word in name.casefold() for word in SECRET)]
    if "@" in parts.netloc or secret:
        what = f"the option {secret[0]!r}" if secret else "a user"
        raise EnvironmentFault(
            f"{bare!r} has {what}: addresses are printed, so credentials belong into the "
            "environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, AZURE_...)"
        )
    scheme, endpoint = given.pop("scheme", "https"), given.pop("endpoint_override", "")
    if endpoint:
        given[ENDPOINT] = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
    if any(value.startswith("http://") for value in given.values()):
        given[ALLOW_HTTP] = "true"
    return given


def _bare(address: str) -> str:
    """An address without its options."""
    return urlunsplit(urlsplit(address)._replace(query=""))


def _line(error: Exception) -> str:
    """What an error says, without the library's own account of where it arose."""
    return " ".join(str(error).partition("\n\nDebug source")[0].split())[:500]
