"""The frames of the products of tensor cores."""

from collections.abc import Iterator
from dataclasses import dataclass

from explainers.stories.tensor_cores.fragments import Sums
from explainers.stories.tensor_cores.frames import ProductFrame
from explainers.stories.tensor_cores.tensor_products import FORWARD, Product, Products, part_of
from explainers.story.words import Words

WORDS = Words.of(__package__)


@dataclass(frozen=True)
class ProductStory(Products):
    """The Products, their sums, and a frame for each."""

    sums: Sums
    frames: list[ProductFrame]


def frames_of(story: Products) -> list[ProductFrame]:
    """A frame of each product, in words.toml's words."""
    rows = list(_rows(story))
    worded = WORDS.frames(rows, {"walks": story.walks, "instruction": story.instruction, "kinds": len(story.kinds)})
    for frame, row in zip(worded, rows):
        frame |= {key: row[key] for key in ("rows", "cols", "k")}
    return worded


def _rows(story: Products) -> Iterator[dict[str, object]]:
    numbers: dict[int, int] = {}
    totals = {tile: sum(p.tile == tile for p in story.products) for tile in {p.tile for p in story.products}}
    for product in story.products:
        number = numbers[product.tile] = numbers.get(product.tile, 0) + 1
        kind = story.kinds[product.c]
        a, b = part_of(kind.a), part_of(kind.b)
        in_lanes = a in ("P", "dS") and bool((story.matrices[kind.a].lane >= 0).any())
        yield {
            "tile": product.tile,
            "phase": product.c,
            "lines": {line: 1 for line in product.lines},
            "rows": list(product.rows),
            "cols": list(product.cols),
            "k": list(product.k),
            "number": number,
            "total": totals[product.tile],
            "nth": [*story.kinds].index(product.c) + 1,
            "along": axis_words(kind.axes[2]),
            "across": axis_words(kind.axes[1]),
            "noun": {"S": "score", "O": "output"}.get(product.c),
            "size": (product.rows[1] - product.rows[0]) * (product.cols[1] - product.cols[0]),
            "a": a,
            "b": b,
            "c": kind.label("C"),
            "past_end": _past_end(story, product),
            "fetched": [name for name, n in ((a, product.a), (b, product.b)) if n >= 0],
            "stays": product.a < 0 and in_lanes and product.c not in FORWARD,
            "in_lanes": in_lanes,
            "ends": number == totals[product.tile] and kind.axes[2] != "dim",
        }


def axis_words(axis: str) -> str:
    """The numbers of an axis in the plural."""
    return {"query": "queries", "key": "keys", "dim": "dims"}[axis]


def _past_end(story: Products, product: Product) -> list[dict[str, object]]:
    """The queries and keys past the end. Tiles are whole, with zeros there."""
    found, ends = [], {"query": story.queries, "key": story.keys}
    for axis, (first, end) in zip(story.kinds[product.c].axes, (product.rows, product.cols, product.k)):
        last = ends.get(axis, end)
        if end > last:
            name = "Rows" if axis == "query" and product.c in FORWARD else axis_words(axis).capitalize()
            found.append({"name": name, "first": max(first, last), "last": end - 1})
    return found
