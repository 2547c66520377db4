"""The problem of one step of a server: causal attention of a prompt, and one query of each decoding sequence."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np

from kernels.core.fields import problem_field
from kernels.core.problem import Case, Problem, Work
from kernels.core.reference import grouped_attention, on_device, on_host
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role, Tensor

HEAD_DIMS = (32, 64, 128)


@dataclass(frozen=True)
class StepProblem(Problem):
    """A prompt next to decoding sequences, all in float32.

    o = softmax(scale * q @ k^T) @ v for one query of each sequence. prompt_o is the causal attention of a prompt.
    """

    sequences: int = problem_field(2, "decoding sequences", low=2, high=256)
    context: int = problem_field(96, "keys of each sequence", low=1, high=65536)
    prompt: int = problem_field(24, "rows of the prompt", low=1, high=65536)
    num_heads: int = problem_field(2, "heads", low=1, high=64)
    head_dim: int = problem_field(32, "numbers per head", allowed=HEAD_DIMS)
    seed: int = problem_field(0, "seed of the random inputs", low=0, high=2**32 - 1)

    title: ClassVar[str] = "A step of prompt and decode"
    remedy: ClassVar[str] = "Choose a shorter context or a shorter prompt."
    spellings: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "sequences": ("batch", "numseqs"),
        "context": ("contextlen", "keys"),
        "prompt": ("promptlen", "rows"),
        "num_heads": ("heads",),
        "head_dim": ("d", "dim"),
    }

    @property
    def scale(self) -> float:
        """Of the scores."""
        return float(self.head_dim) ** -0.5

    @property
    def sizes(self) -> dict[str, object]:
        """scale, and half: the sequences in the first of two parts."""
        return {"scale": self.scale, "half": self.sequences // 2}

    @property
    def defines(self) -> dict[str, int]:
        return {"HEAD_DIM": self.head_dim}

    @property
    def size(self) -> str:
        return (
            f"sequences {self.sequences}, context {self.context}, prompt {self.prompt}, num_heads {self.num_heads}, "
            f"head_dim {self.head_dim}"
        )

    @property
    def pairs(self) -> int:
        """Pairs of a query and a visible key, in all heads."""
        return self.num_heads * (self.sequences * self.context + self.prompt * (self.prompt + 1) // 2)

    @property
    def cpu_steps(self) -> int:
        return 2 * self.pairs * self.head_dim

    @property
    def work(self) -> Work:
        """Each key and each query is read once, each output written once."""
        return Work(4 * self.pairs * self.head_dim, self.sequences + self.prompt, {})

    def tensors(self) -> tuple[Tensor, ...]:
        """q, k and v of the sequences and of the prompt, o and prompt_o."""
        query = (self.sequences, self.num_heads, self.head_dim), ("sequence", "head", "dim")
        cache = (self.sequences, self.num_heads, self.context, self.head_dim), ("sequence", "head", "key", "dim")
        rows = (self.num_heads, self.prompt, self.head_dim), ("head", "row", "dim")

        def tensor(name: str, of: tuple[tuple[int, ...], tuple[str, ...]], role: Role = Role.INPUT) -> Tensor:
            return Tensor(name, of[0], "float32", of[1], role)

        given = [tensor("q", query), tensor("k", cache), tensor("v", cache)]
        given += [tensor(f"prompt_{name}", rows) for name in ("q", "k", "v")]
        return (*given, tensor("o", query, Role.OUTPUT), tensor("prompt_o", rows, Role.OUTPUT))

    def inputs(self) -> dict[str, np.ndarray]:
        """q, k and v of the sequences and of the prompt, of standard deviation 1."""
        rng = np.random.default_rng(self.seed)
        given = [tensor for tensor in self.tensors() if tensor.role is Role.INPUT]
        return {tensor.name: rng.standard_normal(tensor.shape, dtype=np.float32) for tensor in given}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        given = self.inputs()
        q, k, v = (given[f"prompt_{name}"][None] for name in ("q", "k", "v"))
        scores = self.scale * np.einsum("shd,shkd->shk", given["q"].astype(np.float64), given["k"])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        o = np.einsum("shk,shkd->shd", weights / weights.sum(-1, keepdims=True), given["v"])
        return {"o": o, "prompt_o": grouped_attention(q, k, v, self.scale, True)[0][0]}

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """torch's attention in float32."""
        import torch

        given = {name: on_device(array, device) for name, array in self.inputs().items()}
        call = torch.nn.functional.scaled_dot_product_attention
        o = call(given["q"][:, :, None], given["k"], given["v"])[:, :, 0]
        q, k, v = (given[f"prompt_{name}"][None] for name in ("q", "k", "v"))
        return {"o": on_host(o), "prompt_o": on_host(call(q, k, v, is_causal=True)[0])}

    def largest_terms(self) -> dict[str, float]:
        given = self.inputs()
        return {"o": float(np.abs(given["v"]).max()), "prompt_o": float(np.abs(given["prompt_v"]).max())}

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> Iterator[Case]:
        """Two to five sequences, contexts that do and do not fill a part, prompts of 1 to 37 rows, each head_dim and
        each value of each constant."""
        values = [(constant.name, value) for constant in kernel.constants for value in constant.values]
        shapes = product((2, 3, 5), (1, 31, 96, 130), (1, 37), HEAD_DIMS)
        for number, (sequences, context, prompt, head_dim) in enumerate(shapes):
            chosen = (values[number % len(values)],) if values else ()
            yield Case(cls(sequences, context, prompt, 1 + number % 3, head_dim, number), chosen)

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return {
            "Two sequences and a short prompt": {},
            "A longer context": {"context": 256},
            "A longer prompt": {"prompt": 64},
        }

    @classmethod
    def bench_default(cls) -> "StepProblem":
        return cls(**LARGE)

    @classmethod
    def launch_cases(cls, kernel: KernelSpec) -> list[Case]:
        """The runs with recorded times of their launches: short kernels and long ones. A graph first has kernels that
        are shorter than the host's calls."""
        sizes = (TINY, SMALL, LARGE) if kernel.graph else (SMALL, LARGE, TINY)
        return [Case(cls(**size)) for size in sizes]


TINY = {"sequences": 4, "context": 32, "prompt": 16, "num_heads": 8, "head_dim": 64}
SMALL = {"sequences": 4, "context": 1024, "prompt": 96, "num_heads": 8, "head_dim": 64}
LARGE = {"sequences": 8, "context": 2048, "prompt": 512, "num_heads": 8, "head_dim": 128}
