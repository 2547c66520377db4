"""The problems of a residual and a norm: sum = x + residual, and y is the norm of the sum times a weight."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from kernels.core.dtypes import element_type
from kernels.core.fields import problem_field, seed_field
from kernels.core.problem import Case, Problem, Sweeps, Work
from kernels.core.reference import on_device, on_host
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role, Tensor
from kernels.errors import ProblemError
from kernels.families.fusion.rotary import CHAIN_TOKENS

if TYPE_CHECKING:
    from torch import Tensor as TorchTensor

DTYPES = ("float16", "bfloat16", "float32")
HIDDEN = (64, 200, 896, 1024, 4096, 5120)  # of the check cases. 4,096 is that of Llama 3 8B and Qwen 3 8B.


@dataclass(frozen=True)
class AddNormProblem(Problem):
    """A residual and an RMSNorm, as before each part of a transformer layer. sum = x + residual, y = sum / sqrt(mean of
    sum^2 + eps) * weight. x has standard deviation `spread` round `mean`. The residual has standard deviation 1, and
    the weights are from 0.5 to 1.5."""

    tokens: int = problem_field(4, "rows", low=1, high=65536)
    hidden: int = problem_field(256, "numbers per row", low=8, high=16384)
    dtype: str = problem_field("float16", "type of all tensors, with float32 sums", allowed=DTYPES)
    spread: float = problem_field(1.0, "standard deviation of x", low=0.001, high=1000)
    mean: float = problem_field(0.0, "mean of x", low=-1000, high=1000)
    seed: int = seed_field()

    title: ClassVar[str] = "Residual and RMSNorm"
    remedy: ClassVar[str] = "Choose fewer tokens or a smaller hidden."
    spellings: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "x": ("input", "inp", "hiddenstates"),
        "y": ("out", "output", "o"),
        "sum": ("residualout", "newresidual"),
        "weight": ("gamma", "w"),
        "tokens": ("rows", "n", "numtokens", "batch"),
        "hidden": ("cols", "columns", "hiddensize", "d", "dim"),
        "eps": ("epsilon",),
    }
    signs: ClassVar[tuple[str, ...]] = (r"sqrt",)
    vectors: ClassVar[tuple[str, ...]] = ("weight",)  # the tensors [hidden]
    eps: ClassVar[float] = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden % 8:
            raise ProblemError(
                f"hidden is {self.hidden}. It must be a multiple of 8, because threads read whole pieces of 16 bytes."
            )

    @property
    def sizes(self) -> dict[str, object]:
        """eps, and chunks: the pieces of 16 bytes in x."""
        return {"eps": self.eps, "chunks": self.tokens * self.hidden * element_type(self.dtype).bytes // 16}

    @property
    def defines(self) -> dict[str, int]:
        bf16 = int(self.dtype == "bfloat16")
        return {"HIDDEN": self.hidden, "T_BYTES": element_type(self.dtype).bytes, "BF16": bf16}

    @property
    def size(self) -> str:
        return f"tokens {self.tokens}, hidden {self.hidden}"

    @property
    def cpu_steps(self) -> int:
        """The reads and writes of numbers, and the operations of the two sums."""
        return 8 * self.tokens * self.hidden

    @property
    def work(self) -> Work:
        """Each number of x and the residual is read once, each of sum and y written once."""
        row = self.tokens * self.hidden * element_type(self.dtype).bytes
        return Work(0, self.tokens, dict.fromkeys(("x", "residual", "sum", "y"), row))

    def tensors(self) -> tuple[Tensor, ...]:
        rows, axes = (self.tokens, self.hidden), ("token", "dim")
        given = (Tensor(name, rows, self.dtype, axes) for name in ("x", "residual"))
        vectors = (Tensor(name, (self.hidden,), self.dtype, ("dim",)) for name in self.vectors)
        made = (Tensor(name, rows, self.dtype, axes, Role.OUTPUT) for name in ("sum", "y"))
        return (*given, *vectors, *made)

    def inputs(self) -> dict[str, np.ndarray]:
        return {name: array.astype(element_type(self.dtype).numpy) for name, array in self.unrounded().items()}

    def unrounded(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        x, residual = rng.standard_normal((2, self.tokens, self.hidden), dtype=np.float32)
        vectors = {name: rng.random(self.hidden, dtype=np.float32) + 0.5 for name in self.vectors}
        return {"x": x * np.float32(self.spread) + np.float32(self.mean), "residual": residual, **vectors}

    def normed(self, rows: np.ndarray, vectors: Mapping[str, np.ndarray]) -> np.ndarray:
        """The norm of rows [tokens, hidden] in float64."""
        return rows / np.sqrt((rows**2).mean(axis=1, keepdims=True) + self.eps) * vectors["weight"]

    def torch_normed(self, rows: "TorchTensor", vectors: "Mapping[str, TorchTensor]") -> "TorchTensor":
        """The norm by torch in the rows' own type."""
        import torch

        return torch.nn.functional.rms_norm(rows, (self.hidden,), vectors["weight"], self.eps)

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        given = {name: array.astype(np.float64) for name, array in self.inputs().items()}
        total = given["x"] + given["residual"]
        return {"sum": total, "y": self.normed(total, given)}

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        """torch's addition and norm, each rounded to `dtype`."""
        given = {name: on_device(array, device) for name, array in self.inputs().items()}
        total = given["x"] + given["residual"]
        return {"sum": on_host(total), "y": on_host(self.torch_normed(total, given))}

    def largest_terms(self) -> dict[str, float]:
        given = {name: np.abs(array.astype(np.float64)).max() for name, array in self.inputs().items()}
        return {"sum": max(given["x"], given["residual"]), "y": float(np.abs(self.truth()["y"]).max())}

    @property
    def terms(self) -> int:
        return self.hidden

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """One to 33 tokens, rows that do and do not fill a block, all types, small and large spreads and means, and
        each value of each constant."""
        cases = []
        for n, (tokens, hidden, dtype) in enumerate(product((1, 2, 7, 33), HIDDEN, DTYPES)):
            spread, mean = (1.0, 0.01, 30.0, 300.0)[n % 4], (0.0, 3.0, -50.0)[n % 3]
            cases.append(Case(cls(tokens, hidden, dtype, spread, mean, n)))
        for n, value in enumerate(v for c in kernel.constants for v in c.values):
            cases.append(Case(cls(3, 1352, DTYPES[n % 3], seed=n), ((kernel.constants[0].name, value),)))
        return cases

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return {
            "Four short rows": {},
            "Rows of Llama 3 8B": {"hidden": 4096},
            "A large mean": {"mean": 50.0, "spread": 0.1},
        }

    def torch_chain(self) -> "Callable[..., dict[str, TorchTensor]]":
        def chain(x: "TorchTensor", residual: "TorchTensor", **vectors: "TorchTensor") -> "dict[str, TorchTensor]":
            total = x + residual
            return {"sum": total, "y": self.torch_normed(total, vectors)}

        return chain

    @classmethod
    def chain_problems(cls) -> list[Self]:
        """Rows of Llama 3 8B and Qwen 3 8B."""
        return [cls(n, 4096, "bfloat16") for n in CHAIN_TOKENS] + [cls(n, 4096) for n in CHAIN_TOKENS[:-1]]

    @classmethod
    def bench_default(cls) -> Self:
        return cls(8192, 4096)

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return [([("tokens", [1, 16, 64, 256, 1024, 4096, 8192])], {"hidden": 4096})]


@dataclass(frozen=True)
class AddLayerNormProblem(AddNormProblem):
    """A residual and a LayerNorm: y = (sum - mean) / sqrt(variance + eps) * weight + bias."""

    title: ClassVar[str] = "Residual and LayerNorm"
    spellings: ClassVar[Mapping[str, tuple[str, ...]]] = {**AddNormProblem.spellings, "bias": ("beta", "b")}
    vectors: ClassVar[tuple[str, ...]] = ("weight", "bias")
    eps: ClassVar[float] = 1e-5

    @classmethod
    def chain_problems(cls) -> list[Self]:
        return [cls(n, 4096, "bfloat16") for n in (16, 64)]

    def normed(self, rows: np.ndarray, vectors: Mapping[str, np.ndarray]) -> np.ndarray:
        gaps = rows - rows.mean(axis=1, keepdims=True)
        variance = (gaps**2).mean(axis=1, keepdims=True)
        return gaps / np.sqrt(variance + self.eps) * vectors["weight"] + vectors["bias"]

    def torch_normed(self, rows: "TorchTensor", vectors: "Mapping[str, TorchTensor]") -> "TorchTensor":
        import torch

        return torch.nn.functional.layer_norm(rows, (self.hidden,), vectors["weight"], vectors["bias"], self.eps)
