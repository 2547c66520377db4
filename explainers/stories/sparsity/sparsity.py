"""The sparsity story: a mask as blocks of queries by keys, the list of blocks that one block of queries walks, and what
the walk does to one row's scores, m and l.

The lists are the kernel's own tensors where it has them (LISTS), else those of the problem's mask in the kernel's
tiles. Everything of a step comes from the trace. What a mask costs is told by sparsity_ledger.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from explainers.stories.questions import options
from explainers.stories.tiling import tiling
from explainers.story import axes, probed, stage
from explainers.story.frames import Drawing, SparsityFrame, SparsityMeta
from explainers.story.glossary import count, short
from explainers.story.stage import MEASURED, Question
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role, Tensor
from kernels.errors import ProblemError
from kernels.families.sparse.masks import BlockLists, block_lists
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.kinds import READS
from kernels.trace.probes import sites_of

LISTS = ("kv_num_blocks", "kv_indices", "kv_patterns", "full_kv_num_blocks", "full_kv_indices", "patterns")
NEEDS: dict[str, tuple[str, ...]] = {"score": ("row", "col"), "m": ("row", "tile"), "l": ("row", "tile")}
WANTS = (*NEEDS, "rescale", "tile_max")
SKIPPED, PARTIAL, FULL = 0, 1, 2  # what a block is
KINDS = ("skipped", "partial", "full")
MOST_ELEMENTS = 1 << 20  # of a mask that is drawn element by element
FACTOR = 1e-2  # a relative difference of a rescale factor that is no rounding
SAME = 1e-5  # a relative difference of m and the largest tile_max that is rounding
WORD = 16  # elements of a mask in a number of a column: more than that float32 does not hold exactly


class Room(NamedTuple):
    """How many there are of each: batches, heads of a batch, query blocks of a head, rows of a full one, queries of a
    head."""

    batches: int
    heads: int
    tiles: int
    rows: int
    queries: int


class Place(NamedTuple):
    """What is walked: a head, counted over the batch; a query block of it; its first row and its end."""

    head: int
    tile: int
    first: int
    end: int


class Entry(NamedTuple):
    """An entry of a list: the block's column, and what it is (PARTIAL or FULL)."""

    column: int
    kind: int


@dataclass(frozen=True, eq=False)
class Walk:
    """A query block's list, walked by one of its rows. lists: of its head. entries: in the order of the walk. scores:
    float32 [keys], of the row, NaN where none was logged. loaded: bytes of K and of V that each entry brought, as the
    probes logged them. o, lse: what the kernel wrote for the row."""

    place: Place
    row: int
    lists: BlockLists
    entries: list[Entry]
    frames: list[SparsityFrame]
    scores: np.ndarray
    loaded: list[int]
    o: np.ndarray
    lse: float


def accepts(spec: KernelSpec) -> bool:
    """A kernel of attention with a mask, whose items are query tiles and which logs each row's scores, m and l tile by
    tile, with the lists of the mask's blocks, or with tiles of its own."""
    return not refusal(spec)


def refusal(spec: KernelSpec) -> str:
    """A sentence that says why the story cannot show a kernel; empty if it can."""
    if not probed.has_masks(spec):
        return f"{spec.name} solves a problem without a mask."
    request = probed.sample(spec)
    if lacking := probed.without_events(spec, NEEDS) or tiling.without_parts(request):
        return lacking
    if request.plan.item != tiling.ITEM:
        return f'{spec.name} has no query tiles as items. Set item = "{tiling.ITEM}" in its launches.'
    if not (has_lists(request) or "BLOCK_KV" in request.constants):
        return f"{spec.name} has neither the lists of blocks nor a constant BLOCK_KV."
    return ""


def has_lists(request: Request) -> bool:
    """Whether the kernel is given the mask's blocks as lists."""
    return set(LISTS) <= {tensor.name for tensor in axes.tensors(request).values()}


def sizes(request: Request) -> tuple[int, int]:
    """Queries and keys of a block."""
    if not has_lists(request):
        return request.constants["BLOCK_Q"], request.constants["BLOCK_KV"]
    patterns = request.plan.tensor("patterns")
    return axes.length(patterns, "query"), 32 * axes.length(patterns, "word")


@lru_cache(maxsize=1024)
def room(request: Request) -> Room:
    """ProblemError where blocks take several query tiles, by a counter: which ones a block takes is not known before it
    runs."""
    o, rows = tiling.tensor_at(request, "O"), sizes(request)[0]
    queries, outer = axes.length(o, "query"), axes.heads(o)
    batches = axes.length(o, "batch") if "batch" in o.axes else 1
    tiles, items = -(-queries // rows), request.plan.items
    if tiles * outer > items:
        raise ProblemError(
            f"This problem has {tiles * outer:,} query blocks for {items} blocks of {request.kernel.name}, which take "
            f"several, whichever comes next. Choose a smaller seq_len, batch or num_heads: at most {items} query "
            f"blocks of {rows} rows, so that each block has one."
        )
    return Room(batches, outer // batches, tiles, rows, queries)


def place_of(request: Request) -> Place:
    """The query block that the request's scope traces."""
    there = room(request)
    head, tile = divmod(request.scope.first, there.tiles)
    return Place(head, tile, tile * there.rows, min(there.queries, (tile + 1) * there.rows))


def lists_of(run: Run) -> list[BlockLists]:
    """The lists of each of the problem's masks: one for all heads, or one for each."""
    if not has_lists(run.request):
        return [block_lists(mask, *sizes(run.request)) for mask in run.request.problem.masks]
    given = [run.arrays[name] for name in LISTS]
    block = sizes(run.request)
    return [
        BlockLists(*block, given[0][n], given[1][n], given[3][n], given[4][n], given[2][n], given[5])
        for n in range(len(given[0]))
    ]


def lists_of_head(run: Run, head: int) -> BlockLists:
    """The lists that a head, counted over the batch, walks."""
    made = lists_of(run)
    return made[head if len(made) > 1 else 0]


def entries_of(lists: BlockLists, row: int, in_order: bool) -> list[Entry]:
    """The list of a query block. in_order: by column, as a kernel without lists goes; else the partial blocks before
    the full ones, as FlexAttention's lists stand."""
    partial = [Entry(int(c), PARTIAL) for c in lists.kv_indices[row, : lists.kv_num_blocks[row]]]
    full = [Entry(int(c), FULL) for c in lists.full_kv_indices[row, : lists.full_kv_num_blocks[row]]]
    return sorted([*partial, *full]) if in_order else [*partial, *full]


def kinds_of(lists: BlockLists) -> np.ndarray:
    """What each block is, int8 [query blocks, key blocks]."""
    made = np.zeros(lists.kv_indices.shape, np.int8)
    for row in range(len(made)):
        for column, kind in entries_of(lists, row, False):
            made[row, column] = kind
    return made


def seen_of(lists: BlockLists, queries: int, keys: int) -> np.ndarray:
    """The mask that the lists and patterns stand for, element by element: bool [queries, keys]."""
    rows, columns = lists.kv_indices.shape
    made = np.zeros((rows, lists.block_q, columns, lists.block_kv), bool)
    bits = np.unpackbits(np.ascontiguousarray(lists.patterns).view(np.uint8), axis=-1, bitorder="little").astype(bool)
    for row in range(rows):
        for n, (column, kind) in enumerate(entries_of(lists, row, False)):
            made[row, :, column] = bits[lists.kv_patterns[row, n], :, : lists.block_kv] if kind == PARTIAL else True
    return made.reshape(rows * lists.block_q, columns * lists.block_kv)[:queries, :keys]


# ---- the walk ----


def explain(run: Run, row: int) -> Walk:
    """The Walk of the traced query block by one of its rows, counted in its head."""
    request, trace, sites = run.request, run.trace, sites_of(run.request)
    place = place_of(request)
    lists = lists_of_head(run, place.head)
    entries = entries_of(lists, place.tile, not has_lists(request))
    steps = cutting.cut(trace, sites)
    values = trace.frame("event", "row", "col", "tile", "value")
    values = values[(values["row"] == row) & values["value"].notna()]
    by_tile = {
        name: dict(zip(part["tile"].astype(int), part["value"].astype(float)))
        for name, part in values[values["tile"].notna()].groupby("event", observed=True)
    }
    scores = np.full(axes.length(tiling.tensor_at(request, "K"), "key"), np.nan, np.float32)
    logged = values[values["event"] == "score"]
    scored = logged["col"].to_numpy().astype(int)
    there = scored < len(scores)  # a build without the mask scores zeros past the last key too
    scores[scored[there]] = logged["value"].to_numpy()[there]
    masks = request.problem.masks
    sees = masks[place.head if len(masks) > 1 else 0].strip(row, row + 1)[0]
    lit = _lines(cutting.lit_lines(trace, steps, sites), steps.table, [e.column for e in entries])
    loaded = _loaded(run, steps)
    o, lse = _written(run, place.head, row)
    begin = _begin(run, place.head)
    told = _Told(run, place, row, lists, entries, by_tile, sees, scored, lit, loaded, o, lse, begin)
    return Walk(place, row, lists, entries, told.frames(), scores, [loaded.get(e.column, 0) for e in entries], o, lse)


def _lines(lit: list[dict[str, int]], table: Any, columns: list[int]) -> list[dict[str, int]]:
    """The lines of each frame: what runs before the first tile, each tile's own steps, and what writes the output."""
    made: list[dict[str, int]] = [{} for _ in range(len(columns) + 2)]
    for lines, tile, phase in zip(lit, table.tile, table.phase):
        at = columns.index(tile) + 1 if tile in columns and phase not in ("load_q", "wait_q", "nothing_left") else 0
        of = made[-1 if phase == "write" else at]
        for line, times in lines.items():
            of[line] = of.get(line, 0) + times
    return made


def _loaded(run: Run, steps: cutting.Steps) -> dict[int, int]:
    """column of a block -> bytes of K and V that the probes say were read from global memory for it. Of a box that the
    copy engine brings what lies in the tensor counts."""
    request, table = run.request, run.trace.table
    sites, known = sites_of(request), axes.tensors(request)
    symbols = {symbol for symbol, at in tiling.places(request).items() if at in "KV"}
    wanted = [n for n, s in enumerate(sites) if s.space == "global" and s.tensor in symbols and s.event in READS]
    place = sites.index(table)
    at = np.flatnonzero(np.isin(place, wanted) & (steps.of_record >= 0))
    offsets, size = table["offset"].to_numpy()[at], table["bytes"].to_numpy()[at].astype(np.int64)
    for n, (record, offset) in enumerate(zip(place[at], offsets)):
        if sites[int(record)].event == "tma":
            tensor = known[str(sites[int(record)].tensor)]
            size[n] = len(axes.box(request, tensor, int(offset) // tensor.itemsize)) * tensor.itemsize
    tile, found = steps.table.tile.to_numpy()[steps.of_record[at]], dict[int, int]()
    for column in np.unique(tile):
        found[int(column)] = int(size[tile == column].sum())
    return found


def _output(request: Request) -> Tensor | None:
    return next(iter(axes.with_axes(request, "batch", "head", "query", role=Role.OUTPUT).values()), None)


def _written(run: Run, head: int, row: int) -> tuple[np.ndarray, float]:
    """What the kernel wrote for a row: its O [dim] and lse, NaN where it writes none."""
    lse = _output(run.request)
    value = np.nan if lse is None else run.arrays[lse.name].reshape(-1, lse.shape[-1])[head, row]
    return tiling.matrix(run, "O", head)[row], float(value)


def _begin(run: Run, head: int) -> tuple[float, float]:
    """m and l before the first entry: a sink's logit and its weight, else -inf and 0."""
    sinks = axes.with_axes(run.request, "head", role=Role.INPUT)
    logits = [run.arrays[tensor.name] for tensor in sinks.values()]
    logit = float(logits[0][head % len(logits[0])]) if logits else -np.inf
    return logit, float(np.isfinite(logit))


@dataclass(frozen=True, eq=False)
class _Told:
    """What the frames are made of. sees: bool [keys], by the mask; scored: the columns of the logged scores, which of a
    what-if build are others; begin: m and l before the first entry."""

    run: Run
    place: Place
    row: int
    lists: BlockLists
    entries: list[Entry]
    values: dict[str, dict[int, float]]
    sees: np.ndarray
    scored: np.ndarray
    lit: list[dict[str, int]]
    loaded: dict[int, int]
    o: np.ndarray
    lse: float
    begin: tuple[float, float]

    def frames(self) -> list[SparsityFrame]:
        made, before, highest = [self._first()], self.begin, self.begin[0]
        for n, entry in enumerate(self.entries):
            highest = max(highest, self.values.get("tile_max", {}).get(entry.column, -np.inf))
            made.append(self._entry(n, entry, before, highest))
            before = self._state(entry.column, before)
        return [*made, self._last(before)]

    def _state(self, column: int, before: tuple[float, float]) -> tuple[float, float]:
        """m and l after a block, as logged."""
        return tuple(self.values.get(name, {}).get(column, b) for name, b in zip("ml", before))  # type: ignore[return-value]

    def _frame(self, n: int, title: str, sentence: str, before: Any, after: Any, **more: Any) -> SparsityFrame:
        known: dict[str, Any] = {"entry": -1, "column": -1, "kind": "", "seen": 0, "rescale": None, "tile_max": None}
        known |= more
        loaded = sum(self.loaded.get(entry.column, 0) for entry in self.entries[: max(0, n)])
        return {
            "tile": n - 1,
            "title": title,
            "sentence": sentence,
            "lines": self.lit[n],
            "phase": "entry" if known["entry"] >= 0 else "walk",
            "block": 0,
            "m_before": before[0],
            "l_before": before[1],
            "m": after[0],
            "l": after[1],
            "loaded": loaded,
            **known,  # type: ignore[typeddict-item]
        }

    def _first(self) -> SparsityFrame:
        tile, rows, columns = self.place.tile, self.place.end - self.place.first, self.lists.kv_indices.shape[1]
        partial = sum(e.kind == PARTIAL for e in self.entries)
        full, listed = len(self.entries) - partial, len(self.entries)
        whose = f"Query block {tile} (rows {self.place.first} to {self.place.end - 1})"
        if not listed:
            said = f"{whose} has no block in its list: its {rows} rows see no key. No K and no V is loaded."
        else:
            said = f"{whose} meets {listed} of {count(columns, 'key block')}: {partial} partial, {full} full, "
            said += f"{columns - listed} skipped."
        m, l = self.begin
        if np.isfinite(m):
            said += f" The head's sink counts as a key: m begins at its logit {short(m)}, l at 1."
        return self._frame(0, "The list", said, self.begin, self.begin)

    def _entry(self, n: int, entry: Entry, before: tuple[float, float], highest: float) -> SparsityFrame:
        """highest: the row's largest score up to here."""
        column, kind = entry
        first, end = column * self.lists.block_kv, min(len(self.sees), (column + 1) * self.lists.block_kv)
        seen, after = int(self.sees[first:end].sum()), self._state(column, before)
        scored = self.scored[self.scored // self.lists.block_kv == column]
        factor = self.values.get("rescale", {}).get(column)
        what = "full, so no mask" if kind == FULL else f"partial: row {self.row} sees {seen} of its {end - first} keys"
        if len(scored) != seen:
            past = int((scored >= end).sum())
            what += f", but the kernel scores {len(scored)}{f', {past} of them past the last key' if past else ''}"
        said = f"Entry {n + 1} of {len(self.entries)}: block {column}, {what}. "
        said += self._moved(len(scored), before, after, factor, highest)
        if self.loaded.get(column):
            said += f" Loaded: {self.loaded[column]:,} bytes of K and V."
        known = {"entry": n, "column": column, "kind": KINDS[kind], "seen": seen, "rescale": factor}
        known["tile_max"] = self.values.get("tile_max", {}).get(column)
        return self._frame(n + 1, f"Entry {n + 1} · block {column}", said, before, after, **known)

    def _moved(self, scored: int, before: Any, after: Any, factor: float | None, highest: float) -> str:
        """What the block does to the row's m and l. m is called the max where it is the highest score."""
        (m0, l0), (m1, l1), row = before, after, f"Row {self.row}"
        if not scored and m1 == m0:
            return f"{row} has no score here: m stays {_number(m0)} and l {_number(l0)}."
        if not scored:
            moved = f"m goes from {_number(m0)} to {_number(m1)}, and l from {_number(l0)} to {_number(l1)}"
            return f"{row} has no score here, but {moved}."
        name, but = "max", ""
        if "tile_max" in self.values and not np.isclose(m1, highest, rtol=SAME):
            name, but = "m", f", though the row's max is {_number(highest)}"
        if m1 == m0:
            return f"{row}'s {name} stays {_number(m1)}{but}, and l grows from {_number(l0)} to {_number(l1)}."
        if m0 == -np.inf:
            return f"{row}'s first scores: m becomes {_number(m1)}{but and f'{but},'} and l {_number(l1)}."
        by = "" if factor is None else f", so l {_number(l0)} is multiplied by {_power(m0, m1)}"
        if factor is not None and not np.isclose(factor, np.exp(m0 - m1), rtol=FACTOR):
            by = f"; l {_number(l0)} is multiplied by {_number(factor)}, where {_power(m0, m1)} is due"
        moved = f"{row}'s {name} goes from {_number(m0)} to {_number(m1)}{but}{by}"
        return f"{moved}; with the new weights l is {_number(l1)}."

    def _last(self, before: tuple[float, float]) -> SparsityFrame:
        (m, l), row = before, f"Row {self.row}"
        if len(self.scored) and np.isfinite(m) and l > 0:
            said = f"{row}: O is divided by l = {_number(l)}, and lse = m + ln l = {_number(m)} + {_number(np.log(l))}"
            said = said.replace("+ -", "- ") + f" = {_number(self.lse)}."
        else:
            all_rows = "Each row" if not self.entries else row
            zeros = "0" if not self.o.any() else "not 0"
            said = f"{all_rows} saw no key: the kernel writes O = {zeros} and lse = {_number(self.lse)}."
            if np.isfinite(self.lse):
                said += " The lse is the sink's alone." if np.isfinite(self.begin[0]) else ""
        skipped = self.lists.kv_indices.shape[1] - len(self.entries)
        if skipped:
            whose = f"for query block {self.place.tile}"
            said += f" {count(skipped, 'block')} of K and V {'was' if skipped == 1 else 'were'} not loaded {whose}."
        return self._frame(len(self.entries) + 1, "Result", said, before, before)


def _power(before: float, after: float) -> str:
    """ "e^(1.613 - 2.674) = 0.3461": what l is due to be multiplied by."""
    said = f"e^({_number(before)} - {_number(after)})".replace("- -", "+ ")
    return f"{said} = {_number(np.exp(before - after))}"


def _number(value: float) -> str:
    """A number in a sentence; infinities by name."""
    return short(value) if np.isfinite(value) or np.isnan(value) else "-inf" if value < 0 else "inf"


# ---- the page ----


def view(run: Run, walk: Walk) -> tuple[SparsityMeta, dict[str, np.ndarray]]:
    """What the view `sparsity` draws: its meta and its columns."""
    request, problem = run.request, run.request.problem
    queries, keys = room(request).queries, len(walk.scores)
    small = queries * keys <= MOST_ELEMENTS
    drawing: Drawing | None = None
    if problem.mask == "drawn" and request.backend != "recorded":  # whoever draws wants it run
        block, drawn = problem.mask_block, [list(row) for row in problem.drawn]
        drawing = {"block": block, "rows": -(-queries // block), "columns": -(-keys // block), "drawn": drawn}
    meta: SparsityMeta = {
        "frames": walk.frames,
        "queries": queries,
        "keys": keys,
        "block_q": walk.lists.block_q,
        "block_kv": walk.lists.block_kv,
        "tile": walk.place.tile,
        "row": walk.row,
        "head": walk.place.head,
        "entries": [[e.column, e.kind] for e in walk.entries],
        "row_bytes": row_bytes(request),
        "elements": small,
        "drawing": drawing,
    }
    columns = {"kinds": kinds_of(walk.lists).astype(np.float32), "scores": walk.scores}
    columns["seen"] = packed(seen_of(walk.lists, queries, keys)) if small else np.zeros(0, np.float32)
    return meta, columns


def packed(seen: np.ndarray) -> np.ndarray:
    """bool [queries, keys] as float32 [queries, words]: bit i of word w is key WORD w + i."""
    words = -(-seen.shape[1] // WORD)
    padded = np.zeros((len(seen), words * WORD), bool)
    padded[:, : seen.shape[1]] = seen
    return (padded.reshape(len(seen), words, WORD) @ (1 << np.arange(WORD))).astype(np.float32)


def row_bytes(request: Request) -> int:
    """Bytes of K and V of one key of a head."""
    return sum(axes.length(t, "dim") * t.itemsize for t in (tiling.tensor_at(request, at) for at in "KV"))


def stage_of(run: Run, row: int, provenance: stage.Provenance, beside: Sequence[stage.View] = ()) -> stage.Stage:
    """The whole stage of a row's walk. beside: more pictures, after the mask."""
    walk = explain(run, row)
    return stage.Stage(
        headline=stage.headline(run.request.kernel),
        frames=walk.frames,
        views=[stage.View("sparsity", "mask", "Mask and list", *view(run, walk)), *beside],
        codes=[stage.code(run.request, walk.frames)],
        state=states(walk),
        tabs=[
            stage.Tab("ledger", "Ledger"),
            stage.Tab("elements", "Elements or blocks"),
            stage.Tab("builds", "Builds"),
            stage.Tab("data", "Data and labels"),
        ],
        provenance=provenance,
        questions=questions(walk),
    )


def states(walk: Walk) -> list[stage.State]:
    """The strip: the row's m and l after the step, the entries walked, what was loaded for them."""

    def said(value: float) -> Any:
        return value if np.isfinite(value) else _number(value)

    last = len(walk.frames) - 1
    walked = [min(n, len(walk.entries)) for n in range(last + 1)]
    lse = [_number(walk.lse) if n == last else "not written yet" for n in range(last + 1)]
    return [
        stage.State("running max m", [said(f["m"]) for f in walk.frames], colour="S"),
        stage.State("running sum l", [said(f["l"]) for f in walk.frames], colour="P"),
        stage.State("blocks walked", walked, of=walk.lists.kv_indices.shape[1]),
        stage.State("K and V loaded", [f["loaded"] for f in walk.frames], "B", colour="load"),
        stage.State("lse", lse),
    ]


# ---- questions ----


def questions(walk: Walk) -> list[Question]:
    """What can be asked of the walk before it is read. The keys come from the lists and the trace."""
    found: list[Question] = []
    columns, listed = walk.lists.kv_indices.shape[1], len(walk.entries)
    block = walk.lists.block_kv * (sum(walk.loaded) // max(1, sum(_keys(walk, e) for e in walk.entries)))
    if listed and all(walk.loaded):
        text = (
            f"Query block {walk.place.tile} could meet {columns} key blocks. How many bytes of K and V does the kernel "
            "load for it?"
        )
        are = "is" if listed == 1 else "are"
        why = f"{count(listed, 'block')} of {columns} {are} in its list; the probes logged {sum(walk.loaded):,} bytes."
        wrong = {f"{n * block:,}" for n in (columns, listed + 1, max(1, listed - 1))} - {f"{sum(walk.loaded):,}"}
        order = sorted({*wrong, f"{sum(walk.loaded):,}"}, key=lambda text: int(text.replace(",", "")))
        more: dict[str, Any] = {"step": len(walk.frames) - 1, "view": "mask", "veils": ("strip", "sentence", "tabs")}
        found += options("loaded", text, f"{sum(walk.loaded):,}", wrong, why, order, **more)
    partial = [n for n, f in enumerate(walk.frames) if f["kind"] == "partial" and _is_masked(walk, f)]
    if partial:
        frame, width = walk.frames[partial[0]], walk.lists.block_kv
        text = (
            f"Block {frame['column']} is partial, and row {walk.row} sees {frame['seen']} of its {width} keys. How "
            "many of its keys do the tensor cores multiply with the row?"
        )
        why = (
            f"All {width}: the block is loaded and multiplied whole, and the mask hides {width - frame['seen']} scores "
            f"afterwards. The trace has {count(frame['seen'], 'score')} of row {walk.row} here."
        )
        wrong = {str(frame["seen"]), str(width // 2), "0"} - {str(width)}
        order = sorted({*wrong, str(width)}, key=int)
        found += options(
            "hidden", text, str(width), wrong, why, order, step=partial[0], view="mask", veils=("sentence", "tabs")
        )
    risen = [n for n, f in enumerate(walk.frames) if f["entry"] > 0 and _is_higher(f)]
    frame = walk.frames[risen[0]] if risen else walk.frames[0]
    factor = float(np.exp(frame["m_before"] - frame["m"])) if risen else 0.0
    if frame["rescale"] is not None and np.isclose(frame["rescale"], factor, rtol=FACTOR):
        text = (
            f"In block {frame['column']} row {walk.row}'s max rises from {_number(frame['m_before'])} to "
            f"{_number(frame['m'])}. By what is l multiplied?"
        )
        why = f"{_power(frame['m_before'], frame['m'])}; the trace has {_number(float(frame['rescale']))}."
        veils = ("sentence", "strip", "picture", "tabs")
        more = {"step": risen[0], "view": "mask", "veils": veils, "tolerance": MEASURED}
        found.append(Question("rescaled", text, "number", float(f"{frame['rescale']:.3g}"), why, **more))
    return found


def _is_masked(walk: Walk, frame: SparsityFrame) -> bool:
    """Whether of a frame's block, no key of which lies past the last, the mask hides some scores from the row, and the
    kernel scored the others alone."""
    first, width = frame["column"] * walk.lists.block_kv, walk.lists.block_kv
    scores = walk.scores[first : first + width]
    scored = int(np.count_nonzero(~np.isnan(scores)))
    return len(scores) == width and frame["seen"] == scored < width


def _is_higher(frame: SparsityFrame) -> bool:
    """Whether the row's max rises in a frame, and m with it."""
    highest = frame["m"] if frame["tile_max"] is None else frame["tile_max"]
    return frame["m"] > frame["m_before"] > -np.inf and bool(np.isclose(frame["m"], highest, rtol=SAME))


def _keys(walk: Walk, entry: Entry) -> int:
    """Keys of a block, fewer in the last one."""
    return min(walk.lists.block_kv, len(walk.scores) - entry.column * walk.lists.block_kv)
