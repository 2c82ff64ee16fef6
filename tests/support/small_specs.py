"""A library of a few entries and a study of it, for the tests of the spec reader."""

from pathlib import Path

CHIPS = """\
alpha:
  aliases: [a1, Alfa]
  description: a chip
  source: a datasheet
  grade: datasheet
  tags: [small, gpu]
  cores: 4
  peak_flops: 10 Tflop/s
  sram_capacity: 20 MB
  price: {value: 1000 usd, source: a price list, grade: estimate}
  power: 100 W
beta:
  extends: alpha
  source: another datasheet
  tags: [big, gpu]
  peak_flops: 40 Tflop/s
  price: {grade: assumed}
"""

MEMORIES = """\
dram: {source: s, grade: estimate, bandwidth: 100 GB/s, capacity: 64 GiB}
stack: {source: s, grade: estimate, bandwidth: 3 TB/s, capacity: 80 GB, tags: [stacked]}
"""

LINKS = """\
cable: {source: s, grade: measured, bandwidth: 50 GB/s, latency: 100 ns}
fibre: {source: s, grade: measured, bandwidth: 400 Gbit/s, tags: [optical]}
"""

TOPOLOGIES = """\
ring_1d: {dimensions: [ring]}
torus: {dimensions: [ring, ring]}
"""

WORKLOADS = """\
toy:
  source: invented
  grade: assumed
  parameters: {hidden: 64, samples: 32, word: 2 B}
  layers: 4
  batch: samples
  word: word
  kernels:
    - {name: first, type: gemm, m: hidden, k: hidden, n: samples, weight: true}
    - name: "step_{i}"
      repeat: {i: [1, 3]}
      type: gemm
      m: hidden*i
      n: microbatch
      inputs: [first, "step_{i-1}"]
    - name: last
      type: elementwise
      phase: backward
      m: hidden
      n: samples
      tile: n
      shard: m
      inputs: [step_3]
      split: {m: chips}
      collectives: [{channel: all_reduce_data, bytes: hidden*word}]
  partitions:
    halves: [[first, step_1], [step_2..last]]
plain:
  source: invented
  grade: assumed
  layers: 1
  batch: 1
  word: 2
  kernels: [{name: only, type: gemm, m: 8, n: 8}]
"""

ASSUMPTIONS = """\
simple:
  source: invented
  values: {overlap: none, latency: ignored}
"""

FILES = {
    "chips/chips.yaml": CHIPS,
    "memories/memories.yaml": MEMORIES,
    "links/links.yaml": LINKS,
    "topologies/topologies.yaml": TOPOLOGIES,
    "workloads/workloads.yaml": WORKLOADS,
    "assumptions/assumptions.yaml": ASSUMPTIONS,
}

STUDY = """\
study: demo
title: A demonstration
assumptions: [simple, {overlap: full}]
axes:
  workload: toy
  chip: [alpha, beta]
  memory: dram
  memory.bandwidth: [100 GB/s, 200 GB/s]
  link: cable
  topology: ring_1d
  chips: 8
  dim_x: 8
  partitioning: [halves, single]
search:
  parallelism:
    columns: [tensor_parallel, data_parallel]
    values: {tensor_parallel: {divisors_of: chips}, data_parallel: {divisors_of: chips}}
    where: tensor_parallel * data_parallel == chips
  microbatch: {powers_of_two: [1, 4]}
objective: {minimise: iteration_time_s}
output: {mode: best, columns: [iteration_time_s], float32: false}
"""


def write_files(root: Path, files: dict[str, str]) -> Path:
    """Write files below a directory, and return it."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root
