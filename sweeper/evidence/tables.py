"""Evidence as tables: the scoreboard, fitted constants with their errors, published claims beside our figures."""

from collections.abc import Mapping
from typing import Any

from sweeper.evidence.claims import claims, published
from sweeper.evidence.measured_rows import INFERRED
from sweeper.views.frames import frame_of
from sweeper.views.text import listing

MEASURES = {"median_ape": "MEDIAN", "mean_ape": "MEAN", "p90_ape": "P90", "max_ape": "MAX", "signed": "SIGNED"}
"""Statistics of relative errors in percent, and their headings."""


LEFT_OUT = {"task": "TASK", "low": "P5", "high": "P95", "runs": "RUNS", "stacks": "STACKS LEFT OUT IN TURN"}
"""Headings of the bands of measured over predicted time without a calibration."""


def in_percent(value: float | None) -> str:
    """A percentage with two digits after the point."""
    return "-" if value is None else f"{value:.2f}"


def scores(board: Mapping[str, Mapping[str, Any]]) -> str:
    """The scoreboard as a table: errors of every set in percent, beside the target and what others report."""
    rows = [
        {"set": name, **{count: entry[count] for count in ("rows", "modelled", "called_infeasible")}}
        | {measure: in_percent(entry[measure]) for measure in MEASURES}
        | {"memory": in_percent(entry.get("memory_balanced_accuracy")), "target": entry["target"] or "-"}
        | {"peers": "; ".join(f"{peer['name']}: {peer['error']}" for peer in entry["peers"]) or "-"}
        for name, entry in board.items()
    ]
    columns = {"set": "SET", "rows": "ROWS", "modelled": "MODELLED", "called_infeasible": "MISFIT", **MEASURES}
    table = listing(rows, columns | {"memory": "MEMORY", "target": "TARGET", "peers": "PEERS"})
    left = [
        f"not modelled: {name}: {count} rows, {reason}"
        for name, entry in board.items()
        for reason, count in entry["reasons"].items()
    ]
    misfit = "MISFIT: rows that ran, but need more memory than there is by our count"
    inferred = f"{INFERRED.strip()}: what rows leave open (recomputation, shards, microbatch) is the fastest that fits"
    about = f"{misfit}; {inferred}; errors in percent; MEMORY: balanced accuracy of whether a run fits, in percent"
    return "\n".join([table, *left, about])


def fitted(fits: Mapping[str, Mapping[str, Any]]) -> str:
    """Fitted constants with their intervals, and errors in percent, as tables."""
    blocks = []
    for name, fit in fits.items():
        constants = [{"constant": constant, **interval} for constant, interval in fit["constants"].items()]
        heads = {"constant": "CONSTANT", "value": "VALUE", "low": "LOW", "high": "HIGH", "unit": "UNIT"}
        kinds = {
            "in_sample": "in sample",
            "left_out": f"left out by {fit['left_out_by']}",
            "source_left_out": f"left out by source ({fit['sources']})",
        }
        errors = [
            {"error": title} | {measure: in_percent(fit[kind][measure]) for measure in MEASURES}
            for kind, title in kinds.items()
            if fit[kind] is not None
        ]
        title = f"{name}: {fit['rows']} rows"
        blocks.append(
            "\n".join([title, listing(constants, heads), listing(errors, {"error": "ERROR (%)", **MEASURES})])
        )
    return "\n\n".join(blocks)


def published_claims(name: str) -> list[dict[str, object]]:
    """Published figures beside ours. Raises UsageFault for a set of claims that does not exist."""
    datasets = published(name).datasets
    before = {key: frame_of(dataset.as_published) for key, dataset in datasets.items()}
    after = {key: frame_of(dataset.full_physics) for key, dataset in datasets.items()}
    return claims(name, before, after)
