"""The words of reconfigurable dataflow fabrics: their numbers, with units and meanings."""

from sweeper.words.attributes import Attribute, vocabulary, whole
from sweeper.words.ranges import ARRAY, UNITS

FABRIC = vocabulary(
    rows=whole("rows of sites", ARRAY),
    columns=whole("columns of compute and memory units; address generators stand beside the first and the last", ARRAY),
    lanes=whole("lanes of a link between neighbouring switches, in each direction", ARRAY),
    ports=whole("ports from a unit into its switch, and as many back", ARRAY),
    hop_cycles=whole("cycles from one switch to the next", ARRAY),
    queue_bursts=whole("bursts that a queue behind a lane holds, per virtual channel", ARRAY),
    word=Attribute("B", "bytes of an element"),
    vector=Attribute("B", "bytes that a lane carries per cycle"),
    compute_lanes=whole("rows of a compute unit's array: elements of a vector that it takes per cycle", ARRAY),
    compute_stages=whole("columns of a compute unit's array: stages of its pipeline", ARRAY),
    memory_capacity=Attribute("B", "capacity of a memory unit"),
    memory_vectors=whole("vectors that a memory unit reads per cycle, and as many that it writes", ARRAY),
    dram_channels=whole("channels to the memory outside, shared by the address generators", UNITS),
    dram_bandwidth=Attribute("B/s", "bandwidth of all channels together"),
    frequency=Attribute("Hz", "clock"),
)
"""Numbers of a fabric."""
