"""What holds where a study says nothing: full physics, and choices of the mapping."""

from sweeper.kernels.codes import AS_OTHERS, CHOICES, SWITCHES

SWITCH_DEFAULTS = {
    "overlap": "streamed",
    "efficiencies": "calibrated",
    "weight_traffic": "per_microbatch",
    "gradient_traffic": "read_modify_write",
    "optimizer_traffic": "per_iteration",
    "tensor_traffic": "per_tensor",
    "capacity_model": "training_state",
    "sharding": "least_time",
    "pipeline_bubble": "one_f_one_b",
    "pipeline_transfer": "per_microbatch",
    "gradient_all_reduce": "overlapped",
    "all_reduce_model": "two_phases",
    "all_to_all_model": "busiest_link",
    "latency": "included",
    "process_grid_network": "topology_aware",
    "outer_links": "shared",
    "contention": "none",
    "placement": "tensor_pipeline_data",
    "weight_tiling": "least_traffic",
    "unit_allocation": "ideal",
    "unit_placement": "ideal",
    "chip_cost": "listed",
    "voltage_floor": "fewer_units",
    "cache_network": "shared_ports",
    "memory_devices": "perimeter_limited",
    "generated_counts": "whole",
    "chip_split": "given",
    "device_mapping": "dimensions",
}
"""Full physics: what a study gets when it does not say otherwise."""

CHOICE_DEFAULTS = {
    "task": "training",
    "recompute": "none",
    "kept_results": "none",
    "context_exchange": "ring",
    "expert_dispatch": "per_expert",
    "schedule": "one_f_one_b",
    "optimizer": "adam",
    "tensor_communication": "all_reduce",
    "tensor_overlap_style": "none",
    "collective_algorithm": "best",
    "compute_format": "bf16",
    "attention_format": "bf16",
    "activation_format": "bf16",
    "weight_format": "bf16",
    "expert_format": AS_OTHERS,
    "expert_compute_format": AS_OTHERS,
    "gradient_format": "fp32",
    "cache_format": "bf16",
    "launch": "kernels",
    "moment_format": "fp32",
    "acceptance_law": "geometric",
    "kernel_parallelism": "row_column",
    "mapping_order": "tensor_context_pipeline_data",
}
"""Choices of the mapping that a study does not make."""

NAMED = {**SWITCHES, **CHOICES}
NAMED_DEFAULTS = {**SWITCH_DEFAULTS, **CHOICE_DEFAULTS}
"""All columns that choose among names of `sweeper.kernels.codes`, and their defaults."""

assert NAMED_DEFAULTS.keys() == NAMED.keys()
