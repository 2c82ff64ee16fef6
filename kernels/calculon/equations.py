"""Training of a transformer as Calculon models it: a block as a table of operators, a batch by closed forms of its sum.

Source of all equations: Isaev, McDonald, Dennison and Vuduc, SC'23, doi 10.1145/3581784.3607102, and their program
calculon-ai/calculon, commit caa4b11, with its defects repaired (tests/twins/calculon_oracle.py lists them). A block is
summed twice: as one in the middle of a chunk (base), and as the last of a chunk (edge), which also talks to the next
stage and, under `p2p_rs_ag`, reduces and gathers what the base blocks all-reduce.
"""

from kernels.calculon.batch import away_times, batch_shape, batch_times, batch_work, block_times, iteration_time
from kernels.calculon.block import block_sums, block_work
from kernels.calculon.memory import layout_check, offloaded_feasibility, offloaded_memory
from kernels.calculon.replicas import gradient_link, gradient_time, optimizer_step
from kernels.calculon.system import network_tiers, stage_message, vector_peak
from kernels.equation import Equation

EQUATIONS: tuple[Equation, ...] = (
    network_tiers,
    vector_peak,
    block_work,
    block_sums,
    optimizer_step,
    gradient_link,
    stage_message,
    away_times,
    block_times,
    batch_shape,
    batch_times,
    gradient_time,
    iteration_time,
    offloaded_memory,
    layout_check,
    offloaded_feasibility,
    batch_work,
)
