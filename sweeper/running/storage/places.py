"""Which folder a path or an address names."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from sweeper.running.storage.folders import Folder, LocalFolder


def folder(where: str | Path | Folder) -> Folder:
    """The folder that a path or an address (`s3://bucket/prefix?region=...`, `gs://`, `az://`, `file://`) names.

    Raises EnvironmentFault for an address that cannot be opened.
    """
    if isinstance(where, Path):
        return LocalFolder(where.expanduser().absolute())
    if not isinstance(where, str):
        return where
    if "://" not in where:
        return folder(Path(where))
    if where.startswith("file://"):
        return LocalFolder(Path(unquote(urlsplit(where).path)))
    from sweeper.running.storage.objects import ObjectFolder  # Its library is loaded only where it is used.

    return ObjectFolder(where)
