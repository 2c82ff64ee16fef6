"""Integer codes by which kernels know categories: dimension kinds, assumption choices, infeasibility reasons.

Kernels see numbers only. The tuples below are the single place where a name meets its number: the position in
the tuple is the code.
"""

DIMENSION_KINDS = ("absent", "ring", "switch", "fully_connected", "mesh")
"""Kind of one network dimension; `absent` is a dimension of extent 1."""

ABSENT, RING, SWITCH, FULLY_CONNECTED, MESH = range(len(DIMENSION_KINDS))

SWITCHES: dict[str, tuple[str, ...]] = {
    "overlap": ("none", "full"),
    "weight_traffic": ("none", "per_microbatch"),
    "gradient_traffic": ("none", "write", "read_modify_write"),
    "optimizer_traffic": ("none", "per_iteration"),
    "tensor_traffic": ("per_edge", "per_tensor"),
    "capacity_model": ("weights_and_activations", "training_state"),
    "sharding": ("given", "least_bytes", "least_time"),
    "pipeline_bubble": ("published", "one_f_one_b"),
    "pipeline_transfer": ("per_iteration", "per_microbatch"),
    "gradient_all_reduce": ("ignored", "amortised", "overlapped", "exposed", "bytes_as_nanoseconds"),
    "all_to_all_model": ("published", "busiest_link"),
    "latency": ("ignored", "included"),
    "process_grid_network": ("topology_free", "topology_aware"),
    "outer_links": ("per_chip", "shared"),
    "placement": ("tensor_pipeline_data", "tensor_data_pipeline"),
}
"""Assumption switches and their choices; meaning and source of each stand in `sweeper.vocabulary`."""

REASONS = (
    "",
    "chips_mismatch",
    "parallelism_mismatch",
    "too_many_stages",
    "too_many_replicas",
    "microbatch_indivisible",
    "sram_capacity",
    "memory_capacity",
)
"""Why a point is infeasible, in the order in which the checks are made; the empty string is feasible."""

KERNEL_TYPES = ("gemm", "batched_gemm", "elementwise")
PHASES = ("forward", "backward", "update")
SHARDS = ("none", "outer", "m", "k", "n")
"""Dimension of a kernel that the tensor-parallel group splits."""

CHANNELS = (
    "all_reduce_tensor",
    "all_gather_tensor",
    "all_to_all_tensor",
    "all_reduce_data",
    "all_to_all_world",
    "broadcast_column",
    "point_to_point_row",
)
"""Collective x group pairs whose bytes a partition accumulates; row = first network dimension, column = second."""
