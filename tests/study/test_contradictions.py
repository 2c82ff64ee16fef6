"""What a study says against itself or its entries is a mistake, unless `override` says that it is meant."""

from pathlib import Path

import pytest

from sweeper.errors import SpecError
from sweeper.library.entries import FITTING
from sweeper.library.library import Library, builtin_specs
from sweeper.planning.plan import make_plan

AXES = {
    "workload": "gpt3_175b",
    "chip": "a100_sxm4_80gb",
    "memory": "hbm2e",
    "link": "nvlink3",
    "topology": "switch",
    "chips": "8",
    "dim_x": "8",
}
GENERATED = {
    "workload": "gpt3_175b",
    "template": "deepflow_v100",
    "memory": "hbm2e",
    "link": "nvlink3",
    "topology": "switch",
    "chips": "8",
    "dim_x": "8",
}

MEMORIES = [
    ("a100_sxm4_80gb", "ddr4"),
    ("a100_sxm4_80gb", "hbm3_h100"),
    ("a100_sxm4_40gb", "hbm2e"),
    ("h100_sxm5_80gb", "ddr4"),
    ("h100_sxm5_80gb", "hbm3e"),
    ("h100_sxm", "ddr4"),
    ("h200_sxm5_141gb", "hbm3_h100"),
    ("b200_sxm6_180gb", "hbm3e"),
    ("l40s", "hbm2e"),
    ("mi300x_oam", "hbm3_h100"),
    ("tpu_v4_chip", "hbm2"),
    ("gaudi_2", "hbm2e"),
    ("sn30", "hbm3"),
    ("v100_sxm2_32gb", "hbm2e"),
]
CALIBRATIONS = [
    ("h100_sxm5_80gb", "hbm3_h100", "tpu_maxtext"),
    ("h100_sxm5_80gb", "hbm3_h100", "a100_megatron_2022"),
    ("a100_sxm4_80gb", "hbm2e", "h100_llm_foundry"),
    ("a100_sxm4_80gb", "hbm2e", "h200_gemm_bf16"),
    ("h200_sxm5_141gb", "hbm3e", "h100_nanotron"),
    ("b200_sxm6_180gb", "hbm3e_b200", "gb200_nccl"),
    ("mi300x_oam", "hbm3_mi300x", "a100_gemm_bf16"),
    ("tpu_v5p_chip", "hbm2e_tpu_v5p", "h100_gemm_bf16"),
]
TECHNOLOGIES = [
    ("deepflow_v100", "public_n7_from_n7"),
    ("deepflow_v100", "public_n3_from_n7"),
    ("deepflow_p4", "public_n5_from_n7"),
    ("gpu_n7", "deepflow_n7"),
    ("gpu_n7", "paper_n5"),
    ("gpu_n7", "public_n3"),
]
NODES = [("a100_sxm4_80gb", "hbm2e", "n5"), ("h100_sxm5_80gb", "hbm3_h100", "n7"), ("v100_sxm2_32gb", "hbm2", "n7")]
DIMENSIONS = [
    {"dim_x": "4"},
    {"chips": "16"},
    {"topology": "torus_2d", "dim_x": "4", "dim_y": "4"},
    {"chips": "[8, 16]"},
    {"topology": "torus_3d", "dim_x": "2", "dim_y": "2", "dim_z": "3"},
    {"dim_x": "{powers_of_two: [4, 8]}"},
    {"dim_x": "4", "dim_y": "2"},
]

PLANTED = [
    *({"chip": chip, "memory": memory} for chip, memory in MEMORIES),
    *({"chip": chip, "memory": memory, "calibration": name} for chip, memory, name in CALIBRATIONS),
    *(
        {"chip": chip, "memory": memory, "chip_cost": "package", "package": "chiplets", "node": node}
        for chip, memory, node in NODES
    ),
    {"chip": "h100_sxm5_80gb", "memory": "hbm3_h100", "package": "a100"},
    {"chip": "h200_sxm", "memory": "hbm3e", "package": "a100_catch"},
]
OVERRIDES = {
    "calibration": "calibration",
    "node": "node",
    "package": "package",
}


def written(axes: dict[str, str], override: str = "") -> str:
    head = f"study: planted\n{f'override: {override}' if override else 'title: none'}\naxes:\n"
    return head + "".join(f"  {name}: {value}\n" for name, value in axes.items())


def mistakes(tmp_path: Path, text: str) -> list[str]:
    """Mistakes of a study, each as `line: message`."""
    path = tmp_path / "study.yaml"
    path.write_text(text)
    try:
        make_plan(path)
    except SpecError as caught:
        return [f"{problem.line}: {problem.message}" for problem in caught.problems]
    return []


def line_of(text: str, column: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), 1) if line.startswith(f"  {column}:"))


def kind_of(planted: dict[str, str]) -> str:
    return next((column for column in OVERRIDES if column in planted), "memory")


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: "-".join(planted.values()))
def test_a_part_of_another_chip_is_a_mistake_unless_it_is_meant(tmp_path: Path, planted: dict[str, str]) -> None:
    column = kind_of(planted)
    override = OVERRIDES.get(column, column)
    text = written({**AXES, **planted})
    (mistake,) = mistakes(tmp_path, text)
    assert mistake.startswith(f"{line_of(text, column)}: ")
    assert f"say override: [{override}] if this is meant" in mistake
    assert mistakes(tmp_path, written({**AXES, **planted}, override)) == []


@pytest.mark.parametrize(
    "planted",
    [
        {"calibration": "a100_megatron_2022"},
        {"chip": "a100_half_die", "calibration": "a100_gemm_bf16"},
        {"chip": "h100_sxm5_80gb", "memory": "hbm3_h100", "calibration": "h100_nanotron", "compute_format": "fp8"},
        {"chip": "tpu_v5p_chip", "memory": "hbm2e_tpu_v5p", "calibration": "tpu_maxtext"},
        {"package": "a100"},
    ],
    ids=lambda planted: "-".join(planted.values()),
)
def test_what_goes_together_needs_no_override(tmp_path: Path, planted: dict[str, str]) -> None:
    assert mistakes(tmp_path, written({**AXES, **planted})) == []


@pytest.mark.parametrize(("template", "technology"), TECHNOLOGIES)
def test_a_technology_of_another_ladder_is_a_mistake_unless_it_is_meant(
    tmp_path: Path, template: str, technology: str
) -> None:
    axes = {**GENERATED, "template": template, "technology": technology}
    text = written(axes)
    (mistake,) = mistakes(tmp_path, text)
    assert mistake.startswith(f"{line_of(text, 'technology')}: technology {technology} goes with template process_")
    assert mistakes(tmp_path, written(axes, "technology")) == []


@pytest.mark.parametrize("dimensions", DIMENSIONS, ids=lambda dimensions: "-".join(dimensions.values()))
def test_dimensions_hold_the_chips(tmp_path: Path, dimensions: dict[str, str]) -> None:
    text = written({**AXES, **dimensions})
    found = mistakes(tmp_path, text)
    assert len(found) == 1
    assert "the dimensions do not hold the chips" in found[0] or "must be 1" in found[0]


def test_a_table_of_dimensions_that_hold_the_chips_is_none(tmp_path: Path) -> None:
    axes = {name: value for name, value in AXES.items() if name not in ("chips", "dim_x", "topology")}
    table = "{columns: [chips, dim_x, dim_y, topology], rows: [[8, 8, 1, switch], [16, 8, 2, torus_2d]]}"
    assert mistakes(tmp_path, written({**axes, "network": table})) == []


def test_an_override_that_allows_nothing_is_a_mistake(tmp_path: Path) -> None:
    assert mistakes(tmp_path, written(AXES)) == []
    (mistake,) = mistakes(tmp_path, written(AXES, "memory"))
    assert mistake.startswith("2: nothing to override")
    (mistake,) = mistakes(tmp_path, written(AXES, "colour"))
    assert mistake.startswith("2: unknown override 'colour'")


def test_an_override_of_a_box_holds_there_only(tmp_path: Path) -> None:
    text = written({**AXES, "memory": "[hbm2e, ddr4]"}) + "boxes:\n  - override: memory\n  - axes: {microbatch: 2}\n"
    (mistake,) = mistakes(tmp_path, text)
    assert "goes with memory hbm2e, found ddr4" in mistake


@pytest.mark.parametrize(
    "made_of",
    [
        {"optimizer": "muon"},
        {"optimizer": "[adam, sgd_momentum]"},
        {"moment_format": "bf16"},
        {"optimizer": "muon", "moment_format": "[fp32, bf16]"},
    ],
)
def test_a_state_has_so_many_bytes_or_is_made_of_something(tmp_path: Path, made_of: dict[str, str]) -> None:
    text = written({**AXES, "batch_size": "8", "data_parallel": "8", **made_of, "optimizer_state": "8 B"})
    (mistake,) = mistakes(tmp_path, text)
    assert mistake.startswith(f"{line_of(text, 'optimizer_state')}: optimizer_state is 8 B, but ")
    assert mistake.endswith("says what it is made of; leave one of the two out")
    assert mistakes(tmp_path, text.replace("optimizer_state: 8 B", "optimizer_state: 12 B")) == []
    alone = {"batch_size": "8", "data_parallel": "8", "optimizer_state": "8 B"}
    assert mistakes(tmp_path, written({**AXES, **alone})) == []


@pytest.mark.parametrize(
    ("extra", "at", "message"),
    [
        ({"oversubscription_y": "2"}, "oversubscription_y", "topology switch has no switch in dimension 2"),
        (
            {"topology": "zionex", "dim_x": "4", "dim_y": "2", "oversubscription_y": "[1, 2]"},
            "oversubscription_y",
            "topology zionex has no switch in dimension 2",
        ),
        ({"device_mapping": "[dimensions, routed]"}, "contention", "device_mapping: routed counts the links"),
    ],
)
def test_only_what_shares_links_is_asked_to(tmp_path: Path, extra: dict[str, str], at: str, message: str) -> None:
    axes = {**AXES, "batch_size": "8", "data_parallel": "8", "contention": "max_min", **extra}
    text = written(axes)
    (mistake,) = mistakes(tmp_path, text)
    assert mistake.startswith(f"{line_of(text, at)}: {message}")
    rail = {"topology": "rail", "dim_x": "2", "dim_y": "2", "dim_z": "2", "oversubscription_z": "2"}
    assert mistakes(tmp_path, written({**AXES, **rail, "data_parallel": "8", "contention": "max_min"})) == []


@pytest.mark.parametrize(
    ("extra", "objective", "message"),
    [
        ({"chip.price": "0 usd"}, "system_price_usd", "would count nothing for the chip"),
        ({"package": "a100"}, "mapping_time_s", "cannot be known"),
    ],
)
def test_an_objective_that_nobody_knows_is_a_mistake(
    tmp_path: Path, extra: dict[str, str], objective: str, message: str
) -> None:
    axes = {**AXES, **extra}
    if objective == "mapping_time_s":
        axes = {**AXES, "workload": "gpt3_1t", "chip": "wse_2", "memory": "hbm3"}
    found = mistakes(
        tmp_path, written(axes) + f"search: {{microbatch: [1, 2]}}\nobjective: {{minimise: {objective}}}\n"
    )
    assert any(f"{objective} {message}" in mistake for mistake in found), found


UNPRICED = """
mine:
  description: a memory of which nobody knows price and energy
  source: made
  grade: assumed
  bandwidth: 2 TB/s
  capacity: 80 GB
"""


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            "objective: {minimise: system_price_usd}",
            "system_price_usd cannot be known: mine says nothing of memory_price",
        ),
        ("objective: {minimise: energy_J}", "energy_J cannot be known: mine says nothing of memory_energy_J_per_B"),
        ("constraints: [system_power_W < 1e6]", "system_power_W cannot be known: mine says nothing of memory_energy"),
        ("constraints: [cost_per_token_usd < 1]", "cost_per_token_usd cannot be known: mine says nothing of memory_"),
        ("constraints: [iteration_time_s < 100, chips < 9]", ""),
        ("objective: {maximise: utilisation}", ""),
        ("constraints: [network_price_usd < 1e9, samples_per_s > 0]", ""),
    ],
)
def test_what_no_entry_gives_is_neither_searched_for_nor_compared(tmp_path: Path, asked: str, message: str) -> None:
    (tmp_path / "memories").mkdir()
    (tmp_path / "memories" / "mine.yaml").write_text(UNPRICED)
    path = tmp_path / "study.yaml"
    path.write_text(written(AXES | {"memory": "mine", "microbatch": "[1, 2]"}) + f"override: memory\n{asked}\n")
    if message:
        with pytest.raises(SpecError, match=message):
            make_plan(path, [tmp_path])
    else:
        make_plan(path, [tmp_path])


def test_prices_and_energies_that_no_entry_gives_are_null(tmp_path: Path) -> None:
    """One of the two prices of a memory is enough; links that are not there cost nothing."""
    columns = ("system_price_usd", "system_power_W", "energy_J")

    def unknown(more: str = "", chips: str = "8", link: str = "nvlink3") -> list[str]:
        (tmp_path / "memories").mkdir(exist_ok=True)
        (tmp_path / "links").mkdir(exist_ok=True)
        (tmp_path / "memories" / "mine.yaml").write_text(UNPRICED + more)
        (tmp_path / "links" / "mine.yaml").write_text(UNPRICED.replace("  capacity: 80 GB\n", ""))
        path = tmp_path / "study.yaml"
        axes = AXES | {"memory": "mine", "chips": chips, "dim_x": chips, "tensor_parallel": chips, "link": link}
        path.write_text(written(axes) + f"override: memory\noutput: {{columns: [{', '.join(columns)}]}}\n")
        rows = make_plan(path, [tmp_path]).evaluate(0).to_pylist()
        return [name for name in columns if rows[0][name] is None]

    energy, price = "  energy: 50 pJ/B\n", "  price_per_capacity: 8 usd/GB\n"
    assert unknown() == list(columns)
    assert unknown(energy) == ["system_price_usd"]
    assert unknown(price) == ["system_power_W", "energy_J"]
    assert unknown(energy + price) == []
    assert unknown(energy + price, link="mine") == list(columns)
    assert unknown(energy + price, chips="1", link="mine") == []


def test_a_goal_is_known_where_what_is_not_known_is_not_counted(tmp_path: Path) -> None:
    """One price of a memory is enough, in the study too; one chip has no links, and few have free ports."""
    (tmp_path / "memories").mkdir()
    (tmp_path / "links").mkdir()
    (tmp_path / "memories" / "mine.yaml").write_text(UNPRICED)
    (tmp_path / "links" / "mine.yaml").write_text(UNPRICED.replace("  capacity: 80 GB\n", ""))

    def refused(goal: str, **axes: str) -> str:
        path = tmp_path / "study.yaml"
        chips = axes.get("chips", "8")
        given = {name.replace("__", "."): value for name, value in axes.items()}
        own = {"memory": "mine", "dim_x": chips, "tensor_parallel": chips, "microbatch": "[1, 2]"}
        path.write_text(written(AXES | own | given) + f"override: memory\nobjective: {{minimise: {goal}}}\n")
        try:
            make_plan(path, [tmp_path])
        except SpecError as error:
            return str(error)
        return ""

    assert "says nothing of memory_price_usd_per_B " in refused("system_price_usd")
    price = {"memory__price_per_capacity": "8 usd/GB"}
    assert refused("system_price_usd", **price) == ""
    assert "link_price_usd_per_Bps (price of a link), link_switch_price" in refused(
        "system_price_usd", link="mine", **price
    )
    assert refused("system_price_usd", link="mine", chips="1", **price) == ""
    few = {"chips": "4", "link": "mine", "link__price_per_bandwidth": "2 usd/(GB/s)"}
    assert refused("system_price_usd", **few, **price) == ""
    assert refused("energy_J", memory__energy="50 pJ/B", link="mine", chips="1") == ""


def test_whether_a_limit_is_kept_is_not_known_of_unknown_energy(tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "mine.yaml").write_text(UNPRICED.replace("  capacity: 80 GB\n", ""))
    path = tmp_path / "study.yaml"
    axes = AXES | {"link": "mine", "tensor_parallel": "8"}
    columns = "output: {columns: [iteration_time_s, power_limited_clock, average_power_W]}\n"

    def row(**more: str) -> dict[str, float | None]:
        path.write_text(written(axes | {name.replace("__", "."): value for name, value in more.items()}) + columns)
        return dict(make_plan(path, [tmp_path]).evaluate(0).to_pylist()[0])

    free, limited = row(), row(calibration__board_power="250 W")
    assert free["power_limited_clock"] == 1.0 and free["average_power_W"] is None
    assert limited["iteration_time_s"] == free["iteration_time_s"]
    assert limited["power_limited_clock"] is None


def test_products_of_64_bits_need_a_chip_that_has_their_peak(tmp_path: Path) -> None:
    solver = {"workload": "linpack", "task": "inference", "tensor_parallel": "8"}
    (mistake,) = mistakes(tmp_path, written(AXES | solver))
    assert "workload linpack goes with chip fp64, found a100_sxm4_80gb; say override: [chip]" in mistake
    assert mistakes(tmp_path, written(AXES | solver | {"chip": "v100_sxm2_fp64", "memory": "hbm2"})) == []
    (mistake,) = mistakes(tmp_path, written(GENERATED | solver))
    assert "workload linpack goes with template none of the library" in mistake


NO_OTHERS = (("technology", "node"), ("workload", "template"))
"""What fits none: technologies beyond all nodes, and products in 64 bits, of which templates know nothing."""


def test_every_word_of_fits_names_something() -> None:
    library = Library.load([builtin_specs()])
    known = {
        kind: {word for entry in library.select(kind) for word in (entry.name, *entry.aliases, *entry.tags)}
        for kind in FITTING
    }
    for kind in ("chip", "calibration", "package", "technology", "workload"):
        for name in library.names(kind):
            for other, words in library.find(kind, name).fits.items():
                assert words or (kind, other) in NO_OTHERS, (kind, name)
                assert set(words) <= known[other], (kind, name)
