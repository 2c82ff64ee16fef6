"""Kernels from one machine to another: nothing is compiled twice, and what is for another processor is left out."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

BEGIN = """
import sys
from pathlib import Path
import sweeper
import numba
from numba import float64
from sweeper.engine.compilation.ahead import Kernel
from sweeper.engine.compilation.parcels import is_kept, packed, unpack
from sweeper.kernels.shared.dimensions import doublings
parcel = Path(sys.argv[1])
fits = Kernel("", "sweeper.kernels.shared.feasibility", "bought_feasibility", (float64, float64))
source = "from sweeper.kernels.equation import compiled\\n\\n\\n@compiled\\ndef stage(x):\\n    return 3.0 * x\\n"
stage = Kernel(source, "", "stage", (float64,))
lost = fits._replace(name="no_such_equation")
"""
KNOWN = """
from sweeper.engine.compilation.stages import is_known
unpack(parcel.read_bytes())
print(is_known(source), is_kept(stage), is_known(source))
"""
PACK = "assert doublings(5.0) == 3; parcel.write_bytes(packed([fits, stage, lost]))"
UNPACK = """
print(is_kept(fits), is_kept(stage))
unpack(parcel.read_bytes())
print(is_kept(fits), is_kept(stage), doublings(5.0), stage.dispatcher(2.0), fits.dispatcher(2.0, 1.0))
"""


def on_machine(cache: Path, code: str, parcel: Path, **variables: str) -> str:
    """What Python says on a machine with a cache of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "SWEEPER_"))}
    environment = {**kept, "PYTHONPATH": str(ROOT), "SWEEPER_CACHE_DIR": str(cache), **variables}
    command = [sys.executable, "-c", BEGIN + code, str(parcel)]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def compiled(cache: Path) -> set[str]:
    """Kernels that a machine has compiled itself."""
    return {path.stem for path in cache.rglob("*.turn") if "which compiles" in path.read_text()}


@pytest.fixture(scope="module")
def parcel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a first machine sends: two kernels that it was asked for, and one that it has called."""
    folder = tmp_path_factory.mktemp("first")
    on_machine(folder / "cache", PACK, folder / "parcel")
    assert {
        "sweeper.kernels.shared.dimensions.doublings",
        "sweeper.kernels.shared.feasibility.bought_feasibility",
    } <= compiled(folder / "cache")
    return folder / "parcel"


def test_a_second_machine_compiles_nothing(parcel: Path, tmp_path: Path) -> None:
    said = on_machine(tmp_path, UNPACK, parcel).split()
    assert said == ["False", "False", "True", "True", "3.0", "6.0", "2.0"]
    assert compiled(tmp_path) == set()
    again = on_machine(tmp_path, UNPACK, parcel).split()
    assert again == ["True", "True", *said[2:]]


@pytest.mark.parametrize("processor", [{"NUMBA_CPU_FEATURES": "+avx2"}, {"NUMBA_CPU_NAME": "skylake"}])
def test_machine_code_for_another_processor_is_left_out(
    parcel: Path, tmp_path: Path, processor: dict[str, str]
) -> None:
    said = on_machine(tmp_path, UNPACK, parcel, **processor).split()
    assert said == ["False", "False", "False", "False", "3.0", "6.0", "2.0"]
    assert "sweeper.kernels.shared.feasibility.bought_feasibility" in compiled(tmp_path)
    assert len(list(tmp_path.rglob("*bought_feasibility*.nbc"))) == 1


def test_a_stage_that_is_not_taken_over_stays_unknown(parcel: Path, tmp_path: Path) -> None:
    """So that processes beside the first worker compile it."""
    said = on_machine(tmp_path, KNOWN, parcel, NUMBA_CPU_NAME="skylake").split()
    assert said == ["False", "False", "False"]


def test_while_a_kernel_is_compiled_another_thread_finds_what_is_kept(parcel: Path, tmp_path: Path) -> None:
    """It waits, instead of asking for what only the kernel that is compiled may call."""
    code = """
import threading
from sweeper.engine.compilation.numba_code import compiling
from numba.core.compiler_lock import global_compiler_lock
unpack(parcel.read_bytes())
found = []
asking = threading.Thread(target=lambda: found.append(is_kept(fits)))
with global_compiler_lock, compiling(), compiling():
    asking.start()
    asking.join(0.5)
asking.join()
print(found)
"""
    assert on_machine(tmp_path, code, parcel) == "[True]\n"
