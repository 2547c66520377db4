"""The lab's cases: what is checked, recorded, and compared with Nsight Compute, by problem class."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from kernels.core.problem import Case
from kernels.core.request import Scope
from kernels.families.lab.accesses import LAYOUTS, AccessProblem, GlobalProblem
from kernels.families.lab.common import WARP
from kernels.families.lab.hierarchy import CHASE_SPACES, STREAM_SPACES, ChaseProblem, FmaProblem, StreamProblem
from kernels.families.lab.roles import RolesProblem
from kernels.families.lab.tiles import TILES, ColumnsProblem, TransposeProblem
from kernels.trace.kinds import LANE_KINDS

SHOWN_TRANSPOSES = (
    *TILES[:4],
    *TILES[-3:],
)  # those that are worth a recording: plain, padded, swizzled, and by ldmatrix


def check(problem_type: type, kernel: Any) -> list[Case]:
    """The cases on which a kernel of that problem class is compared with float64."""
    return _fitting(_CHECK[problem_type](), kernel)


def recorded(problem_type: type, kernel: Any) -> list[Case]:
    """The cases that are worth having where there is no GPU, traced whole."""
    made = _fitting(_RECORDED.get(problem_type, lambda: [Case(problem_type())])(), kernel)
    return [replace(case, scope=Scope.everything(kernel.plan(case.problem, case.settings))) for case in made]


def counted(problem_type: type, kernel: Any) -> list[Case]:
    """The cases that are compared with Nsight Compute; none of what calibrate compares access by access, nor of what is
    only timed."""
    return _fitting(_COUNTED.get(problem_type, list)(), kernel)


def _fitting(cases: Iterable[Case], kernel: Any) -> list[Case]:
    """Those whose settings are constants of the kernel; another kernel of the same problem may have fewer."""
    there = {constant.name for constant in kernel.constants}
    return [case for case in cases if {name for name, _ in case.settings} <= there]


def _tiled(problem: Any, tile: dict[str, int]) -> Case:
    return Case(problem, tuple(tile.items()))


def _columns() -> Iterable[Case]:
    """Every way to read a tile; strides from one access wide to more than a warp, several warps and repeats."""
    strides = (32, 4, 64, 16, 128)
    for n, tile in enumerate(TILES):
        yield _tiled(ColumnsProblem(strides[n % 5], 1 + n % 3, 1 + n % 4, n), tile)
    yield from (Case(ColumnsProblem(1)), Case(ColumnsProblem(33)))
    yield Case(ColumnsProblem(36), (("WIDTH", 16),))
    yield Case(ColumnsProblem(30, seed=1), (("WIDTH", 8), ("PAD", 4)))


def _transpose() -> Iterable[Case]:
    """Every way to read a tile; one tile, several, and sizes that no tile divides."""
    sizes = ((32, 32), (64, 96), (1, 4), (33, 36), (40, 28))
    for n, tile in enumerate(TILES):
        yield _tiled(TransposeProblem(*sizes[n % 5], n), tile)
    yield from (Case(TransposeProblem(1, 1)), Case(TransposeProblem(31, 65)))
    yield Case(TransposeProblem(100, 3), (("PAD", 1),))


def _global() -> Iterable[Case]:
    """Every layout, width, stride and page size."""
    plain = product(LAYOUTS[:3], (4, 8, 16), ((1, 0), (2, 1), (8, 7), (33, 31)))
    for n, (layout, width, (stride, shift)) in enumerate(plain):
        yield Case(GlobalProblem(layout, width, 1 + n % 8, stride, shift, seed=n))
    for layout, block_size in product(LAYOUTS[3:], (8, 16, 32)):
        yield Case(GlobalProblem(layout, 16, 4, block_size=block_size))


def _access() -> Iterable[Case]:
    """Every kind of access, width and number of matrices; side by side, one column, the same word (of a cp.async,
    whose lanes would race for it, the words backwards), some lanes inactive."""
    lanes = np.arange(WARP)
    for kind in LANE_KINDS:
        is_matrix = kind.name == "ldmatrix"
        for width, matrices in product(kind.widths, (1, 2, 4) if is_matrix else (4,)):
            third = lanes[::-1] * width if kind.event.startswith("cp_async") else lanes * 0 + 64
            for offsets in (lanes * width, lanes * 128, third, np.where(lanes % 3, lanes * 48, -1)):
                if not is_matrix or offsets.min() >= 0:
                    yield Case(AccessProblem(kind.name, width, matrices, tuple(offsets.tolist())))


def _chase() -> Iterable[Case]:
    """Every space; a ring of one node, walked once and more than once round."""
    walks = ((128, 0, 1), (4096, 0, 31), (4096, 32, 33), (40000, 100, 1000))
    for n, (space, (size, warm_up, steps)) in enumerate(product(CHASE_SPACES, walks)):
        yield Case(ChaseProblem(space, size, warm_up, steps, n))


def _stream() -> Iterable[Case]:
    """Every space; one block and several, one round and several, read more than once."""
    for space, size in product(STREAM_SPACES, ((1, 64, 1, 1), (3, 128, 2, 2), (2, 64, 5, 3))):
        yield Case(StreamProblem(space, *size))


def _fma() -> Iterable[Case]:
    """One block and several; one pass, a number that no unrolling divides, and more."""
    for blocks, passes in ((1, 1), (2, 4), (3, 7), (1, 33), (2, 100)):
        yield Case(FmaProblem(blocks, passes))


def _roles() -> Iterable[Case]:
    """One consumer and several; one tile and more; tiles that the lanes share evenly, and that they do not."""
    sizes = ((1, 32, 1), (4, 64, 2), (3, 64, 1), (5, 128, 3), (9, 256, 4), (2, 512, 8))
    for n, size in enumerate(sizes):
        yield Case(RolesProblem(*size, n))


def _shown_layouts() -> Iterable[Case]:
    """Every layout at the width that it is for."""
    for layout in LAYOUTS:
        yield Case(GlobalProblem(layout, 16 if layout.startswith("paged") else 4))


_Maker = Callable[[], Iterable[Case]]
_CHECK: dict[type, _Maker] = {
    ColumnsProblem: _columns,
    TransposeProblem: _transpose,
    GlobalProblem: _global,
    AccessProblem: _access,
    ChaseProblem: _chase,
    StreamProblem: _stream,
    FmaProblem: _fma,
    RolesProblem: _roles,
}
_RECORDED: dict[type, _Maker] = {
    ColumnsProblem: lambda: [_tiled(ColumnsProblem(), tile) for tile in TILES],
    TransposeProblem: lambda: [_tiled(TransposeProblem(), tile) for tile in SHOWN_TRANSPOSES],
    GlobalProblem: _shown_layouts,
}
_COUNTED: dict[type, _Maker] = {
    ColumnsProblem: lambda: [_tiled(ColumnsProblem(), tile) for tile in TILES],
    TransposeProblem: lambda: [_tiled(TransposeProblem(96, 64), tile) for tile in TILES],
    GlobalProblem: _shown_layouts,
    RolesProblem: lambda: [Case(RolesProblem())],
}
