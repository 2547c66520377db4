"""The frames of the tensor cores' products, and the meta of the view `fragments`."""

from typing import TypedDict

from explainers.story.frames import Frame


class ProductFrame(Frame):
    """One product.

    c: S or O. It decides A and B.
    at_tile: its place among the shown key tiles.
    rows, cols: [first, end) of C.
    k: [first, end) of the summed dims or keys.
    a, b: the fetches of A and B, or -1.
    last: whether it is the last product of this part of C in this tile.
    """

    c: str
    at_tile: int
    rows: list[int]
    cols: list[int]
    k: list[int]
    a: int
    b: int
    last: bool


class FragmentsMeta(TypedDict):
    """The fields of the view.

    instruction: mma.sync or wgmma.
    scale: the factor from S to the scores.
    sum_bits: bits of the sums, 32 or 16.
    dtype: of A and B.
    matrices: name -> [first row, first column, rows, columns] of the shown part.
    fetches: place, wavefronts and ideal of each ldmatrix.
    bases: Q, K, V -> [first element of this head, elements from row to row, from dim to dim, bytes of one], in global
        memory.
    symbols: Q, K, V -> the kernel's name for it.

    Columns, for each matrix NAME: NAME_value, and NAME_lane, NAME_register, NAME_half, NAME_byte, NAME_fetch and
        NAME_by if it has them (tensor_products.Matrix), [rows, columns]. O_before, O_after [key tiles, rows,
        columns].
    """

    instruction: str
    scale: float
    sum_bits: int
    dtype: str
    matrices: dict[str, list[int]]
    fetches: list[dict[str, object]]
    bases: dict[str, list[int]]
    symbols: dict[str, str]
    frames: list[ProductFrame]
