"""Energy of what groups of chips send."""

from typing import Annotated, NamedTuple

import numpy as np

from sweeper.kernels.equation import Output, compiled, equation
from sweeper.kernels.shared.energy import carried_J_per_B
from sweeper.kernels.shared.price import PerRate, amount
from sweeper.kernels.transformers.collectives import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER, dispatched
from sweeper.kernels.transformers.groups import G, group_at


@equation(
    Output("group_energy", "J/B", "per group: energy of a sent byte inside and outside the first dimension",
           (len(G), 2)),
    source="energy of links and of switch ports, as in the static power of a system",
)  # fmt: skip
def group_energy(
    group_network: np.ndarray, energy: Annotated[PerRate, "{}_energy_J_per_B"], group_energy: np.ndarray
) -> None:
    """Every byte crosses one link of the dimension in which it is sent."""
    for row in range(len(group_network)):
        group = group_at(group_network, row)
        group_energy[row, 0] = carried_J_per_B(group.inner_kind, energy.link, energy.link_switch)
        group_energy[row, 1] = carried_J_per_B(group.outer_kind, energy.outer_link, energy.outer_link_switch)


class Sending(NamedTuple):
    """Where groups lie on the network, and the energy of a byte that they send."""

    group_network: np.ndarray
    group_energy: np.ndarray


@compiled
def dispatched_J(sending: Sending, row: int, message_B: float, copies: float, most_nodes: float) -> float:
    """Energy of the tokens that one chip sends to their experts."""
    group = group_at(sending.group_network, row)
    if group.inner * group.outer <= 1.0:
        return 0.0
    inner_B, outer_B = dispatched(message_B, copies, most_nodes, group)
    return amount(inner_B, sending.group_energy[row, 0]) + amount(outer_B, sending.group_energy[row, 1])


@compiled
def sent_J(sending: Sending, row: int, operation: float, message_B: float) -> float:
    """Energy of what one chip sends in a collective that moves the fewest bytes: first dimension, then the others.

    Other algorithms send as many bytes or more; which one runs is not told apart here.
    """
    group = group_at(sending.group_network, row)
    inner, outer = group.inner, group.outer
    near, far = sending.group_energy[row, 0], sending.group_energy[row, 1]
    if inner * outer <= 1.0 or message_B <= 0.0:
        return 0.0
    inside, outside = (inner - 1.0) / inner, (outer - 1.0) / outer
    if operation == ALL_REDUCE:
        return 2.0 * message_B * (amount(inside, near) + amount(outside / inner, far))
    if operation == REDUCE_SCATTER or operation == ALL_GATHER:
        return message_B * (amount(inside, near) + amount(outside / inner, far))
    if operation == ALL_TO_ALL:
        return message_B * (amount(inside / outer, near) + amount(outside, far))
    return message_B * (far if outer > 1.0 else near)
