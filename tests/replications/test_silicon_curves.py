"""Figure 9 of DFModel: power over rate, printed as a polynomial, and price, whose trend is said to be alike."""

import pytest

from replications.silicon_curves import PUBLISHED_KW, Curve, chips, main, power_curve, price_curve
from tests.replications.test_published import half_of_last_digit


def test_the_four_chips() -> None:
    """Rates of table V of the paper, which rounds them."""
    rates = {chip.name: chip.tflops for chip in chips()}
    assert rates == pytest.approx({"tpu_v4": 275.0, "sn30": 614.0, "h100_sxm": 993.0, "wse_2": 7500.0}, rel=2e-3)


@pytest.mark.parametrize(("of", "digits"), [("square", "3e-7"), ("constant", "0.04")])
def test_coefficients_as_printed(of: str, digits: str) -> None:
    assert abs(getattr(power_curve(), of) - float(digits)) <= half_of_last_digit(digits)


def test_the_linear_coefficient_is_printed_2_percent_high() -> None:
    """4.3e-4 in print, 4.23e-4 by least squares over the inputs that we know."""
    assert power_curve() == pytest.approx(Curve(3.02e-7, 4.23e-4, 0.0444), rel=2e-3)
    assert PUBLISHED_KW[1] / power_curve().linear == pytest.approx(1.017, abs=1e-3)


def test_the_lost_sign_is_a_plus() -> None:
    """With a minus a TPU would deliver power."""
    square, linear, constant = PUBLISHED_KW
    tpu = chips()[0]
    assert Curve(square, -linear, constant).at(tpu.tflops) < 0.0
    for chip in chips():
        assert Curve(square, linear, constant).at(chip.tflops) == pytest.approx(chip.power_kW, rel=0.08)


def test_both_grow_faster_than_the_rate() -> None:
    """The paper: superlinear, and alike for the price."""
    for curve in (power_curve(), price_curve()):
        assert curve.square > 0.0
    slow, *_, fast = chips()
    assert fast.power_kW / slow.power_kW > 4 * fast.tflops / slow.tflops
    assert fast.price_kusd / slow.price_kusd > 4 * fast.tflops / slow.tflops


def test_it_prints_the_curve(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    printed = capsys.readouterr().out
    assert "power: 3.02e-07 X^2 + 0.000423 X + 0.0444 kW" in printed
    assert printed.count("\n") == 8
