"""The schedule of warpgroups on the tensor cores: modelled orders of the products, next to the marks.

Model: each product takes its time without waits (pipeline_bars.TENSOR_FLOPS). Each softmax takes the same time, and a
warpgroup does nothing else.

- No turns: the warpgroups start each product together, share the tensor cores, and wait for it.
- Turns: the tensor cores take one product after the other, of the warpgroup that is ready first.
- Own output: also, a warpgroup starts the scores of a tile together with the output of the tile before, then passes the
  turn on. Its softmax runs during that output.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from explainers.stories.pipeline import marks
from explainers.stories.pipeline.marks import WORDS, BlockStory
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
VIEWS = {  # id -> title, and the two modelled orders
    "schedule": ("Idea and run", ("Without turns", "In turns")),
    "own_output": ("Its own output", ("In turns", "Own output, too")),
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
    """A bar of a schedule.

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
            group = min((n for n in range(self.groups) if done[n] < 2 * TILES), key=lambda n: ready[n])
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
    softmax = story.bars[story.bars.event == "softmax"]
    groups = softmax.writer.nunique()
    if story.made.noun != "warpgroup" or groups < 2 or request.kernel.tensor_products != 1 or not rows * keys:
        return None
    if np.isnan(_key_tile(story)):
        return None
    flops = 2 * rows / groups * keys * request.problem.head_dim
    product = flops / pipeline_bars.TENSOR_FLOPS["wgmma"] / story.made.mhz * 1e3
    medians = (softmax.end_ns - softmax.start_ns).groupby(softmax.writer).median()
    return Model(groups, product, float(medians.min()))


def views(story: BlockStory) -> list[View]:
    """The views of a block, if its model exists: the idea of turns, and the idea of an output in flight. Each has two
    modelled orders, and the marks from each step on, one under the other on one scale."""
    model = model_of(story)
    if model is None:
        return []
    both = bool(story.made.request.value_of("turns"))
    orders = {
        "Without turns": (model.without_turns(), not both),
        "In turns": (model.in_turns(), False),
        "Own output, too": (model.with_turns(), both),
    }
    groups = sorted(int(n) for n in story.bars[story.bars.event == "softmax"].writer.unique())
    names = [f"{story.made.noun} {n}" for n in groups]
    window = SHOWN * max(_key_tile(story), period(orders["Without turns"][0]))
    begins = [step["span"][0] for step in story.steps]
    measured = [bar for bar in bars_of_run(story, groups) if marks.seen(bar.start, bar.end, begins, window)]
    rows = [*names, f"output of {groups[0]}"] if any(bar.kind == "flight" for bar in measured) else names
    rule = WORDS.say("rule", vars(model))
    found = []
    for id, (title, shown) in VIEWS.items():
        panels, lanes, spans = list[scene.Group](), list[scene.Lane](), list[scene.Span]()
        for order in shown:
            bars, own = orders[order]
            begin = next(b.start for b in bars if b.row == 0 and b.kind == "softmax" and b.tile == SETTLED)
            one = [begin - model.product]
            marked = _marked(bars, one, window)
            rests = [
                mark is not None
                and not any(b.row == len(groups) and b.start < mark[1] and b.end > mark[0] for b in bars)
                for mark in marked
            ]
            panels.append(
                scene.Group(
                    title=f"{order}{', as this kernel' if own else ''} (modelled)",
                    value=f"{figure(period(bars), 3)} ns per key tile",
                    note=NOTES[order],
                    begins=one,
                    marked=marked,
                    said=["the tensor cores are at rest"] if any(rests) else [],
                )
            )
            _add(lanes, spans, len(panels) - 1, groups, [*names, "tensor cores"], bars, "modelled")
        panels.append(
            scene.Group(
                title=f"This run ({story.made.provenance})",
                value=f"{figure(_key_tile(story), 3)} ns per key tile",
                begins=begins,
                marked=_marked(measured, begins, window),
            )
        )
        _add(lanes, spans, len(panels) - 1, groups, rows, measured, story.made.provenance)
        picture = scene.Lanes(groups=panels, rows=lanes, spans=spans, length=window, units=[(1, "ns")], note=rule)
        found.append(scene.view(id, title, [[picture]], legend=LEGEND))
    return found


def _add(
    lanes: list[scene.Lane],
    spans: list[scene.Span],
    panel: int,
    groups: list[int],
    rows: list[str],
    bars: Sequence[Bar],
    label: str,
) -> None:
    """Adds the rows and bars of a panel."""
    top = len(lanes)
    for row, name in enumerate(rows):
        lanes.append(
            scene.Lane(name=name, group=panel, datum={"panel": panel, "row": row}, tip=f"{name}: nothing ({label})")
        )
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


def _marked(bars: list[Bar], begins: list[float], window: float) -> list[tuple[float, float] | None]:
    """For each begin the first softmax of the first row in its window, if all of it is there."""
    first = [bar for bar in bars if bar.kind == "softmax" and bar.row == 0]
    bars_from = (next((bar for bar in first if bar.start >= begin), None) for begin in begins)
    return [(b.start, b.end) if b and b.end <= begin + window else None for b, begin in zip(bars_from, begins)]


def _key_tile(story: BlockStory) -> float:
    """The median ns from one softmax of the leader to the next."""
    starts = story.bars[(story.bars.writer == story.leader) & (story.bars.event == "softmax")].start_ns
    return float(starts.diff().median())


def bars_of_run(story: BlockStory, groups: list[int]) -> list[Bar]:
    """The marks as bars, and the outputs of the first warpgroup, from the start of each to the wait for it."""
    waits = story.flight.empty  # for each product
    kinds = {marks.SOFTMAX: "softmax", marks.OTHER: "other", marks.PRODUCTS: "products"}
    bars = list[Bar]()
    for row, writer in enumerate(groups):
        for mark in story.bars[story.bars.writer == writer].itertuples():
            kind = kinds[marks.activity(mark.event)]
            if kind == "products" and waits:
                kind = "S" if mark.event == "scores" else "O"
            last = bars[-1] if bars else None
            if kind == "products" and last and (last.row, last.kind, last.end) == (row, kind, mark.start_ns):
                bars[-1] = replace(last, end=mark.end_ns)  # scores of a tile and the output before are started together
            else:
                tile = -1 if pd.isna(mark.tile) else int(mark.tile)
                bars.append(Bar(row, kind, tile, mark.start_ns, mark.end_ns))
    flying = story.flight[(story.flight.writer == groups[0]) & (story.flight.event == "output")]
    return bars + [
        Bar(len(groups), "flight", int(bar.tile), bar.start_ns, bar.end_ns)
        for bar in flying[flying.tile.notna()].itertuples()
    ]
