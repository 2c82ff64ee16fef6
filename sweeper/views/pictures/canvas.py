"""What all pictures share: colours, markers, style, an empty figure, its files, and how numbers are written.

Every figure is written as PNG and SVG, and the same content gives the same bytes (for one version of Matplotlib).
Matplotlib is imported by the functions that draw, not by whoever imports this module.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeper.errors import UsageFault, brief
from sweeper.files import whole
from sweeper.reading.checks import is_name
from sweeper.views.pictures.texts import settle

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#000000")
"""Okabe and Ito's colours, apart for every kind of colour vision."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

STYLE: dict[Any, object] = {
    "svg.hashsalt": "sweeper",
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 150.0,
    "savefig.facecolor": "white",
}

FORMATS: dict[str, dict[str, None]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
"""File types written, and the metadata withheld from each so that equal figures are equal bytes."""


@contextmanager
def styled_figure(size: tuple[float, float], title: str, study: str) -> Iterator["Figure"]:
    """An empty figure of `size` inches in the house style, with title and study."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        figure.suptitle(f"{title}\nstudy {study}" if study else title, fontsize=11.0)
        yield figure


def picture_stem(directory: str | Path, picture: str, workload: str) -> Path:
    """Where a picture of a workload lies, without its ending. Raises UsageFault if no file can be named after it."""
    if not is_name(workload):
        raise UsageFault(f"no picture can be named after the workload {brief(workload)}")
    return Path(directory) / f"{picture}_{workload}"


def picture_path(name: str) -> Path:
    """A path whose ending is a format that pictures have. Raises UsageFault."""
    path = Path(name)
    if path.suffix.lstrip(".") not in FORMATS:
        raise UsageFault(f"a picture is {' or '.join(f'.{kind}' for kind in FORMATS)}, not {name!r}")
    return path


def save_figure(figure: "Figure", stem: Path) -> list[Path]:
    """Write the figure in every format, its texts clear of each other, without dates and versions. Gives the paths."""
    settle(figure)
    return [_write(figure, stem.with_name(f"{stem.name}.{kind}")) for kind in FORMATS]


def save_picture(figure: "Figure", path: Path) -> Path:
    """Write the figure in the format that the path ends in, its texts clear of each other. Gives the path."""
    settle(figure)
    return _write(figure, path)


def _write(figure: "Figure", path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = path.suffix.lstrip(".")
    with whole(path) as draft:
        figure.savefig(draft, format=kind, metadata=FORMATS[kind])
    return path


def three_digits(value: float) -> str:
    """A number to three significant digits: 0.0123, 4.50, 789, 12346, 1.20e-07."""
    return f"{value:#.3g}".rstrip(".") if abs(value) < 1000.0 else f"{value:.0f}"
