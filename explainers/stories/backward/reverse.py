"""The picture `reverse`: the map of a tile's products with the loss at its end, the price of P, a row of the run with
numbers from dP to dS, and the tiles of the block's loop."""

from functools import cache
from typing import TypedDict

import numpy as np

from explainers.models import gradients
from explainers.stories.backward.walk import Walk
from explainers.story import stage
from explainers.story.frames import Frame
from explainers.story.glossary import BYTES, amount
from explainers.story.words import Row, Words
from kernels.core.remembered import of_recordings
from kernels.recordings import tables
from kernels.run.results import Run

WORDS = Words.of(str(__package__), "reverse.toml")
MADE = {  # phase -> the parts that it makes
    "map": (),
    "error": ("dO",),
    "kept": ("LSE",),
    "again": ("S", "P"),
    "price": (),
    "values": ("dV", "dP"),
    "grades": ("delta",),
    "share": (),
    "hand": ("dS",),
    "gradients": ("dQ", "dK"),
    "next": (),
}
PHASES = (*MADE,)
MODELLED = ("share", "hand")  # the numbers under a hand
PRODUCTS = {name: n for n, name in enumerate(("S", "dV", "dP", "dQ", "dK"), 1)}  # in the order of the steps
ALL_MADE = [part for parts in MADE.values() for part in parts if part not in ("dO", "LSE")]
FEW = range(3, 6)  # keys of a row whose average can be seen
READS: dict[str, tuple[str, ...]] = {product.made: product.reads for product in gradients.PRODUCTS}
READS |= {"O": ("P", "V"), "P": ("S", "LSE"), "delta": ("dO", "O"), "dS": ("P", "dP", "delta")}
LONG, WIDE, ITEM = 16_384, 128, 2  # tokens, head_dim and bytes of a number, of the price of P
SIZES = {  # of all queries of this long text, one head
    "tokens": f"{LONG:,}",
    "P": amount(LONG * LONG * ITEM, BYTES),
    "LSE": amount(LONG * 4, BYTES),
    "dQ": amount(LONG * WIDE * 4, BYTES),
}
FLOP_OF_EXP = 16  # fp32 FLOP in the time of an exponential: 256 FLOP and 16 exponentials a clock on an SM of sm_90


class Part(TypedDict):
    """A matrix of the map.

    said: its name in words. product: its number among the products of the backward, or 0.
    reads: its inputs. made: the step that makes or first shows it, or -1 if the forward has it.
    """

    said: str
    product: int
    reads: list[str]
    made: int


class Numbers(TypedDict):
    """The numbers of a query.

    keys: all that the query sees, if they are few. Else the ones with its largest weights.
    of: of how many keys.
    """

    query: int
    keys: list[int]
    of: int
    S: list[float]
    P: list[float]
    dP: list[float]
    dS: list[float]
    delta: float
    LSE: float


class Price(TypedDict):
    """The times of P, in whole µs: kept in memory, and made again. Each is a list of [words, µs]."""

    keep: list[tuple[str, float]]
    make: list[tuple[str, float]]
    words: dict[str, str]
    said: str


class ReverseMeta(TypedDict):
    """The fields of the view `reverse`.

    phases: the name of each step. made: at each step, the parts of the map.
    row: the numbers with bars. row_words: next to them. hand: the words under a hand. {name} stands for a value.
    spans: the queries of all tiles of the keys. others: whether other blocks have other keys. loop_words: next to them.
    map_words: on the map. sizes: P and LSE of all queries of a long text, in bytes, as words.
    price: for the step `price`, or None.
    provenances: the source of each step. None: the page's, the run.
    short: part -> its formula. below: the sources of the numbers.
    """

    frames: list[Frame]
    parts: dict[str, Part]
    phases: list[str]
    made: list[list[str]]
    row: Numbers
    row_words: dict[str, str]
    map_words: dict[str, str]
    spans: list[str]
    others: bool
    loop_words: dict[str, str]
    sizes: dict[str, str]
    price: Price | None
    provenances: list[dict[str, str] | None]
    hand: dict[str, str]
    short: dict[str, str]
    below: dict[str, str]


def views(run: Run, walk: Walk) -> list[stage.View]:
    """The picture in a list. An empty list for a kernel that does not log all parts of a tile."""
    tiles = [tile for tile in _tiles(walk) if {*ALL_MADE} - {"delta"} <= tile["state"].keys()]
    if not tiles:
        return []
    price = priced()
    adds = len(tiles) > 1 and gradients.adds(run.request)
    phases = [phase for phase in PHASES if (phase != "price" or price) and (phase != "next" or adds)]
    lines = {part: row["lines"] for row in reversed(walk.steps) for part in row["made"] if not row["whole"]}
    rows: list[Row] = [
        {"phase": p, "tile": -1, "lines": {at: n for part in MADE[p] for at, n in lines.get(part, {}).items()}}
        for p in phases
    ]
    row = _row(run, walk.head, tiles[0])
    names: Row = {"query": row["query"], "count": len(row["keys"]), "tokens": f"{LONG:,}", "bits": 8 * ITEM}
    own = _price(price) if price else None
    words = WORDS.table("hand")
    below = WORDS.table("below")
    causal = below.pop("causal")
    below |= {"row": causal} if row["of"] == row["query"] + 1 else {}
    said = {p: words["modelled"] for p in MODELLED} | ({"price": own["said"]} if own else {})
    meta: ReverseMeta = {
        "frames": WORDS.frames(rows, {"price": price, "sizes": SIZES}),
        "parts": _parts(phases),
        "phases": phases,
        "made": [[*MADE[phase]] for phase in phases],
        "row": row,
        "row_words": WORDS.table("row"),
        "map_words": WORDS.table("map"),
        "spans": _spans(walk, tiles[0]),
        "others": gradients.key_tiles(run.request) > 1,
        "loop_words": WORDS.table("loop"),
        "sizes": {part: SIZES[part] for part in ("P", "LSE")},
        "price": own,
        "provenances": [{"label": "modelled", "said": said[p]} if p in said else None for p in phases],
        "hand": words,
        "short": WORDS.table("short"),
        "below": {scene: said.format(**names) for scene, said in below.items()},
    }
    return [stage.View("reverse", "reverse", "In reverse", {**meta, "clock": True, "state": []})]


def steps_of(view: stage.View) -> dict[str, int]:
    """Phase -> its step."""
    return {phase: step for step, phase in enumerate(view.meta["phases"])}


def _tiles(walk: Walk) -> list[Row]:
    """The row of the first tile with all its numbers, and the one of the next queries of the same keys."""
    whole = [row for row in walk.steps[:1] if row["whole"]]
    later = (
        row
        for row in walk.steps
        if row["again"] and whole and row["keys"] == whole[0]["keys"] and row["queries"] != whole[0]["queries"]
    )
    return [*whole, *[row for row in [next(later, None)] if row]]


def _parts(phases: list[str]) -> dict[str, Part]:
    shown = [(part, n) for n, phase in enumerate(phases) for part in MADE[phase] if part not in ("S", "P")]
    first = dict(shown)
    return {
        part: {
            "said": said,
            "product": PRODUCTS.get(part, 0),
            "reads": list(READS.get(part, ())),
            "made": first.get(part, -1),
        }
        for part, said in WORDS.table("parts").items()
    }


def _numbers(run: Run, head: int, part: str, tile: Row) -> np.ndarray:
    """The numbers of a part in a tile [rows, columns]."""
    if part in tile["state"] and part != "delta":
        return np.nan_to_num(tile["state"][part].numbers)
    of_keys = gradients.along_keys(part)
    first, last = tile["keys" if of_keys else "queries"]
    from_head = head if of_keys else head + tile["head"]
    if part == "delta":
        o, do = (gradients.values(run, one, from_head)[first : last + 1] for one in ("O", "dO"))
        return (o * do).sum(axis=1, keepdims=True)
    return gradients.values(run, part, from_head)[first : last + 1].reshape(last - first + 1, -1)


def _row(run: Run, head: int, tile: Row) -> Numbers:
    """The row of few keys with the most even weights. A run without one: four large weights of the first row."""
    of = {part: _numbers(run, head, part, tile) for part in ("S", "P", "dP", "dS", "delta", "LSE")}
    weights = of["P"]
    keys = [np.flatnonzero(row) for row in weights]
    whole = [n for n, row in enumerate(weights) if len(keys[n]) in FEW and abs(row.sum() - 1) < 1e-3]
    row = max(whole, key=lambda n: weights[n][keys[n]].min(), default=0)
    columns = keys[row] if whole else np.sort(np.argsort(-weights[row])[:4])
    shown = {part: of[part][row][columns].tolist() for part in ("S", "P", "dP", "dS")}
    _, tokens, _ = gradients.sizes(run.request)
    return {
        "query": tile["queries"][0] + row,
        "keys": [tile["keys"][0] + int(column) for column in columns],
        "of": len(columns) if whole else tokens,
        "S": shown["S"],
        "P": shown["P"],
        "dP": shown["dP"],
        "dS": shown["dS"],
        "delta": float(of["delta"][row, 0]),
        "LSE": float(of["LSE"][row, 0]),
    }


def _spans(walk: Walk, tile: Row) -> list[str]:
    """The queries of each tile that the block of these keys walks over."""
    known = {tuple(row["queries"]) for row in walk.steps if row["queries"] and row["keys"] == tile["keys"]}
    return [f"{first} to {last}" for first, last in sorted(known)]


# ---- the price of P ----


@of_recordings(cache)
def priced() -> Row | None:
    """The times of P of one head, in whole µs, from the newest measured rates of a GPU. None without rates."""
    for _, where in tables.recorded("bench").values():
        roofs = where.roofs
        if not {"copy_gb_per_s", "fp16_tflops", "fp32_tflops"} <= roofs.keys():
            continue
        pairs = LONG * LONG
        write = read = round(pairs * ITEM / (roofs["copy_gb_per_s"] * 1e3))
        product = round(2 * pairs * WIDE / (roofs["fp16_tflops"] * 1e6))
        exp = round(pairs * FLOP_OF_EXP / (roofs["fp32_tflops"] * 1e6))
        found: Row = {"write": write, "read": read, "product": product, "exp": exp}
        found |= {"kept_us": write + read, "made_us": product + exp}
        place = {"device": where.device.removeprefix("NVIDIA "), "date": where.date}
        size = amount(pairs * ITEM, BYTES)
        return found | place | {"tokens": LONG, "dim": WIDE, "bits": 8 * ITEM, "size": size}
    return None


def _price(price: Row) -> Price:
    words = WORDS.table("price")
    words["keep"] = words["keep"].format(**price)

    def amounts(*names: str) -> list[tuple[str, float]]:
        return [(words[name], float(price[name])) for name in names]

    return {
        "keep": amounts("write", "read"),
        "make": amounts("product", "exp"),
        "words": words,
        "said": WORDS.say("price", price),
    }
