"""Launches kernel after kernel and as graphs: who waits for whom, and what was published of it."""

from functools import cache
from typing import Any

import polars as pl
import pytest

from sweeper.views.frames import frame_of
from tests.kernels.transformers.test_models import EXACT, evaluate, mapped

TRAINED = ("iteration_time_s", "stage_forward_s", "stage_input_gradient_s", "stage_weight_gradient_s",
           "forward_host_load", "backward_host_load", "host_wait_time_s", "layers_per_stage")  # fmt: skip
SERVED = ("iteration_time_s", "time_per_output_token_s", "time_to_first_token_s", "prefill_host_load",
          "decode_host_load", "host_wait_time_s")  # fmt: skip
GRAPH = {"launch": "graph"}
EAGER_S = {"calibration.host_launch": 26.35e-6}
"""Fitted to runs of nanotron in eager PyTorch."""
BLOG_TOKENS_PER_S, ROW_TOKENS_PER_S = 25.5, 104.9
"""Llama 2 7B on an A100, a request at a time: eager ("Accelerating Generative AI with PyTorch II: GPT, Fast", 2023),
and with CUDA graphs (row I1166 of the measured inference)."""


def told(wanted: tuple[str, ...], *points: dict[str, Any]) -> list[dict[str, float]]:
    values = evaluate(list(points), wanted)
    return [{name: float(values[name][i]) for name in wanted} for i in range(len(points))]


def training(**changes: Any) -> dict[str, Any]:
    return mapped("gpt2_small", 1, 1, 1, **{"microbatch": 1.0, "sequence_length": 256.0, **changes})


def serving(workload: str = "llama2_7b", **changes: Any) -> dict[str, Any]:
    lengths = {"sequence_length": 5.0, "output_length": 200.0, "batch_size": 1.0}
    return mapped(workload, 1, 1, 1, **{"task": "inference", **lengths, **changes})


@cache
def study(name: str) -> pl.DataFrame:
    return frame_of(name).with_columns(pl.col(pl.Categorical).cast(pl.String))


def test_a_graph_of_no_time_is_a_host_of_no_time() -> None:
    for wanted, point in ((TRAINED, training()), (SERVED, serving())):
        free = {"calibration.host_launch": 0.0, "calibration.collective_host": 0.0}
        idle, graph = told(wanted, point | free, point | GRAPH | {"calibration.graph_launch": 0.0})
        assert idle == graph
        assert idle["host_wait_time_s"] == 0.0


def test_a_long_launch_is_what_a_pass_takes() -> None:
    """Of 12 layers in graphs of five: three launches forward, and three backward."""
    long = training(**GRAPH, captured_layers=5.0, **{"calibration.graph_launch": 1.0})
    [found] = told(TRAINED, long)
    assert found["layers_per_stage"] == 12.0
    assert found["stage_forward_s"] == 3.0
    assert found["stage_input_gradient_s"] + found["stage_weight_gradient_s"] == pytest.approx(3.0, rel=EXACT)
    token_s = told(SERVED, serving(**GRAPH, **{"calibration.graph_launch": 1.0}))[0]["time_per_output_token_s"]
    assert 1.0 < token_s < 1.01  # the launch, and the head


@pytest.mark.parametrize("launch_s", [1e-6, 3e-6, 1e-5, 1e-4])
def test_the_chip_waits_where_the_load_is_above_one_and_an_iteration_is_as_much_longer(launch_s: float) -> None:
    host = {"calibration.host_launch": launch_s}
    none, some = told(TRAINED, training(**{"calibration.host_launch": 0.0}), training(**host))
    assert (some["host_wait_time_s"] > 0.0) == (max(some["forward_host_load"], some["backward_host_load"]) > 1.0)
    assert some["iteration_time_s"] >= none["iteration_time_s"] + some["host_wait_time_s"] * (1 - 1e-9)
    none, some = told(SERVED, serving(**{"calibration.host_launch": 0.0}), serving(**host))
    assert (some["host_wait_time_s"] > 0.0) == (max(some["prefill_host_load"], some["decode_host_load"]) > 1.0)
    longer_s = some["iteration_time_s"] - none["iteration_time_s"]
    assert longer_s == pytest.approx(some["host_wait_time_s"], rel=1e-9, abs=1e-12)


def test_eager_and_captured_decoding_as_published() -> None:
    """Nothing here was fitted to either figure. The kernels of eager PyTorch are those of nanotron; a host of the same
    kind launches them. Compiled kernels are those of the usual table."""
    shape = {"hidden": 4096.0, "layers": 32.0, "heads": 32.0, "kv_heads": 32.0, "feed_forward": 11008.0}
    llama = {f"workload.{name}": value for name, value in {**shape, "vocabulary": 32000.0}.items()}
    eager, captured = told(SERVED, serving("eager_decoder", **llama, **EAGER_S), serving(**GRAPH))
    assert 1.0 / eager["time_per_output_token_s"] == pytest.approx(BLOG_TOKENS_PER_S, rel=0.15)
    assert eager["decode_host_load"] > 1.0
    assert 1.0 / captured["time_per_output_token_s"] == pytest.approx(ROW_TOKENS_PER_S, rel=0.05)


def test_few_requests_on_many_chips_wait_for_their_host() -> None:
    frame = study("launch_decode")
    bound = frame.filter(pl.col("host_wait_time_s") > 0.0)
    assert set(bound["launch"]) == {"kernels"}
    assert set(bound["calibration_host_launch_s"]) == {26.35e-6}
    largest = {chips: of["batch_size"].max() for (chips,), of in bound.group_by("tensor_parallel")}
    assert largest == {1: 16, 8: 256}


def test_small_models_with_few_samples_wait_for_their_host() -> None:
    bound = study("launch_training").filter(pl.col("host_wait_time_s") > 0.0)
    assert set(bound["launch"]) == {"kernels"}
    largest = {model: of["microbatch"].max() for (model,), of in bound.group_by("workload")}
    assert largest == {"gpt2_small": 4, "gpt2_xl": 1}
