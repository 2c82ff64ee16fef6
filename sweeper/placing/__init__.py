"""Operators on the units of a dataflow fabric: cut into pieces, placed, routed, simulated, drawn."""
