"""The words of models: parameters that a study may override, and the numbers that operator tables define."""

from sweeper.words.attributes import Attribute

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
