"""Run the measurements and print them: `python -m benchmarks [--only PART] [--quick] [--json FILE]`."""

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click

import sweeper  # noqa: F401  # first of all: it says where compiled kernels are kept
from benchmarks import (
    calculon,
    crowd,
    factored,
    inner_kernel,
    mapping,
    package_cost,
    pathfinding,
    peer_cpp,
    peer_jax,
    peers,
    placement,
    scheduling,
    search,
    start,
    storage,
)
from benchmarks.machine import describe, load_average
from benchmarks.table import NotMeasured, Row, section

PARTS: dict[str, tuple[str, Callable[[Path, bool], list[Row]]]] = {
    "search": ("points per second of one core, from chunk number to rows", search.measure),
    "factored": ("evaluation by stages against evaluation point by point", factored.measure),
    "kernel": ("the innermost loops: Numba against C++", inner_kernel.measure),
    "ray": ("one job in this process, on one and on two Ray workers", scheduling.measure),
    "crowd": ("one driver and 10,000 actors that sleep", crowd.measure),
    "parquet": ("evaluation against storage", storage.measure),
    "peer": ("a plain Python script and NumPy on the same points", peers.measure),
    "peer_cpp": ("C++ on the same points", peer_cpp.measure),
    "peer_jax": ("JAX on the same points", peer_jax.measure),
    "start": ("before the first row: commands, plans, compilation", start.measure),
    "calculon": ("the whole search of another tool, against its rate and its equations", calculon.measure),
    "mapping": ("mappings of graphs onto a chip, against solvers, by size, and shared in a sweep", mapping.measure),
    "package": ("cost of packages: one design, dies per wafer, Monte Carlo draws", package_cost.measure),
    "pathfinding": ("chips from budgets: searches, a grid of 10^9 points, chips alone", pathfinding.measure),
    "placement": ("operators on units: simulated, judged, placed, and in a sweep", placement.measure),
}


@click.command()
@click.option("--only", type=click.Choice(list(PARTS)), help="Measure one part.")
@click.option("--quick", is_flag=True, help="Tiny sizes: shows that everything runs, the figures mean little.")
@click.option(
    "--json",
    "json_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the figures to a file, beside those that it has of other parts.",
)
def main(only: str | None, quick: bool, json_path: Path | None) -> None:
    """Measure sweeper on this machine and print every figure next to its target.

    CPU means processor seconds of the measuring process. Figures in wall time need an idle machine; the load average
    is printed with every part. Where a part cannot be measured, the others are, and the exit code is 1.
    """
    started = time.monotonic()
    machine = describe()
    for name, value in machine.items():
        click.echo(f"{name}: {value}")
    if quick:
        click.echo("quick: the sizes are too small for figures to be compared")
    click.echo()
    found: dict[str, dict[str, object]] = {}
    failures: list[str] = []
    for name in [only] if only else PARTS:
        title, measure = PARTS[name]
        before = load_average()
        try:
            with tempfile.TemporaryDirectory(prefix="sweeper-bench-") as directory:
                rows = measure(Path(directory), quick)
        except NotMeasured as missing:
            failures.append(f"{name} could not be measured: {missing}")
            click.echo(failures[-1], err=True)
            continue
        loads = {"before": before, "after": load_average()}
        click.echo(section(f"{name}: {title} (load {before} to {loads['after']})", rows))
        found[name] = {"title": title, "load_average": loads, "rows": [row.plain() for row in rows]}
    seconds = time.monotonic() - started
    click.echo(f"{seconds:.0f} s in all")
    if json_path is not None:
        timed = {"quick": quick, "seconds": round(seconds, 1)}
        known = {**_others(json_path, machine, quick), **found}
        report = {
            "machine": machine,
            **timed,
            "parts": {name: known[name] for name in PARTS if name in known},
            "failures": failures,
        }
        json_path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    if failures:
        raise SystemExit(1)


def _others(path: Path, machine: dict[str, str], quick: bool) -> dict[str, object]:
    """Parts of a report that were measured before, on this machine, with these sources and at these sizes."""
    known = json.loads(path.read_text()) if path.exists() else {}
    alike = (known.get("machine"), known.get("quick")) == (machine, quick)
    return dict(known["parts"]) if alike else {}


if __name__ == "__main__":
    main()
