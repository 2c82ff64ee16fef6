"""Every equation against its twin in plain Python, and the limits and symmetries that the physics must have."""

import itertools
import math
import pkgutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import sweeper.kernels
import tests.twins.naive_batching
import tests.twins.naive_contention
import tests.twins.naive_device_mapping
import tests.twins.naive_fitting
import tests.twins.naive_generator
import tests.twins.naive_layers
import tests.twins.naive_ownership
import tests.twins.naive_roofline
import tests.twins.naive_serving
import tests.twins.naive_units
from sweeper.inputs.packages import PACKAGE_TABLES
from sweeper.kernels.codes import CHANNELS, DIMENSION_KINDS, SWITCHES
from sweeper.kernels.equation import Equation
from sweeper.kernels.graphs.elimination import Order
from sweeper.kernels.graphs.sharding import DRAM, KEPT_EACH_B
from sweeper.kernels.models import EQUATIONS, GENERATING, MODELS
from sweeper.kernels.shared.demand import UnitModel
from sweeper.library.graph_arrays import SCALARS
from sweeper.words.defaults import NAMED
from sweeper.words.models import BLOCK_SCALARS, TABLE_SCALARS
from tests.support.examples import compared, examples
from tests.support.quick import quick
from tests.twins import naive_energy, naive_mapping, naive_models, naive_optimizers, naive_packaging, naive_sharding
from tests.twins.naive import (
    TWINS,
    Line,
    busiest_link,
    bytes_only,
    call,
    gather,
    inputs_of,
    links_and_ports,
    plain,
    routes,
    systems,
    table_costs,
    units_of_columns,
)

RESTATED = frozenset(MODELS["calculon"]) - {*MODELS["graph"], *MODELS["operators"]}
"""Equations of a model that is restated as a whole (test_calculon_search.py)."""
BY_NAME = {equation.name: equation for equation in EQUATIONS if equation not in RESTATED}
UNITS = units_of_columns(EQUATIONS)
FAST = examples(40)
THOROUGH = compared()
SHARDINGS = frozenset({"least_bytes_sharding", "least_time_sharding"})
"""Equations that may choose among equally good shardings."""
MAPPINGS = {
    "free_partition": naive_mapping.check_free_mapping,
    "limited_partition": naive_mapping.check_limited_mapping,
    "optimal_stages": naive_mapping.check_stages,
    "joint_sharding": naive_mapping.check_sharding,
    "package_units": naive_packaging.check_units,
    "continuous_batching": tests.twins.naive_batching.check_batching,
}
"""Equations that may choose among equally good mappings, or whose results are not all known, and what looks at them."""

ABSOLUTE = {
    "bubble_time_s": "pipeline_time_s",
    "layer_input_gradient_s": "layer_time_s",
    "stage_input_gradient_s": "stage_weight_gradient_s",
    "memory_need_B": "offload_need_B",
    "mapping_gap": "mapping_exact",
    "stage_gap": "stage_time_s",
    "other_stages_time_s": "pass_time_s",
    "gradient_time_s": "gradient_all_reduce_s",
    "optimizer_B": "weights_B",
    "power_headroom_W": "average_power_W",
    "pass_line_s": "pass_prompt_s",
    "package_escapes_usd": "package_cost_usd",
    "package_scrap_usd": "package_cost_usd",
}
"""Outputs that are differences: tolerance relative to another output."""


def alike(got: float, want: float) -> bool:
    """To 1e-12 of themselves; NaN is what is not known."""
    return math.isclose(got, want, rel_tol=1e-12) or (math.isnan(got) and math.isnan(want))


def assert_same(got: Any, want: Any, scale: float = 0.0) -> None:
    """Counts exactly, other numbers to 1e-12 of themselves or of `scale`; NaN is what is not known."""
    if isinstance(want, int):
        assert got == want
    elif math.isnan(want):
        assert math.isnan(got)
    else:
        assert math.isclose(got, want, rel_tol=1e-12, abs_tol=1e-12 * abs(scale))


# twins


def test_every_equation_has_a_twin_and_every_twin_an_equation() -> None:
    for equation in EQUATIONS:
        if equation not in RESTATED:  # a family may have one whatever the switch
            assert replace(equation, when=None) == replace(BY_NAME[equation.name], when=None)
    assert TWINS.keys() == BY_NAME.keys()


def test_no_equation_is_forgotten() -> None:
    """A module that no family has, or an equation made of one of another module, would not be evaluated, silently."""
    modules = [import_module(part.name) for part in pkgutil.walk_packages(sweeper.kernels.__path__, "sweeper.kernels.")]
    values = [value for module in modules for value in vars(module).values()]
    equations = {id(value): value for value in values if isinstance(value, Equation)}
    assert {value.name for value in equations.values()} == {equation.name for equation in EQUATIONS}
    unconditional = {replace(value, when=None) for value in equations.values() if value.when}
    assert equations.keys() == {id(equation) for equation in EQUATIONS if equation not in unconditional}


@pytest.mark.parametrize("name", BY_NAME)
@THOROUGH
@given(data=st.data())
def test_equation_equals_its_twin(name: str, data: st.DataObject) -> None:
    equation = BY_NAME[name]
    inputs = data.draw(quick(inputs_of(equation, UNITS)))
    before = {key: np.copy(value) for key, value in inputs.items()}
    got, want = call(equation, inputs), TWINS[name](**plain(inputs))
    assert got.keys() == want.keys() == {output.name for output in equation.outputs}
    for key, value in want.items():
        if key == "kernel_shard" and name in SHARDINGS:
            check_choice(name, inputs, got["kernel_shard"], want["sharding_cost"])
        elif value is naive_mapping.ANY:
            assert name in MAPPINGS
        elif isinstance(value, list):
            wanted = list(leaves(value))
            assert len(wanted) == got[key].size
            for number, any_of in zip(got[key].ravel().tolist(), wanted):
                assert any(alike(number, one) for one in any_of), key
        else:
            assert_same(got[key], value, want.get(ABSOLUTE.get(key, ""), 0.0))
    if name in MAPPINGS:
        MAPPINGS[name](plain(inputs), got)
    for key, value in before.items():
        assert np.array_equal(inputs[key], value, equal_nan=True), f"{name} changed its input {key}"


@pytest.mark.parametrize("name", [name for name, equation in BY_NAME.items() if equation.arrays])
@examples(20)
@given(data=st.data())
def test_every_entry_of_an_array_is_written(name: str, data: st.DataObject) -> None:
    inputs = data.draw(inputs_of(BY_NAME[name], UNITS))
    once, again = (call(BY_NAME[name], inputs, before) for before in (-1, 77))
    for key, value in once.items():
        assert np.array_equal(again[key], value, equal_nan=True), key


def leaves(value: Any) -> Iterator[Iterable[float]]:
    """Elements of nested lists, as the values that each may have: one, or those of a set."""
    if isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value if isinstance(value, frozenset) else (value,)


def check_choice(name: str, inputs: dict[str, Any], shard: np.ndarray, cost: float) -> None:
    """The chosen options cost what the equation says."""
    lists = plain(inputs)
    taken = [codes[:count].index(code) for codes, count, code in
             zip(lists["option_codes"], lists["option_counts"], shard.tolist())]  # fmt: skip
    if name == "least_time_sharding":
        assert_same(naive_sharding.table_cost(lists, taken), cost)
        return
    own, between = table_costs(lists, bytes_only(lists))
    total = math.fsum(own(i, x) for i, x in enumerate(taken))
    total += math.fsum(between(e, taken[u], taken[v]) for e, (u, v, *_) in enumerate(lists["tensor_reads"]))
    assert_same(total, cost)


# structure of the model


@pytest.mark.parametrize("generates", [False, True])
@pytest.mark.parametrize("family", MODELS)
def test_every_column_has_one_writer_under_every_assumption(family: str, generates: bool) -> None:
    """What generates a chip writes instead of the others where a study names a template (test_generator.py)."""
    model = [equation for equation in MODELS[family] if (equation in GENERATING) == generates]
    for column in {output.name for equation in model for output in equation.outputs}:
        writers = [equation for equation in model if column in {output.name for output in equation.outputs}]
        switches = {equation.when[0] if equation.when else None for equation in writers}
        assert len(switches) == 1, column
        switch = switches.pop()
        if switch is None:
            assert len(writers) == 1, column
        else:
            covered = [choice for equation in writers if equation.when for choice in equation.when[1]]
            # What only one task knows is absent in the other; a switch leaves nothing out.
            needed = covered if switch == "task" else NAMED[switch]
            assert sorted(covered) == sorted(set(needed)), column


GRAPH_ARRAYS = {
    *("kernel_traits", "kernel_dims", "graph_edges", "tensor_reads", "partition_of"),
    *(f"{prefix}_{name}" for prefix in ("elimination", "sharing") for name in Order._fields),
}
OPERATOR_ARRAYS = {"operator_traits", "operator_dims", "decode_dims", "single_dims"}
CURVES = frozenset({"efficiency_curves"})
UNIT_MODEL = {f"unit_model_{part}" for part in UnitModel._fields}
WORKLOAD_COLUMNS = {
    "graph": {column for column, _, _ in SCALARS.values()}
    | GRAPH_ARRAYS
    | UNIT_MODEL
    | {"partitions", "divisible_graph"},
    "operators": TABLE_SCALARS.keys() | OPERATOR_ARRAYS | {"model_flops_per_output_token", "single_passes"},
    "layers": TABLE_SCALARS.keys()
    | OPERATOR_ARRAYS
    | GRAPH_ARRAYS
    | UNIT_MODEL
    | {"model_flops_per_output_token", "single_passes", "partitions", "word_B", "tiles"},
    "calculon": BLOCK_SCALARS.keys() | {"operator_traits", "operator_dims"} | CURVES,
}
"""What a workload of each family gives."""


@pytest.mark.parametrize("family", MODELS)
def test_every_input_is_given_or_computed(family: str) -> None:
    written = {output.name for equation in MODELS[family] for output in equation.outputs}
    given = units_of_columns(()).keys() | NAMED.keys() | {f"topology_kind_{axis}" for axis in "xyz"}
    given -= set().union(*WORKLOAD_COLUMNS.values())
    given |= {*PACKAGE_TABLES}
    read = {name for equation in MODELS[family] for name in equation.inputs}
    assert read - written <= given | WORKLOAD_COLUMNS[family]


# units: another unit of bytes, time, money, energy or work changes numbers only by that factor

DIMENSIONS = {
    "": {}, "B": {"B": 1}, "s": {"s": 1}, "B/s": {"B": 1, "s": -1}, "s/B": {"s": 1, "B": -1}, "Hz": {"s": -1},
    "1/s": {"s": -1}, "flop": {"flop": 1}, "flop/s": {"flop": 1, "s": -1}, "usd": {"usd": 1}, "W": {"J": 1, "s": -1},
    "usd/(B/s)": {"usd": 1, "B": -1, "s": 1}, "usd/B": {"usd": 1, "B": -1}, "J/B": {"J": 1, "B": -1},
    "flop/B": {"flop": 1, "B": -1}, "flop/s/usd": {"flop": 1, "s": -1, "usd": -1}, "flop/s/W": {"flop": 1, "J": -1},
    "J": {"J": 1}, "J/flop": {"J": 1, "flop": -1}, "kg": {"kg": 1}, "kg/s": {"kg": 1, "s": -1},
    "kg/J": {"kg": 1, "J": -1}, "kg/B": {"kg": 1, "B": -1}, "usd/s": {"usd": 1, "s": -1},
    "usd/hour": {"usd": 1, "s": -1},
    "usd/J": {"usd": 1, "J": -1}, "usd/W": {"usd": 1, "J": -1, "s": 1}, "mm^2": {}, "mm": {}, "1/mm": {}, "V": {},
    "J/B/mm": {"J": 1, "B": -1}, "s/mm": {"s": 1}, "A": {"J": 1, "s": -1}, "K": {}, "mm^2*K/W": {"J": -1, "s": 1},
    "mm^2/B": {"B": -1}, "W/B": {"J": 1, "s": -1, "B": -1},
}  # fmt: skip
LOAD_UNITS = ["flop", "B", "B", "B", ""]
TABLE_UNITS = {
    "kernel_loads": [*LOAD_UNITS, *["B"] * len(CHANNELS), *[""] * len(CHANNELS)],
    "partition_loads": [*LOAD_UNITS, "B"],
    "channel_costs": ["s/B", "s"],
    "costs_in_use": ["s/B", "s"],
    "mapping_kernels": naive_mapping.KERNEL_UNITS,
    "mapping_chip": tuple(naive_mapping.CHIP_FIELDS.values()),
    **naive_energy.WORK_COLUMNS,
    **naive_optimizers.COLUMN_UNITS,
    **naive_packaging.DIE_UNITS,
}
"""Units of the columns of a table, or of the elements of an array."""
COUNTED = frozenset(
    {"chip_peak_flops", "graph_flops", "kernel_loads", "sharding_options", "unit_cycle", "joint_sharding"}
)
"""Equations that count operations, for which there is no other unit."""
CONSTANT = frozenset(
    {
        "bytes_as_nanoseconds",
        "operand_formats",
        "operator_times",
        "decode_times",
        "single_times",
        "gradient_messages",
        "sharded_layer",
        "stage_transfer",
        "operator_work",
        "decode_work",
        "graph_work",
        "generated_chip",
        "balanced_split",
        "calibrated_alone",
        "tensor_channels",
        "state_memory",
        "optimizer",
        "update_work",
        "place_matrices",
        "orthogonalise",
    }
)
"""Equations with a constant that has a unit."""
OWN_UNITS = frozenset({"package_units"})
"""Equations whose tables have units of their own (test_package_invariants.py)."""
BYTES_OF_DIMS = np.arange(DRAM + 1 + len(CHANNELS)) >= KEPT_EACH_B


def rescaled(name: str, value: Any, factors: dict[str, float]) -> Any:
    """A column in other units."""

    def factor(unit: str) -> float:
        return math.prod(factors[base] ** power for base, power in DIMENSIONS[unit].items())

    if name == "kernel_dims":
        return np.where(BYTES_OF_DIMS, value * factors["B"], value)
    units = TABLE_UNITS.get(name) or naive_models.column_units(name)
    if units is not None:
        return value * np.array([factor(unit) for unit in units])
    if name == "option_loads":
        scaled = value * np.array([factors["flop"], *[factors["B"]] * 4])
        return np.where(value == -1.0, value, scaled)
    if name not in UNITS:
        return value
    return value * factor(UNITS[name])


@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - CONSTANT - OWN_UNITS))
@FAST
@given(data=st.data())
def test_units_do_not_matter(name: str, data: st.DataObject) -> None:
    equation = BY_NAME[name]
    inputs = data.draw(inputs_of(equation, UNITS))
    powers = st.sampled_from([0.25, 0.5, 1.0, 2.0, 8.0])
    factors = {base: data.draw(powers, base) for base in ("B", "s", "flop", "usd", "J", "kg")}
    if name in COUNTED:
        factors["flop"] = 1.0
    expected = {key: rescaled(key, value, factors) for key, value in call(equation, inputs).items()}
    if "sharding_cost" in expected:
        expected["sharding_cost"] *= factors["B" if name == "least_bytes_sharding" else "s"]
    got = call(equation, {key: rescaled(key, value, factors) for key, value in inputs.items()})
    for key, value in expected.items():
        assert np.array_equal(got[key], value, equal_nan=True), key


# monotonicity: (equation, input, +1 or -1, outputs that must follow)

ALL = ("bandwidth_x_Bps", "bandwidth_y_Bps", "bandwidth_z_Bps")


def inputs_but(name: str, *columns: str) -> tuple[str, ...]:
    """Inputs of an equation without some, in their order."""
    return tuple(column for column in BY_NAME[name].inputs if column not in columns)


RATES = [
    (equation, column, -1, None)
    for equation, columns in {
        "tensor_collectives": ALL,
        "data_collectives": ALL,
        "tensor_collectives_in_one_phase": ALL,
        "data_collectives_in_one_phase": ALL,
        "world_all_to_all": ALL,
        "published_all_to_all": ALL,
        "grid_collectives": ALL,
        "published_grid_collectives": ALL[:2],
        "kernel_together": ("attainable_flops", "chip_peak_flops"),
        "partition_busy": ("attainable_bandwidth_Bps", "partition_share"),
        "live_budget": ("resident_microbatches",),
        "weight_reads": ("resident_microbatches",),
        "boundary_time": ("stage_link_Bps",),
        "published_transfer": ("stage_link_Bps",),
        "optimizer_time": ("attainable_bandwidth_Bps",),
        "efficiency": ("iteration_time_s", "system_price_usd", "system_power_W"),
    }.items()
    for column in columns
]
GROWING = [
    (equation, column, 1, None)
    for equation, columns in {
        "chip_peak_flops": ("chip_lanes", "chip_stages", "chip_frequency_Hz", "chip_given_peak_flops"),
        "tensor_collectives": ("hop_x_s", "hop_outer_s"),
        "world_all_to_all": ("hop_x_s", "hop_outer_s"),
        "channel_costs": BY_NAME["channel_costs"].inputs,
        "kernel_network": BY_NAME["kernel_network"].inputs,
        "ideal_compute": ("kernel_together_s", "kernel_alone_s"),
        "kernel_together": ("kernel_loads", "kernel_costs"),
        "allocated_compute": ("kernel_shapes", "unit_cycle_s"),
        "partition_network": ("kernel_network_s",),
        "partition_busy": inputs_but("partition_busy", "attainable_bandwidth_Bps", "partition_share"),
        "stage_busy": ("partition_busy_s",),
        "stage_quiet": ("partition_busy_s",),
        "partition_totals": ("partition_busy_s", "partition_network_s"),
        "weight_reads": ("weight_traffic", "chip_reconfiguration_s"),
        "live_budget": ("tensors_B",),
        "memory_need": BY_NAME["memory_need"].inputs,
        "boundary_time": ("stage_boundary_B", "cut_boundary_B", "stage_hop_s", "pipeline_parallel"),
        "transfer_per_microbatch": ("boundary_time_s", "graph_gradients_B"),
        "published_transfer": ("stage_boundary_B", "layers"),
        "one_forward_one_backward": (
            "pass_time_s",
            "other_stages_time_s",
            "transfer_per_pass_s",
            "microbatches",
            "resident_microbatches",
            "steps",
            "pipeline_parallel",
        ),
        "exposed_gradient_time": BY_NAME["exposed_gradient_time"].inputs,
        "overlapped_gradient_time": ("graph_gradients_B", "all_reduce_data_s_per_B", "all_reduce_data_latency_s"),
        "optimizer_time": ("parameters_B", "optimizer_state_B", "repeats_per_stage"),
        "iteration": BY_NAME["iteration"].inputs,
        "published_state": BY_NAME["published_state"].inputs,
        "training_state": inputs_but("training_state", "word_B", "steps"),
        "network_price": BY_NAME["network_price"].inputs,
        "system_price": BY_NAME["system_price"].inputs,
        "system_power": BY_NAME["system_power"].inputs,
        "work": ("graph_flops", "layers", "batch"),
    }.items()
    for column in columns
]
SELECTED = [
    ("chip_peak_flops", "chip_cores", 1, ("chip_peak_flops",)),
    ("chip_peak_flops", "chip_rated_cores", 1, ("chip_rated_flops",)),
    ("graph_times", "partition_busy_s", 1, ("graph_time_s", "graph_latency_s")),
    ("graph_times", "partition_network_s", 1, ("graph_time_s", "graph_latency_s")),
    ("weights_fit", "chip_sram_capacity_B", 1, ("weights_fit",)),
    ("published_pipeline", "pass_time_s", 1, ("pipeline_time_s",)),
    ("published_pipeline", "microbatches", 1, ("pipeline_time_s",)),
    ("published_pipeline", "pipeline_parallel", 1, ("pipeline_time_s",)),
    ("published_pipeline", "repeats_per_stage", -1, ("pipeline_time_s",)),
    ("feasibility", "memory_need_B", -1, ("memory_headroom_B",)),
    ("feasibility", "partition_sram_B", -1, ("sram_headroom_B",)),
    ("stage_link", "bandwidth_x_Bps", 1, ("stage_link_Bps",)),
    ("stage_link", "bandwidth_y_Bps", 1, ("stage_link_Bps",)),
    ("stage_link", "bandwidth_z_Bps", 1, ("stage_link_Bps",)),
]


@pytest.mark.parametrize(("name", "column", "sign", "outputs"), [*RATES, *GROWING, *SELECTED])
@examples(12)
@given(data=st.data())
def test_more_is_never_less(
    name: str, column: str, sign: int, outputs: tuple[str, ...] | None, data: st.DataObject
) -> None:
    equation = BY_NAME[name]
    inputs = data.draw(inputs_of(equation, UNITS))
    factor = data.draw(st.sampled_from([1.0 + 1e-9, 1.5, 2.0, 16.0]))
    more = {**inputs, column: inputs[column] * factor}
    if np.ndim(inputs[column]) > 1:
        more[column] = inputs[column].copy()
        more[column][:, data.draw(st.integers(0, inputs[column].shape[1] - 1))] *= factor
    if column == "kernel_shapes":
        more[column] = np.ceil(more[column])
    little, much = call(equation, inputs), call(equation, more)
    for output in outputs or little:
        low, high = (np.asarray(found[output]) for found in (little, much)[::sign])
        assert np.all((low <= high) | np.isclose(low, high, rtol=1e-12, atol=0.0)), output


# collectives


def network(
    kinds: tuple[str, ...], extents: tuple[int, ...], group: str, inner: float, outer: float
) -> dict[str, float]:
    """Columns of a network whose group fills it; hops of one second along x, of two along the others."""
    padded = [*kinds, *["absent"] * (3 - len(kinds))]
    found = {f"topology_kind_{axis}": float(DIMENSION_KINDS.index(kind)) for axis, kind in zip("xyz", padded)}
    sizes = [*extents, *[1] * (3 - len(extents))]
    found |= {f"{group}_{axis}": float(extent) for axis, extent in zip("xyz", sizes)}
    found |= {"bandwidth_x_Bps": inner, "bandwidth_y_Bps": outer, "bandwidth_z_Bps": outer}
    found |= {f"{of}_share_{axis}": 1.0 for of in ("tensor", "data", "world") for axis in "xyz"}
    return found | {"hop_x_s": 1.0, "hop_outer_s": 2.0}


def evaluate(name: str, columns: dict[str, Any]) -> dict[str, Any]:
    equation = BY_NAME[name]
    return call(equation, {column: columns[column] for column in equation.inputs})


KINDS = DIMENSION_KINDS[1:]
COMBINATIONS = [kinds for count in (1, 2, 3) for kinds in itertools.product(KINDS, repeat=count)]


@pytest.mark.parametrize("kinds", COMBINATIONS)
def test_group_of_one_costs_nothing(kinds: tuple[str, ...]) -> None:
    for name, group in (("tensor_collectives", "tensor"), ("data_collectives", "data"), ("world_all_to_all", "dim")):
        found = evaluate(name, network(kinds, (1, 1, 1), group, 1e9, 1e9))
        assert set(found.values()) == {0.0}, found


@given(st.integers(2, 4096), st.floats(1e6, 1e13))
@FAST
def test_all_reduce_closed_forms(p: int, b: float) -> None:
    share = {"ring": (p - 1) / p, "switch": (p - 1) / p, "mesh": (p - 1) / p, "fully_connected": 1 / p}
    steps = {"ring": p - 1, "mesh": p - 1, "switch": (p - 1).bit_length(), "fully_connected": 1}
    for kind in KINDS:
        found = evaluate("data_collectives", network((kind,), (p,), "data", b, 1.0))
        assert_same(found["all_reduce_data_s_per_B"], 2 * share[kind] / b)
        assert found["all_reduce_data_latency_s"] == 2 * steps[kind]


@given(st.lists(st.integers(1, 32), min_size=3, max_size=3), st.sampled_from(["ring", "switch", "mesh"]))
@FAST
def test_torus_moves_as_many_bytes_as_one_ring(extents: list[int], kind: str) -> None:
    """With equal links, a hierarchical all-gather sends (P - 1)/P of the tensor whatever the shape."""
    p = math.prod(extents)
    found = evaluate("tensor_collectives", network((kind,) * 3, tuple(extents), "tensor", 2.0, 2.0))
    assert_same(found["all_gather_tensor_s_per_B"], (p - 1) / p / 2.0)


def simulated(kinds: tuple[str, ...], extents: tuple[int, ...], rates: tuple[float, ...]) -> float:
    """Time of an all-to-all of one byte per ordered pair: every message walks its route, the busiest link decides."""
    load: dict[Any, float] = {}
    chips = list(itertools.product(*map(range, extents)))
    for source, target in itertools.permutations(chips, 2):
        at = list(source)
        for axis, kind in enumerate(kinds):
            if at[axis] != target[axis]:
                line = (axis, *at[:axis], "*", *at[axis + 1 :])
                for share, path in routes(kind, extents[axis], at[axis], target[axis]):
                    for link in path:
                        load[line, link] = load.get((line, link), 0.0) + share / rates[axis]
                at[axis] = target[axis]
    return max(load.values())


@pytest.mark.parametrize("kinds", COMBINATIONS)
def test_all_to_all_is_as_slow_as_its_busiest_link(kinds: tuple[str, ...]) -> None:
    sizes: dict[int, list[tuple[int, ...]]] = {1: [(2,), (7,), (8,)], 2: [(3, 4), (6, 2)], 3: [(2, 3, 4)]}
    for extents in sizes[len(kinds)]:
        found = evaluate("world_all_to_all", network(kinds, extents, "dim", 4.0, 2.0))
        expected = simulated(kinds, extents, (4.0, 2.0, 2.0))
        assert_same(found["all_to_all_world_s_per_B"], expected)
        inside = evaluate("tensor_collectives", network(kinds, extents, "tensor", 4.0, 2.0))
        assert_same(inside["all_to_all_tensor_s_per_B"], expected / math.prod(extents) ** 2)


def test_busiest_link_closed_forms() -> None:
    """A.3: p^2/8 messages on a link of an even ring."""
    for p in range(2, 33, 2):
        assert busiest_link("ring", p) == p * p / 8
        assert busiest_link("mesh", p) == p * p / 4
        assert busiest_link("fully_connected", p) == 1
        assert busiest_link("switch", p) == p - 1


@given(systems(), st.floats(1e6, 1e13))
@FAST
def test_outer_dimensions_may_change_places(system: dict[str, float], outer: float) -> None:
    assume(system["topology_kind_z"] != 0)
    columns = {**system, "bandwidth_x_Bps": 1e9, "bandwidth_y_Bps": outer, "bandwidth_z_Bps": outer}
    columns |= {"hop_x_s": 1.0, "hop_outer_s": 2.0}
    columns |= {f"{of}_share_{axis}": 1.0 for of in ("tensor", "data", "world") for axis in "xyz"}
    swapped = dict(columns)
    for group in ("topology_kind", "dim", "tensor", "data"):
        swapped[f"{group}_y"], swapped[f"{group}_z"] = columns[f"{group}_z"], columns[f"{group}_y"]
    for name in ("world_all_to_all", "tensor_collectives", "data_collectives"):
        one, other = evaluate(name, columns), evaluate(name, swapped)
        for key, value in one.items():
            hierarchical = key.endswith("_s_per_B") and not key.startswith("all_to_all")
            full = DIMENSION_KINDS.index("fully_connected")
            if not hierarchical or full not in (columns["topology_kind_y"], columns["topology_kind_z"]):
                assert_same(other[key], value)


@given(st.integers(1, 64), st.integers(1, 64), st.floats(1e6, 1e12), st.floats(1e6, 1e12))
@FAST
def test_all_reduce_over_the_faster_links_first_is_never_slower(x: int, y: int, a: float, b: float) -> None:
    """The first phase carries the whole tensor, later ones a share."""
    slow, fast = sorted((a, b))
    inside, _ = gather([Line("ring", x, fast, 0.0), Line("ring", y, slow, 0.0)])
    found = evaluate("tensor_collectives", network(("ring", "ring"), (x, y), "tensor", fast, slow))
    assert_same(found["all_gather_tensor_s_per_B"], inside)
    turned = evaluate("tensor_collectives", network(("ring", "ring"), (y, x), "tensor", slow, fast))
    assert found["all_gather_tensor_s_per_B"] <= turned["all_gather_tensor_s_per_B"] * (1 + 1e-12)


# placement


@given(systems())
@FAST
def test_groups_fill_the_network_whenever_their_product_is_its_size(system: dict[str, float]) -> None:
    dims = [system[f"dim_{axis}"] for axis in "xyz"]
    groups = {name: system[f"{name}_parallel"] for name in ("tensor", "pipeline", "data")}
    for placement in range(len(SWITCHES["placement"])):
        columns = {**system, **evaluate("tensor_extents", system), "placement": float(placement)}
        columns |= evaluate("outer_extents", columns)
        for group, size in groups.items():
            extents = [columns[f"{group}_{axis}"] for axis in "xyz"]
            assert size % math.prod(extents) == 0
        together = [math.prod(columns[f"{group}_{axis}"] for group in groups) for axis in "xyz"]
        assert all(dim % taken == 0 for dim, taken in zip(dims, together))
        assert math.prod(groups.values()) % math.prod(together) == 0
        if math.prod(groups.values()) == math.prod(dims):
            assert together == dims


# price

TABLE_B6: dict[tuple[str, ...], Any] = {
    ("ring",): lambda x: ([x], [2]),
    ("switch",): lambda x: ([x], [x]),
    ("fully_connected",): lambda x: ([x * (x - 1)], [0]),
    ("ring", "ring"): lambda x, y: ([x * y, x * y], [2 * y, 2 * x]),
    ("ring", "ring", "ring"): lambda x, y, z: ([x * y * z] * 3, [2 * y * z, 2 * x * z, 2 * x * y]),
    ("fully_connected", "fully_connected"): lambda x, y: ([x * (x - 1) * y, y * (y - 1)], [0, y * y]),
    ("ring", "switch"): lambda x, y: ([x * y, y], [2 * y, y]),
    ("switch", "switch"): lambda x, y: ([x * y, y], [x * y, y]),
    ("ring", "fully_connected"): lambda x, y: ([x * y, y * (y - 1)], [2 * y, y * y]),
    ("ring", "switch", "switch"): lambda x, y, z: ([x * y * z, y * z, z], [2 * y * z, y * z, z]),
    ("switch", "switch", "switch"): lambda x, y, z: ([x * y * z, y * z, z], [x * y * z, y * z, z]),
}
"""Links L_j and switch ports W_j per dimension, as the table of DFModel B.6 has them."""


@pytest.mark.parametrize("kinds", TABLE_B6)
@given(st.lists(st.integers(2, 128), min_size=3, max_size=3))
@FAST
def test_links_and_ports_are_those_of_the_table(kinds: tuple[str, ...], sizes: list[int]) -> None:
    extents = tuple(sizes[: len(kinds)])
    links, ports = TABLE_B6[kinds](*extents)
    if math.prod(extents) <= 4:
        ports = [0] * len(ports)
    found = evaluate("network_parts", network(kinds, extents, "dim", 1.0, 1.0))
    assert found == {
        "links_x": links[0],
        "links_outer": sum(links[1:]),
        "ports_x": ports[0],
        "ports_outer": sum(ports[1:]),
    }
    assert links_and_ports(kinds, extents) == (links, ports)


@pytest.mark.parametrize(("chips", "links", "ports"), [(1, 0, 0), (4, 4, 0), (5, 5, 5)])
def test_small_systems_need_no_links_or_switches(chips: int, links: int, ports: int) -> None:
    found = evaluate("network_parts", network(("switch",), (chips,), "dim", 1.0, 1.0))
    assert (found["links_x"], found["ports_x"]) == (links, ports)


def test_chips_with_a_port_of_their_own_pay_for_it() -> None:
    """128 servers of eight chips: 128 ports where each server has one, 1,024 where each chip has."""
    servers = network(("switch", "switch"), (8, 128), "dim", 1.0, 1.0)
    for equation, ports in (("network_parts", 128), ("network_parts_of_chips", 1024)):
        found = evaluate(equation, servers)
        assert (found["links_x"], found["ports_x"]) == (1024, 1024)
        assert found["links_outer"] == found["ports_outer"] == ports


# zero work


@given(st.data())
@FAST
def test_no_work_takes_no_time(data: st.DataObject) -> None:
    idle = {"partition_loads", "partition_compute_s", "reconfiguration_s"}
    inputs = data.draw(inputs_of(BY_NAME["partition_busy"], UNITS))
    inputs |= {column: 0.0 * inputs[column] for column in idle}
    assert not evaluate("partition_busy", inputs)["partition_busy_s"].any()
    inputs = data.draw(inputs_of(BY_NAME["graph_times"], UNITS))
    times = ("partition_busy_s", "stage_busy_s", "stage_quiet_s", "partition_network_s")
    inputs |= {name: 0.0 * inputs[name] for name in times}
    assert set(evaluate("graph_times", inputs).values()) == {0.0}
    for name, column in (
        ("boundary_time", "stage_boundary_B"),
        ("transfer_per_microbatch", "boundary_time_s"),
        ("published_transfer", "stage_boundary_B"),
        ("optimizer_time", "parameters_B"),
        ("optimizer_time", "graph_gradients_B"),
        ("overlapped_gradient_time", "graph_gradients_B"),
        ("exposed_gradient_time", "graph_gradients_B"),
        ("work", "graph_flops"),
    ):
        inputs = {**data.draw(inputs_of(BY_NAME[name], UNITS)), "cut_boundary_B": 0.0}
        assert set(evaluate(name, {**inputs, column: 0.0}).values()) == {0.0}, name


@given(st.data())
@FAST
def test_one_stage_has_no_bubble_and_passes_nothing_on(data: st.DataObject) -> None:
    for name in ("one_forward_one_backward", "published_pipeline"):
        inputs = {**data.draw(inputs_of(BY_NAME[name], UNITS)), "pipeline_parallel": 1.0, "other_stages_time_s": 0.0}
        assert evaluate(name, inputs)["bubble_time_s"] == 0.0
    inputs = {**data.draw(inputs_of(BY_NAME["boundary_time"], UNITS)), "pipeline_parallel": 1.0}
    assert evaluate("boundary_time", inputs)["boundary_time_s"] == 0.0


# pipeline


def schedule(work: list[float], microbatches: int, transfer: float, overlap: bool) -> float:
    """Finish of a pipeline in which every stage works on one microbatch at a time, and sends to the next."""
    arrived = [0.0] * microbatches
    for stage, each in enumerate(work):
        free = sent = 0.0
        for i in range(microbatches):
            done = max(free, arrived[i]) + each
            hand_over = 0.0 if stage == len(work) - 1 else transfer
            sent = max(done, sent) + hand_over
            free = done if overlap else sent
            arrived[i] = sent
    return arrived[-1]


@given(
    st.lists(st.integers(1, 64).map(float), min_size=1, max_size=8),
    st.integers(1, 12),
    st.integers(0, 64).map(float),
    st.sampled_from([1, 1, 2, 4]),
)
@FAST
def test_1f1b_bounds_a_simulated_schedule(work: list[float], groups: int, transfer: float, together: int) -> None:
    """Exact while the work hides the transfers; never too short, and never by more than what one stage sends.

    Stages take what they take; microbatches that pass a partition together pass every stage as one.
    """
    columns = {"pass_time_s": max(work), "other_stages_time_s": sum(work) - max(work), "transfer_per_pass_s": transfer}
    columns |= {"microbatches": float(groups * together), "resident_microbatches": float(together)}
    columns |= {"pipeline_parallel": float(len(work)), "steps": 1.0}
    for overlap in (False, True):
        found = evaluate("one_forward_one_backward", {**columns, "overlap": float(overlap)})["pipeline_time_s"]
        needed = schedule([together * each for each in work], groups, together * transfer, overlap)
        assert needed <= found <= needed + groups * together * transfer
        if overlap and transfer <= min(work):
            assert found == needed


@given(st.integers(1, 4), st.integers(1, 16), st.booleans())
@FAST
def test_stages_share_a_graph_only_if_they_are_a_multiple_of_its_repeats(
    layers: int, stages: int, divisible: bool
) -> None:
    columns = {"layers": float(layers), "pipeline_parallel": float(stages), "divisible_graph": float(divisible)}
    found = evaluate("repeats_per_stage", columns)
    if found["stages_per_graph"] > 1:
        assert divisible
        assert found["repeats_per_stage"] == 1
        assert found["stages_per_graph"] * layers == stages
    else:
        assert not divisible or stages <= layers or stages % layers


# chips


def test_rated_peak_of_a_chip_with_a_given_peak() -> None:
    columns = {"chip_cores": 132.0, "chip_lanes": 1.0, "chip_stages": 1.0, "chip_frequency_Hz": 1.0}
    columns |= {"chip_given_peak_flops": 132e12, "chip_rated_cores": 144.0}
    assert evaluate("chip_peak_flops", columns)["chip_rated_flops"] == 144e12


def test_weights_that_do_not_fit_do_not_stay_on_chip() -> None:
    weights_B, capacity_B = 2 * 1000.0 * 1000.0, 1e6
    columns: dict[str, Any] = {
        "kernel_traits": np.array([[0, 0, 1, 0, 0, 0, 0, 0, 0]], np.int64),
        "kernel_dims": np.array([[1.0, 1000.0, 1000.0, 64.0, 1.0, 1.0, 1.0, 1.0, *[0.0] * (2 + len(CHANNELS))]]),
        "kernel_costs": np.ones(1),
        "kernel_shard": np.zeros(1, np.int64),
        "graph_edges": np.zeros((0, 3), np.int64),
        "tensor_reads": np.zeros((0, 4), np.int64),
        "partition_of": np.zeros(1, np.int64),
        "stage_of": np.zeros(1, np.int64),
    }
    columns |= {"tensor_parallel": 1.0, "tensor_traffic": 1.0, "word_B": 2.0, "tiles": 1.0, "sharding": 0.0}
    columns |= {"partitions": 1.0, "repeats_per_stage": 1.0, "chip_sram_capacity_B": capacity_B}
    columns |= {"gradient_traffic": 0.0, "token_split": 0.0, "kernel_costs": np.ones(1)}
    for name in ("published_conversions", "kernel_loads", "graph_state", "weights_fit"):
        columns |= evaluate(name, columns)
    assert columns["all_weights_B"] == weights_B > capacity_B
    assert evaluate("weights_resident", columns)["weights_resident"] == 0.0
