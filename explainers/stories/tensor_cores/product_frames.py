"""The frames of the products of tensor cores."""

from collections.abc import Iterator
from dataclasses import dataclass

from explainers.stories.tensor_cores.fragments import Sums
from explainers.stories.tensor_cores.frames import ProductFrame
from explainers.stories.tensor_cores.tensor_products import FORWARD, Product, Products, part_of
from explainers.story.glossary import count


@dataclass(frozen=True)
class ProductStory(Products):
    """The Products, their sums, and a frame for each."""

    sums: Sums
    frames: list[ProductFrame]


def frames_of(story: Products) -> Iterator[ProductFrame]:
    numbers: dict[int, int] = {}
    totals = {tile: sum(p.tile == tile for p in story.products) for tile in {p.tile for p in story.products}}
    for product in story.products:
        number = numbers[product.tile] = numbers.get(product.tile, 0) + 1
        total = totals[product.tile]
        yield {
            "tile": product.tile,
            "title": f"{story.walks.capitalize()} tile {product.tile} · {story.instruction} {number} of {total}",
            "sentence": _said(story, product, number == total),
            "phase": product.c,
            "lines": {line: 1 for line in product.lines},
            "rows": list(product.rows),
            "cols": list(product.cols),
            "k": list(product.k),
        }


def _said(story: Products, product: Product, ends_tile: bool) -> str:
    """The product in a few sentences: its sum and the way of its operands. The picture tells the chosen number."""
    kind = story.kinds[product.c]
    row, col = product.rows[0], product.cols[0]
    size = (product.rows[1] - row) * (product.cols[1] - col)
    noun = {"S": "score", "O": "output"}.get(product.c)
    numbers = count(size, noun) if noun else f"{count(size, 'number')} of {kind.label('C')},"
    along, across = (f"{axis_words(kind.axes[n])} {_span(span)}" for n, span in ((2, product.k), (1, product.cols)))
    of = f"Product {product.c}, {[*story.kinds].index(product.c) + 1} of {len(story.kinds)}"
    what = f"{of}: one {story.instruction} adds the products of {along} to {numbers} {'of ' if noun else ''}{across}."
    ends = f" The {story.walks} tile ends here." if ends_tile and kind.axes[2] != "dim" else ""
    return f"{what} {_past(story, product)}{_came(story, product)}{ends}"


def _came(story: Products, product: Product) -> str:
    """The way of the operands in a sentence or two."""
    kind = story.kinds[product.c]
    a, b = part_of(kind.a), part_of(kind.b)
    in_lanes = a in ("P", "dS") and bool((story.matrices[kind.a].lane >= 0).any())
    if product.a >= 0 or product.b >= 0:
        fetched = [name for name, n in ((a, product.a), (b, product.b)) if n >= 0]
        stays = f"{a} is in registers already. " if product.a < 0 and in_lanes and product.c not in FORWARD else ""
        return f"{stays}ldmatrix brought {' and '.join(fetched)} from shared memory."
    if in_lanes:
        return f"{a} is in registers already. The tensor cores read {b} from shared memory."
    return f"The tensor cores read {a} and {b} from shared memory."


def axis_words(axis: str) -> str:
    """The numbers of an axis in the plural."""
    return {"query": "queries", "key": "keys", "dim": "dims"}[axis]


def _past(story: Products, product: Product) -> str:
    """The sentences on queries and keys past the end. Tiles are whole, with zeros there."""
    found, ends = [], {"query": story.queries, "key": story.keys}
    for axis, (first, end) in zip(story.kinds[product.c].axes, (product.rows, product.cols, product.k)):
        last = ends.get(axis, end)
        if end > last:
            name = "Rows" if axis == "query" and product.c in FORWARD else axis_words(axis).capitalize()
            found.append(f"{name} {max(first, last)} to {end - 1} do not exist and count as zeros. ")
    return "".join(found)


def _span(pair: tuple[int, int]) -> str:
    return f"{pair[0]} to {pair[1] - 1}"
