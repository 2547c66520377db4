"""The reads of each byte of K from global memory, and the bytes of S and P there: the gain of tiles in two numbers."""

from collections.abc import Sequence

from explainers.stories.tiling.frames import TilingFrame
from explainers.story.glossary import short


def times(frames: Sequence[TilingFrame], symbol: str, width: int) -> list[float]:
    """For each step, the bytes of K read so far, over the bytes of its rows that were read at least once. 0 before the
    first read.

    symbol: the probes' name of K.
    width: the bytes of a row.
    """
    found, rows = [], set[int]()
    for frame in frames:
        for touched in frame["touched"]:
            if touched["tensor"] == symbol and touched["kind"] == "load":
                rows |= set(range(touched["rect"][0], touched["rect"][1] + 1))
        read = frame["bytes"].get(f"{symbol} load", 0)
        found.append(read / (len(rows) * width) if rows else 0.0)
    return found


def said(number: float) -> str:
    """A number of reads in words."""
    if not number:
        return "not yet"
    return "once" if abs(number - 1) < 0.005 else f"{short(number, 3)} times"


def stored(frame: TilingFrame, places: dict[str, str]) -> int:
    """The bytes of S and P that were written to global memory so far."""
    names = [f"{symbol} store" for symbol, place in places.items() if place in ("S", "P")]
    return sum(frame["bytes"].get(name, 0) for name in names)


def sentence(number: float, rows: int, written: int, size: int) -> str:
    """The gain of tiles in a sentence or two, with the kernel before as a measure.

    number: the reads of each byte of K.
    rows: the queries of the tile.
    written: the bytes of S and P in global memory.
    size: the bytes of the tile's scores.
    """
    shared = number < 1.5 and rows > 1
    reads = f"A block asks for each byte of K {said(number)}" + (
        f", and {rows} times without tiles." if shared else "."
    )
    kept = f"S and P {'still ' if shared else ''}take {written:,} bytes of global memory."
    return f"{reads} {kept if written else f'S and P never take the {2 * size:,} bytes of global memory.'}"
