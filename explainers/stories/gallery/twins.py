"""The picture of a bug: the same values of its faulty and of its right kernel, from a run of each."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from explainers.story.glossary import short
from kernels.core.dtypes import widened
from kernels.core.problem import Problem
from kernels.exercises import Exercise
from kernels.run.results import Run
from kernels.trace.automatic import BARRIER, PHASE

OUT, STEP, CAUSE = "out", "step", "cause"
"""The part of a cell in the story: the symptom, the first wrong step, or its cause."""
NAMES = {"score": "score", "m": "max m", "gap": "score \u2212 m", "p": "weight p", "l": "sum l"}
MOST = 8  # numbers of an output


@dataclass(frozen=True)
class Cell:
    """A value.

    text: in a few letters.
    part: of OUT, STEP and CAUSE, or "".
    wrong: whether only the faulty run has it. cured: whether only the right run has it."""

    text: str = ""
    part: str = ""
    wrong: bool = False
    cured: bool = False


@dataclass(frozen=True)
class Grid:
    """Values of a run as a table.

    title: what it shows.
    names: of the rows. tops: of the columns. axes: what a row and a column are.
    cells: [row][column]."""

    title: str

    names: tuple[str, ...]
    tops: tuple[str, ...]
    axes: tuple[str, str]
    cells: tuple[tuple[Cell, ...], ...]

    @property
    def flat(self) -> list[Cell]:
        return [cell for row in self.cells for cell in row]


def figure(value: float) -> str:
    """A number in a few letters: 0.21, -12k, NaN."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "\u221e" if value > 0 else "\u2212\u221e"
    large = abs(value) >= 1000
    return (f"{value / 1000:.0f}k" if large else short(value, 2)).replace("-", "\u2212")


def grids(exercise: Exercise, faulty: Run, right: Run) -> tuple[Grid, Grid]:
    """The Grids of both runs. A cell of the faulty one is wrong, and its twin cured, if their texts differ."""
    assert exercise.bug
    made, other = PICTURES[exercise.bug.picture](faulty, right)
    pairs = [[*zip(*both, strict=True)] for both in zip(made.cells, other.cells, strict=True)]
    bad = [
        tuple(replace(cell, wrong=cell.wrong or bool(cell.part) and cell.text != twin.text) for cell, twin in row)
        for row in pairs
    ]
    good = [
        tuple(
            replace(twin, cured=bool(twin.part) and (cell.text, cell.part) != (twin.text, twin.part))
            for cell, twin in row
        )
        for row in pairs
    ]
    return replace(made, cells=tuple(bad)), replace(other, cells=tuple(good))


def _row(texts: Sequence[str], part: str, count: int) -> tuple[Cell, ...]:
    """A row of cells, the missing ones empty."""
    return tuple(Cell(text, part if text else "") for text in [*texts, *[""] * count][:count])


# ---- a row of a softmax: its scores, max, weights and output ----


def softmax_row(faulty: Run, right: Run) -> tuple[Grid, Grid]:
    """The logged values of the first row with a wrong one, for the keys of that tile."""
    frames = [_values(run) for run in (faulty, right)]
    keys = [name for name in ("head", "row", "col", "tile") if name in frames[0]]
    joined = frames[0].merge(frames[1], on=["event", *keys], suffixes=("", "_right"))
    differs = ~((joined.value == joined.value_right) | (joined.value.isna() & joined.value_right.isna()))
    events = list(dict.fromkeys(frames[0].event))
    wrong = joined[differs] if differs.any() else joined
    earliest = next(event for event in events if event in set(wrong.event))
    first = wrong[wrong.event == earliest].iloc[0]
    number = events.index(earliest)
    causes = events[:number] or events[number + 1 : number + 2]
    made = []
    for run, frame in zip((faulty, right), frames):
        same = (frame["head"] == first["head"]) & (frame.row == first.row)
        own = frame[same & (frame.tile == first.tile)] if "tile" in keys else frame[same]
        columns = sorted(own.col.dropna().astype(int).unique())
        rows, names = [], []
        for event in events:
            values = own[own.event == event].drop_duplicates(["col"]).value
            part = STEP if event == first.event else CAUSE if event in causes else ""
            rows.append(_row([figure(value) for value in values], part, len(columns)))
            names.append(NAMES[event])
        output = widened(run.arrays["o"])[0, int(first["head"]), int(first.row)]
        rows.append(_row([figure(value) for value in output[:MOST]], OUT, len(columns)))
        tops = tuple(f"key {key}" if number == 0 else str(key) for number, key in enumerate(columns))
        made.append(
            Grid(f"row {int(first.row)}", (*names, f"O of row {int(first.row)}"), tops, ("value", "key"), tuple(rows))
        )
    return made[0], made[1]


def _values(run: Run) -> pd.DataFrame:
    """The logged values in the order of the run, each key once."""
    logged = run.trace.table["value"].is_valid().to_numpy()  # a logged NaN is a value
    frame = run.trace.frame()[logged].sort_values(["launch", "block", "thread", "seq"]).astype({"event": str})
    keys = [name for name in ("head", "row", "col", "tile") if name in frame]
    return frame.drop_duplicates(["event", *keys]).reset_index(drop=True)


# ---- grouped heads ----


def heads(faulty: Run, right: Run) -> tuple[Grid, Grid]:
    """The KV head that each query head reads."""
    return _heads(faulty), _heads(right)


def _heads(run: Run) -> Grid:
    problem = run.request.problem
    k, o = (next(t for t in problem.tensors() if t.name == name) for name in ("k", "o"))
    count, of_head = o.shape[1], int(np.prod(k.shape[2:])) * k.itemsize
    loads = run.trace.frame("block", "seq", "tensor", "event", "offset").sort_values("seq")
    first = loads[(loads.tensor == "K") & (loads.event == "load")].groupby("block").offset.first()
    read = [int(first[head]) // of_head for head in range(count)]
    scores = _values(run).drop_duplicates(["head"]).value
    group = count // k.shape[1]
    cells = (
        _row([str(head // group) for head in range(count)], CAUSE, count),
        _row([str(head) for head in read], STEP, count),
        _row([figure(value) for value in scores], "", count),
        _row([figure(value) for value in widened(run.arrays["o"])[0, :, 0, 0]], OUT, count),
    )
    names = ("its group", "KV head read", "score of key 0", "O of row 0")
    return Grid(
        "each query head",
        names,
        tuple(f"head {n}" if n == 0 else str(n) for n in range(count)),
        ("value", "query head"),
        cells,
    )


# ---- the slots of new tokens ----


def slots(faulty: Run, right: Run) -> tuple[Grid, Grid]:
    """The place in the cache that each token writes."""
    return _slots(faulty), _slots(right)


def _slots(run: Run) -> Grid:
    tokens = [int(slot) for slot in run.arrays["slots"]]
    frame = run.trace.frame("block", "thread", "seq", "tensor", "event", "offset")
    frame = frame.sort_values(["block", "thread", "seq"])
    stores = frame[(frame.tensor == "K") & (frame.event == "store")].groupby("block").offset.first() // 4
    stop = next((fault for fault in run.faults if fault.index and fault.kind == "out of bounds"), None)
    stopped = int(frame.block.max()) if stop else len(tokens)
    places, results = [], []
    for token in range(len(tokens)):
        if token in stores.index:
            places.append(str(int(stores[token])))
        else:
            places.append(str(stop.index[0]).replace("-", "\u2212") if stop and token == stopped else "none")
        done = "written" if token in stores.index else "skipped"
        results.append("illegal" if token == stopped else "no run" if token > stopped else done)
    count = len(tokens)
    cells = (
        _row([str(slot).replace("-", "\u2212") for slot in tokens], CAUSE, count),
        _row(places, STEP, count),
        _row(results, OUT, count),
    )
    tops = tuple(f"token {n}" if n == 0 else str(n) for n in range(count))
    return Grid("each token", ("slot", "first number of K", "result"), tops, ("value", "token"), cells)


# ---- arrivals at a barrier ----


def arrivals(faulty: Run, right: Run) -> tuple[Grid, Grid]:
    """The arrivals of each warp at the barrier of the empty stage, tile by tile."""
    tiles = int(_marked(right, "passed").tile.max()) + 1
    return _arrivals(faulty, tiles), _arrivals(right, tiles)


def _marked(run: Run, event: str) -> pd.DataFrame:
    frame = run.trace.frame()
    return frame[frame.event == event]


def _arrivals(run: Run, tiles: int) -> Grid:
    passed, arrived = _marked(run, "passed"), _marked(run, "arrived")
    warps = sorted(int(warp) for warp in arrived.warp.unique())
    counts = [[int(((arrived.warp == w) & (arrived.tile == tile)).sum()) for tile in range(tiles)] for w in warps]
    sums, whole = np.sum(counts, axis=0), max(np.sum(counts, axis=0))
    copied = [bool((passed.tile == tile).any()) for tile in range(tiles)]
    cells = (
        _row(["copies" if done else "waits" for done in copied], OUT, tiles),
        *(_row([f"{n}" for n in row], CAUSE, tiles) for row in counts),
        _row([f"{n} of {whole}" for n in sums], STEP, tiles),
    )
    names = ("producer", *(f"warp {warp} arrives" for warp in warps), "arrivals")
    return Grid("tile by tile", names, tuple(f"tile {tile}" for tile in range(tiles)), ("who", "tile"), cells)


# ---- a buffer of shared memory ----

BOTH = "read + write"


def buffer(faulty: Run, right: Run) -> tuple[Grid, Grid]:
    """The accesses of each word of the buffer between two barriers."""
    phases = max(int(_buffer_accesses(run)[PHASE].max()) for run in (faulty, right)) + 1
    made, other = _buffer(faulty, phases), _buffer(right, phases)
    rows = [
        tuple(replace(twin, part=cell.part) for cell, twin in zip(*both, strict=True))
        for both in zip(made.cells, other.cells, strict=True)
    ]
    return made, replace(other, cells=tuple(rows))


def _buffer_accesses(run: Run) -> pd.DataFrame:
    """The accesses of shared memory, with the number of barriers of the thread before each."""
    frame = run.trace.frame("block", "thread", "seq", "event", "space", "offset").sort_values(
        ["block", "thread", "seq"]
    )
    frame[PHASE] = (frame.event == BARRIER).groupby([frame.block, frame.thread]).cumsum()
    return frame[(frame.space == "shared") & (frame.block == 0)]


def _buffer(run: Run, phases: int) -> Grid:
    accesses = _buffer_accesses(run)
    raced = any("race" in fault.kind and fault.level == "error" for fault in run.faults)
    words = sorted(int(offset) // 4 for offset in accesses.offset.unique())
    rows = []
    for word in words:
        texts = []
        for phase in range(phases):
            own = accesses[(accesses.offset == 4 * word) & (accesses[PHASE] == phase)]
            verbs = [verb for verb, event in (("read", "load"), ("write", "store")) if (own.event == event).any()]
            texts.append(" + ".join(verbs) or "\u2013")  # BOTH, one or none
        rows.append(tuple(Cell(text, STEP if BOTH in text else "") for text in texts))
    both = [raced and any(row[phase].text == BOTH for row in rows) for phase in range(phases)]
    rows.append(tuple(Cell("race" if found else "ok", OUT) for found in both))
    names = (*(f"red[{word}]" for word in words), "check")
    tops = tuple(f"to barrier {n}" if n == 1 else f"{n}" for n in range(1, phases + 1))
    return Grid("between two barriers", names, tops, ("word", "barrier"), tuple(rows))


# ---- the barrier of each thread ----

WIDTH = 8


def threads(faulty: Run, right: Run) -> tuple[Grid, Grid]:
    """The first barrier to which each thread comes, by its place in the text."""
    return _threads(faulty), _threads(right)


def _threads(run: Run) -> Grid:
    frame = run.trace.frame("thread", "seq", "event", "line").sort_values("seq")
    lines = frame[frame.event == BARRIER].groupby("thread").line.first()
    text = run.request.kernel.source.splitlines()
    barriers = [n for n, line in enumerate(text, 1) if "__syncthreads()" in line]
    texts = [
        str(1 + barriers.index(lines[n])) if n in lines.index else "none" for n in range(int(frame.thread.max()) + 1)
    ]
    rows = tuple(_row(texts[n : n + WIDTH], STEP, WIDTH) for n in range(0, len(texts), WIDTH))
    names = tuple(f"{n} to {n + WIDTH - 1}" for n in range(0, len(texts), WIDTH))
    return Grid("the barrier of each thread", names, (), ("threads", "thread"), rows)


# ---- the words of a swizzled tile ----

SHOWN, LOOKED = 8, 1  # rows and words in sight, and the word of Q that is multiplied


def swizzle(faulty: Run, right: Run) -> tuple[Grid, Grid]:
    """The words of the tile, each with its number in the row of K, and the one that each lane reads as word 1."""
    return _swizzle(faulty), _swizzle(right)


def _swizzle(run: Run) -> Grid:
    frame = run.trace.frame("block", "thread", "seq", "tensor", "event", "space", "offset")
    frame = frame[frame.block == 0].sort_values(["thread", "seq"])
    dims = _dims(run.request.problem)
    stored: dict[int, int] = {}
    for _, own in frame.groupby("thread"):
        source = 0
        for record in own.itertuples():
            if record.tensor == "K" and record.event == "load":
                source = int(record.offset) // 4 % dims
            elif record.space == "shared" and record.event == "store":
                stored[int(record.offset) // 4] = source
    words = sorted(stored)
    row = words[dims] - words[0]  # from row to row
    reads = frame[(frame.space == "shared") & (frame.event == "load")].groupby("thread").offset
    looked = {int(lane): int(offsets.iloc[LOOKED]) // 4 % row for lane, offsets in reads}  # type: ignore[call-overload]
    scores = _values(run)
    scores = scores[(scores["head"] == 0) & (scores.row == 0)].set_index("col").value
    rows = []
    for lane in range(SHOWN):
        cells = [Cell(str(stored[lane * row + word]), STEP if looked[lane] == word else "") for word in range(SHOWN)]
        cells = [replace(cell, wrong=bool(cell.part) and cell.text != str(LOOKED)) for cell in cells]
        rows.append((*cells, Cell(figure(scores[lane]), OUT)))
    tops = ("word 0", *(str(word) for word in range(1, SHOWN)), "score")
    return Grid(
        "each word, by its number in K",
        tuple(f"key {lane}" for lane in range(SHOWN)),
        tops,
        ("key", "word"),
        tuple(rows),
    )


def _dims(problem: Problem) -> int:
    return int(next(t for t in problem.tensors() if t.name == "k").shape[-1])


PICTURES: dict[str, Callable[[Run, Run], tuple[Grid, Grid]]] = {
    "softmax_row": softmax_row,
    "heads": heads,
    "slots": slots,
    "arrivals": arrivals,
    "buffer": buffer,
    "threads": threads,
    "swizzle": swizzle,
}
