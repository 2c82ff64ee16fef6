"""Models whose layers are graphs of kernels."""
