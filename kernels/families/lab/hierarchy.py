"""The memory hierarchy, and the roof of arithmetic: pointer chases, a stream, and multiply-adds (lab_chase*.cu,
lab_stream.cu, lab_fma.cu). measure/hierarchy.py and measure/protocol.py measure with them on a GPU."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import ClassVar

import numpy as np

from kernels.core.fields import problem_field, seed_field
from kernels.core.problem import Case
from kernels.core.tensors import Role, Tensor
from kernels.errors import ProblemError
from kernels.families.lab.common import LabProblem, numbered

NODE_BYTES = 128  # one node of the chase in each cache line
CONSTANT_NODE, CONSTANT_BYTES = 64, 2**16  # bytes of a node in each line of the constant cache; of constant memory
TEXTURE_BYTES = 2**29  # 2^27 texels of 4 bytes, the width of a texture of linear memory
VECTORS_PER_THREAD = 4  # UNROLL of lab_stream.cu: 16-byte loads that a thread has under way at once
FMA_THREADS, CHAINS = 256, 16  # per block, and per thread, of lab_fma.cu
CHASE_SPACES = ("through_l1", "from_l2", "shared")
STREAM_SPACES = (*CHASE_SPACES, "copy")


def warm_up_field() -> int:
    meaning = "links followed before the timed ones, so that the caches hold what fits"
    return problem_field(0, meaning, low=0, high=2**24)


class Chase(LabProblem):
    """One thread follows a ring of nodes in one of a GPU's memories: `warm_up` links untimed, then `steps`.

    node_bytes: from one node to the next."""

    working_set: int
    warm_up: int
    steps: int
    seed: int

    node_bytes: ClassVar[int] = NODE_BYTES
    remedy = "Choose a smaller working_set."

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
        return random_ring(self.nodes, self.seed)

    def tensors(self) -> tuple[Tensor, ...]:
        """n: the nodes of 32 words.

        o: the last node.
        times: cycles and ns of the timed links, 0 on a CPU."""
        return (
            Tensor("n", (self.nodes, NODE_BYTES // 4), "int32", ("node", "word")),
            Tensor("o", (1,), axes=("thread",), role=Role.OUTPUT),
            Tensor("times", (2,), "int64", ("clock",), Role.SCRATCH),
        )

    def linked(self, unit: int) -> dict[str, np.ndarray]:
        """n [nodes, 32]: the first word of each node is the place of the next node. The other words are 0.

        unit: bytes that a place counts."""
        ring, links = self.ring(), np.zeros((self.nodes, NODE_BYTES // 4), np.int32)
        links[ring, 0] = np.roll(ring, -1) * (NODE_BYTES // unit)
        return {"n": links}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        """o [1]: the last node, as float32 would hold it."""
        last = self.ring()[(self.warm_up + self.steps) % self.nodes]
        return {"o": np.array([last], np.float32).astype(np.float64)}


@dataclass(frozen=True)
class ChaseProblem(Chase):
    """A ring in random order, in global memory through L1, in L2 past it, or in shared memory."""

    space: str = problem_field(
        "through_l1", "the ring's memory: global memory through L1, L2 past it, or shared memory", allowed=CHASE_SPACES
    )
    working_set: int = problem_field(
        4096, "bytes that the ring spans: 128 per node", low=NODE_BYTES, high=2**31 - NODE_BYTES
    )
    warm_up: int = warm_up_field()
    steps: int = problem_field(64, "links followed", low=1, high=2**22)
    seed: int = seed_field("seed of the ring's order")

    title = "Pointer chase"

    @classmethod
    def cases(cls) -> Iterable[Case]:
        walks = ((128, 0, 1), (4096, 0, 31), (4096, 32, 33), (40000, 100, 1000))
        for n, (space, (size, warm_up, steps)) in enumerate(product(CHASE_SPACES, walks)):
            yield Case(cls(space, size, warm_up, steps, n))

    @property
    def shared_remedy(self) -> str:
        return "Choose a smaller working_set, or a space that is not shared."

    @property
    def defines(self) -> dict[str, int]:
        return numbered("SPACE", CHASE_SPACES, self.space)

    @property
    def sizes(self) -> dict[str, object]:
        """nodes, and start: the byte of the ring's first node."""
        return {"nodes": self.nodes, "start": int(self.ring()[0]) * NODE_BYTES}

    @property
    def accesses(self) -> int:
        """Every link. A shared memory run also reads and stores each node before."""
        return super().accesses + (2 * self.nodes if self.space == "shared" else 0)

    def inputs(self) -> dict[str, np.ndarray]:
        return self.linked(1)


@dataclass(frozen=True)
class CachedChase(Chase):
    """A ring in constant memory or in a texture. measure/hierarchy.py measures its latency next to ChaseProblem's."""

    working_set: int = problem_field(4096, "bytes that the ring spans", low=128, high=TEXTURE_BYTES)
    warm_up: int = warm_up_field()
    steps: int = problem_field(64, "links followed", low=1, high=2**22)

    space: ClassVar[str]

    @classmethod
    def cases(cls) -> Iterable[Case]:
        for walk in ((128, 0, 1), (128, 3, 5), (4096, 0, 31), (4096, 32, 65), (40000, 100, 1000)):
            yield Case(cls(*walk))


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

    def tensors(self) -> tuple[Tensor, ...]:
        return super().tensors()[1:]

    def inputs(self) -> dict[str, np.ndarray]:
        return {}


@dataclass(frozen=True)
class TextureChaseProblem(CachedChase):
    """A ring in global memory that the kernel reads as a texture."""

    working_set: int = problem_field(
        4096, "bytes that the ring spans: 128 per node", low=NODE_BYTES, high=TEXTURE_BYTES
    )
    seed: int = seed_field("seed of the ring's order")

    title = "Pointer chase through a texture"
    space = "texture"

    @property
    def sizes(self) -> dict[str, object]:
        """start: the texel of the ring's first node."""
        return {"start": int(self.ring()[0]) * NODE_BYTES // 4}

    def inputs(self) -> dict[str, np.ndarray]:
        return self.linked(4)


@lru_cache(maxsize=1)
def _links(nodes: int) -> list[int]:
    """Node -> the next node, for lab_chase_constant.cu: Sattolo's shuffle, which always gives one ring."""
    following, state = list(range(nodes)), 1
    for last in range(nodes - 1, 0, -1):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        other = (state >> 33) % last
        following[last], following[other] = following[other], following[last]
    return following


@lru_cache(maxsize=1)
def random_ring(nodes: int, seed: int) -> np.ndarray:
    """A random order of that many nodes. The cache keeps the last one for a run's plan, inputs and truth."""
    ring = np.random.default_rng(seed).permutation(nodes)
    ring.flags.writeable = False
    return ring


@dataclass(frozen=True)
class StreamProblem(LabProblem):
    """A grid reads a working set `passes` times, or copies it."""

    space: str = problem_field(
        "through_l1",
        "read through L1, past it from L2, from shared memory, or copy device memory",
        allowed=STREAM_SPACES,
    )
    blocks: int = problem_field(2, "thread blocks, each with its own stretch", low=1, high=2**20)
    threads: int = problem_field(64, "threads per block", allowed=(64, 128, 256, 512, 1024))
    rounds: int = problem_field(2, "times that each thread reads 64 bytes of its stretch in a pass", low=1, high=2**16)
    passes: int = problem_field(1, "times that the working set is read", low=1, high=2**16)

    title = "Stream"
    remedy = "Choose fewer blocks, rounds or passes."

    @classmethod
    def cases(cls) -> Iterable[Case]:
        for space, size in product(STREAM_SPACES, ((1, 64, 1, 1), (3, 128, 2, 2), (2, 64, 5, 3))):
            yield Case(cls(space, *size))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vectors >= 2**29:
            raise ProblemError(
                f"threads x rounds is {self.threads * self.rounds:,}. A block's stretch must stay below 8 GiB."
            )

    @property
    def shared_remedy(self) -> str:
        return "Choose fewer rounds or threads."

    @property
    def vectors(self) -> int:
        """float4 of a block's stretch."""
        return VECTORS_PER_THREAD * self.threads * self.rounds

    @property
    def working_set(self) -> int:
        """Bytes."""
        return 16 * self.vectors * self.blocks

    @property
    def bytes_moved(self) -> int:
        """Bytes read, and by a copy written, in all passes."""
        return self.working_set * self.passes * (2 if self.space == "copy" else 1)

    @property
    def defines(self) -> dict[str, int]:
        return numbered("SPACE", STREAM_SPACES, self.space)

    @property
    def sizes(self) -> dict[str, object]:
        """vectors: float4 of a block's stretch."""
        return {"vectors": self.vectors}

    @property
    def accesses(self) -> int:
        """Every number read or written in every pass, and the first fill of shared memory."""
        return (self.bytes_moved + (2 * self.working_set if self.space == "shared" else 0)) // 4

    @property
    def size(self) -> str:
        return f"a working set of {self.working_set:,} bytes" + (
            f" read {self.passes:,} times" if self.passes > 1 else ""
        )

    def tensors(self) -> tuple[Tensor, ...]:
        """x: each block's stretch.

        y: the target of a copy.
        o: a sum for each thread.
        A copy writes only y, and every other space only o. The other tensor has one unchanged element."""
        stretch, axes = (self.blocks, self.vectors, 4), ("block", "vector", "float")
        if self.space == "copy":
            y = Tensor("y", stretch, axes=axes, role=Role.OUTPUT)
            o = Tensor("o", (1, 1), axes=("block", "thread"), role=Role.SCRATCH)
        else:
            y = Tensor("y", (1, 1, 1), axes=axes, role=Role.SCRATCH)
            o = Tensor("o", (self.blocks, self.threads), axes=("block", "thread"), role=Role.OUTPUT)
        return Tensor("x", stretch, axes=axes), y, o

    def inputs(self) -> dict[str, np.ndarray]:
        return {"x": np.resize((np.arange(8191) % 17 - 8).astype(np.float32), (self.blocks, self.vectors, 4))}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        x = self.inputs()["x"]
        if self.space == "copy":
            return {"y": x.astype(np.float64)}
        by_thread = x.reshape(self.blocks, self.rounds * VECTORS_PER_THREAD, self.threads, 4)
        return {"o": self.passes * by_thread.sum(axis=(1, 3), dtype=np.float64)}


@dataclass(frozen=True)
class FmaProblem(LabProblem):
    """Every thread does CHAINS chains of `passes` fused multiply-adds on small whole numbers."""

    blocks: int = problem_field(2, "thread blocks of 256 threads", low=1, high=2**16)
    passes: int = problem_field(4, "multiply-adds of each chain", low=1, high=2**16)

    title = "Multiply-adds"
    remedy = "Choose fewer blocks or passes."

    @classmethod
    def cases(cls) -> Iterable[Case]:
        for blocks, passes in ((1, 1), (2, 4), (3, 7), (1, 33), (2, 100)):
            yield Case(cls(blocks, passes))

    @property
    def multiply_adds(self) -> int:
        return self.blocks * FMA_THREADS * CHAINS * self.passes

    @property
    def accesses(self) -> int:
        """The multiply-adds, which are more than the accesses, and each thread's sum of its chains."""
        return self.multiply_adds + self.blocks * FMA_THREADS * CHAINS

    @property
    def size(self) -> str:
        return f"{self.blocks} blocks, {self.passes} passes"

    def tensors(self) -> tuple[Tensor, ...]:
        """a: the factor 1, and the term of every 16th thread.

        o: the sum of each thread's chains."""
        return (
            Tensor("a", (17,), axes=("number",)),
            Tensor("o", (self.blocks * FMA_THREADS,), axes=("thread",), role=Role.OUTPUT),
        )

    def inputs(self) -> dict[str, np.ndarray]:
        return {"a": np.array([1, *range(-8, 8)], np.float32)}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        per_thread = sum(range(CHAINS)) + CHAINS * self.passes * self.inputs()["a"][1:].astype(np.float64)
        return {"o": np.tile(per_thread, self.blocks * FMA_THREADS // 16)}
