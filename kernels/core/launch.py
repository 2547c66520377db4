"""A kernel's constants and launches in the front matter, and the launches for one problem and its constants."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

import numpy as np

from kernels.core.tensors import Tensor

Repeat = tuple[tuple[str, str | int], ...]  # (name, count) pairs, the outermost first


@dataclass(frozen=True)
class Copy:
    """A copy of a whole tensor to another tensor of equal size, usually on another device.

    step: the copies of a step follow its launches in the plan's order.
    place: the number of launches before it in this order, at least 1."""

    source: str
    target: str
    step: int = 0
    place: int = 0


@dataclass(frozen=True)
class CopyText:
    """A copy in the front matter, with unevaluated expressions."""

    source: str
    target: str
    repeat: Repeat = ()
    when: str = ""


ConstantRole = Literal[
    "query_rows",  # query rows of a tile
    "key_rows",  # keys of a tile
    "key_groups",  # groups of warps with shared rows and their own keys
    "partition",  # tokens of a partition of a context
    "stages",  # tiles in shared memory or in flight
    "warps",  # warps of a block
    "pad",  # additional elements of each row of a tile, to move its rows to other banks
    "swizzle",  # another order of the elements of a row, for the same purpose
    "turns",  # whether warpgroups take turns on the tensor cores
    "sum_bits",  # significant bits of the tensor cores' sums
    "threshold",  # how far a max must move before a kernel rescales
    "share",  # the share of rows with a moved max before a kernel repeats a tile
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
WORDS: Mapping[ConstantRole, str] = {
    "query_rows": "query tile",
    "key_rows": "key tile",
    "key_groups": "key groups",
    "partition": "tokens per partition",
    "stages": "tiles in flight",
    "warps": "warps",
    "pad": "free places per row",
    "swizzle": "swizzle",
    "turns": "take turns",
    "sum_bits": "bits of a sum",
    "threshold": "largest sum",
    "share": "share of the sum",
}
"""role -> plain words for its constant."""


def words_of_constant(name: str) -> str:
    """Plain words for a constant with a role, such as "key tile" for BLOCK_KV, or an empty text."""
    return next((WORDS[role] for role, pattern in CONSTANTS.items() if fnmatchcase(name, pattern)), "")


@dataclass(frozen=True)
class Constant:
    """A compile-time constant of a kernel, passed as -DNAME=value.

    meaning: its words for readers.
    what_if: the name of an instructive fault, for a constant whose other values break the kernel, else "".
    effect: the result of this fault.
    shows_at: the fault shows from this score_scale on.
    role: its part in every kernel, or None for a kernel's own constant.
    names: the name of each value, or empty."""

    name: str
    default: int
    values: tuple[int, ...]
    meaning: str
    what_if: str = ""
    effect: str = ""
    shows_at: float = 1.0
    role: ConstantRole | None = None
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Condition:
    """A condition on a problem and a kernel's constants.

    message: the sentence of a refusal. An expression in braces, such as {4 * (stride + PAD)}, shows its value."""

    must: str
    message: str


@dataclass(frozen=True)
class Tuned:
    """Faster constants than the defaults for some problems. A later entry wins.

    when: an expression over the problem."""

    when: str
    constants: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class TensorMap:
    """A TMA descriptor of a tensor as an argument (CUtensorMap by value).

    box: elements per dimension, outermost first.
    swizzle: 0, 32, 64 or 128 bytes.
    axes: the tensor's axes in the order of the map's dimensions, or () for the order in memory."""

    tensor: str
    box: tuple[int, ...]
    swizzle: int = 0
    axes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Texture:
    """A texture object of a dense tensor as an argument (cudaTextureObject_t). A texel is an element.

    tensor: of int32 or float32.
    dimensions: 1 for the tensor's own memory, 2 for a copy of a matrix in a CUDA array."""

    tensor: str
    dimensions: int = 1


@dataclass(frozen=True)
class Place:
    """A pointer into a tensor as an argument. offset: bytes from its first element."""

    tensor: str
    offset: int


@dataclass(frozen=True)
class Fetch:
    """A copy of inputs from host memory to the GPU, before a launch. The launch waits for it.

    part, parts: the copied part of `parts` equal parts along the first axis.
    stream: of the copy.
    memory: pinned, or pageable, which the driver first copies to a pinned buffer."""

    tensors: tuple[str, ...]
    part: int = 0
    parts: int = 1
    stream: int = 0
    memory: Literal["pinned", "pageable"] = "pinned"


@dataclass(frozen=True)
class Launch:
    """One kernel launch.

    args: in the order of the kernel's signature. Each is a tensor's name for its pointer, a TensorMap, a Texture, a
        Place, or a NumPy scalar of the C type. A struct is a void scalar of its bytes, a null pointer the uint64 0.
    item: the name of its items, such as query tile: BLOCK_Q rows of one head's output. Launches of a plan may differ.
    blocks_per_item: the number of neighbouring blocks of each item. A range of items is a range of blocks.
    cooperative: whether all blocks are on the GPU at one time, for a barrier of the grid.
    stream: its queue. Launches of one stream run in order.
    after: the entries of earlier launches, on any stream, that it waits for.
    dependent: whether it may start before the end of the launch before it (programmatic dependent launch).
    device: the number of its GPU in a plan over several.
    step: the number of its step in this plan.
    children: the entries of the launches that its kernel makes (dynamic parallelism).
    parent: the entry of the launch that makes it, or "" for a launch by the host. A child has no args.
    heads: of a grid [heads of a section, tiles, sections], or 0 for another order. The first section has the rest, at
        its end. Its first blocks do nothing.

    Block numbers count x fastest, then y, z."""

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    args: tuple[str | TensorMap | Texture | Place | np.generic, ...]
    item: str
    blocks_per_item: int = 1
    cluster: tuple[int, int, int] | None = None
    cooperative: bool = False
    stream: int = 0
    after: tuple[str, ...] = ()
    dependent: bool = False
    fetch: Fetch | None = None
    device: int = 0
    step: int = 0
    children: tuple[str, ...] = ()
    parent: str = ""
    heads: int = 0

    @property
    def has_attributes(self) -> bool:
        """Whether its launch needs attributes: a cluster, a barrier of the grid, or an early start."""
        return bool(self.cluster or self.cooperative or self.dependent)

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    def groups(self, threads: int) -> int:
        """The number of groups of `threads` threads in a block, such as warps. The last may be smaller."""
        return -(-self.threads // threads)

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def items(self) -> int:
        return self.blocks // self.blocks_per_item

    @property
    def first_item(self) -> int:
        return self.grid[0] * self.grid[2] - self.heads if self.heads else 0

    def item_of(self, head: int, tile: int) -> int:
        """The item of a head's tile, in a launch with `heads`."""
        section, place = divmod(self.first_item + head, self.grid[0])
        return (section * self.grid[1] + tile) * self.grid[0] + place

    def head_of(self, item: int) -> int:
        """The head of an item with work, in a launch with `heads`."""
        return item // (self.grid[0] * self.grid[1]) * self.grid[0] + item % self.grid[0] - self.first_item

    @property
    def tensors(self) -> tuple[str, ...]:
        names = (a.tensor if isinstance(a, (TensorMap, Texture, Place)) else a for a in self.args)
        return tuple(name for name in names if isinstance(name, str))


@dataclass(frozen=True)
class Plan:
    """The launches of one run in order, and all tensors: the problem's and the kernel's scratch.

    item, items: the kind and number of the first launch's items, for a scope.
    graph: whether the GPU runs all launches as one CUDA graph.
    copies: from tensor to tensor, in order (core/planning.py)."""

    launches: tuple[Launch, ...]
    tensors: tuple[Tensor, ...]
    graph: bool = False
    copies: tuple[Copy, ...] = ()

    @property
    def item(self) -> str:
        return self.launches[0].item

    @property
    def items(self) -> int:
        return self.launches[0].items

    @property
    def steps(self) -> tuple[Launch | Copy, ...]:
        found = list[Launch | Copy]()
        for number, launch in enumerate(self.launches):
            found += [launch, *self.copies_after(number)]
        return tuple(found)

    def copies_after(self, number: int) -> tuple[Copy, ...]:
        return tuple(copy for copy in self.copies if copy.place == number + 1)

    def children_of(self, number: int) -> tuple[int, ...]:
        own = self.launches[number]
        return tuple(n for n, one in enumerate(self.launches) if own.children and one.parent == own.entry)

    @property
    def devices(self) -> int:
        """The number of GPUs, real or virtual."""
        return 1 + max(tensor.device for tensor in self.tensors)

    def items_of(self, item: str) -> int:
        """The number of items of a kind, or 0 without such a launch."""
        return max((launch.items for launch in self.launches if launch.item == item), default=0)

    def first_of(self, item: str) -> int:
        """The first item of a kind with work."""
        return next((launch.first_item for launch in self.launches if launch.item == item), 0)

    def tensor(self, name: str) -> Tensor:
        return next(t for t in self.tensors if t.name == name)

    def has_map(self, tensor: Tensor) -> bool:
        """Whether a launch has a map of the tensor. A copy without a map brings no boxes."""
        args = (a for launch in self.launches for a in launch.args if isinstance(a, TensorMap))
        return any(a.tensor == tensor.name for a in args)

    def box_of(self, tensor: Tensor) -> tuple[int, ...]:
        """Elements of a tensor's box along each axis. Raises ValueError without a tensor map."""
        maps = (a for launch in self.launches for a in launch.args if isinstance(a, TensorMap))
        found = next((a for a in maps if a.tensor == tensor.name), None)
        if found is None:
            raise ValueError(f"no launch has a tensor map of {tensor.name}")
        sizes = dict(zip(found.axes or tensor.axes, found.box))
        return tuple(sizes[axis] for axis in tensor.axes)

    @property
    def written(self) -> tuple[Tensor, ...]:
        """The outputs and scratch tensors of all launches and copies."""
        used = {name for launch in self.launches for name in launch.tensors} | {copy.target for copy in self.copies}
        return tuple(t for t in self.tensors if t.is_written and t.name in used)


@dataclass(frozen=True)
class LaunchText:
    """A launch in the front matter, with unevaluated expressions.

    args: "q", "int32 seq_len", or a dict {map | struct}.
    repeat, when: the counters of its repeats, and a condition on each."""

    entry: str
    grid: tuple[str | int, ...]
    block: tuple[str | int, ...]
    args: tuple[Any, ...]
    shared_bytes: str | int = 0
    item: str = "block"
    blocks_per_item: str | int = 1
    cluster: tuple[str | int, ...] | None = None
    cooperative: bool = False
    stream: int = 0
    after: tuple[str, ...] = ()
    dependent: bool = False
    fetch: Fetch | None = None
    device: str | int = 0
    repeat: Repeat = ()
    when: str = ""
    children: tuple[str, ...] = ()
    parent: str = ""
    heads: str | int = 0


@dataclass(frozen=True)
class ScratchText:
    """A scratch tensor in the front matter. The shape has expressions."""

    name: str
    shape: tuple[str | int, ...]
    axes: tuple[str, ...]
    dtype: str = "float32"
    initial: str = "poison"
    device: str | int = 0
    repeat: Repeat = ()
