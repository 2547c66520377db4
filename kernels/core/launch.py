"""What a kernel's front matter says of its constants and launches, and what a launch is for one problem and one set
of constants."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kernels.core.tensors import Tensor

ConstantRole = Literal[
    "query_rows",  # query rows of a tile
    "key_rows",  # keys of a tile
    "key_groups",  # groups of warps that share rows, each with keys of its own
    "partition",  # tokens of a partition of a context
    "stages",  # tiles that are in shared memory or on their way
    "warps",  # warps of a block
    "pad",  # elements added to each row of a tile, which moves its rows to other banks
    "swizzle",  # another order of the elements of a row, for the same purpose
    "turns",  # whether warpgroups take turns on the tensor cores
    "sum_bits",  # significant bits of the sums that tensor cores make
    "threshold",  # how far a max must move before a kernel rescales
    "share",  # the share of rows whose max may move before a kernel does a tile again
]
CONSTANTS: Mapping[ConstantRole, str] = {
    "query_rows": "BLOCK_Q",
    "key_rows": "BLOCK_KV",
    "key_groups": "KEY_GROUPS",
    "partition": "PARTITION",
    "stages": "STAGES",
    "warps": "WARPS",
    "pad": "PAD*",
    "swizzle": "SWIZZLE*",
    "turns": "PING_PONG",
    "sum_bits": "SUM_BITS",
    "threshold": "THRESHOLD",
    "share": "SHARE",
}
"""role -> the name of the kernels' constant with that role, or a pattern of names."""


@dataclass(frozen=True)
class Constant:
    """A compile-time constant of a kernel, passed as -DNAME=value.

    With `what_if`, the values other than the default break the kernel in an instructive way: `what_if` names the break
    and `effect` says what goes wrong, from the score_scale `shows_at` on. Without, it is a plain setting, such as a
    tile size.

    role: the part that the constant plays in every kernel that has it; None for a constant of its own kind.
    """

    name: str
    default: int
    values: tuple[int, ...]
    meaning: str
    what_if: str = ""
    effect: str = ""
    shows_at: float = 1.0
    role: ConstantRole | None = None


@dataclass(frozen=True)
class Condition:
    """What must hold of a problem and a kernel's constants together. must: an expression; message: the sentence that
    refuses what does not meet it, in which an expression in braces, such as {4 * (stride + PAD)}, stands for its value.
    """

    must: str
    message: str


@dataclass(frozen=True)
class Tuned:
    """Constants that are faster than the defaults where `when`, an expression over the problem, holds. A later one
    wins."""

    when: str
    constants: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class TensorMap:
    """A TMA descriptor of a tensor as an argument (CUtensorMap by value). box: elements per dimension, outermost first;
    swizzle: 0, 32, 64 or 128 bytes. axes: the names of the tensor's axes in the order of the map's dimensions; empty
    for the order in memory."""

    tensor: str
    box: tuple[int, ...]
    swizzle: int = 0
    axes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Launch:
    """One kernel launch. args, in the order of the kernel's signature: the name of a tensor (its pointer is passed), a
    TensorMap, or a NumPy scalar (numbers by their C type; a struct as a void scalar of its bytes).

    Blocks are numbered x fastest, then y, z. Each item (such as a query tile: BLOCK_Q rows of one head's output) is
    worked on by `blocks_per_item` neighbouring blocks, so that a range of items is a range of blocks. `item` is what
    the items are called; the launches of a plan may have items of different kinds.
    """

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    args: tuple[str | TensorMap | np.generic, ...]
    item: str
    blocks_per_item: int = 1
    cluster: tuple[int, int, int] | None = None

    @property
    def threads(self) -> int:
        """Threads per block."""
        return self.block[0] * self.block[1] * self.block[2]

    def groups(self, threads: int) -> int:
        """How many groups of so many threads a block has, such as warps; the last may be smaller."""
        return -(-self.threads // threads)

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def items(self) -> int:
        return self.blocks // self.blocks_per_item

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names of the tensors that the launch is given, by pointer or as a map."""
        return tuple(a.tensor if isinstance(a, TensorMap) else a for a in self.args if isinstance(a, (str, TensorMap)))


@dataclass(frozen=True)
class Plan:
    """The launches of one run, in order, and every tensor of it: the problem's and the kernel's own scratch.

    item: what a scope counts, the items of the first launch. items: how many there are.
    """

    launches: tuple[Launch, ...]
    tensors: tuple[Tensor, ...]

    @property
    def item(self) -> str:
        return self.launches[0].item

    @property
    def items(self) -> int:
        return self.launches[0].items

    def items_of(self, item: str) -> int:
        """How many items of that kind there are; 0 if no launch has them."""
        return max((launch.items for launch in self.launches if launch.item == item), default=0)

    def tensor(self, name: str) -> Tensor:
        return next(t for t in self.tensors if t.name == name)

    def has_map(self, tensor: Tensor) -> bool:
        """Whether a launch has a tensor map of it; bytes that the copy engine brings without one are not its boxes."""
        args = (a for launch in self.launches for a in launch.args if isinstance(a, TensorMap))
        return any(a.tensor == tensor.name for a in args)

    def box_of(self, tensor: Tensor) -> tuple[int, ...]:
        """Elements of a box that the copy engine brings of a tensor, along each of its axes. ValueError if no launch
        has a tensor map of it."""
        maps = (a for launch in self.launches for a in launch.args if isinstance(a, TensorMap))
        asked = next((a for a in maps if a.tensor == tensor.name), None)
        if asked is None:
            raise ValueError(f"no launch has a tensor map of {tensor.name}")
        sizes = dict(zip(asked.axes or tensor.axes, asked.box))
        return tuple(sizes[axis] for axis in tensor.axes)

    @property
    def written(self) -> tuple[Tensor, ...]:
        """The tensors that a launch is given and that are outputs or scratch."""
        used = {name for launch in self.launches for name in launch.tensors}
        return tuple(t for t in self.tensors if t.is_written and t.name in used)


@dataclass(frozen=True)
class LaunchText:
    """A launch as the front matter writes it: expressions, not yet evaluated. args: "q", "int32 seq_len", or a dict
    {map | struct}."""

    entry: str
    grid: tuple[str | int, ...]
    block: tuple[str | int, ...]
    args: tuple[Any, ...]
    shared_bytes: str | int = 0
    item: str = "block"
    blocks_per_item: str | int = 1
    cluster: tuple[str | int, ...] | None = None


@dataclass(frozen=True)
class ScratchText:
    """A scratch tensor as the front matter writes it; the shape's entries are expressions."""

    name: str
    shape: tuple[str | int, ...]
    axes: tuple[str, ...]
    dtype: str = "float32"
    initial: str = "poison"
