"""The share of each GPU in each step: which rows, which keys, which mask.

A GPU holds one part of the queries and starts with the same part of the keys. After each step, every part of the keys
moves to the next GPU. A causal part in `zigzag` order is two chunks, one from each end of the sequence, so every GPU
has equal work.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """The work of a GPU in a step.

    part: the part of the keys that the GPU holds.
    row_first, rows: the first row and the end of its rows. No work without rows.
    keys: the first `keys` keys of the part are visible.
    offset: row i sees the keys up to i + offset.
    final_rows: the rows before this one have met all their keys.
    """

    part: int
    row_first: int
    rows: int
    keys: int
    offset: int
    final_rows: int

    @property
    def works(self) -> bool:
        return self.rows > self.row_first


def chunks(gpus: int, zigzag: bool) -> list[tuple[int, ...]]:
    """The chunks of each GPU, in the order of its rows."""
    return [(gpu, 2 * gpus - 1 - gpu) if zigzag else (gpu,) for gpu in range(gpus)]


def share(gpus: int, step: int, gpu: int, rows: int, causal: bool, zigzag: bool) -> Share:
    """The work of a GPU in a step of the ring. rows: of a part."""
    part, last = (gpu - step) % gpus, step == gpus - 1
    if not causal:
        return Share(part, 0, rows, rows, rows, rows if last else 0)
    if part == gpu:  # its own part: the diagonal
        ends = gpus == 1 or not zigzag and gpu == 0
        return Share(part, 0, rows, rows, 0, rows if ends else 0 if gpu or not zigzag else rows // 2)
    if not zigzag:
        seen = part < gpu
        return Share(part, 0, rows if seen else 0, rows, rows, rows if step == gpu else 0)
    half = rows // 2
    if part < gpu:  # all rows see the first chunk
        return Share(part, 0, rows, half, rows, rows if last else half if step == gpu else 0)
    return Share(part, half, rows, rows, rows, rows if last else 0)  # the rows of the second chunk see all keys
