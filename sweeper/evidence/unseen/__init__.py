"""How good the model is on what it has not seen: other models of a stack, stacks without a calibration."""
