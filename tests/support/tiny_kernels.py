"""Kernels that compile in an instant: two helpers, two equations, and the stage that fuses these."""

from sweeper.kernels.equation import Output, compiled, equation


@compiled
def doubled(x: float) -> float:
    return 2.0 * x


@compiled
def tripled(x: float) -> float:
    """Has the byte code of `doubled`, so that Numba alone cannot tell their files apart."""
    return 3.0 * x


@equation(Output("area_mm2", "mm2", "twice a square"), source="made up")
def area(side_mm: float) -> float:
    return doubled(side_mm) * side_mm


@equation(Output("price_usd", "usd", "thrice the area"), source="made up")
def price(area_mm2: float) -> float:
    return tripled(area_mm2)
