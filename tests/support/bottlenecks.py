"""Problems for searches of budgets: bottlenecks with an exact solver, and a toy chip that counts in wholes."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from sweeper.engine.search.budgets import SharedBudgets

AREA, POWER, EDGE = tuple(range(7)), tuple(range(7, 14)), tuple(range(14, 17))
BUDGETS = SharedBudgets((AREA, POWER, EDGE), floor=0.01)


@dataclass(frozen=True)
class Bottlenecks:
    """Sum over operators of the largest of their terms exp(log_cost[term]) / prod x^power[term, variable].

    operator[term]: to which operator a term belongs, ascending. least[variable]: below it a point is infeasible.
    The logarithm is convex in log(x), so that the optimum is found exactly.
    """

    log_cost: np.ndarray
    power: np.ndarray
    operator: np.ndarray
    least: np.ndarray

    @property
    def operators(self) -> int:
        return int(self.operator[-1]) + 1

    def __call__(self, x: np.ndarray) -> np.ndarray:
        log_terms = self.log_cost - np.log(x) @ self.power.T
        first = np.searchsorted(self.operator, np.arange(self.operators))
        score = np.exp(np.maximum.reduceat(log_terms, first, axis=1)).sum(axis=1)
        return np.where((x >= self.least).all(axis=1), score, np.inf)

    def optimum(self, budgets: SharedBudgets) -> float:
        """Score of the best allowed point, by sequential quadratic programming on the epigraph.

        In y = log(x) and the operators' log times t: minimise sum exp(t), terms(y) <= t, and in each budget
        sum exp(y) <= 1.
        """
        n, terms = budgets.variables, len(self.log_cost)
        chosen = np.zeros((terms, self.operators))
        chosen[np.arange(terms), self.operator] = 1.0
        y = np.zeros(n)
        for group in budgets.groups:
            y[list(group)] = -np.log(len(group))
        log_terms = self.log_cost - self.power @ y
        t = np.array([log_terms[self.operator == k].max() for k in range(self.operators)])
        scale = np.exp(t).sum()

        def gradient(z: np.ndarray) -> np.ndarray:
            return np.r_[np.zeros(n), np.exp(z[n:]) / scale]

        def used(z: np.ndarray) -> np.ndarray:
            return np.array([1.0 - np.exp(z[list(group)]).sum() for group in budgets.groups])

        def used_gradient(z: np.ndarray) -> np.ndarray:
            rows = np.zeros((len(budgets.groups), len(z)))
            for row, group in zip(rows, budgets.groups):
                row[list(group)] = -np.exp(z[list(group)])
            return rows

        def above(z: np.ndarray) -> np.ndarray:
            return chosen @ z[n:] - self.log_cost + self.power @ z[:n]

        found = minimize(
            lambda z: np.exp(z[n:]).sum() / scale,
            np.r_[y, t],
            jac=gradient,
            method="SLSQP",
            bounds=[(np.log(max(least, budgets.floor)), 0.0) for least in self.least] + [(None, None)] * self.operators,
            constraints=[
                {"type": "ineq", "fun": above, "jac": lambda z: np.hstack([self.power, chosen])},
                {"type": "ineq", "fun": used, "jac": used_gradient},
            ],
            options={"maxiter": 2000, "ftol": 1e-13},
        )
        assert found.success, found.message
        return float(found.fun * scale)


def random_bottlenecks(seed: int, edges: bool = False) -> Bottlenecks:
    """Six operators of two to five resources each; a resource takes area and power, some take edge.

    edges: infeasible below some share of one resource's area and of one's power, more than most need.
    """
    generator = np.random.default_rng(seed)
    log_cost, power, operator = [], [], []
    for number in range(6):
        for _ in range(generator.integers(2, 6)):
            row = np.zeros(BUDGETS.variables)
            resource = generator.integers(7)
            row[AREA[resource]], row[POWER[resource]] = generator.uniform(0.3, 1.0), generator.uniform(0.2, 1.0)
            if generator.random() < 0.4:
                row[EDGE[generator.integers(3)]] = generator.uniform(0.3, 1.0)
            power.append(row)
            log_cost.append(np.log(10.0) * generator.uniform(-1.0, 1.0))
            operator.append(number)
    least = np.zeros(BUDGETS.variables)
    for group in (AREA, POWER) if edges else ():
        least[generator.choice(group)] = generator.uniform(0.15, 0.35)
    return Bottlenecks(np.array(log_cost), np.array(power), np.array(operator), least)


def _frequency(power: np.ndarray, threshold: float, nominal: float, margin: float) -> np.ndarray:
    """Frequency over nominal at a power over nominal: P ~ V (V - Vt)^2, f ~ (V - Vt)^2 / V; below Vt + margin f ~ P."""
    at_nominal = (nominal - threshold) ** 2
    target = np.maximum(power, 0.0) * nominal * at_nominal
    volt = np.cbrt(target) + threshold
    for _ in range(8):  # Newton from above the root, where the cubic is convex
        over = volt - threshold
        volt = np.maximum(volt - (volt * over**2 - target) / (over**2 + 2.0 * volt * over + 1e-12), threshold + 1e-6)
    least = threshold + margin
    low = target / least**2
    return np.where(volt < least, low, (volt - threshold) ** 2 / volt) * nominal / at_nominal


@dataclass(frozen=True)
class ToyChip:
    """Seconds of six matrix products on a chip of 800 mm2 and 300 W, as orders of magnitude only.

    area and power: core, memory control, L2, L1, registers, links in the package, links outside; edge: memory, the two
    kinds of links. whole: units, banks, stacks and wires come in wholes, tiles in steps of the square root of 2.
    Infeasible below need_B of memory.
    """

    seed: int
    whole: bool = True
    need_B: float = 40e9

    def __call__(self, x: np.ndarray) -> np.ndarray:
        generator = np.random.default_rng(self.seed)
        generator.choice(3)
        shapes = [2.0 ** generator.integers(9, 15, 3) for _ in range(6)]
        sent_B = generator.choice([1e8, 1e9, 4e9])
        wholes = np.floor if self.whole else np.asarray
        area, power, edge = 800.0 * x[:, :7], 300.0 * x[:, 7:14], 4.0 * np.sqrt(800.0) * x[:, 14:17]

        with np.errstate(all="ignore"):
            units = wholes(area[:, 0] / 0.38)
            peak = units * 128 * 1.33e9 * 0.85 * _frequency(power[:, 0] / (0.13 * units), 0.2, 0.8, 0.35)
            bundles = np.maximum(wholes(units / 8), 1.0)

            def sram(level: int, bank_B: float, bit_mm2: float, link_mm2: float) -> tuple[np.ndarray, np.ndarray]:
                banks = wholes(0.8 * area[:, level] / (bank_B * 8 * bit_mm2 + 0.8 * bundles * link_mm2))
                dynamic = power[:, level] - 9e-12 * 8 * bank_B * banks
                return banks * bank_B, np.maximum(dynamic, 0.0) / (8 * 1.3e-14)

            def wires(
                link: int, number: np.ndarray, hertz: float, joule: float, volts: tuple[float, ...]
            ) -> np.ndarray:
                return number * hertz / 8 * _frequency(power[:, link] / (joule * number * hertz), *volts)

            (l2_B, l2_Bps), (l1_B, l1_Bps) = sram(2, 32768, 6.4e-8, 0.004), sram(3, 32768, 8e-8, 0.0)
            l0_B, l0_Bps = sram(4, 16384, 8e-8, 0.0)
            stacks = wholes(np.minimum(6.0, area[:, 1] / 5.0))
            pins = np.minimum(wholes(edge[:, 0] * 400), 1024 * stacks)
            memory_Bps = wires(1, pins, 1.38e9, 4.2e-12, (0.4, 1.2, 0.6))
            inside = wholes(np.minimum(area[:, 5] / 1e-4, edge[:, 1] * 400))
            inside_Bps = wires(5, inside, 3e9, 1e-12, (0.25, 1.0, 0.45))
            outside = wholes(np.minimum(area[:, 6] / 0.045, edge[:, 2] * 20))
            outside_Bps = wires(6, outside, 20e9, 13e-12, (0.35, 1.2, 0.5))

            time_s = sent_B / 8 / outside_Bps
            for m, k, n in shapes:
                moved = []
                for held_B in (l2_B, l1_B / bundles, l0_B / units):
                    side = np.sqrt(held_B / 6)
                    side = 2.0 ** (np.floor(2.0 * np.log2(side)) / 2) if self.whole else side
                    moved.append(2 * (m * k * np.maximum(n / side, 1) + k * n * np.maximum(m / side, 1) + m * n))
                times = [2 * m * k * n / peak, moved[0] / memory_Bps, moved[1] / l2_Bps, moved[2] / l1_Bps]
                times.append(m * k * n / 2 / l0_Bps)
                time_s = time_s + np.max(times, axis=0) + 9e-6 + m * n / inside_Bps
        fits = (16e9 * stacks >= self.need_B) & np.isfinite(time_s) & (time_s > 0)
        return np.where(fits, time_s, np.inf)
