"""What is physically possible: the least and the largest value of a number, by its unit and by what it counts.

Wide enough for the far past and future, a bit and a planet of chips; narrow enough that no product of numbers leaves
float64, and that every whole number is exact in it. Zero is not of a range: a number whose 0 has a meaning allows it
besides.
"""

from sweeper.kernels.codes import OPERATIONS

Range = tuple[float, float]
"""Least and largest value, both allowed, in the SI unit."""

YEAR_S = 31_536_000.0

BY_UNIT: dict[str, Range] = {
    "B/s": (1.0, 1e18),  # a teletype to an exabyte per second of one device
    "b/s": (1.0, 1e19),  # the same, in bits
    "B": (0.125, 1e18),  # a bit to an exabyte in one device
    "Hz": (1.0, 1e15),  # a clock by hand to that of light
    "s": (1e-15, 1000 * YEAR_S),  # a femtosecond, in which light passes a transistor, to a millennium
    "1/s": (1e-12, 1e24),  # a cost that takes 30,000 years to add up, to operations of the fastest chip
    "flop/s": (1.0, 1e24),  # arithmetic by hand to a million exaflops of one chip
    "flop": (1.0, 1e30),  # one operation to more than any training run
    "V": (0.05, 50.0),  # twice the thermal voltage at room temperature to that of a board's supply
    "W": (1e-9, 1e13),  # a sensor asleep to all of mankind's power
    "J/B": (1e-24, 1.0),  # below Landauer's limit (reversible logic) to a telegraph
    "J/b": (1e-25, 1.0),  # the same, in bits
    "J/flop": (1e-24, 1e3),  # reversible logic to vacuum tubes
    "W/B": (1e-24, 1.0),  # no leakage worth the name to a latch of relays
    "usd": (1e-6, 1e15),  # less than a transistor ever cost to ten times the world's product
    "usd/s": (1e-12, 1e9),  # a cent per three centuries to a billion per second
    "usd/J": (1e-15, 1.0),  # a kilowatt-hour from nanodollars to millions
    "usd/W": (1e-6, 1e6),
    "usd/B": (1e-18, 1e6),  # an exabyte for a dollar to core memory
    "usd/(B/s)": (1e-18, 1e6),
    "usd/mm^2": (1e-9, 1e12),
    "kg": (1e-9, 1e14),  # a microgram to all carbon dioxide of a year
    "kg/J": (1e-15, 1e-3),
    "kg/B": (1e-18, 1e3),  # a gram per petabyte to core memory
    "kg/mm^2": (1e-12, 1e3),
    "J/mm^2": (1e-6, 1e12),
    "A/mm^2": (1e-6, 1e9),
    "W/mm^2": (1e-9, 1e6),  # a wristwatch to a laser's spot
    "mm": (1e-7, 1e5),  # an atom to a hundred metres
    "mm^2": (1e-12, 1e7),  # a square nanometre to ten square metres
    "mm^2/B": (1e-15, 1e6),  # a byte in a square of atoms to one in a rack
    "1/mm": (1e-6, 1e7),
    "J/B/mm": (1e-24, 1.0),
    "s/mm": (1e-15, 1.0),
    "A": (1e-12, 1e6),  # a leaking transistor to a smelter
    "K": (1e-6, 1e4),
    "mm^2*K/W": (1e-3, 1e9),  # diamond a micrometre thick to still air
    "1/mm^2": (1e-12, 1e14),  # a defect per square kilometre to an atom each
}
"""Ranges of the numbers that have a unit."""

# Numbers without a unit say what they count or compare.

ONE: Range = (1.0, 1.0)
SHARE: Range = (1e-12, 1.0)
"""Parts of a whole, yields and probabilities."""
EFFICIENCY: Range = (1e-6, 1.0)
"""What is attained of a rate: less than a millionth would be another machine."""
SHORT_OF_ALL: Range = (1e-12, 0.99)
"""Shares that leave something."""
RATIO: Range = (1e-6, 1e6)
"""One number over another of its kind."""
LINE_B: Range = (0.125, 65536.0)
"""Bytes that move at once: a bit on a wire to a page of memory."""
OVERSUBSCRIPTION: Range = (1.0, 1000.0)
"""What can be sent into a network over what it carries on."""
IMBALANCE: Range = (1.0, 1e6)
"""The largest of some numbers over their mean."""
OVERHEAD: Range = (1.0, 100.0)
"""All over the useful part of it."""
FACTOR: Range = (1e-2, 1e2)
"""Corrections, and excess over the least that it takes."""
WEIGHT: Range = (1e-9, 1e9)
"""Importance of one thing over that of another."""

CHIPS: Range = (1.0, 1e9)
"""Chips, and groups of them: ten planets of them."""
UNITS: Range = (1.0, 1e9)
"""Equal parts of a chip."""
ARRAY: Range = (1.0, 1e6)
"""Sides of an array of arithmetic units."""
LAYERS: Range = (1.0, 1e6)
"""Layers of a model, and what is cut along them."""
WIDTH: Range = (1.0, 1e9)
"""Widths, heads and experts of a model."""
LENGTH: Range = (1.0, 1e12)
"""Tokens of a sequence, samples of a batch, sides of a product."""
PER_NUMBER_B: Range = (1e-3, 1e6)
"""Bytes per parameter or element: many may share a bit."""
BUCKET: Range = (1e3, 1e15)
"""Parameters that travel together: a packet of them to more than any model has."""
TOKENS: Range = (1.0, 1e18)
"""Tokens of a training run."""
ZERO_STAGE: Range = (1.0, 3.0)
OPERATION: Range = (1.0, len(OPERATIONS) - 1.0)
"""Codes of what is chosen; the first is 0."""
DRAFT: Range = (1.0, 32.0)
"""Tokens and branches of a draft, which are taken one by one."""
EXACT: Range = (1.0, 1e15)
"""Whole numbers that float64 tells apart."""

PARTS: Range = (1.0, 1e6)
"""Dies, units that may be spare, machines, pads: what is put together in a package."""
STACKED: Range = (1.0, 64.0)
"""Dies on top of each other."""
VOLUME: Range = (1.0, 1e15)
"""Things made of one design, patterns of a test."""
DEFECTS_PER_MM2: Range = (1e-12, 1.0)
"""Defects that kill: one per square kilometre to a hundred per square centimetre, more than any process had."""
WAFER_MM: Range = (10.0, 3000.0)
"""Wafers: an inch to the glass of a display."""
RETICLE_MM: Range = (0.1, 3000.0)
"""Fields of an exposure: as large as the wafer where it is exposed whole."""
ASPECT: Range = (1e-3, 1e3)
"""Width over height."""
EXPONENT: Range = (1e-2, 1e2)
"""What stands in the exponent: more would be another law."""
LIFE_S: Range = (1.0, 1000 * YEAR_S)
"""What is written off lives a second at least."""
YEARS: Range = (1971.0, 2100.0)
"""From the first microprocessor on."""
INTEREST: Range = (1e-12, 1e-3)
"""Cost of capital or upkeep per second: to doubling within a quarter of an hour."""
VOLTAGE_STEP: Range = (1e-3, 50.0)
"""Voltages that are differences or thresholds."""

PARAMETER: Range = (1e-30, 1e18)
"""Numbers that a workload names for itself, of any unit."""
AMOUNT: Range = (1e-30, 1e18)
"""Sizes and bytes that an expression gives: what an int64 holds."""
