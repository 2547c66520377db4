"""The cases of the kernels that skip hidden keys: checks, recordings, sweeps and counters."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any, ClassVar

from kernels.core.problem import Case, Problem, Sweeps
from kernels.core.scope import Scope
from kernels.core.spec import KernelSpec
from kernels.families.sparse.masked import MASKS
from kernels.families.tensor_cores.cases import made_for

HEADS = ((1, 1), (2, 2), (4, 2), (3, 1))  # query heads and KV heads
DTYPES = ("float16", "bfloat16")
SCALES = (1.0, 0.1, 5.0, 30.0)
BLOCKS = ((64, 32), (32, 32), (64, 64), (128, 64), (128, 128), (16, 32), (128, 32))
RECORDED = ("A window", "Drawn by hand, one row empty")  # of PRESETS: a run takes more than half a megabyte
DRAWN = ((0, 2), (), (1,), (0, 1, 2, 3))  # of which the second row of blocks sees nothing

WINDOW_SWEEPS: Sweeps = [([("window", [256, 1024])], {})]
_LARGE = {"block_kv": 128}  # which not every kernel has room for
_BLOCKS: dict[str, object] = {"mask": "random_blocks", "seq_len": 8192, "causal": "false"}
BLOCK_SWEEPS: Sweeps = [
    ([("window", [256, 1024, 4096])], _LARGE),
    ([("window", [1024])], {}),
    ([("density", [0.1, 0.25, 0.5])], {**_BLOCKS, **_LARGE}),
    ([("density", [0.25])], _BLOCKS),
    ([("mask", ["sinks", "documents"])], {"documents": "3000,1500,2500", "seq_len": 8192, **_LARGE}),
]
CSR_SWEEPS: Sweeps = [([("density", [0.01, 0.1, 0.25])], {})]
"""(sweeps, fields held) pairs of a bench."""

PRESETS: Mapping[str, Mapping[str, object]] = {
    "A window": {},
    "A window with sink tokens": {"mask": "sinks", "window": 64, "sinks": 4},
    "Packed documents": {"mask": "documents"},
    "Every 64th key": {"mask": "strided", "window": 32, "stride": 64},
    "Dilated": {"mask": "dilated", "window": 32, "dilation": 3},
    "Own block and summaries": {"mask": "hierarchical"},
    "A quarter of the blocks, at random": {"mask": "random_blocks", "density": 0.25, "causal": False},
    "The two best blocks": {"mask": "top_blocks", "top": 2},
    "Drawn by hand, one row empty": {"mask": "drawn", "drawn": ((0, 2), (), (1,), (0, 1, 3), (4, 5)), "causal": False},
    "A tenth of all pairs, at random": {"mask": "random", "density": 0.1},
    "A logit for each head": {"sink_logits": True},
}
CSR_PRESETS: Mapping[str, Mapping[str, object]] = {
    "A tenth of all pairs, at random": {"mask": "random", "density": 0.1},
    "A window": {"window": 16},
    "Every 16th key": {"mask": "strided", "window": 8, "stride": 16},
    "Rows that see nothing": {"mask": "drawn", "mask_block": 16, "drawn": ((0,), (), (1, 2)), "causal": False},
}


def _drawn(columns: int) -> tuple[tuple[int, ...], ...]:
    """DRAWN, cut to so many rows and columns of blocks."""
    return tuple(tuple(c for c in row if c < columns) for row in DRAWN[:columns])


def _blocks(kernel: KernelSpec, number: int) -> tuple[int, int]:
    """A size of the lists' blocks that the kernel allows."""
    hopper = kernel.requires == "sm_90a"
    sizes = (
        ((64, 64), (128, 128), (64, 128), (128, 64), (192, 64)) if hopper else tuple(b for b in BLOCKS if b[1] < 128)
    )
    return sizes[number % len(sizes)]


class _Found:
    """The cases of a kernel so far. A case's number chooses the fields that `add` does not get.

    listed: whether the mask is given as lists of blocks.
    """

    def __init__(self, kernel: KernelSpec, listed: bool) -> None:
        self.kernel, self.listed = kernel, listed
        self.cases: list[Case] = []

    def add(self, settings: tuple[tuple[str, int], ...] = (), **fields: object) -> None:
        n = len(self.cases)
        block_q, block_kv = _blocks(self.kernel, n)
        blocks = {"block_q": block_q, "block_kv": block_kv} if self.listed else {}
        by_number = {
            "head_dim": (64, 128, 256)[n % 5 % 3],
            "dtype": DTYPES[n // 2 % 2],
            "score_scale": SCALES[n // 3 % 4],
            "layout": ("bhsd", "bshd")[n // 4 % 2],
            "sink_logits": n % 4 == 1,
            "seed": n,
            "num_heads": 1,
        }
        self.cases.append(Case(self.kernel.problem_type(**{**by_number, **blocks, **fields}), settings))


def _add_masks(found: _Found) -> None:
    """Every mask at several lengths, with grouped heads."""
    kinds = MASKS if found.listed else ("window",)
    lengths = (1, 63, 100, 200, 257) if found.listed else (1, 2, 17, 63, 65, 100, 129, 200, 257)
    for number, (mask, length) in enumerate(product(kinds, lengths)):
        heads, kv_heads = HEADS[number % 4] if length <= 100 else (1, 1)
        causal, is_drawn = number % 3 != 2, mask == "drawn"
        fields: dict[str, Any] = {
            "mask": mask,
            "window": (16, 1, 64, 1000)[number % 4],
            "drawn": _drawn(-(-length // 64)) if is_drawn else (),
            "mask_block": 64 if is_drawn else 32,
        }
        found.add(seq_len=length, num_heads=heads, num_kv_heads=kv_heads, causal=causal, **fields)
        for on in () if found.listed else (0, 2):
            size = (1, 5, 33, 100)[(number + on) % 4]
            found.add(seq_len=length, window=size, causal=bool(on) != causal, num_heads=2)


def _add_lengths(found: _Found) -> None:
    """More queries than keys and fewer, with windows from 1 to beyond the sequence."""
    lengths = ((40, 200, True), (200, 40, True), (200, 40, False), (1, 300, True), (130, 129, True))
    for queries, keys, causal in lengths:
        for window in (1, 20, 500) if found.listed else (1, 7, 20, 64, 500):
            found.add(seq_len=queries, seq_len_kv=keys, causal=causal, window=window)
    found.add(seq_len=1000, window=100, num_heads=1, head_dim=64)


def _add_block_masks(found: _Found) -> None:
    """Masks of blocks without a causal mask, for two sequences of two heads."""
    for number, mask in enumerate(("drawn", "random_blocks", "top_blocks", "window")):
        drawn = ((), (), (0,), ()) if mask == "drawn" else ()
        fields: dict[str, Any] = {"mask": mask, "drawn": drawn, "mask_block": 64, "causal": False, "density": 0.1}
        found.add(seq_len=256, num_heads=2, batch=2, head_dim=(64, 128)[number % 2], **fields)


class MaskedCases(Problem):
    """The cases of the kernels with masks in 16 bits, a base of their problems.

    listed: whether the mask is given as lists of blocks.
    """

    listed: ClassVar[bool] = False

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return PRESETS

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return BLOCK_SWEEPS if cls.listed else WINDOW_SWEEPS

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Masks at several lengths, head_dims, types, blocks and heads.

        Windows include 1 and lengths beyond the sequence. Some problems have more queries than keys, one token, rows
        without blocks, or sinks. Then follows each value of each constant. The list leaves out problems that the
        kernel's conditions refuse.
        """
        found = _Found(kernel, cls.listed)
        _add_masks(found)
        _add_lengths(found)
        settings = [(c.name, v) for c in kernel.constants if not c.what_if for v in c.values if v != c.default]
        for setting in settings:
            for length, causal in ((65, False), (200, True)):
                found.add((setting,), seq_len=length, causal=causal, head_dim=64)
        if cls.listed:
            _add_block_masks(found)
        return made_for(kernel, found.cases)

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> list[Case]:
        """A few presets, each of its first head, and every what-if build."""
        listed = cls.listed
        default = kernel.problem_type(num_heads=1)
        kept = [PRESETS[title] for title in RECORDED if listed or "mask" not in PRESETS[title]]
        small = () if listed else (("BLOCK_Q", 32), ("BLOCK_KV", 32))
        cases = [Case(replace(default, **fields), small) for fields in kept]
        for c in kernel.what_ifs:
            shown = replace(default, seq_len=128, score_scale=c.shows_at)
            cases += [Case(shown, (*small, (c.name, v))) for v in c.values if v != c.default]
        return [
            replace(case, scope=Scope(0, kernel.plan(case.problem, case.settings).items))
            for case in made_for(kernel, cases)
        ]

    @classmethod
    def counter_cases(cls, kernel: KernelSpec) -> list[Case]:
        """A window, with heads of both widths."""
        block_q, block_kv = _blocks(kernel, 0)
        listed = cls.listed
        blocks = {"block_q": block_q, "block_kv": block_kv} if listed else {}
        return made_for(kernel, [Case(kernel.problem_type(head_dim=d, **blocks)) for d in (64, 128)])

    @classmethod
    def timeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        return []

    @classmethod
    def pipeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        return []


class CsrCases(Problem):
    """The cases of attention over lists of keys, a base of its problem."""

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return CSR_PRESETS

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return CSR_SWEEPS

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Every mask except top_blocks, at several lengths and every head_dim.

        Some rows see no key. Windows include 1 and lengths beyond the sequence. Then follows each value of each
        constant.
        """
        cases: list[Case] = []
        kinds = [mask for mask in MASKS if mask != "top_blocks"]
        for n, (mask, length) in enumerate(product(kinds, (1, 2, 33, 64, 100, 200))):
            drawn = _drawn(-(-length // 64)) if mask == "drawn" else ()
            cases.append(
                Case(
                    kernel.problem_type(
                        length,
                        (32, 64, 128)[n % 3],
                        n % 2 + 1 if length <= 100 else 1,
                        n % 3 + 1 if length <= 64 else 1,
                        n % 3 != 2,
                        SCALES[n // 3 % 4],
                        n,
                        mask=mask,
                        window=(16, 1, 64, 1000)[n % 4],
                        density=(0.1, 0.25, 0.01, 0.9)[n % 4],
                        drawn=drawn,
                    )
                )
            )
        for number, (name, value) in enumerate(
            (c.name, v) for c in kernel.constants if not c.what_if for v in c.values
        ):
            cases.append(Case(kernel.problem_type(70, seed=number, num_heads=1, mask="random"), ((name, value),)))
        return cases

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Each preset's first head, and every what-if build."""
        default = kernel.problem_type(num_heads=1)
        cases = [Case(replace(default, **fields)) for fields in CSR_PRESETS.values()]
        for c in kernel.what_ifs:
            shown = replace(default, score_scale=c.shows_at, window=48)
            cases += [Case(shown, ((c.name, v),)) for v in c.values if v != c.default]
        return [replace(case, scope=Scope(0, kernel.plan(case.problem, case.settings).items)) for case in cases]

    @classmethod
    def counter_cases(cls, kernel: KernelSpec) -> list[Case]:
        return [Case(cls())]

    @classmethod
    def timeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        return []
