"""The accesses of the lanes of one warp: layouts of global memory (lab_global.cu), and one access at any 32 offsets
(lab_access.cu)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from kernels.core.fields import problem_field, seed_field
from kernels.core.problem import Case
from kernels.core.tensors import Initial, Role, Tensor
from kernels.errors import ProblemError
from kernels.families.lab.common import WARP, LabProblem, numbered
from kernels.trace.kinds import KIND, LAB_KINDS, AccessKind

LAYOUTS = ("row_major", "strided", "misaligned", "paged_split", "paged_whole")
ACCESS_BYTES = 32768
OPS = tuple(kind.name for kind in LAB_KINDS)


@dataclass(frozen=True)
class GlobalProblem(LabProblem):
    """One warp reads 32 elements a step from global memory, in one of the layouts of lab_global.cu."""

    layout: str = problem_field("row_major", "where element n lies", allowed=LAYOUTS)
    width: int = problem_field(4, "bytes per element, one read of a lane", allowed=(4, 8, 16))
    steps: int = problem_field(8, "accesses of the warp", low=1, high=64)
    stride: int = problem_field(8, "elements from lane to lane in the strided layout", low=1, high=256)
    shift: int = problem_field(1, "elements by which the misaligned layout begins late", low=0, high=31)
    block_size: int = problem_field(32, "tokens per page in the paged layouts", allowed=(8, 16, 32))
    seed: int = seed_field()

    title = "Layouts of global memory"
    remedy = "Choose fewer steps."

    @classmethod
    def cases(cls) -> Iterable[Case]:
        plain = product(LAYOUTS[:3], (4, 8, 16), ((1, 0), (2, 1), (8, 7), (33, 31)))
        for n, (layout, width, (stride, shift)) in enumerate(plain):
            yield Case(cls(layout, width, 1 + n % 8, stride, shift, seed=n))
        for layout, block_size in product(LAYOUTS[3:], (8, 16, 32)):
            yield Case(cls(layout, 16, 4, block_size=block_size))

    @classmethod
    def recorded(cls) -> Iterable[Case]:
        for layout in LAYOUTS:
            yield Case(cls(layout, 16 if layout.startswith("paged") else 4))

    @classmethod
    def counted(cls) -> Iterable[Case]:
        return cls.recorded()

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return {
            "Side by side": {},
            "A stride of 8 elements": {"layout": "strided"},
            "One element late": {"layout": "misaligned"},
            "Paged K, split by x": {"layout": "paged_split", "width": 16},
            "Paged K, not split": {"layout": "paged_whole", "width": 16},
        }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layout.startswith("paged") and self.width != 16:
            raise ProblemError(
                f"width is {self.width}. The paged K cache is split in pieces of 16 bytes. Choose width 16, or another "
                "layout."
            )

    @property
    def defines(self) -> dict[str, int]:
        return {**numbered("LAYOUT", LAYOUTS, self.layout), "WIDTH": self.width}

    @property
    def elements(self) -> int:
        """Elements of x, read or not."""
        count = WARP * self.steps
        return {"strided": count * self.stride, "misaligned": count + self.shift}.get(self.layout, count)

    @property
    def accesses(self) -> int:
        """Each lane reads `width` bytes a step."""
        return WARP * self.steps * self.width // 4

    @property
    def size(self) -> str:
        return f"{self.layout}, {self.steps} steps"

    def places(self) -> np.ndarray:
        """The element that each lane reads at each step, [steps, 32]."""
        n = np.arange(WARP * self.steps)
        token, piece, pieces = n % self.block_size, n // self.block_size, WARP * self.steps // self.block_size
        layouts = {
            "row_major": n,
            "strided": n * self.stride,
            "misaligned": n + self.shift,
            "paged_split": piece * self.block_size + token,
            "paged_whole": token * pieces + piece,
        }
        return layouts[self.layout].reshape(self.steps, WARP)

    def tensors(self) -> tuple[Tensor, ...]:
        return (
            Tensor("x", (self.elements, self.width // 4), axes=("element", "float")),
            Tensor("o", (WARP,), axes=("lane",), role=Role.OUTPUT),
        )

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        return {"o": self.x.sum(axis=1)[self.places()].sum(axis=0)}


@dataclass(frozen=True)
class AccessProblem(LabProblem):
    """One access of one warp: a byte offset for each lane, or -1 for an inactive lane."""

    op: str = problem_field("shared_load", "what kind of access", allowed=OPS)
    width: int = problem_field(4, "bytes per lane", allowed=(1, 2, 4, 8, 16))
    matrices: int = problem_field(4, "of an ldmatrix: 8x8 matrices", allowed=(1, 2, 4))
    offsets: tuple = problem_field(
        tuple(range(0, 512, 16)), "byte offset of each lane, or -1", low=-1, high=ACCESS_BYTES - 1
    )

    title = "One access of a warp"
    remedy = "Choose smaller offsets."

    @classmethod
    def cases(cls) -> Iterable[Case]:
        """Every kind of access, width and number of matrices. The lanes access words in a row, one column, one common
        word, or leave some lanes inactive. Lanes of a cp.async would race for a common word, so they take the words
        backwards."""
        lanes = np.arange(WARP)
        for kind in LAB_KINDS:
            is_matrix = kind.name == "ldmatrix"
            for width, matrices in product(kind.widths, (1, 2, 4) if is_matrix else (4,)):
                third = lanes[::-1] * width if kind.event.startswith("cp_async") else lanes * 0 + 64
                for offsets in (lanes * width, lanes * 128, third, np.where(lanes % 3, lanes * 48, -1)):
                    if not is_matrix or offsets.min() >= 0:
                        yield Case(cls(kind.name, width, matrices, tuple(offsets.tolist())))

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        places = {"Side by side": 4, "A column of rows of 32 floats": 128, "The same word": 0}
        offsets = {title: {"offsets": tuple(lane * step for lane in range(WARP))} for title, step in places.items()}
        return {"Every fourth word": {}, **offsets}

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.offsets) != WARP:
            raise ProblemError(
                f"offsets has {len(self.offsets)} entries. A warp has {WARP} lanes (-1 for a lane that stays out)."
            )
        if self.width not in self.kind.widths:
            allowed = ", ".join(map(str, self.kind.widths))
            raise ProblemError(f"width is {self.width}. For {self.op} it must be one of {allowed}.")
        for lane, offset in enumerate(self.offsets):
            if offset % self.width and offset != -1:
                raise ProblemError(
                    f"offsets[{lane}] is {offset}, not a multiple of the width, {self.width}: the hardware would "
                    "refuse the access."
                )
            if offset == -1 and self.op == "ldmatrix" and lane < 8 * self.matrices:
                raise ProblemError(
                    f"offsets[{lane}] is -1. An ldmatrix of {self.matrices} matrices needs the rows of lanes 0 to "
                    f"{8 * self.matrices - 1}."
                )

    @property
    def kind(self) -> AccessKind:
        """The row of the table of access kinds that this is about."""
        return KIND[self.op]

    @property
    def defines(self) -> dict[str, int]:
        return {**numbered("OP", OPS, self.op), "WIDTH": self.width, "MATRICES": self.matrices}

    @property
    def accesses(self) -> int:
        """Shared memory is filled word by word before it is read."""
        return ACCESS_BYTES // 4

    @property
    def size(self) -> str:
        return f"{self.op} of {self.width} bytes"

    def tensors(self) -> tuple[Tensor, ...]:
        """x: bytes, with the value w in 32-bit word w.

        y: the target of a global store.
        o: the sum of each lane's words.
        The output is y for a global store and o otherwise. The other tensor stays unchanged."""
        stores = self.op == "global_store"
        return (
            Tensor("x", (ACCESS_BYTES,), "uint8", ("byte",)),
            Tensor("y", (ACCESS_BYTES,), "uint8", ("byte",), Role.OUTPUT if stores else Role.SCRATCH, Initial.ZERO),
            Tensor("o", (WARP,), axes=("lane",), role=Role.SCRATCH if stores else Role.OUTPUT),
        )

    def inputs(self) -> dict[str, np.ndarray]:
        return {"x": np.arange(ACCESS_BYTES // 4, dtype=np.int32).view(np.uint8)}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        offsets, x = np.array(self.offsets), self.inputs()["x"]
        if self.op == "ldmatrix":
            words, lanes = x.view(np.int32), np.arange(WARP)
            rows = np.stack([words[offsets[8 * i + lanes // 4] // 4 + lanes % 4] for i in range(self.matrices)])
            return {"o": rows.sum(axis=0).astype(np.float64)}
        if self.op == "global_store":
            return {"y": self._stored().astype(np.float64)}
        if self.op == "shared_store":
            x = self._stored()
        on, at_once = offsets >= 0, min(self.width, 4)
        items = x.view(f"<u{at_once}").astype(np.float64)
        first = np.where(on, offsets, 0) // at_once
        read = np.stack([items[first + i] for i in range(self.width // at_once)])
        return {"o": np.where(on, read.sum(axis=0), 0.0)}

    def _stored(self) -> np.ndarray:
        """The memory after a store into zeros. A lane writes the numbers of the words at its offset. For less than a
        word, it writes its offset modulo 251."""
        found = np.zeros(ACCESS_BYTES, np.uint8)
        for at in (offset for offset in self.offsets if offset >= 0):
            words = np.arange(at // 4, at // 4 + self.width // 4, dtype=np.int32)
            part = words if self.width >= 4 else np.array([at % 251], f"<u{self.width}")
            found[at : at + self.width] = part.view(np.uint8)
        return found
