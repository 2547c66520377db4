"""The schedule of warpgroups on the tensor cores: modelled orders of the products, next to the marks.

Model: each product takes its time without waits (pipeline_bars.TENSOR_FLOPS). Each softmax takes the same time, and a
warpgroup does nothing else.

- No turns: the warpgroups start each product together, share the tensor cores, and wait for it.
- Turns: the tensor cores take one product after the other, of the warpgroup that is ready first.
- Own output: also, a warpgroup starts the scores of a tile together with the output of the tile before, then passes the
  turn on. Its softmax runs during that output.
"""

from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import pandas as pd

from explainers.stories.pipeline import overlaps
from explainers.stories.pipeline.frames import PipelineFrame
from explainers.stories.pipeline.key_tile_frames import BlockStory
from explainers.story.glossary import figure
from explainers.story.stage import View
from kernels.measure import pipeline_bars

TILES = 12  # modelled key tiles of each warpgroup
SETTLED = 3  # from this tile on, the model repeats itself
SHOWN = 2  # key tiles in the window
NOTES = {
    "Without turns": "all compute their softmax at once, and the tensor cores rest",
    "In turns": "one computes its softmax while another multiplies",
    "Own output, too": "its own output of the tile before also runs during its softmax",
}
KINDS = ("S", "softmax", "O", "products", "other", "flight")


class Panel(TypedDict):
    """A drawing of the view.

    note: what it shows, in a clause.
    rows: their names.
    label: modelled, measured or recorded. begin: the first ns of its window, or -1 for a window
    that follows the step. own: whether the kernel has this order.
    """

    title: str
    note: str
    label: str
    rows: list[str]
    begin: float
    own: bool


class ScheduleMeta(TypedDict):
    """The fields of the view.

    window: ns. rule: the model in sentences.

    Columns, an entry for each bar: panel, row, kind (its place in kinds), tile (-1 for none), start, end (ns), owner
        (the row of the warpgroup of a product of the tensor cores, -1 for none).
    """

    panels: list[Panel]
    kinds: list[str]
    window: float
    rule: str
    frames: list[PipelineFrame]


@dataclass(frozen=True)
class Bar:
    """A bar of a modelled schedule.

    row: a warpgroup from 0, or the number of warpgroups for the tensor cores.
    owner: the warpgroup of a product of the tensor cores, -1 for a product of all.
    """

    row: int
    kind: str
    tile: int
    start: float
    end: float
    owner: int = -1


@dataclass(frozen=True)
class Model:
    """The times of the model.

    groups: the number of warpgroups. product, softmax: ns.
    """

    groups: int
    product: float
    softmax: float

    def without_turns(self) -> list[Bar]:
        """All warpgroups in step: scores, softmax, output."""
        bars: list[Bar] = []
        together, now = self.groups * self.product, 0.0
        for tile in range(TILES):
            for kind, ns in (("S", together), ("softmax", self.softmax), ("O", together)):
                rows = range(self.groups if kind == "softmax" else self.groups + 1)
                bars += [Bar(row, kind, tile, now, now + ns) for row in rows]
                now += ns
        return bars

    def in_turns(self) -> list[Bar]:
        """The warpgroups in turn: scores, softmax, output, each product when the tensor cores are free."""
        bars: list[Bar] = []
        free, ready, done = 0.0, [0.0] * self.groups, [0] * self.groups
        while min(done) < 2 * TILES:
            group = min((n for n in range(self.groups) if done[n] < 2 * TILES), key=lambda n: max(free, ready[n]))
            tile, kind = done[group] // 2, "SO"[done[group] % 2]
            start = max(free, ready[group])
            free = start + self.product
            bars += [Bar(self.groups, kind, tile, start, free, group), Bar(group, kind, tile, start, free)]
            if kind == "S":
                bars.append(Bar(group, "softmax", tile, free, free + self.softmax))
            ready[group] = free + (self.softmax if kind == "S" else 0)
            done[group] += 1
        return bars

    def with_turns(self) -> list[Bar]:
        """The warpgroups in turn. Each starts the scores of a tile with the output of the tile before."""
        bars: list[Bar] = []
        free, ready = 0.0, [0.0] * self.groups
        for tile in range(TILES):
            for group in range(self.groups):
                start = ready[group]
                scored = max(free, start) + self.product
                bars += [Bar(self.groups, "S", tile, scored - self.product, scored, group)]
                bars += [Bar(group, "products", tile, start, scored)]
                bars += [Bar(group, "softmax", tile, scored, scored + self.softmax)]
                free = scored
                if tile:
                    free += self.product
                    bars.append(Bar(self.groups, "O", tile - 1, scored, free, group))
                ready[group] = max(scored + self.softmax, free)
        return bars


def period(bars: list[Bar]) -> float:
    """The ns from one softmax of the first warpgroup to its next one, once the model repeats itself."""
    starts = [bar.start for bar in bars if bar.row == 0 and bar.kind == "softmax"]
    return (starts[-1] - starts[SETTLED]) / (len(starts) - 1 - SETTLED)


def model_of(story: BlockStory) -> Model | None:
    """The model with the times of a block. None unless several warpgroups take products of 16 bits for two key tiles.

    Rule: the softmax takes its median time in the warpgroup with the shortest one, with the waits in it.
    """
    request = story.made.request
    rows, keys = request.value_of("query_rows") or 0, request.value_of("key_rows") or 0
    computing = story.bars[story.bars.event == "softmax"].writer.unique()
    if story.made.noun != "warpgroup" or len(computing) < 2 or request.kernel.tensor_products != 1 or not rows * keys:
        return None
    if np.isnan(_key_tile(story)):
        return None
    flops = 2 * rows / len(computing) * keys * request.problem.head_dim
    product = flops / pipeline_bars.TENSOR_FLOPS["wgmma"] / story.made.mhz * 1e3
    softmax = story.bars[story.bars.event == "softmax"]
    medians = (softmax.end_ns - softmax.start_ns).groupby(softmax.writer).median()
    return Model(len(computing), product, float(medians.min()))


def views(story: BlockStory) -> list[View]:
    """The views of a block, if its model exists: the idea of turns, and the idea of an output in flight."""
    model = model_of(story)
    if model is None:
        return []
    both = bool(story.made.request.value_of("turns"))
    orders = {
        "Without turns": (model.without_turns(), not both),
        "In turns": (model.in_turns(), False),
        "Own output, too": (model.with_turns(), both),
    }
    pairs = {
        "schedule": ("Idea and run", ("Without turns", "In turns")),
        "own_output": ("Its own output", tuple(orders)[1:]),
    }
    return [
        _view(story, model, id, title, {name: orders[name] for name in names}) for id, (title, names) in pairs.items()
    ]


def _view(story: BlockStory, model: Model, id: str, title: str, orders: dict[str, tuple[list[Bar], bool]]) -> View:
    """Two modelled orders, and the marks. orders: title -> its bars, and whether the kernel has this order."""
    groups = sorted(int(n) for n in story.bars[story.bars.event == "softmax"].writer.unique())
    names = [f"{story.made.noun} {n}" for n in groups]
    panels: list[Panel] = []
    bars: list[tuple[int, int, str, int, float, float]] = []
    owners: list[int] = []
    for n, (order, (found, own)) in enumerate(orders.items()):
        begin = next(b.start for b in found if b.row == 0 and b.kind == "softmax" and b.tile == SETTLED)
        said = f"{order}: {figure(period(found), 3)} ns per key tile"
        begin -= model.product
        rows = [*names, "tensor cores"]
        panels.append(
            {"title": said, "note": NOTES[order], "label": "modelled", "rows": rows, "begin": begin, "own": own}
        )
        bars += [(n, b.row, b.kind, b.tile, b.start, b.end) for b in found]
        owners += [b.owner for b in found]
    said = f"This run: {figure(_key_tile(story), 3)} ns per key tile"
    label = story.made.provenance
    flying = _outputs_in_flight(story, groups)
    rows = [*names, f"output of {groups[0]}"] if flying else names
    panels.append({"title": said, "note": "", "label": label, "rows": rows, "begin": -1, "own": True})
    bars += [*_measured(story, groups), *flying]
    rule = (
        f"Modelled: a product takes {figure(model.product, 3)} ns on the tensor cores, a softmax "
        f"{figure(model.softmax, 3)} ns. Simplified: softmaxes at once do not slow each other. Nothing else takes time."
    )
    meta: ScheduleMeta = {
        "panels": panels,
        "kinds": list(KINDS),
        "window": SHOWN * max(_key_tile(story), period(model.without_turns())),
        "rule": rule,
        "frames": story.frames,
    }
    panel, row, kind, tile, start, end = zip(*bars)
    columns = {
        "panel": np.array(panel, float),
        "row": np.array(row, float),
        "kind": np.array([KINDS.index(k) for k in kind], float),
        "tile": np.array(tile, float),
        "start": np.array(start, float),
        "end": np.array(end, float),
        "owner": np.array(owners + [-1] * (len(bars) - len(owners)), float),
    }
    return View("schedule", id, title, meta, columns)


def _key_tile(story: BlockStory) -> float:
    """The median ns from one softmax of the leader to the next."""
    starts = story.bars[(story.bars.writer == story.leader) & (story.bars.event == "softmax")].start_ns
    return float(starts.diff().median())


def _outputs_in_flight(story: BlockStory, groups: list[int]) -> list[tuple[int, int, str, int, float, float]]:
    """The outputs of the first warpgroup, from the start of each to the wait for it: a row of the third panel."""
    own = story.flight[(story.flight.writer == groups[0]) & (story.flight.event == "output")]
    return [
        (2, len(groups), "flight", int(bar.tile), bar.start_ns, bar.end_ns)
        for bar in own[own.tile.notna()].itertuples()
    ]


def _measured(story: BlockStory, groups: list[int]) -> list[tuple[int, int, str, int, float, float]]:
    """The marks as bars of the third panel."""
    waits = story.flight.empty  # for each product
    kinds = {overlaps.SOFTMAX: "softmax", overlaps.OTHER: "other", overlaps.PRODUCTS: "products"}
    found: list[tuple[int, int, str, int, float, float]] = []
    for row, writer in enumerate(groups):
        for bar in story.bars[story.bars.writer == writer].itertuples():
            kind = kinds[overlaps.activity(bar.event)]
            if kind == "products" and waits:
                kind = "S" if bar.event == "scores" else "O"
            tile = -1 if pd.isna(bar.tile) else int(bar.tile)
            last = found[-1] if found else None
            if kind == "products" and last and last[:3] == (2, row, kind) and last[5] == bar.start_ns:
                found[-1] = (*last[:5], bar.end_ns)  # scores of a tile and the output before are started together
            else:
                found.append((2, row, kind, tile, bar.start_ns, bar.end_ns))
    return found
