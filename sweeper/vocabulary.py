"""The words a spec may use: attributes of library entries, mapping columns, assumptions; each with unit and meaning.

Everything here is data. A column of the engine is named `<role>_<attribute>_<unit>` for a library attribute
(`memory_bandwidth_Bps`) and by its own name for a mapping or an assumption (`tensor_parallel`, `overlap`).
"""

import math
from dataclasses import dataclass

from kernels.codes import SWITCHES


@dataclass(frozen=True)
class Attribute:
    """A number that a library entry or a study may give.

    `unit` is a pint unit in SI; `column` the suffix of the engine's column; `default` is None when the number must
    be given. Numbers are never negative, and not 0 where `positive`; `maximum` is the largest allowed value.
    """

    unit: str
    column: str
    about: str
    default: float | None = None
    positive: bool = True
    integer: bool = False
    maximum: float = math.inf


GRADES = ("measured", "fitted", "datasheet", "estimate", "assumed")

ATTRIBUTES: dict[str, dict[str, Attribute]] = {
    "chip": {
        "cores": Attribute("", "cores", "compute cores", 1.0, integer=True),
        "lanes": Attribute("", "lanes", "rows of a core's array", 1.0, integer=True),
        "stages": Attribute("", "stages", "columns of a core's array", 1.0, integer=True),
        "frequency": Attribute("Hz", "frequency_Hz", "clock", 1.0),
        "peak_flops": Attribute(
            "flop/s", "given_peak_flops", "peak; 0 means 2 x cores x lanes x stages x frequency", 0.0, positive=False
        ),
        "rated_cores": Attribute("", "rated_cores", "cores that efficiency is rated on; 0 means cores", 0.0, False),
        "sram_capacity": Attribute("B", "sram_capacity_B", "on-chip memory"),
        "price": Attribute("usd", "price_usd", "price of one chip", positive=False),
        "power": Attribute("W", "power_W", "power of one chip without memory and links", positive=False),
    },
    "memory": {
        "bandwidth": Attribute("B/s", "bandwidth_Bps", "bandwidth per chip"),
        "capacity": Attribute("B", "capacity_B", "capacity per chip"),
        "price_per_bandwidth": Attribute("usd/(B/s)", "price_usd_per_Bps", "price", 0.0, False),
        "price_per_capacity": Attribute("usd/B", "price_usd_per_B", "price", 0.0, False),
        "energy": Attribute("J/B", "energy_J_per_B", "energy per byte moved", 0.0, False),
    },
    "link": {
        "bandwidth": Attribute("B/s", "bandwidth_Bps", "one-direction rate of one link"),
        "latency": Attribute("s", "latency_s", "time of one hop for an empty message", 0.0, False),
        "price_per_bandwidth": Attribute("usd/(B/s)", "price_usd_per_Bps", "price of a link", 0.0, False),
        "energy": Attribute("J/B", "energy_J_per_B", "energy per byte moved over a link", 0.0, False),
        "switch_price_per_bandwidth": Attribute("usd/(B/s)", "switch_price_usd_per_Bps", "price of a port", 0.0, False),
        "switch_energy": Attribute("J/B", "switch_energy_J_per_B", "energy per byte through a port", 0.0, False),
    },
}
"""Numeric attributes by kind of library entry."""

ROLES = {
    "workload": "workload",
    "chip": "chip",
    "topology": "topology",
    "memory": "memory",
    "link": "link",
    "outer_link": "link",
}
"""Columns whose values are library entries, and the kind of entry. `link` serves the first network dimension,
`outer_link` the others (the same as `link` unless a study says otherwise)."""

NUMBERS: dict[str, Attribute] = {
    "chips": Attribute("", "chips", "chips of the system", None, integer=True),
    "dim_x": Attribute("", "dim_x", "chips along the first network dimension", None, integer=True),
    "dim_y": Attribute("", "dim_y", "extent of the second network dimension", 1.0, integer=True),
    "dim_z": Attribute("", "dim_z", "extent of the third network dimension", 1.0, integer=True),
    "tensor_parallel": Attribute("", "tensor_parallel", "chips that share each kernel", 1.0, integer=True),
    "pipeline_parallel": Attribute("", "pipeline_parallel", "pipeline stages", 1.0, integer=True),
    "data_parallel": Attribute("", "data_parallel", "replicas of the model", 1.0, integer=True),
    "microbatch": Attribute("", "microbatch", "samples that pass the pipeline together", 1.0, integer=True),
    "compute_efficiency": Attribute("", "compute_efficiency", "attainable share of peak compute", 0.9, maximum=1.0),
    "memory_efficiency": Attribute("", "memory_efficiency", "attainable share of memory bandwidth", 1.0, maximum=1.0),
    "link_efficiency": Attribute("", "link_efficiency", "attainable share of link bandwidth", 1.0, maximum=1.0),
    "optimizer_state": Attribute("B", "optimizer_state_B", "optimizer bytes per parameter", 12.0, False),
}
"""Numbers that an axis may sweep, beyond the attributes of library entries."""

SWITCH_DEFAULTS = {
    "overlap": "full",
    "weight_traffic": "per_microbatch",
    "gradient_traffic": "read_modify_write",
    "optimizer_traffic": "per_iteration",
    "tensor_traffic": "per_tensor",
    "capacity_model": "training_state",
    "sharding": "least_time",
    "pipeline_bubble": "one_f_one_b",
    "pipeline_transfer": "per_microbatch",
    "gradient_all_reduce": "overlapped",
    "all_to_all_model": "busiest_link",
    "latency": "included",
    "process_grid_network": "topology_aware",
    "outer_links": "shared",
    "placement": "tensor_pipeline_data",
}
"""Full physics: what a study gets when it does not say otherwise."""

assert SWITCH_DEFAULTS.keys() == SWITCHES.keys()
