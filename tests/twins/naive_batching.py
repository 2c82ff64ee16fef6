"""Continuous batching in plain Python: passes are listed by the prompts that they take, with how likely each is."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm, poisson

from sweeper.kernels.transformers.sums import Sums
from tests.twins.naive import FOR_EQUATION, Outputs, twin
from tests.twins.naive_mapping import ANY
from tests.twins.naive_models import rows_of

OUTPUTS = (
    "requests_per_s", "loaded_time_to_first_token_s", "loaded_time_to_first_token_p90_s",
    "loaded_time_per_output_token_s", "prompt_gap_s", "output_tokens_per_s", "output_tokens_per_s_per_chip",
    "steady_load",
)  # fmt: skip


@twin
def parts_of_passes(**given: Any) -> Outputs:
    """Two sizes of a pass over prompts, and one of generated tokens. Without attention they grow along a line to the
    largest, from the one with more tokens of the others, at the longest time of both, or from where a pass over prompts
    is as long as one of generated tokens: in between, as far as those two do not lie on such a line."""
    [many], [token] = (rows_of([given[name]], Sums._fields) for name in ("layer_sums", "decode_layer_sums"))
    layers, rounds = given["layers_per_stage"], max(given["microbatches"], given["pipeline_parallel"])
    reading = rounds * layers * token["forward_attention"]
    host = given["microbatches"] * (given["calibration_pass_host_s"] + given["draft_pass_s"])
    generating = max(given["round_time_s"] - host - reading, 0)
    each = layers * many["forward_attention"] / (given["microbatch"] / given["prompt_passes"])  # of a prompt
    points, sent = [], []
    for prompts, passes, of in (
        (1.0, given["single_passes"], "single"),
        (given["microbatch"], given["prompt_passes"], "prefill"),
    ):
        tokens = prompts * given["tokens_per_sample"] / passes
        sent.append(given["prefill_transfer_s"] * (tokens / (given["microbatch"] * given["tokens_per_sample"]))
                    * given["prompt_passes"])  # fmt: skip
        seconds = given[f"{of}_stage_s"] + given[f"{of}_ends_s"] + sent[-1] - each * prompts / passes
        points.append((tokens, seconds))
    (small, small_s), (large, large_s) = points
    flat = (given["microbatch"] * (1 + given["speculated_tokens"]), generating / rounds)
    first, second = sorted([flat, (small, small_s)])
    start, start_s = second[0], max(first[1], second[1])
    along = (large_s - start_s) / (large - start) if large != start else 0
    before = (second[1] - first[1]) / (second[0] - first[0]) if second[0] > first[0] else along
    on_line = np.clip(before / along, 0, 1) if along > 0 else 0
    kink = generating / rounds / (large_s / large)
    start = max(start, on_line * start + (1 - on_line) * kink)
    slope = max(large_s - start_s, 0) / (large - start) if large > start else large_s / large
    elsewhere = generating * (rounds - 1) / rounds
    return {
        "pass_fixed_s": host + elsewhere,
        "pass_flat_s": generating / rounds,
        "pass_prompt_s": max(small_s, generating / rounds),
        "pass_line_s": start_s - slope * start,
        "pass_token_s": slope,
        "pass_reading_s": reading,
        "pass_attending_s": each,
        "later_stages_s": (given["pipeline_parallel"] - 1) * (given["single_stage_s"] + sent[0]) - elsewhere,
    }


class Server:
    """The server of an equation's inputs."""

    def __init__(self, given: dict[str, float]) -> None:
        self.requests = given["batch_size"] / given["data_parallel"]
        self.prompt, self.later = given["tokens_per_sample"], given["generating_passes"]
        self.budget = given["max_batched_tokens"] or np.inf
        self.verified, self.made = 1 + given["speculated_tokens"], given["tokens_per_round"]
        self.host_s, self.tokens_s, self.one_s, self.line_s, self.token_s, self.reading_s, self.attention_s = (
            given[f"pass_{part}_s"] for part in ("fixed", "flat", "prompt", "line", "token", "reading", "attending")
        )
        self.arrival_s = given["calibration_request_host_s"] + given["later_stages_s"]

    def seconds(self, prompts: np.ndarray, generating: float, piece: float) -> np.ndarray:
        """Of passes that take so many prompts, or pieces of them."""
        alone = self.prompt / max(np.ceil(self.prompt / self.budget), 1.0)  # tokens of the pass that takes `one_s`
        floor = np.interp(piece, [0.0, alone], [self.tokens_s, self.one_s])
        line = self.line_s + self.token_s * (generating * self.verified + prompts * piece)
        work = np.where(prompts > 0, np.maximum(floor, line), self.tokens_s)
        attention = prompts * self.attention_s * (piece / self.prompt)
        return self.host_s + self.reading_s * generating / self.requests + work + attention

    def moments(self, generating: float, first: int, more: float) -> tuple[float, float]:
        """Mean and variance of passes with `first` whole prompts and a Poisson number more."""
        counts = np.arange(0, int(more + 40 * np.sqrt(more) + 60))
        likely = poisson.pmf(counts, more)
        seconds = self.seconds(first + counts, generating, self.prompt)
        mean = float(likely @ seconds)
        return mean, float(likely @ (seconds - mean) ** 2)

    def steady(self, taken: float) -> dict[str, float]:
        """With so many prompts in the mean pass."""
        rest = (self.requests - 1) / self.requests
        generating = taken * self.later
        room = max(self.budget - min((self.requests - 1) * self.verified, self.budget / 2), 1)
        passes = max(np.ceil(self.prompt / room), 1.0)
        used = rest * taken * self.prompt / room
        empty, part = (float(self.seconds(np.array(count), generating, min(room, self.prompt))) for count in (0, 1))
        if passes > 1:  # a pass takes nothing of prompts, or is full of them
            likely = min(used, 1.0)
            mean = (1 - likely) * empty + likely * part
            variance = (1 - likely) * (empty - mean) ** 2 + likely * (part - mean) ** 2
        else:
            mean, variance = self.moments(generating, 0, rest * taken)
        busy = min(rest * taken / mean * (self.token_s * self.prompt + self.attention_s), 0.98)
        met = mean + variance / (1 - busy**2) / mean
        beside = rest * generating
        own, spread = self.moments(beside, 1, rest * taken / mean * met)
        alone = gap = float(self.seconds(np.array(1), beside, self.prompt / passes))
        if passes > 1:
            own, spread = alone * passes, 0.0
        else:
            gap = own
        served = own * min(self.prompt / room, 1)
        wait = served * used / (2 * (1 - used)) if used < 1 - 1e-9 else np.inf
        until = min(self.requests - 1, 1) * met / 2
        first = self.arrival_s + until + own + wait
        least = self.arrival_s + (own if passes > 1 else alone)
        spread += until**2 / 3 + wait**2 + used * served**2 / 3
        tokens = self.later * self.made
        answered = tokens / (2 * self.prompt + tokens)  # the answer's share of a cache, on average
        grows = taken * (self.token_s * self.prompt + self.attention_s)  # with requests, of a pass
        grows += generating * (self.token_s * self.verified + self.reading_s / self.requests)
        limits = [  # what is, and must stay below
            (grows / mean, 0.3),
            (used, 0.05),
            (self.prompt / room, 0.8),
            (self.reading_s * answered / mean, 0.1),
        ]
        return {
            "rate": taken / mean, "first": first, "between": mean, "gap": gap, "least": least, "spread": spread,
            "simple": float(
                all(is_ < most for is_, most in limits)
                and not 1 < self.requests < 8
                and self.requests * self.verified <= self.budget
            ),
            "in_flight": taken / mean * first + generating, "few": taken <= 4 and self.requests > 1,
            "edge": min(abs(is_ - most) for is_, most in limits), "nearly_few": abs(taken - 4),
        }  # fmt: skip

    def share_within(self, seconds: float, taken: float) -> float:
        """Of the requests that have their first token so soon: each meets a pass, the longer the likelier, at any
        moment of it, and passes beside those that came since that began."""
        rest = (self.requests - 1) / self.requests
        generating = taken * self.later
        counts = np.arange(0, int(rest * taken + 20 * np.sqrt(taken) + 30))
        lengths = self.seconds(counts, generating, self.prompt)
        per_s = rest * taken / self.moments(generating, 0, rest * taken)[0]
        likely = poisson.pmf(counts, rest * taken) * lengths
        beside = np.arange(0, int(per_s * lengths.max() + 20 * np.sqrt(per_s * lengths.max()) + 30))
        own = self.arrival_s + self.seconds(1 + beside, rest * generating, self.prompt)
        parts = np.clip((seconds - own[None]) / (min(self.requests - 1, 1) * lengths[:, None]), 0, 1)
        joint = likely[:, None] * poisson.pmf(beside[None], per_s * lengths[:, None])
        return float((joint * parts).sum() / likely.sum())


@twin
def continuous_batching(**given: float) -> Outputs:
    """Its steady state is looked for: `check_batching`."""
    return dict.fromkeys(OUTPUTS, ANY)


def check_batching(given: dict[str, float], found: Outputs) -> None:
    """As many requests are in flight as there are, and what is told is of that state."""
    server = Server(given)
    most = server.requests / max(server.later, 1)
    taken = brentq(
        lambda x: min(server.steady(x)["in_flight"], 1e9) - server.requests, 0, most, xtol=1e-300, rtol=1e-13
    )
    want = server.steady(taken)
    rate, tokens = want["rate"] * given["data_parallel"], given["output_length"]
    steep = abs(server.steady(taken * (1 + 1e-9))["in_flight"] / server.requests - 1) > 1e-3
    if steep:  # prompts fill all passes: the slightest more of them would wait for ever
        assert found["requests_per_s"] * (1 - 1e-6) < rate < found["requests_per_s"] * (1 + 1e-6)
        return
    expected = {
        "requests_per_s": rate,
        "loaded_time_to_first_token_s": want["first"],
        "loaded_time_per_output_token_s": want["between"] / given["tokens_per_round"],
        "prompt_gap_s": want["gap"],
        "output_tokens_per_s": rate * tokens,
        "output_tokens_per_s_per_chip": rate * tokens / given["chips"],
    }
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)
    if want["edge"] > 1e-6:
        assert found["steady_load"] == want["simple"]
    if want["nearly_few"] < 1e-6 or want["edge"] < 1e-6:
        return
    if want["few"] and want["simple"]:
        sooner, later = (
            server.share_within(found["loaded_time_to_first_token_p90_s"] * factor, taken)
            for factor in (1 - 1e-4, 1 + 1e-4)
        )
        assert sooner < 0.9 + 1e-4 and later > 0.9 - 1e-4
        return
    late = found["loaded_time_to_first_token_p90_s"] - want["least"]
    beyond = max(want["first"] - want["least"], 0)
    cube = want["spread"] / (9 * beyond**2) if beyond and want["spread"] else 0.0
    np.testing.assert_allclose(
        late, beyond * max(1 - cube + norm.ppf(0.9) * np.sqrt(cube), 0) ** 3, rtol=1e-4, atol=1e-6 * want["first"]
    )


FOR_EQUATION.update(
    {
        "parts_of_passes": st.fixed_dictionaries(
            {
                "single_passes": st.sampled_from([1.0, 1.0, 2.5]),
                "prompt_passes": st.sampled_from([1.0, 3.0, 16.0]),
                "microbatch": st.sampled_from([1.0, 1.0, 3.0, 64.0]),
                "round_time_s": st.floats(1.0, 1e3),
                "speculated_tokens": st.sampled_from([0.0, 0.0, 3.0, 50.0]),
                "draft_pass_s": st.just(0.0) | st.floats(1e-4, 1e-2),
                **{f"{of}_stage_s": st.floats(1.0, 10.0) for of in ("prefill", "single")},
            }
        ),
        "continuous_batching": st.fixed_dictionaries(
            {
                "batch_size": st.sampled_from([4.0, 8.0, 100.0, 512.0]),
                "data_parallel": st.sampled_from([1.0, 2.0, 4.0]),
                "tokens_per_sample": st.sampled_from([1.0, 30.0, 700.0, 9000.0]),
                "output_length": st.sampled_from([1.0, 2.0, 40.0, 1000.0]),
                "generating_passes": st.sampled_from([0.0, 1.0, 22.5, 39.0, 999.0]),
                "tokens_per_round": st.sampled_from([1.0, 2.3]),
                "speculated_tokens": st.sampled_from([0.0, 0.0, 3.0]),
                "max_batched_tokens": st.sampled_from([0.0, 512.0, 8192.0]),
                "pass_fixed_s": st.just(0.0) | st.floats(1e-5, 1e-2),
                "pass_flat_s": st.floats(1e-3, 0.1),
                "pass_prompt_s": st.floats(0.1, 0.5),
                "pass_line_s": st.floats(-0.1, 0.4),
                "later_stages_s": st.just(0.0) | st.floats(1e-3, 0.1),
                "pass_token_s": st.just(0.0) | st.floats(1e-6, 1e-4),
                "pass_reading_s": st.just(0.0) | st.floats(1e-5, 1e-2),
                "pass_attending_s": st.just(0.0) | st.floats(1e-6, 1e-2),
                "calibration_request_host_s": st.just(0.0) | st.floats(1e-3, 0.1),
            }
        ),
    }
)
