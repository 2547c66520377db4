"""The steps of two kernels on one clock, aligned by phase and tile."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from explainers.stories.compare.frames import AlignedFrame
from explainers.story import marks

SIDES = "AB"
# The fields of a waiting side's frame, and its further fields before the first step.
_WAITING: dict[str, Any] = {"touched": [], "uses": [], "scores": None, "logged": [], "lines": {}}
_NOT_BEGUN: dict[str, Any] = {"resident": {}, "bytes": {}, "o": -1}


@dataclass(frozen=True)
class Aligned:
    """Two lists of frames on one clock.

    frames: one for each common step.
    a, b: the frame of that side at each step. A waiting side repeats its last frame.
    """

    frames: list[AlignedFrame]
    a: list[Any]
    b: list[Any]


def align(a: Sequence[Any], b: Sequence[Any]) -> Aligned:
    """Aligns two lists of frames.

    Two steps match if they have one phase and role, and tiles with one first key. Else the other side waits.
    """
    sides: tuple[list, list] = ([], [])
    frames: list[AlignedFrame] = []
    last: list[int | None] = [None, None]
    for pair in _pairs(_keys(a), _keys(b)):
        shown = []
        for side, (given, number) in enumerate(zip((a, b), pair)):
            last[side] = last[side] if number is None else number
            if number is not None:
                shown.append(given[number])
            sides[side].append(given[number] if number is not None else _waiting(given, last[side], SIDES[side]))
        alone = "" if len(shown) == 2 else f" ({'A' if pair[1] is None else 'B'} alone)"
        now = [side[-1] for side in sides]
        frames.append(
            {
                "tile": shown[0]["tile"],
                "title": shown[0]["title"] + alone,
                "phase": shown[0]["phase"],
                "sentence": "",
                "sentences": [frame["sentence"] for frame in now],
                "lines_a": now[0]["lines"],
                "lines_b": now[1]["lines"],
                "marks": [marks.ALONE] if alone else [],
            }
        )
    return Aligned(frames, *sides)


def _keys(frames: Sequence[Any]) -> list[tuple[str, str, int]]:
    """Returns role, phase and first key of each frame. The first key is -1 outside all tiles.

    The scores of a tile give its first key. Without scores, the tile's number gives it.
    """
    begins: dict[int, int] = {}
    for frame in frames:
        if frame.get("scores"):
            begins[frame["tile"]] = min(begins.get(frame["tile"], frame["scores"][2]), frame["scores"][2])
    sizes = [begins[tile] / tile for tile in begins if tile > 0]
    step = sizes[0] if sizes else 1
    return [
        (f.get("role", ""), f["phase"], begins.get(f["tile"], int(f["tile"] * step)) if f["tile"] >= 0 else -1)
        for f in frames
    ]


def _pairs(a: list[Any], b: list[Any]) -> list[tuple[int | None, int | None]]:
    """Returns the places in both lists, equal keys together."""
    pairs: list[tuple[int | None, int | None]] = []
    at = (0, 0)
    for block in difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks():
        pairs += [(n, None) for n in range(at[0], block.a)] + [(None, n) for n in range(at[1], block.b)]
        pairs += [(block.a + n, block.b + n) for n in range(block.size)]
        at = (block.a + block.size, block.b + block.size)
    return pairs


def _waiting(frames: Sequence[Any], last: int | None, side: str) -> dict[str, Any]:
    """Returns the frame of a waiting side."""
    held = frames[0] if last is None else frames[last]
    other = _WAITING if last is not None else _WAITING | _NOT_BEGUN
    waits = "has not begun" if last is None else f"waits after {held['title']}"
    return {**held, **{k: v for k, v in other.items() if k in held}, "sentence": f"{side} {waits}."}
