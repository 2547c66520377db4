"""The picture `descriptor`: the 64 bits that tell the tensor cores where an operand is, and the chunks that they read.

The chunks follow from the rule of app/stage/views/descriptor_rule.js and are modelled. The tiles are the boxes of the
kernel's own copies.
"""

import re
from typing import TypedDict

from explainers.stories.pipeline.marks import BlockStory
from explainers.story import axes, picture, stage
from explainers.story.frames import Frame
from explainers.story.words import Row, Words
from kernels.core.launch import TensorMap
from kernels.core.request import Request

WORDS = Words.of(str(__package__), "descriptor.toml")
PHASES = ("stored", "read", "stride", "ignored", "leading", "swapped", "wrong", "hand")
# Q is summed along its rows in S = Q Kᵀ, and V across them in O = P V.
PARTS = {"Q": False, "V": True}
OUTER = {False: 64, True: 16}  # rows that an instruction of 16 bits reads: of the product, or of the sum


class DescriptorOperand(TypedDict):
    """An operand in shared memory.

    name: of its matrix. row, column: the names of a row and a column. rows, columns: of its tile.
    turned: whether the product sums over its rows: MN-major. outer: rows that one instruction reads.
    """

    name: str
    row: str
    column: str
    rows: int
    columns: int
    turned: bool
    outer: int


class DescriptorMeta(TypedDict):
    """The fields of the view `descriptor`.

    phases: of its steps. operands: K-major, then MN-major. swizzle: bytes, of the kernel's copies.
    rule: the sentence on the model. words: in place of a sentence under a hand. offsets: the meaning of each field.
    """

    frames: list[Frame]
    phases: list[str]
    operands: list[DescriptorOperand]
    swizzle: int
    rule: str
    words: dict[str, str]
    offsets: dict[str, str]


def views(story: BlockStory) -> list[stage.View]:
    """The picture, if a copy writes Q and V as swizzled tiles of 16-bit numbers. Else an empty list."""
    request = story.made.request
    if picture.without_parts(request):
        return []
    found = [operand(request, part) for part in PARTS]
    tiles, swizzles = [one for one, _ in found if one], {swizzle for _, swizzle in found}
    if len(tiles) < len(PARTS) or len(swizzles) > 1:
        return []
    one, other = tiles
    (swizzle,) = swizzles
    panels = 2 * other["columns"] // swizzle
    phases = [phase for phase in PHASES if phase != "leading" or panels > 1]
    names = {"one": one, "other": other, "swizzle": swizzle, "kernel": story.name}
    steps: list[Row] = [{"phase": phase, "tile": -1, "lines": lines(request)} for phase in phases]
    meta: DescriptorMeta = {
        "frames": WORDS.frames(steps, names),
        "phases": phases,
        "operands": tiles,
        "swizzle": swizzle,
        "rule": WORDS.say("rule", names),
        "words": WORDS.table("hand"),
        "offsets": WORDS.table("offsets"),
    }
    return [stage.View("descriptor", "descriptor", "The wgmma descriptor", {**meta, "clock": True, "state": []})]


def operand(request: Request, part: str) -> tuple[DescriptorOperand | None, int]:
    """The tile of a part and its swizzle in bytes: rows of the box of its copy, and all dims of a head. (None, 0)
    without such a tile."""
    tensor = picture.tensor_at(request, part)
    maps = [arg for launch in request.plan.launches for arg in launch.args if isinstance(arg, TensorMap)]
    found = next((one for one in maps if one.tensor == tensor.name), None)
    if not found or not found.swizzle or tensor.itemsize != 2:
        return None, 0
    row, column = picture.plane(tensor)
    box = dict(zip(found.axes or tensor.axes, found.box))
    turned = PARTS[part]
    tile: DescriptorOperand = {
        "name": part,
        "row": row,
        "column": column,
        "rows": box[row],
        "columns": axes.length(tensor, column),
        "turned": turned,
        "outer": OUTER[turned],
    }
    return tile, found.swizzle


def lines(request: Request) -> dict[str, int]:
    """The lines of the kernel's own file that make a descriptor: FILE:LINE -> 1."""
    name, text = request.kernel.files[0]
    return {f"{name}:{n}": 1 for n, line in enumerate(text.splitlines(), 1) if re.search(r"= \w*operand\(", line)}
