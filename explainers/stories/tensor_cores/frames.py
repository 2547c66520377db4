"""The frames of the tensor cores' products, and the meta of the view `fragments`."""

from typing import Any, TypedDict

from explainers.story.frames import Frame


class ProductFrame(Frame):
    """One instruction that multiplies.

    c: S or O, which says what A and B are.
    at_tile: its place among the key tiles shown.
    rows, cols: of C.
    k: what is added up; each [first, end).
    a, b: the fetches that brought A and B, -1 where there is none.
    last: nothing more is added to this part of C in this tile. phase: c.
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
    scale: what S is multiplied with to be the scores.
    sum_bits: of the numbers in which products are added up, 32 or 16.
    dtype: of A and B.
    matrices: name -> [first row, first column, rows, columns] as far as it is shown.
    fetches: place, wavefronts and ideal of each ldmatrix.
    bases: Q, K, V -> [first element of this head, elements from row to row, from dim to dim, bytes of one], in
        global memory.
    symbols: Q, K, V -> what the kernel calls it.

    Columns, of each matrix NAME: NAME_value, and those of NAME_lane, NAME_register, NAME_half, NAME_byte,
    NAME_fetch, NAME_by that it has (tensor_cores.Matrix), [rows, columns]; O_before, O_after [key tiles, rows,
    columns].
    """

    instruction: str
    scale: float
    sum_bits: int
    dtype: str
    matrices: dict[str, list[int]]
    fetches: list[dict[str, Any]]
    bases: dict[str, list[int]]
    symbols: dict[str, str]
    frames: list[ProductFrame]
