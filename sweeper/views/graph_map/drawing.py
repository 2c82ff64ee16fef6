"""A drawing of a mapping: a box for each on-chip partition, with its kernels, the tensors between them, and its times.

Lengths are inches, downwards from the top. Partitions stand in the order in which they run, in rows like text; a
partition of many kernels has several stacks. A box has its top in `y0` and its lower edge in `y1`.
"""

import math
from collections.abc import Iterable, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch, Rectangle
from matplotlib.transforms import Bbox

from sweeper.views.graph_map.partitions import Edge, GraphMap, Partition, PlacedKernel
from sweeper.views.graph_map.text import BOTTLENECKS, heading, labelled, named, share
from sweeper.views.pictures.canvas import save_picture, styled_figure

KERNEL_WIDTH, KERNEL_HEIGHT, PITCH = 1.5, 0.24, 0.36
HEAD, FOOT, MARGIN, GAP = 0.46, 0.42, 0.2, 0.34
TALLEST = 12
"""Kernels of a stack, unless the partition would become wider than high."""
WIDER = 1.6
"""Width over height that the drawing aims at."""
NARROWEST = 7.6
"""Width of the title and the legend."""
LETTERS = 24
"""Letters that fit into a kernel."""
SHADES = {"forward": "#FFFFFF", "backward": "#E4E4E4", "update": "#C8C8C8"}
"""Colour of a kernel by phase."""
TENSORS: dict[bool, dict[str, Any]] = {
    False: {"color": "#333333", "linestyle": "-", "label": "tensor on chip"},
    True: {"color": "#AA3333", "linestyle": "--", "label": "tensor between partitions"},
}
"""Lines of tensors, by whether partitions lie between."""
STEPS = ("compute", "memory", "network")


def stack_of(kernels: int) -> int:
    """Kernels above each other in a partition of so many."""
    stacks = math.ceil(kernels / max(TALLEST, math.ceil(2.0 * math.sqrt(kernels))))
    return math.ceil(kernels / stacks)


def rect_size(kernels: int) -> tuple[float, float]:
    """Width and height of a partition of so many kernels."""
    rows = stack_of(kernels)
    stacks = math.ceil(kernels / rows)
    return stacks * (KERNEL_WIDTH + MARGIN) + MARGIN, HEAD + rows * PITCH + FOOT


def rects(partitions: Iterable[Partition]) -> dict[int, Bbox]:
    """Where each partition stands, by number: in rows that break where the whole is smallest and WIDER than high."""
    sizes = {part.number: rect_size(len(part.kernels)) for part in partitions}
    widest = accumulate(width + GAP for width, _ in sizes.values())
    layouts = [rows_within(sizes, limit) for limit in widest]
    return min(layouts, key=lambda layout: max(max(rect.x1, WIDER * rect.y1) for rect in layout.values()))


def rows_within(sizes: Mapping[int, tuple[float, float]], limit: float) -> dict[int, Bbox]:
    """Boxes of these sizes one after the other, in rows that are no wider than `limit` or have one box."""
    layout: dict[int, Bbox] = {}
    left = top = tallest = 0.0
    for number, (width, height) in sizes.items():
        if left > 0.0 and left + width > limit:
            left, top, tallest = 0.0, top + tallest + GAP, 0.0
        layout[number] = Bbox.from_bounds(left, top, width, height)
        left, tallest = left + width + GAP, max(tallest, height)
    return layout


def places(part: Partition, rect: Bbox) -> dict[str, Bbox]:
    """Where each kernel of a partition stands."""
    rows = stack_of(len(part.kernels))
    left, top = rect.x0 + MARGIN, rect.y0 + HEAD
    corners = [(left + i // rows * (KERNEL_WIDTH + MARGIN), top + i % rows * PITCH) for i in range(len(part.kernels))]
    return {name: Bbox.from_bounds(*at, KERNEL_WIDTH, KERNEL_HEIGHT) for name, at in zip(part.kernels, corners)}


def draw_graph_map(graph_map: GraphMap, path: str | Path) -> Path:
    """Draw a mapping as an SVG file at `path`; equal mappings give equal bytes. Gives the path."""
    layout = rects(graph_map.partitions)
    kernels = {kernel.name: kernel for kernel in graph_map.kernels}
    at = {name: rect for part in graph_map.partitions for name, rect in places(part, layout[part.number]).items()}
    width = max(NARROWEST, *(rect.x1 for rect in layout.values()))
    height = max(rect.y1 for rect in layout.values())
    busiest = max(sum(getattr(part, f"{name}_s") for name in STEPS) for part in graph_map.partitions)
    largest = max((edge.size_B for edge in graph_map.edges), default=0.0)
    note = f"{graph_map.study}, point {graph_map.point_id}: {1e3 * graph_map.graph_time_s:.4g} ms per microbatch"
    with styled_figure((width + 0.3, height + 1.5), heading(graph_map), note) as figure:
        panel = figure.subplots()
        panel.set(xlim=(-0.1, width + 0.1), ylim=(height + 0.1, -0.1), aspect="equal")
        panel.set_axis_off()
        for part in graph_map.partitions:
            _partition(panel, part, layout[part.number], graph_map.sram_capacity_B, busiest)
        for edge in graph_map.edges:
            _tensor(panel, edge, at, share(edge.size_B, largest))
        for name, rect in at.items():
            _kernel(panel, kernels[name], rect)
        figure.legend(handles=_key(), title="A partition has the colour of what limits it; all bars are to one scale.",
                      title_fontsize=7.0, loc="outside lower center", ncols=4, frameon=False, fontsize=7.0)  # fmt: skip
        return save_picture(figure, Path(path))


def _middle(rect: Bbox) -> tuple[float, float]:
    return (rect.x0 + rect.x1) / 2.0, (rect.y0 + rect.y1) / 2.0


def _rounded(panel: Axes, rect: Bbox, radius: float, **look: Any) -> None:
    style = f"round,pad=0,rounding_size={radius}"
    panel.add_patch(FancyBboxPatch((rect.x0, rect.y0), rect.width, rect.height, style, **look))


def _partition(panel: Axes, part: Partition, rect: Bbox, capacity_B: float, busiest_s: float) -> None:
    """The box of a partition: number, time and on-chip need above, the times as a bar below, all to one scale."""
    colour = BOTTLENECKS[part.bottleneck]
    _rounded(panel, rect, 0.08, facecolor=colour, alpha=0.13, linewidth=0.0)
    _rounded(panel, rect, 0.08, fill=False, edgecolor=colour, linewidth=1.0)
    left = rect.x0 + MARGIN
    panel.text(left, rect.y0 + 0.14, f"{named(part)}   {1e3 * part.total_s:.4g} ms", va="center", fontsize=8.0,
               fontweight="bold")  # fmt: skip
    about = f"{part.bottleneck}, {100.0 * share(part.sram_B, capacity_B):.3g} % on chip"
    panel.text(left, rect.y0 + 0.32, about, va="center", fontsize=6.5)
    for name in STEPS:
        length = KERNEL_WIDTH * share(getattr(part, f"{name}_s"), busiest_s)
        panel.add_patch(Rectangle((left, rect.y1 - 0.34), length, 0.1, color=BOTTLENECKS[name], linewidth=0.0))
        left += length
    shares = " ".join(f"{name[0]} {1e3 * getattr(part, f'{name}_s'):.3g}" for name in STEPS)
    panel.text(rect.x0 + MARGIN, rect.y1 - 0.13, f"{shares} ms", va="center", fontsize=6.0, color="#444444")


def _kernel(panel: Axes, kernel: PlacedKernel, rect: Bbox) -> None:
    _rounded(panel, rect, 0.04, facecolor=SHADES[kernel.phase], edgecolor="#444444", linewidth=0.6, zorder=3)
    label = labelled(kernel)
    shown = label if len(label) <= LETTERS else label[: LETTERS - 1] + "…"
    panel.text(*_middle(rect), shown, ha="center", va="center", fontsize=6.5, zorder=4)


def _tensor(panel: Axes, edge: Edge, at: Mapping[str, Bbox], size: float) -> None:
    """An arrow, wider for more bytes: straight to the kernel below, in a bow past others, dashed between partitions."""
    source, target = at[edge.producer], at[edge.consumer]
    (source_x, source_y), (target_x, target_y) = _middle(source), _middle(target)
    ends, bow = ((source_x, source.y1), (target_x, target.y0)), 0.0
    if source.x0 == target.x0 and not edge.cut:
        if not math.isclose(target.y0 - source.y0, PITCH):
            ends, bow = ((source.x1, source_y), (target.x1, target_y)), -0.28 / abs(target.y0 - source.y0)
    elif target.x0 > source.x0:
        ends, bow = ((source.x1, source_y), (target.x0, target_y)), 0.1 * (target.x0 - source.x1 >= KERNEL_WIDTH)
    panel.add_patch(
        FancyArrowPatch(
            *ends,
            arrowstyle="-|>",
            mutation_scale=5.0,
            connectionstyle=f"arc3,rad={bow:.4f}",
            shrinkA=0.0,
            shrinkB=0.0,
            linewidth=0.4 + 0.8 * math.sqrt(size),
            **TENSORS[edge.cut],
            alpha=0.55 if edge.cut else 1.0,
            zorder=2,
        )
    )


def _key() -> list[object]:
    """Entries of the legend."""
    return [
        *(Patch(color=BOTTLENECKS[name], label=name) for name in STEPS),
        *(Line2D([], [], **line) for line in TENSORS.values()),
        *(Patch(facecolor=shade, edgecolor="#444444", label=f"{phase} kernel") for phase, shade in SHADES.items()),
    ]
