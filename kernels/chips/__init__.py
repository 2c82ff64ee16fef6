"""A chip generated from an architecture template, a process, and budgets of area, power and perimeter.

Every part gets its shares of the budgets and makes the most of them: compute units and wires choose voltage and clock,
memories as many banks as fit beside their crossbar, main memory as many devices as package, controllers and perimeter
allow. Areas are in mm2. Source: DeepFlow (Ardalani et al., TODAES 2024), section 4; the behaviour of its program of
2021 where that differs is behind switches (docs/pathfinding.md).
"""
