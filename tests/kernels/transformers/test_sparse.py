"""Attention to tokens that an index chooses: what it costs beside, and what it saves."""

from pathlib import Path

import numpy as np
import pytest

import sweeper
from sweeper.errors import SpecError
from sweeper.library.library import Library, builtin_specs
from tests.kernels.transformers.test_models import EXACT, Point, evaluate, mapped, numbers

SERVED = {"task": "inference", "output_length": 1.0, "tensor_parallel": 8.0}
COLUMNS = ("prefill_s", "time_per_output_token_s", "cache_B_per_layer", "model_flops_per_token", "parameters")


def told(workload: str, sequence: float, **numbers_of: float) -> dict[str, float]:
    point: Point = mapped(workload, 8, 1, 1, **{**SERVED, "sequence_length": sequence, **numbers_of})
    return {name: float(values[0]) for name, values in evaluate([point], COLUMNS).items()}


def test_an_index_is_all_that_is_added_to_deepseek_v3() -> None:
    p = numbers("deepseek_v3_2")
    index = p["index_heads"] * p["index_size"] * p["query_latent"]
    index += p["hidden"] * (p["index_size"] + p["index_heads"]) + 2 * p["index_size"]
    dense, sparse = told("deepseek_v3", 1024.0), told("deepseek_v3_2", 1024.0)
    assert sparse["parameters"] == pytest.approx(dense["parameters"] + p["layers"] * index, rel=EXACT)
    grown = 1.0 + 132.0 / (2.0 * (p["kv_latent"] + p["rope_size"]))
    assert sparse["cache_B_per_layer"] == pytest.approx(dense["cache_B_per_layer"] * grown, rel=EXACT)
    mean = 2.0 * p["layers"] * (index + p["index_heads"] * p["index_size"] * 1025.0 / 2.0)
    assert sparse["model_flops_per_token"] == pytest.approx(dense["model_flops_per_token"] + mean, rel=EXACT)
    assert (
        dense["prefill_s"] < sparse["prefill_s"]
        and dense["time_per_output_token_s"] < sparse["time_per_output_token_s"]
    )


def test_an_index_computes_what_a_query_has_before_it() -> None:
    """Of 1,024 tokens half on average; every chip of eight has the whole of it."""
    p = numbers("deepseek_v3_2")
    point = mapped("deepseek_v3_2", 8, 1, 1, **{**SERVED, "sequence_length": 1024.0})
    points = [{**point, "workload": name} for name in ("deepseek_v3", "deepseek_v3_2")]
    dense, sparse = evaluate(points, ("hardware_flops",))["hardware_flops"]
    products = p["index_heads"] * p["index_size"] * p["query_latent"] + p["hidden"] * (
        p["index_size"] + p["index_heads"]
    )
    scores = p["index_heads"] * p["index_size"] * 1025.0 / 2.0
    tokens = float(point["batch_size"]) * 1024.0
    assert sparse - dense == pytest.approx(8.0 * tokens * p["layers"] * 2.0 * (products + scores), rel=1e-9)


def test_tokens_attend_to_no_more_than_are_chosen() -> None:
    """Of 128k tokens each attends to 2048: the index alone sees more of a longer context."""
    p = numbers("deepseek_v3_2")
    short, long = told("deepseek_v3_2", 65_536.0), told("deepseek_v3_2", 131_072.0)
    width = p["heads"] * (p["head_size"] + p["rope_size"] + p["value_size"])
    grown = 2.0 * p["layers"] * p["index_heads"] * p["index_size"] * 32_768.0
    fewer = 2.0 * p["layers"] * width * 2048.0 * 2047.0 / 2.0 * (1.0 / 65_536.0 - 1.0 / 131_072.0)
    difference = long["model_flops_per_token"] - short["model_flops_per_token"]
    head = 2.0 * p["vocabulary"] * p["hidden"] * (1.0 / 131_072.0 - 1.0 / 65_536.0)  # of the last token alone
    assert difference == pytest.approx(grown + fewer + head, rel=1e-9)


def test_long_contexts_are_read_in_the_index_alone() -> None:
    """Keys of 132 B instead of latents of 576 elements, for 32 requests of 128k tokens."""
    many = {"batch_size": 32.0, "microbatch": 32.0}
    dense, sparse = (
        told(name, 131_072.0, **many)["time_per_output_token_s"] for name in ("deepseek_v3", "deepseek_v3_2")
    )
    assert sparse < 0.8 * dense
    dense, sparse = (
        told(name, 1_024.0, **many)["time_per_output_token_s"] for name in ("deepseek_v3", "deepseek_v3_2")
    )
    assert dense < sparse < 1.2 * dense


def test_all_that_are_chosen_is_latent_attention_on_the_latents() -> None:
    """Where as many are chosen as there are, nothing is sparse."""
    whole = told("deepseek_v3_2", 8_192.0, **{"workload.selected": 8_193.0})
    none = told("deepseek_v3_2", 8_192.0, **{"workload.selected": 0.0})
    assert whole == none
    tokens = np.array([told("deepseek_v3_2", 8_192.0, **{"workload.selected": each})["model_flops_per_token"]
                       for each in (512.0, 2_048.0, 4_096.0)])  # fmt: skip
    assert (np.diff([*tokens, whole["model_flops_per_token"]]) > 0.0).all()


TABLE = """
more:
  extends: decoder
  description: one more operator
  source: s
  grade: assumed
  more_operators:
    - {name: extra, AFTER type: elementwise, place: layer, bytes: 1e9}
"""


def load(tmp_path: Path, after: str) -> Library:
    folder = tmp_path / "workloads"
    folder.mkdir()
    (folder / "more.yaml").write_text(TABLE.replace("AFTER", after))
    return Library.load([tmp_path, builtin_specs()])


def test_more_operators_follow_those_of_the_extended_table(tmp_path: Path) -> None:
    load(tmp_path, "after: rotary,")
    study = tmp_path / "s.yaml"
    study.write_text(
        "study: s\naxes: {workload: [decoder, more], chip: h100_sxm5_80gb, memory: hbm3_h100, link: nvlink4, "
        "topology: switch, chips: 1, dim_x: 1, batch_size: 1, microbatch: 1}\n"
    )
    plan = sweeper.plan(study, [tmp_path])
    times = plan.points([0, 1], ["iteration_time_s"])["iteration_time_s"]
    assert times[1] > times[0]


@pytest.mark.parametrize(
    ("after", "message"),
    [("", "need the key 'after'"), ("after: rotory,", "unknown operator 'rotory'")],
)
def test_where_more_operators_stand_is_said(tmp_path: Path, after: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load(tmp_path, after).find("workload", "more")
