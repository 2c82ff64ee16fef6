"""Times that no mapping can beat: true of graphs that are small enough to know, close on those that are not."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.graphs.mapping.alike import most_alike
from sweeper.kernels.graphs.mapping.bounds import exchange_bound, least_by_group, relaxed_bound
from sweeper.kernels.graphs.mapping.case import Case
from sweeper.kernels.graphs.mapping.core import Core, core_of, in_group, least_left, loose_kernels
from sweeper.kernels.graphs.mapping.counted import MOST_COUNTED, counted_graph, counted_mapping
from sweeper.kernels.graphs.mapping.ideals import all_ideals, ascending, predecessors, some_ideals
from sweeper.kernels.graphs.mapping.partitions import cuts_of
from sweeper.kernels.graphs.mapping.paths import MOST_IDEALS, least_rest, path_over, times_to_end
from sweeper.kernels.graphs.mapping.steps import ideal_table
from sweeper.library.library import builtin_specs
from tests.kernels.graphs.test_mapping import COLUMNS, SAME, case_of, study
from tests.support.examples import examples
from tests.twins.mapping_oracle import Instance, brute_force, evaluate, instances, random_instance, streams


@pytest.mark.nightly
@given(instances(9, live_budget_B=math.inf))
@examples(200)
def test_bounds_of_large_graphs_hold(instance: Instance) -> None:
    """What is proved of a graph with too many ideals is true of small ones, and few ideals give a valid mapping."""
    best = brute_force(instance).time_s
    several = min(
        (evaluate(instance, a) for a in [brute_force(instance).assignment] if a and max(a) > 0), default=math.inf
    )
    case = case_of(instance)
    assert relaxed_bound(case, core_of(case, loose_kernels(case))) <= several * (1 + 1e-9)
    assert exchange_bound(case) <= several * (1 + 1e-9)
    partition_of = np.empty(instance.kernels, np.int64)
    before = predecessors(case.edges, case.group_of)
    for most in (instance.kernels + 1, 3 * instance.kernels):
        time = path_over(case, some_ideals(before, most), partition_of)
        if time < math.inf and max(partition_of) > 0:
            assert evaluate(instance, partition_of.tolist()) == pytest.approx(time, **SAME)
        assert time >= best * (1 - 1e-9)


@given(instances(9) | streams())
@examples(400)
def test_the_way_to_the_end_is_no_shorter_than_what_is_left(instance: Instance) -> None:
    """From every ideal, so that a search that trusts in it loses no best path."""
    case = case_of(instance)
    ideals = all_ideals(predecessors(case.edges, case.group_of), ascending(case.group_of), MOST_IDEALS)
    way = times_to_end(case, ideals)
    table = ideal_table(case, ideals)
    assert (least_rest(case, table) <= way * (1 + 1e-9)).all()
    core = core_of(case, loose_kernels(case))
    if len(core.ideals):
        assert (least_left(case, core, ideals) <= way * (1 + 1e-9)).all()
    several = path_over(case, ideals, np.empty(instance.kernels, np.int64))
    assert way[0] == pytest.approx(several, **SAME)


def with_gradients(layers: int, seed: int = 1, **values: Any) -> Instance:
    """A forward and a backward chain, and for each layer a weight gradient that reads a result of both; every other
    backward kernel reads that of the forward one, too. Numbers are random, but gradients alike as in equal layers."""
    random = np.random.default_rng(seed)
    count = 3 * layers
    forward = [(i, i + 1) for i in range(layers - 1)]
    backward = [(i + layers, i + 1 + layers) for i in range(layers - 1)]
    reads = [edge for i in range(layers) for edge in ((layers - 1 - i, 2 * layers + i), (layers + i, 2 * layers + i))]
    stored = [(layers - 1 - i, layers + i) for i in range(0, layers, 2)]
    chain = random_instance(random, 2 * layers, units=count, per_tensor=True)
    of_gradient = random_instance(random, 1)

    def alike(name: str) -> tuple[float, ...]:
        return (*getattr(chain, name), *getattr(of_gradient, name) * layers)

    numbers = ("flops_s", "network_s", "column_s", "row_s", "dram_B", "weight_B", "output_B")
    plain = replace(
        chain,
        **{name: alike(name) for name in numbers},
        edges=tuple(sorted((*forward, *backward, *stored, *reads))),
        forward=tuple(i < layers for i in range(count)),
        gradient=tuple(i >= 2 * layers for i in range(count)),
        gradient_B=tuple(float(i >= 2 * layers) for i in range(count)),
    )
    return replace(plain, **values)


def with_core(instance: Instance) -> tuple[Case, Core]:
    """An instance as the optimiser reads it, and what it knows of it without its weight gradients."""
    case = case_of(instance)
    found = loose_kernels(case)
    assert found.tolist() == list(instance.gradient)
    return case, core_of(case, found)


@pytest.mark.parametrize("seed", range(20))
def test_what_loose_kernels_cost_is_added_where_times_add_up(seed: int) -> None:
    """On a chip with room for every partition: the whole time, to the last byte."""
    room = {"sram_B": 1e9, "reconfiguration_s": 0.0, "live_budget_B": math.inf}
    instance = with_gradients(3, seed, overlap=False, column_s=(0.0,) * 9, row_s=(0.0,) * 9, **room)
    case, core = with_core(instance)
    ideals = all_ideals(predecessors(case.edges, case.group_of), ascending(case.group_of), MOST_IDEALS)
    left = in_group(core, 0, 0, (case.group_of == 0).astype(float)) + core.later_s[0]
    assert left == pytest.approx(times_to_end(case, ideals)[0], **SAME)


def of_equal_layers(layers: int, seed: int, room: float, stored: bool, **values: Any) -> Instance:
    """The same, where results of all layers are as large: their gradients are alike, unless what they read of the
    forward pass is `stored` for others as well."""
    instance = with_gradients(layers, seed, **values)
    forward, backward, gradient = (instance.output_B[i * layers : (i + 1) * layers] for i in range(3))
    edges = tuple((p, c) for p, c in instance.edges if stored or not p < layers <= c < 2 * layers)
    output = forward[:1] * layers + backward[:1] * layers + gradient
    return replace(instance, edges=edges, output_B=output, sram_B=instance.sram_B * room)


def counted(instance: Instance) -> tuple[float, float, float]:
    """The bound of an instance whose alike kernels are counted, the time of the mapping that goes with it, and the
    least time."""
    case = case_of(instance)
    alike = most_alike(case, loose_kernels(case))
    assert alike.sum() > 1 and not (alike & ~np.array(instance.gradient)).any()
    guess, found = np.empty(instance.kernels, np.int64), np.empty(instance.kernels, np.int64)
    graph = counted_graph(case, alike, MOST_COUNTED)
    bound = counted_mapping(case, graph, least_by_group(case, core_of(case, alike)), guess)
    assert guess.min() >= 0
    ideals = all_ideals(predecessors(case.edges, case.group_of), ascending(case.group_of), MOST_IDEALS)
    return bound, path_over(case, cuts_of(guess), found), times_to_end(case, ideals)[0]


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1.0, 0.7, 0.3]),
    st.booleans(),
    st.sampled_from(["none", "full", "streamed"]),
)
@examples(200)
def test_alike_kernels_counted_are_no_better_than_told_apart(
    seed: int, room: float, stored: bool, overlap: str
) -> None:
    """Which of them run where is left open, so that no way through the graph is shorter than what is proved."""
    instance = of_equal_layers(4, seed, room, stored, overlap=overlap != "none", streamed=overlap == "streamed")
    alone = tuple(seconds + 0.5 for seconds in instance.flops_s)
    bound, time, least = counted(replace(instance, alone_s=alone if overlap == "streamed" else ()))
    assert bound <= least * (1 + 1e-9)
    assert least <= time * (1 + 1e-9)


def test_alike_kernels_counted_are_mapped_best_as_a_rule() -> None:
    """The mapping that goes with the bound takes as long as it, so that both are proved."""
    nothing, proved = (0.0,) * 12, 0
    for seed in range(100):
        instance = of_equal_layers(4, seed, 1.0, False, overlap=True, live_budget_B=math.inf)
        bound, time, _ = counted(replace(instance, column_s=nothing, row_s=nothing))
        proved += time <= bound * (1 + 1e-9)
    assert proved >= 75


def repeated(kernels: list[dict[str, Any]], layers: int) -> list[dict[str, Any]]:
    """Kernels of so many layers, one after the other: what a layer takes over (`carried`) it reads of the one before.

    Its sizes are those of one sequence per sample, without dropout.
    """
    passes = [[of for of in kernels if (of.get("phase", "forward") == "forward") == first] for first in (True, False)]
    sizes = {"tokens": "sequence*microbatch", "queries": "sequence", "context": "sequence", "samples": "microbatch"}
    made = []
    for first, members in zip((True, False), passes, strict=True):
        for layer in range(layers) if first else range(layers - 1, -1, -1):
            before = layer - 1 if first else layer + 1
            for kernel in members:
                of = {name: value for name, value in kernel.items() if name not in ("carried", "kept", "inputs")}
                inputs = [f"{name}_{layer}" for name in kernel.get("inputs", [])]
                inputs += [f"{name}_{before}" for name in kernel.get("carried", []) if 0 <= before < layers]
                of |= {"name": f"{kernel['name']}_{layer}", **({"inputs": inputs} if inputs else {})}
                of |= {"of": f"{kernel['of']}_{layer}"} if "of" in kernel else {}
                if "operations" in of:
                    of["operations"] = str(of["operations"]).replace("dropout", "1")
                for name in ("m", "k", "n", "outer"):
                    if name in of:
                        of[name] = re.sub(r"\w+", lambda word: sizes.get(word[0], word[0]), str(of[name]))
                made.append(of)
    return made


LAYERS = """
study: layers
title: Four layers of GPT in training, 96 kernels, of which the largest fill the smallest of these chips
axes: {workload: gpt_4_layers, chip: sn30, memory: ddr4, topology: torus_2d, chips: 64, dim_x: 8, dim_y: 8,
  tensor_parallel: 8, pipeline_parallel: 8, partitioning: optimal, link: [pcie5, nvlink4],
  overlap: [none, full, streamed], chip.sram_capacity: [100 MB, 200 MB, 400 MB, 640 MB]}
output: {mode: all, columns: COLUMNS}
""".replace("COLUMNS", COLUMNS)


@pytest.mark.slow
def test_layers_of_gpt_are_near_their_bound(tmp_path: Path) -> None:
    """Within 0.1 %, and most are proved."""
    kernels = yaml.safe_load((builtin_specs() / "workloads/layers_gpt.yaml").read_text())["gpt3_1t_layers"]["kernels"]
    numbers = {"heads": 96, "head_size": 128, "sequence": 2048, "layers": 96, "word": "2 B"}
    workload = {
        "description": "layers",
        "source": "of gpt3_1t_layers",
        "grade": "assumed",
        "word": "word",
        "parameters": {"hidden": 12288, "feed_forward": 49152, **numbers},
        "layers": "layers/4",
        "batch": 1536,
        "tiles": "sequence",
        "kernels": repeated(kernels, 4),
    }
    (tmp_path / "workloads").mkdir()
    (tmp_path / "workloads/layers.yaml").write_text(yaml.safe_dump({"gpt_4_layers": workload}))
    rows = study(LAYERS, tmp_path / "layers.yaml", tmp_path)
    assert rows.height == 24
    assert rows["mapping_gap"].is_between(0.0, 0.001).all()
    assert rows["mapping_exact"].sum() >= 18
    assert (rows["mapping_time_s"] >= rows["mapping_bound_s"]).all()


GAPS = """
study: gaps
title: Graphs with too many ideals to look at all, on the chip they are shipped for
override: memory
axes: {chip: sn30, efficiencies: listed, overlap: [none, full], partitioning: optimal}
boxes:
  - axes:
      workload: mixtral_8x7b_experts
      memory: ddr4
      chips: 32
      dim_x: 4
      dim_y: 8
      tensor_parallel: 4
      pipeline_parallel: 8
      topology: torus_2d
      link: pcie5
      chip.sram_capacity: [67 MB, 200 MB, 640 MB]
  - axes:
      workload: llama3_70b_2_layers_training
      memory: ddr4
      chips: 64
      dim_x: 8
      dim_y: 8
      tensor_parallel: 8
      pipeline_parallel: 8
      topology: torus_2d
      link: pcie5
      chip.sram_capacity: [200 MB, 640 MB]
  # alike weight gradients, which have not all room beside the exchange of embeddings: the cells of dse80
  - axes:
      workload: dlrm_793b
      chips: 1024
      dim_x: 32
      dim_y: 32
      data_parallel: 1024
      topology: [torus_2d, dragonfly]
      link: [pcie5, nvlink4]
      memory: [ddr4, hbm3]
output: {mode: all, columns: COLUMNS}
""".replace("COLUMNS", COLUMNS)


@pytest.mark.slow
def test_large_graphs_are_mapped_best(tmp_path: Path) -> None:
    """Though none of them is small enough to look at all ways to cut it."""
    rows = study(GAPS, tmp_path / "gaps.yaml")
    assert rows.height == 26
    assert (rows["mapping_exact"] == 1).all()
    assert (rows["mapping_gap"] == 0.0).all()
