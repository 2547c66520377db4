"""What our kernels are compared with: torch's scaled_dot_product_attention (SDPA), each of its implementations by name, on the problem's own
type. fp32 products are as exact as fp32: torch.backends.cuda.matmul.allow_tf32 is off, as it is by default."""

import warnings

import numpy as np

from kernels.errors import PeerUnavailable
from kernels.paged import PagedProblem
from kernels.problem import AttentionProblem

PEERS = {"sdpa_math": "MATH", "sdpa_efficient": "EFFICIENT_ATTENTION", "sdpa_flash": "FLASH_ATTENTION", "sdpa_cudnn": "CUDNN_ATTENTION"}
# As KernelSpec.tensor_products, of those that compute fp32 on tensor cores: CUTLASS's OpMultiplyAddFastF32, three TF32 products, each at half the rate
TENSOR_PRODUCTS = {"sdpa_efficient": 6}


def prepare(name, problem, inputs):
    """A peer ready to run over the problem's inputs (see _Peer), or PeerUnavailable where it is none of its problems."""
    if isinstance(problem, AttentionProblem):
        return _Peer(name, problem, [inputs[array] for array in "qkv"], {"is_causal": problem.causal, "scale": problem.scale})
    if not isinstance(problem, PagedProblem):
        raise PeerUnavailable(f"{name} computes attention, and this problem is none.")
    if problem.alibi or len(set(problem.context_lens)) > 1:
        raise PeerUnavailable(f"{name} is only asked for contexts of one length without ALiBi, where it needs no mask.")
    return _Peer(name, problem, _gathered(problem, inputs), {"scale": problem.scale, "enable_gqa": problem.group > 1})


def _gathered(problem, inputs):
    """q [seqs, heads, 1, head_size], and K and V of each sequence gathered from its pages beforehand, [seqs, kv_heads, length, head_size]."""
    rows = (problem.layout.gather(inputs["k_cache"], inputs["v_cache"], table, length) for table, length in zip(problem.block_tables, problem.context_lens))
    return [inputs["q"][:, :, None], *(np.ascontiguousarray(np.stack(parts).transpose(0, 2, 1, 3)) for parts in zip(*rows))]


class _Peer:
    """As measure._Kernel: first_run, copies, peak_bytes, set_bytes."""

    def __init__(self, name, problem, arrays, options):
        import torch

        self.name, self.problem, self.options = name, problem, options
        self.tensors = [torch.from_numpy(array).to("cuda") for array in arrays]
        self.set_bytes = sum(t.nbytes for t in self.tensors)
        self.peak_bytes = self.moved_bytes = 0  # known after the first run

    def _run(self, tensors):
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with torch.inference_mode(), sdpa_kernel(getattr(SDPBackend, PEERS[self.name])):
            return torch.nn.functional.scaled_dot_product_attention(*tensors, **self.options)

    def first_run(self):
        """Runs once; {"o": the output as a NumPy array}. PeerUnavailable if torch says that it cannot."""
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
                raise PeerUnavailable(f"{self.name} ran out of memory: {str(error).splitlines()[0][:200]}") from None
            except RuntimeError as error:
                raise PeerUnavailable(_reason(self.name, error, said)) from None
        self.peak_bytes = torch.cuda.max_memory_allocated() - before + self.set_bytes
        self.moved_bytes = self.set_bytes + out.nbytes
        return {"o": out.cpu().numpy().reshape(self.problem.shape)}

    def copies(self, count):
        """`count` functions, each of which enqueues one run over tensors of its own."""
        sets = [self.tensors] + [[t.clone() for t in self.tensors] for _ in range(count - 1)]
        return [lambda tensors=tensors: self._run(tensors) for tensors in sets]


def _reason(name, error, said):
    """torch's own words for why it cannot: its warnings say more than its error; in each only the first sentence speaks of the problem."""
    words = [str(w.message).split(" (Triggered")[0].strip() for w in said]
    telling = [w for w in words if "not used because" not in w and "been runtime disabled" not in w and "disabled" not in w]
    return f"torch says of {name}: {' '.join(dict.fromkeys(telling))[:300] or str(error).splitlines()[0][:200]}"
