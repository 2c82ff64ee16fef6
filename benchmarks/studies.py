"""The studies that are measured: shipped ones, and variants of them that are sized to the purpose."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from sweeper.library.library import builtin_specs
from sweeper.planning.plan import Plan, make_plan


def shipped(name: str) -> Plan:
    """Plan of a study that comes with sweeper, its kernels compiled."""
    return warm(builtin_specs() / "studies" / f"{name}.yaml")


def variant(directory: Path, name: str, edit: Callable[[dict[str, Any]], None]) -> Plan:
    """Plan of a shipped study after `edit` has changed its content."""
    text = (builtin_specs() / "studies" / f"{name}.yaml").read_text()
    content = yaml.safe_load(text)
    edit(content)
    path = directory / f"{name}_variant.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return warm(path)


def dense(directory: Path, bandwidths: int, links: int, mode: str) -> Plan:
    """dse80_dense with so many memory bandwidths and link bandwidths."""

    def edit(content: dict[str, Any]) -> None:
        axes = content["axes"]
        for axis, count in (("memory.bandwidth", bandwidths), ("link.bandwidth", links)):
            low, high, _ = axes[axis]["geomspace"]
            axes[axis] = {"geomspace": [low, high, count]}
        content["output"] = {"mode": mode}

    return variant(directory, "dse80_dense", edit)


def spread(plan: Plan, points: float) -> list[int]:
    """Chunks of at least so many points in all, evenly spread over a study."""
    step = max(1, int(plan.point_count // points))
    while step > 1 and points_of(plan, range(0, plan.chunk_count, step)) < points:
        step -= 1
    return list(range(0, plan.chunk_count, step))


def points_of(plan: Plan, chunks: range | list[int]) -> int:
    """Points of some chunks."""
    return sum(plan.chunk_points(chunk) for chunk in chunks)


def warm(path: Path) -> Plan:
    """Plan of a study file, its kernels compiled."""
    plan = make_plan(path)
    plan.warm_up()
    return plan
