"""Integer codes by which kernels know categories: dimension kinds, assumption choices, infeasibility reasons.

Kernels see numbers only. The tuples below are the single place where a name meets its number: the position in
the tuple is the code.
"""

from collections import namedtuple
from itertools import permutations

DIMENSION_KINDS = ("absent", "ring", "switch", "fully_connected", "mesh")
"""Kind of one network dimension; `absent` is a dimension of extent 1."""

ABSENT, RING, SWITCH, FULLY_CONNECTED, MESH = range(len(DIMENSION_KINDS))

FORMATS = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "mxfp8", "mxfp4", "nvfp4")
"""Number formats; the last three have a scale for every block of numbers, which is stored beside them."""
FORMAT_B = (4.0, 4.0, 2.0, 2.0, 1.0, 1.0, 0.5, 1.0 + 1.0 / 32.0, 0.5 + 1.0 / 32.0, 0.5 + 1.0 / 16.0)
"""Bytes of a number in each format, with its part of a scale of one byte: of 32 numbers (OCP Microscaling Formats MX
v1.0, table 1) or of 16 (NVFP4, as NVIDIA describes it)."""
FORMAT_BLOCK = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 32.0, 32.0, 16.0)
"""Numbers that share a scale in each format; 0: it has none."""

SCHEDULES = ("gpipe", "one_f_one_b", "interleaved", "zero_bubble_h1", "dual_pipe")
"""Pipeline schedules."""

OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "point_to_point")
ALGORITHMS = (
    "ring",
    "double_binary_tree",
    "recursive_halving_doubling",
    "direct",
    "hierarchical",
    "in_network_reduction",
    "torus_2d",
    "best",
    "library",
    "library_ring",
    "library_tree",
    "library_nvls",
    "library_collnet",
)
"""Collective operations, and algorithms for them; `best` is the fastest that the topology allows, `library` what NCCL
chooses among, by the time that it predicts: rings, trees, reduction in the switches of nodes (NVLS) and of the network
(CollNet), with a protocol each; the last four are NCCL told which of these to take."""

OPERATOR_TYPES = ("gemm", "attention", "elementwise", "collective")
PLACES = ("layer", "dense", "expert", "routed", "first", "last")
"""Where an operator stands: in every layer, in those without and with experts, in a layer's routed experts (spread over
the expert group), on the first and on the last stage."""
GROUPS = ("tensor", "tensor_row", "tensor_column", "context", "expert", "expert_tensor")
"""Groups of chips that exchange tensors inside a layer. Where a tensor group is no grid, it is its only row."""
RECOMPUTE_CLASSES = ("never", "full", "full_unless_last")
"""When the forward pass of an operator is repeated: never, under full recompute, or under full recompute unless the
software stops before a layer's last operators, whose results nothing needs."""
RECOMPUTE_MODULES = ("none", "attention", "latents", "norms", "feed_forward", "expert_activations", "experts")
"""Parts of a layer that selective recompute may repeat: the core of attention, the projections from its latents, norms,
the feed-forward part of layers without experts, the activation inside experts, and all of the experts' part. Each has a
column, e.g. `recompute_norms`."""
BLOCK_RECOMPUTE_CLASSES = ("never", "full", "selective")
"""The same of the operators of a Calculon block; selective recompute repeats what it says."""

SWITCHES: dict[str, tuple[str, ...]] = {
    "overlap": ("none", "full", "streamed"),
    "efficiencies": ("listed", "calibrated"),
    "weight_traffic": ("none", "per_microbatch"),
    "gradient_traffic": ("none", "write", "read_modify_write"),
    "optimizer_traffic": ("none", "per_iteration"),
    "tensor_traffic": ("per_edge", "per_tensor"),
    "capacity_model": ("weights_and_activations", "training_state"),
    "sharding": ("given", "least_bytes", "least_time", "joint"),
    "pipeline_bubble": ("published", "one_f_one_b"),
    "pipeline_transfer": ("per_iteration", "per_microbatch"),
    "gradient_all_reduce": ("ignored", "amortised", "overlapped", "exposed", "bytes_as_nanoseconds"),
    "all_reduce_model": ("two_phases", "one_phase"),
    "all_to_all_model": ("published", "busiest_link"),
    "latency": ("ignored", "included"),
    "process_grid_network": ("topology_free", "topology_aware"),
    "outer_links": ("per_chip", "shared", "per_chip_priced"),
    "contention": ("none", "max_min"),
    "placement": ("tensor_pipeline_data", "tensor_data_pipeline"),
    "weight_tiling": ("free", "repeats_traffic", "least_traffic"),
    "unit_allocation": ("ideal", "integer"),
    "unit_placement": ("ideal", "rules", "learned"),
    "chip_cost": ("listed", "package"),
    "voltage_floor": ("fewer_units", "throttled"),
    "cache_network": ("shared_ports", "port_per_core"),
    "memory_devices": ("perimeter_limited", "area_limited"),
    "generated_counts": ("whole", "continuous"),
    "chip_split": ("given", "balanced"),
    "device_mapping": ("dimensions", "routed"),
}
"""Assumption switches and their choices; meaning and source of each stand in docs/assumptions.md."""
SHARED = float(SWITCHES["outer_links"].index("shared"))
"""The choice with which chips of a group share their outer links."""

MAPPED = ("tensor", "context", "pipeline", "data")
"""The parallelisms that give every chip its rank: one digit each."""
MAPPING_ORDERS = tuple(permutations(MAPPED))
"""All orders, nearest parallelism first. None is left out for having sizes like another's: which group gets the
neighbouring chips matters even if both are as large."""

NAMED_FORMATS = ("activation", "weight", "gradient", "cache", "compute", "moment")
"""Tensors whose number format a mapping chooses, as `<tensor>_format`; `compute` are the operands of products, `moment`
the running means that an optimizer keeps of gradients."""

OPTIMIZERS = ("adam", "muon", "sgd_momentum")
"""How gradients become updates: by two moments of each parameter, by one whose matrices are orthogonalised (embeddings,
head and vectors as Adam does), or by one."""

AS_OTHERS = "as_others"
"""Experts in the format of all other weights, and of their products."""

CHOICES: dict[str, tuple[str, ...]] = {
    "task": ("training", "inference"),
    "recompute": ("none", "selective", "full"),
    "kept_results": ("none", "products", "attention", "projections", "attended", "operators"),
    "context_exchange": ("ring", "all_to_all", "all_gather"),
    "expert_dispatch": ("per_expert", "per_chip"),
    "schedule": SCHEDULES,
    "optimizer": OPTIMIZERS,
    "tensor_communication": ("all_reduce", "p2p_rs_ag", "rs_ag"),
    "tensor_overlap_style": ("none", "ring", "pipe"),
    "collective_algorithm": ALGORITHMS,
    "compute_format": FORMATS,
    "attention_format": FORMATS,
    "activation_format": FORMATS,
    "weight_format": FORMATS,
    "expert_format": (*FORMATS, AS_OTHERS),
    "expert_compute_format": (*FORMATS, AS_OTHERS),
    "gradient_format": FORMATS,
    "cache_format": FORMATS,
    "launch": ("kernels", "graph"),
    "moment_format": FORMATS,
    "acceptance_law": ("geometric", "linear"),
    "kernel_parallelism": ("row_column", "column_row"),
    "mapping_order": tuple("_".join(order) for order in MAPPING_ORDERS),
}
"""What a mapping chooses among names; the rest of a mapping is numbers."""

Reasons = namedtuple(
    "Reasons",
    "feasible area_exceeded power_exceeded perimeter_exceeded reticle_exceeded interposer_exceeded bumps_exceeded "
    "clock_exceeded too_hot no_compute no_cache no_memory no_network "
    "format_unsupported chips_mismatch parallelism_mismatch too_many_stages too_many_replicas microbatch_indivisible "
    "heads_indivisible grid_unsupported experts_indivisible stages_indivisible sram_capacity units_exceeded "
    "offload_capacity memory_capacity impossible_number die_exceeds_wafer link_beyond_reach die_exceeds_reticle "
    "shoreline_exceeded interfaces_exceed_die wafers_differ wiring_exceeded carrier_exceeds_assembly "
    "buried_exceed_carrier power_density_exceeded blocks_exceed_die never_works not_finite",
)
"""Why a point is infeasible, in the order in which the checks are made: what lies in a generated chip, then in the
system, then in the package (these follow the order of `sweeper.kernels.packages.layout.STATUS`). Constraints of a study
have the codes that follow (`sweeper.planning.tried`)."""

REASON = Reasons(*range(len(Reasons._fields)))
"""Code of every reason; 0 is feasible."""
REASONS = ("", *Reasons._fields[1:])
"""Names of the reasons by their codes; the empty string is feasible."""
FIRST_OF_PACKAGE = REASON.impossible_number
"""The first reason that lies in the package."""

KERNEL_TYPES = ("gemm", "batched_gemm", "elementwise", "scan", "gather", "attention", "attention_backward")
"""What kernels are: products of matrices, work on vectors (a scan goes through one dimension in order), rows picked
from a table, and fused attention, forward and backward."""
PHASES = ("forward", "backward", "update")
SHARDS = ("none", "outer", "m", "k", "n", "k_to_rows", "k_to_columns")
"""Dimension of a kernel that the tensor-parallel group splits. The partial sums of a split k are all-reduced, or
reduce-scattered to rows or to columns."""

CHANNELS = (
    "all_reduce_tensor",
    "all_gather_tensor",
    "all_to_all_tensor",
    "all_reduce_data",
    "all_to_all_world",
    "broadcast_column",
    "point_to_point_row",
    "reduce_scatter_tensor",
)
"""Collective x group pairs whose bytes a partition accumulates; row = first network dimension, column = second."""
