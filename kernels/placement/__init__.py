"""Operators on the units of a reconfigurable dataflow fabric: where they lie, how their streams run, how fast it is."""
