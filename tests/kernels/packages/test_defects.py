"""Defect yield and harvesting: twins in 250 digits, quadrature over fault rates, limits, and what grows with what."""

import math
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from sweeper.kernels.packages import defects
from tests.support.examples import compared, examples
from tests.twins import naive_wafer as naive

FAST = examples(200)
MODELS = defects.YIELD_MODELS

models = st.sampled_from(range(len(MODELS)))
faults = st.one_of(st.just(0.0), st.floats(1e-6, 100.0))
few_faults = st.floats(-4.0, 1.5).map(lambda exponent: 10**exponent)
clusterings = st.floats(-1.0, 5.0).map(lambda exponent: 10**exponent)
levels = st.sampled_from([1.0, 3.0, 12.0])
blocks = st.sampled_from([1, 2, 3, 6, 20, 64, 128, 256]).flatmap(
    lambda units: st.tuples(st.just(units), st.integers(0, min(units, 64)) | st.integers(max(0, units - 3), units))
)


@compared()
@given(model=models, mean=faults, clustering=clusterings | st.just(math.inf), n=levels)
def test_yield_equals_its_twin(model: int, mean: float, clustering: float, n: float) -> None:
    got = defects.die_yield(model, mean, clustering, n)
    assert got == pytest.approx(float(naive.die_yield(MODELS[model], Decimal(mean), clustering, n)), rel=1e-11)
    assert 0 <= got <= 1


@compared()
@given(model=models, rest=few_faults, unit=few_faults, block=blocks, clustering=clusterings, n=levels)
def test_harvested_yield_equals_its_twin(
    model: int, rest: float, unit: float, block: tuple[int, int], clustering: float, n: float
) -> None:
    got = defects.harvested_yield(model, rest, unit, *block, clustering, n)
    assert got == pytest.approx(naive.harvested_yield(MODELS[model], rest, unit, *block, clustering, n), abs=1e-11)


@pytest.mark.parametrize(("units", "spares"), [(6, 1), (128, 20), (256, 64), (256, 250)])
@pytest.mark.parametrize(("rest", "unit"), [(0.3, 0.003), (0.5, 0.4), (0.01, 3.0)])
@pytest.mark.parametrize("model", MODELS)
def test_harvested_yield_equals_quadrature(model: str, rest: float, unit: float, units: int, spares: int) -> None:
    """The definition itself: mean, over the fault rates of dies, of the yield of independent blocks."""
    rates = {
        "negative_binomial": stats.gamma(3.5, scale=1 / 3.5),
        "murphy": stats.triang(0.5, loc=0, scale=2),
        "seeds": stats.expon(),
        "bose_einstein": stats.erlang(4),
    }
    middle = -math.log1p(-(spares + 1) / (units + 1)) / unit

    def given_rate(rate: float) -> float:
        return float(math.exp(-rest * rate) * stats.binom.cdf(spares, units, -math.expm1(-unit * rate)))

    if model == "poisson":
        want = given_rate(1.0)
    else:
        density = rates[model].pdf
        end = 2.0 if model == "murphy" else 60.0
        marks = sorted({min(mark, end) for mark in (0.0, 1.0, 2.0, 4.0, middle / 2, middle, 2 * middle, end)})
        want = sum(
            integrate.quad(lambda g: density(g) * given_rate(g), *piece, epsabs=1e-13, epsrel=1e-12, limit=200)[0]
            for piece in pairwise(marks)
        )
    got = defects.harvested_yield(MODELS.index(model), rest, unit, units, spares, 3.5, 4.0)
    assert got == pytest.approx(want, abs=1e-10)


@FAST
@given(model=models, rest=faults, unit=faults, block=blocks, clustering=clusterings, n=levels)
def test_harvesting_lies_between_no_spares_and_all(
    model: int, rest: float, unit: float, block: tuple[int, int], clustering: float, n: float
) -> None:
    units, spares = block
    none = defects.die_yield(model, rest + units * unit, clustering, n)
    every = defects.die_yield(model, rest, clustering, n)
    assert defects.harvested_yield(model, rest, unit, units, 0, clustering, n) == none
    assert defects.harvested_yield(model, rest, unit, units, units, clustering, n) == every
    got = defects.harvested_yield(model, rest, unit, units, spares, clustering, n)
    more = defects.harvested_yield(model, rest, unit, units, spares + 1, clustering, n)
    assert none <= got <= every * (1 + 1e-15)
    assert got <= more + 1e-12


@FAST
@given(model=models, rest=few_faults, unit=few_faults, block=blocks, clustering=clusterings, growth=st.floats(1, 3))
def test_yield_falls_with_faults(
    model: int, rest: float, unit: float, block: tuple[int, int], clustering: float, growth: float
) -> None:
    got = defects.harvested_yield(model, rest, unit, *block, clustering, 3.0)
    assert defects.harvested_yield(model, growth * rest, unit, *block, clustering, 3.0) <= got + 1e-12
    assert defects.harvested_yield(model, rest, growth * unit, *block, clustering, 3.0) <= got + 1e-12
    assert defects.die_yield(model, growth * rest, clustering, 3.0) <= defects.die_yield(model, rest, clustering, 3.0)


@FAST
@given(mean=few_faults, rest=few_faults, unit=few_faults, clustering=clusterings, n=levels, block=blocks)
def test_limits_of_clustering(
    mean: float, rest: float, unit: float, clustering: float, n: float, block: tuple[int, int]
) -> None:
    """Without bound Poisson, at 1 Seeds, at a number of levels Bose-Einstein; falling in between."""
    nb, poisson, seeds, bose = (
        defects.NEGATIVE_BINOMIAL, defects.POISSON, defects.SEEDS, defects.BOSE_EINSTEIN,
    )  # fmt: skip
    assert defects.die_yield(nb, mean, 1e12, 0.0) == pytest.approx(math.exp(-mean), rel=1e-8)
    assert defects.die_yield(nb, mean, math.inf, 0.0) == math.exp(-mean)
    assert defects.die_yield(nb, mean, 1.0, 0.0) == pytest.approx(defects.die_yield(seeds, mean, 0.0, 0.0), rel=1e-14)
    assert defects.die_yield(nb, n * mean, n, 0.0) == pytest.approx(defects.die_yield(bose, mean, 0.0, n), rel=1e-13)
    assert defects.die_yield(nb, mean, 2 * clustering, 0.0) <= defects.die_yield(nb, mean, clustering, 0.0) * (1 + 1e-9)
    independent = defects.harvested_yield(poisson, rest, unit, *block, 0.0, 0.0)
    assert defects.harvested_yield(nb, rest, unit, *block, math.inf, 0.0) == independent
    assert defects.harvested_yield(nb, rest, unit, *block, 1e12, 0.0) == pytest.approx(independent, abs=1e-8)
    assert defects.harvested_yield(nb, rest, unit, *block, 1.0, 0.0) == pytest.approx(
        defects.harvested_yield(seeds, rest, unit, *block, 0.0, 0.0), abs=1e-13
    )


@pytest.mark.parametrize("model", range(len(MODELS)))
def test_no_faults_and_unknown_ones(model: int) -> None:
    assert defects.die_yield(model, 0.0, 2.0, 3.0) == 1
    assert defects.die_yield(model, 1e-12, 2.0, 3.0) == pytest.approx(1, abs=1e-11)
    assert defects.harvested_yield(model, 0.0, 0.0, 128, 20, 2.0, 3.0) == 1
    assert defects.harvested_yield(model, 0.2, 0.0, 128, 20, 2.0, 3.0) == defects.die_yield(model, 0.2, 2.0, 3.0)
    assert math.isnan(defects.die_yield(model, math.nan, 2.0, 3.0))
    assert math.isnan(defects.harvested_yield(model, math.nan, 0.1, 128, 20, 2.0, 3.0))
    assert math.isnan(defects.harvested_yield(model, 0.1, math.nan, 128, 20, 2.0, 3.0))


def test_large_gpu() -> None:
    """826 mm2 at 0.09 faults per cm2, clustering 10: 108 of 128 cores, then 5 of 6 memory sites as well.

    Areas are those of a published floorplan of GA100 (LLMCompass, `die_area.csv` of its figure 6): 476.25 mm2 of
    cores, 31.77 mm2 of memory controllers; 10.45 mm2 per memory PHY (its cost model). The published yields have three
    digits and do not name their areas; these are the ones that give all three.
    """
    per_mm2, cores, sites = 0.0009, 476.25, 6 * 10.45 + 31.77
    model, clustering = defects.NEGATIVE_BINOMIAL, 10.0
    assert defects.die_yield(model, per_mm2 * 826, clustering, 0.0) == pytest.approx(0.488, abs=5e-4)
    harvested = defects.harvested_yield(model, per_mm2 * (826 - cores), per_mm2 * cores / 128, 128, 20, clustering, 0.0)
    assert harvested == pytest.approx(0.734, abs=5e-4)
    # Twenty spare cores are hardly ever all needed, so cores count as harmless where a memory site may be bad too.
    assert harvested == pytest.approx(defects.die_yield(model, per_mm2 * (826 - cores), clustering, 0.0), abs=1e-9)
    both = defects.harvested_yield(model, per_mm2 * (826 - cores - sites), per_mm2 * sites / 6, 6, 1, clustering, 0.0)
    assert both == pytest.approx(0.794, abs=5e-4)
