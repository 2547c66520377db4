"""The picture of a story as data: panels of things. The browser places and moves them, and computes no value.

Each thing has a datum, its identity: {"tensor": "K", "launch": 1}. Hit test, tip, pin, Show me, a question's cover and
the alternative text follow from it. A thing keeps its datum from step to step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

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


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A panel.

    shown: the steps at which it is there. (): all.
    roomy: whether a phone leaves it out.
    share: its part of the width of its line, next to 1 of each other panel.
    """

    shown: Sequence[int] = ()
    roomy: bool = False
    share: float = 1


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
class Table(Shown):
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
class Bars(Shown):
    """Bars on one scale from zero, under a title and above a note.

    columns: the key and the head of each column between names and bars. A phone has the first one only.
    key: of the bars themselves. A column's key is the field `figure` in the datum of its cells.
    head: over the bars.
    now: the steps that are about all of them.
    tall: whether the bars take free height.
    """

    title: Texts
    bars: Sequence[Bar]
    note: str = ""
    datum: Datum = field(default_factory=dict)
    now: Sequence[int] = ()
    columns: Sequence[tuple[str, str]] = ()
    key: str = ""
    head: str = ""
    tall: bool = False
    kind: str = "bars"


# ---- cells ----


@dataclass(frozen=True, kw_only=True)
class Cells(Shown):
    """A grid of small cells, each with a state. Its datum is {part, number}.

    part: the name of the grid. title: over it, for all steps or for each.
    columns: of a row. states: a text for each step, with a letter for each cell.
    colours, words: of each letter.
    axes: the names of a row and of a column, for tips: ["warp", "lane"].
    places: the name of each cell, for tips in place of axes.
    names, tops: a text next to each row, and over each column.
    texts: in the cells, if they fit. tips: of the cells, in place of words. gos: the steps to which their clicks go.
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
    places: Sequence[str] = ()
    names: Sequence[str] = ()
    tops: Sequence[str] = ()
    texts: Sequence[str] = ()
    tips: Sequence[str] = ()
    gos: Sequence[int] = ()
    ringed: Sequence[int] = ()
    pairs: Sequence[Sequence[int]] = ()
    kind: str = "cells"


# ---- matrices ----


@dataclass(frozen=True, kw_only=True)
class Map(Shown):
    """A matrix of signed numbers as colours by powers of ten. A number's datum is {part, row, column}, by its axes.

    part: its name. title: over it, at each step.
    column: the column of the view with its matrices, row by row. NaN in the first one: a number that is never there.
    columns: of a row. at: the number of the matrix at each step.
    axes: the names of a row and of a column. first: the number of the first row.
    lines: the columns between two lines, 0 without lines.
    unit: after a number in a tip. blank: the tip of a number that is never there.
    """

    part: str
    title: Sequence[Texts]
    column: str
    columns: int
    at: Sequence[int]
    axes: tuple[str, str]
    first: int = 0
    lines: int = 0
    unit: str = ""
    blank: str = ""
    kind: str = "map"


@dataclass(frozen=True, kw_only=True)
class Blocks(Shown):
    """A matrix in blocks, each of a kind, with a frame around one row of blocks. A block's datum is {part, row, col}.

    part: the name of a block. title: over it.
    size, block: rows and columns of the matrix and of a block.
    kinds, elements: columns of the view: the kind of each block, and the elements in sight, 16 in each number, row by
        row. Without elements, a block has one colour.
    colours: of each kind, "" for none. hidden: of an element out of sight.
    tips: of a block of each kind, with {row}, {col} and the names of columns with a number for each block.
    row_tips: of each row of blocks.
    row: the framed row of blocks. dashed: a row of the matrix with a dashed line.
    order: [col, text, shorter text] on blocks of the framed row, while no question is open.
    now: at each step the block of the framed row with a thick frame, or -1.
    gos: col of a block of the framed row -> the step of a click. choice: the choice of another row.
    drawing: of a matrix drawn by hand: its block, and for each row its columns. A click shows or hides one, by the
        choice `drawn_choice`.
    """

    part: str
    title: Texts
    size: tuple[int, int]
    block: tuple[int, int]
    kinds: str
    elements: str
    colours: Sequence[str]
    hidden: str
    tips: Sequence[str]
    row_tips: Sequence[str]
    row: int
    dashed: int
    order: Sequence[tuple[int, str, str]]
    now: Sequence[int]
    gos: Mapping[str, int]
    choice: str
    drawing: Mapping[str, Any] | None = None
    drawn_choice: str = ""
    kind: str = "blocks"


@dataclass(frozen=True, kw_only=True)
class Columns(Shown):
    """Numbers as upright bars from zero. A bar's datum is {part, number}.

    part: of a bar. title: over them, at each step. notes: lines under them, at each step.
    column: the column of the view with the numbers, NaN without one.
    ranges: at each step, or at all, the first and the end of the shown numbers. bare: the steps without bars.
    scale: the least and the largest number.
    levels: at each step [value, whether dashed] of lines across.
    pale: [first, end) of numbers with a pale background in the colour `pale_colour`.
    framed: at each step (first, end) of numbers with a frame, or ().
    since: the column with the step of each number. Before it, it has no bar. "": all have bars.
    tips: of each number, before its value. Without them, it has the name and the number.
    name: of a number, in tips and at the ends. noun: after it, before the value.
    blanks: the tip of a number that is not there, one for each `each` numbers.
    """

    part: str
    title: Sequence[Texts]
    notes: Sequence[Sequence[str]]
    column: str
    ranges: Sequence[tuple[int, int]]
    scale: tuple[float, float]
    name: str
    noun: str
    bare: Sequence[int] = ()
    levels: Sequence[Sequence[tuple[float, bool]]] = ()
    pale: Sequence[tuple[int, int]] = ()
    pale_colour: str = "panel"
    framed: Sequence[Sequence[int]] = ()
    since: str = ""
    tips: Sequence[str] = ()
    blanks: Sequence[str] = ()
    each: int = 1
    colour: str = "S"
    kind: str = "columns"


@dataclass(frozen=True, kw_only=True)
class Matrix(Thing):
    """A matrix of a chain. The datum of a number is its own, with each of `axes`: {tensor: S, query: 3, key: 5}.

    place: its column, its line, and its slot there: the slots of a line are one under the other.
    size: its most rows and columns.
    names: over it. The last one is its name in tips.
    axes: the names of a row and of a column.
    column: the column of the view with its numbers. NaN: a number that `blank` names.
    windows: the first number, rows, columns, first row and first column of each of its parts.
    at: the part at each step, or -1.
    pale: the steps at which it is not there: what is to come is pale, or what was there.
    note: in a tip, after the name of a number. unit: after its value.
    notes: after the names, at each step.
    shown: the steps at which it is there at all. (): all.
    inputs, loads, flies: the steps with a frame as an input, as a read from memory, and with a dashed frame.
    sums: at each step the direction of a sum over it: right, down or "".
    """

    place: tuple[int, int, int]
    size: tuple[int, int]
    names: Texts
    axes: tuple[str, str]
    column: str = ""
    windows: Sequence[tuple[int, int, int, int, int]] = ()
    at: Sequence[int] = ()
    pale: Sequence[int] = ()
    note: str = ""
    unit: str = ""
    blank: str = ""
    notes: Sequence[str] = ()
    shown: Sequence[int] = ()
    inputs: Sequence[int] = ()
    loads: Sequence[int] = ()
    flies: Sequence[int] = ()
    sums: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Chain(Shown):
    """Matrices in columns, each made from others.

    title: at each step. heads: over each column, at each step.
    ways: arrows from matrix to matrix, by their numbers. One to a matrix of the step is strong.
    """

    title: Sequence[Texts]
    matrices: Sequence[Matrix]
    ways: Sequence[tuple[int, int]] = ()
    heads: Sequence[Sequence[str]] = ()
    kind: str = "chain"


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
class Lines(Shown):
    """Lines of text, one under the other."""

    lines: Sequence[Line]
    kind: str = "lines"


def texts(lines: Sequence[str], shown: Sequence[int] = (), roomy: bool = False) -> Lines:
    """A line for each text, without empty ones. shown, roomy: see Shown."""
    return Lines(lines=[Line(texts=[text]) for text in lines if text], shown=shown, roomy=roomy)


@dataclass(frozen=True)
class Pair:
    """A line of two texts side by side.

    numbers, texts: of each side. None on a side without the line.
    changed: whether the sides differ.
    """

    numbers: tuple[int | None, int | None]
    texts: tuple[str | None, str | None]
    changed: bool


@dataclass(frozen=True, kw_only=True)
class Listing(Shown):
    """Two versions of some code. A phone shows the versions of a changed line one under the other.

    names: of the sides.
    lit: at each step the side whose changed lines have a background: left, right, both or "".
    """

    names: tuple[str, str]
    rows: Sequence[Pair]
    lit: Sequence[str] = ()
    kind: str = "listing"


# ---- lanes ----


@dataclass(frozen=True, kw_only=True)
class Group:
    """Rows of time lines under a title.

    datum, tip: of all its rows together: a question can cover the whole group.
    value, note: after the title while no question is open. The note is dim, and left out without room.
    begins: the first shown moment of its rows at each step. The last entry is for all further steps, here and below.
    marked: for each step, the start and the end of a frame over all its rows, or None. said: a text under each frame,
        while no question is open.
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

    name: at its left, after a mark of its colour.
    end: at its right, one for all steps or one for each.
    datum, tip: of its line. A question can cover the whole line.
    moments: the tips of its times, each of length 1, if the axis is one of steps from 1 on. Each has the datum with
        `step`, and a click goes there. The spans of the row are no things then.
    group: the number of its group. The rows of a group follow each other.
    thin: whether its spans are thin.
    """

    name: str
    colour: str = ""
    datum: Datum = field(default_factory=dict)
    tip: str = ""
    end: str | Sequence[str] = ""
    moments: Sequence[str] = ()
    group: int = 0
    thin: bool = False


@dataclass(frozen=True, kw_only=True)
class Span(Thing):
    """A time on a row. part: its part of the row, from 0, if spans of a row overlap.

    texts: in it, or behind it if the row is free there.
    early, early_tip: in place of its texts and its tip before the step that makes it, if there are any.
    value: after the text, with room, and while no question is open.
    hatch: whether it is a wait: an empty box with lines across.
    """

    row: int
    start: float
    end: float
    part: int = 0
    texts: Texts = ()
    early: Texts | None = None
    early_tip: str = ""
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

    start, end: (row, moment). text: under it, in a row with room. now: its steps.
    """

    start: tuple[int, float]
    end: tuple[int, float]
    text: str = ""
    now: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True)
class Lanes(Shown):
    """Time lines on one axis.

    length: of the axis. What is outside of a group's begin and this length is not shown.
    units: [amount, name] of the axis, rising: [(1, "ns"), (1000, "µs")]. Without one, it has no numbers.
    note: under the axis.
    """

    groups: Sequence[Group]
    rows: Sequence[Lane]
    spans: Sequence[Span]
    length: float
    gaps: Sequence[Gap] = ()
    links: Sequence[Link] = ()
    units: Sequence[tuple[float, str]] = ()
    note: str = ""
    kind: str = "lanes"


# ---- pages ----


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of slots at a step. Each slot has the datum {page, slot}.

    names, colours: of its owners. Its filled slots are striped with all colours.
    fill: its filled slots, from the first on. first: the number of the token in slot 0.
    fresh: the first slot that the step fills and the one after the last, or ().
    freed: whether the step frees it.
    texts: at its right.
    tip: of the whole page, after the line of a slot.
    """

    names: str = ""
    colours: Sequence[str] = ()
    fill: int = 0
    first: int = 0
    fresh: Sequence[int] = ()
    freed: bool = False
    texts: Texts = ()
    tip: str = ""


@dataclass(frozen=True, kw_only=True)
class Pages(Shown):
    """A pool of pages.

    size: slots of a page.
    steps: its pages at each step.
    copies: at each step, the pages (from, to) that it copies.
    """

    title: Texts
    size: int
    steps: Sequence[Sequence[Page]]
    copies: Sequence[Sequence[tuple[int, int]]]
    kind: str = "pages"


# ---- block tables ----


@dataclass(frozen=True, kw_only=True)
class Entries:
    """The entries of a block table at a step, each with its page: datum {sequence, entry, page}.

    texts: under its name. tips: of each entry. now: the framed entries.
    """

    name: str
    colour: str
    pages: Sequence[int]
    texts: Texts = ()
    tips: Sequence[str] = ()
    now: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True)
class Tables(Shown):
    """Block tables, at each step a row for each sequence. empty: in place of rows."""

    title: Texts
    steps: Sequence[Sequence[Entries]]
    empty: str = ""
    kind: str = "tables"


# ---- flow ----


@dataclass(frozen=True, kw_only=True)
class Place(Thing):
    """A place with slots for items, such as a GPU.

    value: at its right, at each step. note: under its name.
    foot: under its slots, at each step. A phone has none.
    """

    name: str
    value: Sequence[Texts] = ()
    note: Texts = ()
    foot: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Item(Thing):
    """What is in a slot of a place at some steps. The items of one slot share it.

    spots: at each step (place, slot), or () if it is nowhere.
    pale: the steps at which it waits: pale, with a dashed edge.
    way: the spots from which and to which it came, or (). moves: the steps with an arrow on this way.
    """

    spots: Sequence[tuple[int, ...]]
    texts: Texts
    pale: Sequence[int] = ()
    way: tuple[tuple[int, int], ...] = ()
    moves: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True)
class Flow(Shown):
    """Places, one after another, and the items in their slots and on their ways.

    slots: the name of each slot of a place, while it is empty.
    """

    title: Texts
    places: Sequence[Place]
    items: Sequence[Item]
    slots: Sequence[str]
    kind: str = "flow"


# ---- the whole ----

Panel = Table | Bars | Cells | Map | Chain | Blocks | Columns | Lines | Listing | Lanes | Flow | Pages | Tables


@dataclass(frozen=True)
class Scene:
    """A picture.

    lines: its panels from top to bottom. The panels of a line are side by side if the pane is wide enough.
    legend: [colour, text]. A colour is one of Thing.colour, "ring" for a frame, "hatch" for a wait, "sign" for numbers
        below and above 0, or "" for a text only.
    flights: at each step the ways of numbers from grid to grid: [part, cell, part, cell].
    ways: at each step the arrows from thing to thing, each by its datum, while no question is open.
    note: under the picture, one for all steps or one for each.
    turns: buttons under it: a choice, its value, the text, and whether the button works at each step.
    """

    lines: Sequence[Sequence[Panel]]
    legend: Sequence[tuple[str, str]] = ()
    flights: Sequence[Sequence[tuple[str, int, str, int]]] = ()
    ways: Sequence[Sequence[tuple[Datum, Datum]]] = ()
    note: str | Sequence[str] = ""
    turns: Sequence[tuple[str, str, str, Sequence[bool]]] = ()


def view(
    id: str, title: str, lines: Sequence[Sequence[Panel]], columns: Mapping[str, np.ndarray] | None = None, **more: Any
) -> View:
    """The View of a Scene. columns: of its matrices. more: its other fields."""
    return View("scene", id, title, Scene(lines, **more), columns or {})
