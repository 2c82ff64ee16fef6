"""Prompts and generated tokens on different servers, written from the rules: from one event to the next, one pass after
the other."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.twins.naive_load import NaiveDrafts, NaiveTiers


@dataclass(eq=False)
class Request:
    """Lengths, and what became of it; `first` is also when it has moved. Its prompt begins with whole blocks, and so
    many tokens of it need not pass. What it has made in `passes` is the same in each of those that it takes."""

    number: int
    prompt: int
    output: int
    blocks: Sequence[int] = ()
    arrived: float = math.nan
    first: float = math.nan
    last: float = math.nan
    known: int = 0
    passes: int = 0
    most: int = 1

    @property
    def made(self) -> float:
        """Tokens so far: the first one, and what passes have made."""
        return 1 + (self.output - 1) * self.passes / self.most

    @property
    def whole(self) -> int:
        """Tokens for which there must be room."""
        return self.prompt + self.output


@dataclass
class NaivePool:
    """Servers that are alike; `seconds` gives the time of a pass for tokens of generating requests, tokens of their
    caches, tokens of prompts and pairs among these."""

    seconds: Callable[[int, float, int, int], float]
    servers: int
    slots: int
    budget: int
    cache_tokens: int
    drafts: NaiveDrafts = field(default_factory=NaiveDrafts)
    state: int = 0
    size: int = 1
    most: Sequence[int] = (0,)
    token_s: Sequence[float] = (0.0,)

    def server(self) -> "Server":
        """One of them."""
        return Server(tiers=NaiveTiers(self.size, self.most, self.token_s))

    def passes(self, request: Request) -> int:
        """Passes that a request takes."""
        made, passes = 1, 0
        while made < request.output:
            made += self.drafts.makes(request.number, request.output - made)
            passes += 1
        return passes


@dataclass(eq=False)
class Server:
    """Who is in the pass (for tokens: who has joined), who will join, when the pass ends (infinity: none), until when
    caches go over the link, and what it keeps of earlier prompts."""

    members: list[Request] = field(default_factory=list)
    joining: list[Request] = field(default_factory=list)
    ends: float = math.inf
    busy: float = -math.inf
    tiers: NaiveTiers = field(default_factory=NaiveTiers)

    def used(self) -> set[int]:
        """Blocks of those in the pass."""
        return {block for request in self.members for block in request.blocks}

    def leave(self, request: Request) -> None:
        """A prompt has passed: the end of it is the oldest of its blocks."""
        self.members.remove(request)
        for block in reversed(request.blocks):
            if block not in self.used():
                self.tiers.kept[0][block] = None


@dataclass
class NaiveApart:
    """Two pools, and caches that move from one to the other. Seconds in which the cache of a token goes out and comes
    in, the same of the state of a request, and from sending a request to its arrival."""

    before: NaivePool
    after: NaivePool
    out_s: float = 0.0
    in_s: float = 0.0
    state_out_s: float = 0.0
    state_in_s: float = 0.0
    host_s: float = 0.0
    now: float = -math.inf
    closed: bool = False
    coming: list[Request] = field(default_factory=list)  # not sent yet
    queue: list[Request] = field(default_factory=list)  # sent, arrived or on their way
    moving: list[tuple[Request, Server]] = field(default_factory=list)  # who moves to whom
    waiting: list[tuple[Request, Server]] = field(default_factory=list)  # who has moved, and will join

    def __post_init__(self) -> None:
        self.prompting = [self.before.server() for _ in range(self.before.servers)]
        self.generating = [self.after.server() for _ in range(self.after.servers)]

    def serve(
        self,
        arrivals: Sequence[float],
        clients: int,
        prompts: Sequence[int],
        outputs: Sequence[int],
        chains: Sequence[Sequence[int]] | None = None,
    ) -> list[Request]:
        """Serve all requests; what became of each."""
        chains = chains or [()] * len(prompts)
        requests = [Request(i, p, o, c) for i, (p, o, c) in enumerate(zip(prompts, outputs, chains, strict=True))]
        self.coming, self.closed = list(requests), clients > 0
        for when in [self.host_s] * min(clients, len(requests)) if clients else arrivals:
            self.send(when)
        while True:
            times = [server.ends for server in self.prompting + self.generating]
            times += [request.first for request, _ in self.moving]
            times += [request.arrived for request in self.queue if request.arrived > self.now]
            self.now = min(times, default=math.inf)
            if self.now == math.inf:
                return requests
            self.finish()
            self.release()
            self.bind()
            self.join()
            self.take()

    def send(self, when: float) -> None:
        """The next request, if there is one, arrives then."""
        if self.coming:
            self.queue.append(self.coming.pop(0))
            self.queue[-1].arrived = when

    def leave(self) -> None:
        """A client has its answer, or learns that there will be none."""
        if self.closed:
            self.send(self.now + self.host_s)

    def release(self) -> None:
        """Passes of prompts end, and their requests move, each to the server that has the fewest: over a link that is
        free at both ends."""
        for server in self.prompting:
            if server.ends <= self.now:
                for request in list(server.members):
                    server.leave(request)
                    other = min(self.generating, key=lambda s: len(s.members) + len(s.joining))
                    begins = max(self.now, server.busy, other.busy)
                    server.busy = begins + self.out_s * request.prompt + self.state_out_s
                    other.busy = begins + self.in_s * request.prompt + self.state_in_s
                    request.first = max(server.busy, other.busy)
                    other.joining.append(request)
                    self.moving.append((request, other))
                server.ends = math.inf

    def finish(self) -> None:
        """Passes of tokens end, and requests that have all their tokens are done."""
        for server in self.generating:
            if server.ends <= self.now:
                server.ends = math.inf
                for request in list(server.members):
                    request.passes += 1
                    if request.passes == request.most:
                        request.last = self.now
                        server.members.remove(request)
                        self.leave()

    def bind(self) -> None:
        """Requests that have moved are done, or wait for a place."""
        arrived = [(request, server) for request, server in self.moving if request.first <= self.now]
        self.moving = [(request, server) for request, server in self.moving if request.first > self.now]
        for request, server in arrived:
            if request.output == 1:
                request.last = request.first
                server.joining.remove(request)
                self.leave()
            else:
                self.waiting.append((request, server))

    def join(self) -> None:
        """Who has a server joins it between two passes if it has a slot and room; then passes begin."""
        stay = []
        for request, server in self.waiting:
            held = sum(r.whole + self.after.state for r in [*server.members, request])
            room = len(server.members) < self.after.slots and held <= self.after.cache_tokens
            if server.ends == math.inf and room:
                server.joining.remove(request)
                server.members.append(request)
                request.most = self.after.passes(request)
            else:
                stay.append((request, server))
        self.waiting = stay
        for server in self.generating:
            if server.ends == math.inf and server.members:
                cached = sum(r.prompt + r.made for r in server.members)
                verified = len(server.members) * (1 + self.after.drafts.tokens)
                server.ends = self.now + self.after.seconds(verified, cached, 0, 0)

    def fits(self, request: Request) -> bool:
        """Whether there is a cache that holds it, before and after."""
        made = request.prompt + self.before.state <= self.before.cache_tokens
        return made and request.whole + self.after.state <= self.after.cache_tokens

    def take(self) -> None:
        """Idle servers of prompts take from the queue."""
        while self.queue and self.queue[0].arrived <= self.now:
            idle = [server for server in self.prompting if server.ends == math.inf]
            if not idle:
                return
            if not self.fits(self.queue[0]):
                self.queue.pop(0)
                self.leave()
                continue
            there = 0
            while there < len(self.queue) and self.queue[there].arrived <= self.now and self.fits(self.queue[there]):
                there += 1
            most = min(math.ceil(there / len(idle)), self.before.slots)
            loading = 0.0
            for number in range(most):
                if number and not self.takes(idle[0], self.queue[0]):
                    break
                loading += self.admit(idle[0], self.queue.pop(0))
            idle[0].ends = self.now + max(self.prompts_s(idle[0].members), loading)

    def held(self, server: Server, *more: Request) -> int:
        """Room that those in the pass take: what is shared, once."""
        requests = [*server.members, *more]
        alone = sum(r.prompt + self.before.state - self.before.size * len(r.blocks) for r in requests)
        return alone + self.before.size * len({block for request in requests for block in request.blocks})

    def known(self, server: Server, request: Request) -> list[int]:
        """Tiers of the blocks at its beginning that need not pass again; one token always does."""
        found: list[int] = []
        for block in request.blocks:
            tier = server.tiers.where(block, server.used())
            if tier is None or self.before.size * (len(found) + 1) >= request.prompt:
                break
            found.append(tier)
        return found

    def takes(self, server: Server, request: Request) -> bool:
        """Whether a pass takes one more prompt, and the cache holds what all of them make."""
        new = request.prompt - self.before.size * len(self.known(server, request))
        passing = sum(r.prompt - r.known for r in server.members)
        room = self.held(server, request) <= self.before.cache_tokens
        return passing + new <= self.before.budget and room

    def admit(self, server: Server, request: Request) -> float:
        """It passes; the seconds until what slower tiers have of it is there."""
        tiers = self.known(server, request)
        request.known = self.before.size * len(tiers)
        for tier in tiers:
            server.tiers.found[tier] += self.before.size
        server.tiers.found[-1] += request.prompt - request.known
        for block in request.blocks:
            server.tiers.take(block)
        server.members.append(request)
        server.tiers.make_room(self.before.cache_tokens - self.held(server))
        return sum(self.before.size * server.tiers.token_s[tier] for tier in tiers)

    def prompts_s(self, taken: list[Request]) -> float:
        """Seconds of prompts that pass together: tokens in pieces of the budget, all their pairs as in the first."""
        tokens, seconds = sum(r.prompt - r.known for r in taken), 0.0
        pairs = sum(place + 1 for r in taken for place in range(r.known, r.prompt))
        while tokens > 0:
            piece = min(tokens, self.before.budget)
            seconds += self.before.seconds(0, 0, piece, pairs)
            tokens, pairs = tokens - piece, 0
        return seconds
