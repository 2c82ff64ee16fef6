"""The words of chips, memories and links: their numbers, with units and meanings."""

from sweeper.words.attributes import Attribute

CHIP: dict[str, Attribute] = {
    "cores": Attribute("", "cores", "compute cores", 1.0, integer=True),
    "lanes": Attribute("", "lanes", "rows of a core's array", 1.0, integer=True),
    "stages": Attribute("", "stages", "columns of a core's array", 1.0, integer=True),
    "frequency": Attribute("Hz", "frequency_Hz", "clock", 1.0),
    "peak_flops": Attribute(
        "flop/s", "given_peak_flops", "peak; 0 means 2 x cores x lanes x stages x frequency", 0.0, positive=False
    ),
    "rated_cores": Attribute("", "rated_cores", "cores that efficiency is rated on; 0 means cores", 0.0, False),
    "sram_capacity": Attribute("B", "sram_capacity_B", "on-chip memory"),
    "reconfiguration": Attribute("s", "reconfiguration_s", "loading the next on-chip partition", 0.0, False),
    "price": Attribute("usd", "price_usd", "price of one chip", positive=False),
    "power": Attribute("W", "power_W", "power of one chip without memory and links", positive=False),
    **{
        f"peak_flops_{name}": Attribute(
            "flop/s", f"peak_{name}_flops", f"dense matrix peak in {name}; 0: not supported", 0.0, positive=False
        )
        for name in ("fp32", "tf32", "fp8", "int8", "fp4")
    },
    "vector_flops": Attribute("flop/s", "vector_flops", "peak of the vector units; 0: as the matrix units", 0.0, False),
    "exponentials": Attribute("1/s", "exponentials_per_s", "exponentials per second; 0: free", 0.0, False),
    "core_sram": Attribute("B", "core_sram_B", "scratchpad or L1 of one core", 0.0, False),
    "l2_capacity": Attribute("B", "l2_capacity_B", "shared cache; 0: none", 0.0, False),
    "l2_bandwidth": Attribute("B/s", "l2_bandwidth_Bps", "bandwidth of the shared cache; 0: never binds", 0.0, False),
    "l2_multicast": Attribute("", "l2_multicast", "cores that one fetch from the shared cache serves in products", 1.0),
}
"""Numbers of a chip."""

MEMORY: dict[str, Attribute] = {
    "bandwidth": Attribute("B/s", "bandwidth_Bps", "bandwidth per chip"),
    "capacity": Attribute("B", "capacity_B", "capacity per chip"),
    "price_per_bandwidth": Attribute("usd/(B/s)", "price_usd_per_Bps", "price", 0.0, False),
    "price_per_capacity": Attribute("usd/B", "price_usd_per_B", "price", 0.0, False),
    "energy": Attribute("J/B", "energy_J_per_B", "energy per byte moved", 0.0, False),
}
"""Numbers of a memory."""

LINK: dict[str, Attribute] = {
    "bandwidth": Attribute("B/s", "bandwidth_Bps", "one-direction rate of one link"),
    "latency": Attribute("s", "latency_s", "time of one hop for an empty message", 0.0, False),
    "price_per_bandwidth": Attribute("usd/(B/s)", "price_usd_per_Bps", "price of a link", 0.0, False),
    "energy": Attribute("J/B", "energy_J_per_B", "energy per byte moved over a link", 0.0, False),
    "switch_price_per_bandwidth": Attribute("usd/(B/s)", "switch_price_usd_per_Bps", "price of a port", 0.0, False),
    "switch_energy": Attribute("J/B", "switch_energy_J_per_B", "energy per byte through a port", 0.0, False),
    "in_network_reduction": Attribute(
        "", "in_network_reduction", "share of the rate at which the switch sums; 0: it does not", 0.0, False
    ),
    "all_reduce_traffic": Attribute("", "all_reduce_traffic", "bytes sent per byte that is all-reduced", 2.0),
    "gather_traffic": Attribute("", "gather_traffic", "bytes sent per byte that is gathered or scattered", 1.0),
    "own_share": Attribute(
        "", "own_share", "1 if a chip does not send its own share of a collective", 1.0, False, maximum=1.0
    ),
    "processor_share": Attribute(
        "", "processor_share", "share of the chip that is busy with a collective", 0.0, False, maximum=0.99
    ),
}
"""Numbers of a link, its switch and the network behind it."""
