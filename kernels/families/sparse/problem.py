"""The problems of attention with masks, with their cases: over 16-bit numbers, the same with lists of blocks, and in
fp32 with CSR."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np

from kernels.build import own_values
from kernels.core import masks, reference
from kernels.core.call import Call, attention_sizes
from kernels.core.cases import Settings, traced, tuned, values, what_ifs
from kernels.core.fields import problem_field
from kernels.core.masks import KINDS, Mask, Matrix, as_matrix, random_blocks, top_blocks
from kernels.core.problem import Case, Size, Sweeps
from kernels.core.spec import KernelSpec
from kernels.core.tensors import Role, Tensor
from kernels.errors import PeerUnavailable, ProblemError
from kernels.families.attention import DTYPES, HEADS, SCALES, AttentionProblem
from kernels.families.dense.problem import DenseProblem
from kernels.families.tensor_cores.problem import SixteenBitProblem

TAKES: dict[str, tuple[str, ...]] = {
    "all": (),
    "window": ("window",),
    "sinks": ("window", "sinks"),
    "documents": ("documents",),
    "strided": ("window", "stride"),
    "dilated": ("window", "dilation"),
    "hierarchical": ("mask_block",),
    "random": ("density",),
    "random_blocks": ("density", "mask_block"),
    "top_blocks": ("top", "mask_block"),
    "drawn": ("drawn", "mask_block"),
}
"""mask -> the other fields that it looks at."""
MASKS = tuple(TAKES)


@dataclass(frozen=True)
class MaskFields(AttentionProblem):
    """The keys of each query. A mixin before a problem of attention. A row without visible keys has output 0 and lse
    -inf.

    A mask of blocks (random_blocks, top_blocks, drawn) has blocks of mask_block x mask_block queries and keys,
    independent of the kernel's tiles. top_blocks differs from head to head. Every other mask serves all heads.

    drawn: the visible columns of each row of blocks. A row may be empty."""

    masked: ClassVar[bool] = True
    mask_fields: ClassVar[Mapping[str, tuple[str, ...]]] = {mask: names for mask, names in TAKES.items() if names}

    mask: str = problem_field("window", "which keys a query sees", allowed=MASKS)
    window: int = problem_field(96, "keys up to and with the query's own", low=1, high=65536)
    sinks: int = problem_field(4, "first keys that all queries see", low=0, high=4096)
    stride: int = problem_field(32, "every stride-th key is seen by all", low=1, high=65536)
    dilation: int = problem_field(2, "distance between the keys of a window", low=1, high=4096)
    documents: tuple = problem_field((150, 100), "lengths of packed sequences. The rest is one more", low=1, high=65536)
    density: float = problem_field(0.25, "share of pairs, or of blocks in a row, that are seen", low=1e-4, high=1.0)
    top: int = problem_field(2, "blocks of keys that a block of queries sees", low=1, high=1024)
    mask_block: int = problem_field(64, "queries and keys of a block of the mask", allowed=(16, 32, 64, 128))
    drawn: tuple = problem_field((), "columns of blocks that each row of blocks sees", low=0, high=4095, nested=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        rows, columns = self._mask_shape
        if self.mask != "drawn" or not self.drawn:
            return
        if len(self.drawn) > rows:
            raise ProblemError(
                f"drawn has {len(self.drawn)} rows of blocks. These queries have {rows}. "
                "Leave rows out, or choose a larger seq_len or a smaller mask_block."
            )
        for number, row in enumerate(self.drawn):
            outside = [column for column in row if column >= columns]
            if outside:
                raise ProblemError(
                    f"drawn row {number} holds block {outside[0]}. These keys have blocks 0 to {columns - 1}. "
                    "Leave it out, or choose more keys or a smaller mask_block."
                )

    @property
    def listed_pairs(self) -> int:
        heads = self.batch * self.num_heads if self.mask == "top_blocks" else 1
        return self.seq_len * self.keys * heads

    @property
    def _mask_shape(self) -> tuple[int, int]:
        return -(-self.seq_len // self.mask_block), -(-self.keys // self.mask_block)

    @cached_property
    def masks(self) -> tuple[Mask, ...]:
        """The mask of all heads; of top_blocks one for each, batch by batch."""
        if self.mask != "top_blocks":
            return (self._mask(self._blocks),)
        return tuple(self._mask(top_blocks(q, k, self.mask_block, self.top)) for q, k in self._query_heads())

    def _query_heads(self) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        """(q, k) of every query head, batch by batch: [queries, dim] and [keys, dim]."""
        q, k, _ = self._rounded().values()
        group = self.num_heads // self.kv_heads
        return ((q[b, h], k[b, h // group]) for b, h in np.ndindex(q.shape[:2]))

    @property
    def _blocks(self) -> Matrix:
        """The blocks of a mask of blocks, empty for other masks."""
        rows, columns = self._mask_shape
        if self.mask not in ("random_blocks", "drawn"):
            return ()
        if self.mask == "random_blocks":
            return random_blocks(rows, columns, self.density, self.seed)
        made = np.zeros((rows, columns), bool)
        for row, seen in zip(made, self.drawn):
            row[list(seen)] = True
        return as_matrix(made)

    def _mask(self, blocks: Matrix) -> Mask:
        kind = self.mask if self.mask in KINDS else "blocks"
        names = {f.name for f in fields(Mask)} & {f.name for f in fields(MaskFields)}
        taken: Mapping[str, Any] = {name: getattr(self, name) for name in names}
        return Mask(
            kind, self.seq_len, self.keys, self.causal, seed=self.seed, block=self.mask_block, blocks=blocks, **taken
        )

    @cached_property
    def visible(self) -> int:
        """Pairs of a query and a key that are seen, over all heads."""
        return sum(mask.visible for mask in self.masks) * (self.batch * self.num_heads // len(self.masks))

    @property
    def score_count(self) -> int:
        return self.visible

    @property
    def bench_columns(self) -> dict[str, Size]:
        """Empty: times of different masks are not of one kind."""
        return {}

    @property
    def logits(self) -> np.ndarray:
        """The logit of each head's sink, float32 [num_heads], -inf without sinks."""
        return np.full(self.num_heads, -np.inf, np.float32)

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        q, k, v = self._rounded().values()
        return self._outputs(*reference.masked_attention(q, k, v, self.scale, self.masks, self.logits, on_gpu))

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        q, k, v = self._rounded().values()
        return self._outputs(*reference.torch_masked_attention(q, k, v, self.scale, self.masks, self.logits, device))

    def peer_inputs(self, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], dict[str, object]]:
        if len(self.masks) > 1:
            raise PeerUnavailable("The peers take one mask for all heads. This one differs from head to head.")
        options = {"mask": self.masks[0], "scale": self.scale, "enable_gqa": self.kv_heads < self.num_heads}
        return [self.logical(inputs[name]) for name in ("q", "k", "v")], options


SINK_STREAM = 1  # of the seed: the sinks' logits
HOPPER_BLOCKS = ((64, 64), (128, 128), (64, 128), (128, 64), (192, 64))
BLOCKS = ((64, 32), (32, 32), (64, 64), (128, 64), (128, 128), (16, 32), (128, 32))
RECORDED = ("A window", "Drawn by hand, one row empty")  # of PRESETS: a run takes more than half a megabyte
DRAWN = ((0, 2), (), (1,), (0, 1, 2, 3))  # of which the second row of blocks sees nothing

_LARGE = {"block_kv": 128}  # which not every kernel has room for
_BLOCKS: dict[str, object] = {"mask": "random_blocks", "seq_len": 8192, "causal": "false"}
BLOCK_SWEEPS: Sweeps = [
    ([("window", [256, 1024, 4096])], _LARGE),
    ([("window", [1024])], {}),
    ([("density", [0.1, 0.25, 0.5])], {**_BLOCKS, **_LARGE}),
    ([("density", [0.25])], _BLOCKS),
    ([("mask", ["sinks", "documents"])], {"documents": "3000,1500,2500", "seq_len": 8192, **_LARGE}),
]
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


def _drawn(length: int) -> tuple[tuple[int, ...], ...]:
    """DRAWN, cut to the rows and columns of blocks of 64 tokens in so many."""
    columns = -(-length // 64)
    return tuple(tuple(c for c in row if c < columns) for row in DRAWN[:columns])


@dataclass(frozen=True)
class MaskedProblem(MaskFields, SixteenBitProblem):
    """Attention over 16-bit numbers with a mask.

    sink_logits: each query head has its own logit. It counts in the sums and lse of its rows as a key without a value
      (Agarwal et al. 2025, gpt-oss)."""

    causal: bool = problem_field(True, "also hides the keys after the query", allowed=(False, True))
    seq_len: int = problem_field(384, "queries per head", low=1, high=65536)
    sink_logits: bool = problem_field(False, "a logit per head counts in every row's sum", allowed=(False, True))

    title: ClassVar[str] = "Attention with a mask"
    valued: ClassVar[tuple[str, ...]] = ("q", "k", "v", "sink")
    listed: ClassVar[bool] = False  # whether the mask is given as lists of blocks

    @property
    def logits(self) -> np.ndarray:
        if not self.sink_logits:
            return super().logits
        if own_values.is_name(self.scores):
            return own_values.load(self.scores, {"sink": (self.num_heads,)})["sink"]
        drawn = np.random.default_rng((self.seed, SINK_STREAM)).standard_normal(self.num_heads, np.float32)
        return drawn * np.float32(2)

    def tensors(self) -> tuple[Tensor, ...]:
        return (*super().tensors(), Tensor("sink", (self.num_heads,), "float32", ("head",)))

    def inputs(self) -> dict[str, np.ndarray]:
        return {**super().inputs(), "sink": self.logits}

    def largest_terms(self) -> dict[str, float]:
        terms = super().largest_terms()
        logit = float(np.abs(self.logits).max()) if self.sink_logits else 0.0
        return {**terms, "lse": max(terms["lse"], logit + 1)}

    def peer_inputs(self, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], dict[str, object]]:
        if self.sink_logits:
            raise PeerUnavailable("torch's attention has no sinks.")
        return super().peer_inputs(inputs)

    @classmethod
    def from_call(cls, call: Call) -> Self:
        """The mask of a causal window, with or without a sink."""
        call.only("causal", "window")
        sizes, sink = attention_sizes(call), call.has("sink")
        window = int(str(call.option("window", 0)))
        if not sizes["causal"] or not (window or sink):
            raise ProblemError("Its kernels are for causal calls with a window or a sink.")
        return cls(**sizes, mask="window", window=window or call.given("k").size("key"), sink_logits=sink)

    def made(self) -> dict[str, np.ndarray]:
        return {"sink": self.logits}

    # ---- cases ----

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return PRESETS

    @classmethod
    def bench_default(cls) -> Self:
        return cls(seq_len=16384, head_dim=128, num_heads=16, window=1024)

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return [([("window", [256, 1024])], {})]

    @classmethod
    def block_fields(cls, kernel: KernelSpec, number: int) -> dict[str, int]:
        """The fields of the lists' blocks in a case with this number: none without lists."""
        return {}

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Masks at several lengths, head_dims, types, blocks and heads. Windows include 1 and lengths beyond the
        sequence. Some problems have more queries than keys, one token, rows without blocks, or sinks. Then follows each
        value of each constant. The list leaves out problems that the kernel's conditions refuse."""
        cases: list[Case] = []

        def add(settings: Settings = (), **fields: Any) -> None:
            n = len(cases)
            by_number = {
                "head_dim": (64, 128, 256)[n % 5 % 3],
                "dtype": DTYPES[n // 2 % 2],
                "score_scale": SCALES[n // 3 % 4],
                "layout": ("bhsd", "bshd")[n // 4 % 2],
                "sink_logits": n % 4 == 1,
                "seed": n,
                "num_heads": 1,
            }
            cases.append(Case(cls(**{**by_number, **cls.block_fields(kernel, n), **fields}), settings))

        lengths = (1, 63, 100, 200, 257) if cls.listed else (1, 2, 17, 63, 65, 100, 129, 200, 257)
        for number, (mask, length) in enumerate(product(MASKS if cls.listed else ("window",), lengths)):
            heads, kv_heads = HEADS[number % 4] if length <= 100 else (1, 1)
            causal, drawn = number % 3 != 2, {"drawn": _drawn(length), "mask_block": 64}
            fields: dict[str, Any] = drawn if mask == "drawn" else {"mask_block": 32}
            fields |= {"mask": mask, "window": (16, 1, 64, 1000)[number % 4], "causal": causal}
            add(seq_len=length, num_heads=heads, num_kv_heads=kv_heads, **fields)
            for on in () if cls.listed else (0, 2):
                size = (1, 5, 33, 100)[(number + on) % 4]
                add(seq_len=length, window=size, causal=bool(on) != causal, num_heads=2)
        pairs = ((40, 200, True), (200, 40, True), (200, 40, False), (1, 300, True), (130, 129, True))
        for queries, keys, causal in pairs:
            for window in (1, 20, 500) if cls.listed else (1, 7, 20, 64, 500):
                add(seq_len=queries, seq_len_kv=keys, causal=causal, window=window)
        add(seq_len=1000, window=100, head_dim=64)
        for setting in values(kernel):
            for length, causal in ((65, False), (200, True)):
                add((setting,), seq_len=length, causal=causal, head_dim=64)
        for number, mask in enumerate(("drawn", "random_blocks", "top_blocks", "window") if cls.listed else ()):
            fields = {"mask": mask, "drawn": ((), (), (0,), ()) if mask == "drawn" else (), "mask_block": 64}
            fields |= {"causal": False, "density": 0.1, "head_dim": (64, 128)[number % 2]}
            add(seq_len=256, num_heads=2, batch=2, **fields)
        return tuned(kernel, cases)

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> list[Case]:
        kept = [PRESETS[title] for title in RECORDED if cls.listed or "mask" not in PRESETS[title]]
        small = () if cls.listed else (("BLOCK_Q", 32), ("BLOCK_KV", 32))
        cases = [Case(cls(num_heads=1).with_fields(**fields), small) for fields in kept]
        return traced(kernel, tuned(kernel, cases + what_ifs(kernel, cls(num_heads=1, seq_len=128), small)))

    @classmethod
    def counter_cases(cls, kernel: KernelSpec) -> list[Case]:
        problem = cls().with_fields(**cls.block_fields(kernel, 0))
        return tuned(kernel, [Case(replace(problem, head_dim=d)) for d in (64, 128)])

    @classmethod
    def timeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        return []

    @classmethod
    def pipeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        return []


@dataclass(frozen=True)
class BlockSparseProblem(MaskedProblem):
    """MaskedProblem with its mask as lists of key blocks for each block of queries, in FlexAttention's terms
    (masks.BlockLists). A kernel's tiles are the blocks of the lists, block_q x block_kv."""

    block_q: int = problem_field(64, "queries of a block of the lists", allowed=(16, 32, 64, 128, 192))
    block_kv: int = problem_field(64, "keys of a block of the lists", allowed=(32, 64, 128))

    title: ClassVar[str] = "Attention over lists of blocks"
    operator: ClassVar[str] = "block_sparse"
    listed: ClassVar[bool] = True

    @cached_property
    def lists(self) -> tuple[masks.BlockLists, ...]:
        """The lists of each of `masks`. The last one has the patterns of all."""
        known: dict[bytes, int] = {}
        return tuple(masks.block_lists(mask, self.block_q, self.block_kv, known) for mask in self.masks)

    @property
    def patterns(self) -> np.ndarray:
        """[patterns, block_q, block_kv / 32] int32: the visible keys of each query in a partial block."""
        return self.lists[-1].patterns

    def tensors(self) -> tuple[Tensor, ...]:
        rows, columns = self.lists[0].kv_indices.shape
        many, axes = (len(self.lists), rows), ("mask", "query_block")
        patterns, words = ("pattern", "query", "word"), self.block_kv // 32
        return (
            *super().tensors(),
            Tensor("kv_num_blocks", many, "int32", axes),
            Tensor("kv_indices", (*many, columns), "int32", (*axes, "entry")),
            Tensor("kv_patterns", (*many, columns), "int32", (*axes, "entry")),
            Tensor("full_kv_num_blocks", many, "int32", axes),
            Tensor("full_kv_indices", (*many, columns), "int32", (*axes, "entry")),
            Tensor("patterns", (max(1, len(self.patterns)), self.block_q, words), "int32", patterns),
        )

    @property
    def sizes(self) -> dict[str, object]:
        """SixteenBitProblem's sizes, the rows and columns of the lists (query_blocks, key_blocks), and mask_count."""
        rows, columns = -(-self.seq_len // self.block_q), -(-self.keys // self.block_kv)
        count = self.batch * self.num_heads if self.mask == "top_blocks" else 1
        return {**super().sizes, "query_blocks": rows, "key_blocks": columns, "mask_count": count}

    @property
    def defines(self) -> dict[str, int]:
        """The blocks of the lists are the kernel's tiles. It needs no causal mask of its own."""
        return {**super().defines, "CAUSAL": 0, "BLOCK_Q": self.block_q, "BLOCK_KV": self.block_kv}

    def inputs(self) -> dict[str, np.ndarray]:
        return {**super().inputs(), **self.made()}

    @classmethod
    def from_call(cls, call: Call) -> Self:
        """The mask that the call gives as blocks, in tiles of 128 queries and 64 keys."""
        call.only("causal", "block", "rows")
        block, rows = call.option("block", 0), call.option("rows", ())
        sizes, drawn = attention_sizes(call), rows if isinstance(rows, tuple) else ()
        return cls(**sizes, mask="drawn", mask_block=int(str(block)), drawn=drawn, block_q=128, block_kv=64)

    def made(self) -> dict[str, np.ndarray]:
        names = ("kv_num_blocks", "kv_indices", "kv_patterns", "full_kv_num_blocks", "full_kv_indices")
        made = {name: np.stack([getattr(lists, name) for lists in self.lists]) for name in names}
        patterns = self.patterns if len(self.patterns) else np.zeros((1, self.block_q, self.block_kv // 32), np.int32)
        return {**super().made(), **made, "patterns": patterns}

    # ---- cases ----

    @classmethod
    def bench_default(cls) -> Self:
        return cls(seq_len=16384, head_dim=128, num_heads=16, window=1024, block_q=128, block_kv=64, mask_block=128)

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return BLOCK_SWEEPS

    @classmethod
    def block_fields(cls, kernel: KernelSpec, number: int) -> dict[str, int]:
        sizes = HOPPER_BLOCKS if kernel.requires == "sm_90a" else tuple(b for b in BLOCKS if b[1] < 128)
        block_q, block_kv = sizes[number % len(sizes)]
        return {"block_q": block_q, "block_kv": block_kv}


@dataclass(frozen=True)
class CsrProblem(MaskFields, DenseProblem):
    """Attention in fp32 with a list of keys for each query, as CSR. The keys of query i are indices[indptr[i] :
    indptr[i + 1]]."""

    causal: bool = problem_field(True, "also hides the keys after the query", allowed=(False, True))

    title: ClassVar[str] = "Attention over lists of keys"
    operator: ClassVar[str] = ""

    @cached_property
    def lists(self) -> tuple[np.ndarray, np.ndarray]:
        """(indptr, indices), int32."""
        return masks.csr(self.masks[0])

    def tensors(self) -> tuple[Tensor, ...]:
        """DenseProblem's tensors, lse [batch, num_heads, seq_len], indptr [seq_len + 1] and indices, int32. An empty
        mask has one index, and no kernel reads it."""
        heads = ("batch", "head", "query")
        return (
            *super().tensors(),
            Tensor("lse", (self.batch, self.num_heads, self.seq_len), "float32", heads, Role.OUTPUT),
            Tensor("indptr", (self.seq_len + 1,), "int32", ("row",)),
            Tensor("indices", (max(1, len(self.lists[1])),), "int32", ("entry",)),
        )

    def inputs(self) -> dict[str, np.ndarray]:
        indptr, indices = self.lists
        return {**super().inputs(), "indptr": indptr, "indices": indices if len(indices) else np.zeros(1, np.int32)}

    def _query_heads(self) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        raise ProblemError("mask is top_blocks, which differs from head to head. A CSR list here is that of all heads.")

    # ---- cases ----

    @classmethod
    def presets(cls) -> Mapping[str, Mapping[str, object]]:
        return {
            "A tenth of all pairs, at random": {"mask": "random", "density": 0.1},
            "A window": {"window": 16},
            "Every 16th key": {"mask": "strided", "window": 8, "stride": 16},
            "Rows that see nothing": {"mask": "drawn", "mask_block": 16, "drawn": ((0,), (), (1, 2)), "causal": False},
        }

    @classmethod
    def bench_default(cls) -> Self:
        return cls(seq_len=4096, head_dim=64, num_heads=8, mask="random", density=0.1)

    @classmethod
    def bench_sweeps(cls) -> Sweeps:
        return [([("density", [0.01, 0.1, 0.25])], {})]

    @classmethod
    def check_cases(cls, kernel: KernelSpec) -> list[Case]:
        """Every mask except top_blocks, at several lengths and every head_dim. Some rows see no key. Windows include 1
        and lengths beyond the sequence. Then follows each value of each constant."""
        cases = []
        kinds = [mask for mask in MASKS if mask != "top_blocks"]
        for n, (mask, length) in enumerate(product(kinds, (1, 2, 33, 64, 100, 200))):
            batch, heads = n % 2 + 1 if length <= 100 else 1, n % 3 + 1 if length <= 64 else 1
            fields: dict[str, Any] = {"mask": mask, "drawn": _drawn(length) if mask == "drawn" else ()}
            fields |= {"window": (16, 1, 64, 1000)[n % 4], "density": (0.1, 0.25, 0.01, 0.9)[n % 4]}
            cases.append(
                Case(cls(length, (32, 64, 128)[n % 3], batch, heads, n % 3 != 2, SCALES[n // 3 % 4], n, **fields))
            )
        for n, setting in enumerate(values(kernel, defaults=True)):
            cases.append(Case(cls(70, seed=n, num_heads=1, mask="random"), (setting,)))
        return cases

    @classmethod
    def recorded_cases(cls, kernel: KernelSpec) -> list[Case]:
        cases = [Case(cls(num_heads=1).with_fields(**fields)) for fields in cls.presets().values()]
        return traced(kernel, cases + what_ifs(kernel, cls(num_heads=1, window=48)))

    @classmethod
    def counter_cases(cls, kernel: KernelSpec) -> list[Case]:
        return [Case(cls())]

    @classmethod
    def timeline_cases(cls, kernel: KernelSpec) -> list[Case]:
        return []
