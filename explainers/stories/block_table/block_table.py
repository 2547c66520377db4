"""The walk of the block table story: one query head's way through its block table, page by page, from the loads that
the probes logged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from explainers.stories.block_table import paging
from explainers.stories.block_table.paging import Paged
from explainers.stories.occupancy import grid
from explainers.stories.registers import threads
from explainers.story import axes, probed, stage
from explainers.story.frames import WalkFrame, WalkMeta
from explainers.story.glossary import count, phase_title
from kernels.core.spec import KernelSpec
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.kinds import READS
from kernels.trace.memory import model
from kernels.trace.probes import sites_of

NEEDS = {"score": ("token",), "p": ("token",), "m": (), "l": (), "o": ("dim",)}
WANTS = ("walk_k", "softmax", "walk_v", "write", "score", "p", "m", "l", "o")


@dataclass(frozen=True)
class Walk:
    """frames: one dict per step, for the browser; a walk step is one page by one warp. scores, weights: float32
    [context length] as logged (weights before the division by l). o: [head_dim] of the output. head: the query head;
    kv_head: the one that it reads."""

    frames: list[WalkFrame]
    scores: np.ndarray
    weights: np.ndarray
    o: np.ndarray
    sequence: int
    head: int
    kv_head: int


def accepts(spec: KernelSpec) -> bool:
    """Attention over pages that walks K and V in marked steps and logs scores, weights, m, l and the output."""
    walks = {"walk_k", "walk_v"} <= set(probed.marks(spec))
    return paging.accepts(spec) and walks and probed.logs(spec, NEEDS)


def walk(run: Run, name: str) -> Walk:
    """The Walk of a Run whose scope is one query head of one sequence; `name` is what the sequence is called."""
    request, sites = run.request, sites_of(run.request)
    paged = Paged(request)
    sequence, head = paged.place
    cut = cutting.cut(run.trace, sites)
    frame = run.trace.frame()
    words = {column: frame[column].astype(str) for column in ("event", "tensor", "space")}
    places = np.array([site.place if site.kind != "mark" else "" for site in sites])
    frame = frame.assign(step=cut.of_record, place=places[sites.index(run.trace.table)], **words)
    story = _WalkFrames(run, name)
    for number, part in frame[frame.step >= 0].groupby("step"):
        story.add(cut.table.loc[number], part)
    values = frame[frame.value.notna()]
    length = int(paging.lengths(run)[sequence])
    logged = {}
    for event in ("score", "p"):
        logged[event] = np.full(length, np.nan, np.float32)
        mine = values[values.event == event]
        logged[event][mine.token.astype(int)] = mine.value
    o = np.asarray(run.arrays[paged.o[1].name][sequence, head], np.float32)
    return Walk(story.frames, logged["score"], logged["p"], o, sequence, head, paged.kv_head_of(head))


def view(run: Run, story: Walk, name: str, colour: str) -> tuple[WalkMeta, dict[str, np.ndarray]]:
    """What the view `walk` draws: its meta and its columns. name, colour: of the sequence."""
    paged, lengths, size = Paged(run.request), paging.lengths(run), Paged(run.request).block_size
    others: dict[int, int] = {}
    for n, length in enumerate(lengths):
        for entry, page in enumerate(paging.pages_of(run, n) if n != story.sequence else ()):
            others[page] = max(others.get(page, 0), min(size, int(length) - entry * size))
    meta: WalkMeta = {
        "frames": story.frames,
        "name": name,
        "colour": colour,
        "table": paging.pages_of(run, story.sequence),
        "length": int(lengths[story.sequence]),
        "size": size,
        "pages": axes.length(paged.k[1], "page"),
        "others": others,
        "kv_head": story.kv_head,
        "kv_heads": paged.num_kv_heads,
        "page_bytes": paged.page_bytes,
        "item": paged.k[1].itemsize,
        "head_dim": paged.head_dim,
        "x": paged.x,
        "head": story.head,
        "partitioned": len(run.request.plan.launches) > 1,
    }
    return meta, {"scores": story.scores, "weights": story.weights, "o": story.o}


def stage_of(
    run: Run,
    name: str,
    colour: str,
    provenance: stage.Provenance,
    tabs: Sequence[stage.Tab] = (),
    live: tuple[int, str] | None = None,
) -> stage.Stage:
    """The whole stage of a run over one query head of the sequence called `name`. tabs: after those of the walk. live:
    as grid.view takes it."""
    story = walk(run, name)
    return stage.Stage(
        headline=stage.headline(run.request.kernel),
        frames=story.frames,
        views=[
            stage.View("walk", "walk", "Walk", *view(run, story, name, colour)),
            threads.view(run, [frame["moment"] for frame in story.frames]),
            grid.view(run.request, live),
        ],
        codes=[stage.code(run.request, story.frames)],
        state=states(story),
        tabs=[stage.Tab("layouts", "Why K is split by x", layouts_blocks(story, run)), *tabs],
        provenance=provenance,
    )


def states(story: Walk) -> list[stage.State]:
    """The strip: the entry, the page and the byte that a step goes by, m and l as they stand, what was read so far."""
    frames = story.frames
    known: dict[str, list[Any]] = {"m": [], "l": []}
    for frame in frames:
        for name, course in known.items():
            course.append(frame.get(name, course[-1] if course else None))

    def of_page(name: str, said: str) -> list[str | None]:
        return [said.format(f[name], f.get("tensor")) if name in f else None for f in frames]  # type: ignore[literal-required]

    return [
        stage.State("block table entry", of_page("logical", "{}")),
        stage.State("page", of_page("page", "{}")),
        stage.State("begins at byte", of_page("base", "{:,} of {}")),
        stage.State("max m", known["m"], colour="S"),
        stage.State("sum l", known["l"], colour="P"),
        stage.State("read so far", np.cumsum([f["read"] for f in frames]).tolist(), "B", colour="load"),
    ]


class _WalkFrames:
    """Builds the frames of a walk, step by step."""

    def __init__(self, run: Run, name: str) -> None:
        self.paged, self.name = Paged(run.request), name
        self.sequence, self.head = self.paged.place
        self.tables = run.arrays[self.paged.tables[1].name]
        self.length = int(paging.lengths(run)[self.sequence])
        self.partitions = run.request.plan.launches[0].blocks_per_item
        self.pages = -(-self.length // self.paged.block_size)
        self.frames: list[WalkFrame] = []
        self.tellers: dict[str, tuple[Any, set[str]]] = {  # phase -> what tells it, and the events that it tells of
            "load_q": (self._load_q, set()),
            "softmax": (self._softmax, {"m", "l", "p"}),
            "write_part": (self._write_part, set()),
            "combine": (self._combine, {"m_all", "l_all", "weight"}),
            "write": (self._write, {"o"}),
        }

    def add(self, step: Any, part: pd.DataFrame) -> None:
        if step.phase in ("walk_k", "walk_v"):
            for warp, mine in part.groupby("warp"):
                if (mine.tensor == self.paged.tables[0]).any():
                    self._page(step, mine, int(warp))
        elif step.phase != "load_q" or (part.tensor == self.paged.q[0]).any():  # a block without tokens leaves at once
            tell, events = self.tellers.get(step.phase, (self._other, set()))
            (tell if events <= set(part.event) else self._other)(step, part)

    def _frame(self, step: Any, part: pd.DataFrame, sentence: str, **more: Any) -> None:
        made: Any = {
            "tile": self._group(step),
            "title": self._title(step, more),
            "block": int(step.block),
            "phase": step.phase,
            "moment": int(step.name),
            "sentence": sentence[0].upper() + sentence[1:],
            "lines": {str(place): int(n) for place, n in part.place[part.place != ""].value_counts().items()},
            "read": int(part.bytes[part.event.isin(READS) & (part.space == "global")].sum()),
            **more,
        }
        self.frames.append(made)

    def _group(self, step: Any) -> int:
        """The number of this run of equal phases: what Shift+Left and Shift+Right go by."""
        last = self.frames[-1] if self.frames else None
        return 0 if last is None else last["tile"] + ((last["phase"], last["block"]) != (step.phase, int(step.block)))

    def _title(self, step: Any, more: dict[str, Any]) -> str:
        where = f"Partition {step.block % self.partitions} · " if self.partitions > 1 and step.launch == 0 else ""
        return (
            where
            + phase_title(step.phase)
            + (f" · page {more['logical'] + 1} of {self.pages}" if "logical" in more else "")
        )

    def _in_partition(self, step: Any) -> str:
        return f"Partition {step.block % self.partitions}: " if self.partitions > 1 else ""

    def _other(self, step: Any, part: pd.DataFrame) -> None:
        """A phase that this story knows nothing of."""
        accesses, values = part[part.space.isin(["global", "shared"])], part[part.value.notna()]
        phase, moved = phase_title(step.phase), int(accesses.bytes.sum())
        did = f"{count(len(accesses), 'access', 'accesses')} of {moved:,} bytes, {count(len(values), 'value')} logged"
        self._frame(step, part, f"{self._in_partition(step)}{phase[0].lower() + phase[1:]}: {did}.")

    def _load_q(self, step: Any, part: pd.DataFrame) -> None:
        q = part[(part.tensor == self.paged.q[0]) & (part.space == "global")]
        self._frame(
            step,
            part,
            f"{self._in_partition(step)}the block of query head {self.head} of {self.name} reads the context length, "
            f"{self.length}, and its query: {count(len(q), 'number')}, {q.bytes.sum():,.0f} bytes. {self.name}'s "
            f"tokens lie in {count(self.pages, 'page')}.",
        )

    def _page(self, step: Any, part: pd.DataFrame, warp: int) -> None:
        entry = part[part.tensor == self.paged.tables[0]].iloc[0]
        reads_k = step.phase == "walk_k"
        tensor, cache = self.paged.k if reads_k else self.paged.v
        loads = part[(part.tensor == tensor) & (part.event == "load") & (part.space == "global")]
        logical, page = int(entry.logical), int(self.tables.flat[int(entry.offset) // self.tables.itemsize])
        kv_head, size = self.paged.kv_head_of(self.head), self.paged.block_size
        base = axes.byte_of(cache, page=page, kv_head=kv_head)
        scores = part[part.event == "score"]
        tokens = [logical * size, min(logical * size + size, self.length) - 1]
        where = (
            f"{self._in_partition(step)}warp {warp} reads entry {logical} of {self.name}'s block table (byte "
            f"{int(entry.offset):,}): {page}. So tokens {tokens[0]} to {tokens[1]} lie in page {page}; KV head "
            f"{kv_head} of it begins at byte {base:,} of {tensor}. "
        )
        read = f"{loads.bytes.sum():,.0f} bytes of {tensor} from byte {int(loads.offset.min()):,} on"
        if reads_k:
            best = scores.loc[scores.value.idxmax()]
            largest = f"the largest of {count(len(scores), 'score')} is {best.value:.4g}, at token {int(best.token)}"
            did = f"It reads {read}, and {largest}."
        else:
            did = f"It reads {read}, and adds each value times its weight to the output."
        self._frame(
            step,
            part,
            where + did,
            logical=logical,
            page=page,
            entry_offset=int(entry.offset),
            base=base,
            warp=warp,
            tokens=tokens,
            tensor=tensor,
            role="k" if reads_k else "v",
            request=_first_request(loads),
            low=int(loads.offset.min()),
            bytes=int(loads.bytes.sum()),
        )

    def _softmax(self, step: Any, part: pd.DataFrame) -> None:
        values = part[part.value.notna()].drop_duplicates("event", keep="last").set_index("event").value
        m, l, tokens = float(values["m"]), float(values["l"]), part[part.event == "p"].token
        self._frame(
            step,
            part,
            f"{self._in_partition(step)}the largest of {count(len(tokens), 'score')} is m = {m:.4g}; their weights "
            f"e^(score - m) add up to l = {l:.4g}.",
            tokens=[int(tokens.min()), int(tokens.max())],
            m=m,
            l=l,
        )

    def _write_part(self, step: Any, part: pd.DataFrame) -> None:
        stores = part[(part.event == "store") & (part.space == "global")]
        self._frame(
            step,
            part,
            f"{self._in_partition(step)}its m, its l and {count(self.paged.head_dim, 'sum')}, not yet divided by l, go "
            f"to global memory: {stores.bytes.sum():,.0f} bytes.",
        )

    def _combine(self, step: Any, part: pd.DataFrame) -> None:
        values = part[part.value.notna()]
        m, l = (values[values.event == name].value.iloc[0] for name in ("m_all", "l_all"))
        weights = values[values.event == "weight"].sort_values("partition").value
        factors = ", ".join(f"{w:.3g}" for w in weights[:6]) + (" ..." if len(weights) > 6 else "")
        self._frame(
            step,
            part,
            f"The second kernel combines {count(len(weights), 'partition')}: m = max m_i = {m:.4g}; each is rescaled "
            f"by e^(m_i - m): {factors}; l = sum l_i e^(m_i - m) = {l:.4g}.",
            m=float(m),
            l=float(l),
        )

    def _write(self, step: Any, part: pd.DataFrame) -> None:
        name = self.paged.o[0]
        stores = part[(part.tensor == name) & (part.event == "store") & (part.space == "global")]
        first = part[part.event == "o"].sort_values("dim").value.iloc[0]
        last = int((stores.offset + stores.bytes).max()) - 1
        self._frame(
            step,
            part,
            f"The sums over l are the output: {count(len(stores), 'number')} go to {name}, bytes "
            f"{int(stores.offset.min()):,} to {last:,}; the first is {first:.4g}.",
            written=True,
        )


def _first_request(loads: pd.DataFrame) -> list[int | None]:
    """Byte offset by lane (None: idle) of the warp's first load instruction."""
    first = loads.sort_values("seq").groupby("lane").first()
    if first.empty:
        return [None] * 32
    site = first[["file", "line"]].astype({"file": str}).apply(tuple, axis=1)
    offsets = first[site == site.mode().iloc[0]].offset.astype(int)
    return [int(offsets[lane]) if lane in offsets.index else None for lane in range(32)]


# ---- tables beside the walk ----


def layouts_blocks(walk_story: Walk, run: Run) -> list[stage.Block]:
    """Why K is split by x: the table and what it says."""
    table = layouts_table(walk_story, run)
    derived = "The first row is from the logged addresses; the others are derived from its lanes' tokens and pieces. A "
    return [
        stage.text(layouts_sentence(table)),
        stage.table(table, derived + "line is a byte offset / 128, a sector / 32."),
    ]


def shuffle_blocks(plain: Run, shuffled: Run, names: Sequence[str], seed: int) -> list[stage.Block]:
    """The same tokens at other addresses: the outputs compared bit for bit."""
    table = shuffle_table(plain, shuffled, names)
    same = (table["equal bit for bit"] == "yes").all()
    found = "the same output, bit for bit, in every sequence and head." if same else "and the output differs."
    said = f"The pages were moved by a random permutation (seed {seed}) and the block tables rewritten: other addresses"
    return [stage.note(f"{said}, {found}", "good" if same else "bad"), stage.table(table)]


def layouts_table(walk_story: Walk, run: Run) -> pd.DataFrame:
    """layout, loads per thread and 16 bytes, bytes per load, 128-byte lines, 32-byte sectors: the walk's first K
    request as it was made, and what the same lanes would touch were K laid out otherwise.

    Rule: a line is a byte offset / 128, a sector / 32; the other layouts' offsets follow from each lane's token and
    piece.
    """
    frame = next(f for f in walk_story.frames if f["phase"] == "walk_k")
    paged = Paged(run.request)
    size, x, item = paged.block_size, paged.x, paged.k[1].itemsize
    here = [offset - frame["base"] for offset in frame["request"] if offset is not None]
    pieces = [(offset // (x * item) // size, offset // (x * item) % size) for offset in here]  # (chunk, slot)
    as_rows = [(slot * paged.head_dim + chunk * x) * item for chunk, slot in pieces]
    as_columns = [((chunk * x) * size + slot) * item for chunk, slot in pieces]
    layouts = [
        ("[head_dim / x, block_size, x], as it is", 1, 16, here),
        ("[block_size, head_dim], token by token", 1, 16, as_rows),
        ("[head_dim, block_size], without the split by x", x, item, as_columns),
    ]
    return pd.DataFrame(
        [
            {
                "K page laid out as": name,
                "loads per 16 bytes": loads,
                "bytes per lane": width,
                "lanes": len(here),
                "128-byte lines": len({(frame["base"] + o) // model.LINE for o in offsets}),
                "32-byte sectors": len({(frame["base"] + o) // model.SECTOR for o in offsets}),
            }
            for name, loads, width, offsets in layouts
        ]
    )


def layouts_sentence(table: pd.DataFrame) -> str:
    """What the table says, in a sentence with its numbers."""
    here, rows, columns = (table.iloc[n] for n in range(3))
    return (
        f"One load instruction of the first warp: {here['lanes']} lanes, 16 bytes each, {16 * here['lanes']} bytes. "
        f"Split by x, neighbouring lanes (neighbouring tokens) read neighbouring 16 bytes: {here['128-byte lines']} "
        f"lines of 128 bytes. Token by token the same bytes would lie in {rows['128-byte lines']} lines. Without the "
        f"split a lane would read {columns['bytes per lane']} bytes at a time and need "
        f"{columns['loads per 16 bytes']} loads for what it now gets in one."
    )


def shuffle_table(plain: Run, shuffled: Run, names: Sequence[str]) -> pd.DataFrame:
    """sequence, pages as allocated and shuffled, and whether the outputs are equal bit for bit: from two Runs over the
    same tokens."""
    output = Paged(plain.request).o[1].name
    rows: list[dict[str, Any]] = []
    for n, name in enumerate(names):
        a, b = plain.arrays[output][n], shuffled.arrays[output][n]
        rows.append(
            {
                "sequence": name,
                "pages as allocated": _spaced(paging.pages_of(plain, n)),
                "pages shuffled": _spaced(paging.pages_of(shuffled, n)),
                "first numbers of O, head 0": ", ".join(f"{float(v):.5f}" for v in b[0, :3]),
                "largest difference of O": float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max()),
                "equal bit for bit": "yes" if np.array_equal(a, b) else "no",
            }
        )
    return pd.DataFrame(rows)


def addresses_table(run: Run, limit: int = 64) -> pd.DataFrame:
    """token, slot, page, first K byte, K pieces, first V byte, V numbers: what was stored in the cache for each token,
    from its logged stores.

    The slot of a token follows from the address of its first byte of V.
    """
    k, v = (next(iter(axes.with_axes(run.request, *names).items())) for names in (paging.K_AXES, paging.V_AXES))
    frame = run.trace.frame("event", "tensor", "space", "token", "offset")
    rows: list[dict[str, int]] = []
    stores = frame[(frame.event == "store") & (frame.space == "global")]
    size = axes.length(v[1], "slot")
    for token, part in stores.groupby("token"):
        if len(rows) == limit:
            break
        k_offsets, v_offsets = (part[part.tensor == name].offset for name, _ in (k, v))
        page, *_, slot = (int(n) for n in axes.coordinates(v[1], np.array(v_offsets.min())))
        rows.append(
            {
                "token": int(token),
                "slot": page * size + slot,
                "page": page,
                "slot in page": slot,
                "first K byte": int(k_offsets.min()),
                "K stores of 16 bytes": len(k_offsets),
                "first V byte": int(v_offsets.min()),
                "V stores of one number": len(v_offsets),
            }
        )
    return pd.DataFrame(rows)


def _spaced(numbers: list[int]) -> str:
    return " ".join(map(str, numbers))
