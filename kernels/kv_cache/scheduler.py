"""A scheduler for a paged KV cache: requests arrive, are prefilled, decode a token in each step, and are freed.

In each step, in this order: what is finished is freed; every running sequence writes one token (decode); requests that
wait are admitted in the order in which they came, each with all its prompt's tokens at once (prefill). Continuous
batching as of Yu et al. 2022, "Orca", OSDI; forks that share pages, and are copied on write, as of Kwon et al. 2023,
arXiv:2309.06180, but without its preemption: a request is admitted only when the pages for its last token are sure to
be free. A step is a turn of the scheduler, not a time.
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
    """A request. arrives: the step in which it comes, from 1. prompt: its tokens, written at once. answer: the tokens
    that it then writes, one in each step (a model's last token is never written); 0 for a prefix, which is there only
    to be begun with. parent: the request that it begins with, as that stands when this is admitted, and shares the
    pages of; with a prompt of 0 it is one more answer to the same. A parent stays while others that begin with it are
    to come."""

    name: str
    arrives: int
    prompt: int
    answer: int
    parent: str = ""


@dataclass(frozen=True)
class Step:
    """What happens in a step. events: in order. freed, decoded, admitted: the names, in order; begun: of each admitted
    one the tokens of its parent that it begins with. waiting: who has come and is not admitted. needed: pages that the
    first of them may come to need; sure: free ones that nobody who runs may come to need."""

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
    """Visits from text such as "S 1 44 0, A 2 9 14 S": NAME ARRIVES PROMPT ANSWER and perhaps its parent's name.
    ProblemError names the one that is not understood or cannot be."""
    visits: dict[str, Visit] = {}
    for number, part in enumerate((p.strip() for p in text.split(",")), 1):
        match part.split():
            case [name, a, p, n, *parent] if len(parent) < 2 and all(t.isdecimal() and len(t) < 5 for t in (a, p, n)):
                visit = Visit(name, int(a), int(p), int(n), "".join(parent))
            case _:
                raise ProblemError(
                    f"Request {number} is {quoted(part)}; it must be NAME ARRIVES PROMPT ANSWER, or NAME ARRIVES "
                    "PROMPT ANSWER PARENT."
                )
        _check(number, visit, visits)
        visits[name] = visit
    if len(visits) > MOST_VISITS:
        raise ProblemError(f"requests are {len(visits)}; at most {MOST_VISITS} can be served. Leave some out.")
    if not any(visit.answer for visit in visits.values()):
        raise ProblemError("No request has an answer, so nothing is decoded. Give one of them an answer of 1 or more.")
    return tuple(visits.values())


def _check(number: int, visit: Visit, before: Mapping[str, Visit]) -> None:
    """ProblemError if a visit cannot be, after these."""
    if not visit.name.isalnum() or len(visit.name) > 12 or visit.name in before:
        raise ProblemError(
            f"Request {number} is called {quoted(visit.name)}; a name is 1 to 12 letters and digits, and no other's."
        )
    if visit.arrives < 1:
        raise ProblemError(f"{visit.name} arrives at step {visit.arrives}; the first step is 1.")
    if not visit.prompt and not (visit.parent and visit.answer):
        raise ProblemError(
            f"{visit.name} has a prompt of 0 tokens; that is for one more answer to a request that it begins with. "
            "Give it a prompt of 1 or more."
        )
    parent = before.get(visit.parent)
    if visit.parent and (parent is None or parent.arrives > visit.arrives):
        raise ProblemError(
            f"{visit.name} begins with {quoted(visit.parent)}; it must be a request listed before it that arrives no "
            "later."
        )


def alone(visits: tuple[Visit, ...], steps: tuple[Step, ...]) -> tuple[Visit, ...]:
    """The same requests, each with the tokens that it begins with in these steps as its own: nothing is shared, and no
    prefix is there."""
    begun = {name: tokens for step in steps for name, tokens in zip(step.admitted, step.begun)}
    return tuple(replace(v, prompt=v.prompt + begun[v.name], parent="") for v in visits if v.answer)


@lru_cache(maxsize=64)
def serve(visits: tuple[Visit, ...], num_blocks: int, block_size: int) -> tuple[Step, ...]:
    """The steps, up to that in which the last token is written: who is still there then stays. ProblemError if a
    request needs more pages than the pool can ever give it, or if it takes more than MOST_STEPS steps."""
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
    """The cache and who is where in it, between two steps."""

    def __init__(self, cache: KVCache, visits: list[Visit]) -> None:
        self.cache = cache
        self.to_come = visits  # not yet admitted, in the order of their arrival
        self.left: dict[str, int] = {}  # of each admitted one the tokens that it has still to write
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
        """Whether it has nothing left to write, and none that begins with it is to come."""
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
        """Tokens of its parent, now."""
        return len(self.cache.find(visit.parent).tokens) if visit.parent else 0

    def _needs(self, visit: Visit) -> int:
        """Pages that a visit may take up to its last token: all but the full ones that it shares."""
        begun = self._begins_with(visit)
        return self._pages(begun + visit.prompt + visit.answer) - begun // self.cache.block_size

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self.cache.block_size)

    @property
    def _sure(self) -> int:
        """Free pages that nobody who is admitted may come to need."""
        there = [(self.cache.find(name), left) for name, left in self.left.items()]
        fresh = sum(self._pages(len(s.tokens) + left) - len(s.table) for s, left in there)
        counts, size = self.cache.ref_counts, self.cache.block_size
        written = Counter(s.table[-1] for s, left in there if left and len(s.tokens) % size)
        copies = sum(min(writers, counts[page] - 1) for page, writers in written.items())  # the last owner needs none
        return len(self.cache.free) - fresh - copies
