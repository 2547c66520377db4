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
    """The product in a sentence: its factors, the way of its operands, and the first element of C."""
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
    """The sentence on a product beyond the last query or key. Tiles are whole, with zeros past the end."""
    spans = {"rows": product.rows, "keys": product.cols if product.c == "S" else product.k}
    found = []
    for name, (first, end) in spans.items():
        last = story.queries if name == "rows" else story.keys
        if end > last:
            found.append(f"{name} {max(first, last)} to {end - 1} are past the last, {last - 1}")
    return f"{_upper(' and '.join(found))}: zeros. " if found else ""


def _logged(story: Products, row: int, col: int) -> tuple[bool, float]:
    """The sentence on the logged score, if there is one."""
    s, at = story.matrices["S"], (row - story.matrices["S"].row0, col - story.matrices["S"].col0)
    return bool(s.lane[at] >= 0), float(s.value[at])


def _span(pair: tuple[int, int]) -> str:
    return f"{pair[0]} to {pair[1] - 1}"


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]
