"""A few rounds of `make chaos`."""

import subprocess
import sys

import pytest

from tests.chaos.faults import FAULTS
from tests.places import ROOT

FEW = ("raylet STOP", "gcs KILL", "worker TERM", "driver KILL")


@pytest.mark.slow
@pytest.mark.nightly
def test_a_disturbed_study_ends_as_it_has_to_and_resumes_to_the_same_bytes() -> None:
    chosen = [argument for name in FEW for argument in ("--only", name)]
    command = [sys.executable, "-m", "tests.chaos", "--rounds", str(len(FEW)), *chosen]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in FEW)


def test_every_signal_is_sent_to_every_process_of_ray() -> None:
    names = {fault.name for fault in FAULTS}
    every = {f"{role} {what}" for role in ("driver", "worker", "raylet", "gcs", "agent") for what in
             ("KILL", "STOP", "TERM", "INT")}  # fmt: skip
    assert names == every | {"job TERM", "disk full", "memory limit"}
