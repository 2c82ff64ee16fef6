"""The vocabulary: what its names, units, ranges and defaults must be whatever the words are, and some facts of each."""

import math

import pytest

from sweeper.words.attributes import Attribute, flag, fraction, free, repeated, vocabulary, whole
from sweeper.words.columns import DEFAULTS, default, engine_column, number_default, role_columns
from sweeper.words.defaults import NAMED, NAMED_DEFAULTS
from sweeper.words.metrics import CALCULON_METRICS, GRAPH_METRICS, OPERATOR_METRICS, PACKAGE_METRICS
from sweeper.words.numbers import NUMBERS
from sweeper.words.ranges import BY_UNIT, RATIO
from sweeper.words.system import (
    ATTRIBUTES,
    ENTRY_DEFAULTS,
    GENERATED_FROM,
    GRADES,
    NUMERIC,
    OPTIONAL_ROLES,
    OVERRIDES,
    PLACEHOLDER,
    ROLES,
    STAND_INS,
)


@pytest.mark.parametrize(
    ("unit", "column"),
    [
        ("", "x"), ("s", "x_s"), ("B/s", "x_Bps"), ("flop/s", "x_flops"), ("b/s", "x_bps"),
        ("usd/mm^2", "x_usd_per_mm2"), ("1/mm^2", "x_per_mm2"), ("usd/(B/s)", "x_usd_per_Bps"), ("J/B", "x_J_per_B"),
    ],
)  # fmt: skip
def test_a_column_ends_with_its_unit(unit: str, column: str) -> None:
    assert vocabulary(x=free(unit, "", limits=RATIO))["x"].column == column
    assert vocabulary(x=free(unit, "", column="y", limits=RATIO))["x"].column == "y"


def test_kinds_of_numbers_allow_what_they_say() -> None:
    assert (free("s", "").positive, free("s", "").default, free("s", "").range) == (False, 0.0, BY_UNIT["s"])
    copies = whole("", (1.0, 8.0))
    assert (copies.positive, copies.integer, copies.default, copies.range) == (True, True, None, (1.0, 8.0))
    assert (fraction("").positive, fraction("").range[1]) == (False, 1.0)
    assert (flag("").positive, flag("").integer, flag("").range) == (False, True, (1.0, 1.0))
    parts = repeated(("core", "l1"), vocabulary(share=fraction("")))
    assert [attribute.column for attribute in parts.values()] == ["core_share", "l1_share"]
    assert list(parts) == ["core_share", "l1_share"]


@pytest.mark.parametrize("name", NUMERIC)
def test_a_default_lies_in_the_range_of_its_number(name: str) -> None:
    attribute = NUMERIC[name]
    value = attribute.default
    if value is not None and not math.isnan(value):  # NaN: known to be unknown
        low, high = attribute.range
        assert low <= value <= high or (value == 0.0 and not attribute.positive)
        assert not attribute.integer or value == int(value)
    assert attribute.column and attribute.about


def test_no_two_words_have_the_same_column() -> None:
    columns = [engine_column(name) for name in NUMERIC]
    assert len(columns) == len(set(columns))
    assert not set(columns) & {*NAMED, *ROLES}


def test_shares_of_a_rate_are_at_most_one() -> None:
    """Efficiencies are shares of a peak."""
    efficiencies = [name for name in NUMERIC if name.rpartition(".")[2].endswith("_efficiency")]
    assert len(efficiencies) >= 8
    assert [name for name in efficiencies if NUMERIC[name].range[1] != 1.0] == []


def test_numbers_of_a_study_have_the_values_that_nothing_says() -> None:
    """What is silent is one: one chip shares, one stage, one replica; zero is what is not there."""
    ones = ("tensor_parallel", "pipeline_parallel", "data_parallel", "context_parallel", "expert_parallel",
            "microbatch", "virtual_stages", "dim_y", "dim_z", "batch_size", "output_length",
            "resident_microbatches", "recompute_share", "checkpoint_interval", "tree_width",
            "oversubscription_y", "oversubscription_z")  # fmt: skip
    zeros = ("sequence_parallel", "zero_stage", "draw", "speculated_tokens", "draft_time", "weight_offload",
             "activation_offload", "optimizer_offload", "tensor_overlap", "overlap_slowdown", "sequence_length",
             "shard_group", "network_static_share", "max_batched_tokens", "offload_capacity",
             "data_overlap")  # fmt: skip
    assert {name: DEFAULTS[name] for name in ones} == dict.fromkeys(ones, 1.0)
    assert {name: DEFAULTS[name] for name in zeros} == dict.fromkeys(zeros, 0.0)
    assert [name for name in NUMBERS if NUMBERS[name].default is None] == ["chips", "dim_x"]
    assert (NUMBERS["zero_stage"].range[1], NUMBERS["speculated_tokens"].range[1]) == (3.0, 32.0)
    # mixed precision: master weight, momentum and variance in four bytes each; four years of 365 days
    assert NUMBERS["optimizer_state"].default == 12.0
    assert NUMBERS["lifetime"].default == 4 * 365 * 86400


def test_a_column_that_nothing_says() -> None:
    assert all(math.isnan(float(default(name))) for name in ("memory.bandwidth", "chip.cores", "chips"))
    assert default("tensor_parallel") == 1.0
    assert default("partitioning") == "kernel_by_kernel"
    assert (default("calibration"), default("chip"), default("topology")) == ("uncalibrated", PLACEHOLDER, "")
    assert number_default(free("s", "", 0.0)) == 0.0 and math.isnan(number_default(Attribute("s", "")))
    assert {"chips", "dim_x"}.isdisjoint(DEFAULTS)


def test_the_engine_calls_things_by_role_and_unit() -> None:
    assert engine_column("outer_link.bandwidth") == "outer_link_bandwidth_Bps"
    assert engine_column("chip.peak_flops") == "chip_given_peak_flops"
    assert engine_column("lifetime") == "lifetime_s"
    assert engine_column("workload") == "workload"
    assert list(role_columns("link")) == [f"link_{attribute.column}" for attribute in ATTRIBUTES["link"].values()]


def test_choices_have_defaults_that_they_allow() -> None:
    assert NAMED_DEFAULTS.keys() == NAMED.keys()
    assert [name for name, choice in NAMED_DEFAULTS.items() if choice not in NAMED[name]] == []


def test_grades_run_from_the_strongest_to_the_weakest() -> None:
    """The weakest grade of its inputs is that of a column."""
    assert GRADES == ("measured", "fitted", "datasheet", "estimate", "assumed")


def test_roles_are_filled_named_or_generated() -> None:
    """A role that a study need not name is filled by another, by an entry, or by nothing."""
    assert set(ENTRY_DEFAULTS) | set(OPTIONAL_ROLES) | set(STAND_INS) <= set(ROLES)
    assert not set(ENTRY_DEFAULTS) & set(OPTIONAL_ROLES)
    assert {ROLES[other] for other in STAND_INS.values()} == {ROLES[role] for role in STAND_INS}
    assert set(GENERATED_FROM) | set(GENERATED_FROM.values()) <= set(ROLES)
    assert {ROLES[role] for role in GENERATED_FROM.values()} <= {ROLES[role] for role in OPTIONAL_ROLES}
    assert {name.partition(".")[0] for name in OVERRIDES} <= set(ROLES)


@pytest.mark.parametrize("metrics", [GRAPH_METRICS, OPERATOR_METRICS, CALCULON_METRICS, {"package": PACKAGE_METRICS}])
def test_metrics_are_named_once_and_systems_have_price_and_power(metrics: dict[str, tuple[str, ...]]) -> None:
    for names in metrics.values():
        assert len(names) == len(set(names))
        assert "package_cost_usd" in names or {"iteration_time_s", "system_price_usd", "system_power_W"} <= set(names)
