"""The cost of accesses from their addresses: wavefronts of shared memory, sectors of global memory.

`shared_wavefronts` and `global_sectors` give the rules. A test compares them with Nsight Compute's counters in each
case of the recorded calibration (tests/kernels/trace/test_memory_model.py). `python -m kernels calibrate` measures that
table again on a GPU.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from kernels.core.distinct import distinct
from kernels.errors import ProblemError
from kernels.trace.kinds import LANE_KINDS, AccessKind, Rule, kind_of

LANES, BANKS = 32, 32
WORD, SECTOR, LINE = 4, 32, 128  # bytes
CHUNK = 1 << 16  # requests counted at a time


class Touch(NamedTuple):
    """One touched word.

    wavefront: its wavefront in the pass.
    lanes: the lanes with this word. More than one lane is a broadcast."""

    part: int
    wavefront: int
    word: int
    lanes: tuple[int, ...]


class Wavefronts(NamedTuple):
    """The cost of one warp's access of shared memory. wavefronts = ideal + conflicts.

    ideal: the passes with an active lane.
    banks: bank -> its Touches. A pass takes one wavefront for each word of its fullest bank. The hardware's order of
        words is unknown. Here, a bank's k-th word by address is in the k-th wavefront of the pass."""

    wavefronts: int
    ideal: int
    conflicts: int
    banks: dict[int, tuple[Touch, ...]]


class Sectors(NamedTuple):
    """The distinct 32-byte sectors, 128-byte lines and bytes of one warp's access of global memory."""

    sectors: int
    lines: int
    bytes_used: int


def shared_wavefronts(addresses: Iterable[int | None], width_bytes: int, op: str, matrices: int = 4) -> Wavefronts:
    """Wavefronts of one warp's access of shared memory.

    addresses: 32 byte offsets, None for an inactive lane.
    width_bytes: of one lane.
    op: an event of trace.kinds, such as load. The write of an asynchronous copy is cp_async (.ca, through L1) or
        cp_async_l2 (.cg, past L1).
    matrices: of an ldmatrix, 1, 2 or 4. The first 8, 16 or 32 lanes address their rows.
    Raises ProblemError for an impossible width, op, number of lanes or offset.

    - bank = (byte offset / 4) mod 32.
    - Accesses of up to 4 bytes take one pass. 8 bytes take two passes (half-warps). 16 bytes and ldmatrix take four
      (quarter-warps, or one matrix each).
    - A pass takes one wavefront for each different word of its fullest bank. Lanes with the same word share it.
    - A load's neighbouring passes merge pairwise if each active lane n has the offset of lane n^1, or each has the
      offset of lane n^2. An inactive partner counts as equal.
    - A cp_async costs as much as a store, but lanes with the same word do not share it. If its source covers many
      lines, the hardware writes line by line, and Nsight Compute counts more.
    - A cp_async_l2 bypasses this pipe and takes no wavefront. A product's operand takes none either, as the tensor
      cores read it directly."""
    kind = _kind(op, "shared")
    offsets, active = _one(addresses, width_bytes, kind, matrices)
    parts = _parts(offsets, active, width_bytes, kind.rule)[0]
    touched: dict[tuple[int, int, int, int], list[int]] = {}
    for lane in np.flatnonzero(active[0]):
        for word in range(offsets[0, lane] // WORD, (offsets[0, lane] + width_bytes - 1) // WORD + 1):
            sharer = int(lane) if kind.rule is Rule.SEPARATE else 0
            touched.setdefault((int(word) % BANKS, int(parts[lane]), int(word), sharer), []).append(int(lane))
    banks: dict[int, tuple[Touch, ...]] = {}
    for (bank, part, word, _), lanes in sorted(touched.items()):
        before = sum(touch.part == part for touch in banks.get(bank, ()))
        banks[bank] = (*banks.get(bank, ()), Touch(part, before, word, tuple(lanes)))
    (wavefronts,), (ideal,) = count_wavefronts(offsets, active, width_bytes, op)
    return Wavefronts(int(wavefronts), int(ideal), int(wavefronts - ideal), banks)


def global_sectors(addresses: Iterable[int | None], width_bytes: int) -> Sectors:
    """Sectors of one warp's access of global memory. A load and a store cost the same.

    addresses: 32 byte offsets from a multiple of 128, None for an inactive lane.
    width_bytes: of one lane.
    Raises ProblemError for an impossible width, number of lanes or offset."""
    offsets, active = _one(addresses, width_bytes, _kind("load", "global"), 4)
    return Sectors(*(int(count[0]) for count in count_sectors(offsets, active, width_bytes)))


def count_wavefronts(
    offsets: np.ndarray, active: np.ndarray, width_bytes: int, op: str
) -> tuple[np.ndarray, np.ndarray]:
    """(wavefronts, ideal), each int64 [n], of n accesses of shared memory.

    offsets: int [n, 32], bytes.
    active: bool [n, 32]."""
    rule = _kind(op, "shared").rule
    wavefronts, ideal = _in_chunks(
        2, len(offsets), lambda part: _count_wavefronts(offsets[part], active[part], width_bytes, rule)
    )
    return wavefronts, ideal


def count_sectors(
    offsets: np.ndarray, active: np.ndarray, width_bytes: int, op: str = "load"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(sectors, lines, bytes used), each int64 [n], of n accesses of global memory.

    offsets: int [n, 32], bytes.
    active: bool [n, 32].

    A tma copies a box of width_bytes for each active lane, with the sectors and lines of its bytes. The rule assumes
    that each row of a box starts with a line. The part beyond the tensor's edges counts too."""
    if _kind(op, "global").rule is Rule.BOXES:
        boxes = active.sum(axis=1, dtype=np.int64)
        return boxes * -(-width_bytes // SECTOR), boxes * -(-width_bytes // LINE), boxes * width_bytes

    def count(part: slice) -> list[np.ndarray]:
        return [_distinct(offsets[part], active[part], width_bytes, unit) for unit in (SECTOR, LINE, 1)]

    sectors, lines, used = _in_chunks(3, len(offsets), count)
    return sectors, lines, used


def _in_chunks(results: int, n: int, count: Callable[[slice], Iterable[np.ndarray]]) -> list[np.ndarray]:
    """The arrays of `count` for n requests, joined from ranges of CHUNK."""
    found = [tuple(count(slice(at, at + CHUNK))) for at in range(0, n, CHUNK)]
    return [np.concatenate([part[k] for part in found] or [np.zeros(0, np.int64)]) for k in range(results)]


def _kind(op: str, space: str) -> AccessKind:
    try:
        return kind_of(op, space)
    except KeyError:
        raise _unknown(op, space) from None


def _unknown(op: str, space: str) -> ProblemError:
    ops = ", ".join(kind.event for kind in LANE_KINDS if kind.space == space)
    return ProblemError(f"op is {op!r}. It must be one of {ops}.")


def _one(addresses: Iterable[int | None], width: int, kind: AccessKind, matrices: int) -> tuple[np.ndarray, np.ndarray]:
    """One access as [1, 32] arrays of offsets and activity, checked."""
    if not kind.widths:
        raise _unknown(kind.event, kind.space)
    if width not in kind.widths:
        *some, last = map(str, kind.widths)
        allowed = f"one of {', '.join(some)} or {last}" if some else last
        raise ProblemError(f"width_bytes is {width!r}. For {kind.event} it must be {allowed}.")
    if kind.event == "ldmatrix" and matrices not in (1, 2, 4):
        raise ProblemError(f"matrices is {matrices!r}. It must be 1, 2 or 4.")
    addresses = list(addresses)
    if len(addresses) != LANES:
        raise ProblemError(
            f"there are {len(addresses)} addresses. A warp has {LANES} lanes (None for an inactive one)."
        )
    used = 8 * matrices if kind.event == "ldmatrix" else LANES
    active = np.array([[a is not None and lane < used for lane, a in enumerate(addresses)]])
    offsets = np.array([[0 if a is None else int(a) for a in addresses]], np.int64)
    for lane in np.flatnonzero(active[0]):
        if offsets[0, lane] < 0 or offsets[0, lane] % width:
            raise ProblemError(
                f"lane {lane} has offset {offsets[0, lane]}. An access of {width} bytes needs a multiple of {width}, "
                "from 0."
            )
    return offsets, active


def _parts(offsets: np.ndarray, active: np.ndarray, width: int, rule: Rule) -> np.ndarray:
    """The pass of each lane, [n, 32], from 0. Two merged passes have the number of the first."""
    per_pass = {8: 16, 16: 8}.get(width, LANES)
    part = np.broadcast_to(np.arange(LANES) // per_pass, offsets.shape)
    if rule is not Rule.MERGED or per_pass == LANES:
        return part
    merged = np.zeros(len(offsets), bool)
    for other in (np.arange(LANES) ^ 1, np.arange(LANES) ^ 2):
        merged |= ((offsets == offsets[:, other]) | ~active | ~active[:, other]).all(axis=1)
    return part - merged[:, None] * (part % 2)


def _count_wavefronts(offsets: np.ndarray, active: np.ndarray, width: int, rule: Rule) -> Iterable[np.ndarray]:
    if rule is Rule.BYPASS:
        return np.zeros((2, len(offsets)), np.int64)
    rows = (np.arange(len(offsets))[:, None] * 4 + _parts(offsets, active, width, rule))[..., None]
    words = offsets[..., None] // WORD + np.arange(max(1, width // WORD))
    span = int(words.max(initial=0)) + 1
    touched = (rows * span + words)[active].ravel()
    row, word = np.divmod(touched if rule is Rule.SEPARATE else distinct(touched), span)
    per_bank = np.bincount(row * BANKS + word % BANKS, minlength=len(offsets) * 4 * BANKS)
    worst = per_bank.reshape(len(offsets), 4, BANKS).max(axis=2)
    return worst.sum(axis=1), (worst > 0).sum(axis=1)


def _distinct(offsets: np.ndarray, active: np.ndarray, width: int, unit: int) -> np.ndarray:
    """The number of distinct units of each request, [n]. unit: its bytes."""
    if unit < width:  # bytes: aligned accesses of one width are the same or apart
        return width * _distinct(offsets, active, width, width)
    numbers = offsets // unit
    span = int(numbers.max(initial=0)) + 1
    touched = distinct((np.arange(len(offsets))[:, None] * span + numbers)[active])
    return np.bincount(touched // span, minlength=len(offsets))
