"""The kernels as PyTorch operators. The import needs no GPU and compiles nothing."""

from kernels.ops.attention import attention, explain
from kernels.ops.blocks import block_sparse
from kernels.ops.loading import load
from kernels.ops.paged import paged_decode, reshape_and_cache

__all__ = ["attention", "block_sparse", "explain", "load", "paged_decode", "reshape_and_cache"]
