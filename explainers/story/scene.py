"""The picture of a story as data: panels of things. The browser places and moves them, and computes no value.

Each thing has a datum, its identity: {"tensor": "K", "launch": 1}. Hit test, tip, pin, Show me, a question's cover and
the alternative text follow from it. A thing keeps its datum from step to step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from explainers.story.stage import View

Datum = Mapping[str, str | int]
Texts = Sequence[str]  # alternatives, the longest first: the picture shows the first one that fits


@dataclass(frozen=True, kw_only=True)
class Thing:
    """Something to point at.

    datum: its identity among all things of the scene.
    tip: its name and exact values, a line each.
    now: the steps that are about it, from 0. It has an outline then.
    since: the step that makes it. Before this step it is pale. None: it is never pale.
    go: the step that a click goes to. None: a click pins the thing.
    colour: a tensor of the palette, read, written, now, primary, text, dim, panel, background, or a CSS colour. After
        "pale ", it is nearer to the background.
    """

    datum: Datum
    tip: str = ""
    now: Sequence[int] = ()
    since: int | None = None
    go: int | None = None
    colour: str = "primary"


# ---- table ----


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a table.

    name, note: at its left. The note is dim, and left out on a phone.
    lit: whether it has a background while no question is open.
    """

    datum: Datum
    name: str
    note: str = ""
    tip: str = ""
    lit: bool = False


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table. group: the number of its group."""

    name: str
    group: int = 0


@dataclass(frozen=True, kw_only=True)
class Cell(Thing):
    """A thing in a row and a column. Cells of one row and column share its height.

    row, column: its place, each from 0.
    value: the length of its bar, on one scale for the table. None: no bar.
    texts: next to the bar.
    note: under the text while no question is open.
    framed: whether it has a frame of its colour.
    comes: the side from which its bar moves in at its step: row (the name at the left), column (the head) or "".
    """

    row: int
    column: int
    value: float | None = None
    texts: Texts = ()
    note: str = ""
    framed: bool = False
    comes: str = ""


@dataclass(frozen=True, kw_only=True)
class Arrow:
    """An arrow in a row, from one column to another."""

    row: int
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows and columns.

    groups: [title, text] over neighbouring columns. The text is left out without room.
    """

    rows: Sequence[Row]
    columns: Sequence[Column]
    cells: Sequence[Cell]
    groups: Sequence[tuple[str, str]] = ()
    arrows: Sequence[Arrow] = ()
    kind: str = "table"


# ---- bars ----


@dataclass(frozen=True, kw_only=True)
class Part:
    """A dark part of a bar.

    start, end: on the scale of the bars.
    text: in it, and gap: in the pale part after it. Both are left out while a question is open.
    """

    start: float
    end: float
    text: str = ""
    gap: str = ""


@dataclass(frozen=True, kw_only=True)
class Bar(Thing):
    """A bar with its name.

    value: its length. steps: its length at each step, if it grows.
    text: after the bar, or one for each step.
    parts: its dark parts, if the bar is pale.
    pieces: the number of equal pieces in its length at each step. Each shows its number from 0, with room.
    framed: the steps at which it has a frame in the colour `now`.
    strong: whether it has the full colour. It has it at its steps (now), too.
    cells: its texts in the columns of Bars.
    """

    name: str
    value: float
    cells: Sequence[str] = ()
    steps: Sequence[float] = ()
    text: str | Sequence[str] = ""
    parts: Sequence[Part] = ()
    pieces: Sequence[int] = ()
    framed: Sequence[int] = ()
    strong: bool = False


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Bars on one scale from zero, under a title and above a note.

    columns: the key and the head of each column between names and bars. A phone has the first one only.
    key: of the bars themselves. A column's key is the field `figure` in the datum of its cells.
    head: over the bars.
    now: the steps that are about all of them.
    shown: the steps at which the panel is there. (): all.
    """

    title: Texts
    bars: Sequence[Bar]
    note: str = ""
    datum: Datum = field(default_factory=dict)
    now: Sequence[int] = ()
    columns: Sequence[tuple[str, str]] = ()
    key: str = ""
    head: str = ""
    shown: Sequence[int] = ()
    kind: str = "bars"


# ---- cells ----


@dataclass(frozen=True, kw_only=True)
class Cells:
    """A grid of small cells, each with a state. Its datum is {part, number}.

    part: the name of the grid. title: over it, for all steps or for each.
    columns: of a row. states: a text for each step, with a letter for each cell.
    colours, words: of each letter.
    axes: the names of a row and of a column, for tips: ["warp", "lane"].
    ringed: at each step the number of a cell with a frame, or -1.
    pairs: at each step the cells from which numbers move to others, one pair after another. An arrow shows the first.
    """

    part: str
    title: Sequence[Texts]
    columns: int
    states: Sequence[str]
    colours: Mapping[str, str]
    words: Mapping[str, str]
    axes: tuple[str, str]
    ringed: Sequence[int] = ()
    pairs: Sequence[Sequence[int]] = ()
    kind: str = "cells"


# ---- texts ----


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of text, one for all steps or one for each. It wraps.

    end: at the right of it. datum: of it, and end_datum: of its end, for covers.
    """

    texts: Sequence[str]
    end: Sequence[str] = ()
    bold: bool = False
    datum: Datum = field(default_factory=dict)
    end_datum: Datum = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Lines of text, one under the other."""

    lines: Sequence[Line]
    kind: str = "lines"


# ---- lanes ----


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rows of time lines under a title.

    datum, tip: of all its rows together: a question can cover the whole group.
    value, note: after the title while no question is open. The note is dim, and left out without room.
    begins: the first shown moment of its rows at each step. The last entry is for all further steps, here and below.
    marked: for each step, the start and the end of a frame over all its rows, or None. said: a text under each frame.
    """

    title: str = ""
    value: str = ""
    note: str = ""
    datum: Datum = field(default_factory=dict)
    tip: str = ""
    begins: Sequence[float] = (0,)
    marked: Sequence[tuple[float, float] | None] = ()
    said: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A row of a time line.

    name: at its left. end: at its right.
    datum, tip: of its line. A question can cover the whole line.
    group: the number of its group. The rows of a group follow each other.
    thin: whether its spans are thin.
    """

    name: str
    datum: Datum = field(default_factory=dict)
    tip: str = ""
    end: str = ""
    group: int = 0
    thin: bool = False


@dataclass(frozen=True, kw_only=True)
class Span(Thing):
    """A time on a row. part: its part of the row, from 0, if spans of a row overlap.

    texts: in it, or behind it if the row is free there.
    value: after the text, with room, and while no question is open.
    hatch: whether it is a wait: an empty box with lines across.
    """

    row: int
    start: float
    end: float
    part: int = 0
    texts: Texts = ()
    value: str = ""
    hatch: bool = False


@dataclass(frozen=True, kw_only=True)
class Gap(Thing):
    """A time without a span on a row: a bracket under the row.

    texts: under the bracket.
    late: the end of a part in its colour, while no question is open.
    """

    row: int
    start: float
    end: float
    texts: Texts = ()
    late: float | None = None


@dataclass(frozen=True, kw_only=True)
class Link:
    """An arrow from a moment of a row to a moment of a row, while no question is open.

    start, end: (row, moment). text: above it. now: its steps.
    """

    start: tuple[int, float]
    end: tuple[int, float]
    text: str = ""
    now: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True)
class Lanes:
    """Time lines on one axis.

    length: of the axis. What is outside of a group's begin and this length is not shown.
    units: [amount, name] of the axis, rising: [(1, "ns"), (1000, "µs")]. Without one, it has no numbers.
    note: under the axis.
    shown: the steps at which the panel is there. (): all.
    """

    groups: Sequence[Group]
    rows: Sequence[Lane]
    spans: Sequence[Span]
    length: float
    gaps: Sequence[Gap] = ()
    links: Sequence[Link] = ()
    units: Sequence[tuple[float, str]] = ()
    note: str = ""
    shown: Sequence[int] = ()
    kind: str = "lanes"


# ---- the whole ----

Panel = Table | Bars | Cells | Lanes | Lines


@dataclass(frozen=True)
class Scene:
    """A picture.

    lines: its panels from top to bottom. The panels of a line are side by side if the pane is wide enough.
    legend: [colour, text]. A colour is one of Thing.colour, "ring" for a frame, or "" for a text only.
    flights: at each step the ways of numbers from grid to grid: [part, cell, part, cell].
    note: under the picture.
    """

    lines: Sequence[Sequence[Panel]]
    legend: Sequence[tuple[str, str]] = ()
    flights: Sequence[Sequence[tuple[str, int, str, int]]] = ()
    note: str = ""


def view(id: str, title: str, lines: Sequence[Sequence[Panel]], **more: Any) -> View:
    """The View of a Scene. more: its other fields."""
    return View("scene", id, title, Scene(lines, **more))
