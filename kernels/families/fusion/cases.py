"""The cases of rotary embedding and cache write, a base of their problems."""

from collections.abc import Mapping
from itertools import product
from typing import Self

from kernels.core.problem import Case, Problem, Sweeps
from kernels.core.spec import KernelSpec
from kernels.families.fusion.rotation import PAIRS

DTYPES = ("float16", "bfloat16")
HEADS = ((4, 4), (8, 2), (4, 1), (32, 8), (6, 3), (1, 1))  # query heads, KV heads
CHAIN_TOKENS = (1, 16, 64, 8192)  # of the recorded times
LLAMA = {"num_heads": 32, "num_kv_heads": 8, "head_dim": 128}  # of Llama 3 8B and Qwen 3 8B


class RotaryCases(Problem):
    """The cases of the kernels that turn q and k and write the cache."""

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """One to 40 tokens, both phases and conventions, every page size and type, with and without padding, and each
        count of tokens per warp."""
        cases, settings = list[Case](), kernel.constants[0].values
        for n, (tokens, pairs, decode, head_dim) in enumerate(
            product((1, 3, 8, 17, 40), PAIRS, (False, True), (64, 128))
        ):
            for more in range(2):
                number, size = 2 * n + more, (16, 32, 64)[(n + more) % 3]
                problem = kernel.problem_type(
                    *(tokens, *HEADS[number % len(HEADS)], head_dim, size, DTYPES[(n + more) % 2], pairs, decode),
                    *(number % 3 if tokens > 2 else 0, (500000.0, 10000.0, 1e6)[number % 3], number),
                )
                heads, warps = (kernel.constants[c].values[number % (5 - c)] for c in (1, 2))
                chosen = (("TOKENS", settings[number % len(settings)]), ("HEADS", heads), ("WARPS", warps))
                cases.append(Case(problem, chosen))
        return cases

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return {
            "A prompt of four tokens": {},
            "Six sequences decode": {"tokens": 6, "decode": True},
            "Pairs of neighbours": {"pairs": "neighbours"},
            "With padding": {"tokens": 8, "padding": 3},
        }

    @classmethod
    def chain_problems(cls) -> list[Self]:
        """The models decode 1 to 64 sequences, or read a prompt."""
        sizes = [{**LLAMA, "tokens": n, "decode": n < 512} for n in CHAIN_TOKENS]
        kinds = {"bfloat16": sizes, "float16": sizes[:-1]}
        return [cls(**{**size, "dtype": dtype}) for dtype, listed in kinds.items() for size in listed]

    @classmethod
    def bench_default(cls) -> Self:
        return cls(**{"tokens": 8192, **LLAMA})

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return [
            ([("tokens", [1, 4, 16, 64])], {**LLAMA, "decode": True}),
            ([("tokens", [256, 1024, 4096, 8192])], LLAMA),
        ]
