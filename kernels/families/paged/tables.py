"""The checks of block tables and tokens of a problem over a paged cache."""

from typing import Protocol

import numpy as np

from kernels.errors import ProblemError


class Tables(Protocol):
    """The checked fields of a PagedProblem."""

    @property
    def context_lens(self) -> tuple[int, ...]: ...
    @property
    def block_tables(self) -> tuple[tuple[int, ...], ...]: ...
    @property
    def token_ids(self) -> tuple[tuple[int, ...], ...]: ...
    @property
    def families(self) -> tuple[int, ...]: ...
    @property
    def block_size(self) -> int: ...
    @property
    def num_blocks(self) -> int: ...
    @property
    def slots_and_tokens(self) -> tuple[np.ndarray, np.ndarray]: ...


def check_tables(problem: Tables) -> None:
    """Raises ProblemError for a block table that is too short, leaves the pool, or shares a page wrongly."""
    held: dict[int, tuple[int, int]] = {}  # page -> (sequence, entry) that holds it first
    for seq, (row, length) in enumerate(zip(problem.block_tables, problem.context_lens)):
        count = -(-length // problem.block_size)
        if len(row) < count:
            raise ProblemError(
                f"Sequence {seq} has context length {problem.context_lens[seq]}, which needs {count} pages of "
                f"{problem.block_size} slots. Its block table has {len(row)} entries."
            )
        for entry, page in enumerate(row):
            if not 0 <= page < problem.num_blocks:
                raise ProblemError(
                    f"Sequence {seq}, entry {entry} of its block table is {page}. "
                    f"The pool has pages 0 to {problem.num_blocks - 1}."
                )
            _check_shared(problem.families, page, (seq, entry), held.setdefault(page, (seq, entry)))


def _check_shared(families: tuple[int, ...], page: int, place: tuple[int, int], before: tuple[int, int]) -> None:
    """Raises ProblemError if a page at (sequence, entry) `before` may not also be at `place`."""
    (seq, entry), (other, other_entry) = place, before
    if other == seq and other_entry != entry:
        raise ProblemError(
            f"Sequence {seq}, entries {other_entry} and {entry} of its block table are both page {page}. "
            "A page has one place."
        )
    twice = f"Page {page} is entry {entry} of sequence {seq} and entry {other_entry} of sequence {other}"
    if other != seq and not (families and families[seq] == families[other]):
        raise ProblemError(
            f"{twice}, which did not fork from one another. Give forked sequences the same number in families."
        )
    if other != seq and other_entry != entry:
        raise ProblemError(f"{twice}. Forked sequences share a page only at the same place.")


def check_tokens(problem: Tables) -> None:
    """Raises ProblemError if a sequence has too few or too many tokens, or a slot of a shared page two."""
    for seq, row in enumerate(problem.token_ids):
        if len(row) != problem.context_lens[seq]:
            raise ProblemError(
                f"Sequence {seq} has {len(row)} token_ids and context length {problem.context_lens[seq]}. "
                "They must be equal."
            )
    if not problem.families:
        return  # no page is shared, and so no slot
    slots, ids = problem.slots_and_tokens
    order = np.lexsort((ids, slots))
    slots, ids = slots[order], ids[order]
    clash = np.flatnonzero((slots[1:] == slots[:-1]) & (ids[1:] != ids[:-1]))
    if len(clash):
        at = clash[0]
        raise ProblemError(
            f"Slot {slots[at] % problem.block_size} of page {slots[at] // problem.block_size} would hold tokens "
            f"{ids[at]} and {ids[at + 1]}. Sequences that share a page share its tokens."
        )
