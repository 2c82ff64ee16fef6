"""The words a spec may use: attributes of library entries, mapping columns, assumptions; each with unit and meaning.

Everything here is data. A column of the engine is named `<role>_<attribute>_<unit>` for a library attribute
(`memory_bandwidth_Bps`) and by its own name for a mapping or an assumption (`tensor_parallel`, `overlap`).
"""

from kernels.codes import CHOICES, SWITCHES
from sweeper.words.attributes import Attribute
from sweeper.words.chips import LANE, STACK, TECHNOLOGY, TEMPLATE
from sweeper.words.packages import ASSEMBLY, FACILITY, INTERFACE, NODE, PACKAGE, POWER, TEST, WAFER

GRADES = ("measured", "fitted", "datasheet", "estimate", "assumed")

ATTRIBUTES: dict[str, dict[str, Attribute]] = {
    "chip": {
        "cores": Attribute("", "cores", "compute cores", 1.0, integer=True),
        "lanes": Attribute("", "lanes", "rows of a core's array", 1.0, integer=True),
        "stages": Attribute("", "stages", "columns of a core's array", 1.0, integer=True),
        "frequency": Attribute("Hz", "frequency_Hz", "clock", 1.0),
        "peak_flops": Attribute(
            "flop/s", "given_peak_flops", "peak; 0 means 2 x cores x lanes x stages x frequency", 0.0, positive=False
        ),
        "rated_cores": Attribute("", "rated_cores", "cores that efficiency is rated on; 0 means cores", 0.0, False),
        "sram_capacity": Attribute("B", "sram_capacity_B", "on-chip memory"),
        "reconfiguration": Attribute("s", "reconfiguration_s", "loading the next on-chip partition", 0.0, False),
        "price": Attribute("usd", "price_usd", "price of one chip", positive=False),
        "power": Attribute("W", "power_W", "power of one chip without memory and links", positive=False),
        **{
            f"peak_flops_{name}": Attribute(
                "flop/s", f"peak_{name}_flops", f"dense matrix peak in {name}; 0: not supported", 0.0, positive=False
            )
            for name in ("fp32", "tf32", "fp8", "int8", "fp4")
        },
        "vector_flops": Attribute(
            "flop/s", "vector_flops", "peak of the vector units; 0: as the matrix units", 0.0, False
        ),
        "exponentials": Attribute("1/s", "exponentials_per_s", "exponentials per second; 0: free", 0.0, False),
        "core_sram": Attribute("B", "core_sram_B", "scratchpad or L1 of one core", 0.0, False),
        "l2_capacity": Attribute("B", "l2_capacity_B", "shared cache; 0: none", 0.0, False),
        "l2_bandwidth": Attribute(
            "B/s", "l2_bandwidth_Bps", "bandwidth of the shared cache; 0: never binds", 0.0, False
        ),
        "l2_multicast": Attribute(
            "", "l2_multicast", "cores that one fetch from the shared cache serves in products", 1.0
        ),
    },
    "memory": {
        "bandwidth": Attribute("B/s", "bandwidth_Bps", "bandwidth per chip"),
        "capacity": Attribute("B", "capacity_B", "capacity per chip"),
        "price_per_bandwidth": Attribute("usd/(B/s)", "price_usd_per_Bps", "price", 0.0, False),
        "price_per_capacity": Attribute("usd/B", "price_usd_per_B", "price", 0.0, False),
        "energy": Attribute("J/B", "energy_J_per_B", "energy per byte moved", 0.0, False),
    },
    "link": {
        "bandwidth": Attribute("B/s", "bandwidth_Bps", "one-direction rate of one link"),
        "latency": Attribute("s", "latency_s", "time of one hop for an empty message", 0.0, False),
        "price_per_bandwidth": Attribute("usd/(B/s)", "price_usd_per_Bps", "price of a link", 0.0, False),
        "energy": Attribute("J/B", "energy_J_per_B", "energy per byte moved over a link", 0.0, False),
        "switch_price_per_bandwidth": Attribute("usd/(B/s)", "switch_price_usd_per_Bps", "price of a port", 0.0, False),
        "switch_energy": Attribute("J/B", "switch_energy_J_per_B", "energy per byte through a port", 0.0, False),
        "in_network_reduction": Attribute(
            "", "in_network_reduction", "share of the rate at which the switch sums; 0: it does not", 0.0, False
        ),
        "all_reduce_traffic": Attribute("", "all_reduce_traffic", "bytes sent per byte that is all-reduced", 2.0),
        "gather_traffic": Attribute("", "gather_traffic", "bytes sent per byte that is gathered or scattered", 1.0),
        "own_share": Attribute(
            "", "own_share", "1 if a chip does not send its own share of a collective", 1.0, False, maximum=1.0
        ),
        "processor_share": Attribute(
            "", "processor_share", "share of the chip that is busy with a collective", 0.0, False, maximum=0.99
        ),
    },
    "calibration": {
        "gemm_efficiency": Attribute(
            "", "gemm_efficiency", "attainable share of matrix peak in products", 0.8, maximum=1.0
        ),
        "attention_efficiency": Attribute(
            "", "attention_efficiency", "the same in fused attention; 0: as in products", 0.0, False, maximum=1.0
        ),
        "memory_efficiency": Attribute(
            "", "memory_efficiency", "attainable share of memory bandwidth", 0.8, maximum=1.0
        ),
        "link_efficiency": Attribute(
            "", "link_efficiency", "attainable share of the first dimension's links", 0.8, maximum=1.0
        ),
        "outer_link_efficiency": Attribute(
            "", "outer_link_efficiency", "attainable share of the other links", 0.8, maximum=1.0
        ),
        "kernel_overhead": Attribute("s", "kernel_overhead_s", "serial cost of one kernel on the chip", 0.0, False),
        "host_launch": Attribute("s", "host_launch_s", "time the host needs to launch one kernel", 0.0, False),
        "own_copy": Attribute(
            "", "own_copy", "1 if gathers and scatters copy a chip's own piece", 0.0, False, maximum=1.0
        ),
        "collective_host": Attribute(
            "s", "collective_host_s", "time of the host per collective and member of its group", 0.0, False
        ),
        "transfer_host": Attribute(
            "s", "transfer_host_s", "time of the host per message between pipeline stages", 0.0, False
        ),
        "extra_state": Attribute(
            "B", "extra_state_B", "further bytes kept per parameter, e.g. a second copy of gradients", 0.0, False
        ),
        "activation_share": Attribute(
            "", "activation_share", "memory taken for activations over what they occupy", 1.0
        ),
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
        "quantisation": Attribute(
            "B", "quantisation_B", "traffic per element of an input that is quantised", 0.0, False
        ),
        "quantisation_row": Attribute(
            "s", "quantisation_row_s", "time per row of an input that is quantised", 0.0, False
        ),
        "attention_rows": Attribute("", "attention_rows", "rows that a tile of attention costs at least", 64.0),
        "append_efficiency": Attribute(
            "", "append_efficiency", "share of memory bandwidth of writing the cache; 0: free", 0.0, False, maximum=1.0
        ),
        "query_conversion": Attribute(
            "B", "query_conversion_B", "traffic per query element of converting it", 0.0, False
        ),
        "kept_gathers": Attribute(
            "", "kept_gathers", "1 if gathered inputs are kept for the backward pass", 0.0, False
        ),
        "early_stop": Attribute(
            "", "early_stop", "1 if recomputation skips a layer's last product", 0.0, False, maximum=1.0
        ),
        "loss_traffic": Attribute("B", "loss_traffic_B", "traffic per logit of the loss, both passes", 24.0, False),
        "memory_reserve": Attribute("B", "memory_reserve_B", "memory that runtime and libraries keep", 0.0, False),
        **POWER,
    },
    "node": NODE,
    "wafer": WAFER,
    "assembly": ASSEMBLY,
    "test": TEST,
    "interface": INTERFACE,
    "facility": FACILITY,
    "template": TEMPLATE,
    "technology": TECHNOLOGY,
    "stack": STACK,
    "lane": LANE,
}
"""Numeric attributes by kind of library entry."""

MODEL: dict[str, Attribute] = {
    "hidden": Attribute("", "hidden", "width of the residual stream"),
    "layers": Attribute("", "model_layers", "transformer layers", integer=True),
    "heads": Attribute("", "heads", "query heads", integer=True),
    "kv_heads": Attribute("", "kv_heads", "key and value heads", integer=True),
    "head_size": Attribute("", "head_size", "width of a head"),
    "feed_forward": Attribute("", "feed_forward", "width of the dense feed-forward part", positive=False),
    "gated": Attribute("", "gated", "1 if the feed-forward part is gated (three matrices)", positive=False),
    "vocabulary": Attribute("", "vocabulary", "rows of the embedding", positive=False),
    "tied_embeddings": Attribute("", "tied_embeddings", "1 if embedding and head share their matrix", positive=False),
    "sequence": Attribute("", "sequence", "tokens of a sample unless `sequence_length` says otherwise"),
    "experts": Attribute("", "experts", "routed experts of a layer; 0: dense", positive=False),
    "experts_per_token": Attribute("", "experts_per_token", "routed experts that a token visits", positive=False),
    "expert_feed_forward": Attribute("", "expert_feed_forward", "width of a routed expert", positive=False),
    "shared_feed_forward": Attribute("", "shared_feed_forward", "width of the shared experts together", positive=False),
    "dense_layers": Attribute("", "dense_layers", "leading layers without routed experts", positive=False),
    "bias": Attribute("", "bias", "1 if products have a bias", positive=False),
    "norm_bias": Attribute("", "norm_bias", "1 if norms have a bias", positive=False),
    "learned_positions": Attribute("", "learned_positions", "rows of a learned table of positions", positive=False),
    "dropout": Attribute("", "dropout", "1 if residuals and attention are dropped out", positive=False),
    "causal": Attribute("", "causal", "1 if tokens attend to earlier ones only", positive=False),
    "m": Attribute("", "m", "rows of a product, or new tokens of attention"),
    "n": Attribute("", "n", "columns of a product, or keys of attention"),
    "k": Attribute("", "k", "inner dimension of a product"),
    "operation": Attribute("", "operation", "code of a collective operation", positive=False),
    "message": Attribute("B", "message", "message of a collective"),
    "out_of_place": Attribute("", "out_of_place", "1 if a rank also copies its own piece", positive=False),
}
"""Parameters of a model that a study may override, as `workload.<name>`."""

ROLES = {
    "workload": "workload",
    "chip": "chip",
    "topology": "topology",
    "memory": "memory",
    "link": "link",
    "outer_link": "link",
    "calibration": "calibration",
    "facility": "facility",
    "node": "node",
    "package": "package",
    "template": "template",
    "technology": "technology",
    "stack": "stack",
    "lane": "lane",
    "outer_lane": "lane",
}
"""Columns whose values are library entries, and the kind of entry. `link` serves the first network dimension,
`outer_link` the others (the same as `link` unless a study says otherwise)."""

STAND_INS = {"outer_link": "link"}
"""Roles that another role's column fills where a study does not name an entry."""
PLACEHOLDER = "generated"
"""Entries of this name stand for what is generated; selections from the library leave them out."""
ENTRY_DEFAULTS = {
    "calibration": "uncalibrated",
    "facility": "datacenter",
    "technology": "as_template",
    "chip": PLACEHOLDER,
    "memory": PLACEHOLDER,
    "link": PLACEHOLDER,
}
"""Entries that fill a role where a study names none; the placeholder where it names what they are generated from."""
GENERATED_FROM = {"chip": "template", "memory": "stack", "link": "lane", "outer_link": "outer_lane"}
"""Roles whose numbers are generated where a study fills another role."""
OPTIONAL_ROLES = ("node", "package", "template", "stack", "lane", "outer_lane")
"""Roles that nothing fills where a study names none: columns that need them are then unknown."""

NUMBERS: dict[str, Attribute] = {
    "chips": Attribute("", "chips", "chips of the system", None, integer=True),
    "dim_x": Attribute("", "dim_x", "chips along the first network dimension", None, integer=True),
    "dim_y": Attribute("", "dim_y", "extent of the second network dimension", 1.0, integer=True),
    "dim_z": Attribute("", "dim_z", "extent of the third network dimension", 1.0, integer=True),
    "tensor_parallel": Attribute("", "tensor_parallel", "chips that share each kernel", 1.0, integer=True),
    "pipeline_parallel": Attribute("", "pipeline_parallel", "pipeline stages", 1.0, integer=True),
    "data_parallel": Attribute("", "data_parallel", "replicas of the model", 1.0, integer=True),
    "microbatch": Attribute("", "microbatch", "samples that pass the pipeline together", 1.0, integer=True),
    "resident_microbatches": Attribute(
        "", "resident_microbatches", "microbatches that pass an on-chip partition before the next", 1.0, integer=True
    ),
    "compute_efficiency": Attribute("", "compute_efficiency", "attainable share of peak compute", 0.9, maximum=1.0),
    "memory_efficiency": Attribute("", "memory_efficiency", "attainable share of memory bandwidth", 1.0, maximum=1.0),
    "link_efficiency": Attribute("", "link_efficiency", "attainable share of link bandwidth", 1.0, maximum=1.0),
    "optimizer_state": Attribute("B", "optimizer_state_B", "optimizer bytes per parameter", 12.0, False),
    "batch_size": Attribute("", "batch_size", "samples per iteration, or requests served together", 1.0),
    "sequence_length": Attribute("", "sequence_length", "tokens of a sample or prompt; 0: the model's own", 0.0, False),
    "output_length": Attribute("", "output_length", "tokens generated per request", 1.0),
    "context_parallel": Attribute("", "context_parallel", "chips that share a sequence", 1.0, integer=True),
    "expert_parallel": Attribute("", "expert_parallel", "chips over which the experts are spread", 1.0, integer=True),
    "virtual_stages": Attribute("", "virtual_stages", "model chunks per pipeline stage", 1.0, integer=True),
    "sequence_parallel": Attribute(
        "", "sequence_parallel", "1: norms are split over the tensor group", 0.0, False, integer=True, maximum=1.0
    ),
    "zero_stage": Attribute(
        "",
        "zero_stage",
        "0 to 3: states, gradients, weights sharded over replicas",
        0.0,
        False,
        maximum=3.0,
        integer=True,
    ),
    "shard_group": Attribute("", "shard_group", "replicas that share one sharded copy; 0: all", 0.0, False),
    "checkpoint_interval": Attribute(
        "", "checkpoint_interval", "layers between the checkpoints of full recompute", 1.0, integer=True
    ),
    "chunk_length": Attribute(
        "", "chunk_length", "prompt tokens that one pass of a server takes beside decoding; 0: all", 0.0, False
    ),
    "lifetime": Attribute("s", "lifetime_s", "time over which the system's price is written off", 126144000.0),
    "training_tokens": Attribute("", "training_tokens", "tokens of a training run", 3e11),
    "weight_offload": Attribute(
        "", "weight_offload", "share of weights kept in the second memory", 0.0, False, maximum=1.0
    ),
    "activation_offload": Attribute(
        "", "activation_offload", "share of stored activations kept there", 0.0, False, maximum=1.0
    ),
    "optimizer_offload": Attribute(
        "", "optimizer_offload", "share of optimizer state kept there", 0.0, False, maximum=1.0
    ),
    "offload_bandwidth": Attribute(
        "B/s", "offload_bandwidth_Bps", "link of a chip to its second memory, one way", 32e9
    ),
    "offload_capacity": Attribute("B", "offload_capacity_B", "second memory per chip; 0: unlimited", 0.0, False),
    "tensor_tier": Attribute(
        "", "tensor_tier", "0: tensor groups lie on the first dimension, 1: anywhere", 0.0, False, True, 1.0
    ),
    "pipeline_tier": Attribute("", "pipeline_tier", "the same of pipelines", 1.0, False, True, 1.0),
    "data_tier": Attribute("", "data_tier", "the same of groups of replicas", 1.0, False, True, 1.0),
    "data_overlap": Attribute(
        "", "data_overlap", "1: replicas communicate beside the backward pass", 0.0, False, True, 1.0
    ),
    "optimizer_sharding": Attribute("", "optimizer_sharding", "1: replicas share the optimizer", 0.0, False, True, 1.0),
    "gather_redo": Attribute(
        "", "gather_redo", "1: gathered inputs are not kept but gathered again", 0.0, False, True, 1.0
    ),
    "tensor_overlap": Attribute(
        "", "tensor_overlap", "share of tensor-parallel traffic hidden by compute", 0.0, False, maximum=1.0
    ),
    "overlap_slowdown": Attribute(
        "", "overlap_slowdown", "compute lost per hidden second of traffic", 0.0, False, maximum=1.0
    ),
    "speculated_tokens": Attribute(
        "", "speculated_tokens", "drafted tokens in a row that a pass verifies", 0.0, False, integer=True, maximum=32.0
    ),
    "acceptance_rate": Attribute(
        "", "acceptance_rate", "probability that a drafted token is accepted", 0.8, False, maximum=1.0
    ),
    "draft_time": Attribute("s", "draft_time_s", "time of one pass of the draft model", 0.0, False),
    "draw": Attribute("", "draw", "number of a Monte Carlo draw; 0: the values themselves", 0.0, False, integer=True),
    "tree_width": Attribute(
        "", "tree_width", "candidates drafted after every token; 1: a sequence", 1.0, integer=True, maximum=32.0
    ),
}
"""Numbers that an axis may sweep, beyond the attributes of library entries."""

TABLE_SCALARS = {
    "layers": ("", "transformer layers of the model"),
    "head_layers": ("", "layers for which the head counts where stages are balanced"),
    "expert_layers": ("", "layers with routed experts"),
    "heads": ("", "query heads"),
    "routed_experts": ("", "routed experts of a layer that has them"),
    "queries": ("", "tokens of one sample that one chip processes in a pass"),
    "tokens_per_sample": ("", "tokens of one sample"),
    "stage_message_B": ("B", "activations that one chip hands to the next pipeline stage, per microbatch"),
    "stage_gather_B": ("B", "what the chips of a tensor group gather of a message that they received in parts"),
    "tied_B": ("B", "gradient of the embedding that first and last stage share, on one chip"),
    "checkpoint_B": ("B", "what a layer keeps of a microbatch under full recompute"),
    "cache_B_per_layer": ("B", "keys and values that a layer keeps on one chip, for all samples"),
    "reduce_B": ("B", "bytes of a gradient when replicas reduce it"),
    "model_flops_per_token": ("flop", "operations of the forward pass per token, causal attention counted as causal"),
    "parameters": ("", "parameters of the whole model"),
    "active_parameters": ("", "parameters that a token meets"),
}
"""Numbers that every operator table must define: unit and meaning."""

BLOCK_SCALARS = {
    "layers": ("", "transformer layers of the model"),
    "heads": ("", "query heads"),
    "message_B": ("B", "activations of the residual stream, one microbatch on one chip before any split"),
    "stage_message_B": ("B", "what a chip hands to the next pipeline stage, per microbatch"),
}
"""Numbers that the table of a block must define for the family `calculon`."""

OVERRIDES: dict[str, Attribute] = {
    f"{role}.{name}": attribute
    for role, kind in ROLES.items()
    for name, attribute in {"workload": MODEL, "package": PACKAGE}.get(kind, ATTRIBUTES.get(kind, {})).items()
}
"""Columns such as `memory.bandwidth` or `workload.hidden`, which replace a number of the selected entry."""

NUMERIC: dict[str, Attribute] = {**NUMBERS, **OVERRIDES}
"""All columns of numbers."""

SWITCH_DEFAULTS = {
    "overlap": "full",
    "weight_traffic": "per_microbatch",
    "gradient_traffic": "read_modify_write",
    "optimizer_traffic": "per_iteration",
    "tensor_traffic": "per_tensor",
    "capacity_model": "training_state",
    "sharding": "least_time",
    "pipeline_bubble": "one_f_one_b",
    "pipeline_transfer": "per_microbatch",
    "gradient_all_reduce": "overlapped",
    "all_to_all_model": "busiest_link",
    "latency": "included",
    "process_grid_network": "topology_aware",
    "outer_links": "shared",
    "placement": "tensor_pipeline_data",
    "weight_tiling": "least_traffic",
    "unit_allocation": "ideal",
    "chip_cost": "listed",
    "voltage_floor": "fewer_units",
    "cache_network": "shared_ports",
    "memory_devices": "perimeter_limited",
    "generated_counts": "whole",
    "device_mapping": "dimensions",
}
"""Full physics: what a study gets when it does not say otherwise."""

CHOICE_DEFAULTS = {
    "task": "training",
    "recompute": "none",
    "context_exchange": "ring",
    "schedule": "one_f_one_b",
    "tensor_communication": "all_reduce",
    "tensor_overlap_style": "none",
    "collective_algorithm": "best",
    "compute_format": "bf16",
    "attention_format": "bf16",
    "activation_format": "bf16",
    "weight_format": "bf16",
    "gradient_format": "fp32",
    "cache_format": "bf16",
    "acceptance_law": "geometric",
    "kernel_parallelism": "row_column",
    "mapping_order": "tensor_context_pipeline_data",
}
"""Choices of the mapping that a study does not make."""

NAMED = {**SWITCHES, **CHOICES}
NAMED_DEFAULTS = {**SWITCH_DEFAULTS, **CHOICE_DEFAULTS}
"""All columns that choose among names of `kernels.codes`, and their defaults."""

assert NAMED_DEFAULTS.keys() == NAMED.keys()
