"""The problem of attention over several GPUs, with its cases, and the share of each GPU in each step.

A GPU holds one part of the queries and starts with the same part of the keys. After each step, every part of the keys
moves to the next GPU. A causal part in `zigzag` order is two chunks, one from each end of the sequence, so every GPU
has equal work.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from kernels.core.cases import Settings, small_tiles, traced, tuned, values, what_ifs
from kernels.core.fields import problem_field, seed_field
from kernels.core.problem import Case, Problem, Work, check_groups
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role, Tensor
from kernels.errors import ProblemError
from kernels.families.attention import DTYPES, SCALES
from kernels.families.tensor_cores.problem import SixteenBitProblem

MOST_GPUS = 8
HEADS = ((1, 0), (2, 0), (4, 2), (3, 1))  # query heads and KV heads
ROWS = (2, 6, 18, 34, 66, 130)  # of a GPU
ORDERS = {
    "zigzag": "Zigzag order gives each GPU an early and a late part of the queries.",
    "plain": "Plain order gives each GPU one part of the queries, and later ones meet more keys.",
}
"""An order -> what it means under a causal mask."""


@dataclass(frozen=True)
class Share:
    """The work of a GPU in a step.

    part: the part of the keys that the GPU holds.
    row_first, rows: the first row and the end of its rows. No work without rows.
    keys: the first `keys` keys of the part are visible.
    offset: row i sees the keys up to i + offset.
    final_rows: the rows before this one have met all their keys."""

    part: int
    row_first: int
    rows: int
    keys: int
    offset: int
    final_rows: int

    @property
    def works(self) -> bool:
        return self.rows > self.row_first


def chunks(gpus: int, zigzag: bool) -> list[tuple[int, ...]]:
    """The chunks of each GPU, in the order of its rows."""
    return [(gpu, 2 * gpus - 1 - gpu) if zigzag else (gpu,) for gpu in range(gpus)]


def share(gpus: int, step: int, gpu: int, rows: int, causal: bool, zigzag: bool) -> Share:
    """The work of a GPU in a step of the ring. rows: of a part."""
    part, last = (gpu - step) % gpus, step == gpus - 1
    if not causal:
        return Share(part, 0, rows, rows, rows, rows if last else 0)
    if part == gpu:  # its own part: the diagonal
        ends = gpus == 1 or not zigzag and gpu == 0
        return Share(part, 0, rows, rows, 0, rows if ends else 0 if gpu or not zigzag else rows // 2)
    if not zigzag:
        seen = part < gpu
        return Share(part, 0, rows if seen else 0, rows, rows, rows if step == gpu else 0)
    half = rows // 2
    if part < gpu:  # all rows see the first chunk
        return Share(part, 0, rows, half, rows, rows if last else half if step == gpu else 0)
    return Share(part, half, rows, rows, rows, rows if last else 0)  # the rows of the second chunk see all keys


@lru_cache(maxsize=1)
def _truth(whole: SixteenBitProblem, on_gpu: bool) -> dict[str, np.ndarray]:
    """The last truth, for all ways to divide one problem. Nobody writes into it."""
    return whole.truth(on_gpu)


@lru_cache(maxsize=1)
def _yardstick(whole: SixteenBitProblem, device: str) -> dict[str, np.ndarray]:
    return whole.yardstick(device)


@dataclass(frozen=True)
class RingProblem(Problem):
    """Attention over random Q, K and V [1, heads, seq_len, head_dim] of 16 bits, on `gpus` GPUs.

    Values of `split`:
    keys: each GPU holds a part of the queries and of the keys. The keys move round a ring. Each step computes the m, l
        and O of one part of the keys and merges them with those of the steps before.
    heads: each GPU computes whole heads. The outputs then move to GPU 0.

    Values of `order`, the parts of a sequence split by keys:
    plain: part g is the g-th piece of the sequence.
    zigzag: part g is the g-th of 2 * gpus pieces and the g-th from the end.

    The numbers are as in SixteenBitProblem. A tensor of a GPU has its number in its name, such as q_0."""

    seq_len: int = problem_field(128, "queries and keys of a head, on all GPUs together", low=1, high=131072)
    head_dim: int = problem_field(64, "numbers per query, key and value", allowed=(64, 128))
    num_heads: int = problem_field(1, "query heads", low=1, high=128)
    causal: bool = problem_field(True, "each query sees only the keys up to itself", allowed=(False, True))
    dtype: str = problem_field("float16", "type of Q, K, V and O, with float32 sums", allowed=DTYPES)
    score_scale: float = problem_field(1.0, "standard deviation of the scores", low=0.01, high=1000.0)
    seed: int = seed_field()
    num_kv_heads: int = problem_field(0, "KV heads, a divisor of num_heads, or 0 for as many", low=0, high=128)
    gpus: int = problem_field(4, "GPUs, virtual on a CPU and on one GPU", low=1, high=MOST_GPUS)
    split: str = problem_field("keys", "what is divided over the GPUs", allowed=("keys", "heads"))
    order: str = problem_field("zigzag", "which pieces of the sequence a GPU holds", allowed=tuple(ORDERS))

    title: ClassVar[str] = "Attention over several GPUs"
    remedy: ClassVar[str] = "Choose a smaller seq_len or num_heads."

    def __post_init__(self) -> None:
        super().__post_init__()
        check_groups(self.num_heads, self.kv_heads)
        if self.split == "heads" and self.kv_heads % self.gpus:
            raise ProblemError(
                f"The problem has {self.kv_heads} KV {'head' if self.kv_heads == 1 else 'heads'}, and {self.gpus} GPUs "
                f"need a multiple of {self.gpus}. Choose more heads, or split=keys."
            )
        if self.split == "keys" and self.seq_len % self.pieces:
            raise ProblemError(
                f"seq_len is {self.seq_len}, and {self.order} order cuts it into {self.pieces} equal pieces. Choose a "
                f"multiple of {self.pieces}."
            )

    # ---- parts ----

    @property
    def kv_heads(self) -> int:
        return self.num_kv_heads or self.num_heads

    @property
    def zigzag(self) -> bool:
        return self.order == "zigzag"

    @property
    def pieces(self) -> int:
        """Equal pieces of the sequence, in a split by keys."""
        return self.gpus * (2 if self.zigzag else 1)

    @property
    def rows(self) -> int:
        return self.seq_len // self.gpus if self.split == "keys" else self.seq_len

    @property
    def steps(self) -> int:
        return self.gpus if self.split == "keys" else 1

    @cached_property
    def shares(self) -> tuple[tuple[Share, ...], ...]:
        if self.split == "heads":
            return (tuple(share(1, 0, 0, self.rows, self.causal, False) for _ in range(self.gpus)),)
        return tuple(
            tuple(share(self.gpus, step, gpu, self.rows, self.causal, self.zigzag) for gpu in range(self.gpus))
            for step in range(self.steps)
        )

    def part(self, array: np.ndarray, gpu: int) -> np.ndarray:
        """A GPU's part of an array [1, head, row, ...]."""
        if self.split == "heads":
            count = array.shape[1] // self.gpus
            return np.ascontiguousarray(array[:, gpu * count : (gpu + 1) * count])
        return np.ascontiguousarray(array[:, :, self.row_numbers(gpu)])

    def rows_of(self, tensor: str) -> np.ndarray:
        return self.row_numbers(int(tensor.split("_")[1]))

    def row_numbers(self, gpu: int) -> np.ndarray:
        """The rows of the sequence on a GPU, in the order of its tensors."""
        if self.split == "heads":
            return np.arange(self.seq_len)
        size = self.seq_len // self.pieces
        return np.concatenate([np.arange(c * size, (c + 1) * size) for c in chunks(self.gpus, self.zigzag)[gpu]])

    def orders(self) -> Mapping[str, "tuple[RingProblem, str]"]:
        """The orders, if the mask makes them differ."""
        if self.split != "keys" or not self.causal or self.seq_len % (2 * self.gpus):
            return {}
        return {order: (replace(self, order=order), said) for order, said in ORDERS.items()}

    @cached_property
    def whole(self) -> SixteenBitProblem:
        """The same attention on one GPU."""
        return SixteenBitProblem(
            self.seq_len,
            self.head_dim,
            1,
            self.num_heads,
            self.causal,
            self.dtype,
            self.score_scale,
            self.seed,
            self.num_kv_heads,
        )

    # ---- tensors and numbers ----

    def tensors(self) -> tuple[Tensor, ...]:
        """q, k, v, o and lse of each GPU. Split by keys, also the parts of K and V for odd and even steps. Split by
        heads, also the o of the other GPUs on GPU 0."""
        return tuple(tensor for gpu in range(self.gpus) for tensor in self._tensors_of(gpu))

    def _tensors_of(self, gpu: int) -> Iterator[Tensor]:
        heads = self.gpus if self.split == "heads" else 1
        sizes = {"q": self.num_heads // heads, "k": self.kv_heads // heads, "v": self.kv_heads // heads}

        def tensor(name: str, of: str, role: Role, device: int = gpu) -> Tensor:
            axes = ("batch", "head", "query" if of == "q" else "key", "dim")
            return Tensor(name, (1, sizes[of], self.rows, self.head_dim), self.dtype, axes, role, device=device)

        yield from (tensor(f"{name}_{gpu}", name, Role.INPUT) for name in "qkv")
        yield tensor(f"o_{gpu}", "q", Role.OUTPUT)
        lse = (1, sizes["q"], self.rows)
        yield Tensor(f"lse_{gpu}", lse, "float32", ("batch", "head", "query"), Role.OUTPUT, device=gpu)
        if self.split == "heads" and gpu:
            yield tensor(f"o_{gpu}_on_0", "q", Role.OUTPUT, 0)
        for slot in sorted({*self.slots[1 : self.steps]}):
            yield from (tensor(f"{name}_{gpu}{slot}", name, Role.SCRATCH) for name in "kv")

    @property
    def slots(self) -> tuple[str, ...]:
        """The end of the name of K and V on a GPU in each step."""
        return ("", *("_odd" if step % 2 else "_even" for step in range(1, MOST_GPUS)))

    @property
    def sizes(self) -> dict[str, object]:
        """Numbers of a GPU's tensors, and tables [step][gpu] of its work (Share)."""
        heads = self.gpus if self.split == "heads" else 1
        by_step = {
            name: tuple(tuple(getattr(one, name) for one in step) for step in self.shares)
            for name in ("row_first", "keys", "offset", "final_rows", "works")
        }
        head = self.rows * self.head_dim
        return {
            **by_step,
            **{"rows": self.rows, "steps": self.steps, "slots": self.slots, "scale": 1.0 / math.sqrt(self.head_dim)},
            **{"local_heads": self.num_heads // heads, "local_kv_heads": self.kv_heads // heads, "head_size": head},
        }

    @property
    def defines(self) -> dict[str, int]:
        return {"HEAD_DIM": self.head_dim, "BF16": int(self.dtype == "bfloat16"), "CAUSAL": int(self.causal)}

    @property
    def cpu_steps(self) -> int:
        """The multiply-adds of the two matrix products."""
        return self.whole.cpu_steps

    @property
    def work(self) -> Work:
        return self.whole.work

    @property
    def size(self) -> str:
        return f"seq_len {self.seq_len}, num_heads {self.num_heads}, head_dim {self.head_dim}, {self.gpus} GPUs"

    def _parts(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """name_GPU -> its part of each array."""
        return {f"{name}_{gpu}": self.part(a, gpu) for gpu in range(self.gpus) for name, a in arrays.items()}

    def _outputs(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        parts = self._parts(arrays)
        moved = range(1, self.gpus) if self.split == "heads" else ()
        return {**parts, **{f"o_{gpu}_on_0": parts[f"o_{gpu}"] for gpu in moved}}

    def inputs(self) -> dict[str, np.ndarray]:
        return self._parts(self.whole.inputs())

    def unrounded(self) -> dict[str, np.ndarray]:
        return self._parts(self.whole.unrounded())

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        return self._outputs(_truth(self.whole, on_gpu))

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """torch's answer on one device, in parts."""
        return self._outputs(_yardstick(self.whole, device))

    def largest_terms(self) -> dict[str, float]:
        terms = self.whole.largest_terms()
        return {tensor.name: terms[tensor.name.partition("_")[0]] for tensor in self.outputs}

    # ---- cases ----

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return {
            "Four GPUs, causal, zigzag": {},
            "Four GPUs, causal, plain": {"order": "plain"},
            "Four GPUs, every key": {"causal": False, "order": "plain"},
            "Two GPUs, causal, zigzag": {"gpus": 2},
            "Eight GPUs, causal, plain": {"gpus": 8, "order": "plain"},
            "Heads over four GPUs": {"split": "heads", "num_heads": 4, "seq_len": 64},
        }

    @classmethod
    def bench_default(cls) -> Self:
        """One GPU, so that a time has a meaning."""
        return cls(seq_len=4096, head_dim=128, num_heads=16, gpus=1)

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """1 to 8 GPUs with parts of several lengths: every order and mask, both types, grouped heads.

        Then follow heads split over GPUs, and each value of each constant."""
        cases: list[Case] = []

        def add(settings: Settings = (), **fields: Any) -> None:
            n = len(cases)
            heads, kv_heads = HEADS[n % 4]
            by_number = {
                "head_dim": (64, 128)[n // 2 % 2],
                "dtype": DTYPES[n % 2],
                "score_scale": SCALES[n // 3 % 4],
                "num_heads": heads,
                "num_kv_heads": kv_heads,
                "seed": n,
            }
            cases.append(Case(cls(**{**by_number, **fields}), settings))

        for gpus in range(1, 9):
            for number, (causal, order) in enumerate(((False, "plain"), (True, "plain"), (True, "zigzag"))):
                for rows in (ROWS[(gpus + number) % 6], ROWS[(gpus + 2 * number + 3) % 6]):
                    add(seq_len=rows * gpus, gpus=gpus, causal=causal, order=order)
        for gpus, causal in ((2, False), (3, True), (4, True), (8, False)):
            length = (65, 100, 17, 40)[gpus % 4]
            add(seq_len=length, gpus=gpus, causal=causal, split="heads", num_heads=2 * gpus, num_kv_heads=gpus)
        for setting in values(kernel):
            for causal in (False, True):
                add((setting,), seq_len=200, gpus=2, causal=causal, num_heads=1, num_kv_heads=0)
        return tuned(kernel, cases)

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> list[Case]:
        small = small_tiles(kernel)
        cases = [Case(problem, small) for problem in (cls(), cls(order="plain"), cls(causal=False, gpus=2))]
        return traced(kernel, tuned(kernel, cases + what_ifs(kernel, cls(gpus=2), small)))

    @classmethod
    def counter_cases(cls, kernel: KernelSpec) -> list[Case]:
        return tuned(kernel, [Case(cls(gpus=1))])
