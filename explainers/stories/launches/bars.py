"""The bars of a time line, and a time in words."""

from explainers.stories.launches.frames import Bar
from explainers.story.glossary import figure


def us(ns: float) -> str:
    """A time in microseconds."""
    return f"{figure(ns / 1e3, 3)} µs"


def inside(title: str) -> str:
    """A title inside a sentence."""
    return title[0].lower() + title[1:] if title[1:2].islower() or title[1:2] == " " else title


def bar(
    name: str, start: float, end: float, *, entry: str = "", row: int = 0, moved: int = 0, copy: bool = False
) -> Bar:
    """A bar in the first part of its row. moved: the bytes of a copy."""
    return {
        "name": name,
        "entry": entry,
        "row": row,
        "lane": 0,
        "start": float(start),
        "end": float(end),
        "copy": copy,
        "bytes": moved,
    }
