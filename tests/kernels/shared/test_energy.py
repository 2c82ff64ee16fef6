"""Energy and power: what must hold for any board and any work, whole models, and measured board power.

Twins of the equations are compared in test_kernels.py.
"""

import math
from functools import cache
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweeper
from sweeper.evidence.calibration import calibrations
from sweeper.evidence.measured_kernels import LARGE
from sweeper.evidence.measured_rows import MeasuredRow, read_rows
from sweeper.evidence.registry import registry
from sweeper.evidence.scoreboard import score
from sweeper.evidence.statistics import Scored
from sweeper.kernels.codes import FORMAT_B
from sweeper.kernels.models import MODELS
from sweeper.kernels.shared import energy
from sweeper.kernels.shared.price import Parts, PerRate, of_network
from sweeper.kernels.shared.price import Rates as LinkRates
from sweeper.kernels.transformers import energy as operator_energy
from sweeper.kernels.transformers.collectives import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, Group
from sweeper.kernels.transformers.energy import W
from sweeper.kernels.transformers.groups import G, Groups
from sweeper.kernels.transformers.network.sending import Sending, sent_J
from sweeper.kernels.transformers.operators import D
from sweeper.kernels.transformers.rates import Chip, Formats, Precisions, Rates
from sweeper.kernels.transformers.sums import Modules
from sweeper.library.library import Library, builtin_specs
from tests.support.examples import examples
from tests.twins.naive_energy import carried, tables, worked

QUICK = examples(100)
CLOSE = 1e-9
MOST_PER_BOARD = 3
BOARDS = ("h200_board_power", "b200_board_power")
KINDS = len(W)
TARGET = 0.15
"""Median error of the board power of large products."""
SYSTEMS = {"h200_sxm": 700.0, "b200_sxm": 1000.0}
"""Systems whose power was measured, and their limit in watts."""

H200_MEMORY_BPS = 4.8e12

BOARD = {
    "dynamic_energy_J": st.just(0.0) | st.floats(1e-6, 1e9),
    "iteration_time_s": st.floats(1e-6, 1e4),
    "chips": st.integers(1, 4096).map(float),
    "idle_power_W": st.floats(1.0, 500.0),
    "power_limit_W": st.floats(501.0, 3000.0),
}


def board(**given: float) -> dict[str, float]:
    """Outputs of the power equation by name."""
    values = energy.board_power(given)
    return {output.name: value for output, value in zip(energy.board_power.outputs, values, strict=True)}


# boards


@QUICK
@given(st.fixed_dictionaries(BOARD))
def test_no_board_exceeds_its_limit_and_no_time_is_below_the_iteration_time(point: dict[str, float]) -> None:
    found = board(**point)
    assert point["idle_power_W"] <= found["average_power_W"] <= point["power_limit_W"]
    assert found["power_limited_time_s"] >= point["iteration_time_s"]
    assert 0.0 < found["power_limited_clock"] <= 1.0
    limited = found["power_limited_time_s"] > point["iteration_time_s"]
    if limited:
        assert found["average_power_W"] == pytest.approx(point["power_limit_W"], rel=CLOSE)
        assert found["power_headroom_W"] < CLOSE * point["power_limit_W"]
    elif found["power_headroom_W"] > 0.0:
        assert found["average_power_W"] + found["power_headroom_W"] == pytest.approx(point["power_limit_W"], rel=CLOSE)


@QUICK
@given(st.fixed_dictionaries(BOARD))
def test_energy_is_power_times_time_and_idle_energy_plus_work(point: dict[str, float]) -> None:
    found = board(**point)
    drawn = found["average_power_W"] * found["power_limited_time_s"] * point["chips"]
    assert found["energy_J"] == pytest.approx(drawn, rel=CLOSE)
    assert found["energy_J"] == pytest.approx(found["idle_energy_J"] + point["dynamic_energy_J"], rel=CLOSE)


@QUICK
@given(st.fixed_dictionaries(BOARD), st.floats(1.0, 10.0))
def test_more_work_or_a_lower_limit_takes_no_less_time_and_energy(point: dict[str, float], factor: float) -> None:
    found = board(**point)
    lower = {**point, "power_limit_W": max(point["power_limit_W"] / factor, point["idle_power_W"] + 0.5)}
    for harder in ({**point, "dynamic_energy_J": point["dynamic_energy_J"] * factor}, lower):
        other = board(**harder)
        for name in ("power_limited_time_s", "energy_J"):
            assert other[name] >= found[name] * (1.0 - CLOSE)
        assert other["power_headroom_W"] <= found["power_headroom_W"]


@QUICK
@given(st.fixed_dictionaries(BOARD), st.integers(1, 64))
def test_as_many_boards_more_with_as_much_work_draw_as_much_each(point: dict[str, float], factor: int) -> None:
    more = {**point, "chips": point["chips"] * factor, "dynamic_energy_J": point["dynamic_energy_J"] * factor}
    found, other = board(**point), board(**more)
    for name in ("average_power_W", "power_limited_time_s"):
        assert other[name] == pytest.approx(found[name], rel=CLOSE)
    assert other["energy_J"] == pytest.approx(factor * found["energy_J"], rel=CLOSE)


@QUICK
@given(st.fixed_dictionaries(BOARD))
def test_without_a_known_limit_clocks_stay(point: dict[str, float]) -> None:
    found = board(**{**point, "power_limit_W": math.nan})
    assert found["power_limited_time_s"] == point["iteration_time_s"]
    assert found["power_limited_clock"] == 1.0
    assert math.isnan(found["power_headroom_W"])
    assert math.isfinite(found["average_power_W"])
    assert found["average_power_W"] >= point["idle_power_W"]


def test_a_limit_below_the_idle_power_cannot_be_kept() -> None:
    point = {"iteration_time_s": 1.0, "chips": 1.0, "idle_power_W": 200.0, "power_limit_W": 100.0}
    assert board(**point, dynamic_energy_J=1.0)["power_limited_time_s"] == math.inf
    assert board(**point, dynamic_energy_J=1.0)["power_limited_clock"] == 0.0
    assert board(**point, dynamic_energy_J=0.0)["power_limited_time_s"] == 1.0


def test_a_board_that_is_not_calibrated_draws_its_rated_power_at_its_peak() -> None:
    idle, limit, flop, byte = energy.board_constants.function(400.0, 312e12, 5e-11, 0.0, 0.0, 0.0, 0.0)
    assert idle + 312e12 * flop == pytest.approx(400.0)
    assert byte == 5e-11
    assert math.isnan(limit)
    assert energy.board_constants.function(400.0, 312e12, 5e-11, 90.0, 350.0, 1e-12, 8e-11) == (
        90.0,
        350.0,
        1e-12,
        8e-11,
    )


# work


def test_narrow_formats_take_less_but_not_in_proportion() -> None:
    each = [energy.relative_energy(width) for width in sorted(set(FORMAT_B))]
    assert each == sorted(each)
    assert energy.relative_energy(2.0) == 1.0
    assert 0.5 < energy.relative_energy(1.0) < 1.0
    assert 0.25 < energy.relative_energy(0.5) < energy.relative_energy(1.0)


@QUICK
@given(worked(), st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 0.25, 1.0]))
def test_work_of_places_is_the_sum_over_their_operators(
    table: dict[str, np.ndarray], early_stop: float, share: float
) -> None:
    sums = np.empty((6, 4 * KINDS))
    arrays = (table["operator_traits"], table["operator_dims"], table["operator_work"])
    again = Modules(*[share] * len(Modules._fields))
    operator_energy.place_work.function(*arrays, early_stop, again, sums)
    counts = np.maximum(table["operator_dims"][:, D.count], 0.0)
    both = (counts[:, None] * table["operator_work"]).sum(axis=0)
    assert sums[:, : 2 * KINDS].sum(axis=0) == pytest.approx(both, rel=CLOSE)
    forward, selective, full = (sums[:, at * KINDS : (at + 1) * KINDS] for at in (0, 2, 3))
    assert np.all(selective <= share * forward * (1.0 + CLOSE))
    assert np.all(full <= forward * (1.0 + CLOSE))
    parts = np.zeros_like(sums)
    for i in range(len(counts)):
        one = np.empty_like(sums)
        operator_energy.place_work.function(*(array[i : i + 1] for array in arrays), early_stop, again, one)
        parts += one
    assert parts == pytest.approx(sums, rel=CLOSE)


@st.composite
def links(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """A network of groups that are all alike, and its energies per byte."""
    extents = {name: float(draw(st.integers(1, 8))) for name in ("inner", "outer")}
    network = np.array([[extents.get(name, 1.0) for name in Group._fields] for _ in Groups._fields])
    pair = [draw(st.floats(1e-12, 1e-9)), draw(st.floats(1e-12, 1e-9))]
    return network, np.array([pair for _ in Groups._fields])


@QUICK
@given(links(), st.floats(1.0, 1e12), st.floats(1.0, 10.0))
def test_an_all_reduce_sends_what_its_halves_send_in_proportion_to_the_message(
    net: tuple[np.ndarray, np.ndarray], message_B: float, factor: float
) -> None:
    def sent(operation: float, size_B: float) -> float:
        return sent_J(Sending(*net), G.tensor, operation, size_B)

    whole = sent(ALL_REDUCE, message_B)
    assert whole == pytest.approx(sent(REDUCE_SCATTER, message_B) + sent(ALL_GATHER, message_B), rel=CLOSE)
    assert sent(ALL_REDUCE, factor * message_B) == pytest.approx(factor * whole, rel=CLOSE)
    assert whole <= 2.0 * message_B * net[1].max() * 2.0
    given = {"group_network": net[0].tolist(), "group_energy": net[1].tolist()}
    assert whole == pytest.approx(carried(given, "tensor", "all_reduce", message_B), rel=CLOSE)


@QUICK
@given(
    st.tuples(*[st.floats(1.0, 1e20)] * 3, st.floats(0.0, 1e9)),
    st.tuples(*[st.floats(1e-14, 1e-9)] * 3),
    st.sampled_from(range(4)),
)
def test_energy_grows_with_every_kind_of_work_and_is_the_sum_of_its_parts(
    work: tuple[float, ...], each: tuple[float, ...], kind: int
) -> None:
    *parts, total = energy.dynamic_energy.function(*work, *each)
    assert total == pytest.approx(sum(parts) + work[W.network_J], rel=CLOSE)
    doubled = [2.0 * amount if at == kind else amount for at, amount in enumerate(work)]
    assert energy.dynamic_energy.function(*doubled, *each)[-1] >= total
    twice = energy.dynamic_energy.function(*(2.0 * amount for amount in work), *each)
    assert twice[-1] == pytest.approx(2.0 * total, rel=CLOSE)


@examples(30)
@given(tables(), st.sampled_from([2.0, 3.0]))
def test_longer_messages_and_more_bytes_take_more(table: dict[str, np.ndarray], factor: float) -> None:
    """Every number of a table that is an amount, times a factor, multiplies the work of those operators."""
    network = np.array([[2.0 if name in ("inner", "outer") else 1.0 for name in Group._fields] for _ in Groups._fields])
    rates = Rates(1e15, 1e15, 1e15, 1e15, 6e13, 1e12, 3e12, 0.5)
    amounts = [i for i, trait in enumerate(table["operator_traits"]) if trait[0] >= 2]
    more = table["operator_dims"].copy()
    for i in amounts:
        more[i, D.flops : D.launches] *= factor  # flops and bytes of the three passes
        more[i, D.message : D.stored] *= factor  # messages
        more[i, D.matrix_flops] *= factor
    found = []
    for dims in (table["operator_dims"], more):
        work = np.empty((len(dims), 2 * KINDS))
        operator_energy.operator_work.function(
            table["operator_traits"], dims, Sending(network, np.full((len(G), 2), 1e-11)), rates,
            Chip(132.0, 228e3, 5e7, 1e13, 1.0, 0.0), Formats(2.0, 2.0, 4.0, *[2.0] * 6), Precisions(2.0, 2.0, 2.0),
            64.0, 0.0, work,
        )  # fmt: skip
        found.append(work)
    assert found[1][amounts] == pytest.approx(factor * found[0][amounts], rel=CLOSE)
    assert np.all(found[0] >= 0.0)


# whole models


STUDY = """
study: energy_of_models
axes:
  workload: llama3_8b
  calibration: [h200_gemm_bf16, h200_gemm_fp8_block, uncalibrated]
  chip: h200_sxm5_141gb
  memory: hbm3e
  link: nvlink4
  outer_link: infiniband_ndr
  topology: dgx_2
  task: [training, inference]
  recompute: [none, full]
  chips: 16
  dim_x: 8
  dim_y: 2
  mapping:
    columns: [tensor_parallel, pipeline_parallel, data_parallel]
    values: {tensor_parallel: [1, 8], pipeline_parallel: [1, 2], data_parallel: [1, 2, 8, 16]}
    where: tensor_parallel*pipeline_parallel*data_parallel == 16
  microbatch: 1
  batch_size: 64
  sequence_length: 2048
  output_length: 64
output: {columns: [iteration_time_s, hardware_flops, bf16_flops, l2_traffic_B, memory_traffic_B, compute_energy_J,
                   l2_energy_J, memory_energy_J, network_energy_J, idle_energy_J, dynamic_energy_J, energy_J,
                   average_power_W, power_headroom_W, power_limited_time_s, power_limited_clock, power_limit_W,
                   board_energy_per_token_J, tokens_per_s]}
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, float]]:
    folder = tmp_path_factory.mktemp("energy")
    path = folder / "study.yaml"
    path.write_text(STUDY)
    result = sweeper.run(sweeper.plan(path), out=folder)
    return list(sweeper.scan(result.directory).collect().iter_rows(named=True))


def test_energies_of_models_add_up(models: list[dict[str, float]]) -> None:
    assert len(models) > 20
    for row in models:
        parts = [row[f"{kind}_energy_J"] for kind in ("compute", "l2", "memory", "network")]
        assert all(part >= 0.0 for part in parts)
        assert row["dynamic_energy_J"] == pytest.approx(sum(parts), rel=CLOSE)
        assert row["energy_J"] == pytest.approx(sum(parts) + row["idle_energy_J"], rel=CLOSE)
        time_s = row["power_limited_time_s"]
        assert row["average_power_W"] == pytest.approx(row["energy_J"] / time_s / row["chips"], rel=CLOSE)
        tokens = row["tokens_per_s"] * row["iteration_time_s"]
        assert row["board_energy_per_token_J"] == pytest.approx(row["energy_J"] / tokens, rel=CLOSE)
        if row["power_limit_W"] is not None:
            assert row["average_power_W"] <= row["power_limit_W"]


def test_operations_of_models_are_those_that_their_time_counts(models: list[dict[str, float]]) -> None:
    """Matrix operations are the same; those of elementwise operators come on top, but hardly."""
    for row in models:
        assert row["hardware_flops"] <= row["bf16_flops"] <= 1.05 * row["hardware_flops"]


def test_memories_move_no_more_than_their_bandwidth(models: list[dict[str, float]]) -> None:
    for row in models:
        assert row["memory_traffic_B"] <= row["iteration_time_s"] * row["chips"] * H200_MEMORY_BPS


def test_recomputation_takes_energy(models: list[dict[str, float]]) -> None:
    keys = ("calibration", "task", "tensor_parallel", "pipeline_parallel")
    by_key = {(*(row[key] for key in keys), row["recompute"]): row for row in models}
    for (*key, recompute), row in by_key.items():
        if recompute == "none":
            again = by_key[(*key, "full")]
            assert (again["dynamic_energy_J"] > row["dynamic_energy_J"]) == (row["task"] == "training")


def test_graphs_have_the_same_columns(tmp_path: Path) -> None:
    path = tmp_path / "graph.yaml"
    columns = ["energy_J", "average_power_W", "power_limited_time_s", "iteration_time_s", "dynamic_energy_J",
               "idle_energy_J"]  # fmt: skip
    path.write_text(
        "study: energy_of_graph\naxes: {workload: gpt3_175b_forward, chip: h100_sxm, memory: hbm3, link: nvlink4,"
        " topology: torus_2d, chips: 8, dim_x: 4, dim_y: 2, tensor_parallel: 8, pipeline_parallel: 1,"
        f" data_parallel: 1, microbatch: 1}}\noutput: {{columns: [{', '.join(columns)}]}}\n"
    )
    result = sweeper.run(sweeper.plan(path), out=tmp_path)
    (row,) = sweeper.scan(result.directory).collect().iter_rows(named=True)
    assert row["energy_J"] == pytest.approx(row["dynamic_energy_J"] + row["idle_energy_J"], rel=CLOSE)
    assert row["dynamic_energy_J"] > 0.0
    assert row["power_limited_time_s"] == row["iteration_time_s"]
    written = {output.name for family in ("graph", "operators") for eq in MODELS[family] for output in eq.outputs}
    assert written >= {*columns, "power_headroom_W", "power_limited_clock", "network_energy_J"}


# measured board power


@cache
def scored(layout: str) -> list[Scored]:
    """Rows of the bundled tables of a layout that have a reading."""
    folder = builtin_specs() / "measurements"
    files = [table["file"] for table in registry()["tables"] if table["layout"] == layout]
    return score([row for file in files for row in read_rows(folder / file) if row["power_w"]], layout)


def volume(row: MeasuredRow) -> float:
    return math.prod(float(row[name]) for name in "mnk")


@pytest.mark.parametrize("system", SYSTEMS)
def test_board_power_of_large_products_is_met(system: str) -> None:
    rows = [s for s in scored("gemm_power") if s.row["system"] == system]
    large = [s for s in rows if "large" in s.group]
    assert large == [s for s in rows if volume(s.row) >= LARGE]
    assert len(large) >= 150
    assert not any(s.reason for s in large)
    assert median(abs(s.error) for s in large) <= TARGET
    assert all(s.predicted <= SYSTEMS[system] for s in rows)
    for name in dict.fromkeys(s.row["gemm_dtype"] for s in large):
        # No format is met at the cost of another; fp8 on B200 is the worst.
        assert median(abs(s.error) for s in large if s.row["gemm_dtype"] == name) <= 0.18


def test_the_model_does_not_just_answer_with_the_limit() -> None:
    """Most large products are measured at the limit; the model gives less than it to most of them."""
    large = [s for s in scored("gemm_power") if "large" in s.group]
    at_limit = [s for s in large if s.predicted >= 0.999 * SYSTEMS[s.row["system"]]]
    assert 0 < len(at_limit) < 0.5 * len(large)


def test_how_easy_the_target_is_stands_in_the_document() -> None:
    """Most large products run at the limit of their board: answering it alone would do better than the model."""
    large = [s for s in scored("gemm_power") if "large" in s.group]
    near = [s for s in large if abs(s.measured / SYSTEMS[s.row["system"]] - 1.0) <= 0.05]
    medians = [
        median(abs(limit / s.measured - 1.0) for s in large if s.row["system"] == system)
        for system, limit in SYSTEMS.items()
    ]
    document = " ".join((builtin_specs().parent / "docs" / "accuracy_kernels.md").read_text(encoding="utf-8").split())
    assert f"({len(near)} of {len(large)} within 5 %)" in document
    h200, b200 = (f"{100 * value:.1f}" for value in medians)
    assert f"would have medians of {h200} and {b200} %" in document


def test_boards_have_at_most_three_fitted_constants() -> None:
    library = Library.load([builtin_specs()])
    known = calibrations()
    power = ("idle_power", "board_power", "flop_energy", "byte_energy", "l2_energy")
    for name in BOARDS:
        assert len(known[name].constants) <= MOST_PER_BOARD
        values = library.find("calibration", name).values
        fitted = {key for key, value in values.items() if value.grade == "fitted"}
        assert fitted == set(known[name].fit)
        for heir in known[name].heirs:
            own = library.find("calibration", heir).values
            assert all(own[key] == values[key] for key in power), heir
    for name in ("a100_board_power", "h100_board_power"):
        assert not any(value.grade == "fitted" for value in library.find("calibration", name).values.values())


def test_what_is_the_same_for_all_boards_is_no_constant_of_one() -> None:
    library = Library.load([builtin_specs()])
    each = {library.find("calibration", name).values["l2_energy"].number for name in library.names("calibration")}
    assert len(each) == 1


def test_power_of_attention_was_not_fitted() -> None:
    """A blind check, which shows how far energies of products carry: not to 15 %."""
    assert not any("attention" in file for name in BOARDS for file in calibrations()[name].files)
    rows = scored("attention_power")
    assert len(rows) > 2000
    assert median(abs(s.error) for s in rows) <= 0.35


POWERED = st.tuples(*[st.floats(1.0, 1e6)] * 3, *[st.floats(1e9, 1e12)] * 2, *[st.floats(1e-12, 1e-9)] * 4)


def used(static_share: float, work_J: float, network_J: float, time_s: float, net: tuple[float, ...]) -> list[float]:
    """Static, dynamic and used power of 64 boards of 100 W without work, and their efficiency."""
    parts, rates, each = Parts(*net[:3], net[0]), LinkRates(*net[3:5]), PerRate(*net[5:])
    done = energy.used_power.function(
        64.0, 100.0, work_J + network_J, network_J, time_s, 1e15, static_share, parts, rates, each
    )
    return list(done)


@QUICK
@given(st.floats(0.0, 1e9), st.floats(0.0, 1e9), st.floats(1e-3, 1e3), POWERED)
def test_used_power_is_the_energy_over_the_time(
    work_J: float, network_J: float, time_s: float, net: tuple[float, ...]
) -> None:
    static, dynamic, power, efficiency = used(0.0, work_J, network_J, time_s, net)
    *_, energy_J = energy.board_power.function(work_J + network_J, time_s, 64.0, 100.0, math.nan)
    assert static == 6400.0 and power == static + dynamic
    assert power == pytest.approx(energy_J / time_s, rel=CLOSE)
    assert efficiency == pytest.approx(1e15 / time_s / power)


@QUICK
@given(st.floats(0.0, 1.0), st.floats(1e-3, 1e3), POWERED)
def test_a_network_at_full_rate_draws_the_same_whatever_its_static_share(
    share: float, time_s: float, net: tuple[float, ...]
) -> None:
    full_W = of_network(Parts(*net[:3], net[0]), LinkRates(*net[3:5]), PerRate(*net[5:]))
    _, _, power, _ = used(share, 0.0, full_W * time_s, time_s, net)
    assert power == pytest.approx(6400.0 + full_W, rel=1e-9)
    assert used(share, 0.0, 0.0, time_s, net)[2] == pytest.approx(6400.0 + share * full_W, rel=1e-9)
