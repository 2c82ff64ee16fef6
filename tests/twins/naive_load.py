"""A server under load, written from the rules: one pass after the other, one request after the other."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass
class Request:
    """Lengths, and what became of it: `taken` of its `text` (the prompt, and what was generated when its cache was
    given up) have passed."""

    number: int
    prompt: int
    output: int
    arrived: float = math.nan
    text: int = 0
    taken: int = 0
    made: int = 0
    first: float = math.nan
    last: float = math.nan

    @property
    def generates(self) -> bool:
        return self.taken == self.text

    @property
    def cached(self) -> int:
        """Tokens in its cache, the last generated one among them."""
        return self.prompt + self.made if self.generates else self.taken


@dataclass
class NaiveServer:
    """Rules as in the docstring of `kernels.serving.load`; `seconds` gives the time of a pass for generating requests,
    tokens of their caches, tokens of prompts and pairs among these."""

    seconds: Callable[[int, int, int, int], float]
    slots: int
    budget: int
    cache_tokens: int
    reserved: float = 1.0
    host: float = 0.0
    prompts_first: bool = False
    now: float = 0.0
    running: list[Request] = field(default_factory=list)
    waiting: deque[Request] = field(default_factory=deque)

    def need(self, request: Request) -> float:
        """Room for what there is, or what is reserved."""
        return max(request.prompt + request.made, request.prompt + math.ceil(self.reserved * request.output))

    def serve(
        self, arrivals: Sequence[float], clients: int, prompts: Sequence[int], outputs: Sequence[int]
    ) -> list[Request]:
        """Serve all requests; what became of each."""
        requests = [Request(i, p, o) for i, (p, o) in enumerate(zip(prompts, outputs, strict=True))]
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
            while self.waiting and len(self.running) < self.slots:
                request = self.waiting[0]
                if request.prompt + request.output > self.cache_tokens:
                    self.waiting.popleft()
                    if clients:
                        send(self.now + self.host)
                    continue
                spare = 0.01 * self.cache_tokens if self.running and self.reserved < 1 else 0.0
                if sum(map(self.need, [*self.running, request])) + spare > self.cache_tokens:
                    break
                request.text, request.taken = request.prompt + request.made, 0
                self.running.append(self.waiting.popleft())
            if not self.running:
                if not sent:
                    return requests
                self.now = max(self.now, sent[0].arrived)
                continue
            if not self.fits():
                self.waiting.appendleft(self.running.pop())
                continue
            self.now += self.run()
            for request in list(self.running):
                if request.made == request.output:
                    request.last = self.now
                    self.running.remove(request)
                    if clients:
                        send(self.now + self.host)

    def fits(self) -> bool:
        """Whether a token of each that generates has room, or of somebody else."""
        cached = sum(request.cached for request in self.running)
        generating = len(self.generating())
        return cached + max(generating, 1) <= self.cache_tokens

    def generating(self) -> list[Request]:
        """Who makes a token in the next pass: nobody, if prompts come first and there are some."""
        found = [r for r in self.running if r.generates]
        return [] if self.prompts_first and len(found) < len(self.running) else found

    def run(self) -> float:
        """One pass: who generates makes a token, the budget takes prompts; its seconds."""
        generating = self.generating()
        context = sum(r.prompt + r.made for r in generating)
        cached = sum(r.cached for r in self.running)
        room = max(min(self.budget, self.cache_tokens - cached) - len(generating), 0)
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
        seconds = self.seconds(len(generating), context, tokens, pairs)
        for request in generating + ended:
            request.made += 1
            if request.made == 1:
                request.first = self.now + seconds
        return seconds
