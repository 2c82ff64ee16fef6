"""Optimizers: what they keep of every parameter, and what an update takes."""
