"""The block manager of a paged KV cache: the sequences, their pages, and the events that change them (KVCache).

Source: Kwon et al. 2023, "Efficient Memory Management for Large Language Model Serving with PagedAttention",
arXiv:2309.06180.
"""

from collections import Counter
from collections.abc import Iterable
from collections.abc import Sequence as Row
from dataclasses import dataclass, replace

import numpy as np

from kernels.errors import OutOfBlocks, ProblemError


@dataclass(frozen=True)
class Sequence:
    """A sequence of the cache. table: its pages, in order. tokens: the number of each token, counted over the whole
    history of the cache. family: sequences that were forked from one another share it."""

    name: str
    table: tuple[int, ...]
    tokens: tuple[int, ...]
    family: int


@dataclass(frozen=True)
class Event:
    """What a user or a scheduler asks of the cache. action: add (a new sequence of `tokens` tokens), append (`tokens`
    more), fork (from `parent`, sharing all its pages) or free."""

    action: str
    name: str
    tokens: int = 0
    parent: str = ""


@dataclass(frozen=True)
class Change:
    """What an event did. allocated: (logical block, page) taken from the free list, in order; copied: (from, to) page
    of a copy on write, or None; written: (token number, slot) for each new token; shared: pages that gained an
    owner; released: pages freed."""

    event: Event
    allocated: tuple[tuple[int, int], ...] = ()
    copied: tuple[int, int] | None = None
    written: tuple[tuple[int, int], ...] = ()
    shared: tuple[int, ...] = ()
    released: tuple[int, ...] = ()


ALL = (-1,)  # of a new cache's free pages: all there are


@dataclass(frozen=True)
class KVCache:
    """The state of a block manager over num_blocks pages; every event gives a new state, so a refused one changes
    nothing.

    free: pages that nobody holds, the next one to be taken first; pages that are freed go to its end. written: tokens
    so far. families: sequences so far that were not forked.
    """

    num_blocks: int
    block_size: int
    sequences: tuple[Sequence, ...] = ()
    free: tuple[int, ...] = ALL
    written: int = 0
    families: int = 0

    def __post_init__(self) -> None:
        if self.free == ALL:
            object.__setattr__(self, "free", tuple(range(self.num_blocks)))

    @property
    def ref_counts(self) -> Counter:
        """Page -> how many sequences hold it."""
        return Counter(page for sequence in self.sequences for page in sequence.table)

    def find(self, name: str) -> Sequence:
        """The sequence of that name; ProblemError with the names there are."""
        for sequence in self.sequences:
            if sequence.name == name:
                return sequence
        there = ", ".join(s.name for s in self.sequences) or "none"
        raise ProblemError(f"There is no sequence {name!r}; there are: {there}.")

    def apply(self, event: Event) -> tuple["KVCache", Change]:
        """(the cache after the event, its Change). Raises ProblemError, and OutOfBlocks if there are too few pages."""
        actions = {"add": self._add, "append": self._append, "fork": self._fork, "free": self._free}
        if event.action not in actions:
            raise ProblemError(f"An event is {event.action!r}; it must be one of {', '.join(actions)}.")
        return actions[event.action](event)

    def _add(self, event: Event) -> tuple["KVCache", Change]:
        self._check_new(event.name)
        fresh = Sequence(event.name, (), (), self.families)
        return replace(self, sequences=(*self.sequences, fresh), families=self.families + 1)._append(event)

    def _append(self, event: Event) -> tuple["KVCache", Change]:
        sequence = self.find(event.name)
        if event.tokens < 1:
            raise ProblemError(f"{event.name} cannot be given {event.tokens} tokens; it must be at least 1.")
        length = len(sequence.tokens)
        end, last = length + event.tokens, length // self.block_size  # last: the block of the first new token
        copies = length % self.block_size > 0 and self.ref_counts[sequence.table[last]] > 1
        wanted = -(-end // self.block_size) - len(sequence.table) + copies
        if wanted > len(self.free):
            raise OutOfBlocks(
                f"{event.tokens} tokens for {event.name} need {wanted} more pages of {self.block_size} slots; "
                f"{len(self.free)} of {self.num_blocks} are free. Free a sequence, or choose a larger pool."
            )
        taken, free = self.free[:wanted], self.free[wanted:]
        table, copied = sequence.table, None
        if copies:
            copied = (table[last], taken[0])
            table = (*table[:last], taken[0])
        allocated = tuple((len(table) + n, page) for n, page in enumerate(taken[int(copies) :]))
        table += tuple(page for _, page in allocated)
        if copies:
            allocated = ((last, taken[0]), *allocated)
        numbers = range(self.written, self.written + event.tokens)
        written = tuple((number, self.slot(table, length + n)) for n, number in enumerate(numbers))
        grown = replace(sequence, table=table, tokens=sequence.tokens + tuple(numbers))
        others = tuple(grown if s.name == event.name else s for s in self.sequences)
        after = replace(self, sequences=others, free=free, written=self.written + event.tokens)
        return after, Change(event, allocated, copied, written)

    def _fork(self, event: Event) -> tuple["KVCache", Change]:
        parent = self.find(event.parent)
        self._check_new(event.name)
        child = replace(parent, name=event.name)
        return replace(self, sequences=(*self.sequences, child)), Change(event, shared=child.table)

    def _free(self, event: Event) -> tuple["KVCache", Change]:
        gone = self.find(event.name)
        counts = self.ref_counts
        released = tuple(page for page in gone.table if counts[page] == 1)
        rest = tuple(s for s in self.sequences if s.name != event.name)
        return replace(self, sequences=rest, free=self.free + released), Change(event, released=released)

    def _check_new(self, name: str) -> None:
        if not name.isalnum() or len(name) > 12:
            raise ProblemError(f"A sequence's name is {name!r}; it must be 1 to 12 letters and digits.")
        if any(s.name == name for s in self.sequences):
            raise ProblemError(f"There is already a sequence {name!r}.")

    def slot(self, table: Row[int], position: int) -> int:
        """The slot number (page * block_size + slot in page) of a position: what reshape_and_cache gets."""
        return table[position // self.block_size] * self.block_size + position % self.block_size

    def shuffled(self, seed: int) -> "KVCache":
        """The same sequences, their pages moved to other places of the pool by a random permutation of all pages."""
        to = np.random.default_rng(seed).permutation(self.num_blocks).tolist()
        moved = tuple(replace(s, table=tuple(to[page] for page in s.table)) for s in self.sequences)
        return replace(self, sequences=moved, free=tuple(to[page] for page in self.free))

    def usage(self, max_len: int) -> dict[str, int]:
        """Slots, by what they are for.

        held: in pages that are in use; used: by tokens, a shared one once; slack: held and not used. And if each
        sequence were given max_len contiguous slots instead: reserved: all of them; copies: of shared tokens, which
        each sequence would need for itself; empty: reserved and not used by any token.
        """
        fill: dict[int, int] = {}
        for sequence in self.sequences:
            for n, page in enumerate(sequence.table):
                fill[page] = max(fill.get(page, 0), min(self.block_size, len(sequence.tokens) - n * self.block_size))
        held, used, tokens = len(fill) * self.block_size, sum(fill.values()), sum(len(s.tokens) for s in self.sequences)
        reserved = sum(max(max_len, len(s.tokens)) for s in self.sequences)
        paged = {"held": held, "used": used, "slack": held - used}
        return {**paged, "reserved": reserved, "copies": tokens - used, "empty": reserved - tokens}


def play(events: Iterable[Event], num_blocks: int, block_size: int) -> list[tuple[KVCache, Change | None]]:
    """[(KVCache, Change or None)]: the empty cache, then the state after each event. Raises as `apply`, the event's
    number added."""
    states: list[tuple[KVCache, Change | None]] = [(KVCache(num_blocks, block_size), None)]
    for number, event in enumerate(events, 1):
        try:
            states.append(states[-1][0].apply(event))
        except ProblemError as error:
            raise type(error)(f"Event {number}: {error}") from None
    return states
