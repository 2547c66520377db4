"""The schedule of warpgroups on the tensor cores: modelled orders of the products, next to the marks.

Model: each product takes its time without waits (pipeline_bars.TENSOR_FLOPS). Each softmax takes the same time, and a
warpgroup does nothing else.

- No turns: the warpgroups start each product together, share the tensor cores, and wait for it.
- Turns: the tensor cores take one product after the other, of the warpgroup that is ready first.
- Own output: also, a warpgroup starts the scores of a tile together with the output of the tile before, then passes the
  turn on. Its softmax runs during that output.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from explainers.stories.pipeline import overlaps
from explainers.stories.pipeline.key_tile_frames import BlockStory
from explainers.story import scene
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
# kind of a bar -> its colour, a short name, and its meaning
KINDS = {
    "S": ("S", "S", "scores of the products of Q and K"),
    "softmax": ("P", "softmax", "softmax"),
    "O": ("O", "O", "output: products of P and V"),
    "products": ("S", "S", "products started, waits for its scores"),
    "other": ("border", "", "other work and waits"),
    "flight": ("O", "O", "output in flight: from its start to the wait for it"),
}
LEGEND = [
    ("S", "scores (S)"),
    ("P", "softmax"),
    ("O", "output (O)"),
    ("border", "other work and waits"),
    ("", "frame: one softmax of the first warpgroup"),
    ("", "1: a product of warpgroup 1"),
]


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
    """Two modelled orders, and the marks from each step on, one under the other on one scale.

    orders: title -> its bars, and whether the kernel has this order.
    """
    groups = sorted(int(n) for n in story.bars[story.bars.event == "softmax"].writer.unique())
    names = [f"{story.made.noun} {n}" for n in groups]
    window = SHOWN * max(_key_tile(story), period(model.without_turns()))
    panels, lanes, spans = list[scene.Group](), list[scene.Lane](), list[scene.Span]()

    def add(
        heading: str, label: str, ns: float, rows: list[str], bars: list[Bar], begins: list[float], note: str
    ) -> None:
        panel, top = len(panels), len(lanes)
        marked = [_softmax_from(bars, begin, begin + window) for begin in begins]
        rests = [
            not any(bar.row == len(groups) and bar.start < mark[1] and bar.end > mark[0] for bar in bars)
            if mark and note
            else False
            for mark in marked
        ]
        panels.append(
            scene.Group(
                title=f"{heading} ({label})",
                value=f"{figure(ns, 3)} ns per key tile",
                note=note,
                begins=begins,
                marked=marked,
                said=["the tensor cores are at rest" if rest else "" for rest in rests] if any(rests) else [],
            )
        )
        for row, name in enumerate(rows):
            datum: scene.Datum = {"panel": panel, "row": row}
            lanes.append(scene.Lane(name=name, group=panel, datum=datum, tip=f"{name}: nothing ({label})"))
        for n, bar in enumerate(bars):
            colour, short, meaning = KINDS[bar.kind]
            text = f"{short} {bar.tile}" if short and bar.tile >= 0 else short
            of = f", key tile {bar.tile}" if bar.tile >= 0 else ""
            owner = [f"{groups[bar.owner]}: {text}"] if bar.owner >= 0 else []
            spans.append(
                scene.Span(
                    row=top + bar.row,
                    start=bar.start,
                    end=bar.end,
                    texts=[*owner, text] if text else [],
                    colour=colour,
                    datum={"panel": panel, "row": bar.row, "bar": n},
                    tip=f"{rows[bar.row]}: {meaning}{of}\n{bar.end - bar.start:,.0f} ns ({label})",
                )
            )

    for order, (bars, own) in orders.items():
        begin = next(b.start for b in bars if b.row == 0 and b.kind == "softmax" and b.tile == SETTLED) - model.product
        named = f"{order}, as this kernel" if own else order
        add(named, "modelled", period(bars), [*names, "tensor cores"], bars, [begin], NOTES[order])
    flying = _outputs_in_flight(story, groups)
    rows = [*names, f"output of {groups[0]}"] if flying else names
    begins = [frame["span"][0] for frame in story.frames]
    add("This run", story.made.provenance, _key_tile(story), rows, [*_measured(story, groups), *flying], begins, "")
    rule = (
        f"Modelled: a product takes {figure(model.product, 3)} ns on the tensor cores, a softmax "
        f"{figure(model.softmax, 3)} ns. Simplified: softmaxes at once do not slow each other. Nothing else takes time."
    )
    lines = [[scene.Lanes(groups=panels, rows=lanes, spans=spans, length=window, units=[(1, "ns")], note=rule)]]
    return scene.view(id, title, lines, legend=LEGEND)


def _softmax_from(bars: list[Bar], begin: float, end: float) -> tuple[float, float] | None:
    """The first softmax of the first row in a window, if all of it is there."""
    bar = next((b for b in bars if b.kind == "softmax" and b.row == 0 and b.start >= begin), None)
    return (bar.start, bar.end) if bar and bar.end <= end else None


def _key_tile(story: BlockStory) -> float:
    """The median ns from one softmax of the leader to the next."""
    starts = story.bars[(story.bars.writer == story.leader) & (story.bars.event == "softmax")].start_ns
    return float(starts.diff().median())


def _outputs_in_flight(story: BlockStory, groups: list[int]) -> list[Bar]:
    """The outputs of the first warpgroup, from the start of each to the wait for it."""
    own = story.flight[(story.flight.writer == groups[0]) & (story.flight.event == "output")]
    return [
        Bar(len(groups), "flight", int(bar.tile), bar.start_ns, bar.end_ns)
        for bar in own[own.tile.notna()].itertuples()
    ]


def _measured(story: BlockStory, groups: list[int]) -> list[Bar]:
    """The marks as bars."""
    waits = story.flight.empty  # for each product
    kinds = {overlaps.SOFTMAX: "softmax", overlaps.OTHER: "other", overlaps.PRODUCTS: "products"}
    bars = list[Bar]()
    for row, writer in enumerate(groups):
        for mark in story.bars[story.bars.writer == writer].itertuples():
            kind = kinds[overlaps.activity(mark.event)]
            if kind == "products" and waits:
                kind = "S" if mark.event == "scores" else "O"
            last = bars[-1] if bars else None
            if kind == "products" and last and (last.row, last.kind, last.end) == (row, kind, mark.start_ns):
                bars[-1] = replace(last, end=mark.end_ns)  # scores of a tile and the output before are started together
            else:
                tile = -1 if pd.isna(mark.tile) else int(mark.tile)
                bars.append(Bar(row, kind, tile, mark.start_ns, mark.end_ns))
    return bars
