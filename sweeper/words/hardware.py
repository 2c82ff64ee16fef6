"""The words of chips, memories and links: their numbers, with units and meanings."""

import math

from sweeper.words.attributes import Attribute, fraction, free, vocabulary, whole
from sweeper.words.ranges import ARRAY, FACTOR, SHORT_OF_ALL, UNITS

CHIP = vocabulary(
    cores=whole("compute cores, over which tiles and heads are spread", UNITS),
    lanes=whole("rows of a core's array", ARRAY, 1.0),
    stages=whole("columns of a core's array", ARRAY, 1.0),
    frequency=Attribute("Hz", "clock", 1.0),
    peak_flops=free("flop/s", "peak; 0 means 2 x cores x lanes x stages x frequency", column="given_peak_flops"),
    rated_cores=free("", "cores that efficiency is rated on; 0 means cores", limits=UNITS),
    sram_capacity=Attribute("B", "on-chip memory"),
    reconfiguration=free("s", "loading the next on-chip partition"),
    price=free("usd", "price of one chip", math.nan),
    power=free("W", "power of one chip without memory and links", None),
    carbon=free("kg", "carbon dioxide equivalent of making one on its package, without memory", math.nan),
    **{
        f"peak_flops_{name}": free(
            "flop/s", f"dense matrix peak in {name}; 0: not supported", column=f"peak_{name}_flops"
        )
        for name in ("fp32", "tf32", "fp8", "int8", "fp4")
    },
    scale_block=free("", "least numbers that share a scale (MX formats: 32, NVFP4: 16); 0: no scales", limits=UNITS),
    vector_flops=free(
        "flop/s", "peak of the vector units; 0: a column of each array in graphs, else the peak", column="vector_flops"
    ),
    exponentials=free("1/s", "exponentials per second; 0: free"),
    core_sram=free("B", "scratchpad or L1 of one core"),
    l2_capacity=free("B", "shared cache; 0: none"),
    l2_bandwidth=free("B/s", "bandwidth of the shared cache; 0: never binds"),
    l2_multicast=Attribute("", "cores that one fetch from the shared cache serves in products", 1.0, ARRAY),
    matrix_width=free("", "rows and columns of a matrix unit that small heads leave idle; 0: none", limits=ARRAY),
)
"""Numbers of a chip."""

MEMORY = vocabulary(
    bandwidth=Attribute("B/s", "bandwidth per chip"),
    capacity=Attribute("B", "capacity per chip"),
    price_per_bandwidth=free("usd/(B/s)", "price", math.nan, column="price_usd_per_Bps"),
    price_per_capacity=free("usd/B", "price", math.nan, column="price_usd_per_B"),
    energy=free("J/B", "energy per byte moved", math.nan),
    carbon_per_capacity=free("kg/B", "carbon dioxide equivalent of making it", math.nan, column="carbon_kg_per_B"),
)
"""Numbers of a memory; prices and an energy that nobody gives are not known, but of its two prices one is enough."""

LINK = vocabulary(
    bandwidth=Attribute("B/s", "one-direction rate of one link"),
    latency=free("s", "time of one hop for an empty message"),
    price_per_bandwidth=free("usd/(B/s)", "price of a link", math.nan, column="price_usd_per_Bps"),
    energy=free("J/B", "energy per byte moved over a link", math.nan),
    switch_price_per_bandwidth=free("usd/(B/s)", "price of a port", math.nan, column="switch_price_usd_per_Bps"),
    switch_energy=free("J/B", "energy per byte through a port", math.nan),
    in_network_reduction=free("", "share of the rate at which the switch sums; 0: it does not", limits=FACTOR),
    ordered=fraction("1 if messages arrive in order, as a library's protocols for small ones need", 1.0),
    host_bus=fraction("1 if it is a bus of the host, as PCIe: what it joins is one node to a library"),
    all_reduce_traffic=Attribute("", "bytes sent per byte that is all-reduced", 2.0, FACTOR),
    gather_traffic=Attribute("", "bytes sent per byte that is gathered or scattered", 1.0, FACTOR),
    own_share=fraction("1 if a chip does not send its own share of a collective", 1.0),
    processor_share=Attribute(
        "", "share of the chip that is busy with a collective", 0.0, SHORT_OF_ALL, positive=False
    ),
)
"""Numbers of a link, its switch and the network behind it; prices and energies that nobody gives are not known."""
