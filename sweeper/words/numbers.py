"""The words of mappings and runs: numbers that an axis may sweep, beyond those of library entries."""

from sweeper.words.attributes import Attribute

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
