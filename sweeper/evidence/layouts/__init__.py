"""Layouts of measured tables beside runs of language models and tables of kernels: microbenchmarks, and other workloads."""
