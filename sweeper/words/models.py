"""The words of models: parameters that a study may override, and the numbers that operator tables define."""

from sweeper.words.attributes import Attribute, count, fraction, free, vocabulary, whole
from sweeper.words.ranges import LAYERS, LENGTH, OPERATION, WIDTH

MODEL = vocabulary(
    hidden=Attribute("", "width of the residual stream", limits=WIDTH),
    layers=whole("transformer layers", LAYERS, column="model_layers"),
    heads=whole("query heads", WIDTH),
    kv_heads=whole("key and value heads", WIDTH),
    head_size=Attribute("", "width of a head", limits=WIDTH),
    feed_forward=free("", "width of the dense feed-forward part", None, limits=WIDTH),
    gated=fraction("1 if the feed-forward part is gated (three matrices)", None),
    vocabulary=free("", "rows of the embedding", None, limits=LENGTH),
    tied_embeddings=fraction("1 if embedding and head share their matrix", None),
    sequence=Attribute("", "tokens of a sample unless `sequence_length` says otherwise", limits=LENGTH),
    experts=free("", "routed experts of a layer; 0: dense", None, limits=WIDTH),
    experts_per_token=free("", "routed experts that a token visits", None, limits=WIDTH),
    expert_feed_forward=free("", "width of a routed expert", None, limits=WIDTH),
    shared_feed_forward=free("", "width of the shared experts together", None, limits=WIDTH),
    dense_layers=free("", "leading layers without routed experts", None, limits=LAYERS),
    bias=fraction("1 if products have a bias", None),
    norm_bias=fraction("1 if norms have a bias", None),
    learned_positions=free("", "rows of a learned table of positions", None, limits=LENGTH),
    dropout=fraction("1 if residuals and attention are dropped out", None),
    window=free("", "tokens that a token attends to in layers with a sliding window; 0: all", None, limits=LENGTH),
    windowed_layers=free("", "layers with a sliding window", None, limits=LAYERS),
    scan_layers=free("", "recurrent layers: state space, linear attention or delta rule", None, limits=LAYERS),
    scan_key_size=Attribute("", "width of a recurrent layer's keys: rows of the state of a head", limits=WIDTH),
    scan_value_size=Attribute("", "width of a recurrent layer's heads: columns of their state", limits=WIDTH),
    scan_delta=fraction("1 if a state forgets by the delta rule what it held under a key", None),
    scan_chunk=Attribute("", "tokens of a chunk of the scan over a sequence", limits=LENGTH),
    lora_rank=free("", "rank of adapters beside frozen weights; 0: all weights are trained", None, limits=WIDTH),
    lora_qkv=fraction("1 if the query, key and value matrix has an adapter", None),
    lora_projection=fraction("1 if the output matrix of attention has one", None),
    lora_up=fraction("1 if the first matrix of the feed-forward part has one", None),
    lora_down=fraction("1 if its last matrix has one", None),
    causal=fraction("1 if tokens attend to earlier ones only", None),
    m=Attribute("", "rows of a product, or new tokens of attention", limits=LENGTH),
    n=Attribute("", "columns of a product, or keys of attention", limits=LENGTH),
    k=Attribute("", "inner dimension of a product", limits=LENGTH),
    operation=count("code of a collective operation", OPERATION, None),
    message=Attribute("B", "message of a collective", column="message"),
    out_of_place=fraction("1 if a rank also copies its own piece", None),
)
"""Parameters of a model that a study may override, as `workload.<name>`."""

TABLE_SCALARS = {
    "layers": ("", "transformer layers of the model"),
    "head_layers": ("", "layers for which the head counts where stages are balanced"),
    "tensor_grid_rows": (
        "",
        "rows of the grid in which a tensor group lies; 0: the model has parts that no grid splits",
    ),
    "expert_layers": ("", "layers with routed experts"),
    "heads": ("", "query heads"),
    "routed_experts": ("", "routed experts of a layer that has them"),
    "queries": ("", "tokens of one sample that one chip processes in a pass"),
    "tokens_per_sample": ("", "tokens of one sample"),
    "prompt_passes": ("", "passes in which a server takes the prompts of a microbatch"),
    "stage_message_B": ("B", "activations that one chip hands to the next pipeline stage, per pass of a microbatch"),
    "stage_gather_B": ("B", "what the chips of a tensor group gather of a message that they received in parts"),
    "tied_B": ("B", "gradient of the embedding that first and last stage share, on one chip"),
    "checkpoint_B": ("B", "what a layer keeps of a microbatch under full recompute"),
    "cache_B_per_layer": ("B", "keys and values that a layer keeps on one chip, for all samples"),
    "reduce_B": ("B", "bytes of a gradient when replicas reduce it"),
    "model_flops_per_token": ("flop", "operations of the forward pass per token, causal attention counted as causal"),
    "gradient_share": (
        "",
        "operations of the backward pass over twice those of the forward pass; 1: all weights learn",
    ),
    "parameters": ("", "parameters of the whole model"),
    "active_parameters": ("", "parameters that a token meets"),
}
"""Numbers that every operator table must define: unit and meaning."""

USUAL_SCALARS = {"prompt_passes": 1.0}
"""What those are that a table need not define."""

BLOCK_SCALARS = {
    "layers": ("", "transformer layers of the model"),
    "heads": ("", "query heads"),
    "message_B": ("B", "activations of the residual stream, one microbatch on one chip before any split"),
    "stage_message_B": ("B", "what a chip hands to the next pipeline stage, per microbatch"),
}
"""Numbers that the table of a block must define for the family `calculon`."""
