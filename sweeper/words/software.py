"""The words of software: constants and traits of a stack on a chip, with units and meanings."""

from sweeper.words.attributes import Attribute, fraction, free, vocabulary
from sweeper.words.packages import POWER
from sweeper.words.ranges import ARRAY, EFFICIENCY, FACTOR, PER_NUMBER_B, RATIO

CALIBRATION = vocabulary(
    gemm_efficiency=Attribute("", "attainable share of matrix peak in products", 0.8, EFFICIENCY),
    narrow_efficiency=Attribute("", "part of that share that products in fewer than 16 bits attain", 1.0, EFFICIENCY),
    attention_efficiency=fraction("the same in fused attention; 0: as in products"),
    unaligned_efficiency=Attribute(
        "", "share of that in products with weights whose rows are no multiple of 16 bytes", 1.0, EFFICIENCY
    ),
    expert_efficiency=Attribute("", "share of that in products of routed experts, in groups", 1.0, EFFICIENCY),
    memory_efficiency=Attribute("", "attainable share of memory bandwidth", 0.8, EFFICIENCY),
    link_efficiency=Attribute("", "attainable share of the first dimension's links", 0.8, EFFICIENCY),
    outer_link_efficiency=Attribute("", "attainable share of the other links", 0.8, EFFICIENCY),
    kernel_overhead=free("s", "serial cost of one kernel on the chip"),
    host_launch=free("s", "time the host needs to launch one kernel"),
    graph_launch=free("s", "time the host needs to launch a captured graph of kernels"),
    load_latency=free("s", "time from a thread's load to its data in a stream of them; 0: hidden"),
    own_copy=fraction("1 if gathers and scatters copy a chip's own piece"),
    collective_host=free("s", "time of the host per collective and member of its group"),
    transfer_host=free("s", "time of the host per message between pipeline stages"),
    iteration_host=free("s", "time of the host per iteration beside which nothing runs"),
    pass_host=free("s", "time of the host per pass of a server beside which nothing runs"),
    request_host=free("s", "time from the arrival of a request to its pass, and from there to its first token"),
    extra_state=free("B", "further bytes kept per parameter, e.g. a second copy of gradients", limits=PER_NUMBER_B),
    activation_share=Attribute("", "memory taken for activations over what they occupy", 1.0, FACTOR),
    collective_launch=free("s", "fixed cost of a collective"),
    collective_step=free("s", "latency of one step of a collective beyond the link's"),
    collective_outer_step=free("s", "the same of a step over the other links, to be added"),
    half_message=free("B", "message that reaches half of the link's rate"),
    flash_attention=fraction("1 if attention is one kernel without stored scores", 1.0),
    fused_elementwise=fraction("1 if chains of elementwise operators are one kernel", 1.0),
    async_tensor=fraction("1 if backward collectives run beside the weight gradients"),
    accumulation=free("B", "traffic per parameter and microbatch of a separate gradient sum", limits=PER_NUMBER_B),
    unshard_traffic=free("B", "traffic per unsharded parameter of casting and copying", limits=PER_NUMBER_B),
    optimizer_traffic=free("B", "traffic per parameter of the optimizer step", 38.0, limits=PER_NUMBER_B),
    quantisation=free("B", "traffic per element of an input that is quantised", limits=PER_NUMBER_B),
    quantisation_row=free("s", "time per row of an input that is quantised"),
    attention_rows=Attribute("", "rows that a tile of attention costs at least", 64.0, ARRAY),
    scan_efficiency=Attribute(
        "", "share of all rates that a scan of a recurrent layer attains, with its products", 1.0, EFFICIENCY
    ),
    append_efficiency=fraction("share of memory bandwidth of writing the cache; 0: free"),
    query_conversion=free("B", "traffic per query element of converting it", limits=PER_NUMBER_B),
    expert_launches=free("", "kernels launched for each local expert and product; 0: one for all", limits=RATIO),
    kept_gathers=fraction("1 if gathered inputs are kept for the backward pass"),
    early_stop=fraction("1 if recomputation skips a layer's last product"),
    gathered_layers=Attribute("", "layers of sharded weights that live gathered at a time", 2.0, RATIO),
    late_reduction=fraction("1 if replicas reduce gradients after the last layer, beside nothing"),
    window_rows=Attribute("", "queries of a tile of attention in a window", 128.0, ARRAY),
    loss_traffic=free("B", "traffic per logit of the loss, both passes", 24.0, limits=PER_NUMBER_B),
    memory_reserve=free("B", "memory that runtime and libraries keep"),
    **{
        f"{task}_{end}": free("", f"measured over predicted time of {task}, {share} quantile; 0: unknown", limits=RATIO)
        for task in ("training", "inference")
        for end, share in (("low", "5 %"), ("high", "95 %"))
    },
    **POWER,
)
"""Constants and traits of a software stack on a chip."""
