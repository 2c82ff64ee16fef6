"""The words of software: constants and traits of a stack on a chip, with units and meanings."""

from sweeper.words.attributes import Attribute
from sweeper.words.packages import POWER

CALIBRATION: dict[str, Attribute] = {
    "gemm_efficiency": Attribute(
        "", "gemm_efficiency", "attainable share of matrix peak in products", 0.8, maximum=1.0
    ),
    "attention_efficiency": Attribute(
        "", "attention_efficiency", "the same in fused attention; 0: as in products", 0.0, False, maximum=1.0
    ),
    "memory_efficiency": Attribute("", "memory_efficiency", "attainable share of memory bandwidth", 0.8, maximum=1.0),
    "link_efficiency": Attribute(
        "", "link_efficiency", "attainable share of the first dimension's links", 0.8, maximum=1.0
    ),
    "outer_link_efficiency": Attribute(
        "", "outer_link_efficiency", "attainable share of the other links", 0.8, maximum=1.0
    ),
    "kernel_overhead": Attribute("s", "kernel_overhead_s", "serial cost of one kernel on the chip", 0.0, False),
    "host_launch": Attribute("s", "host_launch_s", "time the host needs to launch one kernel", 0.0, False),
    "own_copy": Attribute("", "own_copy", "1 if gathers and scatters copy a chip's own piece", 0.0, False, maximum=1.0),
    "collective_host": Attribute(
        "s", "collective_host_s", "time of the host per collective and member of its group", 0.0, False
    ),
    "transfer_host": Attribute(
        "s", "transfer_host_s", "time of the host per message between pipeline stages", 0.0, False
    ),
    "extra_state": Attribute(
        "B", "extra_state_B", "further bytes kept per parameter, e.g. a second copy of gradients", 0.0, False
    ),
    "activation_share": Attribute("", "activation_share", "memory taken for activations over what they occupy", 1.0),
    "collective_launch": Attribute("s", "collective_launch_s", "fixed cost of a collective", 0.0, False),
    "collective_step": Attribute(
        "s", "collective_step_s", "latency of one step of a collective beyond the link's", 0.0, False
    ),
    "half_message": Attribute("B", "half_message_B", "message that reaches half of the link's rate", 0.0, False),
    "flash_attention": Attribute(
        "", "flash_attention", "1 if attention is one kernel without stored scores", 1.0, False, maximum=1.0
    ),
    "fused_elementwise": Attribute(
        "", "fused_elementwise", "1 if chains of elementwise operators are one kernel", 1.0, False, maximum=1.0
    ),
    "async_tensor": Attribute(
        "", "async_tensor", "1 if backward collectives run beside the weight gradients", 0.0, False, maximum=1.0
    ),
    "accumulation": Attribute(
        "B", "accumulation_B", "traffic per parameter and microbatch of a separate gradient sum", 0.0, False
    ),
    "unshard_traffic": Attribute(
        "B", "unshard_traffic_B", "traffic per unsharded parameter of casting and copying", 0.0, False
    ),
    "optimizer_traffic": Attribute(
        "B", "optimizer_traffic_B", "traffic per parameter of the optimizer step", 38.0, False
    ),
    "quantisation": Attribute("B", "quantisation_B", "traffic per element of an input that is quantised", 0.0, False),
    "quantisation_row": Attribute("s", "quantisation_row_s", "time per row of an input that is quantised", 0.0, False),
    "attention_rows": Attribute("", "attention_rows", "rows that a tile of attention costs at least", 64.0),
    "append_efficiency": Attribute(
        "", "append_efficiency", "share of memory bandwidth of writing the cache; 0: free", 0.0, False, maximum=1.0
    ),
    "query_conversion": Attribute("B", "query_conversion_B", "traffic per query element of converting it", 0.0, False),
    "kept_gathers": Attribute("", "kept_gathers", "1 if gathered inputs are kept for the backward pass", 0.0, False),
    "early_stop": Attribute(
        "", "early_stop", "1 if recomputation skips a layer's last product", 0.0, False, maximum=1.0
    ),
    "loss_traffic": Attribute("B", "loss_traffic_B", "traffic per logit of the loss, both passes", 24.0, False),
    "memory_reserve": Attribute("B", "memory_reserve_B", "memory that runtime and libraries keep", 0.0, False),
    **POWER,
}
"""Constants and traits of a software stack on a chip."""
