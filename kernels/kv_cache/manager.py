"""The block manager of a paged KV cache: sequences, their pages, and events (KVCache).

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
    """A sequence of the cache.

    tokens: number of each token in the history of the whole cache
    family: common to all forks of one sequence"""

    name: str
    table: tuple[int, ...]
    tokens: tuple[int, ...]
    family: int


@dataclass(frozen=True)
class Event:
    """A request of a user or a scheduler.

    action: add (a new sequence of `tokens` tokens), append (`tokens` more), fork (shares all pages of `parent`) or free
    """

    action: str
    name: str
    tokens: int = 0
    parent: str = ""


@dataclass(frozen=True)
class Change:
    """The effect of an event.

    allocated: (logical block, page) from the free list, in order
    copied: (from, to) page of a copy on write, or None
    written: (token number, slot) of each new token
    shared: pages with a new owner
    released: freed pages"""

    event: Event
    allocated: tuple[tuple[int, int], ...] = ()
    copied: tuple[int, int] | None = None
    written: tuple[tuple[int, int], ...] = ()
    shared: tuple[int, ...] = ()
    released: tuple[int, ...] = ()


ALL = (-1,)  # stands for all pages in `free` of a new cache


@dataclass(frozen=True)
class KVCache:
    """The state of a block manager over num_blocks pages. Each event gives a new state.

    free: free pages, the next one first. Freed pages go to its end.
    written: number of tokens so far
    families: number of sequences so far, without forks"""

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
        return Counter(page for sequence in self.sequences for page in sequence.table)

    def find(self, name: str) -> Sequence:
        """The sequence of this name. Raises ProblemError with the known names."""
        for sequence in self.sequences:
            if sequence.name == name:
                return sequence
        known = ", ".join(s.name for s in self.sequences) or "none"
        raise ProblemError(f"There is no sequence {name!r}. The cache has: {known}.")

    def apply(self, event: Event) -> tuple["KVCache", Change]:
        """(the cache after the event, its Change). Raises ProblemError, and OutOfBlocks if there are too few pages."""
        actions = {"add": self._add, "append": self._append, "fork": self._fork, "free": self._free}
        if event.action not in actions:
            raise ProblemError(f"An event is {event.action!r}. Use one of {', '.join(actions)}.")
        return actions[event.action](event)

    def _add(self, event: Event) -> tuple["KVCache", Change]:
        self._check_new(event.name)
        fresh = Sequence(event.name, (), (), self.families)
        return replace(self, sequences=(*self.sequences, fresh), families=self.families + 1)._append(event)

    def _append(self, event: Event) -> tuple["KVCache", Change]:
        sequence = self.find(event.name)
        if event.tokens < 1:
            raise ProblemError(f"{event.name} gets {event.tokens} tokens. Append at least 1.")
        length = len(sequence.tokens)
        end, last = length + event.tokens, length // self.block_size  # last: the block of the first new token
        copies = length % self.block_size > 0 and self.ref_counts[sequence.table[last]] > 1
        wanted = -(-end // self.block_size) - len(sequence.table) + copies
        if wanted > len(self.free):
            raise OutOfBlocks(
                f"{event.tokens} tokens for {event.name} need {wanted} more pages of {self.block_size} slots. "
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
            raise ProblemError(f"The name of a sequence is {name!r}. Use 1 to 12 letters and digits.")
        if any(s.name == name for s in self.sequences):
            raise ProblemError(f"A sequence {name!r} exists already. Choose another name.")

    def slot(self, table: Row[int], position: int) -> int:
        """The slot number of a position (page * block_size + slot in page), as input of reshape_and_cache."""
        return table[position // self.block_size] * self.block_size + position % self.block_size

    def shuffled(self, seed: int) -> "KVCache":
        """These sequences after a random permutation of all pages of the pool."""
        to = np.random.default_rng(seed).permutation(self.num_blocks).tolist()
        moved = tuple(replace(s, table=tuple(to[page] for page in s.table)) for s in self.sequences)
        return replace(self, sequences=moved, free=tuple(to[page] for page in self.free))

    def usage(self, max_len: int) -> dict[str, int]:
        """Numbers of slots by purpose.

        held: in pages with an owner
        used: with a token (a shared token counts once)
        slack: held without a token
        For comparison, with max_len contiguous slots per sequence and no pages:
        reserved: all slots
        copies: repeated copies of shared tokens
        empty: reserved without a token"""
        fill: dict[int, int] = {}
        for sequence in self.sequences:
            for n, page in enumerate(sequence.table):
                fill[page] = max(fill.get(page, 0), min(self.block_size, len(sequence.tokens) - n * self.block_size))
        held, used, tokens = len(fill) * self.block_size, sum(fill.values()), sum(len(s.tokens) for s in self.sequences)
        reserved = sum(max(max_len, len(s.tokens)) for s in self.sequences)
        paged = {"held": held, "used": used, "slack": held - used}
        return {**paged, "reserved": reserved, "copies": tokens - used, "empty": reserved - tokens}


def play(events: Iterable[Event], num_blocks: int, block_size: int) -> list[tuple[KVCache, Change | None]]:
    """[(KVCache, Change or None)]: the empty cache, then the state after each event. Raises the errors of `apply`, with
    the number of the event."""
    states: list[tuple[KVCache, Change | None]] = [(KVCache(num_blocks, block_size), None)]
    for number, event in enumerate(events, 1):
        try:
            states.append(states[-1][0].apply(event))
        except ProblemError as error:
            raise type(error)(f"Event {number}: {error}") from None
    return states
