"""Rows of measured tables as points: what is computed of a row, by hand."""

import math
from dataclasses import replace

import pytest

from sweeper.evidence.layouts.batches import served_formats
from sweeper.evidence.layouts.nanotron import nanotron_version
from sweeper.evidence.measured import measured_point
from sweeper.evidence.measured_rows import (
    Alternatives,
    MeasuredPoint,
    MeasuredRow,
    Refusal,
    Unmodelled,
    number,
    positive,
)
from sweeper.evidence.measured_runs import (
    iteration_time_s,
    maxtext_flops,
    megatron_flops,
)
from sweeper.evidence.predictions import evaluate, settle
from sweeper.evidence.registry import network_columns, registry, split_columns, stack
from sweeper.evidence.statistics import Scored, statistics

LLAMA2_7B = {
    "workload.hidden": 4096.0,
    "workload.layers": 32.0,
    "workload.heads": 32.0,
    "workload.head_size": 128.0,
    "workload.feed_forward": 11008.0,
    "workload.gated": 1.0,
    "workload.vocabulary": 32000.0,
}
PARAMETERS = 6_738_149_376
"""Of Llama 2 7B without its norms: 32 (4 x 4096^2 + 3 x 4096 x 11008) + 2 x 32000 x 4096; with them 6,738,415,616, as
its card says."""


BARE = {name.partition(".")[2]: value for name, value in LLAMA2_7B.items()}


def test_published_operations_count_6_per_parameter_and_12_per_layer_width_and_token_of_attention() -> None:
    """PaLM, appendix B: 6 N + 12 L H Q T per token, T tokens of attention, not halved for its mask."""
    for sequence in (2048, 4096):
        expected = 6 * PARAMETERS + 12 * 32 * 32 * 128 * sequence
        assert maxtext_flops(BARE, float(sequence)) == expected
    assert maxtext_flops(BARE, 1.0) - maxtext_flops(BARE | {"gated": 0.0}, 1.0) == 6 * 32 * 4096 * 11008


def test_megatron_operations_without_recomputation_are_those_of_the_flashattention_benchmark() -> None:
    """Its README prints 169 thousand tokens per second on 8 GPUs for what its figure gives as 189 Tflop/s per GPU."""
    gpt3_xl = {"layers": 24.0, "hidden": 2048.0, "vocabulary": 50257.0}
    assert megatron_flops(gpt3_xl, 2048.0) * 169e3 / 8 == pytest.approx(189e12, rel=0.005)


def test_a_time_is_taken_as_it_is_or_follows_from_a_rate() -> None:
    columns = {**LLAMA2_7B, "chips": 64.0, "batch_size": 128.0, "sequence_length": 2048.0}
    assert iteration_time_s({"iter_time_s": "2.5", "tokens_per_s_per_accel": "1"}, columns) == 2.5
    by_tokens = iteration_time_s({"tokens_per_s_per_accel": "1000"}, columns)
    assert by_tokens == pytest.approx(128 * 2048 / (1000 * 64), rel=1e-12)
    rate: MeasuredRow = {"flops_convention": "model FLOPs", "model_flops_per_s_per_accel": "2e14"}
    flops = (6 * PARAMETERS + 12 * 32 * 4096 * 2048) * 128 * 2048
    assert iteration_time_s(rate, columns) == pytest.approx(flops / (2e14 * 64), rel=1e-12)
    with pytest.raises(Unmodelled, match="neither time nor rate"):
        iteration_time_s({"model_flops_per_s_per_accel": "2e14"}, columns)


TRAINING = {
    "group": "g", "arch": "dense", "hidden": "4096", "n_heads": "32", "n_layers": "32", "ffn_hidden": "11008",
    "ffn_gated": "1", "n_kv_heads": "32", "vocab": "32000", "accelerator": "A100-SXM4-80GB", "n_accel": "64",
    "tp": "4", "pp": "2", "dp": "8", "accel_per_node": "8", "micro_batch_seq": "2", "global_batch_seq": "128",
    "seq_len": "2048", "iter_time_s": "2.5", "framework": "Megatron-LM", "recompute": "none", "fsdp_or_zero": "none",
    "precision": "bf16",
}  # fmt: skip


BY_NAME = {"hidden": "", "n_heads": "", "n_layers": ""}
"""Of a model that the registry knows the sizes are those of the library."""


ANY_RECOMPUTE = (
    {"recompute": "none"},
    {"recompute": "selective"},
    *({"recompute": "full", "recompute_share": share} for share in (0.125, 0.25, 0.375, 0.5, 0.75, 1.0)),
)


def either(name: str, *values: float) -> Alternatives:
    return tuple({name: value} for value in values)


def training(**change: str) -> MeasuredPoint | Unmodelled:
    return measured_point({**TRAINING, **change}, "training", registry())


def test_a_training_run_becomes_the_columns_of_a_study() -> None:
    point = training()
    assert isinstance(point, MeasuredPoint), point
    expected = {
        "chips": 64.0, "dim_x": 8.0, "dim_y": 8.0, "tensor_parallel": 4.0, "pipeline_parallel": 2.0,
        "data_parallel": 8.0, "context_parallel": 1.0, "microbatch": 2.0, "batch_size": 128.0,
        "sequence_length": 2048.0, "virtual_stages": 1.0, "zero_stage": 0.0, "workload.bias": 0.0,
        "workload.norm_bias": 0.0, "workload.learned_positions": 0.0, "workload.kv_heads": 32.0,
        "workload.head_size": 128.0,
    }  # fmt: skip
    assert {name: point.columns[name] for name in expected} == expected
    assert (point.answer, point.measured, point.group) == ("iteration_time_s", 2.5, "g")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"fsdp_or_zero": "FSDP full"}, {"zero_stage": 3.0}),
        ({"fsdp_or_zero": "zero3"}, {"zero_stage": 3.0}),
        ({"fsdp_or_zero": "zero1"}, {"zero_stage": 1.0}),
        ({"vpp_chunks": "4"}, {"virtual_stages": 4.0, "schedule": "interleaved"}),
        ({"seq_parallel": "yes"}, {"sequence_parallel": 1.0}),
        ({"recompute": "minimal"}, {"recompute": "full", "kept_results": "products"}),
        ({"recompute": "selective(per-op)"}, {"recompute": "full", "kept_results": "operators"}),
        (
            {"group": "torchtitan", "framework": "FSDP", "recompute": "selective"},
            {"kept_results": "operators"},
        ),
        ({"recompute": "save_qkv_proj"}, {"recompute": "full", "kept_results": "attended"}),
        (
            {"recompute": "minimal_offloaded"},
            {"recompute": "full", "kept_results": "products", "activation_offload": 1.0},
        ),
        (
            {"group": "tpu-recipes-v7x", "model": "llama3.1-70b", "recompute": "custom/full (see run_recipe.sh)"},
            {"recompute": "full", "kept_results": "attention"},
        ),
        (
            {"group": "tpu-recipes-v6e", "model": "Llama3.1-8B", "recompute": ""},
            {"recompute": "full", "kept_results": "projections", "activation_offload": 1.0},
        ),
        (
            {
                "group": "tpu-recipes-v6e",
                "model": "Gemma3-12B",
                **BY_NAME,
                "recompute": "",
                "framework": "MaxText",
                "fsdp_or_zero": "",
                "accelerator": "TPUv6e",
                "n_accel": "512",
                "tp": "",
                "pp": "",
                "dp": "",
                "global_batch_seq": "512",
                "seq_len": "32768",
            },
            {"recompute": "full", "workload.loss_chunks": 16.0, "shard_group": 256.0},
        ),
        ({"fsdp_or_zero": "distributed optimizer"}, {"zero_stage": 1.0}),
        ({"precision": "mxfp8", "accelerator": "B200"}, {"compute_format": "mxfp8"}),
        (
            {"recompute": "mla_up_proj+mlp"},
            {
                "recompute": "selective",
                "recompute_latents": 1.0,
                "recompute_feed_forward": 1.0,
                "recompute_attention": 0.0,
            },
        ),
        (
            {
                "group": "megatron-bridge-pretrain",
                "model": "LLAMA3_70B",
                "fsdp_or_zero": "fsdp64",
                "accelerator": "GB200",
                "recompute": "see recipe",
                "framework": "Megatron-Bridge 26.04 NeMo Container",
            },
            {"recompute": "none", "activation_offload": 0.5, "gradient_format": "bf16"},
        ),
        (
            {
                "group": "megatron-bridge-pretrain",
                "model": "Nemotron_3_Nano",
                **BY_NAME,
                "accelerator": "GB300",
                "framework": "Megatron-Bridge 26.08 NeMo Container",
            },
            {"calibration": "gb300_megatron_bridge_experts"},
        ),
        ({"framework": "somebody's own"}, {"calibration": "uncalibrated_ampere"}),
        ({"precision": "fp8-rowwise", "accelerator": "H100"}, {"compute_format": "fp8"}),
        ({"precision": "nvfp4", "accelerator": "B200"}, {"compute_format": "nvfp4"}),
        ({"accelerator": "GB200", "accel_per_node": "4"}, {"dim_x": 64.0, "dim_y": 1.0}),
        ({"model": "DeepSeekV3", **BY_NAME}, {"workload": "deepseek_v3"}),
        ({"model": "Llama3-8B finetune LoRA"}, {"workload": "llama3_8b", "workload.lora_rank": 8}),
        ({"model": "mT5-3B", "arch": "enc-dec", **BY_NAME}, {"workload": "nemo_mt5_3b"}),
        (
            {"group": "bloom-prequel-a100", "table_ref": "48 node contenders (line 1)", "n_heads": ""},
            {"workload.heads": 64.0},
        ),
        ({"group": "bloom-prequel-a100", "table_ref": "48 node contenders (line 1)"}, {"workload.heads": 32.0}),
        ({"group": "nemo-launcher-bert", "model": "BERT-4B", "micro_batch_seq": "", **BY_NAME}, {"microbatch": 8.0}),
        ({"framework": "MaxText", "micro_batch_seq": "0.125", "recompute": "full"}, {"microbatch": 16.0}),
        ({"ffn_gated": "0"}, {"workload.bias": 1.0, "workload.learned_positions": 2048.0}),
        ({"n_kv_heads": "8", "head_dim": "64"}, {"workload.kv_heads": 8.0, "workload.head_size": 64.0}),
    ],
    ids=str,
)
def test_what_a_training_run_says_reaches_its_column(change: dict[str, str], expected: dict[str, object]) -> None:
    point = training(**change)
    assert isinstance(point, MeasuredPoint), point
    assert {name: point.columns[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("change", "kind", "reason"),
    [
        ({"dp": "4"}, Refusal.IMPOSSIBLE, "is not the number of accelerators"),
        ({"arch": "ssm"}, Refusal.METHOD, "architecture 'ssm'"),
        ({"hidden": ""}, Refusal.INCOMPLETE, "hidden is not given"),
        ({"hidden": "wide"}, Refusal.IMPOSSIBLE, "hidden is 'wide', not a number"),
        ({"hidden": "-1"}, Refusal.IMPOSSIBLE, "hidden is -1"),
        ({"qc_flag": "a misprint"}, Refusal.EXCLUDED, "excluded by its source: a misprint"),
        ({"accelerator": "abacus"}, Refusal.ACCELERATOR, "unknown accelerator 'abacus'"),
        ({"recompute": "somewhat"}, Refusal.WORD, "recomputation 'somewhat'"),
        ({"fsdp_or_zero": "Sharded"}, Refusal.WORD, "sharding 'sharded'"),
        ({"precision": "posit8"}, Refusal.WORD, "precision 'posit8'"),
        (
            {"model": "Falcon-7B finetune LoRA"},
            Refusal.INCOMPLETE,
            "adapters of which neither rank nor places are given",
        ),
        (
            {"group": "nemo-launcher-bert", "notes": "LDDL (less padding)"},
            Refusal.INCOMPLETE,
            "samples are shorter than seq_len",
        ),
        ({"micro_batch_seq": "", "global_batch_seq": "100"}, Refusal.INCOMPLETE, "micro_batch_seq is not given"),
        ({"micro_batch_seq": "0.5"}, Refusal.IMPOSSIBLE, "microbatch: found 0.5"),
    ],
    ids=str,
)
def test_a_row_that_cannot_be_modelled_says_why(change: dict[str, str], kind: Refusal, reason: str) -> None:
    refused = training(**change)
    assert isinstance(refused, Unmodelled)
    assert reason in str(refused)
    assert refused.kind is kind


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ()),
        ({"recompute": ""}, (ANY_RECOMPUTE,)),
        ({"recompute": "see recipe"}, (ANY_RECOMPUTE,)),
        (
            {"recompute": "custom/full (see run_recipe.sh)"},
            (({"recompute": "full", "kept_results": "attention"}, {"recompute": "full"}),),
        ),
        ({"fsdp_or_zero": ""}, (either("zero_stage", 0.0, 1.0),)),
        ({"fsdp_or_zero": "", "dp": "1", "tp": "8", "pp": "8"}, ()),
        ({"fsdp_or_zero": "none/zero1"}, (either("zero_stage", 0.0, 1.0),)),
        ({"micro_batch_seq": ""}, (either("microbatch", 1.0, 2.0, 4.0, 8.0, 16.0),)),
        ({"micro_batch_seq": "", "global_batch_seq": "96"}, (either("microbatch", 1.0, 2.0, 4.0),)),
    ],
    ids=str,
)
def test_what_a_training_run_does_not_say_is_left_open(
    change: dict[str, str], expected: tuple[Alternatives, ...]
) -> None:
    point = training(**change)
    assert isinstance(point, MeasuredPoint), point
    assert point.open == expected
    assert point.group == ("g (inferred)" if expected else "g")


def test_the_fastest_choice_that_fits_is_taken() -> None:
    """Of a run whose recomputation is not known: what is fastest where all fit, and what fits where not all do."""
    points = [point for count in (64, 8) if isinstance(
        point := training(recompute="", n_accel=str(count), dp=str(count // 8)), MeasuredPoint)]  # fmt: skip
    assert len(points) == 2
    settled = settle(points, {})
    for point, found in zip(points, settled, strict=True):
        (alternatives,) = point.open
        tried = [replace(point, columns={**point.columns, **each}, open=()) for each in alternatives]
        answers = evaluate(tried, {})
        fitting = {value: each.columns for each, (value, fits) in zip(tried, answers, strict=True) if fits}
        assert found.columns == fitting[min(fitting)]
    assert evaluate(settled, {}) == evaluate(points, {})


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"precision": "fp8", "kv_precision": "fp8"}, {"compute_format": "fp8", "weight_format": "fp8",
                                                       "cache_format": "fp8"}),
        ({"precision": "nvfp4 weights+act"}, {"compute_format": "nvfp4", "weight_format": "nvfp4",
                                              "cache_format": "bf16"}),
        ({"precision": "int8 weight-only"}, {"weight_format": "int8", "cache_format": "bf16"}),
        ({"precision": "bf16", "kv_precision": ""}, {"cache_format": "bf16"}),
    ],
    ids=str,
)  # fmt: skip
def test_formats_of_a_server(words: dict[str, str], expected: dict[str, str]) -> None:
    assert served_formats(words) == expected


@pytest.mark.parametrize("words", [{"precision": "posit8"}, {"precision": "fp8", "kv_precision": "int2"}], ids=str)
def test_formats_of_a_server_that_are_not_known_are_refused(words: dict[str, str]) -> None:
    with pytest.raises(Unmodelled, match="precision"):
        served_formats(words)


def test_throughput_under_a_load_of_which_little_is_known_is_refused_as_such() -> None:
    row = {name: TRAINING[name] for name in TRAINING if name not in ("iter_time_s", "seq_len")}
    row |= {"concurrency": "8", "input_len": "128", "output_len": "128", "n_accel": "", "dp": "1"}
    refused = measured_point(row, "inference", registry())
    assert isinstance(refused, Unmodelled)
    assert refused.kind is Refusal.LOAD
    assert "of which nothing is known" in str(refused)


@pytest.mark.parametrize(
    ("fixed", "stages", "nodes", "gathered", "version"),
    [
        ("True", "4", "4", "98", "checked"),  # the mark is right
        ("False", "4", "4", "98", "checked, slow messages"),
        ("False", "1", "4", "225", "fast"),
        ("True", "4", "4", "40", "checked, slow messages"),  # the band says otherwise
        ("True", "16", "16", "125", "fast"),
        ("False", "1", "16", "27", "checked"),
        ("True", "1", "4", "40", "checked"),  # without stages there are no messages
        ("True", "2", "8", "40", "checked"),  # no bands are known of so many nodes
        ("False", "1", "16", "", "fast"),  # a run that failed measured nothing
        ("False", "2", "16", "", "checked, slow messages"),
    ],
)
def test_the_version_of_nanotron_follows_from_the_mark_and_from_what_the_job_measured(
    fixed: str, stages: str, nodes: str, gathered: str, version: str
) -> None:
    row = {"after_pp_fix": fixed, "pp": stages, "nodes": nodes, "AllGather (GB/s)": gathered}
    assert nanotron_version(row, registry()) == version


def test_a_run_of_vtrain_has_whole_rows_of_the_vocabulary() -> None:
    row = {
        "gpu": "A100", "n_gpus": "8", "tp": "4", "dp": "1", "pp": "2", "hidden": "1024", "heads": "16", "layers": "24",
        "seq": "1024", "micro_batch": "2", "global_batch": "8", "iter_time_ms": "128.5",
    }  # fmt: skip
    point = measured_point(row, "vtrain", registry())
    assert isinstance(point, MeasuredPoint), point
    assert point.columns["workload.vocabulary"] == 4 * 12564 and point.columns["workload.head_size"] == 64.0
    assert (point.columns["chips"], point.columns["dim_x"]) == (8.0, 8.0)
    assert point.measured == pytest.approx(0.1285)
    assert str(measured_point({**row, "dp": "2"}, "vtrain", registry())) == "dp x tp x pp is not the number of GPUs"


def test_nodes_of_a_cluster_have_equal_sizes() -> None:
    columns: dict[str, float | str] = {}
    split_columns(columns, 4.0, 2.0, 8.0, 2.0, node=16.0)
    assert columns == {
        "tensor_parallel": 4.0, "pipeline_parallel": 2.0, "data_parallel": 8.0, "context_parallel": 2.0,
        "chips": 128.0, "dim_x": 16.0, "dim_y": 8.0,
    }  # fmt: skip
    network_columns(columns, 3.0, 8.0)  # a part of a node is a node
    assert (columns["dim_x"], columns["dim_y"]) == (3.0, 1.0)
    with pytest.raises(Unmodelled, match="12 chips do not fill nodes of 8"):
        network_columns(columns, 12.0, 8.0)


def test_the_first_stack_of_which_all_words_occur_is_taken() -> None:
    known = {"stacks": {"layout": [
        {"words": ["fast", "a100"], "columns": {"calibration": "both"}},
        {"words": ["a100"], "columns": {"calibration": "one"}},
        {"words": [], "columns": {"calibration": "any"}},
    ]}}  # fmt: skip
    found = [
        stack(known, "layout", {"engine": engine, "chip": chip}, ("engine", "chip"))["calibration"]
        for engine, chip in (("FAST", "A100-80"), ("slow", "A100-80"), ("fast", "H100"))
    ]
    assert found == ["both", "one", "any"]


def test_a_kernel_of_a_measured_table_has_its_sizes() -> None:
    row = {
        "system": "a100_sxm", "num_heads": "32", "num_key_value_heads": "8", "head_dim": "128", "batch_size": "4",
        "isl": "1", "past_kv": "1000", "latency_us": "20", "kernel_source": "flashinfer", "kv_cache_dtype": "bfloat16",
    }  # fmt: skip
    point = measured_point(row, "attention", registry())
    assert isinstance(point, MeasuredPoint), point
    assert (point.columns["workload.m"], point.columns["workload.n"]) == (1.0, 1001.0)
    assert (point.columns["workload.heads"], point.columns["workload.kv_heads"]) == (32.0, 8.0)
    assert point.group == "attention decode a100_sxm" and point.measured == pytest.approx(20e-6)


@pytest.mark.parametrize(
    ("text", "value"), [("3", 3.0), (" 2.5 ", 2.5), ("", 7.0), ("1e30", 1e30), ("1e31", None), ("x", None)]
)
def test_numbers_of_a_row(text: str, value: float | None) -> None:
    if value is None:
        with pytest.raises(Unmodelled):
            number({"n": text}, "n", 7.0)
    else:
        assert number({"n": text}, "n", 7.0) == value


def test_a_positive_number_is_more_than_nothing() -> None:
    for text in ("0", "-1", "1e-31"):
        with pytest.raises(Unmodelled):
            positive({"n": text}, "n")
    assert positive({"n": "1e-29"}, "n") == 1e-29


def test_runs_that_ran_although_they_do_not_fit_by_our_count_are_counted() -> None:
    def row(feasible: bool | None, fits: bool | None, reason: str = "") -> Scored:
        return Scored({}, "g", 1.0, math.nan if reason else 1.0, feasible, fits, reason)

    rows = [
        row(None, False),  # ran, as it was measured: one
        row(True, False),  # said to have run: two
        row(False, False),  # ran out of memory, rightly told
        row(True, True),
        row(None, True),
        row(None, None),
        row(None, False, "not modelled"),
    ]
    found = statistics(rows)
    assert (found["rows"], found["modelled"], found["misfit"]) == (7, 6, 2)
