"""The layout of measured training runs, and what rows of every layout say of a model."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from sweeper.errors import unknown
from sweeper.evidence.measured_rows import (
    INFERRED,
    Alternatives,
    ColumnValue,
    ColumnValues,
    MeasuredPoint,
    MeasuredRow,
    Refusal,
    Unmodelled,
    number,
    positive,
)
from sweeper.evidence.registry import (
    check_sizes,
    model,
    nearest,
    occurs,
    platform,
    platform_entry,
    split_columns,
    stack,
    stated,
    stated_columns,
    without_stack,
)


def model_columns(row: MeasuredRow, known: Mapping[str, Any]) -> ColumnValues:
    """Overrides of the base model by the dimensions of a row, or the model that the registry knows by its name."""
    if named := model(known, row.get("model", "")):
        check_sizes(row, str(named["workload"]))
        return named
    if "lora" in row.get("model", "").lower():
        raise Unmodelled("adapters of which neither rank nor places are given", Refusal.INCOMPLETE)
    if row.get("arch", "dense") not in ("dense", "moe", ""):
        raise Unmodelled(f"architecture {row['arch']!r}", Refusal.METHOD)
    hidden, heads = positive(row, "hidden"), positive(row, "n_heads")
    gated = number(row, "ffn_gated", 0.0)
    experts = number(row, "n_experts", 0.0)
    shared = number(row, "n_shared_experts", 0.0)
    expert_width = number(row, "moe_ffn_hidden", 0.0) or number(row, "ffn_hidden", 0.0)
    return {
        "workload": "decoder",
        "workload.hidden": hidden,
        "workload.layers": positive(row, "n_layers"),
        "workload.heads": heads,
        "workload.kv_heads": positive(row, "n_kv_heads", heads),
        "workload.head_size": positive(row, "head_dim", hidden / heads),
        "workload.feed_forward": positive(row, "ffn_hidden", 4.0 * hidden),
        "workload.gated": gated,
        "workload.bias": 1.0 - gated,
        "workload.norm_bias": 1.0 - gated,
        "workload.learned_positions": 0.0 if gated else 2048.0,
        "workload.vocabulary": number(row, "vocab", 0.0),
        "workload.experts": experts,
        "workload.experts_per_token": number(row, "moe_topk", 0.0),
        "workload.expert_feed_forward": expert_width if experts else 0.0,
        "workload.shared_feed_forward": shared * expert_width,
        "workload.dense_layers": number(row, "n_dense_layers", 0.0),
    }


GUESSED = ("n_kv_heads", "vocab")
"""Dimensions without which a row is still answered: as many heads of keys as of queries, and no embedding."""


def guesses_model(row: MeasuredRow, known: Mapping[str, Any]) -> bool:
    """Whether a dimension of the model of a row is a guess."""
    return not model(known, row.get("model", "")) and not all(row.get(name) for name in GUESSED)


NO_RECOMPUTE: ColumnValues = {"recompute": "none"}
SELECTIVE: ColumnValues = {"recompute": "selective"}
FULL: ColumnValues = {"recompute": "full"}
PER_OPERATOR: ColumnValues = {**FULL, "kept_results": "operators"}
KEEP_PRODUCTS: ColumnValues = {**FULL, "kept_results": "products"}
KEEP_ATTENTION: ColumnValues = {**FULL, "kept_results": "attention"}
KEEP_PROJECTIONS: ColumnValues = {**FULL, "kept_results": "projections"}
KEEP_ATTENDED: ColumnValues = {**FULL, "kept_results": "attended"}
ON_THE_HOST: ColumnValues = {"activation_offload": 1.0}
PROJECTIONS_AWAY: ColumnValues = KEEP_PROJECTIONS | ON_THE_HOST
ANY_RECOMPUTE = (
    NO_RECOMPUTE,
    SELECTIVE,
    *({**FULL, "recompute_share": share} for share in (0.125, 0.25, 0.375, 0.5, 0.75, 1.0)),
)
"""Whoever does not say what ran again had as many layers do so as the memory asked for."""
RECOMPUTE: dict[str, Alternatives] = {
    "none": (NO_RECOMPUTE,),
    "full": (FULL,),
    "selective": (SELECTIVE,),
    "minimal": (KEEP_PRODUCTS,),
    "minimal_offloaded": (KEEP_PRODUCTS | ON_THE_HOST,),
    "save_dot_except_mlp": (KEEP_PROJECTIONS,),
    "save_dot_except_mlpwi": (KEEP_PROJECTIONS,),
    "save_dot_with_context_except_mlp": (KEEP_ATTENTION,),
    "save_qkv_proj": (KEEP_ATTENDED,),
    "qkv_proj_offloaded": (KEEP_ATTENDED | ON_THE_HOST,),
    "custom/full (see run_recipe.sh)": (KEEP_ATTENTION, FULL),
    "custom: input, qkv, context": (KEEP_ATTENTION,),
    "custom: input, qkv, out_proj on the host": (PROJECTIONS_AWAY,),
    "some policy of MaxText": (KEEP_PRODUCTS, KEEP_ATTENTION, PROJECTIONS_AWAY, FULL),
    "selective(per-op)": (PER_OPERATOR,),
    **dict.fromkeys(("", "unknown", "see recipe"), ANY_RECOMPUTE),
}
"""What the words of tables may mean; a blank does not say that nothing was repeated."""
SHARDINGS: dict[str, tuple[ColumnValue, ...]] = {
    "none/zero1": (0.0, 1.0),
    "distributed optimizer": (1.0,),
    **dict.fromkeys(("fsdp", "fsdp full", "fsdp full_shard(zero3)", "fsdp (full shard)", "fsdp+dp", "zero3"), (3.0,)),
    "distributed optimizer (zero1)": (1.0,),
    **dict.fromkeys(("fsdp in slice, dp across slices", "fsdp over all cores (2 cores/chip)"), (3.0,)),
    "zero2": (2.0,),
    "zero1": (1.0,),
    "zero0": (0.0,),
    "none": (0.0,),
}
"""ZeRO stages that the words of tables may mean, without the number of shards and a hyphen."""
SHARDS = re.compile(r"(?<=^fsdp)\d+(/\d+)?|(?<=^zero)-")
"""What does not tell the stage: how many shards there are, and a hyphen."""
YES_NO = {
    **dict.fromkeys(("yes", "y", "true", "on", "1", "1.0"), True),
    **dict.fromkeys(("no", "n", "false", "off", "0", "0.0", "unknown", "see recipe"), False),
}
"""Words of what is done, or not or not said: then it is as the software usually does."""
MICROBATCHES = (1.0, 2.0, 4.0, 8.0, 16.0)
"""What a microbatch may have been that is not given."""
FORMATS = ("mxfp8", "nvfp4", "fp8", "tf32")
"""Formats of products by their words; the first that occurs counts."""
WIDE_FORMATS = ("bf16", "fp16", "fp32")
"""Words of formats that products do not narrow."""


def precision(word: str) -> ColumnValues:
    """Columns of the number formats that a training run names; half precision with fp32 sums is the default. Raises
    Unmodelled for words of which none is known."""
    if word and not any(occurs(name, word) for name in (*FORMATS, *WIDE_FORMATS)):
        raise Unmodelled(f"precision {word!r}", Refusal.WORD)
    columns: ColumnValues = {}
    if "PURE" in word:
        columns["gradient_format"] = "bf16"
    found = next((name for name in FORMATS if occurs(name, word)), None)
    if found is not None:
        columns["compute_format"] = found
    if word.lower() in ("fp32", "tf32"):
        columns |= {"activation_format": "fp32", "weight_format": "fp32"}
    return columns


MEGATRON_MODULES = {
    "core_attn": "attention",
    "mla_up_proj": "latents",
    "layernorm": "norms",
    "mlp": "feed_forward",
    "moe_act": "expert_activations",
    "moe": "experts",
}
"""Parts of a layer that Megatron-Core repeats, by its words."""


def recomputations(row: MeasuredRow, selective: ColumnValue = "selective") -> Alternatives:
    """What a row may have recomputed, by our names, in software that means `selective` by that word; parts of a layer
    are joined by plus signs. Raises Unmodelled for a word that is not known."""
    word = str(selective) if row.get("recompute") == "selective" else row.get("recompute", "")
    if word in RECOMPUTE:
        return RECOMPUTE[word]
    parts = word.split("+")
    if not set(parts) <= MEGATRON_MODULES.keys():
        raise Unmodelled(unknown("recomputation", word, [*filter(None, RECOMPUTE), *MEGATRON_MODULES]), Refusal.WORD)
    return ({**SELECTIVE, **{f"recompute_{ours}": float(name in parts) for name, ours in MEGATRON_MODULES.items()}},)


def zero_stages(word: str, usual: ColumnValue | None, data: float) -> tuple[ColumnValue, ...]:
    """ZeRO stages that a row may have had: by its word, by what its software always does, or 0 or 1. Raises Unmodelled
    for a word that is not known."""
    if word:
        if (plain_word := SHARDS.sub("", word)) not in SHARDINGS:
            raise Unmodelled(unknown("sharding", word, SHARDINGS), Refusal.WORD)
        return SHARDINGS[plain_word]
    if usual is not None:
        return (usual,)
    return (0.0, 1.0) if data > 1.0 else (0.0,)


def is_split(row: MeasuredRow, usual: bool) -> bool:
    """Whether a tensor group shares what lies between its products: by the word of a row, or as its software does where
    that says nothing or no. Raises Unmodelled for a word that is not known."""
    word = row.get("seq_parallel", "").strip().lower()
    if word and word not in YES_NO:
        raise Unmodelled(unknown("seq_parallel", word, YES_NO), Refusal.WORD)
    return YES_NO.get(word, False) or usual


def microbatches(row: MeasuredRow, per_replica: float) -> tuple[ColumnValue, ...]:
    """What the microbatch of a row may have been. Raises Unmodelled where none divides the batch of a replica."""
    if row.get("micro_batch_seq"):
        return (positive(row, "micro_batch_seq"),)
    found = tuple(size for size in MICROBATCHES if per_replica % size == 0.0)
    if not found:
        raise Unmodelled("micro_batch_seq is not given", Refusal.INCOMPLETE)
    return found


def choices_of(name: str, values: Iterable[ColumnValue]) -> Alternatives:
    """What one column may have been."""
    return tuple({name: value} for value in values)


def settled_columns(columns: ColumnValues, *choices: Alternatives) -> tuple[Alternatives, ...]:
    """Enter the first of each alternatives; those that are several are left open."""
    for alternatives in choices:
        columns.update(alternatives[0])
    return tuple(alternatives for alternatives in choices if len(alternatives) > 1)


def training(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """End-to-end training runs and single layers: seconds per iteration."""
    flag = row.get("qc_flag", "ok") or "ok"
    if flag != "ok":
        raise Unmodelled(f"excluded by its source: {flag}", Refusal.EXCLUDED)
    row = stated(known, row)
    columns = model_columns(row, known) | (hardware := platform(known, row.get("accelerator", "")))
    columns |= stack(known, "training", row, ("group", "framework", "accelerator"), hardware)
    chips = positive(row, "n_accel")
    tensor, pipe = positive(row, "tp", 1.0), positive(row, "pp", 1.0)
    context, expert = positive(row, "cp", 1.0), positive(row, "ep", 1.0)
    data = positive(row, "dp", chips / (tensor * pipe * context))
    if tensor * pipe * data * context != chips:
        raise Unmodelled("dp x tp x pp x cp is not the number of accelerators", Refusal.IMPOSSIBLE)
    domain = platform_entry(known, row.get("accelerator", "")).get("domain")
    near = nearest(chips, domain) if domain else positive(row, "accel_per_node", 8.0)
    split_columns(columns, tensor, pipe, data, context, near)
    batch = positive(row, "global_batch_seq")
    if columns.pop("microbatch_per_device", 0.0):  # the batch of all devices, however they share a sample
        row = {**row, "micro_batch_seq": str(batch / data)}
    sharding = row.get("fsdp_or_zero", "").lower()
    left_open = settled_columns(
        columns,
        choices_of("microbatch", microbatches(row, batch / data)),
        recomputations(row, columns.pop("selective", "selective")),
        choices_of("zero_stage", zero_stages(sharding, columns.get("zero_stage"), data)),
    )
    columns.update(
        expert_parallel=expert,
        batch_size=batch,
        sequence_length=positive(row, "seq_len"),
        virtual_stages=positive(row, "vpp_chunks", 1.0),
        sequence_parallel=1.0 if is_split(row, columns.get("sequence_parallel") == 1.0) else 0.0,
    )
    if columns["virtual_stages"] != 1.0:
        columns["schedule"] = "interleaved"
    if "across slices" in sharding:
        columns["shard_group"] = near / tensor
    columns |= precision(row.get("precision", "")) | stated_columns(known, row)
    if row.get("loss_chunks"):
        columns["workload.loss_chunks"] = positive(row, "loss_chunks")
    columns = without_stack(columns)
    answer = "layer_time_s" if "ONE LAYER" in row.get("model", "") else "iteration_time_s"
    group = row.get("group", "") + (INFERRED if left_open or guesses_model(row, known) else "")
    return MeasuredPoint(group, columns, answer, iteration_time_s(row, columns), open=left_open)


def iteration_time_s(row: MeasuredRow, columns: Mapping[str, ColumnValue]) -> float:
    """Measured seconds per iteration; from tokens or model operations per second where no time is given."""
    chips, batch, sequence = (float(columns[name]) for name in ("chips", "batch_size", "sequence_length"))
    if row.get("iter_time_s"):
        return positive(row, "iter_time_s")
    if row.get("tokens_per_s_per_accel"):
        return batch * sequence / (positive(row, "tokens_per_s_per_accel") * chips)
    counted = CONVENTIONS.get(row.get("flops_convention", ""))
    if counted is not None:
        rate = positive(row, "model_flops_per_s_per_accel")
        get = {key.partition(".")[2]: float(value) for key, value in columns.items() if key.startswith("workload.")}
        return counted(get, sequence) * batch * sequence / (rate * chips)
    raise Unmodelled("neither time nor rate in a known convention", Refusal.INCOMPLETE)


def maxtext_flops(get: Mapping[str, float], sequence: float) -> float:
    """Model operations per token as MaxText counts them: 6 per parameter, 12 L s a d of non-causal attention."""
    width = get["heads"] * get["head_size"]
    layer = 4.0 * get["hidden"] * width + (2.0 + get["gated"]) * get["hidden"] * get["feed_forward"]
    parameters = get["layers"] * layer + 2.0 * get["vocabulary"] * get["hidden"]
    return 6.0 * parameters + 12.0 * get["layers"] * sequence * width


def megatron_flops(get: Mapping[str, float], sequence: float) -> float:
    """Model operations per token as FlashAttention's training benchmark counts them: 3/4 of equation 3 of Narayanan
    2021, which recomputes the forward pass."""
    layers, hidden = get["layers"], get["hidden"]
    share = 1.0 + sequence / (6.0 * hidden) + get["vocabulary"] / (16.0 * layers * hidden)
    return 72.0 * layers * hidden * hidden * share


CONVENTIONS = {
    "model FLOPs": maxtext_flops,
    "model FLOPs (MaxText: incl. causal-full attention)": maxtext_flops,
    "model FLOPs (Megatron formula)": megatron_flops,
}
"""What model operations per second count, by the words of tables."""
