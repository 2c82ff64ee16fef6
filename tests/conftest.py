"""Shared by all tests: the kernel cache, Hypothesis's examples, and one Ray cluster."""

import gc
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis.internal.conjecture import providers

import sweeper  # noqa: F401 - before numba and kernels, so that the kernel cache is in use
from tests.support.examples import register, waited_for

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
# Ray reads its token once per process: all its clusters share this one.
os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))

# Compiling makes many objects that live: looking for circles among them all the time costs a tenth of it.
gc.set_threshold(100_000, 20, 100)

register()
# Hypothesis also draws constants that stand in the modules loaded so far: which, depends on the tests that ran before.
assert callable(providers._get_local_constants)
providers._get_local_constants = providers.Constants


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest file first, so that processes that share the tests end at about the same time; what is marked for the
    night is left to it, and to who looks for a planted fault."""
    items.sort(key=lambda item: item.path.stem != "test_command_examples")
    left = [item for item in items if item.get_closest_marker("nightly")] if waited_for() else []
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in set(left)]


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    """A head without processors and two machines with two each, all on this one; this process is connected to it.

    Starting it takes some ten seconds, hence once in a process. A test that removes a machine adds one again.
    """
    # Workers unpickle the plans of the tests, which are defined here.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    directory = tempfile.mkdtemp(prefix="swt-", dir="/tmp")
    os.environ["RAY_TMPDIR"] = directory
    import ray
    from ray.cluster_utils import Cluster

    memory = 100 << 20
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "object_store_memory": memory,
            "include_dashboard": False,
            # A killed machine is noticed after one second instead of fifteen.
            "_system_config": {"health_check_period_ms": 300, "health_check_failure_threshold": 3},
        },
    )
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=2, object_store_memory=memory)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(directory, ignore_errors=True)
