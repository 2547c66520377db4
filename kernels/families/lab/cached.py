"""Pointer chases through constant memory and through a texture (lab_chase_constant.cu, lab_chase_texture.cu).

measure/hierarchy.py measures their latencies on a GPU, next to lab_chase's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from kernels.core.fields import problem_field
from kernels.core.problem import Case
from kernels.core.tensors import Role, Tensor
from kernels.families.lab.common import LabProblem
from kernels.families.lab.hierarchy import NODE_BYTES, random_ring

CONSTANT_NODE, CONSTANT_BYTES = 64, 2**16  # bytes of a node in each line of the constant cache; of constant memory
TEXTURE_BYTES = 2**29  # 2^27 texels of 4 bytes, the width of a texture of linear memory
WALKS = ((128, 0, 1), (128, 3, 5), (4096, 0, 31), (4096, 32, 65), (40000, 100, 1000))


@dataclass(frozen=True)
class CachedChase(LabProblem):
    """One thread follows a ring of nodes in one of a GPU's other memories: `warm_up` links untimed, then `steps`."""

    working_set: int = problem_field(4096, "bytes that the ring spans", low=128, high=TEXTURE_BYTES)
    warm_up: int = problem_field(
        0, "links followed before the timed ones, so that the caches hold what fits", low=0, high=2**24
    )
    steps: int = problem_field(64, "links followed", low=1, high=2**22)

    space: ClassVar[str]
    node_bytes: ClassVar[int]
    remedy = "Choose a smaller working_set."

    @classmethod
    def cases(cls) -> Iterable[Case]:
        """Rings that are walked once and more than once."""
        for walk in WALKS:
            yield Case(cls(*walk))

    @property
    def nodes(self) -> int:
        return self.working_set // self.node_bytes

    @property
    def accesses(self) -> int:
        return self.warm_up + self.steps

    @property
    def size(self) -> str:
        return f"a working set of {self.working_set:,} bytes"

    def ring(self) -> np.ndarray:
        """The nodes in the order of their links, [nodes]. The walk starts at the first."""
        raise NotImplementedError

    def tensors(self) -> tuple[Tensor, ...]:
        """o: the last node.

        times: cycles and ns of the timed links, 0 on a CPU.
        """
        return (
            Tensor("o", (1,), axes=("thread",), role=Role.OUTPUT),
            Tensor("times", (2,), "int64", ("clock",), Role.SCRATCH),
        )

    def inputs(self) -> dict[str, np.ndarray]:
        return {}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        """o [1]: the last node, as float32 would hold it."""
        last = self.ring()[(self.warm_up + self.steps) % self.nodes]
        return {"o": np.array([last], np.float32).astype(np.float64)}


@dataclass(frozen=True)
class ConstantChaseProblem(CachedChase):
    """A ring in constant memory. The compiler makes it, so its size is a constant of the build."""

    working_set: int = problem_field(
        4096, "bytes that the ring spans: 64 per node", low=CONSTANT_NODE, high=CONSTANT_BYTES
    )

    title = "Pointer chase in constant memory"
    space = "constant"
    node_bytes = CONSTANT_NODE

    @property
    def defines(self) -> dict[str, int]:
        return {"NODES": self.nodes}

    def ring(self) -> np.ndarray:
        """The ring of the kernel's constexpr constructor, from node 0."""
        following = _links(self.nodes)
        ring = np.zeros(self.nodes, np.int64)
        for place in range(1, self.nodes):
            ring[place] = following[ring[place - 1]]
        return ring


@dataclass(frozen=True)
class TextureChaseProblem(CachedChase):
    """A ring in global memory that the kernel reads as a texture."""

    working_set: int = problem_field(
        4096, "bytes that the ring spans: 128 per node", low=NODE_BYTES, high=TEXTURE_BYTES
    )
    seed: int = problem_field(0, "seed of the ring's order", low=0, high=2**32 - 1)

    title = "Pointer chase through a texture"
    space = "texture"
    node_bytes = NODE_BYTES

    @property
    def sizes(self) -> dict[str, object]:
        """start: the texel of the ring's first node."""
        return {"start": int(self.ring()[0]) * NODE_BYTES // 4}

    def ring(self) -> np.ndarray:
        return random_ring(self.nodes, self.seed)

    def tensors(self) -> tuple[Tensor, ...]:
        """n: the nodes of 32 words, and the tensors of every chase."""
        return (Tensor("n", (self.nodes, NODE_BYTES // 4), "int32", ("node", "word")), *super().tensors())

    def inputs(self) -> dict[str, np.ndarray]:
        """n [nodes, 32]: the first word of each node is the texel of the next node. The other words are 0."""
        ring, links = self.ring(), np.zeros((self.nodes, NODE_BYTES // 4), np.int32)
        links[ring, 0] = np.roll(ring, -1) * (NODE_BYTES // 4)
        return {"n": links}


@lru_cache(maxsize=1)
def _links(nodes: int) -> list[int]:
    """Node -> the next node, for lab_chase_constant.cu: Sattolo's shuffle, which always gives one ring."""
    following, state = list(range(nodes)), 1
    for last in range(nodes - 1, 0, -1):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        other = (state >> 33) % last
        following[last], following[other] = following[other], following[last]
    return following
