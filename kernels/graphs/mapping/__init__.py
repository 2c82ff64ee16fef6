"""The mapping of a graph that takes least time: sharding, partitions and stages, by search over ideals."""
