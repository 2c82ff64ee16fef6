"""Mamba-2, a U-Net, four layers of a transformer and a recommender from YAML alone: work, bytes, rates and messages of
their kernels against counts by hand, from the sizes that the models are known by."""

from pathlib import Path

import polars as pl
import pytest

import sweeper
from sweeper.kernels.codes import CHANNELS, SHARDS
from sweeper.kernels.graphs.loads import BYTES, FLOPS, TENSORS, WEIGHTS
from sweeper.kernels.graphs.sharding import OPERATIONS, REDUCED_B, SCATTERED_B
from sweeper.planning.plan import Plan
from sweeper.views.graph_map.partitions import Values, values_at
from tests.places import ROOT

EXAMPLES = ROOT / "examples"
LIBRARY = EXAMPLES / "my_library"
MODELS = ("mamba2_layers", "small_unet", "four_layers", "recommender")
WORD_B = 2

VECTOR = {"h100_sxm5_80gb": 67e12, "sn30": 2 * 1280 * 32 * 6 * 1.25e9 / (2 * 6)}
"""Operations per second on vectors: what the datasheet of an H100 says of fp32 outside its tensor cores; of an SN30,
which says nothing, one column of six in each array, without the second operation of a multiply-add."""
PEAK = {"h100_sxm5_80gb": 989e12, "sn30": 2 * 1280 * 32 * 6 * 1.25e9}
COLUMNS = (
    *(
        "kernel_together_s",
        "kernel_loads",
        "partition_loads",
        "kernel_shard",
        "option_codes",
        "option_counts",
        "option_loads",
    ),
    *("attainable_flops", "attention_flops", "graph_flops", "graph_network_time_s"),
)

STUDY = """\
study: split
axes:
  workload: [{models}]
  chip: h100_sxm5_80gb
  memory: hbm3_h100
  link: nvlink4
  topology: switch
  chips: 8
  dim_x: 8
  tensor_parallel: 8
"""


def tokens(width: int, each: float) -> float:
    """Operations on vectors of Mamba-2's 8192 tokens."""
    return 8192 * width * each


SIDES, WIDTHS = (256, 128, 64, 32), (64, 128, 256, 512)
"""Pixels of a side and channels of the levels of the U-Net."""

ON_VECTORS: dict[str, dict[str, float]] = {
    "mamba2_layers": {
        "norm": tokens(2560, 9),
        "convolve": tokens(5120 + 2 * 128, 14),
        # a state of 128 numbers for each of 80 x 64 channels: decay, input and output, each a multiply-add
        "scan": tokens(80 * 64, 6 * 128),
        "gate": tokens(5120, 14),
    },
    "small_unet": {
        **{f"norm_{i + 1}": 10 * WIDTHS[i] * SIDES[i] ** 2 for i in range(4)},
        **{f"pool_{i + 1}": 3 * WIDTHS[i] * (SIDES[i] / 2) ** 2 for i in range(3)},
        **{f"skip_{i + 1}": 2 * WIDTHS[i] * SIDES[i] ** 2 for i in range(3)},
        **{f"merge_norm_{i + 1}": 10 * WIDTHS[i] * SIDES[i] ** 2 for i in range(3)},
    },
    "four_layers": {
        "residual_0": 2048 * 4096,
        **{
            f"{name}_{layer}": 2048 * width * each
            for layer in range(1, 5)
            for name, width, each in (
                ("norm", 4096, 9),
                ("middle", 4096, 2),
                ("second_norm", 4096, 9),
                ("gelu", 16384, 8),
                ("residual", 4096, 2),
            )
        },
    },
    "recommender": {
        "lookup": 0,  # rows are picked
        "pool": 2048 * 26 * 128 * 7,  # seven additions make one vector of eight
        "bottom_relu_1": 2048 * 512,
        "bottom_relu_2": 2048 * 128,
        "top_relu_1": 2048 * 512,
        "sigmoid": 2048 * 4,
    },
}
"""Operations of what is no product."""

PRODUCTS: dict[str, dict[str, float]] = {
    "mamba2_layers": {
        # two branches of 5120, B and C of 128 each, a step for each of 80 heads
        "project_in": 2 * 8192 * 2560 * (2 * 5120 + 2 * 128 + 80),
        "project_out": 2 * 8192 * 2560 * 5120,
    },
    "small_unet": {
        "down_1": 2 * 256**2 * 9 * 3 * 64,
        **{f"down_{i + 1}": 2 * SIDES[i] ** 2 * 9 * WIDTHS[i - 1] * WIDTHS[i] for i in (1, 2, 3)},
        # four weights of each pair of channels at a pixel of the level below
        **{f"up_{i + 1}": 2 * SIDES[i + 1] ** 2 * 4 * WIDTHS[i + 1] * WIDTHS[i] for i in range(3)},
        **{f"merge_{i + 1}": 2 * SIDES[i] ** 2 * 9 * 2 * WIDTHS[i] * WIDTHS[i] for i in range(3)},
        "classify": 2 * 256**2 * 64 * 2,
    },
    "four_layers": {
        f"{name}_{layer}": flops
        for layer in range(1, 5)
        for name, flops in (
            ("qkv", 2 * 2048 * 4096 * 3 * 4096),
            # a token attends to 1024.5 of 2048 on average; scores and sums of values of 32 heads
            ("attention", 2 * 2 * 32 * 2048 * 1024.5 * 128),
            ("projection", 2 * 2048 * 4096 * 4096),
            ("up", 2 * 2048 * 4096 * 16384),
            ("down", 2 * 2048 * 4096 * 16384),
        )
    },
    "recommender": {
        "bottom_1": 2 * 2048 * 13 * 512,
        "bottom_2": 2 * 2048 * 512 * 128,
        "interaction": 2 * 2048 * 27 * 27 * 128,
        "top_1": 2 * 2048 * 729 * 512,
        "top_2": 2 * 2048 * 512,
    },
}
"""Operations of products, attention among them."""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return sweeper.plan(EXAMPLES / "kinds_study.yaml", [LIBRARY])


@pytest.fixture(scope="module")
def points(plan: Plan) -> dict[tuple[str, str], dict[str, Values]]:
    """What the study knows of each kernel, by model and chip; "" has what it knows of the whole graph."""
    grid = plan.grids[0]
    assert grid.columns["workload"].values == MODELS
    chips = [(model, chip) for model in MODELS for chip in VECTOR]
    assert plan.point_count == len(chips)
    return {key: by_kernel(plan, key[0], number) for number, key in enumerate(chips)}


def by_kernel(plan: Plan, model: str, point: int) -> dict[str, Values]:
    values = values_at(plan, point, COLUMNS, ())
    names = [kernel.name for kernel in plan.study.workloads[model].kernels]
    tables = [name for name in COLUMNS if getattr(values[name], "shape", ())[:1] == (len(names),)]
    kernels = {name: {table: values[table][i] for table in tables} for i, name in enumerate(names)}
    return {**kernels, "": values}


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Values]]:
    """The models on eight chips that split every kernel, as takes least time."""
    path: Path = tmp_path_factory.mktemp("kinds") / "split.yaml"
    path.write_text(STUDY.format(models=", ".join(MODELS)))
    split_plan = sweeper.plan(path, [LIBRARY])
    return {model: by_kernel(split_plan, model, number) for number, model in enumerate(MODELS)}


def options(kernel: Values) -> dict[str, list[float]]:
    """What each open split of a kernel computes, keeps and sends on a chip."""
    count = int(kernel["option_counts"])
    return {
        SHARDS[int(code)]: loads.tolist()[: SCATTERED_B + 1]
        for code, loads in zip(kernel["option_codes"][:count], kernel["option_loads"], strict=False)
    }


def sent(kernel: Values) -> dict[str, float]:
    """Bytes that a kernel sends, by channel."""
    row = kernel["kernel_loads"][BYTES : BYTES + len(CHANNELS)]
    return {channel: float(bytes_) for channel, bytes_ in zip(CHANNELS, row, strict=True) if bytes_}


@pytest.mark.parametrize("model", MODELS)
def test_every_kernel_is_counted(points: dict[tuple[str, str], dict[str, Values]], model: str) -> None:
    """Names, so that none is left out below; operations of products; of vectors one for each element (DFModel A.1)."""
    kernels = points[model, "sn30"]
    assert kernels.keys() - {""} == ON_VECTORS[model].keys() | PRODUCTS[model].keys()
    for name, flops in PRODUCTS[model].items():
        assert kernels[name]["kernel_loads"][FLOPS] == flops, name
    elements = sum(kernels[name]["kernel_loads"][FLOPS] for name in ON_VECTORS[model])
    assert float(kernels[""]["graph_flops"]) == pytest.approx(sum(PRODUCTS[model].values()) + elements, rel=1e-15)


@pytest.mark.parametrize("chip", VECTOR)
@pytest.mark.parametrize("model", MODELS)
def test_vectors_run_on_vector_units(points: dict[tuple[str, str], dict[str, Values]], model: str, chip: str) -> None:
    """Seconds of each kernel: operations by hand over the rate of the units that do them."""
    kernels = points[model, chip]
    rates = {"product": float(kernels[""]["attainable_flops"]), "attention": float(kernels[""]["attention_flops"])}
    assert all(0.3 * PEAK[chip] < rate < PEAK[chip] for rate in rates.values())
    for name, operations in ON_VECTORS[model].items():
        assert kernels[name]["kernel_together_s"] == pytest.approx(operations / VECTOR[chip], rel=1e-12), name
    for name, flops in PRODUCTS[model].items():
        rate = rates["attention" if name.startswith("attention") else "product"]
        assert kernels[name]["kernel_together_s"] == pytest.approx(flops / rate, rel=1e-12), name


def test_kernel_by_kernel_traffic(points: dict[tuple[str, str], dict[str, Values]]) -> None:
    """Each kernel on an H100 reads its operands and weight and writes its result; look-ups read the rows they pick."""
    read = {
        "pool": 2048 * 8 * 26 * 128,
        "bottom_1": 2048 * 512,  # what enters the graph counts as large as the result of its reader
        "interaction": 2048 * (128 + 26 * 128),
        "top_1": 2048 * 27 * 27,
        "sigmoid": 2048,
    }
    written = {
        "pool": 2048 * 26 * 128,
        "bottom_1": 2048 * 512,
        "interaction": 2048 * 27 * 27,
        "top_1": 2048 * 512,
        "sigmoid": 2048,
    }
    weights = {"bottom_1": 13 * 512, "top_1": 27 * 27 * 512}
    kernels = points["recommender", "h100_sxm5_80gb"]
    names = [name for name in kernels if name]
    loads = kernels[""]["partition_loads"]
    for name, elements in read.items():
        row = loads[names.index(name)]
        assert row[TENSORS] == WORD_B * (elements + written[name]), name
        assert row[WEIGHTS] == WORD_B * weights.get(name, 0), name
    assert kernels["lookup"]["kernel_loads"][TENSORS] == WORD_B * 2048 * 8 * 26 * 128


def test_fused_partitions_pass_tensors_on_chip(plan: Plan) -> None:
    """On the dataflow chip all but four layers are one partition, which moves weights and look-ups and nothing between
    kernels; the GPU has a partition for each kernel."""
    frame = pl.concat([pl.DataFrame(plan.evaluate(chunk)) for chunk in range(plan.chunk_count)])
    found = {(row["workload"], row["chip"]): row for row in frame.to_dicts()}
    assert all(row["feasible"] for row in found.values())
    assert [found[model, "sn30"]["partitions"] for model in MODELS] == [1, 1, 4, 1]
    assert [found[model, "h100_sxm5_80gb"]["partitions"] for model in MODELS] == [6, 24, 41, 11]
    assert all(found[model, "sn30"]["mapping_exact"] for model in MODELS)
    weights_B = WORD_B * sum((2560 * 10576, 2560 * 5120))
    bandwidth = weights_B / found["mamba2_layers", "sn30"]["graph_memory_time_s"]
    rows_B = WORD_B * 2048 * 8 * 26 * 128
    dense_B = WORD_B * (13 * 512 + 512 * 128 + 729 * 512 + 512)
    moved_B = found["recommender", "sn30"]["graph_memory_time_s"] * bandwidth
    assert moved_B == pytest.approx(rows_B + dense_B, rel=1e-12)


def test_a_split_of_what_is_summed_pays_a_collective(split: dict[str, dict[str, Values]]) -> None:
    """Mamba-2 on eight chips: products over k add up partial sums; a norm over its rows exchanges two numbers a row."""
    mamba = split["mamba2_layers"]
    result_B = WORD_B * 8192 * 2560
    flops = PRODUCTS["mamba2_layers"]["project_out"] / 8
    project = options(mamba["project_out"])
    assert {name: loads[OPERATIONS] for name, loads in project.items()} == dict.fromkeys(project, flops)
    assert {name: loads[REDUCED_B] for name, loads in project.items()} == {
        "k": result_B, "k_to_rows": 0, "k_to_columns": 0, "m": 0,
    }  # fmt: skip
    assert {name: loads[SCATTERED_B] for name, loads in project.items()} == {
        "k": 0, "k_to_rows": result_B, "k_to_columns": result_B, "m": 0,
    }  # fmt: skip
    norm = options(mamba["norm"])
    assert {name: loads[REDUCED_B] for name, loads in norm.items()} == {"m": 2 * WORD_B * 8192, "n": 0, "none": 0}
    assert norm["none"][OPERATIONS] == pytest.approx(8 * norm["n"][OPERATIONS], rel=1e-12)
    # what treats each element alone is split over any dimension for nothing
    assert all(loads[REDUCED_B] == loads[SCATTERED_B] == 0 for loads in options(mamba["gate"]).values())
    # a scan goes through its tokens in order, attention through its keys: by heads alone
    assert set(options(mamba["scan"])) == {"outer"}
    assert set(options(split["four_layers"]["attention_1"])) == {"outer"}
    # what is chosen, and paid
    assert SHARDS[int(mamba["project_out"]["kernel_shard"])] == "k_to_rows"
    assert sent(mamba["project_out"]) == {"reduce_scatter_tensor": result_B}
    assert float(mamba[""]["graph_network_time_s"]) > 7 / 8 * result_B / 450e9


def test_messages_of_the_others(split: dict[str, dict[str, Values]]) -> None:
    """Four layers are split as Megatron and Korthikanti split them; the U-Net's first norm adds up what chips have of
    its channels; a chip looks up its own tables."""
    four = split["four_layers"]
    tensor_B = WORD_B * 2048 * 4096
    for layer in range(1, 5):
        assert sent(four[f"projection_{layer}"]) == sent(four[f"down_{layer}"]) == {"reduce_scatter_tensor": tensor_B}
        assert sent(four[f"second_norm_{layer}"]) == {"all_gather_tensor": tensor_B}
        assert sent(four[f"norm_{layer}"]) == ({"all_gather_tensor": tensor_B} if layer > 1 else {})
        assert not any(sent(four[f"{name}_{layer}"]) for name in ("qkv", "attention", "up", "gelu", "middle"))
    unet = split["small_unet"]
    assert SHARDS[int(unet["norm_1"]["kernel_shard"])] == "m"
    assert sent(unet["norm_1"]) == {"all_reduce_tensor": 2 * WORD_B * 256**2}
    tables = split["recommender"]
    assert set(options(tables["lookup"])) == {"outer"}
    rows_B = WORD_B * 4 * 128 * 8 * 2048  # four of 26 tables
    assert tables["lookup"]["kernel_loads"][TENSORS] == rows_B
    assert sent(tables["lookup"]) == {}
    assert sent(tables["interaction"]) == {"reduce_scatter_tensor": WORD_B * 27 * 27 * 2048}
