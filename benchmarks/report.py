"""Write measured figures into the pages: `python -m benchmarks.report`, which `make bench-figures` ends with.

What stands between the two marks in README.md, docs/speed.md and docs/compare.md is written here from
benchmarks/figures.json, and by nobody else: tests compare.
"""

import json
import re
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.table import shown

ROOT = Path(__file__).parents[1]
FIGURES = Path(__file__).with_name("figures.json")
BEGIN, END = "<!-- figures: make bench-figures -->", "<!-- end of figures -->"

BRIEF = """From study to rows on one core: {dense} million points/s in a search with mappings from YAML,
{llama} million over mappings of Llama 3 70B, {calculon} million in Calculon's search of GPT-3 175B,
{peer} million where all of ten million points are kept. These take {script} times as long in plain
Python, {flat} in NumPy over points, {axes} in NumPy and {jax} in JAX over axes, {cpp} in C++, all
written for them. First rows of `dse80`, nothing compiled, no Ray: {first} s.
[More](docs/speed.md)."""
"""What the README says."""

SAID = {
    "dense": ("search", "dse80_dense, mode best", 1e6),
    "llama": ("search", "llama, mode best", 1e6),
    "calculon": ("calculon", "from chunk number to rows", 1e6),
    "peer": ("peer", "sweeper, mode all", 1e6),
    "script": ("peer", "  sweeper / plain Python script", 1.0),
    "flat": ("peer", "  sweeper / NumPy over points in blocks", 1.0),
    "axes": ("peer", "  sweeper / NumPy over axes that broadcast", 1.0),
    "jax": ("peer_jax", "  sweeper / JAX, float64", 1.0),
    "cpp": ("peer_cpp", "  sweeper / C++ over axes, -O3 -march=native", 1.0),
    "first": ("start", "dse80, empty cache: first chunk", 1.0),
}
"""Part, row and unit of every figure in it."""
WIDTH = 118


class Peer(NamedTuple):
    """A peer, what it did, and where our figure, its own and their ratio are; what is no row is said as it stands."""

    name: str
    did: str
    part: str
    ours: str
    theirs: str
    ratio: str


ALL, SEARCHED, DESIGNED = "sweeper, mode all", "from chunk number to rows", "4 chips on an interposer: a design"
MAPPED = "gpt3_1t on sn30, as published: a mapping"
PEERS = (
    Peer("plain Python, own", "ten million points, all kept", "peer", ALL, "plain Python script",
         "  sweeper / plain Python script"),
    Peer("NumPy over points, own", "the same", "peer", ALL, "NumPy over points in blocks",
         "  sweeper / NumPy over points in blocks"),
    Peer("NumPy over axes, own", "the same", "peer", ALL, "NumPy over axes that broadcast",
         "  sweeper / NumPy over axes that broadcast"),
    Peer("JAX over axes, float64, own", "the same", "peer_jax", ALL, "JAX, float64", "  sweeper / JAX, float64"),
    Peer("C++ over axes, own", "the same", "peer_cpp", ALL, "C++ over axes, -O3 -march=native",
         "  sweeper / C++ over axes, -O3 -march=native"),
    Peer("C++, own", "innermost loops of `dse80_dense`", "kernel", "-", "-",
         "dse80_dense: Numba / C++ -O3 -march=native -ffp-contract=off"),
    Peer("Calculon, cited", "its search of GPT-3 175B on 4,096 GPUs", "calculon", SEARCHED, "252 points/s",
         "the same / Calculon"),
    Peer("its equations in plain Python, own", "the same", "calculon", SEARCHED, "Calculon's equations in plain Python",
         "the same / plain Python"),
    Peer("DFModel's solver, cited (72 cores)", "GPT-3 1T on SN30, a mapping", "mapping", MAPPED,
         "gpt3_1t on sn30, as published: the published solver", "gpt3_1t on sn30, as published: published / ours"),
    Peer("HiGHS on a compact program, own", "the same, 6 partitions", "mapping", MAPPED,
         "gpt3_1t on sn30, 6 partitions: HiGHS", "gpt3_1t on sn30, 6 partitions: HiGHS / ours"),
    Peer("CATCH, cited", "A100 with 48 memory dies", "package", "A100, 48 memory dies: a design",
         "A100, 48 memory dies: the tool itself", "-"),
    Peer("Chiplet Actuary, cited", "four chips on an interposer", "package", DESIGNED,
         "4 chips on an interposer: the tool itself", "-"),
    Peer("its closed form in plain Python, own", "the same", "package", DESIGNED, "-",
         "4 chips on an interposer: closed form in plain Python / ours"),
    Peer("DeepFlow of 2021, cited", "split of a chip for an LSTM, 10 starts", "pathfinding",
         "LSTM LM, 1 chip: 10 starts", "5 CPU h", "-"),
)  # fmt: skip
SLOWER = """**Where sweeper is slower.** On a sweep whose sums fall apart by axes, NumPy over axes, JAX and C++ written
for it are up to {most:.0f} times as fast. A package of which a closed form is known takes as long as in plain Python.
With nothing compiled the first rows of `dse80` take {first} (`make bench ARGS="--only start"`), and its search makes
{search} (`make bench ARGS="--only search"`; {target}). For a few thousand points a script is done sooner."""
"""What the comparison says below its table."""


def figure(row: dict[str, Any]) -> str:
    """Value and unit."""
    return f"{row['value'] if isinstance(row['value'], str) else shown(row['value'])} {row['unit']}".strip()


def target(row: dict[str, Any]) -> str:
    """The target, and whether it is met."""
    return "" if row["met"] is None else f"{row['target']}: {'met' if row['met'] else 'missed'}"


def brief(report: dict[str, Any]) -> str:
    """The README's paragraph."""
    found = {}
    for name, (part, what, unit) in SAID.items():
        [value] = [row["value"] for row in report["parts"][part]["rows"] if row["what"] == what]
        found[name] = f"{value / unit:,.0f}" if value / unit >= 10.0 else f"{value / unit:.2g}"
    return textwrap.fill(BRIEF.replace("\n", " ").format(**found), WIDTH, break_on_hyphens=False)


def full(report: dict[str, Any]) -> str:
    """The tables of all parts."""
    machine = report["machine"]
    tools = ", ".join(f"{name} {machine[name]}" for name in ("numba", "numpy", "pyarrow", "ray"))
    lines = [f"{machine['machine']}; Python {machine['python']}, {tools}; {machine['g++']}; {machine['sources']}."]
    for name, part in report["parts"].items():
        loads = part["load_average"]
        lines += ["", f"### {name}: {part['title']}", f"Load average {loads['before']} to {loads['after']}.", ""]
        lines += ["| what | figure | target | |", "|---|---|---|---|"]
        for row in part["rows"]:
            what = row["what"].replace("  ", "&nbsp;&nbsp;") if row["what"].startswith("  ") else row["what"]
            lines.append(f"| {what} | {figure(row)} | {target(row)} | {row['note']} |")
    return "\n".join(lines)


def compared(report: dict[str, Any]) -> str:
    """Measured speed beside peers."""
    rows = {name: {row["what"]: row for row in part["rows"]} for name, part in report["parts"].items()}

    def said(peer: Peer, what: str) -> str:
        return figure(rows[peer.part][what]) if what in rows[peer.part] else what

    lines = ["| peer | what | sweeper | peer | ratio | `make bench ARGS=...` |", "|---|---|---|---|---|---|"]
    for peer in PEERS:
        figures = [said(peer, peer.ours), said(peer, peer.theirs), said(peer, peer.ratio).removesuffix(" CPU")]
        figures[-1] = figures[-1].removesuffix(" x")
        lines.append(f'| {peer.name} | {peer.did} | {" | ".join(figures)} | `"--only {peer.part}"` |')
    first, search = rows["start"]["dse80, empty cache: first chunk"], rows["search"]["dse80, mode best"]
    ratios = (rows[peer.part][peer.ratio]["value"] for peer in PEERS if peer.ratio in rows[peer.part])
    slower = SLOWER.format(
        most=1.0 / min(ratios), first=figure(first), search=figure(search), target=f"target {search['target']}"
    )
    return "\n".join(lines) + "\n\n" + textwrap.fill(slower.replace("\n", " "), WIDTH, break_on_hyphens=False)


PAGES = {"README.md": brief, "docs/speed.md": full, "docs/compare.md": compared}
"""Pages, and what stands between the marks of each."""


def written(text: str, figures: str) -> str:
    """A page with these figures between its marks."""
    return re.sub(f"{BEGIN}\n.*?{END}", lambda _: f"{BEGIN}\n{figures}\n{END}", text, flags=re.DOTALL)


def main() -> None:
    """Write all pages."""
    report = json.loads(FIGURES.read_text(encoding="utf-8"))
    for name, figures in PAGES.items():
        page = ROOT / name
        page.write_text(written(page.read_text(encoding="utf-8"), figures(report)), encoding="utf-8")


if __name__ == "__main__":
    main()
