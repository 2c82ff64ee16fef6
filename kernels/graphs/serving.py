"""A graph as a server: how long a request takes to pass its stages, and how many pass per second."""

import numpy as np

from kernels.equation import Output, equation
from kernels.graphs.partition import combined


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
