"""The steps of two kernels on one clock, aligned by phase and tile."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from explainers.stories.compare.frames import AlignedFrame
from explainers.story import marks
from explainers.story.frames import Frame

StepFrame = TypeVar("StepFrame", bound=Frame)  # a frame of any picture
Key = tuple[str, str, int]  # role, phase, and the first key of the tile
Pair = tuple[int | None, int | None]  # the places of one step on both sides
SIDES = "AB"
# The fields of a waiting side's frame, and its further fields before the first step.
_WAITING: dict[str, object] = {"touched": [], "uses": [], "scores": None, "logged": [], "lines": {}}
_NOT_BEGUN: dict[str, object] = {"resident": {}, "bytes": {}, "o": -1}


@dataclass(frozen=True)
class Aligned(Generic[StepFrame]):
    """Two lists of frames on one clock.

    frames: one for each common step.
    a, b: the frame of that side at each step. A waiting side repeats its last frame.
    """

    frames: list[AlignedFrame]
    a: list[StepFrame]
    b: list[StepFrame]


def align(a: Sequence[StepFrame], b: Sequence[StepFrame]) -> Aligned[StepFrame]:
    """Aligns two lists of frames.

    Two steps match if they have one phase and role, and tiles with one first key. Else the other side waits.
    """
    pairs = _pairs(_keys(a), _keys(b))
    of_a = _with_waits(a, [pair[0] for pair in pairs], SIDES[0])
    of_b = _with_waits(b, [pair[1] for pair in pairs], SIDES[1])
    frames = [_common(pair, frame_a, frame_b) for pair, frame_a, frame_b in zip(pairs, of_a, of_b)]
    return Aligned(frames, of_a, of_b)


def _with_waits(frames: Sequence[StepFrame], places: Sequence[int | None], side: str) -> list[StepFrame]:
    """Returns a side's frame at each common step. places: of its steps, None at a wait."""
    found: list[StepFrame] = []
    last: int | None = None
    for position in places:
        found.append(_waiting(frames, last, side) if position is None else frames[position])
        last = last if position is None else position
    return found


def _common(pair: Pair, a: StepFrame, b: StepFrame) -> AlignedFrame:
    """Returns the frame of a common step."""
    stepping = b if pair[0] is None else a
    title = stepping["title"]
    alone = None in pair
    if alone:
        title += f" ({SIDES[pair[0] is None]} alone)"
    return {
        "tile": stepping["tile"],
        "title": title,
        "phase": stepping["phase"],
        "sentence": "",
        "sentences": [a["sentence"], b["sentence"]],
        "lines_a": a["lines"],
        "lines_b": b["lines"],
        "marks": [marks.ALONE] if alone else [],
    }


def _keys(frames: Sequence[StepFrame]) -> list[Key]:
    """Returns role, phase and first key of each frame. The first key is -1 outside all tiles.

    The scores of a tile give its first key. If a tile has none, its number gives the key.
    """
    first_keys: dict[int, int] = {}
    for frame in frames:
        scores = frame.get("scores")
        if isinstance(scores, list):
            tile, key = frame["tile"], scores[2]
            first_keys[tile] = min(first_keys.get(tile, key), key)
    sizes = [key / tile for tile, key in first_keys.items() if tile > 0]
    size = sizes[0] if sizes else 1

    def first_key(tile: int) -> int:
        return first_keys.get(tile, int(tile * size)) if tile >= 0 else -1

    return [(str(frame.get("role", "")), frame["phase"], first_key(frame["tile"])) for frame in frames]


def _pairs(a: list[Key], b: list[Key]) -> list[Pair]:
    """Returns the places in both lists, equal keys together."""
    pairs: list[Pair] = []
    end_a = end_b = 0
    for block in difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks():
        pairs += [(position, None) for position in range(end_a, block.a)]
        pairs += [(None, position) for position in range(end_b, block.b)]
        pairs += [(block.a + n, block.b + n) for n in range(block.size)]
        end_a, end_b = block.a + block.size, block.b + block.size
    return pairs


def _waiting(frames: Sequence[StepFrame], last: int | None, side: str) -> StepFrame:
    """Returns the frame of a waiting side. last: its last step, None before the first."""
    if last is None:
        held, cleared, said = frames[0], _WAITING | _NOT_BEGUN, "has not begun"
    else:
        held, cleared, said = frames[last], _WAITING, f"has done {frames[last]['title']} and waits"
    known = {name: value for name, value in cleared.items() if name in held}
    return cast(StepFrame, {**held, **known, "sentence": f"{side} {said}."})
