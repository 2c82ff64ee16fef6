"""A question made evaluable: columns, modes, chunks."""
