"""The problems of a step of a server: a query of each decoding sequence, next to a prompt or in a ragged batch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, Self

import numpy as np

from kernels.core.fields import problem_field, seed_field
from kernels.core.problem import Case, Problem, Work
from kernels.core.reference import grouped_attention, on_device, on_host, softmax
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role, Tensor

HEAD_DIMS = (32, 64, 128)
SHORTER = 4  # each sequence of a ragged batch has a fourth of the keys of the one before
TINY = {"sequences": 4, "context": 32, "prompt": 16, "num_heads": 8, "head_dim": 64}
SMALL = {"sequences": 4, "context": 1024, "prompt": 96, "num_heads": 8, "head_dim": 64}
LARGE = {"sequences": 8, "context": 2048, "prompt": 512, "num_heads": 8, "head_dim": 128}


class DecodingProblem(Problem):
    """o = softmax(scale * q @ k^T) @ v for one query of each sequence, in float32."""

    sequences: int
    context: int
    num_heads: int
    head_dim: int
    seed: int

    spellings: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "sequences": ("batch", "numseqs"),
        "context": ("contextlen", "keys"),
        "num_heads": ("heads",),
        "head_dim": ("d", "dim"),
    }

    @property
    def lengths(self) -> tuple[int, ...]:
        return (self.context,) * self.sequences

    @property
    def scale(self) -> float:
        return float(self.head_dim) ** -0.5

    @property
    def defines(self) -> dict[str, int]:
        return {"HEAD_DIM": self.head_dim}

    @property
    def pairs(self) -> int:
        """Pairs of a query and a visible key, in all heads."""
        return self.num_heads * sum(self.lengths)

    @property
    def cpu_steps(self) -> int:
        return 2 * self.pairs * self.head_dim

    @property
    def work(self) -> Work:
        """Each key and each query is read once, each output written once."""
        return Work(2 * self.cpu_steps, self.sequences, {})

    def tensors(self) -> tuple[Tensor, ...]:
        query, axes = (self.sequences, self.num_heads, self.head_dim), ("sequence", "head", "dim")
        cache = (self.sequences, self.num_heads, self.context, self.head_dim)
        return (
            Tensor("q", query, axes=axes),
            *(Tensor(name, cache, axes=("sequence", "head", "key", "dim")) for name in ("k", "v")),
            Tensor("o", query, axes=axes, role=Role.OUTPUT),
        )

    def inputs(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        given = [tensor for tensor in self.tensors() if tensor.role is Role.INPUT and tensor.dtype == "float32"]
        return {tensor.name: rng.standard_normal(tensor.shape, dtype=np.float32) for tensor in given}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        given = self.inputs()
        o = np.empty(given["q"].shape)
        for number, length in enumerate(self.lengths):
            q, k, v = (given[name][number].astype(np.float64) for name in ("q", "k", "v"))
            weights = softmax(self.scale * np.einsum("hd,hkd->hk", q, k[:, :length]))
            o[number] = np.einsum("hk,hkd->hd", weights, v[:, :length])
        return {"o": o}

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """torch's attention in float32, sequence by sequence."""
        import torch

        given = {name: on_device(array, device) for name, array in self.inputs().items()}
        call, rows = torch.nn.functional.scaled_dot_product_attention, []
        for number, length in enumerate(self.lengths):
            q, k, v = (given[name][number][None] for name in ("q", "k", "v"))
            rows.append(on_host(call(q[:, :, None], k[:, :, :length], v[:, :, :length])[0, :, 0]))
        return {"o": np.stack(rows)}

    def largest_terms(self) -> dict[str, float]:
        return {"o": float(np.nanmax(np.abs(self.inputs()["v"])))}

    @classmethod
    def shapes(cls) -> Iterator[tuple[int, ...]]:
        """The fields before num_heads, and head_dim, of each check case."""
        raise NotImplementedError

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> Iterator[Case]:
        """Two to five sequences, contexts that do and do not fill a part, each head_dim and each value of each
        constant."""
        values = [(constant.name, value) for constant in kernel.constants for value in constant.values]
        for number, (*sizes, head_dim) in enumerate(cls.shapes()):
            chosen = (values[number % len(values)],) if values else ()
            yield Case(cls(*sizes, 1 + number % 3, head_dim, number), chosen)  # type: ignore[call-arg]


@dataclass(frozen=True)
class StepProblem(DecodingProblem):
    """A prompt next to decoding sequences. prompt_o is the causal attention of the prompt."""

    sequences: int = problem_field(2, "decoding sequences", low=2, high=256)
    context: int = problem_field(96, "keys of each sequence", low=1, high=65536)
    prompt: int = problem_field(24, "rows of the prompt", low=1, high=65536)
    num_heads: int = problem_field(2, "heads", low=1, high=64)
    head_dim: int = problem_field(32, "numbers per head", allowed=HEAD_DIMS)
    seed: int = seed_field()

    title: ClassVar[str] = "A step of prompt and decode"
    remedy: ClassVar[str] = "Choose a shorter context or a shorter prompt."
    spellings: ClassVar[Mapping[str, tuple[str, ...]]] = {**DecodingProblem.spellings, "prompt": ("promptlen", "rows")}

    @property
    def sizes(self) -> dict[str, object]:
        """scale, and half: the sequences in the first of two parts."""
        return {"scale": self.scale, "half": self.sequences // 2}

    @property
    def size(self) -> str:
        sizes = f"sequences {self.sequences}, context {self.context}, prompt {self.prompt}"
        return f"{sizes}, num_heads {self.num_heads}, head_dim {self.head_dim}"

    @property
    def pairs(self) -> int:
        return super().pairs + self.num_heads * self.prompt * (self.prompt + 1) // 2

    @property
    def work(self) -> Work:
        return Work(2 * self.cpu_steps, self.sequences + self.prompt, {})

    def tensors(self) -> tuple[Tensor, ...]:
        *given, o = super().tensors()
        rows, axes = (self.num_heads, self.prompt, self.head_dim), ("head", "row", "dim")
        prompt = (Tensor(f"prompt_{name}", rows, axes=axes) for name in ("q", "k", "v"))
        return (*given, *prompt, o, Tensor("prompt_o", rows, axes=axes, role=Role.OUTPUT))

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        given = self.inputs()
        q, k, v = (given[f"prompt_{name}"][None] for name in ("q", "k", "v"))
        return {**super().truth(), "prompt_o": grouped_attention(q, k, v, self.scale, True)[0][0]}

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        import torch

        given = self.inputs()
        q, k, v = (on_device(given[f"prompt_{name}"][None], device) for name in ("q", "k", "v"))
        prompt_o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)[0]
        return {**super().yardstick(device), "prompt_o": on_host(prompt_o)}

    def largest_terms(self) -> dict[str, float]:
        return {**super().largest_terms(), "prompt_o": float(np.abs(self.inputs()["prompt_v"]).max())}

    @classmethod
    def shapes(cls) -> Iterator[tuple[int, ...]]:
        return product((2, 3, 5), (1, 31, 96, 130), (1, 37), HEAD_DIMS)

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return {
            "Two sequences and a short prompt": {},
            "A longer context": {"context": 256},
            "A longer prompt": {"prompt": 64},
        }

    @classmethod
    def bench_default(cls) -> Self:
        return cls(**LARGE)

    @classmethod
    def launch_cases(cls, kernel: KernelSpec) -> list[Case]:
        """The runs with recorded times of their launches: short kernels and long ones. A graph first has kernels that
        are shorter than the host's calls."""
        sizes = (TINY, SMALL, LARGE) if kernel.graph else (SMALL, LARGE, TINY)
        return [Case(cls(**size)) for size in sizes]


@dataclass(frozen=True)
class RaggedProblem(DecodingProblem):
    """A ragged batch: each sequence has a fourth of the keys of the one before, and at least one. Memory has room for
    `context` keys of each."""

    sequences: int = problem_field(3, "decoding sequences", low=2, high=64)
    context: int = problem_field(300, "keys of the longest sequence", low=1, high=65536)
    num_heads: int = problem_field(2, "heads", low=1, high=64)
    head_dim: int = problem_field(32, "numbers per head", allowed=HEAD_DIMS)
    seed: int = seed_field()

    title: ClassVar[str] = "A ragged batch"
    remedy: ClassVar[str] = "Choose a shorter context."

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(max(1, self.context // SHORTER**number) for number in range(self.sequences))

    @property
    def sizes(self) -> dict[str, object]:
        """scale, and lengths: the keys of each sequence."""
        return {"scale": self.scale, "lengths": self.lengths}

    @property
    def size(self) -> str:
        keys = ", ".join(f"{length:,}" for length in self.lengths)
        return f"sequences with {keys} keys, num_heads {self.num_heads}, head_dim {self.head_dim}"

    def tensors(self) -> tuple[Tensor, ...]:
        *given, o = super().tensors()
        return (*given, Tensor("lengths", (self.sequences,), "int32", ("sequence",)), o)

    def inputs(self) -> dict[str, np.ndarray]:
        """Numbers of standard deviation 1. Keys and values past a sequence's last key are NaN."""
        given = super().inputs()
        for number, length in enumerate(self.lengths):
            given["k"][number, :, length:] = given["v"][number, :, length:] = np.nan
        return {**given, "lengths": np.array(self.lengths, np.int32)}

    @classmethod
    def shapes(cls) -> Iterator[tuple[int, ...]]:
        return product((2, 3, 5), (1, 31, 96, 130, 257, 500, 1000), HEAD_DIMS)

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return {"Three sequences": {}, "Five sequences": {"sequences": 5}, "A longer context": {"context": 600}}

    @classmethod
    def bench_default(cls) -> Self:
        return cls(4, 2048, 8, 64)

    @classmethod
    def launch_cases(cls, kernel: KernelSpec) -> list[Case]:
        """The runs with recorded times of their launches: four sequences, and 16 with up to 16,384 keys."""
        return [Case(cls.bench_default()), Case(cls(16, 16384, 8, 64))]
