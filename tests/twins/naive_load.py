"""A server under load, written from the rules: one pass after the other, one request after the other."""

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass
class Request:
    """Lengths, and what became of it: `taken` of its `text` (the prompt, and what was generated when its cache was
    given up) have passed. Its prompt begins with whole blocks."""

    number: int
    prompt: int
    output: int
    blocks: Sequence[int] = ()
    arrived: float = math.nan
    text: int = 0
    taken: int = 0
    made: int = 0
    first: float = math.nan
    last: float = math.nan
    lost: bool = False

    @property
    def generates(self) -> bool:
        return self.taken == self.text

    @property
    def togo(self) -> int:
        return self.output - self.made

    @property
    def cached(self) -> int:
        """Tokens in its cache, the last generated one among them."""
        return self.prompt + self.made if self.generates else self.taken


def finalised(bits: int) -> int:
    """SplitMix64's last steps, on 64 bits."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> shift)) * factor % 2**64
    return bits ^ (bits >> 31)


@dataclass
class NaiveDrafts:
    """Drafted tokens of a pass, and the chances that at most 0, 1, ... of them are accepted."""

    tokens: int = 0
    chances: Sequence[float] = ()

    def makes(self, number: int, togo: int) -> int:
        """Tokens of a pass: one, and those drafts whose chance is not above a number drawn for what is to go."""
        drawn = finalised(finalised((number + togo * 0x9E3779B97F4A7C15) % 2**64) ^ number)
        share = (drawn // 2**12 + 0.5) / 2**52
        return min(1 + sum(share >= chance for chance in self.chances), togo)


@dataclass
class NaiveTiers:
    """Blocks that nobody uses, tier by tier, the one that was used longest ago first; and tokens found in each tier by
    those that come for the first time."""

    size: int = 1
    most: Sequence[int] = (0,)
    token_s: Sequence[float] = (0.0,)
    kept: list[OrderedDict[int, None]] = field(default_factory=list)
    found: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kept, self.found = [OrderedDict() for _ in self.most], [0, *(0 for _ in self.most)]

    def where(self, block: int, used: set[int]) -> int | None:
        """The tier of a block."""
        if block in used:
            return 0
        return next((tier for tier, kept in enumerate(self.kept) if block in kept), None)

    def take(self, block: int) -> None:
        """A block that somebody uses is in no list."""
        for kept in self.kept:
            kept.pop(block, None)

    def make_room(self, tokens: float) -> None:
        """Blocks beyond the room move on."""
        for tier, kept in enumerate(self.kept):
            while len(kept) * self.size > max(tokens, 0.0) if tier == 0 else len(kept) > self.most[tier]:
                block, _ = kept.popitem(last=False)
                if tier + 1 < len(self.kept):
                    self.kept[tier + 1][block] = None


@dataclass
class NaiveServer:
    """Rules as in the docstring of `kernels.serving.load`; `seconds` gives the time of a pass for tokens of generating
    requests, tokens of their caches, tokens of prompts and pairs among these."""

    seconds: Callable[[int, int, int, int], float]
    slots: int
    budget: int
    cache_tokens: int
    reserved: float = 1.0
    host: float = 0.0
    prompts_first: bool = False
    state: int = 0
    drafts: NaiveDrafts = field(default_factory=NaiveDrafts)
    tiers: NaiveTiers = field(default_factory=NaiveTiers)
    now: float = 0.0
    loading: float = 0.0
    gave_up: bool = False
    running: list[Request] = field(default_factory=list)
    waiting: deque[Request] = field(default_factory=deque)

    def need(self, request: Request) -> float:
        """Room for what there is, or what is reserved, and for its state."""
        tokens = max(request.prompt + request.made, request.prompt + math.ceil(self.reserved * request.output))
        return tokens + self.state

    def used(self, *more: Request) -> set[int]:
        """Blocks of those that run."""
        return {block for request in [*self.running, *more] for block in request.blocks}

    def held(self, *more: Request) -> float:
        """Room that is taken: what is shared, once."""
        alone = sum(self.need(request) - self.tiers.size * len(request.blocks) for request in [*self.running, *more])
        return alone + self.tiers.size * len(self.used(*more))

    def admit(self, request: Request) -> None:
        """It runs; what others left of its beginning need not pass."""
        request.text, request.taken = request.prompt + request.made, 0
        for block in request.blocks:
            tier = self.tiers.where(block, self.used())
            if tier is None or request.taken + self.tiers.size >= request.text:
                break
            request.taken += self.tiers.size
            self.tiers.found[tier] += 0 if request.lost else self.tiers.size
            self.loading += self.tiers.size * self.tiers.token_s[tier]
        self.tiers.found[-1] += 0 if request.lost else request.text - request.taken
        for block in request.blocks:
            self.tiers.take(block)
        self.running.append(request)
        self.tiers.make_room(self.cache_tokens - self.held())

    def leave(self, request: Request) -> None:
        """It runs no more: the end of its prompt is the oldest of its blocks, of which those remain that passed."""
        self.running.remove(request)
        whole = request.taken // self.tiers.size
        for block in reversed(request.blocks[:whole]):
            if block not in self.used():
                self.tiers.kept[0][block] = None

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
        coming, sent = deque(requests), deque[Request]()

        def send(when: float) -> None:
            if coming:
                sent.append(coming.popleft())
                sent[-1].arrived = when

        if clients:
            for _ in range(clients):
                send(self.host)
        else:
            for when in arrivals:
                send(when)
        while True:
            while sent and sent[0].arrived <= self.now:
                self.waiting.append(sent.popleft())
            self.tiers.make_room(self.cache_tokens - self.held())
            while self.waiting and len(self.running) < self.slots and not self.gave_up:
                request = self.waiting[0]
                if request.prompt + request.output + self.state > self.cache_tokens:
                    self.waiting.popleft()
                    if clients:
                        send(self.now + self.host)
                    continue
                spare = 0.01 * self.cache_tokens if self.running and self.reserved < 1 else 0.0
                if self.held(request) + spare > self.cache_tokens:
                    break
                self.admit(self.waiting.popleft())
            if not self.running:
                if not sent:
                    return requests
                self.now = max(self.now, sent[0].arrived)
                continue
            if not self.fits():
                self.running[-1].lost = True
                self.waiting.appendleft(self.running[-1])
                self.leave(self.running[-1])
                self.gave_up = bool(self.running)
                continue
            self.gave_up = False
            self.now += self.run()
            for request in list(self.running):
                if request.made == request.output:
                    request.last = self.now
                    self.leave(request)
                    if clients:
                        send(self.now + self.host)

    def fits(self) -> bool:
        """Whether what each that generates may make has room, or a token of somebody else."""
        growing = self.growing()
        cached, coming = self.cached()
        return cached + growing <= self.cache_tokens and (growing > 0 or cached - coming < self.cache_tokens)

    def growing(self) -> int:
        """Tokens that those who generate may make in a pass."""
        return sum(min(self.drafts.tokens + 1, request.togo) for request in self.generating())

    def cached(self) -> tuple[int, int]:
        """Tokens for which there is room, and those of them that have not passed."""
        size = self.tiers.size
        beyond = [request.cached - size * len(request.blocks) for request in self.running]
        return (
            size * len(self.used()) + sum(max(tokens, 0) + self.state for tokens in beyond),
            sum(max(-tokens, 0) for tokens in beyond),
        )

    def generating(self) -> list[Request]:
        """Who makes a token in the next pass: nobody, if prompts come first and there are some."""
        found = [r for r in self.running if r.generates]
        return [] if self.prompts_first and len(found) < len(self.running) else found

    def run(self) -> float:
        """One pass: who generates makes a token and what is accepted, the budget takes prompts; its seconds."""
        generating = self.generating()
        context = sum(r.prompt + r.made for r in generating)
        cached, coming = self.cached()
        verified = len(generating) * (self.drafts.tokens + 1)
        room = max(min(self.budget - verified, self.cache_tokens - cached + coming - self.growing()), 0)
        tokens, pairs, ended = 0, 0, []
        for request in self.running:
            if request.generates:
                continue
            chunk = min(request.text - request.taken, room - tokens)
            pairs += sum(request.taken + place + 1 for place in range(chunk))
            request.taken += chunk
            tokens += chunk
            if chunk and request.generates:
                ended.append(request)
        seconds, self.loading = max(self.seconds(verified, context, tokens, pairs), self.loading), 0.0
        for request in generating:
            request.made += self.drafts.makes(request.number, request.togo)
        for request in ended:
            request.made += 1
            if request.made == 1:
                request.first = self.now + seconds
        return seconds
