"""Questions about one product of tensor cores. Their answers come from the trace."""

from collections.abc import Mapping, Sequence

import numpy as np

from explainers.stories.tensor_cores import pieces
from explainers.stories.tensor_cores.product_frames import ProductStory
from explainers.stories.tensor_cores.tensor_products import LANES, Fetch, Product
from explainers.story import questions as ask
from explainers.story.glossary import count
from explainers.story.stage import Question

AHEAD = 5  # columns from the first one to the asked one
ROWS = 8  # of a matrix of ldmatrix
WARP_ROWS = 16  # of a warp. A warpgroup has four times as many
SPOKEN = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight"]


def fetch_cost(fetch: Fetch) -> str:
    return f"{count(fetch.wavefronts, 'wavefront')}, {fetch.ideal} at best"


def questions(story: ProductStory) -> list[Question]:
    """The questions of the story."""
    if not story.products or story.products[0].c != "S":
        return []
    return [*_spread(story), *_owner(story), *_fetch(story), *_swizzle(story)]


def _lanes(story: ProductStory, product: Product) -> np.ndarray:
    """The lane of each score of a product, -1 without a record: [rows, keys]."""
    lane = _window(story, product, "lane")
    return np.where(lane >= 0, lane % LANES, -1)


def _window(story: ProductStory, product: Product, what: str) -> np.ndarray:
    """An attribute of the product's C, [rows, columns]."""
    c, (top, end), (left, right) = story.matrices[product.c], product.rows, product.cols
    whole, down, across = c.attributes[what], c.row0, c.col0
    if "C" in story.kinds[product.c].turned:
        whole, down, across = whole.T, across, down
    return whole[top - down : end - down, left - across : right - across]


def _named(story: ProductStory, row: int, col: int) -> str:
    """A score of the first product by its row and column there."""
    at = (col, row) if "C" in story.kinds["S"].turned else (row, col)
    return f"S[{at[0]}, {at[1]}]"


def _spread(story: ProductStory) -> list[Question]:
    """How the scores of a row are spread over the lanes of a warp. None unless all scores of the row have a record."""
    first = story.products[0]
    lanes = _lanes(story, first)
    full = np.flatnonzero((lanes >= 0).all(axis=1))
    if not len(full):
        return []
    mine = lanes[full[0]]
    row, left, wide = first.rows[0] + int(full[0]), first.cols[0], len(mine)
    owners = np.unique(mine)
    each = wide // len(owners)
    held = int((lanes[:WARP_ROWS] == owners[0]).sum())
    return [
        ask.idea(
            "spread",
            f"One {story.instruction} multiplies for all lanes of a warp. Which lanes get row {row} of the scores C?",
            f"{_spoken(len(owners)).capitalize()} lanes, {_spoken(each)} scores each",
            {
                f"One lane, all {_spoken(wide)}": f"Each lane holds only {_spoken(held)} numbers of C.",
                f"{_spoken(wide).capitalize()} lanes, one score each": f"Lane {mine[0]} holds both "
                f"{_named(story, row, left)} and {_named(story, row, left + 1)}.",
                "All 32 lanes, a part of each score": f"Each score is whole in one lane. Lanes {owners[0]} to "
                f"{owners[-1]} hold row {row}.",
            },
            f"Lanes {owners[0]} to {owners[-1]} hold row {row}. Other lanes hold the other rows, so all 32 work.",
            view="fragments",
            covers=[{"part": "C"}],
            shows={"part": "C", "i": int(full[0]), "j": 0},
            hides=[f"lane {mine[0]}"],
            veils=("strip", "tabs"),  # the strip has the turns of the next question
        )
    ]


def _owner(story: ProductStory) -> list[Question]:
    """The lane of one score of the first product."""
    first = story.products[0]
    lanes, registers = _lanes(story, first), _window(story, first, "register")
    seen = np.flatnonzero(lanes[:, AHEAD : AHEAD + 1] >= 0)  # none with fewer columns
    if not len(seen):
        return []
    i, left = int(seen[0]), first.cols[0]  # the first row with this column, and the ones before it
    row = first.rows[0] + i
    lane, register = int(lanes[i, AHEAD]), int(registers[i, AHEAD])
    begin, beside = int(lanes[i, 0]), int(lanes[i, 2])
    four = list(range(begin, begin + 4))  # lanes of a row are neighbours
    asked, held = _named(story, row, left + AHEAD), [_named(story, row, left + n) for n in range(lanes.shape[1])]
    of_lane = {n: [held[int(c)] for c in np.flatnonzero(lanes[i] == n)] for n in four}
    return [
        Question(
            "owner",
            f"Lane {begin} holds {held[0]} and {held[1]}. Lane {beside} holds the next two of the "
            f"row. Which lane holds {asked}?",
            "options",
            four.index(lane),
            f"Lane {lane} holds {asked}, in its register c{register}.",
            options=[f"lane {n}" for n in four],
            reasons=["" if n == lane else _holds(row, n, of_lane[n]) for n in four],
            view="fragments",
            covers=[{"part": "C", "i": i, "j": [AHEAD - 1, AHEAD]}],
            shows={"part": "C", "i": i, "j": AHEAD},
            veils=("tabs",),
        )
    ]


def _holds(row: int, lane: int, held: list[str]) -> str:
    return f"Lane {lane} holds {' and '.join(held[:2]) or f'nothing of row {row}'}."


def _where(story: ProductStory, side: int, covers: Sequence[Mapping[str, object]]) -> ask.Where:
    """The place of a question on the banks: their picture, if it exists. side: the order of the pieces."""
    if not pieces.views(story):
        return {"view": "fragments", "veils": ("tabs",)}
    return {"view": "pieces", "covers": covers, "shows": {"side": side, "turns": 1}, "veils": ("tabs",)}


def _fetch(story: ProductStory) -> list[Question]:
    """How shared memory serves the ldmatrix of the first B."""
    first = story.products[0]
    if first.b < 0:
        return []
    fetch, a = story.fetches[first.b], story.fetches[first.a] if first.a >= 0 else None
    clash = fetch.wavefronts > fetch.ideal
    served, waits = "All eight at once", "One after the other"
    number = f"ldmatrix brings four matrices: {fetch.wavefronts} turns, and {fetch.ideal} is the least."
    reason = {
        served: "They all start in one bank, and a bank serves one word at a time.",
        waits: "The rows start in different banks, and each bank serves its own row.",
        "Each row goes to one lane": f"ldmatrix hands each row of {fetch.tensor} to four lanes.",
    }
    right = waits if clash else served
    why = "All eight rows start in the same bank." if clash else "The eight rows fill all 32 banks."
    lowest = min(n for p in story.products for n in (p.a, p.b) if n >= 0)
    so_far = sum(one.wavefronts for one in story.fetches[lowest : max(first.a, first.b) + 1])
    where = _where(story, 0 if clash else 1, [{"turns": 1}, {"side": 1}] if clash else [{"turns": 1}])
    where["hides"] = [*(fetch_cost(f) for f in (fetch, a) if f), str(so_far)]
    return [
        ask.idea(
            "fetch",
            f"The instruction ldmatrix copies 16 bytes of each of {ROWS} rows of {fetch.tensor} to registers, "
            "for each matrix. How does shared memory serve the rows?",
            right,
            {said: text for said, text in reason.items() if said != right},
            f"{why} {number}",
            **where,
        )
    ]


def _swizzle(story: ProductStory) -> list[Question]:
    """The remedy for eight rows that start in one bank. None without a conflict.

    Rule: a swizzle stores piece p of row r at place p xor r, so the first pieces of eight rows have eight places.
    """
    first = story.products[0]
    fetch = story.fetches[first.b] if first.b >= 0 else None
    if fetch is None or fetch.wavefronts <= fetch.ideal:
        return []
    turns = _spoken(fetch.wavefronts // fetch.ideal)
    return [
        ask.idea(
            "swizzle",
            f"The {ROWS} rows start in one bank, so they take turns. What avoids that without more shared memory?",
            "Another order of the pieces in each row",
            {
                "Unused bytes after each row": "They spread the rows too, but they take shared memory.",
                "A pause of each lane before its read": f"The lanes wait already: each matrix takes {turns} turns.",
                "Rows of twice as many bytes": "All rows would still start in one bank.",
            },
            "Cut each row into pieces of 16 bytes, and store each row in another order. The eight brown pieces then "
            "fill all banks: a swizzle.",
            **_where(story, 1, [{"side": 1}]),
        )
    ]


def _spoken(number: int) -> str:
    return SPOKEN[number] if number < len(SPOKEN) else str(number)
