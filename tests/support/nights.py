"""Small studies for nights, libraries laid over ours, and what nights left behind."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SN10 = """
study: mappings
assumptions: dfmodel_published
axes:
  workload: gpt3_175b_forward
  chip: sn10
  memory: ddr4_sn10
  link: pcie5
  chips: 8
boxes:
  - axes:
      topology: ring
      dim_x: 8
      tensor_parallel: 8
      partitioning: [kernel_by_kernel, vendor_8x1]
  - axes:
      topology: torus_2d
      dim_x: 4
      dim_y: 2
      tensor_parallel: 4
      data_parallel: 2
      partitioning: dfmodel_4x2
output: {mode: all}
"""
"""Three mappings, in two chunks."""

FFT = """
study: transform
override: memory
axes:
  workload: fft_1t
  chips: 64
  chip: [h100, tpu]
  memory: hbm
  link: [pcie, nvlink]
  topology: torus_2d
  dim_x: 8
  dim_y: 8
  tensor_parallel: 64
search:
  partitioning: [kernel_by_kernel, single]
objective: {minimise: iteration_time_s}
output: {mode: best}
"""
"""Four systems, the best of two partitions of each."""

IMPOSSIBLE = FFT.replace("study: transform", "study: impossible").replace("tensor_parallel: 64", "tensor_parallel: 32")
"""A study of which no row is feasible."""

BROKEN = FFT.replace("study: transform", "study: broken").replace("memory: hbm", "memory: hbn")
"""A study that names what there is not."""

SLOW_DDR = "ddr4_sn10: {extends: ddr4, source: s, grade: assumed, bandwidth: 50 GB/s}\n"
"""Half of the bandwidth that our library has for the memory of the mappings."""


def write(place: Path, studies: Mapping[str, str]) -> Path:
    """A directory with files of such contents."""
    for name, text in studies.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


def records(out: Path) -> list[dict[str, Any]]:
    """What the nights of a place say of themselves, the first one first; as strict JSON."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    files = sorted((out / "nights").glob("*/summary.json"))
    return [json.loads(file.read_text(), parse_constant=refuse) for file in files]


def states(record: Mapping[str, Any]) -> dict[str, str]:
    """The state of each study."""
    return {study["name"]: study["state"] for study in record["studies"]}


def computed(record: Mapping[str, Any]) -> dict[str, int]:
    """How many chunks of each study were computed."""
    return {study["name"]: study["computed_chunks"] for study in record["studies"]}
