"""The data of the questions about one product of tensor cores, from the trace."""

import numpy as np

from explainers.stories.tensor_cores import pieces
from explainers.stories.tensor_cores.product_frames import WORDS, ProductStory
from explainers.stories.tensor_cores.tensor_products import LANES, Fetch, Product
from explainers.story.glossary import count
from explainers.story.stage import Question

AHEAD = 5  # columns from the first one to the asked one
WARP_ROWS = 16  # of a warp. A warpgroup has four times as many
SPOKEN = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight"]


def fetch_cost(fetch: Fetch) -> str:
    return f"{count(fetch.wavefronts, 'wavefront')}, {fetch.ideal} at best"


def questions(story: ProductStory) -> list[Question]:
    """The questions of the story."""
    if not story.products or story.products[0].c != "S":
        return []
    names = {"instruction": story.instruction, "spread": _spread(story), "owner": _owner(story), "fetch": _fetch(story)}
    return WORDS.questions(names, 0)


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


def _spread(story: ProductStory) -> dict[str, object] | None:
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


def _owner(story: ProductStory) -> dict[str, object] | None:
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


def _fetch(story: ProductStory) -> dict[str, object] | None:
    """How shared memory serves the ldmatrix of the first B. None without its picture."""
    first = story.products[0]
    if first.b < 0 or not pieces.views(story):
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
        "covers": [{"turns": 1}, {"side": 1}] if clash else [{"turns": 1}],
        "hides": [*(fetch_cost(f) for f in (fetch, a) if f), str(so_far)],
    }


def _spoken(number: int) -> str:
    return SPOKEN[number] if number < len(SPOKEN) else str(number)
