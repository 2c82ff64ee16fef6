"""How the host gives a chip its work: kernel after kernel, or a captured graph of them at once, and who waits.

CUDA graphs, HIP graphs and programs that a compiler hands over whole are one thing here: the host starts the kernels of
a pass together, and what it takes for one of them is gone (Gray, "Getting Started with CUDA Graphs", NVIDIA Technical
Blog, 2019). What a kernel costs on the chip stays (`kernel_overhead`), and so does what the host does between passes
and iterations (`transfer_host`, `iteration_host`).
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.equation import Output, equation
from sweeper.kernels.transformers.schedules import BothWays, Passes
from sweeper.kernels.transformers.stages import Hiding, Recomputation, chip_passes, host_passes, waits
from sweeper.kernels.transformers.sums import S

HOST = (
    Output("host_kernel_s", "s", "time of the host to launch a kernel"),
    Output("host_member_s", "s", "time of the host per collective and member of its group"),
    Output("host_pass_s", "s", "time of the host to launch the pass of a microbatch through a stage, kernels apart"),
)
"""What launching takes of the host's time, beside which the chip runs what was launched before."""

WAITS = Output("host_wait_time_s", "s", "time in which the chip waits for launches of the host, per iteration")


class Counts(NamedTuple):
    """Microbatches of a replica, and layers of the fullest stage."""

    microbatches: float
    layers_per_stage: float


@equation(*HOST, source="a framework launches kernel after kernel", when=("launch", ("kernels",)))
def launched_kernels(
    calibration_host_launch_s: float, calibration_collective_host_s: float
) -> tuple[float, float, float]:
    """As the software stack does."""
    return calibration_host_launch_s, calibration_collective_host_s, 0.0


@equation(*HOST, source="a captured graph is launched whole: Gray 2019", when=("launch", ("graph",)))
def launched_graphs(
    calibration_graph_launch_s: float, captured_layers: float, layers_per_stage: float
) -> tuple[float, float, float]:
    """A graph for each pass through a stage, or several of some layers each; collectives are captured too."""
    graphs = np.ceil(layers_per_stage / captured_layers) if captured_layers > 0.0 else 1.0
    return 0.0, 0.0, graphs * calibration_graph_launch_s


@equation(
    Output("forward_host_load", "", "time of the host to launch the forward pass of a stage's layers over the chip's"),
    Output("backward_host_load", "", "the same of the backward pass; above 1 the chip waits"),
    WAITS,
    source="what the host takes beyond the chip's time",
    when=("task", ("training",)),
)
def training_launches(
    layer_sums: np.ndarray, again: Recomputation, hiding: Hiding, counts: Counts, host_pass_s: float
) -> tuple[float, float, float]:
    """Of the layers of a full stage, without embedding, head, and gathers of sharded weights."""
    n = counts.layers_per_stage
    layer, host = chip_passes(layer_sums, again, hiding), host_passes(layer_sums, again)
    chip = Passes(n * layer.forward_s, n * layer.input_gradient_s, n * layer.weight_gradient_s)
    host = BothWays(n * host.forward_s + host_pass_s, n * host.backward_s + host_pass_s)
    forward_s, backward_s = waits(chip, host)
    backward = host.backward_s / (chip.input_gradient_s + chip.weight_gradient_s)
    return host.forward_s / chip.forward_s, backward, counts.microbatches * (forward_s + backward_s)


@equation(
    Output("prefill_host_load", "", "time of the host to launch a stage's layers for a prompt over the chip's"),
    Output("decode_host_load", "", "the same of the pass for one token; above 1 the chip waits"),
    WAITS,
    source="what the host takes beyond the chip's time",
    when=("task", ("inference",)),
)
def inference_launches(
    layer_sums: np.ndarray,
    decode_layer_sums: np.ndarray,
    counts: Counts,
    prompt_passes: float,
    host_pass_s: float,
    generating_passes: float,
) -> tuple[float, float, float]:
    """Of the layers of a full stage, without embedding and head, for the prompts and all tokens of a batch."""
    n = counts.layers_per_stage
    prompt_s = n * (layer_sums[S.forward] + layer_sums[S.network_forward])
    token_s = n * (decode_layer_sums[S.forward] + decode_layer_sums[S.network_forward])
    of_prompt_s = n * layer_sums[S.host_forward] + host_pass_s
    of_token_s = n * decode_layer_sums[S.host_forward] + host_pass_s
    waits_s = prompt_passes * max(of_prompt_s - prompt_s, 0.0) + generating_passes * max(of_token_s - token_s, 0.0)
    return of_prompt_s / prompt_s, of_token_s / token_s, counts.microbatches * waits_s
