"""sweeper against a plain Python script of the kind that this field uses, on the same points.

The script (benchmarks/peer.py) is a stand-in that was written for this comparison; no other tool is run here.
"""

import statistics
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.peer import Parts, System, evaluate
from benchmarks.studies import warm
from benchmarks.table import Row
from benchmarks.timing import cpu_s
from sweeper.library.library import Library

STUDY = Path(__file__).with_name("peer.yaml")
RESULTS = ("iteration_time_s", "utilisation", "system_price_usd", "system_power_W")
SAMPLE = 2000


def measure(directory: Path, quick: bool) -> list[Row]:
    """Points per second of both, and how far their numbers differ."""
    plan = warm(STUDY)
    chunks = [0] if quick else list(range(plan.chunk_count))
    tables = [plan.evaluate(chunk) for chunk in chunks]
    rounds = 1 if quick else 3
    ours_s = statistics.median(cpu_s(lambda: [plan.evaluate(chunk) for chunk in chunks]) for _ in range(rounds))
    table = pa.concat_tables(tables)
    chosen = np.linspace(0, table.num_rows - 1, 100 if quick else SAMPLE, dtype=int)
    sample = table.take(pa.array(chosen))
    inputs = [_inputs(plan.study.library, {**plan.contents.constants, **row}) for row in sample.to_pylist()]
    found: list[tuple[float, ...]] = []
    peer_s = statistics.median(cpu_s(lambda: found.extend(evaluate(*each) for each in inputs)) for _ in range(rounds))
    ours = np.stack([sample[name].to_numpy() for name in RESULTS], axis=1)
    theirs = np.array(found[: len(inputs)])
    difference = float(np.abs(theirs / ours - 1.0).max())
    rate, peer_rate = table.num_rows / ours_s, len(inputs) / peer_s
    stand_in = "a stand-in (benchmarks/peer.py), not an existing tool; fixed sharding, published assumptions"
    return [
        Row("plain Python script", peer_rate, "points/s", note=f"{stand_in}; {len(inputs):,} points"),
        Row("sweeper, same assumptions, every point kept", rate, "points/s", note=f"{table.num_rows:,} points"),
        Row("sweeper / script", rate / peer_rate, "x CPU"),
        Row("largest relative difference", difference, "", note=", ".join(RESULTS)),
    ]


def _inputs(library: Library, row: Mapping[str, object]) -> tuple[System, Parts, Parts]:
    """What the script needs to know of one point."""

    def number(kind: str, name: str, attribute: str) -> float:
        return float(library.find(kind, name).values[attribute].number)

    chip, memory = str(row["chip"]), str(row["memory"])
    extents = tuple(int(str(row[f"dim_{axis}"])) for axis in "xyz")
    kinds = library.find("topology", str(row["topology"])).dimensions
    links = [str(row["link"]), *[str(row["outer_link"])] * (len(kinds) - 1)]
    inner, outer = float(str(row["link_bandwidth_Bps"])), float(str(row["outer_link_bandwidth_Bps"]))
    peak = 2.0 * number("chip", chip, "lanes") * number("chip", chip, "stages") * number("chip", chip, "cores")
    system = System(
        peak_flops=peak * number("chip", chip, "frequency"),
        memory_bandwidth=float(str(row["memory_bandwidth_Bps"])),
        bandwidths=(inner, *[outer] * (len(kinds) - 1)),
        kinds=tuple(kinds),
        extents=extents[: len(kinds)],
    )

    def parts(of_chip: str, of_memory: str, of_link: str, of_port: str) -> Parts:
        return Parts(
            number("chip", chip, of_chip),
            number("memory", memory, of_memory),
            tuple(number("link", link, of_link) for link in links),
            tuple(number("link", link, of_port) for link in links),
        )

    price = parts("price", "price_per_bandwidth", "price_per_bandwidth", "switch_price_per_bandwidth")
    return system, price, parts("power", "energy", "energy", "switch_energy")
