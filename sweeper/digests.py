"""By which digest a run is known."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def content_hash(resolved: Mapping[str, Any]) -> str:
    """Hex digest of all that the bytes of a dataset depend on, as its plan resolves it.

    >>> content_hash({"b": 1, "a": (2, 3)}) == content_hash({"a": [2, 3], "b": 1})
    True
    """
    return hashlib.sha256(json.dumps(resolved, sort_keys=True).encode()).hexdigest()
