"""Power with that of the cooling: as a column of every family, and as a family that is judged by it."""

from sweeper.kernels.equation import Output, equation
from sweeper.kernels.shared.metrics import efficiency
from sweeper.plugins import Variant
from sweeper.words.attributes import fraction

NUMBERS = {"cooling": fraction("power of the cooling over that of the system", 0.1)}


@equation(Output("cooled_power_W", "W", "power of the system with its cooling"), source="a share of the power")
def cooled_power(system_power_W: float, cooling: float) -> float:
    return system_power_W * (1.0 + cooling)


COOLED = Variant(
    "operators", (efficiency.of("cooled_efficiency", *efficiency.outputs, system_power_W="cooled_power_W"),)
)
