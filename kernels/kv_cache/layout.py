"""The arrays of a paged KV cache: the place of each token's key and value.

A *page* is a physical block of block_size slots. A slot holds the K and V of one token. A sequence's block table lists
its pages in order, so its token i is in page table[i // block_size], slot i % block_size. Source: Kwon et al. 2023,
"Efficient Memory Management for Large Language Model Serving with PagedAttention", arXiv:2309.06180; vLLM's attention
kernels have the same array shapes.
"""

from collections.abc import Sequence as Row
from dataclasses import dataclass

import numpy as np

from kernels.core.dtypes import element_type

VECTOR_BYTES = 16  # one read of a thread from one token of K
K_AXES = ("page", "kv_head", "piece", "slot", "element")  # of the K cache; a piece is 16 bytes of a token's key
V_AXES = ("page", "kv_head", "dim", "slot")


@dataclass(frozen=True)
class Layout:
    """The arrays of a KV cache, with x elements per 16 bytes.

    K: [num_blocks, num_kv_heads, head_dim / x, block_size, x]
    V: [num_blocks, num_kv_heads, head_dim, block_size]"""

    num_blocks: int
    num_kv_heads: int
    head_dim: int
    block_size: int
    dtype: str

    @property
    def itemsize(self) -> int:
        return element_type(self.dtype).bytes

    @property
    def x(self) -> int:
        return VECTOR_BYTES // self.itemsize

    @property
    def k_shape(self) -> tuple[int, ...]:
        return (self.num_blocks, self.num_kv_heads, self.head_dim // self.x, self.block_size, self.x)

    @property
    def v_shape(self) -> tuple[int, ...]:
        return (self.num_blocks, self.num_kv_heads, self.head_dim, self.block_size)

    @property
    def page_bytes(self) -> int:
        """Bytes of one page of one KV head, in K or in V."""
        return self.head_dim * self.block_size * self.itemsize

    def page_offset(self, block: int, kv_head: int) -> int:
        """First byte of a page, both in K and in V."""
        return (block * self.num_kv_heads + kv_head) * self.page_bytes

    def k_offsets(self, block: int, kv_head: int, slot: int) -> np.ndarray:
        """Byte offsets of a token's head_dim / x pieces of 16 bytes in K."""
        pieces = np.arange(self.head_dim // self.x) * self.block_size + slot
        return self.page_offset(block, kv_head) + VECTOR_BYTES * pieces

    def v_offsets(self, block: int, kv_head: int, slot: int) -> np.ndarray:
        """Byte offsets of a token's head_dim elements in V."""
        elements = np.arange(self.head_dim) * self.block_size + slot
        return self.page_offset(block, kv_head) + self.itemsize * elements

    def write(
        self, k_cache: np.ndarray, v_cache: np.ndarray, slots: Row[int] | np.ndarray, key: np.ndarray, value: np.ndarray
    ) -> None:
        """Writes key and value [tokens, num_kv_heads, head_dim] into the slots, in place.

        slots: [tokens], each page * block_size + slot in the page"""
        block, slot = np.divmod(np.asarray(slots, np.int64), self.block_size)
        k_cache[block, :, :, slot, :] = key.reshape(len(block), self.num_kv_heads, -1, self.x)
        v_cache[block, :, :, slot] = value

    def gather(
        self, k_cache: np.ndarray, v_cache: np.ndarray, table: Row[int], length: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The first `length` tokens of a block table as contiguous K and V, both [length, num_kv_heads, head_dim]."""
        block, slot = np.divmod(np.arange(length), self.block_size)
        block = np.asarray(table, np.int64)[block]
        k = k_cache[block, :, :, slot, :].reshape(length, self.num_kv_heads, self.head_dim)
        return k, v_cache[block, :, :, slot]
