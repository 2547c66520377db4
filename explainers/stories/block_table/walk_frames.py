"""The frames of a walk through a block table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NotRequired, cast

import numpy as np
import pandas as pd

from explainers.stories.block_table import paging
from explainers.stories.block_table.paging import Paged
from explainers.story import axes
from explainers.story.frames import Frame, Number
from explainers.story.glossary import count, phase_title, short
from kernels.run.results import Run
from kernels.trace import steps as cutting
from kernels.trace.kinds import READS


class WalkFrame(Frame):
    """A step of a walk through a block table.

    logical, page: the entry of the block table and its page.
    entry_offset: the byte of the entry in the block tables.
    base: the first byte of the page's part of the KV head.
    warp, tokens: the warp, and the first and last token.
    tensor, role: the cache, and k or v.
    request, low, bytes: byte offset of each lane's first load (None for an idle lane), the lowest byte, and all
        bytes.
    m, l: of a softmax or a combination.
    written: the step writes O.
    read: the step's bytes from global memory.
    """

    read: int
    moment: int  # the step of the trace

    logical: NotRequired[int]
    page: NotRequired[int]
    entry_offset: NotRequired[int]
    base: NotRequired[int]
    warp: NotRequired[int]
    tokens: NotRequired[list[int]]
    tensor: NotRequired[str]
    role: NotRequired[str]
    request: NotRequired[list[int | None]]
    low: NotRequired[int]
    bytes: NotRequired[int]
    m: NotRequired[Number]
    l: NotRequired[Number]
    written: NotRequired[bool]


@dataclass(frozen=True)
class Walk:
    """The walk of one query head.

    frames: one for each step. A step of a walk is one page by one warp.
    scores, weights: float32 [context length], as logged. Weights are not divided by l.
    o: the output, [head_dim].
    sequence, head, kv_head: the walked ones.
    """

    frames: list[WalkFrame]
    scores: np.ndarray
    weights: np.ndarray
    o: np.ndarray
    sequence: int
    head: int
    kv_head: int


def walk(run: Run, name: str) -> Walk:
    """Returns the Walk of a Run over one query head of one sequence. name: the sequence."""
    request, sites = run.request, run.sites
    paged = Paged(request)
    sequence, head = paged.place
    cut = cutting.cut(run.trace, sites)
    frame = run.trace.frame()
    words = {column: frame[column].astype(str) for column in ("event", "tensor", "space")}
    places = np.array([site.place if site.kind != "mark" else "" for site in sites])
    frame = frame.assign(step=cut.of_record, place=places[sites.index(run.trace.table)], **words)
    story = WalkFrames(run, name)
    for number, part in frame[frame.step >= 0].groupby("step"):
        story.add(cut.table.loc[number], part)
    values = frame[frame.value.notna()]
    length = int(paging.lengths(run)[sequence])
    logged = {}
    for event in ("score", "p"):
        logged[event] = np.full(length, np.nan, np.float32)
        own = values[values.event == event]
        logged[event][own.token.astype(int)] = own.value
    o = np.asarray(run.arrays[paged.o[1].name][sequence, head], np.float32)
    return Walk(story.frames, logged["score"], logged["p"], o, sequence, head, paged.kv_head_of(head))


class WalkFrames:
    """Builds the frames of a walk, step by step."""

    def __init__(self, run: Run, name: str) -> None:
        self.paged, self.name = Paged(run.request), name
        self.sequence, self.head = self.paged.place
        self.tables = run.arrays[self.paged.tables[1].name]
        self.length = int(paging.lengths(run)[self.sequence])
        self.partitions = run.request.plan.launches[0].blocks_per_item
        self.pages = -(-self.length // self.paged.block_size)
        self.frames: list[WalkFrame] = []
        # phase -> its method, and the events in its sentence
        self.phases: dict[str, tuple[Callable[[pd.Series, pd.DataFrame], None], set[str]]] = {
            "load_q": (self._load_q, set()),
            "softmax": (self._softmax, {"m", "l", "p"}),
            "write_part": (self._write_part, set()),
            "combine": (self._combine, {"m_all", "l_all", "weight"}),
            "write": (self._write, {"o"}),
        }

    def add(self, step: pd.Series, part: pd.DataFrame) -> None:
        if step.phase in ("walk_k", "walk_v"):
            for warp, records in part.groupby("warp"):
                if (records.tensor == self.paged.tables[0]).any():
                    self._page(step, records, int(warp))
        elif step.phase != "load_q" or (part.tensor == self.paged.q[0]).any():  # a block without tokens exits at once
            add, events = self.phases.get(step.phase, (self._other, set()))
            if events <= set(part.event):
                add(step, part)
            else:
                self._other(step, part)

    def _frame(
        self, step: pd.Series, part: pd.DataFrame, sentence: str, logical: int | None = None, **more: object
    ) -> None:
        lines = part.place[part.place != ""].value_counts()
        loads = part[part.event.isin(READS) & (part.space == "global")]
        frame = {
            "tile": self._group(step),
            "title": self._title(step, logical),
            "block": int(step.block),
            "phase": step.phase,
            "moment": int(step.name),
            "sentence": sentence[0].upper() + sentence[1:],
            "lines": {str(line): int(n) for line, n in lines.items()},
            "read": int(loads.bytes.sum()),
            **({} if logical is None else {"logical": logical}),
            **more,
        }
        self.frames.append(cast(WalkFrame, frame))

    def _group(self, step: pd.Series) -> int:
        """Returns the number of this run of equal phases, for Shift+Left and Shift+Right."""
        if not self.frames:
            return 0
        last = self.frames[-1]
        starts = (last["phase"], last["block"]) != (step.phase, int(step.block))
        return last["tile"] + starts

    def _title(self, step: pd.Series, logical: int | None) -> str:
        title = phase_title(step.phase)
        if logical is not None:
            title += f" · page {logical + 1} of {self.pages}"
        in_partition = self.partitions > 1 and step.launch == 0
        return f"Partition {step.block % self.partitions} · {title}" if in_partition else title

    def _in_partition(self, step: pd.Series) -> str:
        return f"Partition {step.block % self.partitions}: " if self.partitions > 1 else ""

    def _other(self, step: pd.Series, part: pd.DataFrame) -> None:
        """Adds the frame of a phase without a sentence of its own."""
        accesses, values = part[part.space.isin(["global", "shared"])], part[part.value.notna()]
        phase, moved = phase_title(step.phase), int(accesses.bytes.sum())
        did = f"{count(len(accesses), 'access', 'accesses')} of {moved:,} bytes, {count(len(values), 'value')} logged"
        self._frame(step, part, f"{self._in_partition(step)}{phase[0].lower() + phase[1:]}: {did}.")

    def _load_q(self, step: pd.Series, part: pd.DataFrame) -> None:
        q = part[(part.tensor == self.paged.q[0]) & (part.space == "global")]
        copied = ((part.event == "store") & (part.space == "shared")).any()
        query = count(len(q), "number") + (", into shared memory" if copied else "")
        self._frame(
            step,
            part,
            f"{self._in_partition(step)}the block of query head {self.head} loads its query, {query}. "
            f"{'Its warps read it there for each key. ' if copied else ''}"
            f"We follow sequence {self.name}: its {count(self.length, 'token')} are in {count(self.pages, 'page')}.",
        )

    def _page(self, step: pd.Series, part: pd.DataFrame, warp: int) -> None:
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
            f"{self._in_partition(step)}entry {logical} of {self.name}'s block table names page {page}. "
            f"Warp {warp} loads "
        )
        tokens_said = f"tokens {tokens[0]} to {tokens[1]}" if tokens[1] > tokens[0] else f"token {tokens[0]}"
        if reads_k:
            best = scores.loc[scores.value.idxmax()]
            did = f"the keys of {tokens_said} there. The best score is {short(best.value)}, of token {int(best.token)}."
        else:
            did = f"the values of {tokens_said} there, and adds each value times its weight."
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

    def _softmax(self, step: pd.Series, part: pd.DataFrame) -> None:
        values = part[part.value.notna()].drop_duplicates("event", keep="last").set_index("event").value
        m, l, tokens = float(values["m"]), float(values["l"]), part[part.event == "p"].token
        self._frame(
            step,
            part,
            f"{self._in_partition(step)}the largest of {count(len(tokens), 'score')} is m = {short(m)}. The weights "
            f"e^(score - m) add up to l = {short(l)}.",
            tokens=[int(tokens.min()), int(tokens.max())],
            m=m,
            l=l,
        )

    def _write_part(self, step: pd.Series, part: pd.DataFrame) -> None:
        stores = part[(part.event == "store") & (part.space == "global")]
        self._frame(
            step,
            part,
            f"{self._in_partition(step)}the block stores its m, its l and {count(self.paged.head_dim, 'sum')}. "
            f"The sums are not divided by l yet. It stores {stores.bytes.sum():,.0f} bytes.",
        )

    def _combine(self, step: pd.Series, part: pd.DataFrame) -> None:
        values = part[part.value.notna()]
        m, l = (values[values.event == name].value.iloc[0] for name in ("m_all", "l_all"))
        parts = count(int((values.event == "weight").sum()), "partition")
        self._frame(
            step,
            part,
            f"The second kernel combines {parts} under the largest m, {short(m)}. "
            f"It scales each by e^(m_i - m) and adds: l = {short(l)}.",
            m=float(m),
            l=float(l),
        )

    def _write(self, step: pd.Series, part: pd.DataFrame) -> None:
        name = self.paged.o[0]
        stores = part[(part.tensor == name) & (part.event == "store") & (part.space == "global")]
        first = part[part.event == "o"].sort_values("dim").value.iloc[0]
        self._frame(
            step,
            part,
            f"The sums, divided by l, are the output. The kernel stores {count(len(stores), 'number')} in {name}. "
            f"The first is {short(first)}.",
            written=True,
        )


def _first_request(loads: pd.DataFrame) -> list[int | None]:
    """Returns the byte offset of each lane in the warp's first load, None for an idle lane."""
    first = loads.sort_values("seq").groupby("lane").first()
    if first.empty:
        return [None] * 32
    site = first[["file", "line"]].astype({"file": str}).apply(tuple, axis=1)
    offsets = first[site == site.mode().iloc[0]].offset.astype(int)
    return [int(offsets[lane]) if lane in offsets.index else None for lane in range(32)]
