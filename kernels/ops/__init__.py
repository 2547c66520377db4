"""The kernels as PyTorch operators. The import needs no GPU and compiles nothing."""

from kernels.ops.attention import attention, attention_backward, block_sparse, explain
from kernels.ops.loading import load
from kernels.ops.models import activate, hugging_face, hugging_face_attention
from kernels.ops.paged import paged_decode, plan_decode, reshape_and_cache
from kernels.ops.torch_signature import scaled_dot_product_attention
from kernels.ops.watching import watch

__all__ = [
    "activate",
    "attention",
    "attention_backward",
    "block_sparse",
    "explain",
    "hugging_face",
    "hugging_face_attention",
    "load",
    "paged_decode",
    "plan_decode",
    "reshape_and_cache",
    "scaled_dot_product_attention",
    "watch",
]
