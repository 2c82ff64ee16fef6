"""A number that the vocabulary knows: unit, name, meaning and allowed range."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Attribute:
    """A number that a library entry or a study may give.

    `unit` is a pint unit in SI; `column` the suffix of the engine's column; `default` is None when the number must
    be given. Numbers are never negative, and not 0 where `positive`; `maximum` is the largest allowed value.
    """

    unit: str
    column: str
    about: str
    default: float | None = None
    positive: bool = True
    integer: bool = False
    maximum: float = math.inf
