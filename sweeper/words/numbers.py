"""The words of mappings and runs: numbers that an axis may sweep, beyond those of library entries."""

from collections.abc import Mapping

from sweeper.errors import EnvironmentFault, brief
from sweeper.plugins import assert_words, label, loaded
from sweeper.words.attributes import Attribute, count, flag, fraction, free, vocabulary, whole
from sweeper.words.ranges import (
    BUCKET,
    CHIPS,
    DRAFT,
    EFFICIENCY,
    EXACT,
    IMBALANCE,
    LAYERS,
    LENGTH,
    LIFE_S,
    OVERSUBSCRIPTION,
    PER_NUMBER_B,
    SHORT_OF_ALL,
    TOKENS,
    YEARS,
    ZERO_STAGE,
)

OURS = vocabulary(
    chips=whole("chips of the system", CHIPS),
    dim_x=whole("chips along the first network dimension", CHIPS),
    dim_y=whole("extent of the second network dimension", CHIPS, 1.0),
    dim_z=whole("extent of the third network dimension", CHIPS, 1.0),
    oversubscription_y=Attribute(
        "", "rate of the chips below a switch of the second dimension over that leading out", 1.0, OVERSUBSCRIPTION
    ),
    oversubscription_z=Attribute("", "the same of the third dimension", 1.0, OVERSUBSCRIPTION),
    tensor_parallel=whole("chips that share each kernel", CHIPS, 1.0),
    pipeline_parallel=whole("pipeline stages", CHIPS, 1.0),
    data_parallel=whole("replicas of the model", CHIPS, 1.0),
    microbatch=whole("samples that pass the pipeline together", LENGTH, 1.0),
    resident_microbatches=whole("microbatches that pass an on-chip partition before the next", LENGTH, 1.0),
    compute_efficiency=Attribute("", "attainable share of peak compute", 0.9, EFFICIENCY),
    memory_efficiency=Attribute("", "attainable share of memory bandwidth", 1.0, EFFICIENCY),
    link_efficiency=Attribute("", "attainable share of link bandwidth", 1.0, EFFICIENCY),
    optimizer_state=free("B", "optimizer bytes per parameter", 12.0, limits=PER_NUMBER_B),
    batch_size=Attribute("", "samples per iteration, or requests served together", 1.0, LENGTH),
    sequence_length=free("", "tokens of a sample or prompt; 0: the model's own", limits=LENGTH),
    output_length=Attribute("", "tokens generated per request", 1.0, LENGTH),
    cached_share=free("", "share of a prompt whose caches a server has already", limits=SHORT_OF_ALL),
    context_parallel=whole("chips that share a sequence", CHIPS, 1.0),
    tensor_rows=whole("rows of the grid of chips in which a tensor group lies; 1: a row", CHIPS, 1.0),
    expert_parallel=whole("chips over which the experts are spread", CHIPS, 1.0),
    expert_tensor_parallel=free("", "chips that share an expert; 0: as tensor_parallel", limits=CHIPS),
    virtual_stages=whole("model chunks per pipeline stage", LAYERS, 1.0),
    sequence_parallel=flag("1: norms are split over the tensor group"),
    zero_stage=count("0 to 3: states, gradients, weights sharded over replicas", ZERO_STAGE),
    gradient_bucket=count("parameters whose gradients one message reduces; 0: all", BUCKET),
    parameter_bucket=count("parameters that one message gathers after an update; 0: all", BUCKET),
    captured_layers=count("layers in a captured graph; 0: all of a stage", LAYERS),
    shard_group=free("", "replicas that share one sharded copy; 0: all", limits=CHIPS),
    recompute_share=fraction("share of a stage's layers to which full recompute applies", 1.0),
    recompute_attention=fraction("share of layers in which selective recompute repeats the core of attention", 1.0),
    recompute_latents=fraction("the same of projections from attention's latents"),
    recompute_norms=fraction("the same of norms"),
    recompute_feed_forward=fraction("the same of the feed-forward part of layers without experts"),
    recompute_expert_activations=fraction("the same of the activation inside experts"),
    recompute_experts=fraction("the same of router, exchange, experts and shared experts"),
    checkpoint_interval=whole("layers between the checkpoints of full recompute", LAYERS, 1.0),
    max_batched_tokens=free("", "tokens that a pass of a server takes at most; 0: all of a microbatch", limits=LENGTH),
    lifetime=Attribute("s", "time over which the system's price is written off", 126144000.0, LIFE_S),
    training_tokens=Attribute("", "tokens of a training run", 3e11, TOKENS),
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
    expert_overlap=fraction("share of the experts' exchange hidden by compute"),
    expert_imbalance=Attribute("", "tokens of the busiest chip's experts over the mean", 1.0, IMBALANCE),
    overlap_slowdown=fraction("compute lost per hidden second of traffic"),
    network_static_share=fraction("share of their power that links and switches draw whatever they carry"),
    speculated_tokens=count("drafted tokens in a row that a pass verifies", DRAFT),
    acceptance_rate=fraction("probability that a drafted token is accepted", 0.8),
    draft_time=free("s", "time of one pass of the draft model"),
    draft_layers=count("layers of a server's own model that draft a token, with its head; 0: none", LAYERS),
    draw=count("number of a Monte Carlo draw; 0: the values themselves", EXACT),
    year=free("", "year of the numbers of packages that change with it; 0: as they stand", limits=YEARS),
    tree_width=whole("candidates drafted after every token; 1: a sequence", DRAFT, 1.0),
)
"""Our own of them."""


def _vocabulary(whose: str, given: Mapping[str, object]) -> dict[str, Attribute]:
    """Numbers of a plug-in. Raises EnvironmentFault for what is no number, and for a name that no study can write."""
    found = {name: attribute for name, attribute in given.items() if isinstance(attribute, Attribute)}
    for name in given.keys() - found.keys():
        raise EnvironmentFault(
            f"{whose} gives {name!r} as {brief(given[name])}, which is no sweeper.words.attributes.Attribute"
        )
    assert_words(whose, [name for number, attribute in found.items() for name in (number, attribute.column or number)])
    return vocabulary(**found)


ADDED = {name: _vocabulary(label("numbers", name), given) for name, given in loaded("numbers").items()}
"""Numbers of each plug-in; `sweeper.words.columns` refuses those whose names are taken."""

NUMBERS = {**OURS, **{name: number for numbers in ADDED.values() for name, number in numbers.items()}}
"""Numbers that an axis may sweep, beyond the attributes of library entries: ours, and those of plug-ins."""
