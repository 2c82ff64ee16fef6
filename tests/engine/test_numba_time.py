"""What is changed in how Numba's compiler spends its time changes nothing in what it compiles."""

import gc
import inspect
import subprocess
import sys
from typing import Any

from numba import njit
from numba.core import dispatcher
from numba.core.compiler import Flags
from numba.core.targetconfig import TargetConfig
from numba.core.typing import templates

from sweeper.engine.compilation.numba_time import FEW_COLLECTIONS, rarely_collecting
from sweeper.kernels.equation import compiled


@njit
def times(x: float, n: int) -> float:
    return x * n


@njit
def several(x: float) -> float:
    return float(times(x, 2) + times(x, 3) + times(x, int(x)))


def test_a_function_is_compiled_once_for_all_constants() -> None:
    assert several(4.0) == 36.0
    assert len(times.overloads) == 1


def test_a_function_that_belongs_to_no_module_is_compiled() -> None:
    text: dict[str, Any] = {}
    exec("def twice(x):\n    return 2 * x", text)
    twice = njit(text["twice"])

    @njit
    def called(x: float) -> Any:
        return twice(x)

    assert called(4.0) == 8.0


def test_flags_are_the_same_where_all_of_their_values_are() -> None:
    plain, said, other = Flags(), Flags(), Flags()
    said.nrt = Flags.options["nrt"].default
    other.nrt = not said.nrt
    assert plain == said and hash(plain) == hash(said)
    assert plain != other
    assert plain.values() == {name: getattr(plain, name) for name in Flags.options}
    assert other.values() == {name: getattr(other, name) for name in Flags.options}
    assert plain != "flags"


def test_garbage_is_collected_as_usual_after_a_compilation() -> None:
    usual = gc.get_threshold()
    seen = []

    @compiled
    def one_more(x: float) -> float:
        return x + 1.0

    with rarely_collecting():
        seen.append(gc.get_threshold())
        with rarely_collecting():
            seen.append(gc.get_threshold())
        seen.append(gc.get_threshold())
        assert one_more(1.0) == 2.0
    assert seen == [FEW_COLLECTIONS] * 3
    assert gc.get_threshold() == usual


def test_no_process_that_evaluates_carries_linear_algebra() -> None:
    code = (
        "import sweeper, sys; from sweeper.kernels.shared.feasibility import bought_feasibility; "
        "bought_feasibility.function(1.0, 2.0); print('scipy.linalg' in sys.modules); "
        "import numpy, scipy.linalg; print(scipy.linalg.det(numpy.eye(2)))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == ["False", "1.0"]


def test_numba_is_as_we_found_it() -> None:
    """If this fails, look whether Numba still does over and over what `engine.compilation.numba_time` keeps it from."""
    assert "self._impl_cache[cache_key]" in inspect.getsource(templates._OverloadFunctionTemplate._get_impl)
    assert "flags" in inspect.getsource(templates._OverloadFunctionTemplate._get_impl)
    assert "return self.values() == other.values()" in inspect.getsource(TargetConfig.__eq__)
    assert dispatcher._DispatcherBase.get_call_template.__module__ == "sweeper.engine.compilation.numba_time"
