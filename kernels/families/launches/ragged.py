"""The problem of a ragged batch: one query for each decoding sequence, and very different numbers of keys."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np

from kernels.core.fields import problem_field
from kernels.core.problem import Case, Problem, Work
from kernels.core.reference import on_device, on_host
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role, Tensor
from kernels.families.launches.problem import HEAD_DIMS

SHORTER = 4  # each sequence has a fourth of the keys of the one before


@dataclass(frozen=True)
class RaggedProblem(Problem):
    """o = softmax(scale * q @ k^T) @ v for one query of each sequence, in float32.

    Each sequence has a fourth of the keys of the one before, and at least one. Memory has room for `context` keys of
    each.
    """

    sequences: int = problem_field(3, "decoding sequences", low=2, high=64)
    context: int = problem_field(300, "keys of the longest sequence", low=1, high=65536)
    num_heads: int = problem_field(2, "heads", low=1, high=64)
    head_dim: int = problem_field(32, "numbers per head", allowed=HEAD_DIMS)
    seed: int = problem_field(0, "seed of the random inputs", low=0, high=2**32 - 1)

    title: ClassVar[str] = "A ragged batch"
    remedy: ClassVar[str] = "Choose a shorter context."
    spellings: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "sequences": ("batch", "numseqs"),
        "context": ("contextlen", "keys"),
        "num_heads": ("heads",),
        "head_dim": ("d", "dim"),
    }

    @property
    def lengths(self) -> tuple[int, ...]:
        """The keys of each sequence."""
        return tuple(max(1, self.context // SHORTER**number) for number in range(self.sequences))

    @property
    def scale(self) -> float:
        """Of the scores."""
        return float(self.head_dim) ** -0.5

    @property
    def sizes(self) -> dict[str, object]:
        """scale, and lengths: the keys of each sequence."""
        return {"scale": self.scale, "lengths": self.lengths}

    @property
    def defines(self) -> dict[str, int]:
        return {"HEAD_DIM": self.head_dim}

    @property
    def size(self) -> str:
        keys = ", ".join(f"{length:,}" for length in self.lengths)
        return f"sequences with {keys} keys, num_heads {self.num_heads}, head_dim {self.head_dim}"

    @property
    def cpu_steps(self) -> int:
        return 2 * self.num_heads * sum(self.lengths) * self.head_dim

    @property
    def work(self) -> Work:
        """Each key is read once, each output written once."""
        return Work(4 * self.num_heads * sum(self.lengths) * self.head_dim, self.sequences, {})

    def tensors(self) -> tuple[Tensor, ...]:
        """q, k, v and lengths, and o."""
        query = (self.sequences, self.num_heads, self.head_dim), ("sequence", "head", "dim")
        cache = (self.sequences, self.num_heads, self.context, self.head_dim), ("sequence", "head", "key", "dim")
        return (
            Tensor("q", query[0], "float32", query[1], Role.INPUT),
            *(Tensor(name, cache[0], "float32", cache[1], Role.INPUT) for name in ("k", "v")),
            Tensor("lengths", (self.sequences,), "int32", ("sequence",), Role.INPUT),
            Tensor("o", query[0], "float32", query[1], Role.OUTPUT),
        )

    def inputs(self) -> dict[str, np.ndarray]:
        """q, k and v of standard deviation 1. Keys and values past a sequence's last key are NaN."""
        rng = np.random.default_rng(self.seed)
        q, k, v, *_ = (rng.standard_normal(tensor.shape, dtype=np.float32) for tensor in self.tensors()[:3])
        for number, length in enumerate(self.lengths):
            k[number, :, length:] = v[number, :, length:] = np.nan
        return {"q": q, "k": k, "v": v, "lengths": np.array(self.lengths, np.int32)}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        given = self.inputs()
        o = np.empty(given["q"].shape)
        for number, length in enumerate(self.lengths):
            q, k, v = (given[name][number].astype(np.float64) for name in ("q", "k", "v"))
            scores = self.scale * np.einsum("hd,hkd->hk", q, k[:, :length])
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            o[number] = np.einsum("hk,hkd->hd", weights / weights.sum(-1, keepdims=True), v[:, :length])
        return {"o": o}

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """torch's attention in float32, sequence by sequence."""
        import torch

        given = {name: on_device(array, device) for name, array in self.inputs().items()}
        call, made = torch.nn.functional.scaled_dot_product_attention, []
        for number, length in enumerate(self.lengths):
            q, k, v = (given[name][number][None] for name in ("q", "k", "v"))
            made.append(on_host(call(q[:, :, None], k[:, :, :length], v[:, :, :length])[0, :, 0]))
        return {"o": np.stack(made)}

    def largest_terms(self) -> dict[str, float]:
        return {"o": float(np.nanmax(np.abs(self.inputs()["v"])))}

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> Iterator[Case]:
        """Two to five sequences, contexts that do and do not fill a part, each head_dim and each value of each
        constant."""
        values = [(constant.name, value) for constant in kernel.constants for value in constant.values]
        shapes = product((2, 3, 5), (1, 31, 96, 130, 257, 500, 1000), HEAD_DIMS)
        for number, (sequences, context, head_dim) in enumerate(shapes):
            chosen = (values[number % len(values)],) if values else ()
            yield Case(cls(sequences, context, 1 + number % 3, head_dim, number), chosen)

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return {"Three sequences": {}, "Five sequences": {"sequences": 5}, "A longer context": {"context": 600}}

    @classmethod
    def bench_default(cls) -> "RaggedProblem":
        return cls(4, 2048, 8, 64)

    @classmethod
    def launch_cases(cls, kernel: KernelSpec) -> list[Case]:
        """The runs with recorded times of their launches: four sequences, and 16 with up to 16,384 keys."""
        return [Case(cls.bench_default()), Case(cls(16, 16384, 8, 64))]
