"""What groups of chips send, beside its time."""
