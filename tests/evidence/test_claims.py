"""The published ratios, from the published cells: the definitions in `specs/claims/dfmodel.yaml` are the right ones."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sweeper.evidence.claims import Claim, Tolerance, claims, published
from tests.places import DATA

CELLS = DATA / "dfmodel_dse80.csv"
"""The 320 cells that the paper prints as colours: 24 with logs, 296 recomputed; see `tests/data/README.md`."""

NAMES = {
    "workload": {"LLM": "gpt3_1t", "DLRM": "dlrm_793b", "HPL": "hpl_1m", "FFT": "fft_1t"},
    "chip": {"h100": "h100_sxm", "tpu": "tpu_v4", "wse-2": "wse_2"},
    "topology": {"2d_torus": "torus_2d", "3d_torus": "torus_3d"},
    "memory": {"ddr": "ddr4", "hbm": "hbm3"},
    "link": {"pcie": "pcie5", "nvlink": "nvlink4"},
}
"""The library's names for those of the file."""

TABLE6 = {"kernel_by_kernel": 0.139862, "vendor_8x1": 0.566388, "dfmodel_8x1": 0.672796, "dfmodel_4x2": 0.857211}
"""Utilisation that the original printed for its four SN10 mappings."""


def grid(utilisation: str = "util_overlap_as_published") -> pl.DataFrame:
    """The published cells as a dataset of ours; `utilisation` names the column of the file to take."""
    cells = pl.read_csv(CELLS).with_columns(
        memory=pl.col("mem_net").str.split("_").list.first(), link=pl.col("mem_net").str.split("_").list.last()
    )
    share = pl.col(utilisation) / pl.col("util_overlap")
    workload, chip = pl.col("workload"), pl.col("chip")
    return cells.with_columns(pl.col(axis).replace(names) for axis, names in NAMES.items()).select(
        *("topology", "memory", "link"),
        workload=pl.when((workload == "hpl_1m") & (chip == "wse_2")).then(pl.lit("hpl_5m")).otherwise(workload),
        chip=pl.when(share != 1.0).then(pl.lit("h100_sxm_half")).otherwise(chip),
        feasible=True,
        utilisation=utilisation,
        cost_efficiency_flops_per_usd=pl.col("cost_eff_GFLOPS_per_usd") * share * 1e9,
        power_efficiency_flops_per_W=pl.col("power_eff_GFLOPS_per_W") * share * 1e9,
    )


def table6() -> pl.DataFrame:
    """The four SN10 mappings as a dataset of ours."""
    rows = [
        {"partitioning": name, "tensor_parallel": 4 if name == "dfmodel_4x2" else 8, "utilisation": value}
        for name, value in TABLE6.items()
    ]
    return pl.DataFrame(rows)


def serving(tokens_per_s: float = 1187.8) -> pl.DataFrame:
    """The decode points of the serving study, one of which the claim is about."""
    return pl.DataFrame(
        {
            "tensor_parallel": [4, 16, 8],
            "pipeline_parallel": [4, 1, 2],
            "microbatch": 1,
            "partitioning": "single",
            "samples_per_s": [1809.7, tokens_per_s, 1637.7],
        }
    )


def by_id(rows: list[dict]) -> dict[str, dict]:
    return {row["id"]: row for row in rows}


def test_there_are_45_figures_with_distinct_names() -> None:
    file = published("dfmodel")
    keys = [key for claim in file.claims for key in claim.figures]
    assert len(keys) == len(set(keys)) == 45
    datasets = [claim.dataset or "grid" for claim in file.claims for _ in claim.figures]
    assert {name: datasets.count(name) for name in file.datasets} == {
        "grid": 39,
        "table6_sn10": 5,
        "serving_llama3_8b": 1,
    }


def test_all_45_figures_reproduce_from_the_published_results() -> None:
    datasets = {"grid": grid(), "table6_sn10": table6(), "serving_llama3_8b": serving()}
    rows = claims("dfmodel", datasets, datasets)
    assert [row["id"] for row in rows if not row["within"]] == []
    assert [row["id"] for row in rows if row["changes"]] == []
    assert {row["verdict"] for row in rows} == {"reproduced; full physics agrees"}


def test_a_single_frame_stands_for_the_grid_and_other_figures_stay_open() -> None:
    rows = claims("dfmodel", grid(), grid())
    assert sum(row["within"] is True for row in rows) == 39
    assert {row["id"] for row in rows if row["within"] is None} == {"T6a", "T6b", "T6c", "T6d", "T6e", "S1"}
    assert all(row["changes"] is None and row["full_physics"] is None for row in rows if row["within"] is None)


def test_the_fft_claims_change_when_the_h100_gets_all_its_cores() -> None:
    rows = by_id(claims("dfmodel", grid(), grid("util_overlap")))
    # DFModel reference, E.3: the corrected ratios.
    corrected = {"F2util": 2.75, "F2ce": 1.81, "F2pe": 2.33, "F3util": 5.34, "F3ce": 11.40, "F3pe": 6.32}
    assert {key for key, row in rows.items() if row["changes"]} == corrected.keys()
    for key, ratio in corrected.items():
        assert rows[key]["full_physics"] == pytest.approx(ratio, abs=0.005)
    assert rows["F2util"]["verdict"] == "reproduced; full physics gives 2.746 (-14.8%)"
    assert {key: row["why"] for key, row in rows.items() if row["why"]} == dict.fromkeys(corrected, "all_to_all_model")


def test_a_reversed_comparison_is_called_so() -> None:
    slow = serving(), table6().with_columns(utilisation=1.0 / pl.col("utilisation"))
    rows = by_id(claims("dfmodel", {"table6_sn10": table6()}, dict(zip(("serving_llama3_8b", "table6_sn10"), slow))))
    assert rows["T6a"]["verdict"] == "reproduced; full physics gives 0.2469 (-93.9%); the comparison is reversed"
    assert rows["S1"]["verdict"] == "not evaluated as published; full physics agrees"


def test_a_figure_that_we_miss_is_not_one_that_physics_changes() -> None:
    rows = by_id(claims("dfmodel", {"serving_llama3_8b": serving(1100.0)}, {"serving_llama3_8b": serving(900.0)}))
    assert (rows["S1"]["within"], rows["S1"]["changes"]) == (False, False)
    assert rows["S1"]["verdict"] == "not reproduced; full physics gives 900 (-18.2%)"


def test_infeasible_points_are_left_out_and_counted() -> None:
    on_hbm_torus = (pl.col("memory") == "hbm3") & (pl.col("topology") == "torus_2d")
    rows = by_id(claims("dfmodel", grid(), grid().with_columns(feasible=~on_hbm_torus)))
    assert rows["L3"]["verdict"].endswith("; 2 of 20 points infeasible")
    assert rows["L3"]["full_physics"] == pytest.approx(1.0, abs=0.005)


def test_without_feasible_points_there_is_no_value() -> None:
    rows = by_id(claims("dfmodel", grid(), grid().with_columns(feasible=False)))
    assert rows["L1util"]["full_physics"] is None
    assert rows["L1util"]["verdict"] == "reproduced; not evaluated with full physics; 60 of 60 points infeasible"


def test_a_dataset_with_other_points_is_refused() -> None:
    with pytest.raises(ValueError, match=r"claim L1util compares \[20, 40\] points, the dataset has \[40, 80\]"):
        claims("dfmodel", pl.concat([grid(), grid()]), grid())


@pytest.mark.parametrize(
    ("printed", "half_width"),
    [("1.52", 0.0076), ("0.06", 0.005), ("1.00", 0.005), ("1188", 5.94), ("7", 0.5), ("0.5", 0.05)],
)
def test_tolerance_is_the_wider_of_the_two_rules(printed: str, half_width: float) -> None:
    assert Tolerance(relative=0.005, last_digit=0.5).around(printed) == pytest.approx(half_width)


@given(st.decimals(min_value="0.01", max_value="10000", places=2))
def test_a_figure_admits_all_that_rounds_to_it(figure: object) -> None:
    half_width = Tolerance(relative=0.005, last_digit=0.5).around(str(figure))
    assert half_width >= 0.005
    assert half_width >= 0.005 * float(str(figure))


def test_counts_must_match_the_sides() -> None:
    with pytest.raises(ValidationError, match="cells gives 1 counts for 2 sets of points"):
        Claim(claim="x", source="y", group={}, versus={}, cells=[1], figures={})
