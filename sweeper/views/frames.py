"""Datasets of our own studies, evaluated in this process."""

from functools import cache

import polars as pl

from sweeper.planning.plan import Plan, make_plan


def bundled_plan(study: str) -> Plan:
    """Plan of one of our studies, by its name."""
    return make_plan(study)


@cache
def frame_of(study: str) -> pl.DataFrame:
    """Dataset of one of our studies, evaluated in this process."""
    plan = bundled_plan(study)
    parts = [plan.evaluate(chunk) for chunk in range(plan.chunk_count)]
    return pl.concat([pl.DataFrame(part) for part in parts])
