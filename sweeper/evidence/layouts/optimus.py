"""The layout of the tables of Optimus: training, inference and single products of other people's runs."""

from collections.abc import Mapping
from typing import Any

from sweeper.evidence.measured_rows import MeasuredPoint, MeasuredRow, Refusal, Unmodelled, number, positive
from sweeper.evidence.measured_runs import recomputations
from sweeper.evidence.registry import platform, split_columns, stack

OPTIMUS_MODELS = {"GPT-22B": "megatron_22b", "GPT-175B": "megatron_175b", "GPT-530B": "megatron_530b",
                  "GPT-1008B": "megatron_1t", "GPT-310B": "megatron_310b", "Llama2-70B": "llama2_70b",
                  "Llama2-13B": "llama2_13b", "Llama2-7B": "llama2_7b"}  # fmt: skip


def optimus(row: MeasuredRow, known: Mapping[str, Any]) -> MeasuredPoint:
    """Tables 1 (training, s), 2 (inference, ms) and 4 (single products, us) of Optimus."""
    table = row.get("table", "")
    if table not in ("1", "2"):
        raise Unmodelled(f"table {table}: see the study optimus_bounds", Refusal.STUDY)
    model = OPTIMUS_MODELS.get(row.get("model", ""))
    if model is None:
        raise Unmodelled(f"unknown model {row.get('model')!r}", Refusal.WORD)
    tensor, pipe, data = positive(row, "tp"), positive(row, "pp"), positive(row, "dp", 1.0)
    name = {"A100": "A100-SXM4-80GB", "H100": "H100-SXM5-80GB"}.get(row.get("gpu", ""), row.get("gpu", ""))
    hardware = platform(known, name)
    columns = {"workload": model, **hardware, "batch_size": positive(row, "batch")}
    split_columns(columns, tensor, pipe, data)
    if table == "2":
        columns |= stack(known, "inference", {"group": "nvidia-llama2-latency", "a": name}, ("group", "a"), hardware)
        columns.update(task="inference", microbatch=1.0, sequence_length=200.0, output_length=200.0)
        return MeasuredPoint("optimus table 2", columns, "request_time_s", positive(row, "t_ref") * 1e-3)
    # The microbatch and the number of chunks of the last three rows are not published; 1 and 1 as in their scripts.
    known_split = row.get("mbs", "?") != "?"
    word = "korthikanti2022" if known_split else "megatron-sc21"
    columns |= stack(known, "training", {"group": word, "a": name}, ("group", "a"), hardware)
    chunks = number(row, "v") if known_split else 1.0
    columns.update(
        microbatch=number(row, "mbs") if known_split else 1.0,
        virtual_stages=chunks,
        schedule="interleaved" if chunks > 1.0 else "one_f_one_b",
        sequence_length=2048.0,
        sequence_parallel=number(row, "sp"),
        zero_stage=0.0,
        **recomputations(row)[0],
    )
    precise = row.get("t_ref_precise") or row.get("t_ref", "")
    return MeasuredPoint("optimus table 1", columns, "iteration_time_s", positive({"t": precise}, "t"))
