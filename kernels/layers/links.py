"""What graphs attain on links: the shares and costs of operator tables."""

from sweeper.kernels.equation import equation
from sweeper.kernels.graphs.rates import LAUNCH
from sweeper.kernels.layers.rates import CALIBRATED
from sweeper.kernels.shared.network import LINK_SHARES


@equation(*LINK_SHARES, source="calibrated shares", when=CALIBRATED)
def calibrated_link_shares(
    calibration_link_efficiency: float, calibration_outer_link_efficiency: float
) -> tuple[float, float]:
    """Those of the first dimension and of the others."""
    return calibration_link_efficiency, calibration_outer_link_efficiency


@equation(LAUNCH, source="calibrated cost", when=CALIBRATED)
def calibrated_launches(calibration_collective_launch_s: float) -> float:
    """A library launches every collective."""
    return calibration_collective_launch_s
