"""The pictures of the backward: the chain of a block's tiles with global memory under it, and the sums of dQ."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from explainers.models import gradients
from explainers.stories.backward.walk import Walk
from explainers.story import axes, picture, probed, scene
from explainers.story.base import Runner
from explainers.story.stage import View
from explainers.story.words import Row, Words
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.errors import WarpglassError
from kernels.run.results import Run

WORDS = Words.of(str(__package__))
# part -> its column, line and slot in the chain. O takes the slot of V while delta is made.
PLACES = {"Q": (0, 0, 0), "K": (0, 0, 1), "dO": (0, 1, 0), "V": (0, 1, 1), "O": (0, 1, 1), "S": (1, 0, 0)}
PLACES |= {"LSE": (1, 0, 1), "dP": (1, 1, 0), "delta": (1, 1, 1), "P": (2, 0, 0), "dS": (2, 1, 0)}
PLACES |= {"dV": (3, 0, 0), "dK": (3, 1, 0), "dQ": (3, 1, 1)}
MADE_OF: dict[str, tuple[str, ...]] = {product.made: product.reads for product in gradients.PRODUCTS}
MADE_OF |= {"delta": ("dO", "O"), "P": ("S", "LSE"), "dS": ("P", "dP", "delta")}
NEXT = {"S": "P", "dP": "dS"}  # what a tile is for
LEGEND = [
    ("S", "frame: made now"),
    ("text", "frame: input of this step"),
    ("read", "read from global memory"),
    ("written", "written"),
    ("pale written", "written by this block before"),
    ("dim", "written by others"),
    ("sign", "below zero, above zero"),
    ("", "pale: not on the SM now"),
    ("", "LSE: a row's log(sum(exp(S)))"),
]
MOST_RECORDS = 3_000_000  # of a trace of all blocks


def formulas(adds: bool) -> dict[str, str]:
    """Part -> its formula. adds: whether blocks add their parts of dQ."""
    said = {product.made: product.said for product in gradients.PRODUCTS}
    said |= {"delta": "delta = rowsum(dO * O)", "P": "P = exp(S - LSE)", "dS": "dS = P * (dP - delta)"}
    return said | ({"dQ": "dQ part = dS K"} if adds else {})


def axes_of(part: str) -> tuple[str, ...]:
    if part in gradients.SQUARES:
        return "query", "key"
    return ("query",) if part in ("LSE", "delta") else ("key" if gradients.along_keys(part) else "query", "dim")


# ---- the chain ----


def tiles(run: Run, walk: Walk, data: Row) -> View:
    """A block's tiles on its SM, and what it touches of global memory."""
    columns = _inputs(run, walk.head)
    matrices = [_matrix(part, walk.steps, data, columns) for part in PLACES]
    of = [*PLACES]
    ways = [
        (of.index(read), of.index(made))
        for made, reads in MADE_OF.items()
        for read in reads
        if PLACES[made][0] - PLACES[read][0] == 1 and (made, read) != ("delta", "dO") or (made, read) == ("dS", "P")
    ]
    heads = [[places[row["launch"]][n] for row in walk.steps] for places in [data["places"]] for n in range(4)]
    title = [_title(row, data) for row in walk.steps]
    chain = scene.Chain(title=title, matrices=matrices, ways=ways, heads=heads)
    facts = [_facts(row, data["facts"]) for row in walk.steps]
    lines = [scene.Line(texts=[texts[n] for texts in facts]) for n in range(2)]
    memory = [_weights(walk.steps, data), *(_memory(axis, walk.steps, data) for axis in ("query", "key"))]
    flies = (
        [("S", "dashed frame: in flight, the tensor cores multiply")] if any(r["flying"] for r in walk.steps) else []
    )
    return scene.view(
        "tiles", "Tiles", [[chain], memory, [scene.Lines(lines=lines, roomy=True)]], columns, legend=flies + LEGEND
    )


def _title(row: Row, data: Row) -> list[str]:
    if row["whole"]:
        return [WORDS.say("whole_tile", {})]
    launch, _, name = data["launches"][row["launch"]].partition(", ")
    where = f"block {row['block']} of {data['blocks'][row['launch']]}"
    return [f"{launch}, {name}: {where}, on its SM", f"{launch}: {where}"]


def _facts(row: Row, facts: Sequence[tuple[str, list[str]]]) -> list[str]:
    """The sentences about the parts of a step, two at most."""
    stored = [touch["part"] for touch in row["touched"] if touch["kind"] == "store"]
    said = [text for text, of in facts if row["whole"] or set(of) & set(row["made"] or stored)]
    return [*said, "", ""][:2]


def _inputs(run: Run, head: int) -> dict[str, np.ndarray]:
    """The tensors of global memory: K and V of a head, and the others of its group of query heads."""
    heads = range(head, head + gradients.group_of(run.request))
    of = gradients.tensors(run.request)
    parts: list[str] = [part for part in ("Q", "dO", "O", "LSE") if part in of]
    found = {part: np.concatenate([gradients.values(run, part, one) for one in heads]) for part in parts}
    found |= {str(part): gradients.values(run, part, head) for part in "KV"}
    return found | {"delta": (found["dO"] * found["O"]).sum(axis=1)}


def _matrix(part: str, steps: Sequence[Row], data: Row, columns: dict[str, np.ndarray]) -> scene.Matrix:
    """A part at each step. Adds the numbers of its tiles to the columns."""
    inputs, (down, *across) = part in columns, axes_of(part)
    numbers: dict[int, tuple[int, np.ndarray]] = {}  # of a tile -> their place among the part's
    windows: dict[tuple[int, int, int, int, int], int] = {}

    def window(row: Row) -> tuple[int, int, int, int, int] | None:
        """The shown numbers, if the part is there."""
        if not inputs:
            tile = row["state"].get(part)
            if tile is None or part in gradients.SQUARES and part not in row["done"]:
                return None
            start = sum(one.size for _, one in numbers.values())
            start, _ = numbers.setdefault(id(tile), (start, tile.numbers))
            return start, *tile.numbers.shape, tile.row, tile.col
        span = row["keys" if down == "key" else "queries"]
        if not span or part not in (*row["holds"], *row["made"]):
            return None
        wide = columns[part][0].size
        first = span[0] + (row["head"] * data["n"] if down == "query" else 0)
        return first * wide, span[1] - span[0] + 1, wide, span[0], 0

    there = [window(row) for row in steps]
    nearest = [next((w for w in [*there[n:], *there[n::-1]] if w), None) for n in range(len(steps))]
    at = [windows.setdefault(w, len(windows)) if w else -1 for w in nearest]
    if not inputs:
        columns[part] = np.concatenate([np.zeros(0), *(one.ravel() for _, one in numbers.values())])
    pale = [n for n, w in enumerate(there) if w is None]
    if part in NEXT:  # its numbers have done their work
        spent = [n for n, row in enumerate(steps) if NEXT[part] in row["done"] and part not in row["made"]]
        pale = sorted({*pale, *(n for n in spent if not steps[n]["whole"])})
    delta = [n for n, row in enumerate(steps) if "delta" in row["made"] and not row["whole"]]
    others = [n for n in range(len(steps)) if n not in delta]
    formula = data["formulas"].get(part, part)
    number = next((n for n, product in enumerate(gradients.PRODUCTS, 1) if product.made == part), 0)
    return scene.Matrix(
        datum={"tensor": part},
        place=PLACES[part],
        size=_size(part, list(windows), steps, data),
        names=[f"{number}. {formula}" if number else formula, part],
        axes=(down, across[0] if across else ""),
        column=part,
        windows=list(windows),
        at=at,
        pale=pale,
        note=", the part of this block"
        if part == "dQ" and data["adds"]
        else ", so far"
        if part in gradients.GRADIENTS
        else "",
        blank="masked" if part in gradients.SQUARES else "not logged",
        notes=[
            _span(row, down) if w and part not in gradients.SQUARES and across else "" for row, w in zip(steps, there)
        ],
        shown=delta if part == "O" else others if part == "V" else (),
        now=[n for n, row in enumerate(steps) if not row["whole"] and part in (*row["made"], row["ready"])],
        inputs=[n for n, row in enumerate(steps) if not row["whole"] and part in _read(row)],
        loads=[n for n, row in enumerate(steps) if not row["made"] and _touches(row, part, "load")],
        flies=[n for n, row in enumerate(steps) if part in row["flying"]],
        sums=[_direction(part, row) for row in steps],
    )


def _size(part: str, windows: list[tuple[int, int, int, int, int]], steps: Sequence[Row], data: Row) -> tuple[int, int]:
    """The most rows and columns. A part without numbers has the size of the largest tile."""
    if windows:
        return max(w[1] for w in windows), max(w[2] for w in windows)
    longest = {
        axis: max((row[name][1] - row[name][0] + 1 for row in steps if row[name]), default=1)
        for axis, name in (("query", "queries"), ("key", "keys"))
    }
    down, *across = axes_of(part)
    return longest[down], {**longest, "dim": data["d"]}[across[0]] if across else 1


def _span(row: Row, axis: str) -> str:
    name = {"query": "queries", "key": "keys"}[axis]
    return f"{name} {row[name][0]} to {row[name][1]}" if row[name] else ""


def _read(row: Row) -> set[str]:
    """The parts that the step computes with."""
    return {read for made in row["made"] for read in MADE_OF[made]} - set(row["made"])


def _direction(part: str, row: Row) -> str:
    """The direction of the sum of a step's only product over an operand."""
    if row["whole"] or row["again"]:
        return ""
    for made in row["made"]:
        reads = MADE_OF[made]
        if part in reads and len(reads) == 2 and made != "P":
            (summed,) = set(axes_of(reads[0])) & set(axes_of(reads[1])) - (
                set(axes_of(made)) if made != "delta" else {"query"}
            )
            return "right" if axes_of(part)[1] == summed else "down"
    return ""


# ---- global memory ----


def _touches(row: Row, part: str, kind: str) -> list[list[int]]:
    """The rows of a tensor that a step reads or writes."""
    return [touch["rows"] for touch in row["touched"] if (touch["part"], touch["kind"]) == (part, kind)]


def _pieces(length: int, spans: Iterable[Sequence[int]]) -> list[tuple[int, int]]:
    """First and last of the pieces of an axis: each span is whole pieces."""
    known = [*spans]
    size = max((last - first + 1 for first, last in known), default=length)
    cuts = {0, length, *range(0, length, size), *(at for first, last in known for at in (first, last + 1))}
    ends = sorted(at for at in cuts if at <= length)
    return [(first, end - 1) for first, end in zip(ends, ends[1:])]


def _memory(axis: str, steps: Sequence[Row], data: Row) -> scene.Cells:
    """The tensors along the queries or the keys, in pieces: what the block touches of each."""
    parts = [part for part in data["parts"] if axes_of(part)[0] == axis and part not in gradients.SQUARES]
    pieces = _pieces(data[axis], [t["rows"] for row in steps for t in row["touched"] if t["part"] in parts])
    written: dict[int, set[str]] = {}  # launch -> the tensors that it writes
    for row in steps:
        written.setdefault(row["launch"], set()).update(t["part"] for t in row["touched"] if t["kind"] == "store")
    made = set[str]().union(*written.values())
    states, so_far = [], set[tuple[str, tuple[int, int]]]()
    for row in steps:
        complete = {part for launch, own in written.items() if launch < row["launch"] for part in own}
        letters = ""
        for part in parts:
            rows = {kind: _touches(row, part, kind) for kind in ("load", "store")}
            for first, last in pieces:
                hit = {kind: any(a <= first and last <= b for a, b in spans) for kind, spans in rows.items()}
                if hit["store"]:
                    so_far.add((part, (first, last)))
                before = (
                    "W"
                    if (part, (first, last)) in so_far
                    else "o"
                    if part in complete
                    else "."
                    if part in made
                    else "-"
                )
                letters += "w" if hit["store"] else "r" if hit["load"] else before
        states.append(letters)
    name = {"query": "queries", "key": "keys"}[axis]
    return scene.Cells(
        part=name,
        title=[[f"Global memory: {data[axis]:,} {name}, d = {data['d']}", f"{data[axis]:,} {name}"]],
        columns=len(pieces),
        states=states,
        colours={"-": "panel", ".": "background", "r": "read", "w": "written", "W": "pale written", "o": "dim"},
        words=WORDS.table("memory"),
        axes=("tensor", "piece"),
        places=[f"{part}, {name} {first} to {last}" for part in parts for first, last in pieces],
        names=[f"{part} sums" if part == "dQ" and data["adds"] else part for part in parts],
    )


def _weights(steps: Sequence[Row], data: Row) -> scene.Cells:
    """The tiles of P that the launch has made so far."""
    known = [(row["queries"], row["keys"]) for row in steps if row["queries"] and row["keys"]]
    down, across = (
        _pieces(data[axis], spans) for axis, spans in zip(("query", "key"), zip(*known) if known else ((), ()))
    )
    states = []
    for number, row in enumerate(steps):
        seen = [
            (one["queries"], one["keys"])
            for one in steps[: number + 1]
            if not one["whole"]
            and one["launch"] == row["launch"]
            and "P" in one["made"]
            and one["queries"]
            and one["keys"]
        ]
        now = [(row["queries"], row["keys"])] if row["queries"] and row["keys"] else []
        states.append(
            "".join("n" if _inside(q, k, now) else "p" if _inside(q, k, seen) else "." for q in down for k in across)
        )
    title = WORDS.say("weights", {"stored": "P" in data["parts"]})
    return scene.Cells(
        part="P",
        title=[[title, "P"]],
        columns=len(across),
        states=states,
        colours={"n": "S", "p": "pale S", ".": "background"},
        words=WORDS.table("tiles"),
        axes=("query tile", "key tile"),
        places=[f"P, queries {q[0]} to {q[1]}, keys {k[0]} to {k[1]}" for q in down for k in across],
        names=[f"queries {first} to {last}" for first, last in down],
    )


def _inside(queries: tuple[int, int], keys: tuple[int, int], tiles: Sequence[Any]) -> bool:
    return any(q[0] <= queries[0] and queries[1] <= q[1] and k[0] <= keys[0] and keys[1] <= k[1] for q, k in tiles)


# ---- the sums of dQ ----


def sums(run: Run, again: Mapping[str, np.ndarray], walk: Walk, second: str, runner: Runner) -> list[View]:
    """dQ of a head from two runs: its numbers with other bits, and the sum of one of them in both orders. An empty list
    for a recorded run, which cannot run again.

    again: the outputs of the second run. second: how it differs from the first.
    """
    request, head = run.request, walk.head
    if not again:
        return []
    name = gradients.tensors(request)["dQ"].name
    runs = (replace(run, arrays={**run.arrays, name: array}) for array in (run.arrays[name], again[name]))
    once, twice = (np.ascontiguousarray(gradients.values(one, "dQ", head)) for one in runs)
    bits = np.bitwise_count(once.view(np.uint32) ^ twice.view(np.uint32))
    query, dim = (int(at) for at in np.unravel_index(int(bits.argmax()), once.shape))
    numbers = [array[query, dim] for array in (once, twice)]
    adds, changed = gradients.adds(request), int((bits > 0).sum())
    key_tiles, terms = terms_of(run, head, runner)
    of_number = terms[:, query, dim] if len(terms) else terms
    columns = {"": of_number} | (in_both_orders(of_number, *numbers) if adds and len(terms) else {})
    names = {"adds": adds, "changed": changed, "size": bits.size, "second": second, "where": f"dQ[{query}, {dim}]"}
    names |= {"numbers": [str(number) for number in numbers], "equal": not bits[query, dim]}
    matrix = scene.Matrix(
        datum={"tensor": "dQ"},
        place=(0, 0, 0),
        size=once.shape,
        names=["dQ"],
        axes=("query", "dim"),
        column="bits",
        windows=[(0, *once.shape, 0, 0)],
        at=[0] * len(walk.steps),
        unit=" bits with another value",
    )
    chain = scene.Chain(title=[[WORDS.say("sums_title", names)]] * len(walk.steps), matrices=[matrix])
    used = [n for n, term in enumerate(of_number) if not np.isnan(term)]
    heads = [WORDS.say("terms", names), *list(columns)[1:]]
    table = scene.Table(
        groups=[(names["where"], WORDS.say("orders", names))],
        columns=[scene.Column(name=one) for one in heads],
        rows=[scene.Row(datum={"tile": key_tiles[n]}, name=f"key tile {key_tiles[n]}") for n in used],
        cells=[
            scene.Cell(datum={"tile": key_tiles[n], "sum": c}, row=row, column=c, texts=[str(column[n])])
            for row, n in enumerate(used)
            for c, column in enumerate(columns.values())
        ],
    )
    rows = [[f"{int(number.view(np.uint32)):032b}" for number in numbers]]
    letters = "".join("ab"[one != other] for a, b in rows for row in (a, b) for one, other in zip(a, b))
    cells = scene.Cells(
        part="bits",
        title=[[WORDS.say("bits_title", names)]],
        columns=32,
        states=[letters] * len(walk.steps),
        colours={"a": "panel", "b": "Q"},
        words=WORDS.table("bits"),
        axes=("run", "bit"),
        places=[f"{name} run, bit {31 - n}" for name in ("first", "second") for n in range(32)],
        names=["first run", "second run"],
        texts=[bit for a, b in rows for bit in a + b],
    )
    lines = scene.Lines(lines=[scene.Line(texts=[WORDS.say("runs", names)])])
    panels: list[list[scene.Panel]] = [[chain, table] if used else [chain], [cells], [lines]]
    legend = [("Q", WORDS.table("bits")["b"])]
    return [scene.view("sums", "Sums of dQ", panels, {"bits": bits}, legend=legend)]


def in_both_orders(terms: np.ndarray, once: np.float32, again: np.float32) -> dict[str, np.ndarray]:
    """The float32 sums after each term [tiles] in its order and in the opposite one. Empty if they do not end at the
    bits of the two runs. terms: NaN where a tile has none."""
    known = np.where(np.isnan(terms), np.float32(0), terms)
    with np.errstate(over="ignore", invalid="ignore"):
        down = np.add.accumulate(known, dtype=np.float32)
        up = np.add.accumulate(known[::-1], dtype=np.float32)[::-1]
    ends = np.array([down[-1], up[0]], np.float32), np.array([once, again], np.float32)
    same = ends[0].tobytes() == ends[1].tobytes()
    return {"from the top": down, "from below": up} if same else {}


def terms_of(run: Run, head: int, runner: Runner) -> tuple[list[int], np.ndarray]:
    """The numbers of the key tiles, and the logged dq of each [tiles, n, d]: from a run with a trace of all blocks.
    Empty if that trace would be too long, if query heads share K and V, or if the kernel logs no dq with row,
    tile and dim."""
    none = list[int](), np.zeros(0, np.float32)
    request = run.request
    known = probed.values(request.kernel)
    event = next((name for name in ("dq_part", "dq") if name in known), "")
    tile = next((name for name in ("key_tile", "tile") if name in known.get(event, ())), "")
    if not tile or not {"row", "dim"} <= set(known[event]) or gradients.group_of(request) > 1:
        return none
    whole = replace(request, scope=Scope.everything(request.plan))
    kinds = {launch.item for launch in request.plan.launches}
    traced = [sum(one.scope.range_of(kind, one.plan)[1] for kind in kinds) for one in (whole, request)]
    if run.trace.table.num_rows * traced[0] / traced[1] > MOST_RECORDS:
        return none
    try:
        trace = runner.run(whole).trace
    except WarpglassError:
        return none
    table = trace.frame("launch", "block", "event", "tensor", "space", "offset", "row", tile, "dim", "value")
    own = _blocks_of(request, head, table)
    table = table[table.event.astype(str) == event].merge(own, on=["launch", "block"])
    n, _, d = gradients.sizes(request)
    place = {number: at for at, number in enumerate(sorted({int(number) for number in table[tile]}))}
    terms = np.full((len(place), n, d), np.nan, np.float32)
    at = table[tile].astype(int).map(place), table.row.astype(int), table.dim.astype(int)
    terms[at] = table.value
    return list(place), terms


def _blocks_of(request: Request, head: int, table: Any) -> Any:
    """launch and block of the blocks that first read Q of a head."""
    q = gradients.tensors(request)["Q"]
    symbol = next(name for name, part in picture.places(request).items() if part == "Q")
    reads = table[(table.tensor == symbol) & (table.space == "global")].drop_duplicates(["launch", "block"])
    along = dict(zip(q.axes, axes.coordinates(q, reads.offset.to_numpy(np.int64))))
    return reads[along["batch"] * axes.length(q, "head") + along["head"] == head][["launch", "block"]]
