"""Where the files lie that tests read."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The checkout."""
DATA = ROOT / "tests" / "data"
"""Tables that tests compare with; see the README there."""
