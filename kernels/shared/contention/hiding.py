"""What two kinds of messages cost each other that share links and run at the same time."""

from typing import NamedTuple

from sweeper.kernels.equation import compiled


class Beside(NamedTuple):
    """Shares of their rates that tensor-parallel traffic and the reduction of gradients keep while both send."""

    tensor_beside_data: float
    data_beside_tensor: float


class Sending(NamedTuple):
    """Seconds of a pass in which tensor-parallel messages are under way, and those that they have to spare in it."""

    sent_s: float
    idle_s: float


@compiled
def waiting_s(reduce_s: float, pass_s: float, sending: Sending, beside: Beside) -> float:
    """Seconds that a reduction and the pass beside it take longer because their messages share links.

    Beside those of the pass the reduction goes on at a share of its rate. They go on at a share of theirs, which delays
    the pass when they have no more time to spare; a reduction that ends early delays that part of the pass only.
    """
    whole = beside.tensor_beside_data == 1.0 and beside.data_beside_tensor == 1.0
    sent_s = min(sending.sent_s, pass_s)
    if whole or reduce_s <= 0.0 or sent_s <= 0.0:
        return 0.0
    slowed_s, idle_s = sent_s / beside.tensor_beside_data, min(sending.idle_s, pass_s - sent_s)
    late_s = max(slowed_s - sent_s - idle_s, 0.0)
    hidden_s = pass_s + late_s - (1.0 - beside.data_beside_tensor) * slowed_s
    return min(reduce_s / hidden_s, 1.0) * late_s + max(reduce_s - hidden_s, 0.0) - max(reduce_s - pass_s, 0.0)
