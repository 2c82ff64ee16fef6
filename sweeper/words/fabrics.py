"""The words of reconfigurable dataflow fabrics: their numbers, with units and meanings."""

from sweeper.words.attributes import Attribute, vocabulary, whole
from sweeper.words.ranges import ARRAY, LINE_B, RATIO, UNITS

PLACEMENTS = "placements"
"""Key by which a study is one of placements."""

FABRIC = vocabulary(
    rows=whole("rows of sites", ARRAY),
    columns=whole("columns of compute and memory units; address generators stand beside the first and the last", ARRAY),
    lanes=whole("lanes of a link between neighbouring switches, in each direction", ARRAY),
    ports=whole("ports from a unit into its switch, and as many back", ARRAY),
    hop_cycles=whole("cycles from one switch to the next", ARRAY),
    queue_bursts=whole("bursts that a queue behind a lane holds, per virtual channel", ARRAY),
    input_bursts=whole("bursts that an input of a unit holds", ARRAY),
    word=Attribute("B", "bytes of an element"),
    vector=Attribute("B", "bytes that a lane carries per cycle", limits=LINE_B),
    compute_lanes=whole("rows of a compute unit's array: elements of a vector that it takes per cycle", ARRAY),
    compute_stages=whole("columns of a compute unit's array: stages of its pipeline", ARRAY),
    startup_cycles=whole("cycles until a unit's first result emerges, beyond its stages", UNITS),
    accumulator=Attribute("", "words of a partial sum, in words of the result", limits=RATIO),
    sum_cycles=Attribute("", "cycles of a compute unit to add a vector to another one", limits=RATIO),
    activation_cycles=Attribute("", "cycles of a compute unit for the activation of a vector", limits=RATIO),
    norm_cycles=Attribute("", "cycles of a compute unit for a vector of a row that it normalises", limits=RATIO),
    softmax_cycles=Attribute("", "cycles of a compute unit for a vector of a row whose softmax it takes", limits=RATIO),
    memory_capacity=Attribute("B", "capacity of a memory unit"),
    memory_vectors=whole("vectors that a memory unit reads per cycle, and as many that it writes", ARRAY),
    dram_channels=whole("channels to the memory outside, shared by the address generators", UNITS),
    dram_bandwidth=Attribute("B/s", "bandwidth of all channels together"),
    frequency=Attribute("Hz", "clock"),
)
"""Numbers of a fabric."""
