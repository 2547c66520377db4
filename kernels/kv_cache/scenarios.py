"""Histories of a KV cache that are worth a look: the block table story plays them, and recordings show their last
moment."""

from dataclasses import dataclass, replace

from kernels.core.fields import quoted
from kernels.errors import ProblemError
from kernels.kv_cache.manager import Change, Event, KVCache, play
from kernels.kv_cache.scheduler import Step, Visit, alone, read_visits, serve


@dataclass(frozen=True)
class Scenario:
    """A history of a cache. about: what to look at. events: in order; visits: in place of events, what a scheduler
    makes them of (serving.py). slots: of the pool, so that the number of pages follows from block_size. max_len: the
    slots that a server without pages would reserve for each sequence."""

    title: str
    about: str
    events: tuple[Event, ...]
    slots: int
    max_len: int
    visits: tuple[Visit, ...] = ()

    def steps(self, block_size: int) -> tuple[Step, ...]:
        """The scheduler's steps. ProblemError if a visit cannot be served."""
        return serve(self.visits, self.slots // block_size, block_size)

    def history(self, block_size: int) -> tuple[Event, ...]:
        """The events, in order."""
        return tuple(event for step in self.steps(block_size) for event in step.events) if self.visits else self.events

    def states(self, block_size: int) -> list[tuple[KVCache, Change | None]]:
        """[(KVCache, Change or None)] before the first event and after each."""
        return play(self.history(block_size), self.slots // block_size, block_size)


def read_events(text: str) -> tuple[Event, ...]:
    """Events from text such as "add A 20, append A 5, fork B A, free A"; ProblemError names the event that is not
    understood."""
    events = []
    for number, part in enumerate((p.strip() for p in text.split(",")), 1):
        match part.split():
            case ["add" | "append" as action, name, tokens] if tokens.isdecimal() and len(tokens) < 6:
                events.append(Event(action, name, int(tokens)))
            case ["fork", name, parent]:
                events.append(Event("fork", name, parent=parent))
            case ["free", name]:
                events.append(Event("free", name))
            case _:
                raise ProblemError(
                    f"Event {number} is {quoted(part)}; it must be add NAME TOKENS, append NAME TOKENS, fork NAME "
                    "PARENT or free NAME."
                )
    return tuple(events)


def write_event(event: Event) -> str:
    """The event as read_events reads it."""
    return f"{event.action} {event.name} {event.tokens or event.parent}".strip()


PRESETS = {
    "two_chats": Scenario(
        "Two chats growing",
        "Each chat takes a page when its last one is full. The tables name pages in the order in which they were "
        "taken, so the pages of a chat do not lie side by side.",
        read_events(
            "add A 20, add B 9, append A 4, append B 4, append A 4, append B 4, append A 5, append B 12, append A 8"
        ),
        256,
        128,
    ),
    "shared_prompt": Scenario(
        "A shared system prompt",
        "Three answers are forked from one prompt and share its pages. The first to write into the prompt's last, "
        "half full page gets a copy of it; the full pages stay shared.",
        read_events(
            "add S 44, fork A S, fork B S, fork C S, append A 6, append B 10, append C 3, free S, append A 9, "
            "append B 14"
        ),
        256,
        128,
    ),
    "one_long": Scenario(
        "One long context beside short ones",
        "With V1 one thread block walks the whole long context while those of the short ones have long been done. "
        "V2 cuts it into partitions.",
        read_events(
            "add L 150, add A 7, add B 15, append L 50, add C 3, append A 5, append L 33, append B 4, append C 1"
        ),
        384,
        384,
    ),
    "churn": Scenario(
        "Churn",
        "Sequences come and go. The pages that a freed one leaves are scattered over the pool, and the next one takes "
        "them as they are: with pages that does no harm.",
        read_events(
            "add A 30, add B 20, add C 40, free B, add D 50, append A 10, free C, add E 60, free A, append D 20, "
            "add F 25, append E 8"
        ),
        224,
        96,
    ),
}


_SHARED = Scenario(
    "Requests that share a prompt",
    "C2 is a second answer, forked from C while C writes. A request is admitted when the pages for its last token are "
    "sure to be free.",
    (),
    256,
    96,
    read_visits("S 1 44 0, A 2 9 14 S, B 3 14 8 S, C 4 6 22 S, C2 9 0 12 C, D 6 25 10 S, E 10 30 14"),
)
SERVED = {
    "one_prompt": _SHARED,
    "nothing_shared": replace(
        _SHARED,
        title="The same, nothing shared",
        about="Each brings the prompt S for itself, and C2 all that C had written. They need more pages, so most wait.",
        visits=alone(_SHARED.visits, _SHARED.steps(16)),
    ),
    "long_prompt": Scenario(
        "A long prompt among chats",
        "L brings 150 tokens at once. It waits until the pool has room for all of them, and so do those behind it.",
        (),
        256,
        160,
        read_visits("A 1 20 10, B 1 35 12, C 2 10 25, L 4 150 8, D 5 12 6, E 7 18 6"),
    ),
}
"""Requests that a scheduler serves: these arrive at a step, and what becomes of the cache follows."""

SHUFFLE_SEED = 1  # of the first shuffle
SHOWN_PARTITION = 32  # tokens: small, so that short contexts too are cut
SHOWN_RANGES = 4  # equal ranges of pages, for the same reason
