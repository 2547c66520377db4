"""A scheduler for a paged KV cache: requests arrive, are prefilled, decode a token in each step, and are freed.

Each step has three parts, in this order:
1. Finished sequences are freed.
2. Every running sequence writes one token (decode).
3. Waiting requests enter in order of arrival, each with all tokens of its prompt (prefill).

Sources: continuous batching from Yu et al. 2022, "Orca", OSDI. Shared pages and copy on write from Kwon et al. 2023,
arXiv:2309.06180, without its preemption: a request enters only with certain pages up to its last token. A step is a
turn of the scheduler, not a time.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from kernels.core.fields import quoted
from kernels.errors import ProblemError
from kernels.kv_cache.manager import Event, KVCache

MOST_VISITS, MOST_STEPS, MOST_EVENTS = 12, 120, 500


@dataclass(frozen=True)
class Visit:
    """A request.

    arrives: step of its arrival, from 1
    prompt: number of tokens, written at once
    answer: number of tokens, one per step (a model never writes its last token). 0 for a pure prefix.
    parent: request with a common beginning, or "". This request shares the parent's pages at its admission. A prompt
        of 0 makes it another answer to the same prompt. A parent stays until its last child has arrived."""

    name: str
    arrives: int
    prompt: int
    answer: int
    parent: str = ""


@dataclass(frozen=True)
class Step:
    """The events of a step.

    freed, decoded, admitted: names, in order
    begun: for each admitted request, the number of its parent's tokens
    waiting: names of arrived requests without admission
    needed: most pages for the first waiting request
    sure: free pages beyond the needs of all running requests"""

    number: int
    events: tuple[Event, ...]
    freed: tuple[str, ...]
    decoded: tuple[str, ...]
    admitted: tuple[str, ...]
    begun: tuple[int, ...]
    waiting: tuple[str, ...]
    needed: int
    sure: int


def read_visits(text: str) -> tuple[Visit, ...]:
    """Visits from text such as "S 1 44 0, A 2 9 14 S": NAME ARRIVES PROMPT ANSWER [PARENT]. Raises ProblemError with
    the faulty visit."""
    visits: dict[str, Visit] = {}
    for number, part in enumerate((p.strip() for p in text.split(",")), 1):
        match part.split():
            case [name, a, p, n, *parent] if len(parent) < 2 and all(t.isdecimal() and len(t) < 5 for t in (a, p, n)):
                visit = Visit(name, int(a), int(p), int(n), "".join(parent))
            case _:
                raise ProblemError(
                    f"Request {number} is {quoted(part)}. Write NAME ARRIVES PROMPT ANSWER, or NAME ARRIVES PROMPT "
                    "ANSWER PARENT."
                )
        _check(number, visit, visits)
        visits[name] = visit
    if len(visits) > MOST_VISITS:
        raise ProblemError(f"The text has {len(visits)} requests. The limit is {MOST_VISITS}. Remove some.")
    if not any(visit.answer for visit in visits.values()):
        raise ProblemError(
            "No request has an answer, so no step decodes a token. Give one request an answer of at least 1."
        )
    return tuple(visits.values())


def _check(number: int, visit: Visit, before: Mapping[str, Visit]) -> None:
    if not visit.name.isalnum() or len(visit.name) > 12 or visit.name in before:
        raise ProblemError(
            f"The name of request {number} is {quoted(visit.name)}. Use 1 to 12 letters and digits, and a new name."
        )
    if visit.arrives < 1:
        raise ProblemError(f"{visit.name} arrives at step {visit.arrives}. The first step is 1.")
    if not visit.prompt and not (visit.parent and visit.answer):
        raise ProblemError(
            f"{visit.name} has a prompt of 0 tokens. Only another answer of a parent may have this. Give it a prompt "
            "of at least 1."
        )
    parent = before.get(visit.parent)
    if visit.parent and (parent is None or parent.arrives > visit.arrives):
        raise ProblemError(
            f"The parent of {visit.name} is {quoted(visit.parent)}. Name an earlier request in the list, with the "
            "same or an earlier step."
        )


def alone(visits: tuple[Visit, ...], steps: tuple[Step, ...]) -> tuple[Visit, ...]:
    """These requests without sharing: each has its parent's tokens as its own, and pure prefixes are gone."""
    begun = {name: tokens for step in steps for name, tokens in zip(step.admitted, step.begun)}
    return tuple(replace(v, prompt=v.prompt + begun[v.name], parent="") for v in visits if v.answer)


@lru_cache(maxsize=64)
def serve(visits: tuple[Visit, ...], num_blocks: int, block_size: int) -> tuple[Step, ...]:
    """The steps up to the last written token. Sequences at that time stay. Raises ProblemError if a request needs more
    pages than the pool can give, or for more than MOST_STEPS steps."""
    server = _Server(KVCache(num_blocks, block_size), sorted(visits, key=lambda v: v.arrives))
    while server.unfinished:
        server.step()
        if len(server.steps) > MOST_STEPS or sum(len(step.events) for step in server.steps) > MOST_EVENTS:
            raise ProblemError(
                f"These requests take more than {MOST_STEPS} steps or {MOST_EVENTS} events. Let them arrive earlier, "
                "or write fewer tokens."
            )
    return tuple(server.steps)


class _Server:
    """The cache and its requests between two steps."""

    def __init__(self, cache: KVCache, visits: list[Visit]) -> None:
        self.cache = cache
        self.to_come = visits  # not yet admitted, in the order of their arrival
        self.left: dict[str, int] = {}  # admitted request -> tokens left to write
        self.steps: list[Step] = []

    @property
    def unfinished(self) -> bool:
        return bool(self.to_come) or any(self.left.values())

    def step(self) -> None:
        number, events = len(self.steps) + 1, []
        freed = [name for name in self.left if self._done(name)]
        for name in freed:
            events.append(self._play(Event("free", name)))
            del self.left[name]
        decoded = [name for name, left in self.left.items() if left]
        for name in decoded:
            events.append(self._play(Event("append", name, 1)))
            self.left[name] -= 1
        admitted, begun = [], []
        while self.to_come and self.to_come[0].arrives <= number and self._fits(self.to_come[0]):
            visit = self.to_come.pop(0)
            admitted.append(visit.name)
            begun.append(self._begins_with(visit))
            if visit.parent:
                events.append(self._play(Event("fork", visit.name, parent=visit.parent)))
            if visit.prompt:
                events.append(self._play(Event("append" if visit.parent else "add", visit.name, visit.prompt)))
            self.left[visit.name] = visit.answer
        waiting = [visit for visit in self.to_come if visit.arrives <= number]
        needed = self._needs(waiting[0]) if waiting else 0
        names = (tuple(freed), tuple(decoded), tuple(admitted))
        waits = tuple(visit.name for visit in waiting)
        self.steps.append(Step(number, tuple(events), *names, tuple(begun), waits, needed, self._sure))

    def _play(self, event: Event) -> Event:
        self.cache = self.cache.apply(event)[0]
        return event

    def _done(self, name: str) -> bool:
        """Whether a request has no token left to write and no child to come."""
        return not self.left[name] and all(visit.parent != name for visit in self.to_come)

    def _fits(self, visit: Visit) -> bool:
        ended = all(not left and not self._done(name) for name, left in self.left.items())  # nothing more will be freed
        if ended and self._needs(visit) > self._sure:
            raise ProblemError(
                f"{visit.name} needs {self._needs(visit)} pages of {self.cache.block_size} slots, and {self._sure} of "
                f"{self.cache.num_blocks} can be free. Choose a larger pool, or fewer tokens."
            )
        return self._needs(visit) <= self._sure

    def _begins_with(self, visit: Visit) -> int:
        return len(self.cache.find(visit.parent).tokens) if visit.parent else 0

    def _needs(self, visit: Visit) -> int:
        """Most pages of a visit up to its last token, without the full shared ones."""
        begun = self._begins_with(visit)
        return self._pages(begun + visit.prompt + visit.answer) - begun // self.cache.block_size

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self.cache.block_size)

    @property
    def _sure(self) -> int:
        """Free pages beyond the needs of all admitted requests."""
        running = [(self.cache.find(name), left) for name, left in self.left.items()]
        fresh = sum(self._pages(len(s.tokens) + left) - len(s.table) for s, left in running)
        counts, size = self.cache.ref_counts, self.cache.block_size
        written = Counter(s.table[-1] for s, left in running if left and len(s.tokens) % size)
        copies = sum(min(writers, counts[page] - 1) for page, writers in written.items())  # the last owner needs none
        return len(self.cache.free) - fresh - copies
