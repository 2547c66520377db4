"""The story of tensor cores: one product at a time, with the lane and register of every number."""

from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import pandas as pd

from explainers.models import gradients, tiling
from explainers.stories.tensor_cores import fragments, tensor_products
from explainers.stories.tensor_cores.fragments import WORDS, axis_words
from explainers.stories.tensor_cores.tensor_products import LANES, Fetch, K, Kind, Product, part_of, walks_queries
from explainers.story import axes, glossary, picture, probed, scene, stage
from explainers.story.base import Part, Runner, Story
from explainers.story.glossary import count
from explainers.story.stage import Block, Question, Stage, State
from kernels.core.request import Request
from kernels.core.spec import KernelSpec
from kernels.run.results import Run
from kernels.trace.probes import sites_of

WANTS = ("score", "p", "o", "rescale")
NEEDS = {"score": ("row", "col"), "p": ("row", "col"), "o": ("row", "tile", "dim"), "rescale": ("row", "tile")}
INPUTS = ("Q", "K", "V", "dO")  # operands with a tensor in global memory
ROWS = 8  # of a matrix of ldmatrix, and pieces of 128 bytes
PIECE, LINE = 16, 128  # bytes
AHEAD = 5  # columns from the first one to the asked one
WARP_ROWS = 16  # of a warp. A warpgroup has four times as many
SPOKEN = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight"]


@dataclass(frozen=True)
class Unit:
    """A warp or warpgroup of the traced block.

    unit: its number.
    key_tile: the first key tile of the picture.
    """

    request: Request
    unit: int
    key_tile: int


class TensorCores(Story[Unit]):
    """The products of one warp or warpgroup."""

    WANTS = WANTS

    def refusal(self, spec: KernelSpec) -> str:
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
        return (
            f"{spec.name} multiplies {glossary.listed(sorted(map(str, wide)))} of other than 16 bits." if wide else ""
        )

    def stage(self, subject: Unit, runner: Runner) -> Stage:
        run = runner.run(subject.request)
        story = explain(subject, runner)
        return stage_of(run, story, runner.provenance(run), runner.broken(run))

    def parts(self) -> dict[str, Part[Unit]]:
        return {"layout": layout_tab, "fetches": fetches_tab}


def explain(subject: Unit, runner: Runner) -> fragments.Story:
    return fragments.explain(runner.run(subject.request), subject.unit, subject.key_tile)


def stage_of(
    run: Run, story: fragments.Story, provenance: stage.Provenance, broken: tuple[str, str] = ("", "")
) -> Stage:
    """The whole stage of a run.

    broken: the effect of a build that is broken on purpose, and its tone.
    """
    kernel = run.request.kernel
    names = {
        "kernel": f"{kernel.name} {kernel.title}",
        "noun": tensor_products.units(run.request)[0],
        "products": len(story.products),
        **{
            key: getattr(story, key)
            for key in ("instruction", "unit", "walks", "first_tile", "left_out", "wrong", "compared")
        },
    }
    made = Stage(
        headline=WORDS.say("headline", names),
        frames=story.frames,
        views=[view(run, story), *pieces(story)],
        codes=[stage.code(run.request, story.frames)],
        state=states(story),
        tabs=[stage.Tab("layout", "Who holds what"), stage.Tab("fetches", "Fetches"), stage.BUILDS, stage.DATA],
        provenance=provenance,
        summary=" ".join(filter(None, [broken[0], WORDS.say("left_out", names), unlogged(story)])),
        tone=broken[1] or "info",
        questions=questions(story),
    )
    return stage.warned(made, [WORDS.say("disagreeing", names)] if story.wrong else [])


class ShownProduct(TypedDict):
    """One product.

    phase: the name of its kind, such as S. It decides A and B.
    rows, cols: [first, end) of C.
    k: [first, end) of the summed dims, keys or queries.
    """

    phase: str
    rows: list[int]
    cols: list[int]
    k: list[int]


class ShownKind(TypedDict):
    """One kind of product, as tensor_products.Kind.

    a, b, c: the names of its matrices.
    labels: A, B and C in words.
    along, across, down: what the sum, the columns and the rows of C count.
    """

    a: str
    b: str
    c: str
    labels: dict[str, str]
    along: str
    across: str
    down: str
    turned: str
    scaled: bool


class FragmentsMeta(TypedDict):
    """The fields of the view.

    instruction: mma.sync or wgmma.
    scale: the factor from S to the scores.
    sum_bits: bits of the sums, 32 or 16.
    dtype: of A and B.
    kinds: the name of C -> its kind.
    matrices: name -> [first row, first column, rows, columns] of the shown part.
    fetches: place, wavefronts and ideal of ldmatrix, each different one once.
    bases: part -> [first element of this head, elements from row to row, from dim to dim, bytes of one], in global
        memory.
    symbols: part -> the kernel's name for it.

    Columns, for each matrix NAME: NAME_value of an operand as the instruction takes it, and NAME_lane, NAME_register,
        NAME_half, NAME_byte, NAME_fetch and NAME_by if it has them (tensor_products.Matrix), [rows, columns]. Of C:
        places, c, due, logged and error (fragments.Sums).
    """

    instruction: str
    scale: float
    sum_bits: int
    dtype: str
    kinds: dict[str, ShownKind]
    matrices: dict[str, list[int]]
    fetches: list[dict[str, object]]
    bases: dict[str, list[int]]
    symbols: dict[str, str]
    frames: list[ShownProduct]


def view(run: Run, story: fragments.Story) -> stage.View:
    """The picture `fragments`. Of what no shown product has, nothing is sent."""
    matrices, columns = story.matrices, dict[str, np.ndarray]()
    fetches = [(f.place, f.wavefronts, f.ideal) for f in story.fetches]
    different = {fetch: n for n, fetch in enumerate(dict.fromkeys(fetches))}
    number_of = np.array([*(different[fetch] for fetch in fetches), -1])  # the last one: of no fetch
    seen = {name: np.zeros(m.value.shape, bool) for name, m in matrices.items()}
    for product in story.shown:
        for name, low, left, high, wide, _ in parts_of(story.kinds[product.c], product).values():
            m = matrices[name]
            rows, cols = (max(0, low - m.row0), low - m.row0 + high), (max(0, left - m.col0), left - m.col0 + wide)
            seen[name][slice(*rows), slice(*cols)] = True
    for name, m in matrices.items():
        known = m.attributes | {"fetch": number_of[m.fetch]}
        columns |= {f"{name}_{key}": np.where(seen[name], a, -1) for key, a in known.items() if (a >= 0).any()}
        if name not in story.kinds:
            columns[f"{name}_value"] = np.where(seen[name], fragments.taken(m), 0)
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
        "frames": [{"phase": p.c, "rows": [*p.rows], "cols": [*p.cols], "k": [*p.k]} for p in story.shown],
    }
    return stage.View("fragments", "fragments", "One product", meta, columns | story.sums._asdict())


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


def unlogged(story: fragments.Story) -> str:
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


def states(story: fragments.Story) -> list[State]:
    """The strip: multiply-adds and wavefronts so far, and the cost of the operands' fetches."""
    work = [(p.rows[1] - p.rows[0]) * (p.cols[1] - p.cols[0]) * K for p in story.products]
    found = [State("multiply-adds so far", np.cumsum(work)[story.steps].tolist(), colour="P")]
    if not story.fetches:
        return [*found, State("one instruction", [f"{work[n]:,} multiply-adds" for n in story.steps])]
    done = np.maximum.accumulate([max(p.a, p.b) for p in story.products])[story.steps]
    first = min((n for p in story.products for n in (p.a, p.b) if n >= 0), default=0)
    sums = np.cumsum([f.wavefronts for f in story.fetches])
    before = int(sums[first - 1]) if first else 0
    found.append(State("wavefronts of ldmatrix so far", [int(sums[n]) - before for n in done], colour="load"))
    for title, name in (("reading A took", "a"), ("reading B took", "b")):
        at = [getattr(p, name) for p in story.shown]
        found.append(State(title, [fetch_cost(story.fetches[n]) if n >= 0 else "nothing: in registers" for n in at]))
    return found


def layout_table(story: fragments.Story) -> pd.DataFrame:
    """The elements of the first product of each kind, lane by lane, as this run has them: (row, column) within the
    product for each register of A, B and C, and for both halves of a word."""
    rows = []
    for c, kind in story.kinds.items():
        product = next((p for p in story.products if p.c == c and p.tile == story.first_tile), None)
        for part, (name, low, left, high, wide, turned) in parts_of(kind, product).items() if product else ():
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


def parts_of(kind: Kind, product: Product) -> dict[str, tuple[str, int, int, int, int, bool]]:
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


def fetches_table(story: fragments.Story) -> pd.DataFrame:
    """The number of ldmatrix of each source line, their wavefronts, and the smallest possible number of wavefronts."""
    rows = [
        {"source line": f.place, "of": f.tensor, "ldmatrix": 1, "wavefronts": f.wavefronts, "at best": f.ideal}
        for f in story.fetches
    ]
    if not rows:
        return pd.DataFrame()
    return pd.DataFrame(rows).groupby(["source line", "of"], as_index=False, sort=False).sum()


def layout_tab(subject: Unit, runner: Runner) -> list[Block]:
    """The elements of the first products, lane by lane."""
    by_warp = tensor_products.units(subject.request)[0] == "warp"
    table = layout_table(explain(subject, runner))
    return [stage.heading("Who holds which element"), stage.table(table, WORDS.say("layout", {"by_warp": by_warp}))]


def fetches_tab(subject: Unit, runner: Runner) -> list[Block]:
    """The cost of the ldmatrix of each source line."""
    table = fetches_table(explain(subject, runner))
    if table.empty:
        said = "No ldmatrix. The tensor cores read A and B from shared memory. TMA has swizzled both."
        return [stage.note(said)]
    said = f"Warp {subject.unit}: addresses logged, wavefronts derived. Each of four matrices needs at least one."
    return [stage.heading("The cost of ldmatrix, line by line"), stage.table(table, said)]


# ---- rows in the banks ----


def pieces(story: fragments.Story) -> list[stage.View]:
    """The pieces of eight rows of the first B in the banks: in order, and in the order of a swizzle. An empty list
    without ldmatrix, or with shorter rows.

    A row of 128 bytes fills all 32 banks once. A piece has 16 bytes, so a row has eight places of four banks each. A
    matrix of ldmatrix takes one piece of each of eight rows.
    """
    first = story.products[0] if story.products else None
    if first is None or first.b < 0 or first.c != "S":
        return []
    b = story.kinds["S"].b
    k = story.matrices[b]
    row, item = first.cols[0] - k.row0, 2
    bytes_of = k.byte[row : row + ROWS, : LINE // item : PIECE // item]
    if bytes_of.shape != (ROWS, ROWS) or (bytes_of < 0).any():
        return []
    places, n = bytes_of % LINE // PIECE, np.arange(ROWS)
    orders = {"In order": np.tile(n, (ROWS, 1)), "Swizzled": n[:, None] ^ n}
    taken = first.k[0] % (LINE // item) // (PIECE // item)
    line = list[scene.Panel]()
    turns = list[scene.Panel]()
    for side, (title, order) in enumerate(orders.items()):
        names = {"title": title, "side": side, "own": (places == order).all()}
        at = np.argsort(order, axis=1).ravel().tolist()  # the piece at each place, row by row
        most = int(np.bincount(order[:, taken]).max())
        line.append(
            scene.Cells(
                part=title,
                title=[[f"{WORDS.say('order', names)}: {WORDS.say('rule', names)}", WORDS.say("order", names)]],
                columns=ROWS,
                states=["".join("t" if piece == taken else "." for piece in at)] * len(story.steps),
                colours={"t": part_of(b), ".": "panel"},
                words=WORDS.table("pieces"),
                axes=("row", "place"),
                places=[
                    WORDS.say(
                        "piece", {"title": title, "piece": piece, "key": first.cols[0] + n // ROWS, "place": n % ROWS}
                    )
                    for n, piece in enumerate(at)
                ],
                names=[f"key {first.cols[0] + row}" for row in range(ROWS)],
                tops=[str(4 * place) for place in range(ROWS)],
                texts=[str(piece) for piece in at],
            )
        )
        said = WORDS.say("turns", {"turns": most})
        turns.append(scene.Lines(lines=[scene.Line(texts=[said], bold=True, datum={"side": side, "turns": 1})]))
    legend = [(part_of(b), WORDS.say("taken", {})), ("", WORDS.say("numbers", {}))]
    return [scene.view("pieces", "Rows in the banks", [line, turns], legend=legend)]


# ---- questions ----


def questions(story: fragments.Story) -> list[Question]:
    """The questions of the story."""
    if not story.products or story.products[0].c != "S":
        return []
    names = {"instruction": story.instruction, "spread": _spread(story), "owner": _owner(story), "fetch": _fetch(story)}
    return WORDS.questions(names, 0)


def _lanes(story: fragments.Story, product: Product) -> np.ndarray:
    """The lane of each score of a product, -1 without a record: [rows, keys]."""
    lane = _window(story, product, "lane")
    return np.where(lane >= 0, lane % LANES, -1)


def _window(story: fragments.Story, product: Product, what: str) -> np.ndarray:
    """An attribute of the product's C, [rows, columns]."""
    c, (top, end), (left, right) = story.matrices[product.c], product.rows, product.cols
    whole, down, across = c.attributes[what], c.row0, c.col0
    if "C" in story.kinds[product.c].turned:
        whole, down, across = whole.T, across, down
    return whole[top - down : end - down, left - across : right - across]


def _named(story: fragments.Story, row: int, col: int) -> str:
    """A score of the first product by its row and column there."""
    at = (col, row) if "C" in story.kinds["S"].turned else (row, col)
    return f"S[{at[0]}, {at[1]}]"


def _spread(story: fragments.Story) -> dict[str, object] | None:
    """How the scores of a row are spread over the lanes of a warp. None unless all scores of the row have a record."""
    first = story.products[0]
    lanes = _lanes(story, first)
    full = np.flatnonzero((lanes >= 0).all(axis=1))
    if not len(full):
        return None
    mine = lanes[full[0]]
    row, left = first.rows[0] + int(full[0]), first.cols[0]
    owners = np.unique(mine)
    return {
        "i": int(full[0]),
        "row": row,
        "first": int(owners[0]),
        "last": int(owners[-1]),
        "lane": int(mine[0]),
        "lanes": _spoken(len(owners)),
        "each": _spoken(len(mine) // len(owners)),
        "wide": _spoken(len(mine)),
        "held": _spoken(int((lanes[:WARP_ROWS] == owners[0]).sum())),
        "two": [_named(story, row, left), _named(story, row, left + 1)],
    }


def _owner(story: fragments.Story) -> dict[str, object] | None:
    """The lane of one score of the first product."""
    first = story.products[0]
    lanes, registers = _lanes(story, first), _window(story, first, "register")
    seen = np.flatnonzero(lanes[:, AHEAD : AHEAD + 1] >= 0)  # none with fewer columns
    if not len(seen):
        return None
    i, left = int(seen[0]), first.cols[0]  # the first row with this column, and the ones before it
    row = first.rows[0] + i
    lane, begin = int(lanes[i, AHEAD]), int(lanes[i, 0])
    four = list(range(begin, begin + 4))  # lanes of a row are neighbours
    names = [_named(story, row, left + n) for n in range(lanes.shape[1])]
    held = {n: [names[int(c)] for c in np.flatnonzero(lanes[i] == n)][:2] for n in four}
    return {
        "i": i,
        "j": AHEAD,
        "covered": [AHEAD - 1, AHEAD],
        "row": row,
        "lane": lane,
        "register": int(registers[i, AHEAD]),
        "beside": int(lanes[i, 2]),
        "four": four,
        "asked": names[AHEAD],
        "names": names,
        "others": [{"lane": n, "held": held[n]} for n in four if n != lane],
    }


def _fetch(story: fragments.Story) -> dict[str, object] | None:
    """How shared memory serves the ldmatrix of the first B. None without its picture."""
    first = story.products[0]
    if first.b < 0 or not pieces(story):
        return None
    fetch, a = story.fetches[first.b], story.fetches[first.a] if first.a >= 0 else None
    lowest = min(n for p in story.products for n in (p.a, p.b) if n >= 0)
    so_far = sum(one.wavefronts for one in story.fetches[lowest : max(first.a, first.b) + 1])
    clash = fetch.wavefronts > fetch.ideal
    return {
        "tensor": fetch.tensor,
        "wavefronts": fetch.wavefronts,
        "ideal": fetch.ideal,
        "clash": clash,
        "turns": _spoken(fetch.wavefronts // fetch.ideal),
        "covers": [{"turns": 1}, {"part": "Swizzled"}] if clash else [{"turns": 1}],
        "hides": [*(fetch_cost(f) for f in (fetch, a) if f), str(so_far)],
    }


def _spoken(number: int) -> str:
    return SPOKEN[number] if number < len(SPOKEN) else str(number)


def fetch_cost(fetch: Fetch) -> str:
    return f"{count(fetch.wavefronts, 'wavefront')}, {fetch.ideal} at best"


STORY = TensorCores()
