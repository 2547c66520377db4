"""What a kernel's source and its launches are told: compile-time constants, and a plan from problem to grid, block and shared bytes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Constant:
    """A compile-time constant of a kernel, passed as -DNAME=value.

    With `what_if`, the values other than the default break the kernel in an instructive way: `what_if` names the break
    and `effect` says what goes wrong, from the score_scale `shows_at` on. Without, it is a plain setting, such as a tile size.
    """

    name: str
    values: tuple[int, ...]
    default: int
    meaning: str
    what_if: str = ""
    effect: str = ""
    shows_at: float = 1.0


@dataclass(frozen=True)
class Launch:
    """One kernel launch. `args` are names of arrays, or NumPy scalars, in the order of the kernel's signature.

    Blocks are numbered x fastest, then y, z. Each item of the plan (such as a query tile: BLOCK_Q rows of one head's output)
    is worked on by `blocks_per_item` neighbouring blocks, so that a scope of items is a range of blocks in every launch.
    """

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    args: tuple
    blocks_per_item: int

    @property
    def threads(self):
        return self.block[0] * self.block[1] * self.block[2]


@dataclass(frozen=True)
class Plan:
    """The launches of one run, how many items they work on, and the shapes of the arrays that they write: float32, or as the
    problem's outputs and inputs of that name are. items are what a scope counts: query tiles, (sequence, head) pairs, ..."""

    launches: tuple[Launch, ...]
    written: dict[str, tuple[int, ...]]
    items: int


def ceil_div(n, d):
    return -(-n // d)
