"""What requests see of a server under load: time to the first token, between tokens, in all; and what it delivers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace

import numpy as np

from sweeper.errors import UsageFault
from sweeper.kernels.serving.load import Pass, Requests, Server, pass_s, serve
from sweeper.serving.passes import Replica
from sweeper.serving.prefixes import CHIP, Tier, prefixes_of
from sweeper.serving.traffic import Arrivals
from sweeper.views.text import aligned, show

GROWS = 0.1
"""Share of the requests that may wait for a first token when the last one arrives, in a queue that does not grow."""
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True)
class Seen:
    """Seconds that requests see: mean and quantiles, NaN where less than one request would lie beyond."""

    mean: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True)
class Load:
    """What came of some requests.

    `requests` are those of all `replicas`, of which `sharing_experts` pass together; `refused`: those of them that fit
    into no cache; `waiting`: those before the last one without a first token when it arrived, none in a closed loop.
    `good`: share of all that were served, within the limits if there are any. Rates are from the first arrival to the
    last token; in a closed loop of at least twice as many requests as clients, of what is done while each client has
    one in flight, requests that are done in part by that part of their tokens. `found`: share of the
    tokens of requests that need not pass when they are first admitted, by the tier that they are in; empty where
    prompts have nothing in common. `unread`: tiers from which a token takes longer than passing anew, with the bytes
    per second of a chip from which on they would be read.
    """

    replicas: int
    requests: int
    refused: int
    waiting: int
    seconds: float
    time_to_first_token_s: Seen
    time_per_output_token_s: Seen
    request_time_s: Seen
    good: float
    requests_per_s: float
    good_requests_per_s: float
    output_tokens_per_s: float
    output_tokens_per_s_per_chip: float
    busy_share: float | None
    found: Mapping[str, float]
    unread: Mapping[str, float] = field(default_factory=dict)
    sharing_experts: int = 1


@dataclass(frozen=True)
class Admission:
    """Which requests run: at most `slots` at a time, at most `budget` tokens in a pass, the share of the tokens to come
    for which the cache must have room at first (below 1 requests may lose their cache again), and whether prompts pass
    before generated tokens, and not beside them."""

    slots: int = 256
    budget: int = 8192
    reserved: float = 1.0
    prompts_first: bool = False


def under_load(
    replica: Replica,
    asked: Arrivals,
    clients: int = 0,
    admission: Admission = Admission(),
    limits: Mapping[str, float] | None = None,
    tiers: Sequence[Tier] = (),
) -> Load:
    """Let replicas serve requests, and clients, which they take in turn. Caches of prompts that begin alike stay on the
    chip, and in those `tiers` behind it from which a token comes as soon as it passes anew in a full pass.

    `limits` are the seconds to the first token (`ttft`) and between tokens (`tpot`) within which a request is good.
    Raises UsageFault if none of the requests fits into the cache, for beginnings that the states of a model do not let
    share, for more slots than passes have room for, for fewer requests than replicas, and for clients that cannot be
    dealt evenly.
    """
    assert_shared(replica, asked)
    assert_dealt(replica, len(asked.arrival_s), clients)
    server, worth = server_of(replica, admission), worth_of(replica, admission, asked, tiers)
    served = in_turn(replica, server, asked, clients, worth.read)
    requests, busy_s = served.requests, served.busy_s / replica.replicas
    if np.isnan(requests.last_s).all():
        raise UsageFault(too_small(server.cache_tokens, server.budget, "the cache holds", server.state))
    load = load_of(requests, clients, replica.host_s, busy_s, replica.replicas, replica.chips, limits or {})
    load = replace(load, sharing_experts=replica.sharing_experts)
    return load if not len(asked.blocks.numbers) else worth.told(load, served.found)


@dataclass(frozen=True)
class Served:
    """Requests that were served, how long replicas did something, together, and tokens that were found on the chip, in
    each tier, and nowhere."""

    requests: Requests
    busy_s: float
    found: np.ndarray


def in_turn(replica: Replica, server: Server, asked: Arrivals, clients: int = 0, tiers: Sequence[Tier] = ()) -> Served:
    """Let each replica serve the requests that come to it in turn, and its part of the clients."""
    count, requests, busy_s, found = len(asked.arrival_s), requests_of(asked), 0.0, []
    for own in (np.arange(one, count, replica.replicas) for one in range(min(replica.replicas, count))):
        part = asked.taken(own)
        its, prefixes = requests_of(part), prefixes_of(part.blocks, tiers, replica.token_B)
        busy_s += serve(replica.timing, server, clients // replica.replicas, its, prefixes)
        requests.arrival_s[own], requests.first_s[own], requests.last_s[own] = its.arrival_s, its.first_s, its.last_s
        found.append(prefixes.found)
    return Served(requests, busy_s, np.sum(found, axis=0))


def assert_dealt(replica: Replica, requests: int, clients: int) -> None:
    """Raises UsageFault for fewer requests than replicas, and for clients that cannot be dealt evenly."""
    replicas = replica.replicas
    if requests < replicas:
        raise UsageFault(f"{requests} requests for {replicas} replicas: say at least one for each")
    if clients % replicas:
        raise UsageFault(f"{clients} clients of {replicas} replicas: say a multiple of {replicas}")


@dataclass(frozen=True)
class Worth:
    """Tiers that are read, and the others with the bytes per second from which on they would be."""

    read: Sequence[Tier]
    unread: Mapping[str, float]

    def told(self, load: Load, found: np.ndarray) -> Load:
        """A load with where its tokens were found, of which there are so many on the chip, in each tier and nowhere."""
        shares = (found / found.sum()).tolist()
        named = dict(zip([CHIP, *(tier.name for tier in self.read)], shares, strict=False))
        return replace(load, found=named, unread=self.unread)


def worth_of(replica: Replica, admission: Admission, asked: Arrivals, tiers: Sequence[Tier]) -> Worth:
    """Tiers from which a token comes as soon as it passes anew in a full pass are worth reading. Raises UsageFault for
    one that holds no block."""
    block_B = replica.token_B * asked.blocks.size
    for tier in tiers:
        if tier.capacity_B < block_B:
            raise UsageFault(
                f"{tier.name} holds {tier.capacity_B:.4g} B a chip, and a block of {asked.blocks.size} tokens takes "
                f"{block_B:.4g} B: nothing goes there"
            )
    anew_s = passing_s(replica.timing, admission, asked) if tiers else 0.0
    read = [tier for tier in tiers if replica.token_B / tier.bandwidth_Bps <= anew_s]
    return Worth(read, {tier.name: replica.token_B / anew_s for tier in tiers if tier not in read})


def passing_s(timing: Pass, admission: Admission, asked: Arrivals) -> float:
    """Seconds that a token in the middle of a prompt of mean length takes in a full pass of prompts alone."""
    budget = float(admission.budget)
    return pass_s(timing, 0.0, 0.0, budget, 0.5 * float(asked.prompts.mean()) * budget) / budget


def assert_shared(replica: Replica, asked: Arrivals) -> None:
    """Raises UsageFault if prompts begin alike, and the model keeps states, of which a part is of no use."""
    if replica.state_tokens and len(asked.blocks.numbers):
        raise UsageFault(
            f"the model keeps {replica.state_B:.4g} B a chip for each request, whatever its length: what its prompts "
            "have in common is not simulated"
        )


def server_of(replica: Replica, admission: Admission) -> Server:
    """A replica, and who runs on it. Raises UsageFault if a pass has no room for a token of each, and its drafts."""
    slots, budget, reserved, first = astuple(admission)
    assert_budget(replica, admission)
    cache = replica.cache_tokens(budget)
    return Server(slots, budget, cache, float(reserved), replica.host_s, first, replica.state_tokens, replica.drafts)


def assert_budget(replica: Replica, admission: Admission) -> None:
    """Raises UsageFault if a pass has no room for a token of each request that runs, and its drafts."""
    each = 1 + replica.drafts.tokens
    if admission.slots * each > admission.budget:
        of = "a token" if each == 1 else f"{each} tokens, all but one of them drafts,"
        raise UsageFault(
            f"passes of {admission.budget:,} tokens have no room for {of} of {admission.slots:,} requests: say a "
            f"larger --budget, or at most --slots {max(admission.budget // each, 1)}"
        )


def too_small(cache_tokens: int, budget: int, what: str, state: int = 0) -> str:
    """Why no request fits."""
    if cache_tokens == 0:
        return (
            f"weights and the buffers of passes of {budget:,} tokens leave no room for caches: say a smaller --budget"
        )
    if state:
        return f"{what} {cache_tokens / state:.2g} of the state of a request, and its tokens"
    return f"{what} {cache_tokens:,} tokens, and no request is so short"


def requests_of(asked: Arrivals) -> Requests:
    """Requests that nothing has served yet."""
    count = len(asked.arrival_s)
    return Requests(asked.prompts, asked.outputs, asked.arrival_s.copy(), np.empty(count), np.empty(count))


def waits(requests: Requests, host_s: float) -> dict[str, np.ndarray]:
    """Seconds [n] to the first token (`ttft`), of which the host takes some before a request arrives, and between
    tokens (`tpot`); NaN for those that were refused."""
    first, last = requests.first_s, requests.last_s
    return {
        "ttft": first - requests.arrival_s + host_s,
        "tpot": (last - first) / np.maximum(requests.outputs - 1, 1),
    }


def are_good(waited: Mapping[str, np.ndarray], limits: Mapping[str, float]) -> np.ndarray:
    """Which requests [n] were served within the limits."""
    served = np.isfinite(waited["tpot"])
    return np.all([served, *(waited[name] <= most for name, most in limits.items())], axis=0)


def done_by(requests: Requests, until_s: float) -> np.ndarray:
    """Share [n] of its tokens that each request has then, if they come evenly after the first; NaN for those refused.

    >>> three = Requests(*np.array([[9, 9, 9], [4, 4, 4], [0, 0, 0], [1, 3, 5], [4, 9, 9]], float))
    >>> done_by(three, 5.0).tolist()
    [1.0, 0.5, 0.25]
    """
    outputs, first, last = requests.outputs, requests.first_s, requests.last_s
    gone = np.clip((until_s - first) / np.where(last > first, last - first, 1.0), 0.0, 1.0)
    return np.where(first <= until_s, (1.0 + (outputs - 1) * gone) / outputs, 0.0 * first)


def load_of(
    requests: Requests,
    clients: int,
    host_s: float,
    busy_s: float | None,
    replicas: int,
    chips: int,
    limits: Mapping[str, float],
) -> Load:
    """What came of requests that were served, at least one of them, by some replicas in turn, which have so many chips
    together; `busy_s` is how long each did something, if that was counted, and `host_s` what a request took to
    arrive."""
    arrivals, last = requests.arrival_s, requests.last_s
    served = np.isfinite(last)
    closed = 0 < 2 * clients <= int(served.sum())
    waited, whole = waits(requests, host_s), (last - arrivals)[served] + host_s
    outputs = requests.outputs[served]
    several = waited["tpot"][served & (requests.outputs > 1)]
    good = are_good(waited, limits)
    seconds = float(last[served].max() - arrivals[served].min()) + host_s
    # A closed loop runs dry at its end: what is seen of it there is no rate of so many clients.
    ends = [arrivals[one::replicas][served[one::replicas]].max(initial=0.0) for one in range(replicas)]
    until_s = float(min(end for end in ends if end > 0.0)) if closed else math.inf
    done, per_s = done_by(requests, until_s)[served], 1.0 / min(until_s, seconds)
    rate, tokens = per_s * float(done.sum()), per_s * float((outputs * done).sum())
    return Load(
        replicas=replicas,
        requests=len(arrivals),
        refused=int((~served).sum()),
        waiting=0 if clients else still_waiting(requests),
        seconds=seconds,
        time_to_first_token_s=_seen(waited["ttft"][served]),
        time_per_output_token_s=_seen(several) if len(several) else Seen(*[float("nan")] * 4),
        request_time_s=_seen(whole),
        good=float(np.mean(good)),
        requests_per_s=rate,
        good_requests_per_s=rate * float(np.mean(good[served])),
        output_tokens_per_s=tokens,
        output_tokens_per_s_per_chip=tokens / chips,
        busy_share=None if busy_s is None else busy_s / seconds,
        found={},
    )


def _seen(values: np.ndarray) -> Seen:
    """Mean and quantiles of what some requests see.

    >>> _seen(np.arange(10.0))
    Seen(mean=4.5, p50=4.5, p90=8.1, p99=nan)
    """
    found = np.quantile(values, list(SHARES.values()))
    known = [len(values) >= round(1.0 / (1.0 - share)) for share in SHARES.values()]
    return Seen(float(values.mean()), *np.where(known, found, math.nan).tolist())


def still_waiting(requests: Requests) -> int:
    """Requests, in the order in which they arrived, that had no first token when the last of them did, but for this
    one.

    >>> still_waiting(Requests(*np.array([[9, 9, 9], [4, 4, 4], [0, 1, 2], [1, 3, 5], [4, 9, 9]], float)))
    1
    """
    return int((requests.first_s[:-1] > requests.arrival_s[-1]).sum())


def growing(share: float) -> str:
    """What is said of a queue that grows, but for what would be more."""
    return f"{share:.1%} of the requests had no first token when the last one came: they wait the longer, the more"


def told_together(replicas: int) -> str:
    """What is said of replicas that share experts."""
    return (
        f"experts lie over {replicas} replicas, which pass together: prompts are taken to come to all of them in the "
        "same passes; where each takes its own as they come, all wait for each, and rates are lower"
    )


def _known(value: float) -> str:
    return "-" if math.isnan(value) else show(value)


def text(load: Load, limits: Mapping[str, float]) -> str:
    """What came of the requests, as tables; of `limits`, how many were within them."""
    heads = ("seconds", "mean", *SHARES)
    seen = {
        "to the first token": load.time_to_first_token_s,
        "between tokens": load.time_per_output_token_s,
        "of a request": load.request_time_s,
    }
    rows = [(name, *map(_known, astuple(each))) for name, each in seen.items() if not math.isnan(each.mean)]
    refused = f", {load.refused:,} of which fit into no cache" if load.refused else ""
    rates = {
        "tokens/s": load.output_tokens_per_s,
        "tokens/s a chip": load.output_tokens_per_s_per_chip,
        "requests/s": load.requests_per_s,
    }
    of = f" to {load.replicas} replicas" if load.replicas > 1 else ""
    busy = "" if load.busy_share is None else f"; busy {load.busy_share:.1%} of that"
    lines = [
        f"{load.requests:,} requests{of}{refused}, in {show(load.seconds)} s until the last token{busy}",
        aligned([heads, *rows], right=(1, 2, 3, 4)),
        ", ".join(f"{show(rate)} {unit}" for unit, rate in rates.items()),
    ]
    if math.isnan(load.request_time_s.p99):
        lines.append("-: of so few requests less than one lies beyond that quantile")
    if load.waiting > GROWS * load.requests:
        lines.append(f"{growing(load.waiting / load.requests)} --requests")
    if load.sharing_experts > 1:
        lines.append(told_together(load.sharing_experts))
    if load.found:
        shares = ", ".join(f"{share:.1%} in {name}" for name, share in load.found.items())
        lines.append(f"tokens of admitted requests that were found: {shares}")
    if load.unread:
        needed = ", ".join(f"{name} below {show(Bps / 1e9)} GB/s" for name, Bps in load.unread.items())
        lines.append(f"not read, since tokens pass anew sooner in full passes: {needed}; leave out, or make faster")
    if limits:
        lines.append(f"{load.good:.1%} within the limits: {show(load.good_requests_per_s)} good requests/s")
    return "\n".join(lines)
