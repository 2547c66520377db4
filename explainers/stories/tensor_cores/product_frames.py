"""The frames of the products of tensor cores."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from explainers.stories.tensor_cores import fragments
from explainers.stories.tensor_cores.frames import ProductFrame
from explainers.stories.tensor_cores.tensor_products import MADE_OF, Product, Products
from explainers.story.glossary import count, short


@dataclass(frozen=True)
class ProductStory(Products):
    """The Products, and a frame for each."""

    frames: list[ProductFrame] = field(default_factory=list)


def frames_of(story: Products) -> Iterator[ProductFrame]:
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
    """The product in a few sentences: its sum, the way of its operands, and the first element of C."""
    a, b, along = MADE_OF[product.c]
    row, col = product.rows[0], product.cols[0]
    size = (product.rows[1] - row) * (product.cols[1] - col)
    noun = {"S": "score", "O": "output"}[product.c]
    what = f"One {story.instruction} adds the products of {along}s {_span(product.k)} to {count(size, noun)}."
    if product.a >= 0 or product.b >= 0:
        fetched = [name for name, n in ((a, product.a), (b, product.b)) if n >= 0]
        came = f"ldmatrix brought {' and '.join(fetched)} from shared memory."
    elif product.c == "S":
        came = f"The tensor cores read {a} and {b} from shared memory."
    else:
        came = f"{a} is in registers already. The tensor cores read {b} from shared memory."
    before, after = fragments.element(story, product, row, col)
    was = after[-2] if len(after) > 1 else before
    moved = f"{product.c}[{row}, {col}] goes from {short(was)} to {short(after[-1])}."
    if is_last and product.c == "S":
        moved += f" Times {story.scale:g}, this is the score {short(after[-1] * story.scale)}."
        moved += " " + _compared(*_logged(story, row, col))
    elif is_last:
        moved += " The key tile ends here. " + _compared(True, _output(story, product))
    return f"{what} {_past(story, product)}{came} {moved}"


def _compared(seen: bool, value: float) -> str:
    """The kernel's own number."""
    return f"The kernel logged {short(value)}." if seen else "The kernel logged none: the mask hides it."


def _output(story: Products, product: Product) -> float:
    """The logged O of a part's first element, after its key tile."""
    row = product.rows[0] - story.matrices["O"].row0
    return float(story.o_after[product.tile - story.first_tile, row, product.cols[0]])


def _past(story: Products, product: Product) -> str:
    """The sentences on rows and keys past the end. Tiles are whole, with zeros there."""
    spans = {"rows": product.rows, "keys": product.cols if product.c == "S" else product.k}
    found = []
    for name, (first, end) in spans.items():
        last = story.queries if name == "rows" else story.keys
        if end > last:
            found.append(f"{_upper(name)} {max(first, last)} to {end - 1} do not exist and count as zeros. ")
    return "".join(found)


def _logged(story: Products, row: int, col: int) -> tuple[bool, float]:
    """Whether a score has a record, and its value."""
    s, at = story.matrices["S"], (row - story.matrices["S"].row0, col - story.matrices["S"].col0)
    return bool(s.lane[at] >= 0), float(s.value[at])


def _span(pair: tuple[int, int]) -> str:
    return f"{pair[0]} to {pair[1] - 1}"


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]
