"""Chunks into files, anywhere: executors, store, locks, progress."""

BACKENDS = {
    "local": "sweeper.running.local.LocalExecutor",
    "ray": "sweeper.running.on_ray.executor.RayExecutor",
}
"""Class of each of our backends, loaded when it is used: a run without Ray needs neither its start-up time nor Ray."""
