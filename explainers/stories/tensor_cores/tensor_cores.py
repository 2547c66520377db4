"""Tensor cores: one mma.sync or wgmma at a time, as fragments.py reads it from a run: its sentence, its picture, what
lies where, and what the guide asks of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from explainers.stories.tensor_cores import fragments
from explainers.stories.tensor_cores.fragments import LANES, MADE_OF, Fetch, K, Product, Products
from explainers.stories.tensor_cores.frames import FragmentsMeta, ProductFrame
from explainers.stories.tiling import tiling
from explainers.story import axes, glossary, picture, probed, stage
from explainers.story.glossary import count, short
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run
from kernels.trace.probes import sites_of

WANTS = ("score", "p", "o", "rescale")
NEEDS = {"score": ("row", "col"), "p": ("row", "col"), "o": ("row", "tile", "dim"), "rescale": ("row", "tile")}


@dataclass(frozen=True)
class Story(Products):
    """The Products, and a frame for each."""

    frames: list[ProductFrame] = field(default_factory=list)


def accepts(spec: KernelSpec) -> bool:
    """Attention of 16-bit numbers that logs its scores, weights and outputs, and whose operands come from shared memory
    by ldmatrix or as a product's."""
    return not refusal(spec)


def refusal(spec: KernelSpec) -> str:
    """A sentence that says why the story cannot show a kernel; empty if it can."""
    if lacking := tiling.refusal(spec) or probed.without_events(spec, NEEDS):
        return lacking
    request = probed.sample(spec)
    fetched = {site.tensor for site in sites_of(request) if site.event in ("ldmatrix", "product")}
    known, at = axes.tensors(request), picture.places(request)
    if not {"K", "V"} <= {at.get(symbol or "") for symbol in fetched}:
        return f"{spec.name} fetches K and V for no product. Add a PROBE_LDMATRIX or a PROBE_PRODUCT of each."
    wide = [symbol for symbol in fetched if symbol in known and known[symbol].itemsize != 2]
    return f"{spec.name} multiplies {glossary.listed(sorted(map(str, wide)))} of other than 16 bits." if wide else ""


def explain(run: Run, unit: int = 0, key_tile: int = 0) -> Story:
    """The Story of one warp, or one warpgroup, of the traced block, from a key tile on. ProblemError where there is no
    such one."""
    made = fragments.read(run, unit, key_tile)
    return Story(**vars(made), frames=[*_frames(made)])


# ---- frames ----


def _frames(story: Products) -> Iterator[ProductFrame]:
    last = story.last
    numbers: dict[int, int] = {}
    totals = {tile: sum(p.tile == tile for p in story.products) for tile in {p.tile for p in story.products}}
    for product in story.products:
        number = numbers[product.tile] = numbers.get(product.tile, 0) + 1
        is_last = last[product.part] == product
        yield {
            "tile": product.tile,
            "title": f"Key tile {product.tile} · product {number} of {totals[product.tile]}",
            "sentence": _said(story, product, is_last),
            "phase": product.c,
            "lines": {line: 1 for line in product.lines},
            "c": product.c,
            "at_tile": product.tile - story.first_tile,
            "rows": list(product.rows),
            "cols": list(product.cols),
            "k": list(product.k),
            "a": product.a,
            "b": product.b,
            "last": is_last,
        }


def _said(story: Products, product: Product, is_last: bool) -> str:
    """What the instruction multiplies, how its operands came, and what becomes of the first element of C."""
    a, b, along = MADE_OF[product.c]
    row, col = product.rows[0], product.cols[0]
    names = {"S": ("rows", "keys"), "O": ("rows", "dims")}[product.c]
    what = (
        f"{product.c} of {names[0]} {_span(product.rows)} and {names[1]} {_span(product.cols)}: {along}s "
        f"{_span(product.k)} of {a} and {b} are multiplied and added by one {story.instruction}."
    )
    came = [
        f"{name} came by ldmatrix in {count(story.fetches[n].wavefronts, 'wavefront')}"
        for name, n in ((a, product.a), (b, product.b))
        if n >= 0
    ]
    if not came:
        came = [
            "the tensor cores fetch both from shared memory"
            if product.c == "S"
            else f"{a} lies in registers, {b} in shared memory"
        ]
    past = _past(story, product)
    before, after = fragments.element(story, product, row, col)
    was = after[-2] if len(after) > 1 else before
    moved = f"{product.c}[{row}, {col}] goes from {short(was)} to {short(after[-1])}."
    if is_last and product.c == "S":
        seen, score = _logged(story, row, col)
        scaled = short(after[-1] * story.scale)
        logged = short(score) if seen else "none (hidden)"
        moved += f" Times {story.scale:g} it is the score: {scaled}; the kernel logged {logged}."
    elif is_last:
        value = float(story.o_after[product.tile - story.first_tile, row - story.matrices["O"].row0, col])
        moved += f" That was the tile's last: the kernel logged {short(value)}."
    return f"{what} {past}{_upper(' and '.join(came))}. {moved}"


def _past(story: Products, product: Product) -> str:
    """Of a product that reaches beyond the last query or the last key: what stands there. Tiles are whole, and what
    lies past the end is zeros."""
    spans = {"rows": product.rows, "keys": product.cols if product.c == "S" else product.k}
    found = []
    for name, (first, end) in spans.items():
        last = story.queries if name == "rows" else story.keys
        if end > last:
            found.append(f"{name} {max(first, last)} to {end - 1} are past the last, {last - 1}")
    return f"{_upper(' and '.join(found))}: zeros. " if found else ""


def _logged(story: Products, row: int, col: int) -> tuple[bool, float]:
    """Whether the kernel logged that score, and what."""
    s, at = story.matrices["S"], (row - story.matrices["S"].row0, col - story.matrices["S"].col0)
    return bool(s.lane[at] >= 0), float(s.value[at])


def _span(pair: tuple[int, int]) -> str:
    return f"{pair[0]} to {pair[1] - 1}"


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]


# ---- the stage ----


def view(run: Run, story: Story) -> stage.View:
    """The picture `fragments`."""
    matrices = story.matrices
    columns = {f"{name}_value": m.value for name, m in matrices.items() if name != "O"}
    for name, m in matrices.items():
        columns |= {f"{name}_{key}": a for key, a in m.attributes.items() if (a >= 0).any()}
    columns |= {"O_before": story.o_before, "O_after": story.o_after}
    meta: FragmentsMeta = {
        "instruction": story.instruction,
        "scale": story.scale,
        "sum_bits": story.sum_bits,
        "dtype": picture.tensor_at(run.request, "Q").dtype,
        "matrices": {name: [m.row0, m.col0, *m.value.shape] for name, m in matrices.items()},
        "fetches": [{"place": f.place, "wavefronts": f.wavefronts, "ideal": f.ideal} for f in story.fetches],
        "bases": {place: _base(run.request, place) for place in "QKV"},
        "symbols": {place: symbol for symbol, place in picture.places(run.request).items() if place in "QKV"},
        "frames": story.frames,
    }
    return stage.View("fragments", "fragments", "One product", meta, columns)


def _base(request: Request, place: str) -> list[int]:
    """In elements of its tensor: where the traced head's matrix begins, how far it is to the next row and the next
    dim; and the bytes of an element."""
    tensor, o = picture.tensor_at(request, place), picture.tensor_at(request, "O")
    rows = tensor.axes.index(axes.rows(tensor))
    dims, head = tensor.axes.index("dim"), picture.query_rows(request)[0]
    outer = [n for n in range(len(tensor.axes)) if n not in (rows, dims)]
    number = head * axes.heads(tensor) // axes.heads(o)
    index = [0] * len(tensor.axes)
    for n, at in zip(outer, np.unravel_index(number, [tensor.shape[n] for n in outer])):
        index[n] = int(at)
    steps = [int(np.prod(tensor.shape[n + 1 :])) for n in range(len(tensor.axes))]
    return [sum(i * s for i, s in zip(index, steps)), steps[rows], steps[dims], tensor.itemsize]


def stage_of(run: Run, story: Story, provenance: stage.Provenance, broken: tuple[str, str] = ("", "")) -> stage.Stage:
    """The whole stage of a run. broken: what is wrong with a build that is broken on purpose, and the tone of that."""
    shown, noun = count(len(story.products), "product"), fragments.units(run.request)[0]
    left = (
        f"Shown are {shown} of {noun} {story.unit}, from key tile {story.first_tile} on; {story.left_out:,} are not. "
        "Another first key tile stands under More."
    )
    made = stage.Stage(
        headline=stage.headline(run.request.kernel),
        frames=story.frames,
        views=[view(run, story)],
        codes=[stage.code(run.request, story.frames)],
        state=states(story),
        tabs=TABS,
        provenance=provenance,
        summary=" ".join(filter(None, [broken[0], left if story.left_out else ""])),
        tone=broken[1] or "info",
        questions=questions(story),
    )
    wrong, compared = fragments.disagreeing(story)
    said = (
        f"In {wrong} of {compared} sums that were compared the kernel logged something else than what the elements "
        "shown add up to: this build reads what has not come yet, or elsewhere than it says."
    )
    return stage.warned(made, [said] if wrong else [])


TABS = [
    stage.Tab("layout", "Who holds what"),
    stage.Tab("fetches", "Fetches"),
    stage.Tab("builds", "Builds"),
    stage.Tab("data", "Data and labels"),
]


def states(story: Story) -> list[stage.State]:
    """The strip: multiply-adds and wavefronts so far, and what the operands' fetches cost."""
    work = [(p.rows[1] - p.rows[0]) * (p.cols[1] - p.cols[0]) * K for p in story.products]
    found = [stage.State("multiply-adds so far", np.cumsum(work).tolist(), colour="P")]
    if not story.fetches:
        return [*found, stage.State("one instruction", [f"{n:,} multiply-adds" for n in work])]
    done = np.maximum.accumulate([max(p.a, p.b) for p in story.products])
    first = min((n for p in story.products for n in (p.a, p.b) if n >= 0), default=0)
    sums = np.cumsum([f.wavefronts for f in story.fetches])
    before = int(sums[first - 1]) if first else 0
    found.append(stage.State("wavefronts of ldmatrix so far", [int(sums[n]) - before for n in done], colour="load"))
    for title, name in (("A came in", "a"), ("B came in", "b")):
        at = [getattr(p, name) for p in story.products]
        found.append(stage.State(title, [_cost(story.fetches[n]) if n >= 0 else "no fetch: in registers" for n in at]))
    return found


def _cost(fetch: Fetch) -> str:
    return f"{count(fetch.wavefronts, 'wavefront')}, {fetch.ideal} at best"


def questions(story: Story) -> list[stage.Question]:
    """Asked before the picture is read; the keys are the trace's."""
    if not story.products:
        return []
    first = story.products[0]
    s = story.matrices["S"]
    left = first.cols[0]
    made: list[stage.Question] = []
    col = left + 5
    rows = s.lane[first.rows[0] - s.row0 : first.rows[1] - s.row0]
    seen = np.flatnonzero(rows[:, col - s.col0 : col - s.col0 + 1] >= 0)  # none where there are fewer keys
    if len(seen):
        row = first.rows[0] + int(seen[0])  # the first that sees this key, and those before it
        lane, register = (int(m[row - s.row0, col - s.col0]) for m in (s.lane, s.register))
        begin = [int(s.lane[row - s.row0, left - s.col0 + n]) % LANES for n in (0, 2)]
        text = (
            f"C ends in the registers of lanes. Lane {begin[0]} has S[{row}, {left}] and the one beside it, lane "
            f"{begin[1]} the next two of the row. Which lane has S[{row}, {col}]?"
        )
        why = f"S[{row}, {col}] was logged by lane {lane % LANES}, whose register c{register} it is."
        four = list(range(begin[0], begin[0] + 4))  # lanes of a row are neighbours
        options = [f"lane {n}" for n in four]
        more: dict[str, Any] = {"options": options, "view": "fragments", "veils": ("picture", "tabs")}
        made.append(stage.Question("owner", text, "options", four.index(lane % LANES), why, **more))
    if first.b >= 0:
        fetch = story.fetches[first.b]
        text = (
            f"B came by one ldmatrix: 32 lanes address 32 rows of 16 bytes, eight for each matrix. In how many "
            f"wavefronts does shared memory serve it here? At best it takes {fetch.ideal}."
        )
        why = f"{fetch.tensor} came in {_cost(fetch)}: " + (
            "the rows of a matrix begin in the same banks."
            if fetch.wavefronts > fetch.ideal
            else "each matrix's eight rows lie in all 32 banks."
        )
        asked: dict[str, Any] = {
            "unit": "wavefronts",
            "view": "fragments",
            "veils": ("sentence", "strip", "picture", "tabs"),
        }
        made.append(stage.Question("fetch", text, "number", fetch.wavefronts, why, **asked))
    return made


# ---- tables ----


def layout_table(story: Story) -> pd.DataFrame:
    """Where the first product of each kind has its elements, lane by lane, as found in this run: of each register of A,
    B and C (row, column) within the product; both halves of a word."""
    rows = []
    for c in "SO":
        product = next((p for p in story.products if p.c == c and p.tile == story.first_tile), None)
        for part, (name, low, left, high, wide, turned) in _parts(product).items() if product else ():
            m = story.matrices[name]
            lane = m.lane[low - m.row0 : low - m.row0 + high, left - m.col0 : left - m.col0 + wide]
            if not (lane >= 0).any():
                rows.append(
                    {
                        "of": f"{part} = {name}",
                        "lane": "none",
                        "register": "",
                        "elements": "in shared memory: the tensor cores fetch it",
                    }
                )
                continue
            register = m.register[low - m.row0 : low - m.row0 + high, left - m.col0 : left - m.col0 + wide]
            for one in (0, 1, 4, 31):
                for number in np.unique(register[lane == one])[:4]:
                    at = np.argwhere((lane == one) & (register == number))
                    said = ", ".join(f"[{c}, {r}]" if turned else f"[{r}, {c}]" for r, c in at)
                    rows.append(
                        {
                            "of": f"{part} = {name}",
                            "lane": str(one),
                            "register": f"{part.lower()}{number}",
                            "elements": said,
                        }
                    )
    return pd.DataFrame(rows)


def _parts(product: Product) -> dict[str, tuple[str, int, int, int, int, bool]]:
    """A, B and C of a product: matrix, first row, first column, rows and columns of it; and whether the matrix lies
    turned in the product, as K does."""
    a, b, _ = MADE_OF[product.c]
    (r0, r1), (c0, c1), (k0, k1) = product.rows, product.cols, product.k
    of_b = (b, c0, k0, c1 - c0, k1 - k0, True) if product.c == "S" else (b, k0, c0, k1 - k0, c1 - c0, False)
    return {"A": (a, r0, k0, r1 - r0, k1 - k0, False), "B": of_b, "C": (product.c, r0, c0, r1 - r0, c1 - c0, False)}


def fetches_table(story: Story) -> pd.DataFrame:
    """Source line by source line: how many ldmatrix, their wavefronts and the fewest that they could take."""
    rows = [
        {"source line": f.place, "of": f.tensor, "ldmatrix": 1, "wavefronts": f.wavefronts, "at best": f.ideal}
        for f in story.fetches
    ]
    if not rows:
        return pd.DataFrame()
    return pd.DataFrame(rows).groupby(["source line", "of"], as_index=False, sort=False).sum()
