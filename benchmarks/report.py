"""Write measured figures into the pages: `python -m benchmarks.report`, which `make bench-figures` ends with.

What stands between the two marks in README.md and docs/speed.md is written here from benchmarks/figures.json, and by
nobody else: tests compare.
"""

import json
import re
import textwrap
from pathlib import Path
from typing import Any

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


PAGES = {"README.md": brief, "docs/speed.md": full}
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
