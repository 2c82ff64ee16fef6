"""Messages of the groups of a parallelism, all of which send at once, and the share of a link's rate that they get.

Along every dimension a chip's place is a number in mixed radix: a digit for each parallelism, the nearest first. Digits
that are *inside* tell the members of a group apart, the others the groups. In a dimension of links between neighbours,
or of switches, each member sends to the next one (and, both ways round, to the one before), in a full connection to all
others.

A share is what the slowest message gets of the rate that one has without others, that of the slowest link which the
members have between them. All messages of a collective are as long, so the slowest one ends it.
"""

from typing import NamedTuple

import numpy as np

from sweeper.kernels.codes import FULLY_CONNECTED, SWITCH
from sweeper.kernels.equation import compiled
from sweeper.kernels.shared.contention.max_min import max_min_rates
from sweeper.kernels.shared.contention.routes import (
    AXES,
    Wires,
    capacities,
    chips_below,
    coordinate,
    longest,
    moved,
    route,
    ways_of,
)

MOST_CHIPS = 2.0**20
"""Networks of more chips are not routed: their shares are not a number, so that such points are infeasible."""


class Digits(NamedTuple):
    """Radices of the digits along every dimension, and which of them are inside a group: (dimension, digit)."""

    radices: np.ndarray
    inside: np.ndarray


class Span(NamedTuple):
    """Dimensions over which members are counted on, from the first to before the end."""

    first: int
    end: int


class Messages(NamedTuple):
    """Chips that send, and to whom: at most `rate_Bps`, that of the slowest link between members, each."""

    origins: np.ndarray
    targets: np.ndarray
    rate_Bps: float


@compiled
def next_along(digits: Digits, axis: int, place: int) -> tuple[int, bool]:
    """Place of the next member along a dimension, and whether that is the first again."""
    radices, inside = digits
    width, found, carries = 1, place, True
    for i in range(radices.shape[1]):
        radix = radices[axis, i]
        if inside[axis, i] and carries:
            digit = found // width % radix
            carries = digit + 1 == radix
            found += width * (-digit if carries else 1)
        width *= radix
    return found, carries


@compiled
def next_member(wires: Wires, digits: Digits, span: Span, chip: int) -> int:
    """The next member of a chip's group along the dimensions of a span, the first dimension fastest."""
    for axis in range(span.first, span.end):
        place, carries = next_along(digits, axis, coordinate(wires, chip, axis))
        chip = moved(wires, chip, axis, place)
        if not carries:
            break
    return chip


@compiled
def members(digits: Digits, span: Span) -> int:
    """Members of a group along the dimensions of a span."""
    count = 1
    for axis in range(span.first, span.end):
        for i in range(digits.radices.shape[1]):
            count *= digits.radices[axis, i] if digits.inside[axis, i] else 1
    return count


@compiled
def slowest(wires: Wires, digits: Digits, span: Span) -> tuple[float, bool]:
    """Rate of a message alone on the slowest links between members, and whether some are a full connection. Messages
    both ways round halve a port, or the one link of two chips."""
    rate_Bps, full = np.inf, False
    for axis in range(span.first, span.end):
        kind, extent = wires.kinds[axis], wires.extents[axis]
        if members(digits, Span(axis, axis + 1)) > 1:
            halves = wires.both_ways and kind != FULLY_CONNECTED and (kind == SWITCH or extent == 2)
            rate_Bps = min(rate_Bps, wires.rates_Bps[axis] / (2.0 if halves else 1.0))
            full = full or kind == FULLY_CONNECTED
    return rate_Bps, full


@compiled
def messages(wires: Wires, digits: Digits, span: Span) -> Messages:
    """Those of all groups of a parallelism, each along the dimensions of a span."""
    chips, size = chips_below(wires, AXES), members(digits, span)
    rate_Bps, full = slowest(wires, digits, span)
    partners = size - 1 if full else min(size - 1, 1)
    origins, targets = np.empty(chips * partners, np.int64), np.empty(chips * partners, np.int64)
    for chip in range(chips):
        target = chip
        for partner in range(partners):
            target = next_member(wires, digits, span, target)
            origins[chip * partners + partner], targets[chip * partners + partner] = chip, target
    if wires.both_ways and not full:
        return Messages(np.concatenate((origins, targets)), np.concatenate((targets, origins)), rate_Bps)
    return Messages(origins, targets, rate_Bps)


@compiled
def fair_rates(wires: Wires, sent: Messages) -> np.ndarray:
    """Rates of messages that have the network for themselves, over those that one has alone."""
    limits = np.full(len(sent.origins), sent.rate_Bps)
    return max_min_rates(ways_of(wires, sent.origins, sent.targets), limits, capacities(wires)) / sent.rate_Bps


@compiled
def fair_share(wires: Wires, digits: Digits, span: Span) -> float:
    """Share of its rate that the slowest message of a parallelism gets; 1 where there are no messages."""
    rates = fair_rates(wires, messages(wires, digits, span))
    return rates.min() if len(rates) > 0 else 1.0


@compiled
def all_messages(wires: Wires, digits: Digits) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Messages of a parallelism along every dimension at once, as pieces of a long message are: origins, targets, and
    the rate of each alone."""
    x, y, z = (
        messages(wires, digits, Span(0, 1)),
        messages(wires, digits, Span(1, 2)),
        messages(wires, digits, Span(2, 3)),
    )
    rates = np.concatenate(
        (np.full(len(x.origins), x.rate_Bps), np.full(len(y.origins), y.rate_Bps), np.full(len(z.origins), z.rate_Bps))
    )
    return np.concatenate((x.origins, y.origins, z.origins)), np.concatenate((x.targets, y.targets, z.targets)), rates


@compiled
def beside(wires: Wires, own: Digits, other: Digits) -> tuple[float, float]:
    """Shares of their rates that two parallelisms keep while both send: of the message that loses most."""
    own_origins, own_targets, own_Bps = all_messages(wires, own)
    other_origins, other_targets, other_Bps = all_messages(wires, other)
    if len(own_Bps) == 0 or len(other_Bps) == 0:
        return 1.0, 1.0
    carried = capacities(wires)
    alone = np.concatenate(
        (
            max_min_rates(ways_of(wires, own_origins, own_targets), own_Bps, carried),
            max_min_rates(ways_of(wires, other_origins, other_targets), other_Bps, carried),
        )
    )
    origins, targets = np.concatenate((own_origins, other_origins)), np.concatenate((own_targets, other_targets))
    together = max_min_rates(ways_of(wires, origins, targets), np.concatenate((own_Bps, other_Bps)), carried)
    kept, count = together / alone, len(own_Bps)
    return min(kept[:count].min(), 1.0), min(kept[count:].min(), 1.0)


@compiled
def busiest_s_per_B(wires: Wires, digits: Digits, span: Span) -> float:
    """Seconds per byte of one message on the busiest link, if every member sends to each other along a span."""
    loads, path = np.zeros(len(capacities(wires))), np.empty(longest(wires), np.int64)
    for chip in range(chips_below(wires, AXES)):
        target = chip
        for _ in range(members(digits, span) - 1):
            target = next_member(wires, digits, span, target)
            for hop in range(route(wires, chip, target, path)):
                loads[path[hop]] += 1.0
    return (loads / capacities(wires)).max() if len(loads) > 0 else 0.0


@compiled
def level(wires: Wires) -> Wires:
    """The same network without oversubscription."""
    return Wires(wires.kinds, wires.extents, wires.rates_Bps, (1.0, 1.0, 1.0), wires.shared, wires.both_ways)


@compiled
def exchange_share(wires: Wires, digits: Digits, span: Span) -> float:
    """What oversubscription takes of an all-to-all over what it takes of messages between neighbours, of which fewer
    leave a block."""
    if wires.oversubscription == (1.0, 1.0, 1.0) or members(digits, span) == 1:
        return 1.0
    free = level(wires)
    exchanged = busiest_s_per_B(free, digits, span) / busiest_s_per_B(wires, digits, span)
    return exchanged * fair_share(free, digits, span) / fair_share(wires, digits, span)
