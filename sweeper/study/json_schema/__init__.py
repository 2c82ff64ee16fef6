"""JSON Schema of studies and library files, for editors: made of the words that the reader checks with.

A schema says which keys there are and what each may be; it completes them and underlines what is wrong while one types.
What depends on several places at once (a column that two axes give, a mapping that does not fit its chips) only the
reader knows.
"""

from sweeper.errors import UsageFault, unknown
from sweeper.library.library import FOLDERS, Library
from sweeper.study.json_schema.entries import entries_schema
from sweeper.study.json_schema.studies import study_schema
from sweeper.study.json_schema.values import Schema


def schema_of(kind: str, library: Library) -> Schema:
    """JSON Schema of a study (kind `study`), or of a library file of a kind, with the names of a library.

    Raises UsageFault for a kind that there is not.

    >>> from sweeper.library.library import Library
    >>> schema_of("chip", Library.over())["title"]
    'A library file of sweeper: chip'
    """
    if kind == "study":
        return study_schema(library)
    if kind not in FOLDERS:
        raise UsageFault(unknown("kind", kind, ["study", *FOLDERS]))
    return entries_schema(kind)
