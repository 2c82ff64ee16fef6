"""Layers of transformers as graphs of kernels: what graphs and operator tables have in common."""
