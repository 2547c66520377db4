"""The kernels as PyTorch operators: attention, forward and backward. The import needs no GPU and compiles nothing."""

from kernels.ops.attention import attention, explain

__all__ = ["attention", "explain"]
