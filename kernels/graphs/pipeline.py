"""From one microbatch through one graph to an iteration of the whole system, and to what a server answers."""

from typing import Annotated

import numpy as np

from sweeper.kernels.equation import Output, equation
from sweeper.kernels.graphs.loads import ROOM
from sweeper.kernels.graphs.partition import BESIDE, combined
from sweeper.kernels.shared.contention.hiding import Beside, Sending, waiting_s
from sweeper.kernels.shared.dimensions import Extents


@equation(
    Output("microbatches", "", "microbatches that one replica passes through its pipeline per iteration"),
    source="DFModel B.5, nmb",
)
def microbatches(batch: float, microbatch: float, data_parallel: float) -> float:
    """Microbatches per replica; a fraction is infeasible and reported as such."""
    return batch / (microbatch * data_parallel)


@equation(
    Output("repeats_per_stage", "", "repeats of the graph (layers) on the fullest pipeline stage"),
    Output("stages_per_graph", "", "pipeline stages that share one repeat of the graph"),
    source="DFModel B.5, lps; a graph is cut where there are more stages than repeats",
)
def repeats_per_stage(layers: float, pipeline_parallel: float, divisible_graph: float) -> tuple[float, float]:
    """Layers divided over the stages, rounded up."""
    share = pipeline_parallel / layers
    cut = divisible_graph > 0.0 and share > 1.0 and np.floor(share) == share
    return np.ceil(layers / pipeline_parallel), share if cut else 1.0


@equation(
    Output("weights_fit", "", "1 if the graph as a single partition keeps the weights of its stage on chip"),
    source="a chip that runs the graph as one partition keeps weights if they all fit (DFModel G.1)",
)
def weights_fit(
    repeats_per_stage: float,
    all_weights_B: float,
    single_sram_B: float,
    graph_gradients_B: float,
    gradient_traffic: float,
    chip_sram_capacity_B: float,
) -> float:
    """Weights of all repeats of a stage, the buffers of the repeat at work, and gradients where they count."""
    need = single_sram_B + (repeats_per_stage - 1.0) * all_weights_B
    if gradient_traffic > 0.0:
        need += repeats_per_stage * graph_gradients_B
    return 1.0 if need <= chip_sram_capacity_B * ROOM else 0.0


@equation(
    Output("weights_resident", "", "1 when the weights of a stage stay on chip over microbatches"),
    source="only a graph that is a single partition is never exchanged for another",
)
def weights_resident(partitions: float, weights_fit: float) -> float:
    """Whether the graph is a single partition and its weights fit."""
    return weights_fit if partitions == 1.0 else 0.0


@equation(
    Output("pass_compute_time_s", "s", "compute of one microbatch on one stage"),
    Output("pass_memory_time_s", "s", "memory traffic of one microbatch on one stage"),
    Output("pass_network_time_s", "s", "network traffic of one microbatch on one stage"),
    Output("pass_time_s", "s", "time of one microbatch on one stage"),
    Output("pass_backward_time_s", "s", "the part of it in partitions with backward kernels"),
    Output("other_stages_time_s", "s", "time of one microbatch on all stages but the slowest"),
    source="DFModel B.5; stages need not have the same number of repeats",
)
def stage_pass(
    layers: float,
    repeats_per_stage: float,
    weights_resident: float,
    graph_latency_s: float,
    graph_compute_time_s: float,
    graph_memory_time_s: float,
    graph_network_time_s: float,
    graph_time_s: float,
    graph_backward_time_s: float,
    resident_memory_time_s: float,
    resident_graph_time_s: float,
    resident_backward_time_s: float,
) -> tuple[float, float, float, float, float, float]:
    """All repeats of a stage, one after the other."""
    resident = weights_resident > 0.0
    latency = resident_graph_time_s if resident else graph_latency_s
    memory = resident_memory_time_s if resident else graph_memory_time_s
    total = resident_graph_time_s if resident else graph_time_s
    backward = resident_backward_time_s if resident else graph_backward_time_s
    n = repeats_per_stage
    others = max(layers * latency - n * total, 0.0)
    return n * graph_compute_time_s, n * memory, n * graph_network_time_s, n * total, n * backward, others


@equation(
    Output("stage_link_Bps", "B/s", "slowest link between neighbouring pipeline stages"),
    Output("stage_hop_s", "s", "its latency"),
    source="DFModel A.2: the pipeline lies along its own dimension",
)
def stage_link(
    pipeline: Annotated[Extents, "pipeline_{}"],
    rate_Bps: Annotated[Extents, "bandwidth_{}_Bps"],
    share: Annotated[Extents, "pipeline_share_{}"],
    hop_x_s: float,
    hop_outer_s: float,
) -> tuple[float, float]:
    """The slowest link among the dimensions along which stages follow each other."""
    bandwidth = np.inf
    if pipeline.x > 1.0:
        bandwidth = share.x * rate_Bps.x
    if pipeline.y > 1.0:
        bandwidth = min(bandwidth, share.y * rate_Bps.y)
    if pipeline.z > 1.0:
        bandwidth = min(bandwidth, share.z * rate_Bps.z)
    return bandwidth, hop_outer_s if pipeline.y * pipeline.z > 1.0 else hop_x_s


TRANSFER = (
    Output("transfer_per_pass_s", "s", "passing activations and their gradients between stages, one microbatch"),
    Output("transfer_per_iteration_s", "s", "the same, charged once to the iteration"),
)


@equation(*TRANSFER, source="forward and backward message", when=("pipeline_transfer", ("per_microbatch",)))
def transfer_per_microbatch(boundary_time_s: float, graph_gradients_B: float) -> tuple[float, float]:
    """Each microbatch crosses each boundary forward and, in training, backward."""
    return (2.0 if graph_gradients_B > 0.0 else 1.0) * boundary_time_s, 0.0


@equation(*TRANSFER, source="DFModel A.3, p2p", when=("pipeline_transfer", ("per_iteration",)))
def published_transfer(
    stage_boundary_B: float, microbatch: float, layers: float, stage_link_Bps: float
) -> tuple[float, float]:
    """Once per batch, for one sample, over every layer boundary, never overlapped."""
    return 0.0, 2.0 * stage_boundary_B / microbatch * layers / stage_link_Bps


PIPELINE = (
    Output("pipeline_time_s", "s", "all microbatches through the pipeline, with its bubble"),
    Output("bubble_time_s", "s", "time in which a stage waits for the pipeline to fill and drain"),
)


@equation(*PIPELINE, source="1F1B: Narayanan 2021, section 2.2", when=("pipeline_bubble", ("one_f_one_b",)))
def one_forward_one_backward(
    pass_time_s: float,
    other_stages_time_s: float,
    transfer_per_pass_s: float,
    microbatches: float,
    resident_microbatches: float,
    steps: float,
    pipeline_parallel: float,
    overlap: float,
) -> tuple[float, float]:
    """Every stage works on every microbatch and waits while the others fill and drain, in every optimizer step.

    Transfers hide behind the work of a stage where overlap is assumed, but not while the pipeline fills and drains.
    Microbatches that pass a partition together pass the pipeline together.
    """
    steady = combined(pass_time_s, 0.0, transfer_per_pass_s, overlap)
    filling = other_stages_time_s + (pipeline_parallel - 1.0) * transfer_per_pass_s
    bubble = steps * resident_microbatches * filling
    return microbatches * steady + bubble, bubble


@equation(*PIPELINE, source="DFModel B.5, pipeline_factor", when=("pipeline_bubble", ("published",)))
def published_pipeline(
    pass_time_s: float,
    transfer_per_pass_s: float,
    microbatches: float,
    repeats_per_stage: float,
    pipeline_parallel: float,
) -> tuple[float, float]:
    """The published bubble shrinks with the layers of a stage less one, as if they were interleaved."""
    steady = microbatches * (pass_time_s + transfer_per_pass_s)
    factor = 1.0 + (pipeline_parallel - 1.0) / (microbatches * max(repeats_per_stage - 1.0, 1.0))
    return steady * factor, steady * (factor - 1.0)


EXPOSED = Output("gradient_time_s", "s", "gradient all-reduce over the replicas that nothing hides")


@equation(EXPOSED, source="DFModel B.5", when=("gradient_all_reduce", ("ignored", "amortised", "bytes_as_nanoseconds")))
def no_gradient_time() -> float:
    """Left out, or already charged to the microbatches."""
    return 0.0


@equation(EXPOSED, source="ring all-reduce per iteration", when=("gradient_all_reduce", ("exposed",)))
def exposed_gradient_time(
    steps: float,
    graph_gradients_B: float,
    repeats_per_stage: float,
    all_reduce_data_s_per_B: float,
    all_reduce_data_latency_s: float,
) -> float:
    """One all-reduce per repeat, after the last microbatch of every step."""
    if graph_gradients_B <= 0.0:
        return 0.0
    return steps * repeats_per_stage * (graph_gradients_B * all_reduce_data_s_per_B + all_reduce_data_latency_s)


@equation(EXPOSED, source="DFModel B.8, change 4", when=("gradient_all_reduce", ("overlapped",)))
def overlapped_gradient_time(
    steps: float,
    graph_gradients_B: float,
    repeats_per_stage: float,
    all_reduce_data_s_per_B: float,
    all_reduce_data_latency_s: float,
    pass_time_s: float,
    pass_backward_time_s: float,
    pass_network_time_s: float,
    overlap: float,
    beside: Beside,
) -> float:
    """The all-reduce hides behind the backward pass of a step's last microbatch, except for what exceeds it, or what
    messages wait for it with which it shares links: these are taken to be spread evenly over both passes."""
    if graph_gradients_B <= 0.0:
        return 0.0
    all_reduce = repeats_per_stage * (graph_gradients_B * all_reduce_data_s_per_B + all_reduce_data_latency_s)
    sent_s = pass_network_time_s * pass_backward_time_s / pass_time_s if pass_time_s > 0.0 else 0.0
    idle_s = pass_backward_time_s if overlap == BESIDE else 0.0
    waiting = waiting_s(all_reduce, pass_backward_time_s, Sending(sent_s, idle_s), beside)
    return steps * (max(all_reduce - pass_backward_time_s, 0.0) + waiting)


@equation(
    Output("optimizer_time_s", "s", "reading and writing optimizer state, gradients and weights, per iteration"),
    source="DFModel B.8, change 2",
)
def optimizer_time(
    optimizer_traffic: float,
    steps: float,
    graph_gradients_B: float,
    parameters_B: float,
    repeats_per_stage: float,
    optimizer_state_B: float,
    word_B: float,
    attainable_bandwidth_Bps: float,
) -> float:
    """In every step state is read and written, gradients read, weights written; nothing without gradients."""
    if optimizer_traffic == 0.0 or graph_gradients_B <= 0.0:
        return 0.0
    parameters = repeats_per_stage * parameters_B / word_B
    return steps * parameters * (2.0 * optimizer_state_B + 2.0 * word_B) / attainable_bandwidth_Bps


@equation(
    Output("iteration_time_s", "s", "time of one iteration: one batch through the whole system"),
    Output("compute_time_s", "s", "time in which a chip's compute is busy, per iteration"),
    Output("memory_time_s", "s", "time in which a chip's memory is busy, per iteration"),
    Output("network_time_s", "s", "time in which a chip's links are busy with the graph's collectives, per iteration"),
    Output("transfer_time_s", "s", "time in which they pass activations between pipeline stages, per iteration"),
    source="DFModel B.5, ns_per_batch",
)
def iteration(
    pipeline_time_s: float,
    transfer_per_pass_s: float,
    transfer_per_iteration_s: float,
    gradient_time_s: float,
    optimizer_time_s: float,
    microbatches: float,
    pass_compute_time_s: float,
    pass_memory_time_s: float,
    pass_network_time_s: float,
) -> tuple[float, float, float, float, float]:
    """Sum of the parts; the busy times overlap each other and are not parts of the sum."""
    total = pipeline_time_s + transfer_per_iteration_s + gradient_time_s + optimizer_time_s
    memory = microbatches * pass_memory_time_s + optimizer_time_s
    transfer = microbatches * transfer_per_pass_s + transfer_per_iteration_s
    return total, microbatches * pass_compute_time_s, memory, microbatches * pass_network_time_s, transfer


# a graph as a server


@equation(
    Output("boundary_time_s", "s", "passing one microbatch from a pipeline stage to the next"),
    source="DFModel E.7: message over link rate, and one hop",
)
def boundary_time(
    pipeline_parallel: float, stage_boundary_B: float, cut_boundary_B: float, stage_link_Bps: float, stage_hop_s: float
) -> float:
    """One way; nothing where the graph passes nothing on, or there is one stage. The largest boundary counts."""
    message_B = max(stage_boundary_B, cut_boundary_B)
    if pipeline_parallel <= 1.0 or message_B <= 0.0:
        return 0.0
    return message_B / stage_link_Bps + stage_hop_s


@equation(
    Output("pipeline_latency_s", "s", "one microbatch through all stages of an idle pipeline, forward"),
    source="DFModel E.7",
)
def pipeline_latency(
    pass_time_s: float, other_stages_time_s: float, pipeline_parallel: float, boundary_time_s: float
) -> float:
    """Every stage once and every boundary once."""
    return pass_time_s + other_stages_time_s + (pipeline_parallel - 1.0) * boundary_time_s


@equation(
    Output("pipeline_samples_per_s", "1/s", "samples per second of a pipeline that is kept full, all replicas"),
    source="DFModel E.7: tokens over II",
)
def pipeline_rate(
    pass_time_s: float, transfer_per_pass_s: float, overlap: float, microbatch: float, data_parallel: float
) -> float:
    """A microbatch leaves whenever the fullest stage is done with one and, unless overlapped, has passed it on.

    With `pipeline_transfer: per_iteration` passing on costs a stage nothing, as published.
    """
    beat = combined(pass_time_s, 0.0, transfer_per_pass_s, overlap)
    return microbatch * data_parallel / beat if beat > 0.0 else np.inf
