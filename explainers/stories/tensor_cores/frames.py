"""The frames of the tensor cores' products, and the meta of the view `fragments`."""

from typing import TypedDict

from explainers.story.frames import Frame


class ProductFrame(Frame):
    """One product.

    phase: the name of its kind, such as S. It decides A and B.
    rows, cols: [first, end) of C.
    k: [first, end) of the summed dims, keys or queries.
    """

    rows: list[int]
    cols: list[int]
    k: list[int]


class ShownKind(TypedDict):
    """One kind of product, as tensor_products.Kind.

    a, b, c: the names of its matrices.
    labels: A, B and C in words.
    along, across, down: what the sum, the columns and the rows of C count.
    """

    a: str
    b: str
    c: str
    labels: dict[str, str]
    along: str
    across: str
    down: str
    turned: str
    scaled: bool


class FragmentsMeta(TypedDict):
    """The fields of the view.

    instruction: mma.sync or wgmma.
    scale: the factor from S to the scores.
    sum_bits: bits of the sums, 32 or 16.
    dtype: of A and B.
    kinds: the name of C -> its kind.
    matrices: name -> [first row, first column, rows, columns] of the shown part.
    fetches: place, wavefronts and ideal of ldmatrix, each different one once.
    bases: part -> [first element of this head, elements from row to row, from dim to dim, bytes of one], in global
        memory.
    symbols: part -> the kernel's name for it.

    Columns, for each matrix NAME: NAME_value of an operand as the instruction takes it, and NAME_lane, NAME_register,
        NAME_half, NAME_byte, NAME_fetch and NAME_by if it has them (tensor_products.Matrix), [rows, columns]. Of C:
        places, c, added, due, logged and error (fragments.Sums).
    """

    instruction: str
    scale: float
    sum_bits: int
    dtype: str
    kinds: dict[str, ShownKind]
    matrices: dict[str, list[int]]
    fetches: list[dict[str, object]]
    bases: dict[str, list[int]]
    symbols: dict[str, str]
    frames: list[ProductFrame]
