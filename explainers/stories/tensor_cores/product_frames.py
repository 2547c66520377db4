"""The frames of the products of tensor cores."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from explainers.stories.tensor_cores.frames import ProductFrame
from explainers.stories.tensor_cores.tensor_products import MADE_OF, Product, Products
from explainers.story.glossary import count


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
            "sentence": _said(story, product, number == totals[product.tile]),
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


def _said(story: Products, product: Product, ends_tile: bool) -> str:
    """The product in a few sentences: its sum and the way of its operands. The picture tells the chosen number."""
    a, b, along = MADE_OF[product.c]
    row, col = product.rows[0], product.cols[0]
    size = (product.rows[1] - row) * (product.cols[1] - col)
    noun = {"S": "score", "O": "output"}[product.c]
    added = f"{count(size, noun)} of {'keys' if product.c == 'S' else 'dims'} {_span(product.cols)}"
    what = f"One {story.instruction} adds the products of {along}s {_span(product.k)} to {added}."
    if product.a >= 0 or product.b >= 0:
        fetched = [name for name, n in ((a, product.a), (b, product.b)) if n >= 0]
        came = f"ldmatrix brought {' and '.join(fetched)} from shared memory."
    elif product.c == "S":
        came = f"The tensor cores read {a} and {b} from shared memory."
    else:
        came = f"{a} is in registers already. The tensor cores read {b} from shared memory."
    ends = " The key tile ends here." if ends_tile and product.c == "O" else ""
    return f"{what} {_past(story, product)}{came}{ends}"


def _past(story: Products, product: Product) -> str:
    """The sentences on rows and keys past the end. Tiles are whole, with zeros there."""
    spans = {"rows": product.rows, "keys": product.cols if product.c == "S" else product.k}
    found = []
    for name, (first, end) in spans.items():
        last = story.queries if name == "rows" else story.keys
        if end > last:
            found.append(f"{_upper(name)} {max(first, last)} to {end - 1} do not exist and count as zeros. ")
    return "".join(found)


def _span(pair: tuple[int, int]) -> str:
    return f"{pair[0]} to {pair[1] - 1}"


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]
