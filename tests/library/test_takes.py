"""Entries that take numbers of others: a stack of software, of what was measured of its kernels."""

from pathlib import Path

import pytest

from sweeper.errors import SpecError
from sweeper.library.library import Library, builtin_specs

ENTRIES = """
kernels: {description: kernels, source: a bench, grade: measured, gemm_efficiency: 0.5, memory_efficiency: 0.9}
links: {description: links, source: another bench, grade: measured, link_efficiency: 0.7, gemm_efficiency: 0.1}
"""


def library(folder: Path, entry: str) -> Library:
    (folder / "calibrations").mkdir(parents=True)
    (folder / "calibrations" / "some.yaml").write_text(f"{ENTRIES}\n{entry}\n")
    return Library.load([folder])


def test_numbers_of_several_entries_make_one(tmp_path: Path) -> None:
    entry = """stack:
  extends: links
  takes: {kernels: [gemm_efficiency, memory_efficiency], links: link_efficiency}
  source: a guess
  grade: assumed
  memory_efficiency: 0.8"""
    found = library(tmp_path, entry).find("calibration", "stack").values
    assert (found["gemm_efficiency"].number, found["gemm_efficiency"].source) == (0.5, "a bench"), (
        "over what it extends"
    )
    assert (found["memory_efficiency"].number, found["memory_efficiency"].source) == (0.8, "a guess"), "its own"
    assert (found["link_efficiency"].number, found["link_efficiency"].grade) == (0.7, "measured")
    assert found["outer_link_efficiency"].grade == "assumed", "nobody gives it"


@pytest.mark.parametrize(
    ("takes", "message"),
    [
        ("{kernels: [gemm_eficiency]}", "unknown number of kernels 'gemm_eficiency', did you mean 'gemm_efficiency'?"),
        ("{kernels: [link_efficiency]}", "unknown number of kernels 'link_efficiency'"),
        ("{kernel: [gemm_efficiency]}", "unknown calibration 'kernel', did you mean 'kernels'?"),
        ("[kernels]", "takes must be a mapping"),
    ],
)
def test_what_nobody_gives_is_refused(tmp_path: Path, takes: str, message: str) -> None:
    found = library(tmp_path, f"stack: {{source: a guess, grade: assumed, takes: {takes}}}")
    with pytest.raises(SpecError) as fault:
        found.find("calibration", "stack")
    assert message in str(fault.value) and "some.yaml:5" in str(fault.value)


def test_entries_do_not_take_from_each_other_in_a_circle(tmp_path: Path) -> None:
    circle = (
        "a: {source: x, grade: assumed, takes: {b: gemm_efficiency}}\n"
        "b: {source: x, grade: assumed, takes: {a: gemm_efficiency}}"
    )
    with pytest.raises(SpecError, match="in a circle: b -> a -> b"):
        library(tmp_path, circle).find("calibration", "a")


def test_servers_take_the_constants_of_their_kernels() -> None:
    ours = Library.load([builtin_specs()])
    server, gemm = (ours.find("calibration", name).values for name in ("h200_vllm", "h200_gemm_bf16"))
    assert server["gemm_efficiency"] == gemm["gemm_efficiency"]
    assert server["link_efficiency"] == ours.find("calibration", "h200_nccl").values["link_efficiency"]
