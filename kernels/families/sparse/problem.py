"""The problems of attention with masks: over 16-bit numbers, the same with lists of blocks, and in fp32 with CSR."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from kernels.build import own_values
from kernels.core import masks, reference
from kernels.core.call import Call, attention_sizes
from kernels.core.fields import problem_field
from kernels.core.problem import Size
from kernels.core.tensors import Role, Tensor
from kernels.errors import PeerUnavailable, ProblemError
from kernels.families.dense.problem import DenseProblem
from kernels.families.sparse.cases import CsrCases, MaskedCases
from kernels.families.sparse.masked import MaskFields
from kernels.families.tensor_cores.problem import SixteenBitProblem

SINK_STREAM = 1  # of the seed: the sinks' logits


@dataclass(frozen=True)
class MaskedProblem(MaskFields, MaskedCases, SixteenBitProblem):
    """Attention over 16-bit numbers with a mask. A row without visible keys has output 0 and lse -inf.

    sink_logits: each query head has its own logit. It counts in the sums and lse of its rows as a key without a value
      (Agarwal et al. 2025, gpt-oss).
    """

    causal: bool = problem_field(True, "also hides the keys after the query", allowed=(False, True))
    seq_len: int = problem_field(384, "queries per head", low=1, high=65536)
    sink_logits: bool = problem_field(False, "a logit per head counts in every row's sum", allowed=(False, True))

    title: ClassVar[str] = "Attention with a mask"
    valued: ClassVar[tuple[str, ...]] = ("q", "k", "v", "sink")

    @property
    def key_count(self) -> int:
        return self.keys

    @property
    def score_count(self) -> int:
        return self.visible

    @property
    def bench_columns(self) -> dict[str, Size]:
        """Empty: times of different masks are not of one kind."""
        return {}

    @property
    def logits(self) -> np.ndarray:
        """The logits, float32 [num_heads], -inf without sinks."""
        if not self.sink_logits:
            return np.full(self.num_heads, -np.inf, np.float32)
        if own_values.is_name(self.scores):
            return own_values.load(self.scores, {"sink": (self.num_heads,)})["sink"]
        drawn = np.random.default_rng((self.seed, SINK_STREAM)).standard_normal(self.num_heads, np.float32)
        return drawn * np.float32(2)

    def tensors(self) -> tuple[Tensor, ...]:
        """SixteenBitProblem's, and sink [num_heads]."""
        return (*super().tensors(), Tensor("sink", (self.num_heads,), "float32", ("head",)))

    def query_heads(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        q, k, _ = self._rounded().values()
        group = self.num_heads // self.kv_heads
        return ((q[b, h], k[b, h // group]) for b, h in np.ndindex(q.shape[:2]))

    def inputs(self) -> dict[str, np.ndarray]:
        """SixteenBitProblem's, and sink."""
        return {**super().inputs(), "sink": self.logits}

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        q, k, v = self._rounded().values()
        o, lse = reference.masked_attention(q, k, v, self.scale, self.masks, self.logits, on_gpu)
        return {"o": self.logical(o), "lse": lse}

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        q, k, v = self._rounded().values()
        o, lse = reference.torch_masked_attention(q, k, v, self.scale, self.masks, self.logits, device)
        return {"o": self.logical(o), "lse": lse}

    def largest_terms(self) -> dict[str, float]:
        terms = super().largest_terms()
        logit = float(np.abs(self.logits).max()) if self.sink_logits else 0.0
        return {**terms, "lse": max(terms["lse"], logit + 1)}

    def peer_inputs(self, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], dict[str, object]]:
        if self.sink_logits:
            raise PeerUnavailable("torch's attention has no sinks.")
        if len(self.masks) > 1:
            raise PeerUnavailable("The peers take one mask for all heads. This one differs from head to head.")
        options = {"mask": self.masks[0], "scale": self.scale, "enable_gqa": self.kv_heads < self.num_heads}
        return [self.logical(inputs[name]) for name in ("q", "k", "v")], options

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

    @classmethod
    def bench_default(cls) -> "MaskedProblem":
        return cls(seq_len=16384, head_dim=128, num_heads=16, window=1024)


@dataclass(frozen=True)
class BlockSparseProblem(MaskedProblem):
    """MaskedProblem with its mask as lists of key blocks for each block of queries, in FlexAttention's terms
    (masks.BlockLists).

    A kernel's tiles are the blocks of the lists, block_q x block_kv.
    """

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

    @property
    def ledger(self) -> dict[str, int]:
        """How many blocks of all masks are full, partial and skipped."""
        return {name: sum(lists.ledger[name] for lists in self.lists) for name in ("full", "partial", "skipped")}

    def tensors(self) -> tuple[Tensor, ...]:
        """MaskedProblem's tensors, counts [masks, rows], lists [masks, rows, columns] and the patterns, all int32."""
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
        """The lists, their patterns and the sink."""
        names = ("kv_num_blocks", "kv_indices", "kv_patterns", "full_kv_num_blocks", "full_kv_indices")
        made = {name: np.stack([getattr(lists, name) for lists in self.lists]) for name in names}
        patterns = self.patterns if len(self.patterns) else np.zeros((1, self.block_q, self.block_kv // 32), np.int32)
        return {**super().made(), **made, "patterns": patterns}

    @classmethod
    def bench_default(cls) -> "BlockSparseProblem":
        return cls(seq_len=16384, head_dim=128, num_heads=16, window=1024, block_q=128, block_kv=64, mask_block=128)


@dataclass(frozen=True)
class CsrProblem(MaskFields, CsrCases, DenseProblem):
    """Attention in fp32 with a list of keys for each query, as CSR.

    The keys of query i are indices[indptr[i] : indptr[i + 1]]. A row without keys has output 0 and lse -inf.
    """

    causal: bool = problem_field(True, "also hides the keys after the query", allowed=(False, True))

    title: ClassVar[str] = "Attention over lists of keys"
    operator: ClassVar[str] = ""

    @cached_property
    def lists(self) -> tuple[np.ndarray, np.ndarray]:
        """(indptr, indices), int32."""
        return masks.csr(self.masks[0])

    @property
    def score_count(self) -> int:
        return self.visible

    @property
    def bench_columns(self) -> dict[str, Size]:
        """Empty: times of different masks are not of one kind."""
        return {}

    def tensors(self) -> tuple[Tensor, ...]:
        """DenseProblem's tensors, lse [batch, num_heads, seq_len], indptr [seq_len + 1] and indices, int32.

        An empty mask has one index, and no kernel reads it.
        """
        heads = ("batch", "head", "query")
        return (
            *super().tensors(),
            Tensor("lse", self.shape[:3], "float32", heads, Role.OUTPUT),
            Tensor("indptr", (self.seq_len + 1,), "int32", ("row",)),
            Tensor("indices", (max(1, len(self.lists[1])),), "int32", ("entry",)),
        )

    def inputs(self) -> dict[str, np.ndarray]:
        indptr, indices = self.lists
        return {**super().inputs(), "indptr": indptr, "indices": indices if len(indices) else np.zeros(1, np.int32)}

    def query_heads(self) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        raise ProblemError("mask is top_blocks, which differs from head to head. A CSR list here is that of all heads.")

    def _given(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        given = super().inputs()
        return given["q"], given["k"], given["v"]

    def truth(self, on_gpu: bool = False) -> dict[str, np.ndarray]:
        none = np.full(self.num_heads, -np.inf)
        o, lse = reference.masked_attention(*self._given(), self.scale, self.masks, none, on_gpu)
        return {"o": o, "lse": lse}

    def yardstick(self, device: str = "cpu") -> dict[str, np.ndarray]:
        none = np.full(self.num_heads, -np.inf)
        o, lse = reference.torch_masked_attention(*self._given(), self.scale, self.masks, none, device)
        return {"o": o, "lse": lse}

    def largest_terms(self) -> dict[str, float]:
        """The largest score for lse, which is at most the largest |Q| |K|."""
        q, k, _ = self._given()
        longest = [float(np.sqrt((array**2).sum(-1)).max()) for array in (q, k)]
        return {**super().largest_terms(), "lse": self.scale * longest[0] * longest[1] + float(np.log(self.seq_len))}

    def peer_inputs(self, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], dict[str, object]]:
        return [inputs[name] for name in ("q", "k", "v")], {"mask": self.masks[0], "scale": self.scale}

    @classmethod
    def bench_default(cls) -> "CsrProblem":
        return cls(seq_len=4096, head_dim=64, num_heads=8, mask="random", density=0.1)
