"""The closed form of a steady load against the simulation, on random servers and requests, and where it is exact."""

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import gamma

from sweeper.kernels.serving.load import Pass, Requests, Server, at, pass_s, serve
from sweeper.kernels.serving.steady import Demand, Steady, Work, quantile_of_gamma, steady
from tests.serving.test_load import nothing_shared
from tests.support.servers import timing_of

GRID = 2.0 ** np.arange(0.0, 14.1, 0.125)
COUNT = 1_500
"""Random cases; `python -m tests.serving.test_steady` looks at 10,000."""


@dataclass(frozen=True)
class Case:
    """A server, what comes to it, and what the closed form says. Lengths are drawn evenly, down to a part less."""

    timing: Pass
    demand: Demand
    prompt_spread: float
    output_spread: float
    found: Steady

    def lengths(self, count: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Tokens of prompts and answers of so many requests."""
        prompts, outputs = (
            np.maximum(np.rint(mean / (1.0 - 0.5 * spread) * random.uniform(1.0 - spread, 1.0, count)), 1.0)
            for mean, spread in (
                (self.demand.prompt, self.prompt_spread),
                (self.demand.output, self.output_spread),
            )
        )
        return prompts.astype(np.int64), outputs.astype(np.int64)


def work_of(timing: Pass, demand: Demand) -> Work:
    """What the closed form is told of a server, as `parts_of_passes` tells it."""
    prompt, requests = demand.prompt, demand.requests
    one = min(prompt, demand.budget)
    many = max(min(requests * prompt, demand.budget), one)
    flat_s, one_s, many_s = (at(timing.tokens, timing.linear_s, tokens) for tokens in (requests, one, many))
    few, start_s = max(one, requests), max(flat_s, one_s)
    steep = (many_s - start_s) / (many - few) if many > few else 0.0
    grown = (one_s - flat_s) / (one - requests) if one != requests else steep
    start = max(few, few + (flat_s * many / many_s - few) * (1.0 - (np.clip(grown / steep, 0, 1) if steep > 0 else 0)))
    token_s = (many_s - start_s) / (many - start) if many > start else many_s / many
    return Work(
        fixed_s=0.0,
        flat_s=flat_s,
        prompt_s=max(flat_s, one_s),
        line_s=start_s - token_s * start,
        token_s=token_s,
        reading_s=timing.reading_s[0] * requests * (prompt + 0.5 * demand.output),
        attending_s=timing.attending_s[0] * 0.5 * prompt * prompt,
    )


def cases(count: int) -> list[Case]:
    """Servers limited by their weights or by compute, from 1 to 256 requests, short and long prompts and answers."""
    random, found = np.random.default_rng(0), []
    for _ in range(count):
        weights_s = 10.0 ** random.uniform(-3.0, -1.4)
        token_s = weights_s / 10.0 ** random.uniform(1.7, 2.8)
        reading_s, pair_s = weights_s * 10.0 ** random.uniform(-7.0, -5.0), token_s * 10.0 ** random.uniform(-5.0, -4.0)
        timing = timing_of(np.maximum(weights_s, token_s * GRID), GRID, reading_s, pair_s)
        requests, prompt, output, budget = (
            float(int(2.0 ** random.uniform(low, high))) for low, high in ((0, 8), (5, 13.5), (4, 11), (11, 14))
        )
        demand = Demand(requests, prompt, output, budget, 0.0)
        spreads = random.choice([0.0, 0.2]), random.choice([0.5, 1.0])
        found.append(Case(timing, demand, *spreads, steady(work_of(timing, demand), demand)))
    return found


def closed_loop(case: Case) -> tuple[float, float]:
    """Requests per second and seconds between tokens where each that ends is followed by another at once."""
    clients = int(case.demand.requests)
    count = max(60 * clients, 3_000)
    prompts, outputs = case.lengths(count, np.random.default_rng(1))
    arrivals, first, last = (np.zeros(count) for _ in range(3))
    server = Server(clients, int(case.demand.budget), 10**12)
    serve(case.timing, server, clients, Requests(prompts, outputs, arrivals, first, last), nothing_shared(count))
    part = slice(count // 4, count - clients)
    between = (last - first)[part].sum() / np.maximum(outputs[part] - 1, 1).sum()
    return len(arrivals[part]) / (arrivals[part.stop] - arrivals[part.start]), float(between)


def open_loop(case: Case) -> tuple[float, float]:
    """Seconds to the first token, mean and the ninth decile, of independent arrivals at the rate of the closed form."""
    random, count = np.random.default_rng(2), int(max(100 * case.demand.requests, 6_000))
    prompts, outputs = case.lengths(count, random)
    arrivals = np.cumsum(random.exponential(1.0 / case.found.requests_per_s, count))
    first, last = np.empty(count), np.empty(count)
    serve(
        case.timing,
        Server(4_096, int(case.demand.budget), 10**12),
        0,
        Requests(prompts, outputs, arrivals, first, last),
        nothing_shared(count),
    )
    waits = (first - arrivals)[count // 5 : -count // 20]
    return float(waits.mean()), float(np.quantile(waits, 0.9))


def errors(count: int) -> dict[str, np.ndarray]:
    """Relative errors of what the closed form says, over all cases, and where it says that they are known (`steady_`);
    of first tokens there, where several are in flight."""
    found = defaultdict[str, list[float]](list)
    for case in cases(count):
        rate, between = closed_loop(case)
        of_case = {"rate": case.found.requests_per_s / rate - 1.0, "between": case.found.between_s / between - 1.0}
        known = dict(of_case) if case.found.simple else {}
        if case.found.simple and case.demand.requests > 1.0:
            mean, late = open_loop(case)
            prompts = "late_of_unlike_prompts" if case.prompt_spread else "late"
            known |= {"first": case.found.first_s / mean - 1.0, prompts: case.found.first_p90_s / late - 1.0}
        for name, error in {**of_case, **{f"steady_{name}": error for name, error in known.items()}}.items():
            found[name].append(error)
    return {name: np.abs(values) for name, values in found.items()}


def test_the_closed_form_says_what_the_simulation_does() -> None:
    found = errors(COUNT)
    assert len(found["steady_first"]) > 0.1 * COUNT
    within = {name: float(np.mean(values < 0.05)) for name, values in found.items()}
    assert within["rate"] > 0.95 and within["steady_rate"] > 0.98
    assert within["between"] > 0.75 and np.median(found["between"]) < 0.01
    assert within["steady_between"] > 0.98 and within["steady_first"] > 0.97
    assert within["steady_late"] > 0.95 and within["steady_late_of_unlike_prompts"] > 0.85


def test_one_request_alone_waits_for_nothing() -> None:
    work = Work(fixed_s=0.002, flat_s=0.01, prompt_s=0.1, line_s=0.0, token_s=1e-4, reading_s=0.001, attending_s=0.005)
    found = steady(work, Demand(1.0, 1_000.0, 100.0, 0.0, 0.05))
    assert found.first_s == found.first_p90_s == pytest.approx(0.05 + 0.002 + 0.1 + 0.005)
    assert found.between_s == pytest.approx(0.013, rel=0.01)
    assert found.requests_per_s == pytest.approx(1.0 / (found.first_s + 99.0 * found.between_s))
    assert found.gap_s == pytest.approx(found.first_s - 0.05)


@pytest.mark.parametrize("output", [1.0, 200.0])
@pytest.mark.parametrize("requests", [1.0, 2.0, 64.0, 1e6])
@pytest.mark.parametrize("budget", [0.0, 600.0, 8_192.0])
def test_as_many_requests_are_in_flight_as_there_are(requests: float, output: float, budget: float) -> None:
    work = Work(fixed_s=0.0, flat_s=0.01, prompt_s=0.02, line_s=0.01, token_s=1e-5, reading_s=0.0, attending_s=0.0)
    found = steady(work, Demand(requests, 1_000.0, output, budget, 0.0))
    generating = (output - 1.0) * found.requests_per_s * found.between_s
    assert found.requests_per_s * found.first_s + generating == pytest.approx(requests, rel=1e-6)
    assert found.first_s <= found.first_p90_s
    assert found.between_s <= found.gap_s * (1.0 + 1e-9) or budget == 600.0, "whole prompts prolong a pass"


def test_more_requests_are_served_faster_in_all_and_slower_each() -> None:
    work = Work(fixed_s=0.001, flat_s=0.01, prompt_s=0.05, line_s=0.01, token_s=4e-5, reading_s=0.0, attending_s=0.002)
    found = [steady(work, Demand(2.0**power, 1_000.0, 200.0, 8_192.0, 0.0)) for power in range(9)]
    for fewer, more in pairwise(found):
        assert fewer.requests_per_s < more.requests_per_s
        assert fewer.between_s < more.between_s and fewer.first_s < more.first_s
    assert [each.simple for each in found] == [1.0, 0.0, 0.0, *sorted(each.simple for each in found[3:])[::-1]]
    assert sum(each.simple for each in found) >= 3.0, "one alone, and many; those of a few meet by chance"


def test_a_pass_of_the_closed_form_is_one_of_the_simulation() -> None:
    """At one request alone: its prompt, and a token with half of the answer in its cache."""
    timing = timing_of(np.maximum(0.01, 1e-4 * GRID), GRID, 1e-8, 1e-9)
    demand = Demand(1.0, 1_000.0, 101.0, 8_192.0, 0.0)
    found = steady(work_of(timing, demand), demand)
    assert found.first_s == pytest.approx(pass_s(timing, 0.0, 0.0, 1_000.0, 500_500.0), rel=1e-3)
    assert found.between_s == pytest.approx(pass_s(timing, 1.0, 1_050.5, 0.0, 0.0), rel=1e-3)


@pytest.mark.parametrize("shape", [0.5, 1.0, 3.0, 100.0])
def test_one_in_ten_of_a_gamma_distribution(shape: float) -> None:
    assert quantile_of_gamma(2.0, 4.0 / shape) == pytest.approx(gamma.ppf(0.9, shape, scale=2.0 / shape), rel=0.03)
    assert quantile_of_gamma(2.0, 0.0) == 2.0 and quantile_of_gamma(0.0, 1.0) == 0.0
    assert math.isfinite(quantile_of_gamma(1e-9, 1e9))


if __name__ == "__main__":
    for name, values in errors(10_000).items():
        within = np.mean(values < 0.05)
        title = name.replace("_", " ")
        print(
            f"{title}: {len(values):,} cases, median {np.median(values):.2%}, p90 {np.quantile(values, 0.9):.1%}, "
            f"{within:.1%} within 5 %"
        )
