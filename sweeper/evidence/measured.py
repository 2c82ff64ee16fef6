"""Measured tables: rows of other people's measurements as points of our design space.

Each layout of columns has one function, which says for a row what was run, which column of ours answers it, and what
was measured; or raises `Unmodelled` with the reason why not. Which hardware an accelerator's name stands for, and
which software stack ran, are data: `platforms` and `stacks` of specs/measurements/measurements.yaml.
"""

import csv
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sweeper.errors import EnvironmentFault, UsageFault
from sweeper.library.library import builtin_specs

Row = Mapping[str, str]
Value = float | str


class Unmodelled(Exception):
    """A row that the model cannot answer; the message says why."""


@dataclass(frozen=True)
class Case:
    """A measured row as a point: the columns of the study, the column that answers it, and the measured value."""

    group: str
    point: dict[str, Value]
    column: str
    measured: float
    feasible: bool | None = None
    """Whether the run fitted into memory, where the table says so."""


def registry() -> dict[str, Any]:
    """Platforms, stacks, layouts and sets, as the YAML file has them."""
    path = builtin_specs() / "measurements" / "measurements.yaml"
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def read_rows(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file by column. Raises EnvironmentFault if it cannot be read."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [{key: value or "" for key, value in row.items() if key} for row in csv.DictReader(file)]
    except (OSError, UnicodeDecodeError, csv.Error) as fault:
        raise EnvironmentFault(f"{path}: {fault}") from None


def number(row: Row, name: str, default: float | None = None) -> float:
    """A number of a row. Raises Unmodelled where it is absent without default, or is no finite number."""
    text = (row.get(name) or "").strip()
    if not text:
        if default is None:
            raise Unmodelled(f"{name} is not given")
        return default
    try:
        value = float(text)
    except ValueError:
        raise Unmodelled(f"{name} is {text!r}, not a number") from None
    if not math.isfinite(value):
        raise Unmodelled(f"{name} is {text}")
    return value


def positive(row: Row, name: str, default: float | None = None) -> float:
    """A number greater than 0."""
    value = number(row, name, default)
    if value <= 0:
        raise Unmodelled(f"{name} is {value:g}")
    return value


def measured_value(row: Row, name: str) -> float:
    """What was measured: greater than 0."""
    return positive(row, name)


def platform_entry(known: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """What the registry says of an accelerator. Raises Unmodelled for a name that it does not know."""
    for entry in known["platforms"]:
        if any(name.lower().startswith(alias.lower()) for alias in entry["names"]):
            return dict(entry)
    raise Unmodelled(f"unknown accelerator {name!r}")


def platform(known: Mapping[str, Any], name: str) -> dict[str, Value]:
    """Columns of the hardware that an accelerator's name stands for."""
    return dict(platform_entry(known, name)["columns"])


def stack(known: Mapping[str, Any], layout: str, row: Row, keys: Iterable[str]) -> dict[str, Value]:
    """Columns of the software stack that ran a row: the first of the layout all of whose words occur in it."""
    text = " | ".join(row.get(key, "") for key in keys).lower()
    for entry in known["stacks"][layout]:
        if all(word.lower() in text for word in entry["words"]):
            return dict(entry["columns"])
    raise Unmodelled(f"no calibration for {text!r}")


def model_columns(row: Row) -> dict[str, Value]:
    """Overrides of the base model by the dimensions of a row."""
    if row.get("arch", "dense") not in ("dense", "moe", ""):
        raise Unmodelled(f"architecture {row['arch']!r}")
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


def network_columns(columns: dict[str, Value], chips: float, per_node: float) -> None:
    """Nodes of equal size in a cluster; a part of a node counts as a node."""
    inside = min(chips, per_node)
    if chips % inside:
        raise Unmodelled(f"{chips:g} chips do not fill nodes of {inside:g}")
    columns.update(chips=chips, dim_x=inside, dim_y=chips / inside)


RECOMPUTE = {"none": "none", "": "none", "full": "full", "selective": "selective", "minimal": "selective"}


def precision(word: str) -> dict[str, Value]:
    """Columns of the number formats that a training run names; half precision with fp32 sums is the default."""
    found: dict[str, Value] = {}
    if "PURE" in word:
        found["gradient_format"] = "bf16"
    for name in ("fp8", "tf32"):
        if name in word.lower():
            found["compute_format"] = name
    if word.lower() in ("fp32", "tf32"):
        found |= {"activation_format": "fp32", "weight_format": "fp32"}
    return found


def recomputation(row: Row) -> str:
    """Our name of what a row recomputes."""
    word = row.get("recompute", "")
    if word not in RECOMPUTE:
        raise Unmodelled(f"recomputation {word!r}")
    return RECOMPUTE[word]


def training(row: Row, known: Mapping[str, Any]) -> Case:
    """End-to-end training runs and single layers: seconds per iteration."""
    flag = row.get("qc_flag", "ok") or "ok"
    if flag != "ok":
        raise Unmodelled(f"excluded by its source: {flag}")
    columns = model_columns(row)
    columns |= platform(known, row.get("accelerator", ""))
    columns |= stack(known, "training", row, ("group", "framework", "accelerator"))
    chips = positive(row, "n_accel")
    tensor, pipe = positive(row, "tp", 1.0), positive(row, "pp", 1.0)
    context, expert = positive(row, "cp", 1.0), positive(row, "ep", 1.0)
    data = positive(row, "dp", chips / (tensor * pipe * context))
    if tensor * pipe * data * context != chips:
        raise Unmodelled("dp x tp x pp x cp is not the number of accelerators")
    network_columns(columns, chips, positive(row, "accel_per_node", 8.0))
    per_device = float(columns.pop("microbatch_per_device", 0.0))
    microbatch = positive(row, "micro_batch_seq") * (tensor if per_device else 1.0)
    batch, sequence = positive(row, "global_batch_seq"), positive(row, "seq_len")
    split = row.get("seq_parallel", "").lower() in ("yes", "true", "1")
    columns.update(
        tensor_parallel=tensor,
        pipeline_parallel=pipe,
        data_parallel=data,
        context_parallel=context,
        expert_parallel=expert,
        microbatch=microbatch,
        batch_size=batch,
        sequence_length=sequence,
        virtual_stages=positive(row, "vpp_chunks", 1.0),
        sequence_parallel=1.0 if split else columns.get("sequence_parallel", 0.0),
        recompute=recomputation(row),
    )
    if columns["virtual_stages"] != 1.0:
        columns["schedule"] = "interleaved"
    sharding = row.get("fsdp_or_zero", "").lower()
    columns["zero_stage"] = 3.0 if "fsdp" in sharding or "zero3" in sharding else 1.0 if "zero1" in sharding else 0.0
    if "across slices" in sharding:
        columns["shard_group"] = positive(row, "accel_per_node") / tensor
    columns |= precision(row.get("precision", ""))
    layer = "ONE LAYER" in row.get("model", "")
    return Case(
        row.get("group", ""),
        columns,
        "layer_time_s" if layer else "iteration_time_s",
        iteration_time_s(row, columns, chips, batch, sequence),
    )


def iteration_time_s(row: Row, columns: Mapping[str, Value], chips: float, batch: float, sequence: float) -> float:
    """Measured seconds per iteration; from tokens or model operations per second where no time is given."""
    if row.get("iter_time_s"):
        return measured_value(row, "iter_time_s")
    if row.get("tokens_per_s_per_accel"):
        return batch * sequence / (measured_value(row, "tokens_per_s_per_accel") * chips)
    if row.get("flops_convention") == "model FLOPs":
        rate = measured_value(row, "model_flops_per_s_per_accel")
        return published_model_flops(columns, sequence) * batch * sequence / (rate * chips)
    raise Unmodelled("neither time nor rate in a known convention")


def published_model_flops(columns: Mapping[str, Value], sequence: float) -> float:
    """Model operations per token as MaxText counts them: 6 per parameter, 12 L s a d of non-causal attention."""
    get = {key.partition(".")[2]: float(value) for key, value in columns.items() if key.startswith("workload.")}
    width = get["heads"] * get["head_size"]
    layer = 4.0 * get["hidden"] * width + (2.0 + get["gated"]) * get["hidden"] * get["feed_forward"]
    parameters = get["layers"] * layer + 2.0 * get["vocabulary"] * get["hidden"]
    return 6.0 * parameters + 12.0 * get["layers"] * sequence * width


NANOTRON_WIDTHS = {2048.0: 8192.0, 3072.0: 8192.0, 4096.0: 14336.0, 8192.0: 28672.0}
"""Feed-forward width by hidden size, from the published totals of parameters."""


def nanotron(row: Row, known: Mapping[str, Any]) -> Case:
    """Runs of HF nanotron: tokens per second and GPU, or out of memory."""
    hidden = positive(row, "hidden_size")
    if hidden not in NANOTRON_WIDTHS:
        raise Unmodelled(f"feed-forward width of hidden size {hidden:g} is not known")
    tensor, pipe, data = positive(row, "tp"), positive(row, "pp"), positive(row, "dp")
    heads, vocabulary = positive(row, "num_heads"), positive(row, "vocab_size")
    fixed = row.get("after_pp_fix", "True") == "True"
    accumulation = number(row, "batch_accum", 0.0) or number(row, "gbs") / (number(row, "mbs") * data)
    word = "checked" if fixed else "checked, slow messages" if pipe > 1.0 else "fast"
    columns: dict[str, Value] = {
        "workload": "eager_decoder",
        "workload.hidden": hidden,
        "workload.layers": positive(row, "num_layers"),
        "workload.heads": heads,
        "workload.kv_heads": positive(row, "num_kv_heads", heads),
        "workload.head_size": hidden / heads,
        "workload.feed_forward": NANOTRON_WIDTHS[hidden],
        "workload.vocabulary": vocabulary,
        "workload.tied_embeddings": 1.0 if pipe == 1.0 and hidden < 4096.0 else 0.0,
        **platform(known, "H100-SXM5-80GB"),
        **stack(known, "nanotron", {"stack": word}, ("stack",)),
        "tensor_parallel": tensor,
        "pipeline_parallel": pipe,
        "data_parallel": data,
        "microbatch": positive(row, "mbs"),
        "batch_size": positive(row, "mbs") * accumulation * data,
        "sequence_length": positive(row, "seq_len"),
        "sequence_parallel": 1.0,
        "zero_stage": number(row, "zero_stage", 0.0),
        # ZeRO-1 in nanotron reduces and gathers after the last backward pass; DDP beside it.
        "gradient_all_reduce": "exposed" if number(row, "zero_stage", 0.0) else "overlapped",
    }
    network_columns(columns, tensor * pipe * data, 8.0)
    failed = row.get("status", "Success") == "OOM"
    measured = math.nan if failed else measured_value(row, "tok/s/gpu")
    return Case("nanotron", columns, "tokens_per_s_per_chip", measured, not failed)


def inference(row: Row, known: Mapping[str, Any]) -> Case:
    """Static batches served to their last token, or to their first."""
    columns = model_columns(row)
    columns |= platform(known, row.get("accelerator", ""))
    columns |= stack(known, "inference", row, ("group", "engine", "accelerator"))
    if number(row, "beam_width", 1.0) > 1.0:
        raise Unmodelled("beam search")
    tensor, pipe = positive(row, "tp", 1.0), positive(row, "pp", 1.0)
    batch, prompt = positive(row, "batch_size", 1.0), positive(row, "input_len")
    output = positive(row, "output_len", 1.0)
    network_columns(columns, tensor * pipe, 8.0)
    columns.update(
        task="inference",
        tensor_parallel=tensor,
        pipeline_parallel=pipe,
        data_parallel=1.0,
        microbatch=batch,
        batch_size=batch,
        sequence_length=prompt,
        output_length=output,
    )
    if "fp8" in row.get("precision", "").lower():
        columns.update(compute_format="fp8", weight_format="fp8")
    for name, column in (("e2e_latency_s", "request_time_s"), ("ttft_s", "time_to_first_token_s")):
        if row.get(name):
            return Case(row.get("group", ""), columns, column, measured_value(row, name))
    raise Unmodelled("neither end-to-end latency nor time to first token is given")


FORMATS = {"bfloat16": "bf16", "float16": "fp16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4", "half": "fp16"}


def formats(name: str) -> str:
    """Our name of a number format."""
    if name not in FORMATS:
        raise Unmodelled(f"number format {name!r}")
    return FORMATS[name]


def one_chip(known: Mapping[str, Any], row: Row, layout: str, keys: Iterable[str]) -> dict[str, Value]:
    """Columns of a kernel on one chip."""
    columns = platform(known, row.get("system", "")) | stack(known, layout, row, keys)
    network_columns(columns, 1.0, 1.0)
    return columns


FEW_ROWS = 32.0
"""Rows of a product below which libraries of block-scaled formats take another kernel."""


def gemm(row: Row, known: Mapping[str, Any]) -> Case:
    """Matrix products: microseconds."""
    few = "few rows" if positive(row, "m") < FEW_ROWS else ""
    columns = one_chip(known, {**row, "few": few}, "gemm", ("system", "kernel_source", "gemm_dtype", "few"))
    wide = formats(row.get("gemm_dtype", "bfloat16"))
    columns.update(
        {"workload": "single_gemm", **{f"workload.{name}": positive(row, name) for name in "mnk"}},
        compute_format=wide,
        activation_format=wide,
        weight_format=wide,
    )
    return Case(f"gemm {row.get('system')} {row.get('gemm_dtype')}", columns, "layer_forward_s",
                measured_value(row, "latency_us") * 1e-6)  # fmt: skip


LARGE = 1e11
"""Multiplications of a product from which its board power is trusted: the sensor averages over 100 ms, readings of
short kernels depend on how many of them ran, and how often that was is not known."""


def board_power(row: Row, case: Case, kind: str) -> Case:
    """A kernel that runs alone, back to back, and the mean power of its board: watts."""
    power = measured_value(row, "power_w")
    columns = {**case.point, "task": "inference", "output_length": 1.0}
    return Case(f"board power {kind} {row.get('system')}", columns, "average_power_W", power)


def gemm_power(row: Row, known: Mapping[str, Any]) -> Case:
    """Matrix products: watts of the board."""
    large = math.prod(positive(row, name) for name in "mnk") >= LARGE
    return board_power(row, gemm(row, known), f"{'large' if large else 'other'} gemm")


def gemm_energy(row: Row, known: Mapping[str, Any]) -> Case:
    """Matrix products: joules, watts of the board times seconds. At the board's limit it is the time that tells what an
    operation takes, since the power is the limit whatever it takes."""
    case = gemm_power(row, known)
    energy = case.measured * measured_value(row, "latency_us") * 1e-6
    return Case(case.group.replace("board power", "board energy"), case.point, "energy_J", energy)


def attention_power(row: Row, known: Mapping[str, Any]) -> Case:
    """Fused attention: watts of the board."""
    phase = "decode" if positive(row, "isl") == 1.0 else "prefill"
    return board_power(row, attention(row, known), f"attention {phase}")


def profiled_gemm(row: Row, known: Mapping[str, Any]) -> Case:
    """Products under a profiler that locks the clock: milliseconds."""
    columns = one_chip(known, {**row, "system": "a100_sxm"}, "gemm", ())
    columns |= stack(known, "profiled_gemm", {"stack": "nsight"}, ("stack",))
    clock = positive(row, "clock_Ghz") * 1e9
    chip = known["profiled_chip"]
    columns.update({"workload": "single_gemm", **{f"workload.{name}": positive(row, name) for name in "mnk"}})
    columns["chip.peak_flops"] = chip["flops_per_clock"] * clock
    columns["chip.l2_bandwidth"] = chip["l2_B_per_clock"] * clock
    large = positive(row, "m") * positive(row, "n") * positive(row, "k") >= chip["large"]
    return Case("nsight large" if large else "nsight small", columns, "layer_forward_s",
                measured_value(row, "latency_ms") * 1e-3)  # fmt: skip


def attention(row: Row, known: Mapping[str, Any]) -> Case:
    """Fused attention over new tokens and those in the cache: microseconds."""
    columns = one_chip(known, row, "attention", ("system", "kernel_source", "kv_cache_dtype"))
    tokens, past = positive(row, "isl"), number(row, "past_kv", 0.0)
    columns.update(
        {
            "workload": "single_attention",
            "workload.m": tokens,
            "workload.n": tokens + past,
            "workload.heads": positive(row, "num_heads"),
            "workload.kv_heads": positive(row, "num_key_value_heads"),
            "workload.head_size": positive(row, "head_dim"),
            "workload.causal": 1.0,
        },
        task="inference",
        microbatch=positive(row, "batch_size"),
        batch_size=positive(row, "batch_size"),
        cache_format=formats(row.get("kv_cache_dtype", "bfloat16")),
    )
    phase = "decode" if tokens == 1.0 else "prefill"
    return Case(f"attention {phase} {row.get('system')}", columns, "layer_forward_s",
                measured_value(row, "latency_us") * 1e-6)  # fmt: skip


COLLECTIVES = {"all_reduce": 0.0, "reduce_scatter": 1.0, "all_gather": 2.0, "alltoall": 3.0, "all_to_all": 3.0}


def collective(row: Row, known: Mapping[str, Any]) -> Case:
    """Collectives inside a node: microseconds."""
    columns = platform(known, row.get("system", "")) | stack(known, "collective", row, ("system",))
    operation = row.get("op_name", "")
    if operation not in COLLECTIVES:
        raise Unmodelled(f"collective {operation!r}")
    ranks, size = positive(row, "num_gpus"), positive(row, "size_bytes")
    network_columns(columns, ranks, platform_entry(known, row.get("system", "")).get("island", 8.0))
    columns.update(
        {"workload": "single_collective", "workload.operation": COLLECTIVES[operation], "workload.message": size},
        tensor_parallel=ranks,
    )
    large = "above 1 MB" if size > 1e6 else "up to 1 MB"
    return Case(f"collective {large} {row.get('system')}", columns, "layer_forward_s",
                measured_value(row, "latency_us") * 1e-6)  # fmt: skip


OPTIMUS_MODELS = {"GPT-22B": "megatron_22b", "GPT-175B": "megatron_175b", "GPT-530B": "megatron_530b",
                  "GPT-1008B": "megatron_1t", "GPT-310B": "megatron_310b", "Llama2-70B": "llama2_70b",
                  "Llama2-13B": "llama2_13b", "Llama2-7B": "llama2_7b"}  # fmt: skip


def optimus(row: Row, known: Mapping[str, Any]) -> Case:
    """Tables 1 (training, s), 2 (inference, ms) and 4 (single products, us) of Optimus."""
    table = row.get("table", "")
    if table not in ("1", "2"):
        raise Unmodelled(f"table {table}: see the study optimus_bounds")
    model = OPTIMUS_MODELS.get(row.get("model", ""))
    if model is None:
        raise Unmodelled(f"unknown model {row.get('model')!r}")
    tensor, pipe, data = positive(row, "tp"), positive(row, "pp"), positive(row, "dp", 1.0)
    name = {"A100": "A100-SXM4-80GB", "H100": "H100-SXM5-80GB"}.get(row.get("gpu", ""), row.get("gpu", ""))
    columns: dict[str, Value] = {"workload": model, **platform(known, name)}
    network_columns(columns, tensor * pipe * data, 8.0)
    columns.update(
        tensor_parallel=tensor, pipeline_parallel=pipe, data_parallel=data, batch_size=positive(row, "batch")
    )
    if table == "2":
        columns |= stack(known, "inference", {"group": "nvidia-llama2-latency", "a": name}, ("group", "a"))
        columns.update(task="inference", microbatch=1.0, sequence_length=200.0, output_length=200.0)
        return Case("optimus table 2", columns, "request_time_s", measured_value(row, "t_ref") * 1e-3)
    # The microbatch and the number of chunks of the last three rows are not published; 1 and 1 as in their scripts.
    known_split = row.get("mbs", "?") != "?"
    word = "korthikanti2022" if known_split else "megatron-sc21"
    columns |= stack(known, "training", {"group": word, "a": name}, ("group", "a"))
    chunks = number(row, "v") if known_split else 1.0
    columns.update(
        microbatch=number(row, "mbs") if known_split else 1.0,
        virtual_stages=chunks,
        schedule="interleaved" if chunks > 1.0 else "one_f_one_b",
        sequence_length=2048.0,
        sequence_parallel=number(row, "sp"),
        recompute=recomputation(row),
        zero_stage=0.0,
    )
    precise = row.get("t_ref_precise") or row.get("t_ref", "")
    return Case("optimus table 1", columns, "iteration_time_s", positive({"t": precise}, "t"))


LAYOUTS: dict[str, tuple[frozenset[str], Callable[[Row, Mapping[str, Any]], Case]]] = {
    "optimus": (frozenset({"table", "t_ref", "t_pred_optimus"}), optimus),
    "nanotron": (frozenset({"tok/s/gpu", "batch_accum", "tp_mode"}), nanotron),
    "inference": (frozenset({"input_len", "output_len", "accelerator", "hidden"}), inference),
    "training": (frozenset({"global_batch_seq", "micro_batch_seq", "accelerator", "hidden"}), training),
    "gemm": (frozenset({"gemm_dtype", "m", "n", "k", "latency_us"}), gemm),
    "profiled_gemm": (frozenset({"m", "n", "k", "latency_ms", "clock_Ghz"}), profiled_gemm),
    "attention": (frozenset({"isl", "past_kv", "num_heads", "latency_us"}), attention),
    "gemm_power": (frozenset({"gemm_dtype", "m", "n", "k", "power_w"}), gemm_power),
    "gemm_energy": (frozenset({"gemm_dtype", "m", "n", "k", "latency_us", "power_w"}), gemm_energy),
    "attention_power": (frozenset({"isl", "past_kv", "num_heads", "power_w"}), attention_power),
    "collective": (frozenset({"op_name", "num_gpus", "size_bytes", "latency_us"}), collective),
}
"""Layouts of measured tables: the columns by which one is known, and the function that reads its rows."""


def layout_of(rows: list[dict[str, str]], path: Path) -> str:
    """Name of the layout of a table. Raises UsageFault if no layout has its columns."""
    columns = set(rows[0]) if rows else set()
    for name, (needed, _) in LAYOUTS.items():
        if needed <= columns:
            return name
    shapes = "; ".join(f"{name}: {', '.join(sorted(needed))}" for name, (needed, _) in LAYOUTS.items())
    raise UsageFault(f"{path}: its columns are those of no known layout ({shapes})")
