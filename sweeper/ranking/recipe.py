"""How networks are trained."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Recipe:
    """How a network is trained: width and rounds; epochs over the decisions, of batches of so many graphs with so many
    decisions each, which are ranked among each other; the largest learning rate; weight of the loss of ranks, and how
    far apart ranks count as different; and the seed."""

    width: int = 32
    rounds: int = 3
    epochs: int = 40
    graphs: int = 8
    decisions: int = 4
    rate: float = 3e-3
    rank_weight: float = 0.06
    rank_scale: float = 0.05
    seed: int = 0


OURS = Recipe(width=16, rounds=1, epochs=20, graphs=3, decisions=12, rank_weight=0.2)
PAPER = Recipe(epochs=20, rank_weight=0.0)
"""Recipes of our network, and of the paper's, which learns no ranks."""
ANEW = replace(OURS, epochs=60)
AGAIN = replace(OURS, epochs=20, rate=1e-3)
"""Recipes for few graphs: of a network that knows nothing yet, and of one that has learned before."""
