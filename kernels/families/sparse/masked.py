"""Attention with a mask of its own: the fields of the mask, the mask itself, and the truth."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from kernels.core import reference
from kernels.core.fields import problem_field
from kernels.core.masks import KINDS, Mask, Matrix, as_matrix, random_blocks, top_blocks
from kernels.core.problem import Size
from kernels.errors import PeerUnavailable, ProblemError
from kernels.families.attention import AttentionProblem

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

    drawn: the visible columns of each row of blocks. A row may be empty.
    """

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
            kind,
            self.seq_len,
            self.keys,
            self.causal,
            seed=self.seed,
            block=self.mask_block,
            blocks=blocks,
            **taken,
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
