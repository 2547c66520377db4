"""Histories of a KV cache that show something: the block table story plays them, and recordings are made of their last
moment."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from kernels.core.fields import quoted
from kernels.errors import ProblemError
from kernels.families.paged.cache import CacheCopyProblem, CacheWriteProblem
from kernels.families.paged.fp8_cache import FP8, Fp8WriteProblem
from kernels.families.paged.kv_cache import Change, Event, KVCache, play
from kernels.families.paged.problem import PagedProblem
from kernels.families.paged.serving import Step, Visit, alone, read_visits, serve


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


def problem_at(cache: KVCache, kind: type[PagedProblem] = PagedProblem, **shape: Any) -> Any:
    """The problem, of a `kind`, of a cache as it stands; `shape` gives num_heads, head_dim and so on. ProblemError if
    the cache holds no sequence."""
    if not cache.sequences:
        raise ProblemError("The cache holds no sequence, so there is nothing to attend to. Add one.")
    return kind(
        context_lens=tuple(len(s.tokens) for s in cache.sequences),
        block_tables=tuple(s.table for s in cache.sequences),
        token_ids=tuple(s.tokens for s in cache.sequences),
        families=tuple(s.family for s in cache.sequences),
        num_blocks=cache.num_blocks,
        block_size=cache.block_size,
        **shape,
    )


def copy_of(cache: KVCache, change: Change, **shape: Any) -> CacheCopyProblem | None:
    """What copies pages for an event: the problem of its copy on write, or None. shape: num_kv_heads, head_dim, dtype,
    seed."""
    if not change.copied:
        return None
    return CacheCopyProblem(copies=(change.copied,), **_pool(cache), **shape)


def write_of(cache: KVCache, change: Change, cache_dtype: str = "", **shape: Any) -> CacheWriteProblem | None:
    """What writes an event's new tokens into their slots, or None where it brought none. cache_dtype: of WRITES; shape:
    as of copy_of."""
    if not change.written:
        return None
    return WRITES[cache_dtype](slots=tuple(slot for _, slot in change.written), **_pool(cache), **shape)


WRITES: dict[str, type[CacheWriteProblem]] = {"": CacheWriteProblem, FP8: Fp8WriteProblem}
"""By the type of the cache, where it is not that of K and V, the problem of the kernel that writes it."""


def _pool(cache: KVCache) -> dict[str, Any]:
    return {"block_size": cache.block_size, "num_blocks": cache.num_blocks}


def recorded_problems(kind: type[PagedProblem] = PagedProblem, **shape: Any) -> Iterator[Any]:
    """What is recorded of each preset: its last moment, as allocated and shuffled."""
    for scenario in PRESETS.values():
        cache = scenario.states(16)[-1][0]
        yield problem_at(cache, kind, **shape)
        yield problem_at(cache.shuffled(SHUFFLE_SEED), kind, **shape)


def recorded_head_problems() -> Iterator[PagedProblem]:
    """For the comparison of heads: the same moments with as many KV heads as query heads, and with one."""
    for scenario in PRESETS.values():
        problem = problem_at(scenario.states(16)[-1][0])
        yield from (replace(problem, num_kv_heads=kv_heads) for kv_heads in (problem.num_heads, 1))


SHUFFLE_SEED = 1  # of the first shuffle
SHOWN_PARTITION = 32  # tokens: small, so that short contexts too are cut
SHOWN_RANGES = 4  # equal ranges of pages, for the same reason
