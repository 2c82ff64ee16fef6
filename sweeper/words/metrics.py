"""Which metrics a dataset has where a study does not choose, by family of its workloads."""

SYSTEM_METRICS = ("system_price_usd", "system_power_W", "cost_efficiency_flops_per_usd", "power_efficiency_flops_per_W")
"""Metrics of every study of systems."""

LAST_METRICS = (
    "memory_need_B",
    "memory_headroom_B",
    "samples_per_s",
    "utilisation",
    *SYSTEM_METRICS,
    "cost_per_token_usd",
    "energy_per_token_J",
)
"""Metrics of every study of models, after its own."""

GRAPH_METRICS = {
    "graph": (
        "iteration_time_s",
        "utilisation",
        "compute_time_s",
        "memory_time_s",
        "network_time_s",
        "transfer_time_s",
        "graph_compute_time_s",
        "graph_memory_time_s",
        "graph_network_time_s",
        "graph_time_s",
        "partitions",
        "mapping_exact",
        "mapping_gap",
        "bubble_time_s",
        "gradient_time_s",
        "optimizer_time_s",
        "memory_intensity_flop_per_B",
        "network_intensity_flop_per_B",
        "attained_flops",
        "samples_per_s",
        "memory_need_B",
        "memory_headroom_B",
        *SYSTEM_METRICS,
    )
}
OPERATOR_METRICS = {
    "training": (
        "iteration_time_s",
        "iteration_time_low_s",
        "iteration_time_high_s",
        "tokens_per_s",
        "tokens_per_s_per_chip",
        "model_flops_utilisation",
        "hardware_flops_utilisation",
        "compute_time_s",
        "l2_time_s",
        "memory_time_s",
        "overhead_time_s",
        "network_time_s",
        "hidden_network_time_s",
        "transfer_time_s",
        "recompute_time_s",
        "bubble_time_s",
        "gradient_time_s",
        "optimizer_time_s",
        "required_tensor_Bps",
        "required_data_Bps",
        "weights_B",
        "gradients_B",
        "optimizer_B",
        "activations_B",
        "working_B",
        *LAST_METRICS,
    ),
    "inference": (
        "iteration_time_s",
        "iteration_time_low_s",
        "iteration_time_high_s",
        "time_to_first_token_s",
        "time_per_output_token_s",
        "request_time_s",
        "requests_per_s",
        "output_tokens_per_s",
        "output_tokens_per_s_per_chip",
        "loaded_time_to_first_token_s",
        "loaded_time_to_first_token_p90_s",
        "loaded_time_per_output_token_s",
        "prompt_gap_s",
        "steady_load",
        "compute_time_s",
        "l2_time_s",
        "memory_time_s",
        "overhead_time_s",
        "network_time_s",
        "transfer_time_s",
        "model_flops_utilisation",
        "weights_B",
        "working_B",
        "cache_memory_B",
        *LAST_METRICS,
    ),
}
LAYER_METRICS = {
    "training": tuple(
        dict.fromkeys(
            (
                *OPERATOR_METRICS["training"],
                *("partitions", "mapping_exact", "mapping_gap"),
                *(f"graph_{part}time_s" for part in ("compute_", "memory_", "network_", "")),
                *("memory_intensity_flop_per_B", "network_intensity_flop_per_B", "attained_flops"),
            )
        )
    )
}
CALCULON_METRICS = {
    "calculon": (
        "iteration_time_s",
        "samples_per_s",
        "utilisation",
        "forward_time_s",
        "backward_time_s",
        "recompute_time_s",
        "optimizer_time_s",
        "network_time_s",
        "transfer_time_s",
        "offload_time_s",
        "bubble_time_s",
        "gradient_time_s",
        "memory_need_B",
        "offload_need_B",
        "memory_headroom_B",
        *SYSTEM_METRICS,
    )
}
"""Metrics of a study that does not choose, by its tasks where a family has several."""

PACKAGE_METRICS = (
    "package_cost_usd",
    "package_design_usd",
    "package_area_mm2",
    "package_yield",
    "accelerator_price_usd",
    "accelerator_carbon_kg",
    "usd_per_chip_hour",
)
"""Further metrics of a study that names packages."""

UNIT_METRICS = ("unit_share", "unit_placement_known")
"""Further metrics of a study in which partitions do not run at the bound of their units."""
