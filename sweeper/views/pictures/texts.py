"""Texts of a figure: where each stands, which of them overlap or are cut, and room for those.

What is measured is the box of every text that is drawn, in pixels of the figure. Labels may lie on lines, never on
another text.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from textwrap import fill, wrap
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Text

SLACK_PT = 1.0
"""How far boxes may reach into each other or over the edge: they are a little larger than what is drawn in them."""
ROUNDS = 12
"""How often a figure is laid out at most until its texts stand well."""
MOST_GROWTH, GROWTH = 3.0, 1.6
"""How much larger than it was made a figure gets at most, and in one round."""
SHORTEST_LINE = 24
"""Characters of a line below which no text is broken."""


@dataclass(frozen=True, eq=False)
class Printed:
    """A text that is drawn, and its box: left, bottom, right, top in pixels."""

    text: "Text"
    box: npt.NDArray[np.float64]

    @property
    def length(self) -> float:
        """Extent along the line of text, in pixels."""
        width, height = self.box[2:] - self.box[:2]
        return float(height if self.text.get_rotation() == 90.0 else width)


@dataclass(frozen=True)
class Misplaced:
    """What is wrong with the texts of a figure: pairs that overlap, and texts that the edge cuts."""

    overlaps: tuple[tuple[Printed, Printed], ...]
    cut: tuple[Printed, ...]

    def lines(self) -> list[str]:
        """A line for each mistake."""
        pairs = [f"{one.text.get_text()!r} overlaps {other.text.get_text()!r}" for one, other in self.overlaps]
        return pairs + [f"{each.text.get_text()!r} is cut by the edge" for each in self.cut]


def misplaced(figure: "Figure") -> Misplaced:
    """What is wrong with the texts of a figure as it is laid out; it must have been drawn once."""
    found = printed(figure)
    slack = SLACK_PT * figure.dpi / 72.0
    if not found:
        return Misplaced((), ())
    boxes = np.array([each.box for each in found])
    low, high = boxes[:, :2], boxes[:, 2:]
    common = np.minimum(high[:, None], high[None]) - np.maximum(low[:, None], low[None])
    over = np.argwhere(np.triu((common > slack).all(axis=2), k=1))
    size = np.array([figure.bbox.width, figure.bbox.height])
    cut = np.flatnonzero(((low < -slack) | (high > size + slack)).any(axis=1))
    return Misplaced(tuple((found[i], found[j]) for i, j in over), tuple(found[i] for i in cut))


def printed(figure: "Figure") -> list[Printed]:
    """The texts of a figure that are drawn, in the order of its artists."""
    from matplotlib.text import Text

    # An annotation's own box holds its arrow, too.
    return [Printed(text, np.array(Text.get_window_extent(text).extents)) for text in _texts(figure)]


def _texts(artist: "Artist") -> Iterator["Text"]:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.text import Annotation, Text

    if not artist.get_visible():
        return
    if isinstance(artist, Text):
        # The box of an annotation of a place outside its axes, which is not drawn, is less than nothing.
        box = artist.get_tightbbox() if isinstance(artist, Annotation) else None
        if artist.get_text().strip() and (box is None or box.width > 0.0):
            yield artist
        return
    if isinstance(artist, Axis):
        yield from chain(_texts(artist.label), _texts(artist.offsetText), (text for text, _ in _tick_labels(artist)))
        return
    for child in artist.get_children():
        if not (isinstance(artist, Axes) and isinstance(child, Axis) and not artist.axison):
            yield from _texts(child)


def _tick_labels(axis: "Axis") -> Iterator[tuple["Text", float]]:
    """Labels of the ticks in view, each with its place on the axis."""
    scale = axis.get_transform()
    low, high = sorted(scale.transform(np.asarray(axis.get_view_interval(), dtype=np.float64)))
    for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
        at = float(scale.transform(np.array([tick.get_loc()], dtype=np.float64))[0])
        if low - 1e-6 * (high - low) <= at <= high + 1e-6 * (high - low) and tick.get_visible():
            yield from ((text, tick.get_loc()) for label in (tick.label1, tick.label2) for text in _texts(label))


def settle(figure: "Figure") -> None:
    """Lay a figure out so that no text overlaps another or is cut, and keep that layout.

    Labels of crowded axes are turned (names) or thinned (numbers), long lines broken, and the figure grown; fonts keep
    their size. Equal figures settle alike. What cannot be mended in ROUNDS stays as it is.
    """
    most = MOST_GROWTH * figure.get_size_inches()
    for _ in range(ROUNDS):
        if not _laid_out(figure):
            _resize(figure, 1.25 * figure.get_size_inches(), most)
            continue
        wrong = misplaced(figure)
        if not wrong.overlaps and not wrong.cut:
            break
        _mend(figure, wrong, most)
    else:
        _laid_out(figure)
    figure.set_layout_engine("none")


def _laid_out(figure: "Figure") -> bool:
    """Lay a figure out; False if it is too small for what stands beside its axes."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        figure.draw_without_rendering()
    return not any("collapsed to zero" in str(each.message) for each in told)


def _mend(figure: "Figure", wrong: Misplaced, most: npt.NDArray[np.float64]) -> None:
    """One round: what can be turned, thinned or broken is; where nothing can, the figure grows, to `most` inches."""
    axis_of = {
        text: axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for text, _ in _tick_labels(axis)
    }
    crowded = {
        axis_of[one.text]: None
        for one, other in wrong.overlaps
        if one.text in axis_of and axis_of[one.text] is axis_of.get(other.text)
    }
    rooms = _rooms(figure)
    at_fault = {each.text: each for each in chain(wrong.cut, *wrong.overlaps)}
    mended = [
        *(_turn(axis) or _thin(axis) for axis in crowded),
        *(_break(each, rooms[text]) for text, each in at_fault.items() if text in rooms),
    ]
    if any(mended):
        return
    factors = [_factors(one.box, other.box) for one, other in wrong.overlaps]
    beyond = [_beyond(each.box, figure) for each in wrong.cut]
    grown = figure.get_size_inches() + np.max([(0.0, 0.0), *beyond], axis=0)
    _resize(figure, grown * np.max([(1.0, 1.0), *factors], axis=0), most)


def _resize(figure: "Figure", size: npt.NDArray[np.float64], most: npt.NDArray[np.float64]) -> None:
    width, height = np.minimum(size, most)
    figure.set_size_inches(float(width), float(height))


def _factors(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> tuple[float, float]:
    """By what width and height of the figure must be multiplied for two boxes to part, one of which is 1."""
    common = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    apart = np.abs(one[2:] + one[:2] - other[2:] - other[:2]) / 2.0
    needed = 1.03 + common / np.maximum(apart, 1e-9)
    if needed.min() > MOST_GROWTH:  # Two texts on one spot stay there in any figure.
        return 1.0, 1.0
    x, y = np.minimum(needed, GROWTH)
    return (float(x), 1.0) if needed[0] <= needed[1] else (1.0, float(y))


def _beyond(box: npt.NDArray[np.float64], figure: "Figure") -> tuple[float, float]:
    """How far a box is beyond the edges of a figure, on both sides together, in inches."""
    size = np.array([figure.bbox.width, figure.bbox.height])
    x, y = (np.maximum(-box[:2], 0.0) + np.maximum(box[2:] - size, 0.0)) / figure.dpi
    return float(x), float(y)


def _rooms(figure: "Figure") -> dict["Text", float]:
    """How long a line may be, in pixels, for texts that may have several: titles, and labels of axes."""
    from matplotlib.text import Text

    rooms = dict.fromkeys([*figure.texts, *(legend.get_title() for legend in figure.legends)], float(figure.bbox.width))
    for axes in figure.axes:
        width, height = float(axes.bbox.width), float(axes.bbox.height)
        own = [child for child in axes.get_children() if isinstance(child, Text) and child not in axes.texts]
        rooms |= dict.fromkeys([*own, axes.xaxis.label], width) | {axes.yaxis.label: height}
    return rooms


def _break(each: Printed, room: float) -> bool:
    """Break a text that is longer than there is room; False if it is not, or would get lines that are too short."""
    lines = each.text.get_text().split("\n")
    longest = max(map(len, lines))
    width = int(0.95 * longest * room / each.length)
    if width >= longest or width < SHORTEST_LINE:
        return False
    broken = "\n".join(_evenly(line, width) for line in lines)
    if broken == each.text.get_text():
        return False
    each.text.set_text(broken)
    return True


def _evenly(line: str, width: int) -> str:
    """A line broken into as few as possible that are no longer than `width`, and about as long as each other."""
    fewest = len(wrap(line, width, break_long_words=False))
    even = next(at for at in range(1, width + 1)
                if len(wrap(line, at, break_long_words=False)) <= fewest)  # fmt: skip
    return fill(line, even, break_long_words=False)


def _turn(axis: "Axis") -> bool:
    """Turn names below panels upright, in all panels that share them; False if they are, or are no such names."""
    if axis is not axis.axes.xaxis or not _named(axis) or any(text.get_rotation() for text, _ in _tick_labels(axis)):
        return False
    for axes in axis.axes.get_shared_x_axes().get_siblings(axis.axes):
        axes.tick_params(axis="x", rotation=90.0)
    return True


def _named(axis: "Axis") -> bool:
    """Whether ticks were set with their labels."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    return isinstance(axis.get_major_locator(), FixedLocator) and isinstance(axis.get_major_formatter(), FuncFormatter)


def _thin(axis: "Axis") -> bool:
    """Leave out labels of numbers that stand on the one before; False if they are names, all of which are needed."""
    from matplotlib.ticker import FixedLocator, NullFormatter

    if _named(axis):
        return False
    majors = set(axis.get_majorticklocs())
    labels = list(_tick_labels(axis))
    if sum(at in majors for _, at in labels) > 1 and any(at not in majors for _, at in labels):
        axis.set_minor_formatter(NullFormatter())
        return True
    kept = _apart(
        [(np.array(text.get_window_extent().extents), at) for text, at in labels], 0 if axis is axis.axes.xaxis else 1
    )
    for places, locate in ((majors, axis.set_major_locator), (set(axis.get_minorticklocs()), axis.set_minor_locator)):
        locate(FixedLocator([at for at in kept if at in places]))
    return True


def _apart(labels: Sequence[tuple[npt.NDArray[np.float64], float]], along: int) -> list[float]:
    """Places of labels, each clear of the one kept before it."""
    kept: list[float] = []
    end = -np.inf
    for box, at in sorted(labels, key=lambda label: label[0][along]):
        if box[along] >= end:
            kept.append(at)
            end = box[along + 2] + 0.25 * (box[3] - box[1])
    return kept
