"""The memory hierarchy, and the roof of arithmetic: a pointer chase, a stream, and multiply-adds (lab_chase.cu,
lab_stream.cu, lab_fma.cu). timing/hierarchy.py and timing/protocol.py measure with them on a GPU."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from kernels.core.fields import problem_field
from kernels.core.problem import Case
from kernels.core.tensors import Role, Tensor
from kernels.errors import ProblemError
from kernels.families.lab.common import LabProblem, numbered

NODE_BYTES = 128  # one node of the chase in each cache line
VECTORS_PER_THREAD = 4  # UNROLL of lab_stream.cu: 16-byte loads that a thread has under way at once
FMA_THREADS, CHAINS = 256, 16  # per block, and per thread, of lab_fma.cu
CHASE_SPACES = ("through_l1", "from_l2", "shared")
STREAM_SPACES = (*CHASE_SPACES, "copy")


@dataclass(frozen=True)
class ChaseProblem(LabProblem):
    """One thread follows a ring of nodes in random order: `warm_up` links untimed, then `steps`."""

    space: str = problem_field(
        "through_l1",
        "the ring's memory: global memory through L1, L2 past it, or shared memory",
        allowed=CHASE_SPACES,
    )
    working_set: int = problem_field(
        4096, "bytes that the ring spans: 128 per node", low=NODE_BYTES, high=2**31 - NODE_BYTES
    )
    warm_up: int = problem_field(
        0, "links followed before the timed ones, so that the caches hold what fits", low=0, high=2**24
    )
    steps: int = problem_field(64, "links followed", low=1, high=2**22)
    seed: int = problem_field(0, "seed of the ring's order", low=0, high=2**32 - 1)

    title = "Pointer chase"
    remedy = "Choose a smaller working_set."

    @classmethod
    def cases(cls) -> Iterable[Case]:
        """Every space: a ring of one node, and rings walked once and more than once."""
        walks = ((128, 0, 1), (4096, 0, 31), (4096, 32, 33), (40000, 100, 1000))
        for n, (space, (size, warm_up, steps)) in enumerate(product(CHASE_SPACES, walks)):
            yield Case(cls(space, size, warm_up, steps, n))

    @property
    def shared_remedy(self) -> str:
        return "Choose a smaller working_set, or a space that is not shared."

    @property
    def nodes(self) -> int:
        return self.working_set // NODE_BYTES

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
        return self.warm_up + self.steps + (2 * self.nodes if self.space == "shared" else 0)

    @property
    def size(self) -> str:
        return f"a working_set of {self.working_set:,} bytes"

    def ring(self) -> np.ndarray:
        """The nodes in the order of their links, [nodes]."""
        return random_ring(self.nodes, self.seed)

    def tensors(self) -> tuple[Tensor, ...]:
        """n: the nodes of 32 words.

        o: the last node.
        times: cycles and ns of the timed links, 0 on a CPU.
        """
        return (
            Tensor("n", (self.nodes, NODE_BYTES // 4), "int32", ("node", "word")),
            Tensor("o", (1,), axes=("thread",), role=Role.OUTPUT),
            Tensor("times", (2,), "int64", ("clock",), Role.SCRATCH),
        )

    def inputs(self) -> dict[str, np.ndarray]:
        """n [nodes, 32]: the first word of each node is the byte of the next node. The other words are 0."""
        ring, links = self.ring(), np.zeros((self.nodes, NODE_BYTES // 4), np.int32)
        links[ring, 0] = np.roll(ring, -1) * NODE_BYTES
        return {"n": links}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        """o [1]: the last node, as float32 would hold it."""
        last = self.ring()[(self.warm_up + self.steps) % self.nodes]
        return {"o": np.array([last], np.float32).astype(np.float64)}


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
        """Every space, with one block and several, one round and several, and repeated reads."""
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
        A copy writes only y, and every other space only o. The other tensor has one unchanged element.
        """
        stretch, copies = (self.blocks, self.vectors, 4), self.space == "copy"
        written, alone = Role.OUTPUT, Role.SCRATCH
        return (
            Tensor("x", stretch, axes=("block", "vector", "float")),
            Tensor(
                "y",
                stretch if copies else (1, 1, 1),
                axes=("block", "vector", "float"),
                role=written if copies else alone,
            ),
            Tensor(
                "o",
                (1, 1) if copies else (self.blocks, self.threads),
                axes=("block", "thread"),
                role=alone if copies else written,
            ),
        )

    def inputs(self) -> dict[str, np.ndarray]:
        """x [blocks, vectors, 4]: whole numbers from -8 to 8, in turn."""
        return {"x": np.resize((np.arange(8191) % 17 - 8).astype(np.float32), (self.blocks, self.vectors, 4))}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        """o [blocks, threads], the sum of each thread, or y [blocks, vectors, 4], the copy."""
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
        """One block and several, with one pass, more passes, and a number that no unrolling divides."""
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

        o: the sum of each thread's chains.
        """
        return (
            Tensor("a", (17,), axes=("number",)),
            Tensor("o", (self.blocks * FMA_THREADS,), axes=("thread",), role=Role.OUTPUT),
        )

    def inputs(self) -> dict[str, np.ndarray]:
        """a [17]."""
        return {"a": np.array([1, *range(-8, 8)], np.float32)}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        """o [blocks * 256]: chain n starts with n and grows by the thread's term in each pass."""
        per_thread = sum(range(CHAINS)) + CHAINS * self.passes * self.inputs()["a"][1:].astype(np.float64)
        return {"o": np.tile(per_thread, self.blocks * FMA_THREADS // 16)}
