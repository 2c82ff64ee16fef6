"""The words of mappings and runs: numbers that an axis may sweep, beyond those of library entries."""

from sweeper.words.attributes import Attribute, flag, fraction, free, vocabulary, whole

NUMBERS = vocabulary(
    chips=whole("chips of the system"),
    dim_x=whole("chips along the first network dimension"),
    dim_y=whole("extent of the second network dimension", 1.0),
    dim_z=whole("extent of the third network dimension", 1.0),
    tensor_parallel=whole("chips that share each kernel", 1.0),
    pipeline_parallel=whole("pipeline stages", 1.0),
    data_parallel=whole("replicas of the model", 1.0),
    microbatch=whole("samples that pass the pipeline together", 1.0),
    resident_microbatches=whole("microbatches that pass an on-chip partition before the next", 1.0),
    compute_efficiency=Attribute("", "attainable share of peak compute", 0.9, maximum=1.0),
    memory_efficiency=Attribute("", "attainable share of memory bandwidth", 1.0, maximum=1.0),
    link_efficiency=Attribute("", "attainable share of link bandwidth", 1.0, maximum=1.0),
    optimizer_state=free("B", "optimizer bytes per parameter", 12.0),
    batch_size=Attribute("", "samples per iteration, or requests served together", 1.0),
    sequence_length=free("", "tokens of a sample or prompt; 0: the model's own"),
    output_length=Attribute("", "tokens generated per request", 1.0),
    context_parallel=whole("chips that share a sequence", 1.0),
    expert_parallel=whole("chips over which the experts are spread", 1.0),
    virtual_stages=whole("model chunks per pipeline stage", 1.0),
    sequence_parallel=flag("1: norms are split over the tensor group"),
    zero_stage=Attribute(
        "", "0 to 3: states, gradients, weights sharded over replicas", 0.0, positive=False, integer=True, maximum=3.0
    ),
    shard_group=free("", "replicas that share one sharded copy; 0: all"),
    checkpoint_interval=whole("layers between the checkpoints of full recompute", 1.0),
    chunk_length=free("", "prompt tokens that one pass of a server takes beside decoding; 0: all"),
    lifetime=Attribute("s", "time over which the system's price is written off", 126144000.0),
    training_tokens=Attribute("", "tokens of a training run", 3e11),
    weight_offload=fraction("share of weights kept in the second memory"),
    activation_offload=fraction("share of stored activations kept there"),
    optimizer_offload=fraction("share of optimizer state kept there"),
    offload_bandwidth=Attribute("B/s", "link of a chip to its second memory, one way", 32e9),
    offload_capacity=free("B", "second memory per chip; 0: unlimited"),
    tensor_tier=flag("0: tensor groups lie on the first dimension, 1: anywhere"),
    pipeline_tier=flag("the same of pipelines", 1.0),
    data_tier=flag("the same of groups of replicas", 1.0),
    data_overlap=flag("1: replicas communicate beside the backward pass"),
    optimizer_sharding=flag("1: replicas share the optimizer"),
    gather_redo=flag("1: gathered inputs are not kept but gathered again"),
    tensor_overlap=fraction("share of tensor-parallel traffic hidden by compute"),
    overlap_slowdown=fraction("compute lost per hidden second of traffic"),
    speculated_tokens=Attribute(
        "", "drafted tokens in a row that a pass verifies", 0.0, positive=False, integer=True, maximum=32.0
    ),
    acceptance_rate=fraction("probability that a drafted token is accepted", 0.8),
    draft_time=free("s", "time of one pass of the draft model"),
    draw=Attribute("", "number of a Monte Carlo draw; 0: the values themselves", 0.0, positive=False, integer=True),
    tree_width=Attribute("", "candidates drafted after every token; 1: a sequence", 1.0, integer=True, maximum=32.0),
)
"""Numbers that an axis may sweep, beyond the attributes of library entries."""
