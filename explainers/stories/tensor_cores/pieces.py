"""The pieces of eight rows in the banks: in order, and in the order of a swizzle.

A row of 128 bytes fills all 32 banks once. A piece has 16 bytes, so a row has eight places of four banks each. A matrix
of ldmatrix takes one piece of each of eight rows.
"""

from typing import TypedDict

import numpy as np

from explainers.stories.tensor_cores.product_frames import ProductStory
from explainers.stories.tensor_cores.tensor_products import part_of
from explainers.story.stage import View

ROWS = 8  # of a matrix of ldmatrix, and pieces of 128 bytes
PIECE, LINE = 16, 128  # bytes


class Side(TypedDict):
    """An order of the pieces.

    title, rule: in words.
    own: whether the run has it.
    places: [rows][pieces], the place of each piece.
    turns: rows in the fullest bank.
    """

    title: str
    rule: str
    own: bool
    places: list[list[int]]
    turns: int


class PiecesMeta(TypedDict):
    """The fields of the view. tensor, first: the matrix and its first row. piece: the taken one of each row."""

    tensor: str
    first: int
    piece: int
    sides: list[Side]


def views(story: ProductStory) -> list[View]:
    """The view of the first B. None without ldmatrix, or with shorter rows."""
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
    orders = {
        "In order": (np.tile(n, (ROWS, 1)), "piece p at place p"),
        "Swizzled": (n[:, None] ^ n, "piece p of row r at place p xor r"),
    }
    piece = first.k[0] % (LINE // item) // (PIECE // item)
    sides: list[Side] = [
        {
            "title": title,
            "rule": rule,
            "own": bool((places == order).all()),
            "places": order.tolist(),
            "turns": int(np.bincount(order[:, piece]).max()),
        }
        for title, (order, rule) in orders.items()
    ]
    meta: PiecesMeta = {"tensor": part_of(b), "first": first.cols[0], "piece": int(piece), "sides": sides}
    return [View("pieces", "pieces", "Rows in the banks", meta)]
