"""Where the files lie that tests read."""

from pathlib import Path

from sweeper.commands.shared import places

ROOT = Path(__file__).parents[1]
"""The checkout."""
DATA = ROOT / "tests" / "data"
"""Tables that tests compare with; see the README there."""
STUDIES = [path for path in sorted((ROOT / "specs" / "studies").glob("*.yaml")) if not places(path)]
"""Our studies of systems; those of placements are others."""
