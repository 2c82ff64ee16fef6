"""A mapping as text: a table of its partitions, and the fused graph as Graphviz DOT."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from sweeper.views.graph_map.kernels import KernelLoad
from sweeper.views.graph_map.partitions import GraphMap, Partition, PlacedKernel
from sweeper.views.text import aligned

BOTTLENECKS = {"compute": "#0072B2", "memory": "#E69F00", "network": "#009E73", "none": "#999999"}
"""What may limit a partition, and its colour in drawings."""

TIMES = ("compute", "memory", "network", "total")
HEADS = ("PARTITION", "STAGE", *(f"{name.upper()} ms" for name in TIMES), "BOTTLENECK", "ON CHIP %", "KERNELS")


def text(graph_map: GraphMap) -> str:
    """Partitions as a table, the sums, the objective, and what is proved about the mapping."""
    order = [kernel.name for kernel in graph_map.kernels]
    rows = []
    for part in graph_map.partitions:
        on_chip = f"{100.0 * share(part.sram_B, graph_map.sram_capacity_B):.1f}"
        head = (str(part.number), str(part.stage or ""))
        rows.append((*head, *_times(part), part.bottleneck, on_chip, ranges(part.kernels, order)))
    rows.append(("sum", "", *_times(*graph_map.partitions), "", "", ""))
    columns = [column for column in zip(HEADS, *rows) if any(column[1:])]
    table = aligned(list(zip(*columns)))
    lines = [f"{heading(graph_map)}, study {graph_map.study}, point {graph_map.point_id}", table]
    if graph_map.weights_stay:
        lines.append("weights stay on chip over microbatches: times are without loading them")
    if graph_map.infeasible_reason:
        lines.append(f"infeasible: {graph_map.infeasible_reason}")
    lines.append(f"graph time {_ms(graph_map.graph_time_s)} ms, {graph_map.objective} {graph_map.objective_value:.6g}")
    return "\n".join([*lines, *certificate(graph_map), proof(graph_map)])


KERNEL_HEADS = (
    *("KERNEL", "TYPE", "SHARD", "PARTITION", "GFLOP", "RESULT", "WEIGHTS", "COMPUTE ms", "MEMORY ms", "NETWORK ms"),
)
MESSAGE_HEADS = ("KERNEL", "COLLECTIVE", "BYTES", "TIME ms", "PAID BY")
ABOUT_KERNELS = "kernels, one microbatch on one chip; compute and memory as if each were a partition of its own"
ABOUT_MESSAGES = (
    "messages; a re-layout is sent by the producer; for another pass by its first reader (published: the producer)"
)


def kernel_tables(graph_map: GraphMap) -> str:
    """What each kernel takes by itself: its split, work and times, and what it sends at whose cost."""
    loads = graph_map.loads
    sent = [
        (load.name, each.channel, size_text(each.bytes_B), _short(each.seconds_s), each.paid_by)
        for load in loads
        for each in load.messages
    ]
    tables = [ABOUT_KERNELS, aligned([KERNEL_HEADS, *map(_kernel_row, loads)], right=range(3, 10))]
    tables += [ABOUT_MESSAGES, aligned([MESSAGE_HEADS, *sent], right=(2, 3))] if sent else ["no kernel sends a message"]
    return "\n".join(tables)


def mapped(graph_map: GraphMap | None) -> Iterator[str]:
    """The section of a hand calculation about a mapping, where there is one."""
    if graph_map is not None:
        yield from ("", "MAPPING", text(graph_map), kernel_tables(graph_map))


def _kernel_row(load: KernelLoad) -> tuple[str, ...]:
    sizes = (size_text(size) if size else "" for size in (load.result_B, load.weights_B))
    times = (_short(seconds) for seconds in (load.compute_s, load.memory_s, load.network_s))
    return load.name, load.type, load.shard, str(load.partition), f"{1e-9 * load.flops:.4g}", *sizes, *times


def _short(seconds: float | None) -> str:
    """Milliseconds in four digits; a dash where it is not known, nothing for no time."""
    return "-" if seconds is None else f"{1e3 * seconds:.4g}" if seconds else ""


def heading(graph_map: GraphMap) -> str:
    """What is mapped, onto what, how."""
    count = len(graph_map.partitions)
    parts = f"{len(graph_map.kernels)} kernels in {count} partition{'s' * (count != 1)}"
    return f"{graph_map.workload} on {graph_map.chip}, {graph_map.partitioning}: {parts}"


SCOPE = "no other mapping of these stages (and of this sharding, unless it is joint)"


def proof(graph_map: GraphMap) -> str:
    """What is known about the best partitioning."""
    if graph_map.mapping_time_s is None or graph_map.mapping_bound_s is None:
        return "the mapping is given; nothing is proved about a better one"
    if graph_map.mapping_exact:
        return f"proved optimal: {SCOPE} takes less than {_ms(graph_map.mapping_time_s)} ms"
    bound = f"{SCOPE} takes less than {_ms(graph_map.mapping_bound_s)} ms"
    return f"best found {_ms(graph_map.mapping_time_s)} ms, {bound}: gap {100.0 * (graph_map.gap or 0.0):.2f} %"


def certificate(graph_map: GraphMap) -> Iterator[str]:
    """Time, bound and gap of a mapping that was searched for, and whether it is proved to be the best."""
    if graph_map.mapping_time_s is not None and graph_map.mapping_bound_s is not None:
        bounds = f"time {_ms(graph_map.mapping_time_s)} ms, bound {_ms(graph_map.mapping_bound_s)} ms"
        proved = "proved" if graph_map.mapping_exact else "not proved"
        yield f"certificate: {bounds}, gap {100.0 * (graph_map.gap or 0.0):.2f} %, {proved}"


def ranges(names: Iterable[str], order: list[str]) -> str:
    """Names with runs of three and more as `first..last`, as a workload's partitionings are written."""
    places = sorted(order.index(name) for name in names)
    breaks = [0, *(i for i, (a, b) in enumerate(pairwise(places), 1) if b != a + 1), len(places)]
    runs = [places[low:high] for low, high in pairwise(breaks)]
    return ", ".join(
        f"{order[run[0]]}..{order[run[-1]]}" if len(run) > 2 else ", ".join(order[i] for i in run) for run in runs
    )


def share(part: float, whole: float) -> float:
    """A part of a whole; none of a whole that is zero."""
    return part / whole if whole > 0.0 else 0.0


def size_text(size_B: float) -> str:
    """Bytes in three digits: 838 MB."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_B >= scale:
            return f"{size_B / scale:.3g} {unit}"
    return f"{size_B:.3g} B"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.6g}"


def _times(*parts: Partition) -> Iterator[str]:
    """The times of some partitions together."""
    return (_ms(sum(getattr(part, f"{name}_s") for part in parts)) for name in TIMES)


def dot(graph_map: GraphMap) -> str:
    """The fused graph as Graphviz DOT: a cluster per partition in the colour of its bottleneck, tensors with bytes,
    dashed where they pass through memory (or the network, between stages) from one partition to another."""
    kernels = {kernel.name: kernel for kernel in graph_map.kernels}
    lines = [
        f"digraph {_quoted(f'{graph_map.study} point {graph_map.point_id}')} {{",
        f"  label={_quoted(heading(graph_map))}; rankdir=TB; compound=true;",
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname="Helvetica", fontsize=10];',
        '  edge [fontname="Helvetica", fontsize=8];',
    ]
    for part in graph_map.partitions:
        colour = BOTTLENECKS[part.bottleneck]
        title = f"{named(part)}: {_ms(part.total_s)} ms, {part.bottleneck}"
        lines += [
            f"  subgraph cluster_{part.number} {{",
            f'    label={_quoted(title)}; style="rounded,filled"; color="{colour}"; fillcolor="{colour}33";',
            *(f"    {_quoted(name)} [label={_quoted(labelled(kernels[name]))}];" for name in part.kernels),
            "  }",
        ]
    for edge in graph_map.edges:
        style = "dashed" if edge.cut else "solid"
        ends = f"{_quoted(edge.producer)} -> {_quoted(edge.consumer)}"
        lines.append(f"  {ends} [label={_quoted(size_text(edge.size_B))}, style={style}];")
    return "\n".join([*lines, "}", ""])


def named(part: Partition) -> str:
    """Number of a partition, with its pipeline stage where the graph has several."""
    return str(part.number) if part.stage is None else f"{part.number} @{part.stage}"


def labelled(kernel: PlacedKernel) -> str:
    """A kernel with the dimension that the tensor-parallel group splits."""
    return kernel.name if kernel.shard == "none" else f"{kernel.name} /{kernel.shard}"


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
