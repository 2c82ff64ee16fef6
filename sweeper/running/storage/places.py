"""Which folder a path or an address names."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from sweeper.errors import UsageFault
from sweeper.running.storage.folders import Folder, LocalFolder


def folder(where: str | Path | Folder) -> Folder:
    """The folder that a path or an address (`s3://bucket/prefix?region=...`, `gs://`, `az://`, `file://`) names.

    Raises UsageFault for an empty path and for what is no address of a folder, EnvironmentFault for an address that
    cannot be opened.
    """
    if isinstance(where, Path):
        return LocalFolder(where.expanduser().absolute())
    if not isinstance(where, str):
        return where
    if not where:
        raise UsageFault("an empty path names no folder; the one you are in is .")
    if where.startswith("file:"):
        return LocalFolder(_path_of(where))
    if "://" not in where:
        return folder(Path(where))
    from sweeper.running.storage.objects import ObjectFolder  # Its library is loaded only where it is used.

    return ObjectFolder(where)


def _path_of(address: str) -> Path:
    """The path that `file:///path` names."""
    parts = urlsplit(address)
    if not address.startswith("file:///") or parts.query or parts.fragment:
        raise UsageFault(f"{address} is no address of a folder: write a path, or file:///path without host and options")
    return Path(unquote(parts.path))
