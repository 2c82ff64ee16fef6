"""The calibration of a chip of which a study says none: the default of its generation, or of all chips."""

from sweeper.library.entries import Entry
from sweeper.library.library import Library
from sweeper.words.system import ENTRY_DEFAULTS

DEFAULT = str(ENTRY_DEFAULTS["calibration"])
"""The default of all chips; those of generations begin with its name."""
TAG = "generation_default"
"""Tag of those of generations."""


def is_default(entry: Entry) -> bool:
    """Whether a calibration is one of a chip about whose software nothing is said."""
    return entry.name == DEFAULT or TAG in entry.tags


def default_calibration(library: Library, chip: str) -> str:
    """Name of the calibration that a chip has where a study names none.

    >>> from sweeper.library.library import builtin_specs
    >>> default_calibration(Library.load([builtin_specs()]), "h200_sxm5_141gb")
    'uncalibrated_hopper'
    """
    generations = (name for name in library.names("calibration") if name.startswith(f"{DEFAULT}_"))
    entries = (library.find("calibration", name) for name in generations)
    wanted = library.find("chip", chip)
    found = (entry.name for entry in entries if is_default(entry) and entry.belongs_to(wanted))
    return next(found, DEFAULT)
