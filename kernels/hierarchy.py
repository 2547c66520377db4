"""The memory hierarchy: a pointer chase and a stream, their problems and plans; measured on a GPU by kernels/measurements.py."""

from dataclasses import dataclass

import numpy as np

from kernels.errors import ProblemError
from kernels.plan import Launch, Plan
from kernels.problem import Exact, check_fields, problem_field

NODE_BYTES = 128  # one node of the chase in each cache line
VECTORS_PER_THREAD = 4  # UNROLL of lab_stream.cu
CHAINS = 16  # of lab_fma.cu
CHASE_SPACES = ("through_l1", "from_l2", "shared")  # in the order of the .cu files
STREAM_SPACES = (*CHASE_SPACES, "copy")


@dataclass(frozen=True)
class ChaseProblem(Exact):
    """One thread follows a ring of nodes in random order: `warm_up` links untimed, then `steps`."""

    space: str = problem_field("through_l1", "where the ring is read: global memory through L1, past it from L2, or shared memory", allowed=CHASE_SPACES)
    working_set: int = problem_field(4096, "bytes that the ring spans: 128 per node", low=NODE_BYTES, high=2**31 - NODE_BYTES)
    warm_up: int = problem_field(0, "links followed before the timed ones, so that the caches hold what fits", low=0, high=2**24)
    steps: int = problem_field(64, "links followed", low=1, high=2**22)
    seed: int = problem_field(0, "seed of the ring's order", low=0, high=2**32 - 1)

    __post_init__ = check_fields
    item = "block"
    outputs = {"o": np.float32}
    remedy = "Choose a smaller working_set."
    shared_remedy = "Choose a smaller working_set, or a space that is not shared."

    @property
    def nodes(self):
        return self.working_set // NODE_BYTES

    @property
    def defines(self):
        return {"SPACE": CHASE_SPACES.index(self.space)}

    @property
    def input_bytes(self):
        return self.nodes * NODE_BYTES

    @property
    def multiply_adds(self):
        return self.nodes + self.warm_up + self.steps

    @property
    def size(self):
        return f"a working_set of {self.working_set:,} bytes"

    def ring(self):
        """The nodes in the order of their links."""
        return np.random.default_rng(self.seed).permutation(self.nodes)

    def inputs(self):
        """n [nodes, 32] int32: the first number of each node is where the next begins, in bytes; times [2] int64 (GPU only): cycles and ns."""
        ring, links = self.ring(), np.zeros((self.nodes, NODE_BYTES // 4), np.int32)
        links[ring, 0] = np.roll(ring, -1) * NODE_BYTES
        return {"n": links, "times": np.zeros(2, np.int64)}

    def truth(self, on_gpu=False):
        """The last node, [1] (as float32 would hold it)."""
        return {"o": np.array([self.ring()[(self.warm_up + self.steps) % self.nodes]], np.float32).astype(np.float64)}


@dataclass(frozen=True)
class StreamProblem(Exact):
    """A grid reads a working set `passes` times, or copies it. It holds small whole numbers, so that sums are exact."""

    space: str = problem_field("through_l1", "read through L1, past it from L2, from shared memory; or copy device memory", allowed=STREAM_SPACES)
    blocks: int = problem_field(2, "thread blocks, each with its own stretch", low=1, high=2**20)
    threads: int = problem_field(64, "threads per block", allowed=(64, 128, 256, 512, 1024))
    rounds: int = problem_field(2, "times that each thread reads 64 bytes of its stretch in a pass", low=1, high=2**16)
    passes: int = problem_field(1, "times that the working set is read", low=1, high=2**16)

    item = "block"
    remedy = "Choose fewer blocks, rounds or passes."
    shared_remedy = "Choose fewer rounds or threads."
    multiply_adds = 0

    def __post_init__(self):
        check_fields(self)
        if self.vectors >= 2**29:
            raise ProblemError(f"threads x rounds is {self.threads * self.rounds:,}; a block's stretch must stay below 8 GiB.")

    @property
    def vectors(self):
        """float4 of a block's stretch."""
        return VECTORS_PER_THREAD * self.threads * self.rounds

    @property
    def working_set(self):
        """Bytes."""
        return 16 * self.vectors * self.blocks

    @property
    def bytes_moved(self):
        """Read, and by a copy written."""
        return self.working_set * self.passes * (2 if self.space == "copy" else 1)

    @property
    def outputs(self):
        return {"y": np.float32} if self.space == "copy" else {"o": np.float32}

    @property
    def defines(self):
        return {"SPACE": STREAM_SPACES.index(self.space)}

    @property
    def input_bytes(self):
        return self.working_set

    @property
    def size(self):
        return f"a working set of {self.working_set:,} bytes"

    def inputs(self):
        """x [blocks, vectors, 4] float32; of y and o the one that this space leaves alone."""
        x = np.resize((np.arange(8191) % 17 - 8).astype(np.float32), (self.blocks, self.vectors, 4))
        return {"x": x, **({"o": np.zeros(1, np.float32)} if self.space == "copy" else {"y": np.zeros(1, np.float32)})}

    def truth(self, on_gpu=False):
        """What each thread sums, [blocks, threads]; or the copy."""
        x = self.inputs()["x"]
        if self.space == "copy":
            return {"y": x.astype(np.float64)}
        return {"o": self.passes * x.reshape(self.blocks, self.rounds * VECTORS_PER_THREAD, self.threads, 4).sum(axis=(1, 3), dtype=np.float64)}


@dataclass(frozen=True)
class FmaProblem(Exact):
    """Every thread does CHAINS chains of `passes` fused multiply-adds on small whole numbers, so that the sums are exact."""

    blocks: int = problem_field(2, "thread blocks of 256 threads", low=1, high=2**16)
    passes: int = problem_field(4, "multiply-adds of each chain", low=1, high=2**16)

    __post_init__ = check_fields
    item = "block"
    remedy = shared_remedy = "Choose fewer blocks or passes."
    outputs = {"o": np.float32}
    defines = {}
    input_bytes = 4 * 17

    @property
    def multiply_adds(self):
        return self.blocks * 256 * CHAINS * self.passes

    @property
    def size(self):
        return f"{self.blocks} blocks, {self.passes} passes"

    def inputs(self):
        """a [17] float32: the factor 1, and the term of every 16th thread."""
        return {"a": np.array([1, *range(-8, 8)], np.float32)}

    def truth(self, on_gpu=False):
        per_thread = sum(range(CHAINS)) + CHAINS * self.passes * self.inputs()["a"][1:].astype(np.float64)
        return {"o": np.tile(per_thread, self.blocks * 256 // 16)}


def fma_plan(problem, c):
    launch = Launch("lab_fma", (problem.blocks, 1, 1), (256, 1, 1), 0, ("a", "o", np.int32(problem.passes)), 1)
    return Plan((launch,), {"o": (problem.blocks * 256,)}, problem.blocks)


def chase_plan(problem, c):
    launch = Launch("lab_chase", (1, 1, 1), (1, 1, 1), problem.nodes * NODE_BYTES if problem.space == "shared" else 0,
                    ("n", "o", "times", *map(np.int32, (problem.nodes, problem.ring()[0] * NODE_BYTES, problem.warm_up, problem.steps))), 1)
    return Plan((launch,), {"o": (1,), "times": (2,)}, 1)


def stream_plan(problem, c):
    launch = Launch("lab_stream", (problem.blocks, 1, 1), (problem.threads, 1, 1), 16 * problem.vectors if problem.space == "shared" else 0,
                    ("x", "y", "o", np.int32(problem.vectors), np.int32(problem.passes)), 1)
    return Plan((launch,), {"y": (problem.blocks, problem.vectors, 4)} if problem.space == "copy" else {"o": (problem.blocks, problem.threads)}, problem.blocks)
