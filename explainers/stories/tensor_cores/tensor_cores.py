"""The story of tensor cores: one mma.sync or wgmma at a time, with its sentence, its picture, its operands and its
questions. fragments.py reads the products from a run."""

import numpy as np
import pandas as pd

from explainers.models import gradients, tiling
from explainers.stories.tensor_cores import fragments, pieces, tensor_products
from explainers.stories.tensor_cores.frames import FragmentsMeta, ShownKind
from explainers.stories.tensor_cores.product_frames import WORDS, ProductStory, axis_words, frames_of
from explainers.stories.tensor_cores.product_questions import fetch_cost, questions
from explainers.stories.tensor_cores.tensor_products import K, Kind, Product, part_of, walks_queries
from explainers.story import axes, glossary, picture, probed, stage
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run
from kernels.trace.probes import sites_of

WANTS = ("score", "p", "o", "rescale")
NEEDS = {"score": ("row", "col"), "p": ("row", "col"), "o": ("row", "tile", "dim"), "rescale": ("row", "tile")}
INPUTS = ("Q", "K", "V", "dO")  # operands with a tensor in global memory


def accepts(spec: KernelSpec) -> bool:
    """Whether the kernel is attention with 16-bit numbers, with logged scores, weights and outputs, and with operands
    from shared memory by ldmatrix or by the product."""
    return not refusal(spec)


def refusal(spec: KernelSpec) -> str:
    """The reason against a kernel in a sentence, or an empty text."""
    request = probed.sample(spec)
    if walks_queries(request) and not gradients.lacking(request):
        lacking = probed.without_events(spec, gradients.NEEDED)
    else:
        lacking = tiling.refusal(spec) or probed.without_events(spec, NEEDS)
    if lacking:
        return lacking
    fetched = {site.tensor for site in sites_of(request) if site.event in ("ldmatrix", "product")}
    other = "" if walks_queries(request) else picture.other_input(request)
    if other:
        return f"{spec.name} also reads {other}. This page multiplies Q and K as they are given."
    known, at = axes.tensors(request), picture.places(request)
    due = ("Q", "dO") if walks_queries(request) else ("K", "V")
    if not set(due) <= {at.get(symbol or "") for symbol in fetched}:
        both = " and ".join(due)
        return f"{spec.name} fetches {both} for no product. Add a PROBE_LDMATRIX or a PROBE_PRODUCT of each."
    wide = [symbol for symbol in fetched if symbol in known and known[symbol].itemsize != 2]
    return f"{spec.name} multiplies {glossary.listed(sorted(map(str, wide)))} of other than 16 bits." if wide else ""


def explain(run: Run, unit: int = 0, key_tile: int = 0) -> ProductStory:
    """The ProductStory of one warp or warpgroup of the traced block, from a key tile on.

    ProblemError if the block has no such warp or tile.
    """
    made = fragments.read(run, unit, key_tile)
    return ProductStory(**vars(made), sums=fragments.sums(made), frames=frames_of(made))


def view(run: Run, story: ProductStory) -> stage.View:
    """The picture `fragments`."""
    matrices = story.matrices
    fetches = [(f.place, f.wavefronts, f.ideal) for f in story.fetches]
    different = {fetch: n for n, fetch in enumerate(dict.fromkeys(fetches))}
    number_of = np.array([*(different[fetch] for fetch in fetches), -1])  # the last one: of no fetch
    columns = {f"{name}_value": fragments.taken(m) for name, m in matrices.items() if name not in story.kinds}
    for name, m in matrices.items():
        known = m.attributes | {"fetch": number_of[m.fetch]}
        columns |= {f"{name}_{key}": a for key, a in known.items() if (a >= 0).any()}
    columns |= vars(story.sums)
    symbols = {place: symbol for symbol, place in picture.places(run.request).items()}
    inputs = [p for p in dict.fromkeys(map(part_of, matrices)) if p in INPUTS]
    meta: FragmentsMeta = {
        "instruction": story.instruction,
        "scale": story.scale,
        "sum_bits": story.sum_bits,
        "dtype": picture.tensor_at(run.request, "Q").dtype,
        "kinds": {name: _shown(kind) for name, kind in story.kinds.items()},
        "matrices": {name: [m.row0, m.col0, *m.value.shape] for name, m in matrices.items()},
        "fetches": [dict(zip(("place", "wavefronts", "ideal"), fetch)) for fetch in different],
        "bases": {part: _base(run.request, part, story.head) for part in inputs},
        "symbols": {part: symbols[part] for part in inputs},
        "frames": story.frames,
    }
    return stage.View("fragments", "fragments", "One product", meta, columns)


def _shown(kind: Kind) -> ShownKind:
    down, across, along = map(axis_words, kind.axes)
    return {
        "a": kind.a,
        "b": kind.b,
        "c": kind.c,
        "labels": {letter: kind.label(letter) for letter in "ABC"},
        "along": along,
        "across": across,
        "down": down,
        "turned": kind.turned,
        "scaled": kind.scaled,
    }


def _base(request: Request, place: str, head: int) -> list[int]:
    """The first element of a query head's matrix, the elements to the next row and to the next dim, and the bytes of
    an element."""
    tensor, o = picture.tensor_at(request, place), picture.tensor_at(request, "O")
    rows = tensor.axes.index(axes.rows(tensor))
    dims = tensor.axes.index("dim")
    outer = [n for n in range(len(tensor.axes)) if n not in (rows, dims)]
    number = head * axes.heads(tensor) // axes.heads(o)
    index = [0] * len(tensor.axes)
    for n, at in zip(outer, np.unravel_index(number, [tensor.shape[n] for n in outer])):
        index[n] = int(at)
    steps = [int(np.prod(tensor.shape[n + 1 :])) for n in range(len(tensor.axes))]
    return [sum(i * s for i, s in zip(index, steps)), steps[rows], steps[dims], tensor.itemsize]


def stage_of(
    run: Run, story: ProductStory, provenance: stage.Provenance, broken: tuple[str, str] = ("", "")
) -> stage.Stage:
    """The whole stage of a run.

    broken: the effect of a build that is broken on purpose, and its tone.
    """
    kernel = run.request.kernel
    names = {
        "kernel": f"{kernel.name} {kernel.title}",
        "noun": tensor_products.units(run.request)[0],
        "products": len(story.products),
        **{key: getattr(story, key) for key in ("instruction", "unit", "walks", "first_tile", "left_out")},
    }
    made = stage.Stage(
        headline=WORDS.say("headline", names),
        frames=story.frames,
        views=[view(run, story), *pieces.views(story)],
        codes=[stage.code(run.request, story.frames)],
        state=states(story),
        tabs=TABS,
        provenance=provenance,
        summary=" ".join(filter(None, [broken[0], WORDS.say("left_out", names), unlogged(story)])),
        tone=broken[1] or "info",
        questions=questions(story),
    )
    wrong, compared = fragments.disagreeing(story, story.sums)
    return stage.warned(made, [WORDS.say("disagreeing", {"wrong": wrong, "compared": compared})] if wrong else [])


TABS = [
    stage.Tab("layout", "Who holds what"),
    stage.Tab("fetches", "Fetches"),
    stage.Tab("builds", "Builds"),
    stage.Tab("data", "Data and labels"),
]


def unlogged(story: ProductStory) -> str:
    """The sentence on sums without records, and on products outside the picture, or an empty text."""
    silent = [
        c
        for c, kind in story.kinds.items()
        if any(p.c == c for p in story.products)
        and not np.isfinite(story.after[c] if kind.grows else story.matrices[c].value).any()
    ]
    absent = (
        [made.made for made in gradients.PRODUCTS if made.made not in story.kinds] if story.walks == "query" else []
    )
    return WORDS.say("unlogged", {"silent": silent, "absent": absent})


def states(story: ProductStory) -> list[stage.State]:
    """The strip: multiply-adds and wavefronts so far, and the cost of the operands' fetches."""
    work = [(p.rows[1] - p.rows[0]) * (p.cols[1] - p.cols[0]) * K for p in story.products]
    found = [stage.State("multiply-adds so far", np.cumsum(work).tolist(), colour="P")]
    if not story.fetches:
        return [*found, stage.State("one instruction", [f"{n:,} multiply-adds" for n in work])]
    done = np.maximum.accumulate([max(p.a, p.b) for p in story.products])
    first = min((n for p in story.products for n in (p.a, p.b) if n >= 0), default=0)
    sums = np.cumsum([f.wavefronts for f in story.fetches])
    before = int(sums[first - 1]) if first else 0
    found.append(stage.State("wavefronts of ldmatrix so far", [int(sums[n]) - before for n in done], colour="load"))
    for title, name in (("reading A took", "a"), ("reading B took", "b")):
        at = [getattr(p, name) for p in story.products]
        found.append(
            stage.State(title, [fetch_cost(story.fetches[n]) if n >= 0 else "nothing: in registers" for n in at])
        )
    return found


def layout_table(story: ProductStory) -> pd.DataFrame:
    """The elements of the first product of each kind, lane by lane, as this run has them: (row, column) within the
    product for each register of A, B and C, and for both halves of a word."""
    rows = []
    for c, kind in story.kinds.items():
        product = next((p for p in story.products if p.c == c and p.tile == story.first_tile), None)
        for part, (name, low, left, high, wide, turned) in _parts(kind, product).items() if product else ():
            m = story.matrices[name]
            lane = m.lane[low - m.row0 : low - m.row0 + high, left - m.col0 : left - m.col0 + wide]
            if not (lane >= 0).any():
                rows.append(
                    {
                        "of": f"{part} = {kind.label(part)}",
                        "lane": "none",
                        "register": "",
                        "elements": "not logged" if part == "C" else "in shared memory: the tensor cores fetch it",
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
                            "of": f"{part} = {kind.label(part)}",
                            "lane": str(one),
                            "register": f"{part.lower()}{number}",
                            "elements": said,
                        }
                    )
    return pd.DataFrame(rows)


def _parts(kind: Kind, product: Product) -> dict[str, tuple[str, int, int, int, int, bool]]:
    """A, B and C of a product: matrix, first row, first column, rows and columns in it, and whether the product
    transposes the matrix, as with K."""
    (r0, r1), (c0, c1), (k0, k1) = product.rows, product.cols, product.k
    found = {}
    for letter, ((top, end), (left, right)) in {
        "A": ((r0, r1), (k0, k1)),
        "B": ((k0, k1), (c0, c1)),
        "C": ((r0, r1), (c0, c1)),
    }.items():
        turned = letter in kind.turned
        (x0, x1), (y0, y1) = ((left, right), (top, end)) if turned else ((top, end), (left, right))
        found[letter] = (kind.name(letter), x0, y0, x1 - x0, y1 - y0, turned)
    return found


def fetches_table(story: ProductStory) -> pd.DataFrame:
    """The number of ldmatrix of each source line, their wavefronts, and the smallest possible number of wavefronts."""
    rows = [
        {"source line": f.place, "of": f.tensor, "ldmatrix": 1, "wavefronts": f.wavefronts, "at best": f.ideal}
        for f in story.fetches
    ]
    if not rows:
        return pd.DataFrame()
    return pd.DataFrame(rows).groupby(["source line", "of"], as_index=False, sort=False).sum()
