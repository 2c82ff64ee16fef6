"""Measurements of sweeper: `python -m benchmarks` prints all of them in one run, next to their targets."""
