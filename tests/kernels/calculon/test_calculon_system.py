"""What a system attains of its peaks: steps of efficiency curves."""

import numpy as np
import pytest

from sweeper.kernels.calculon.system import CURVE_STEPS, efficiency


@pytest.mark.parametrize(
    ("amount", "share"), [(0.0, 0.1), (9.9, 0.1), (10.0, 0.6), (99.9, 0.6), (100.0, 0.9), (1e9, 0.9)]
)
def test_an_amount_at_a_threshold_has_reached_it(amount: float, share: float) -> None:
    curve = np.array([[100.0, 0.9], [10.0, 0.6], [0.0, 0.1]] + [[0.0, 0.1]] * (CURVE_STEPS - 3))
    assert efficiency(curve, amount) == share
