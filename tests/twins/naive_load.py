"""A server under load, written from the rules: one pass after the other, one request after the other."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass
class Request:
    """Lengths, and what became of it."""

    number: int
    prompt: int
    output: int
    arrived: float
    taken: int = 0
    made: int = 0
    first: float = math.nan
    last: float = math.nan


@dataclass
class NaiveServer:
    """Rules as in the docstring of `kernels.serving.load`; `seconds` gives the time of a pass for generating requests,
    tokens of their caches, tokens of prompts and pairs among these."""

    seconds: Callable[[int, int, int, int], float]
    slots: int
    budget: int
    cache_tokens: int
    running: list[Request] = field(default_factory=list)

    def serve(
        self, arrivals: Sequence[float], clients: int, prompts: Sequence[int], outputs: Sequence[int]
    ) -> list[Request]:
        """Serve all requests; what became of each."""
        requests = [Request(i, p, o, math.nan) for i, (p, o) in enumerate(zip(prompts, outputs, strict=True))]
        coming, waiting = deque(requests), deque[Request]()
        now = 0.0

        def arrive(when: float) -> None:
            request = coming.popleft()
            request.arrived = when
            waiting.append(request)

        if clients:
            for _ in range(min(clients, len(requests))):
                arrive(0.0)
        while True:
            while not clients and coming and arrivals[coming[0].number] <= now:
                arrive(arrivals[coming[0].number])
            while waiting and len(self.running) < self.slots:
                need = waiting[0].prompt + waiting[0].output
                if need > self.cache_tokens:
                    waiting.popleft()
                    if clients and coming:
                        arrive(now)
                    continue
                if need + sum(r.prompt + r.output for r in self.running) > self.cache_tokens:
                    break
                self.running.append(waiting.popleft())
            if not self.running:
                if not coming:
                    return requests
                now = max(now, arrivals[coming[0].number])
                continue
            now += self._pass()
            for request in list(self.running):
                if request.taken == request.prompt and math.isnan(request.first) and request.made == 1:
                    request.first = now
                if request.made == request.output:
                    request.last = now
                    self.running.remove(request)
                    if clients and coming:
                        arrive(now)

    def _pass(self) -> float:
        """One pass: who generates makes a token, the budget takes prompts; its seconds."""
        generating = [r for r in self.running if r.taken == r.prompt]
        context = sum(r.prompt + r.made for r in generating)
        room, tokens, pairs = max(self.budget - len(generating), 0), 0, 0
        for request in self.running:
            if request in generating:
                continue
            chunk = min(request.prompt - request.taken, room - tokens)
            pairs += sum(request.taken + place + 1 for place in range(chunk))
            request.taken += chunk
            tokens += chunk
            if chunk and request.taken == request.prompt:
                request.made = 1
        for request in generating:
            request.made += 1
        return self.seconds(len(generating), context, tokens, pairs)
