"""Example histories of a KV cache. The story of the block table plays them. Recordings show their last moment."""

from dataclasses import dataclass, replace

from kernels.core.fields import quoted
from kernels.errors import ProblemError
from kernels.kv_cache.manager import Change, Event, KVCache, play
from kernels.kv_cache.scheduler import Step, Visit, alone, read_visits, serve


@dataclass(frozen=True)
class Scenario:
    """A history of a cache.

    about: the point of interest, in sentences
    visits: requests for a scheduler, in place of events (scheduler.py)
    texts: (request, its own part of the prompt) if a model answers the visits. A token is a character.
    slots: of the pool. The number of pages follows from block_size.
    max_len: slots per sequence in a server without pages"""

    title: str
    about: str
    events: tuple[Event, ...]
    slots: int
    max_len: int
    visits: tuple[Visit, ...] = ()
    texts: tuple[tuple[str, str], ...] = ()

    def steps(self, block_size: int) -> tuple[Step, ...]:
        """The steps of the scheduler. Raises ProblemError for an impossible visit."""
        return serve(self.visits, self.slots // block_size, block_size)

    def history(self, block_size: int) -> tuple[Event, ...]:
        return tuple(event for step in self.steps(block_size) for event in step.events) if self.visits else self.events

    def states(self, block_size: int) -> list[tuple[KVCache, Change | None]]:
        """[(KVCache, Change or None)] before the first event and after each."""
        return play(self.history(block_size), self.slots // block_size, block_size)


def read_events(text: str) -> tuple[Event, ...]:
    """Events from text such as "add A 20, append A 5, fork B A, free A". Raises ProblemError with the faulty event."""
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
                    f"Event {number} is {quoted(part)}. Write add NAME TOKENS, append NAME TOKENS, fork NAME PARENT or "
                    "free NAME."
                )
    return tuple(events)


def write_event(event: Event) -> str:
    return f"{event.action} {event.name} {event.tokens or event.parent}".strip()


PRESETS = {
    "two_chats": Scenario(
        "Two chats growing",
        "Each chat takes a new page after its last one is full. The chats take turns, so the pages of one chat are not "
        "neighbours in the pool.",
        read_events(
            "add A 20, add B 9, append A 4, append B 4, append A 4, append B 4, append A 5, append B 12, append A 8"
        ),
        256,
        128,
    ),
    "shared_prompt": Scenario(
        "A shared system prompt",
        "Three answers share the pages of one prompt. The first answer to write into the half full last page of the "
        "prompt gets its own copy. The full pages stay shared.",
        read_events(
            "add S 44, fork A S, fork B S, fork C S, append A 6, append B 10, append C 3, free S, append A 9, "
            "append B 14"
        ),
        256,
        128,
    ),
    "one_long": Scenario(
        "One long context beside short ones",
        "With V1, one thread block walks the whole long context. The blocks of the short contexts finish early and "
        "wait. V2 cuts the long context into partitions.",
        read_events(
            "add D 150, add A 7, add B 15, append D 50, add C 3, append A 5, append D 33, append B 4, append C 1"
        ),
        384,
        384,
    ),
    "churn": Scenario(
        "Churn",
        "Sequences come and go. The freed pages are scattered over the pool, and the next sequence takes them in any "
        "order. Pages make this harmless.",
        read_events(
            "add A 30, add B 20, add C 40, free B, add D 50, append A 20, free C, add E 60, free A, append D 20, "
            "add F 25, append E 8"
        ),
        224,
        96,
    ),
}


_SHARED = Scenario(
    "Requests that share a prompt",
    "C2 is a second answer, a fork of C during its decoding. The server admits a request as soon as free pages up to "
    "its last token are certain.",
    (),
    256,
    96,
    read_visits("R 1 44 0, A 2 9 14 R, B 3 14 8 R, C 4 6 22 R, C2 9 0 12 C, D 6 25 10 R, E 10 30 14"),
)
_TEXTS = (
    ("R", "You answer in one short line of text. "),
    *(("A", "What is a page?"), ("B", "Why share?"), ("C", "Any cats?")),
)
SERVED = {
    "one_prompt": _SHARED,
    "nothing_shared": replace(
        _SHARED,
        title="The same, nothing shared",
        about="Each request brings its own copy of the prompt R, and C2 brings all tokens of C. They need more pages, "
        "so most wait.",
        visits=alone(_SHARED.visits, _SHARED.steps(16)),
    ),
    "long_prompt": Scenario(
        "A long prompt among chats",
        "L brings 150 tokens at once. It waits for room in the pool, and all later requests wait behind it.",
        (),
        256,
        160,
        read_visits("A 1 20 10, B 1 35 12, C 2 10 25, L 4 150 8, D 5 12 6, E 7 18 6"),
    ),
    "generation": Scenario(
        "A loop that generates text",
        "A small model answers three requests over this cache, and R is the prompt that they share. Its weights are "
        "random, so the text is noise.",
        (),
        256,
        96,
        read_visits("R 1 38 0, A 2 15 12 R, B 3 10 9 R, C 5 9 14 R"),
        _TEXTS,
    ),
}
"""Requests for a scheduler, each with its step of arrival. The history of the cache follows from them."""

SHUFFLE_SEED = 1  # of the first shuffle
SHOWN_PARTITION = 32  # tokens: small enough to cut short contexts, too
SHOWN_RANGES = 4  # equal ranges of pages, also small
