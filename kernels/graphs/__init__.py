"""Dataflow graphs of kernels: sharding, partitions, mapping, pipelines, memory."""
