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
    strong: whether it has the full colour. It has it at its steps (now), too.
    cells: its texts in the columns of Bars.
    """

    name: str
    value: float
    cells: Sequence[str] = ()
    steps: Sequence[float] = ()
    text: str | Sequence[str] = ""
    parts: Sequence[Part] = ()
    strong: bool = False


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Bars on one scale from zero, under a title and above a note.

    columns: the key and the head of each column between names and bars. A phone has the first one only.
    key: of the bars themselves. A column's key is the field `figure` in the datum of its cells.
    head: over the bars.
    now: the steps that are about all of them.
    """

    title: Texts
    bars: Sequence[Bar]
    note: str = ""
    datum: Datum = field(default_factory=dict)
    now: Sequence[int] = ()
    columns: Sequence[tuple[str, str]] = ()
    key: str = ""
    head: str = ""
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


# ---- the whole ----

Panel = Table | Bars | Cells | Lines


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
