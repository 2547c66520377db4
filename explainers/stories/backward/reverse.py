"""The picture `reverse`: the products of the forward in reverse, on the numbers of a tile of the run. Below it: the
bytes of the forward, four numbers of a row as bars, or the tiles of the block's loop."""

from functools import cache
from itertools import combinations
from typing import TypedDict

import numpy as np

from explainers.models import gradients
from explainers.stories.backward import picture as pictures
from explainers.stories.backward.walk import Walk
from explainers.story import stage
from explainers.story.frames import Frame
from explainers.story.glossary import BYTES, amount
from explainers.story.words import Row, Words
from kernels.core.remembered import of_recordings
from kernels.recordings import tables
from kernels.run.results import Run

WORDS = Words.of(str(__package__), "reverse.toml")
FORWARD = ("Q", "K", "V", "S", "P", "LSE", "O")
MADE = {  # phase -> the parts that it makes
    "weights": ("S", "P"),
    "values": ("dV", "dP"),
    "mean": ("delta",),
    "score_gradients": ("dS",),
    "queries": ("dQ", "dK"),
}
PHASES = ("forward", "kept", "weights", "price", "values", "share", *[*MADE][2:], "next", "hand")
PRODUCTS = {name: n for n, name in enumerate(("S", "dV", "dP", "dQ", "dK"), 1)}  # in the order of the steps
ALL_MADE = [part for parts in MADE.values() for part in parts]
BARS, AMONG = 4, 6  # numbers of a row, of its largest weights
READS: dict[str, tuple[str, ...]] = {product.made: product.reads for product in gradients.PRODUCTS}
READS |= {"O": ("P", "V"), "P": ("S", "LSE"), "delta": ("dO", "O"), "dS": ("P", "dP", "delta")}
LONG, WIDE, ITEM = 16_384, 128, 2  # tokens, head_dim and bytes of a number, of the price of P
FLOP_OF_EXP = 16  # fp32 FLOP in the time of an exponential: 256 FLOP and 16 exponentials a clock on an SM of sm_90


class Part(TypedDict):
    """A matrix of the picture.

    said: its name in words.
    formula: in place of its name, at its own step.
    scaled: whether its numbers have the factor `scale`, as S has.
    product: its number among the products of the backward, or 0.
    rows, columns: the names of its axes.
    windows: of each tile: its first number in the column `numbers`, its rows, columns, first row and first column.
    reads: its inputs.
    seen: at each step, whether it is there.
    notes: at each step, a word next to its name.
    """

    said: str
    formula: str
    scaled: bool
    product: int
    rows: str
    columns: str
    windows: list[list[int]]
    reads: list[str]
    seen: list[bool]
    notes: list[str]


class Price(TypedDict):
    """The times of P, in whole µs: kept in memory, and made again. Each is a list of [words, µs]."""

    keep: list[tuple[str, float]]
    make: list[tuple[str, float]]
    words: dict[str, str]
    said: str


class Kept(TypedDict):
    """The bytes of the tensors of a long problem. square: the one that the forward does not keep, and its row in words.

    less: of the smallest of the parts. {times} stands for a number.
    parts: of each other tensor, its name, its bytes, and these in words. says: phase -> a sentence.
    """

    title: str
    says: dict[str, str]
    square: tuple[str, float, str]
    gone: str
    less: str
    parts: list[tuple[str, float, str]]


class ReverseMeta(TypedDict):
    """The fields of the view `reverse`.

    tile: at each step, the number of the tile of queries.
    phases: the name of each step. made: at each step, its parts.
    bars: of each tile, the numbers with bars: their row and columns in the tile. bar_words: next to them. {name} stands
    for a value.
    tiles: of each tile, its queries and keys in words. spans: the queries of all tiles of the keys.
    kept: for the first steps. price: for the step `price`, or None.
    hand: the sentences under a hand. {name} stands for a value.
    formulas: phase -> its formula, and what it means.
    """

    frames: list[Frame]
    parts: dict[str, Part]
    tile: list[int]
    phases: list[str]
    made: list[list[str]]
    bars: list[list[int]]
    bar_words: dict[str, str]
    tiles: list[str]
    spans: list[str]
    loop_words: dict[str, str]
    kept: Kept
    price: Price | None
    hand: dict[str, str]
    gradient: str
    formulas: dict[str, list[str]]


def views(run: Run, walk: Walk) -> list[stage.View]:
    """The picture in a list. An empty list for a kernel that does not log all parts of a tile."""
    tiles = [tile for tile in _tiles(walk) if {*ALL_MADE} - {"delta"} <= tile["state"].keys()]
    if not tiles:
        return []
    price = priced()
    phases = [phase for phase in PHASES if (phase != "price" or price) and (phase != "next" or len(tiles) > 1)]
    lines = {part: row["lines"] for row in reversed(walk.steps) for part in row["made"] if not row["whole"]}
    rows: list[Row] = [
        {"phase": p, "tile": -1, "lines": {at: n for part in MADE.get(p, ()) for at, n in lines.get(part, {}).items()}}
        for p in phases
    ]
    parts, numbers = _parts(run, walk.head, tiles, phases)
    n, keys, _ = gradients.sizes(run.request)
    heads = gradients.group_of(run.request) > 1
    said = [{"queries": t["queries"], "keys": t["keys"], "n": max(n, keys), "head": ""} for t in tiles]
    meta: ReverseMeta = {
        "frames": WORDS.frames(rows, {"price": price}),
        "parts": parts,
        "tile": [int(phases.index("next") <= at) if "next" in phases else 0 for at in range(len(phases))],
        "phases": phases,
        "made": [[*MADE.get(phase, ())] for phase in phases],
        "bars": [_bars(parts, numbers, tile) for tile in range(len(tiles))],
        "bar_words": WORDS.table("bars"),
        "tiles": [WORDS.say("tile", one | {"head": f"head {walk.head}, " if heads else ""}) for one in said],
        "spans": _spans(walk, tiles[0]),
        "loop_words": WORDS.table("loop"),
        "kept": _kept(),
        "price": _price(price) if price else None,
        "hand": WORDS.table("hand"),
        "gradient": WORDS.say("gradient", {}),
        "formulas": {name: [*said.split(": ", 1)] for name, said in WORDS.table("formulas").items()},
    }
    return [stage.View("reverse", "reverse", "In reverse", {**meta, "clock": True, "state": []}, {"numbers": numbers})]


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


def _parts(run: Run, head: int, tiles: list[Row], phases: list[str]) -> tuple[dict[str, Part], np.ndarray]:
    """Each part, and the numbers of all parts."""
    found = dict[str, Part]()
    columns = list[np.ndarray]()
    scaled = _scaled(run, head, tiles[0])
    said, notes, formulas = WORDS.table("parts"), WORDS.table("notes"), pictures.formulas(adds=False)
    for part in said:
        along = "key" if gradients.along_keys(part) else "query"
        across = "key" if part in gradients.SQUARES else "" if part in ("LSE", "delta") else "dim"
        windows = list[list[int]]()
        for tile in tiles:
            numbers, row, col = _numbers(run, head, part, tile)
            windows.append([sum(one.size for one in columns), *numbers.shape, row, col])
            columns.append(numbers.ravel())
        found[part] = {
            "said": said[part],
            "formula": formulas.get(part, "").removeprefix(part).strip(),
            "scaled": part in scaled,
            "product": PRODUCTS.get(part, 0),
            "rows": along,
            "columns": across,
            "windows": windows,
            "reads": list(READS.get(part, ())),
            "seen": [_seen(part, phases[: at + 1]) for at in range(len(phases))],
            "notes": [_note(part, phases[: at + 1], notes) for at in range(len(phases))],
        }
    return found, np.concatenate(columns).astype(np.float32)


def _scaled(run: Run, head: int, tile: Row) -> list[str]:
    """The parts of a tile whose numbers have the factor `scale`, as logged."""
    of = {part: np.nan_to_num(_numbers(run, head, part, tile)[0]) for part in ("Q", "K", "dS", "dQ", "dK")}
    plain = {"dQ": of["dS"] @ of["K"], "dK": of["dS"].T @ of["Q"]}
    scale = float(str(run.request.problem.sizes["scale"]))
    return ["S", *(p for p, due in plain.items() if np.abs(of[p] - scale * due).max() < np.abs(of[p] - due).max())]


def _numbers(run: Run, head: int, part: str, tile: Row) -> tuple[np.ndarray, int, int]:
    """The numbers of a part in a tile [rows, columns], and their first row and column."""
    if part in tile["state"] and part != "delta":
        logged = tile["state"][part]
        return logged.numbers, logged.row, logged.col
    of_keys = gradients.along_keys(part)
    first, last = tile["keys" if of_keys else "queries"]
    from_head = head if of_keys else head + tile["head"]
    if part == "delta":
        o, do = (gradients.values(run, one, from_head)[first : last + 1] for one in ("O", "dO"))
        return (o * do).sum(axis=1, keepdims=True), first, 0
    numbers = gradients.values(run, part, from_head)[first : last + 1]
    return numbers.reshape(last - first + 1, -1), first, 0


def _seen(part: str, phases: list[str]) -> bool:
    """Whether a part is there after these phases."""
    if part == "dO":
        return "kept" in phases
    if part in ("S", "P"):
        return "kept" not in phases or "weights" in phases
    return part in FORWARD or any(part in MADE.get(phase, ()) for phase in phases)


def _bars(parts: dict[str, Part], numbers: np.ndarray, tile: int) -> list[int]:
    """A row and columns: large weights of a row, so that one that grows takes a visible share from the others. Their
    dS have both signs and like sizes."""

    def of(part: str) -> np.ndarray:
        first, rows, columns, *_ = parts[part]["windows"][tile]
        return np.nan_to_num(numbers[first : first + rows * columns].reshape(rows, columns))

    d_scores, d_weights, delta, weights = of("dS"), of("dP"), of("delta"), of("P")
    count = min(BARS, d_scores.shape[1])

    def worth(place: tuple[int, tuple[int, ...]]) -> float:
        row, here = place[0], [*place[1]]
        sizes, most = np.abs(d_scores[row, here]), np.abs(d_weights[row, here]).max()
        even, share = sizes.min() / max(sizes.max(), 1e-30), abs(delta[row, 0]) / max(most, 1e-30)
        both = d_scores[row, here].min() < 0 < d_scores[row, here].max()
        return float(both + even + min(share, 0.5) + 20 * weights[row, here].min())

    places = [
        (row, columns)
        for row in range(d_scores.shape[0])
        for columns in combinations(sorted(np.argsort(-weights[row])[:AMONG].tolist()), count)
    ]
    row, columns = max(places, key=worth)
    return [row, *columns]


def _spans(walk: Walk, tile: Row) -> list[str]:
    """The queries of each tile that the block of these keys walks over."""
    known = {tuple(row["queries"]) for row in walk.steps if row["queries"] and row["keys"] == tile["keys"]}
    return [f"{first} to {last}" for first, last in sorted(known)]


def _note(part: str, phases: list[str], notes: dict[str, str]) -> str:
    """A word next to a part's name after these phases, the last one of which is now."""
    now = phases[-1]
    if now == "kept":
        return {"S": notes["gone"], "P": notes["gone"], "O": notes["kept"], "LSE": notes["lse"]}.get(part, "")
    if now == "next":
        return {"K": notes["stays"], "V": notes["stays"], "dK": notes["stays"], "dV": notes["stays"]}.get(
            part, notes["leaves"] if part == "dQ" else ""
        )
    return ""


# ---- the price of P ----


def _kept() -> Kept:
    """The bytes of a head's tensors."""
    names: Row = {"tokens": LONG, "dim": WIDE, "bits": 8 * ITEM}
    sizes = {part: LONG * WIDE * ITEM for part in ("Q", "K", "V", "O")} | {"LSE": LONG * 4}
    square = LONG * LONG * ITEM
    return {
        "title": WORDS.say("kept", names),
        "says": WORDS.table("kept"),
        "square": ("P", float(square), amount(square, BYTES)),
        "gone": WORDS.table("notes")["gone"],
        "less": WORDS.table("notes")["less"],
        "parts": [(part, float(size), amount(size, BYTES)) for part, size in sizes.items()],
    }


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

    def amounts(*names: str) -> list[tuple[str, float]]:
        return [(words[name], float(price[name])) for name in names]

    return {
        "keep": amounts("write", "read"),
        "make": amounts("product", "exp"),
        "words": words,
        "said": WORDS.say("price", price),
    }
