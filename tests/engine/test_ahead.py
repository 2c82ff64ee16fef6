"""Kernels compiled ahead: what is asked for is what an evaluation needs, and helpers never stand in its way."""

import io
import pickle
import subprocess
import sys
from typing import Any

import pytest
from numba import float64
from numba.core import sigutils
from numba.core.dispatcher import Dispatcher

import sweeper
from sweeper.engine import fuse
from sweeper.engine.compilation.ahead import DONE, LENGTH_B, Ahead, Kernel, compile_kernel, serve
from sweeper.engine.compilation.numba_cache import TURNS
from sweeper.engine.evaluation import Evaluation
from sweeper.planning.plan import Plan
from tests.places import ROOT

FITS = Kernel("", "sweeper.kernels.shared.feasibility", "bought_feasibility", (float64, float64))
BESIDE = ("sweeper.kernels.reduce", "sweeper.kernels.numbering", "sweeper.kernels.pareto", "sweeper.kernels.draws")
"""Kernels of the engine itself and of input columns: small, and compiled where they are called."""


def asked(plan: Plan) -> set[tuple[str, Any]]:
    """Functions and types that a plan would have compiled ahead."""
    kernels = [kernel for program, at in plan._first_points() for kernel in Evaluation(program, at).kernels()]
    return {(kernel.dispatcher.py_func.__qualname__ + kernel.module, kernel.types) for kernel in kernels}


@pytest.mark.parametrize("study", ["dfmodel_published", "imec_moe", "chiplet_count", "table6_sn10_optimal"])
def test_what_an_evaluation_calls_was_asked_for(study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # What this machine has compiled before is a reason to compile it here; this is about a machine that has nothing.
    monkeypatch.setattr(fuse, "is_known", lambda source: False)
    path = ROOT / "specs" / "studies" / f"{study}.yaml"
    wanted, called, inside = asked(sweeper.plan(path)), set(), [0]
    compile_now = Dispatcher.compile

    def noted(self: Any, signature: Any) -> Any:
        module = self.py_func.__module__
        if not inside[0] and module not in BESIDE:
            types = tuple(sigutils.normalize_signature(signature)[0])
            called.add((self.py_func.__qualname__ + ("" if module.startswith("stage_") else module), types))
        inside[0] += 1
        try:
            return compile_now(self, signature)
        finally:
            inside[0] -= 1

    monkeypatch.setattr(Dispatcher, "compile", noted)
    plan = sweeper.plan(path)
    for _ in plan._first_points():
        pass
    for chunk in range(plan.chunk_count):
        plan.evaluate(chunk)
    assert called <= wanted


def test_a_server_answers_for_every_kernel_whether_it_compiles_or_not() -> None:
    kernels = [FITS, FITS._replace(name="no_such_equation"), FITS]
    frames = [pickle.dumps(kernel) for kernel in kernels]
    pipe = io.BytesIO(b"".join(len(frame).to_bytes(LENGTH_B, "big") + frame for frame in frames))
    told, compiled = io.BytesIO(), []

    def compile_now(kernel: Kernel) -> None:
        compiled.append(kernel)
        compile_kernel(kernel)

    serve(pipe, told, compile_now)
    assert compiled == kernels
    assert told.getvalue() == 3 * DONE


def test_a_process_whose_parent_has_gone_ends_in_silence() -> None:
    frame = pickle.dumps(FITS._replace(name="no_such_equation"))
    command = [sys.executable, "-m", "sweeper.engine.compilation.ahead"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stdout.close()
    process.stdin.write(len(frame).to_bytes(LENGTH_B, "big") + frame)
    process.stdin.close()
    assert (process.stderr.read(), process.wait()) == (b"", 0)


def test_processes_compile_every_kernel_once_and_end_by_themselves() -> None:
    ahead = Ahead([FITS, FITS._replace(name="no_such_equation"), FITS], 3)
    assert [kernel.name for kernel in ahead._waiting.values()] == [FITS.name, "no_such_equation"]
    with ahead:
        assert [process.wait() for process in ahead._processes] == [0, 0]
        assert ahead._waiting == {}


def test_what_is_needed_now_is_compiled_next_and_by_others() -> None:
    """It is in the cache, or was tried, when `leave` returns, and nothing is waited for that nobody will compile."""
    kernels = [FITS._replace(name=f"no_such_equation_{i}") for i in range(200)]
    last = kernels[-1]
    with Ahead(kernels, 1) as told:
        assert TURNS.leave is not None
        TURNS.leave(*last.key)
        waiting = told()
        assert waiting.startswith("compiling kernels")
        TURNS.leave("nobody.asked_for_it", ())
    assert TURNS.leave is None
    assert int(waiting.split()[-3]) < len(kernels) - 1


def test_nobody_waits_for_processes_that_have_died() -> None:
    kernels = [FITS._replace(name=f"no_such_equation_{i}") for i in range(1000)]
    ahead = Ahead(kernels, 2)
    with ahead:
        for process in ahead._processes:
            process.kill()
        assert TURNS.leave is not None
        TURNS.leave(*kernels[-1].key)
        assert ahead._working == 0


def test_leaving_ends_the_processes_at_once() -> None:
    ahead = Ahead([FITS._replace(name=f"no_such_equation_{i}") for i in range(1000)], 1)
    with ahead as told:
        assert told().startswith("compiling kernels")
    assert told() == ""
    assert [process.returncode for process in ahead._processes] == [-9]
    assert ahead._waiting == {}
