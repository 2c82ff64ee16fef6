"""Whether partitions can fit on a fabric at all: who reads what inside them, and the units that they need at least."""
