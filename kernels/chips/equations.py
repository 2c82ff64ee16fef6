"""A chip generated from an architecture template, a process, and budgets of area, power and perimeter.

Every part gets its shares of the budgets and makes the most of them: compute units and wires choose voltage and clock,
memories as many banks as fit beside their crossbar, main memory as many devices as package, controllers and perimeter
allow. Areas are in mm2. Source: DeepFlow (Ardalani et al., TODAES 2024), section 4; the behaviour of its program of
2021 where that differs is behind switches (docs/pathfinding.md).
"""

from kernels.chips.chip import generated_board, generated_chip, generated_reason, generated_totals
from kernels.chips.core import generated_core
from kernels.chips.lanes import generated_lanes, generated_outer_lanes
from kernels.chips.levels import generated_l1, generated_l2, generated_registers
from kernels.chips.memory import generated_memory
from kernels.equation import Equation

EQUATIONS: tuple[Equation, ...] = (
    generated_core,
    generated_registers,
    generated_l1,
    generated_l2,
    generated_memory,
    generated_lanes,
    generated_outer_lanes,
    generated_chip,
    generated_board,
    generated_totals,
    generated_reason,
)
"""They apply where a study names what they generate from: a template, a stack, lanes."""
