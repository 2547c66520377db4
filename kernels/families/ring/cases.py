"""The cases of the kernels over several GPUs: checks and recordings."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Self

from kernels.core.problem import Case, Problem
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.families.tensor_cores.cases import made_for, small_tiles

DTYPES = ("float16", "bfloat16")
SCALES = (1.0, 0.1, 5.0, 30.0)
HEADS = ((1, 0), (2, 0), (4, 2), (3, 1))  # query heads and KV heads
ROWS = (2, 6, 18, 34, 66, 130)  # of a GPU
RECORDED: tuple[Mapping[str, object], ...] = ({}, {"order": "plain"}, {"causal": False, "gpus": 2})


class RingCases(Problem):
    """The cases of a ring's kernels, a base of their problem."""

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """1 to 8 GPUs with parts of several lengths: every order and mask, both types, grouped heads.

        Then follow heads split over GPUs, and each value of each constant.
        """
        cases: list[Case] = []

        def add(settings: tuple[tuple[str, int], ...] = (), **fields: object) -> None:
            n = len(cases)
            heads, kv_heads = HEADS[n % 4]
            by_number = {
                **{"head_dim": (64, 128)[n // 2 % 2], "dtype": DTYPES[n % 2], "score_scale": SCALES[n // 3 % 4]},
                **{"num_heads": heads, "num_kv_heads": kv_heads, "seed": n},
            }
            cases.append(Case(kernel.problem_type(**{**by_number, **fields}), settings))

        for gpus in range(1, 9):
            for number, (causal, order) in enumerate(((False, "plain"), (True, "plain"), (True, "zigzag"))):
                for rows in (ROWS[(gpus + number) % 6], ROWS[(gpus + 2 * number + 3) % 6]):
                    add(seq_len=rows * gpus, gpus=gpus, causal=causal, order=order)
        for gpus, causal in ((2, False), (3, True), (4, True), (8, False)):
            length = (65, 100, 17, 40)[gpus % 4]
            add(seq_len=length, gpus=gpus, causal=causal, split="heads", num_heads=2 * gpus, num_kv_heads=gpus)
        settings = [(c.name, v) for c in kernel.constants if not c.what_if for v in c.values if v != c.default]
        for setting in settings:
            for causal in (False, True):
                add((setting,), seq_len=200, gpus=2, causal=causal, num_heads=1, num_kv_heads=0)
        return made_for(kernel, cases)

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Both orders on four GPUs, full attention on two, and every what-if build."""
        default, small = kernel.problem_type(), small_tiles(kernel)
        cases = [Case(replace(default, **fields), small) for fields in RECORDED]
        for c in kernel.what_ifs:
            shown = replace(default, score_scale=c.shows_at, gpus=2)
            cases += [Case(shown, (*small, (c.name, v))) for v in c.values if v != c.default]
        return [
            replace(case, scope=Scope.everything(kernel.plan(case.problem, case.settings)))
            for case in made_for(kernel, cases)
        ]

    @classmethod
    def counter_cases(cls, kernel: KernelSpec) -> list[Case]:
        """A part on one GPU."""
        return made_for(kernel, [Case(cls().with_fields(gpus=1))])

    @classmethod
    def bench_default(cls) -> Self:
        """One GPU, so that a time has a meaning."""
        return cls().with_fields(seq_len=4096, head_dim=128, num_heads=16, gpus=1)

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
