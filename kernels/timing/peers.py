"""What our kernels are compared with: torch's scaled_dot_product_attention (SDPA), each of its implementations by name,
in the problem's own type. fp32 products are as exact as fp32: torch.backends.cuda.matmul.allow_tf32 is off, as it is by
default."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from kernels.core.reference import on_device, on_host
from kernels.errors import OutOfMemory, PeerUnavailable

PEERS = {
    "sdpa_math": "MATH",
    "sdpa_efficient": "EFFICIENT_ATTENTION",
    "sdpa_flash": "FLASH_ATTENTION",
    "sdpa_cudnn": "CUDNN_ATTENTION",
}
# As KernelSpec.tensor_products, of those that compute fp32 on tensor cores: CUTLASS's OpMultiplyAddFastF32, three TF32
# products, each at half the rate.
TENSOR_PRODUCTS = {"sdpa_efficient": 6}


class Peer:
    """One of PEERS on a problem, ready to run. As protocol.Kernel: first_run, copies, peak_bytes, set_bytes,
    moved_bytes."""

    def __init__(self, name: str, problem: Any, inputs: dict[str, np.ndarray]) -> None:
        """Takes q, k and v to the GPU. PeerUnavailable where torch's attention cannot compute the problem."""
        arrays, self.options = problem.peer_inputs(inputs)
        self.name, self.output = name, problem.outputs[0]
        self.tensors = [on_device(array, "cuda") for array in arrays]
        self.set_bytes = sum(t.nbytes for t in self.tensors)
        self.peak_bytes = self.moved_bytes = 0  # known after the first run

    def _run(self, tensors: list[Any]) -> Any:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with torch.inference_mode(), sdpa_kernel(getattr(SDPBackend, PEERS[self.name])):
            return torch.nn.functional.scaled_dot_product_attention(*tensors, **self.options)

    def first_run(self) -> dict[str, np.ndarray]:
        """Runs once; output -> array. PeerUnavailable if torch says that it cannot, OutOfMemory if it does not fit."""
        import torch

        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                out = self._run(self.tensors)
                torch.cuda.synchronize()
            except torch.cuda.OutOfMemoryError as error:
                raise OutOfMemory(f"{self.name} ran out of memory: {str(error).splitlines()[0][:200]}") from None
            except RuntimeError as error:
                raise PeerUnavailable(_reason(self.name, error, said)) from None
        self.peak_bytes = torch.cuda.max_memory_allocated() - before + self.set_bytes
        self.moved_bytes = self.set_bytes + out.nbytes
        return {self.output.name: on_host(out).reshape(self.output.shape)}

    def copies(self, count: int) -> list[Callable[[], Any]]:
        """`count` functions, each of which enqueues one run over tensors of its own."""
        sets = [self.tensors] + [[t.clone() for t in self.tensors] for _ in range(count - 1)]
        return [partial(self._run, tensors) for tensors in sets]


def _reason(name: str, error: Exception, said: list) -> str:
    """torch's own words for why it cannot. Its warnings say more than its error; those that only tell what was not
    tried, because this program asked for one implementation, are left out."""
    words = [str(w.message).split(" (Triggered")[0].strip() for w in said]
    telling = [w for w in words if "not used because" not in w and "disabled" not in w]
    return f"torch says of {name}: {' '.join(dict.fromkeys(telling))[:300] or str(error).splitlines()[0][:200]}"
