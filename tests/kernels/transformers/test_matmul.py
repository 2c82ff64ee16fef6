"""Time of a matrix product: bounds, limits, what may not make it shorter, the plain twin, and measured GEMMs."""

from dataclasses import astuple, dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.kernels.transformers.matmul import Product, gemm_time
from sweeper.kernels.transformers.rates import Chip
from tests.support.examples import compared, examples
from tests.support.quick import quick
from tests.twins.naive_matmul import candidates

QUICK = examples(150)
EXACT = 1e-12
"""Rounding of sums in another order."""


@dataclass(frozen=True)
class Gemm:
    """A batch of products (m x k)(k x n) on a chip, in the order of the twin's parameters."""

    batch: float = 1.0
    m: float = 4096.0
    n: float = 4096.0
    k: float = 4096.0
    a_B: float = 2.0
    b_B: float = 2.0
    c_B: float = 2.0
    peak_flops: float = 312e12
    memory_Bps: float = 2.039e12
    cores: float = 108.0
    core_sram_B: float = 164e3
    l2_B: float = 40e6
    l2_Bps: float = 5.4e12

    def parts(self) -> tuple[float, float, float, float]:
        numbers = astuple(self)
        product, chip = Product(*numbers[:7]), Chip(*numbers[9:], l2_multicast=1.0, matrix_width=0.0)
        return gemm_time(product, self.peak_flops, self.memory_Bps, chip)

    def seconds(self) -> float:
        return max(self.parts()[:3])

    def flops(self) -> float:
        return 2.0 * self.batch * self.m * self.n * self.k

    def once_B(self) -> float:
        """Every operand and output moved once."""
        return self.batch * (self.m * self.k * self.a_B + self.k * self.n * self.b_B + self.m * self.n * self.c_B)


extents = st.one_of(st.integers(1, 300), st.sampled_from([512, 1000, 1024, 4096, 5120, 11008, 16384])).map(float)
element_sizes = st.sampled_from([0.5625, 1.0, 2.0, 4.0])
gemms = st.builds(
    Gemm,
    batch=st.sampled_from([1.0, 2.0, 7.0, 64.0]),
    m=extents,
    n=extents,
    k=extents,
    a_B=element_sizes,
    b_B=element_sizes,
    c_B=element_sizes,
    peak_flops=st.floats(1e13, 1e16),
    memory_Bps=st.floats(1e11, 1e13),
    cores=st.sampled_from([1.0, 8.0, 108.0, 132.0, 1000.0]),
    core_sram_B=st.sampled_from([32e3, 80e3, 164e3, 228e3, 64e6]),
    l2_B=st.sampled_from([0.0, 4e6, 40e6, 126e6]),
    l2_Bps=st.sampled_from([0.0, 1e12, 5.4e12, 26e12]),
)


@QUICK
@given(gemms)
def test_every_part_is_at_least_its_roofline_bound(gemm: Gemm) -> None:
    compute_s, l2_s, memory_s, memory_B = gemm.parts()
    assert compute_s >= gemm.flops() / gemm.peak_flops * (1.0 - EXACT)
    assert memory_B >= gemm.once_B() * (1.0 - EXACT)
    assert memory_s >= memory_B / gemm.memory_Bps * (1.0 - EXACT)
    if gemm.l2_B > 0.0 and gemm.l2_Bps > 0.0:
        assert l2_s >= gemm.once_B() / gemm.l2_Bps * (1.0 - EXACT)
    else:
        assert l2_s == 0.0


@compared()
@given(quick(gemms))
def test_best_of_all_tiles_and_splits_of_the_twin(gemm: Gemm) -> None:
    found = gemm.parts()
    whole = [int(value) for value in (gemm.batch, gemm.m, gemm.n, gemm.k)]
    rest = astuple(gemm)[4:]
    tried = list(candidates(*whole, *rest[:5], int(gemm.cores), *rest[6:]))
    assert max(found[:3]) == pytest.approx(min(max(parts[:3]) for parts in tried), rel=EXACT)
    assert any(found == pytest.approx(parts, rel=1e-9) for parts in tried)


@QUICK
@given(
    gemms,
    st.sampled_from(["k", "batch", "a_B", "b_B", "c_B"]),
    st.sampled_from(["peak_flops", "memory_Bps", "l2_B"]),
    st.integers(1, 9),
)
def test_more_work_takes_no_less_and_a_faster_chip_no_more(gemm: Gemm, work: str, rate: str, more: int) -> None:
    # Without L2 the size of a cache is no property of the chip: growing it from nothing would add a level.
    gemm = replace(gemm, l2_B=gemm.l2_B or 4e6)
    heavier = replace(gemm, **{work: getattr(gemm, work) + more})
    faster = replace(gemm, **{rate: getattr(gemm, rate) * (1.0 + more)})
    assert heavier.seconds() >= gemm.seconds() * (1.0 - EXACT)
    assert faster.seconds() <= gemm.seconds() * (1.0 + EXACT)


@QUICK
@given(gemms)
def test_the_transposed_product_takes_as_long(gemm: Gemm) -> None:
    transposed = replace(gemm, m=gemm.n, n=gemm.m, a_B=gemm.b_B, b_B=gemm.a_B)
    assert transposed.seconds() == pytest.approx(gemm.seconds(), rel=EXACT)


@pytest.mark.parametrize("extent", [0.0, 65536.0])
def test_limits_of_size(extent: float) -> None:
    gemm = Gemm(m=extent, n=extent, k=extent)
    assert gemm.seconds() == pytest.approx(gemm.flops() / gemm.peak_flops, rel=0.002)


def test_one_tile_runs_on_one_core_and_draws_two_shares() -> None:
    gemm = Gemm(m=64.0, n=64.0, k=64.0)
    compute_s, l2_s, memory_s, memory_B = gemm.parts()
    assert compute_s == pytest.approx(gemm.flops() / (gemm.peak_flops / gemm.cores))
    assert memory_B == gemm.once_B()
    assert l2_s == memory_s == pytest.approx(gemm.once_B() / (2.0 * gemm.l2_Bps / gemm.cores))


def test_a_matrix_times_a_vector_reads_the_matrix_once_at_full_bandwidth() -> None:
    for gemm in (Gemm(m=1.0, n=16384.0, k=16384.0), Gemm(m=16384.0, n=1.0, k=16384.0)):
        assert gemm.parts()[3] == pytest.approx(gemm.once_B(), rel=1e-3)
        assert gemm.seconds() == pytest.approx(gemm.once_B() / gemm.memory_Bps, rel=1e-3)
        assert gemm.parts()[2] == gemm.seconds()


def test_few_tiles_are_split_and_cost_the_joining() -> None:
    gemm = Gemm(m=256.0, n=256.0, k=65536.0)
    one_core_per_tile_s = gemm.flops() / (gemm.peak_flops * 16.0 / gemm.cores)
    assert gemm.flops() / gemm.peak_flops + 2e-6 < gemm.seconds() < one_core_per_tile_s / 2.0


@pytest.mark.parametrize(
    ("columns", "waves"), [(108.0, 1.0), (109.0, 2.0), (216.0, 2.0), (217.0, 3.0), (1080.0, 10.0), (1081.0, 11.0)]
)
def test_one_more_tile_than_cores_costs_a_whole_wave(columns: float, waves: float) -> None:
    # One tile row of 64, with a core that holds no larger tile.
    gemm = Gemm(m=64.0, n=64.0 * columns, k=64.0, core_sram_B=0.0, memory_Bps=1e18, l2_Bps=1e18)
    assert gemm.seconds() == pytest.approx(waves * 2.0 * 64.0**3 * gemm.cores / gemm.peak_flops)


NSIGHT = [
    (16384.0, 12288.0, 4096.0, 1.040302, 7.444512),
    (16384.0, 4096.0, 11008.0, 1.052425, 6.545024),
    (16384.0, 8192.0, 28672.0, 1.054792, 33.594464),
    (1024.0, 4096.0, 4096.0, 1.042899, 0.206688),
    (1024.0, 4096.0, 14336.0, 1.048398, 0.683584),
    (1024.0, 57344.0, 8192.0, 1.049975, 4.355616),
    (1024.0, 18432.0, 16384.0, 1.040205, 2.85632),
]
"""m, n, k, clock in GHz, measured ms: fp16 GEMMs under Nsight on A100 (RAPID-LLM repository)."""


@pytest.mark.parametrize(("m", "n", "k", "clock_GHz", "measured_ms"), NSIGHT)
def test_measured_gemms_at_a_locked_clock(m: float, n: float, k: float, clock_GHz: float, measured_ms: float) -> None:
    """2048 flop per clock and core; 97 % of it and 9.4 us under the profiler are fitted to the 42 GEMMs there."""
    attainable_flops = 0.971 * 108.0 * 2048.0 * clock_GHz * 1e9
    gemm = Gemm(m=m, n=n, k=k, peak_flops=attainable_flops, memory_Bps=1.6e12, l2_Bps=5.4e12 * clock_GHz / 1.41)
    assert gemm.seconds() + 9.4e-6 == pytest.approx(measured_ms * 1e-3, rel=0.03)
