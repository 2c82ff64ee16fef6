"""Cost models tried on decisions that they have not seen."""
