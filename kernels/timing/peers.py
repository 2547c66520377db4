"""What our kernels are compared with, in the problem's own type: torch's scaled_dot_product_attention (SDPA), each of
its implementations by name; torch's FlexAttention, compiled, where a problem has a mask; FlashAttention 4 and
FlashInfer, which requirements.txt does not list, where they are installed. fp32 products are as exact as fp32:
torch.backends.cuda.matmul.allow_tf32 is off, as it is by default."""

import importlib.util
import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from kernels.core.reference import on_device, on_host
from kernels.errors import OutOfMemory, PeerUnavailable

SDPA = {
    "sdpa_math": "MATH",
    "sdpa_efficient": "EFFICIENT_ATTENTION",
    "sdpa_flash": "FLASH_ATTENTION",
    "sdpa_cudnn": "CUDNN_ATTENTION",
}
LIBRARIES = {"flash_attn_4": ("flash_attn.cute", "flash-attn-4"), "flashinfer": ("flashinfer", "flashinfer-python")}
"""name -> the module that it is, and the package on PyPI. They take [batch, tokens, heads, dim]."""
FLEX = "flex_attention"
PEERS = (*SDPA, *LIBRARIES, FLEX)
"""All of them, in the order in which they are listed."""
MOST_MASK = 2**31  # bytes of a dense mask
WORKSPACE = 2**27  # bytes that FlashInfer plans in
# As KernelSpec.tensor_products, of those that compute fp32 on tensor cores: CUTLASS's OpMultiplyAddFastF32, three TF32
# products, each at half the rate.
TENSOR_PRODUCTS = {"sdpa_efficient": 6}


def asked_of(problem: Any) -> tuple[str, ...]:
    """Those that a problem is timed with: FlexAttention where it has a mask of its own, the libraries where it has
    none."""
    return (*SDPA, FLEX) if hasattr(problem, "masks") else (*SDPA, *LIBRARIES)


@cache
def installed(name: str) -> bool:
    """Whether a peer is on this machine; those of torch are."""
    module = LIBRARIES.get(name, ("torch", ""))[0]
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # of the package around it: not there, or built for another torch
        return False


class Peer:
    """One of PEERS on a problem, ready to run. As protocol.Kernel: first_run, copies, peak_bytes, set_bytes,
    moved_bytes."""

    def __init__(self, name: str, problem: Any, inputs: dict[str, np.ndarray]) -> None:
        """Takes q, k and v to the GPU. PeerUnavailable where it is not installed or cannot compute the problem."""
        if not installed(name):
            module, package = LIBRARIES[name]
            raise PeerUnavailable(f"{module} is not installed; pip install {package} brings it.")
        arrays, self.options = problem.peer_inputs(inputs)
        self.name, self.output = name, problem.outputs[0]
        self._as_given = getattr(problem, "logical", lambda array: array)  # of [batch, head, row, dim], to its layout
        self.tensors = [on_device(array, "cuda") for array in arrays]
        self._mask = self.options.pop("mask", None)
        if self._mask is None and name == FLEX:
            raise PeerUnavailable("flex_attention is asked where a problem has a mask of its own.")
        if self._mask is not None and name in SDPA:
            self.options["attn_mask"] = torch_mask(self._mask)
        if name in LIBRARIES:
            if self._mask is not None:
                raise PeerUnavailable(f"{name} is asked without masks alone.")
            if self.tensors[0].element_size() != 2:
                raise PeerUnavailable(f"{name} computes fp16 and bf16, not {self.tensors[0].dtype}.")
            self.tensors = [t.transpose(1, 2).contiguous() for t in self.tensors]
        self._function: Callable[..., Any] | None = None  # of a library: planned before its first run
        self.set_bytes = sum(t.nbytes for t in self.tensors)
        self.peak_bytes = self.moved_bytes = 0  # known after the first run

    def _run(self, tensors: list[Any]) -> Any:
        if self._function:
            made = self._function(*tensors)
            return made if self.name == FLEX else made.transpose(1, 2)
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with torch.inference_mode(), sdpa_kernel(getattr(SDPBackend, SDPA[self.name])):
            return torch.nn.functional.scaled_dot_product_attention(*tensors, **self.options)

    def _planned(self) -> Callable[..., Any]:
        """A library's function of q, k and v; PeerUnavailable where it cannot be had here: of another version, say, or
        without a compiler that it needs."""
        try:
            if self.name == FLEX:
                return flex_attention(self._mask, self.tensors, self.options)
            return {"flash_attn_4": flash_attn_4, "flashinfer": flashinfer}[self.name](self.tensors, self.options)
        except Exception as error:  # whatever another's code raises
            raise PeerUnavailable(f"{self.name}: {type(error).__name__}: {str(error)[:200]}") from None

    def first_run(self) -> dict[str, np.ndarray]:
        """Runs once; output -> array. PeerUnavailable if torch says that it cannot, OutOfMemory if it does not fit."""
        import torch

        if self.name not in SDPA:
            self._function = self._planned()
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
        return {self.output.name: self._as_given(on_host(out)).reshape(self.output.shape)}

    def copies(self, count: int) -> list[Callable[[], Any]]:
        """`count` functions, each of which enqueues one run over tensors of its own."""
        sets = [self.tensors] + [[t.clone() for t in self.tensors] for _ in range(count - 1)]
        return [partial(self._run, tensors) for tensors in sets]


def torch_mask(mask: Any) -> Any:
    """A mask (families/sparse/masks.Mask) as a bool tensor [queries, keys] on the GPU. PeerUnavailable where it is too
    large to be held."""
    import torch

    if mask.queries * mask.keys > MOST_MASK:
        raise PeerUnavailable(f"A dense mask of {mask.queries:,} x {mask.keys:,} is not made.")
    return torch.cat([torch.from_numpy(strip.copy()).to("cuda") for strip in mask.strips(1024)])


def flex_attention(mask: Any, tensors: list[Any], options: dict[str, Any]) -> Callable[..., Any]:
    """A function of q, k and v [batch, heads, tokens, dim] that computes O by torch's FlexAttention, compiled for these
    shapes, with blocks of 128. Of a window its mask_mod is the comparison, of other masks a look into the dense one."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask
    from torch.nn.attention.flex_attention import flex_attention as flex

    if mask.kind == "window" and mask.causal:
        offset, window = mask.keys - mask.queries, mask.window

        def seen(b: Any, h: Any, q: Any, k: Any) -> Any:
            return (k <= q + offset) & (k > q + offset - window)
    else:
        dense = torch_mask(mask)

        def seen(b: Any, h: Any, q: Any, k: Any) -> Any:
            return dense[q, k]

    blocks = create_block_mask(seen, None, None, mask.queries, mask.keys, device="cuda")
    compiled = torch.compile(flex, dynamic=False)

    def run(q: Any, k: Any, v: Any) -> Any:
        with torch.inference_mode():
            return compiled(q, k, v, block_mask=blocks, **options)

    return run


def flash_attn_4(tensors: list[Any], options: dict[str, Any]) -> Callable[..., Any]:
    """A function of q, k and v [batch, tokens, heads, dim] that computes O in that shape by FlashAttention 4."""
    from flash_attn.cute import flash_attn_func

    def run(q: Any, k: Any, v: Any) -> Any:
        made = flash_attn_func(q, k, v, softmax_scale=options["scale"], causal=options.get("is_causal", False))
        return made[0] if isinstance(made, tuple) else made  # some versions give the log-sum-exp too

    return run


def flashinfer(tensors: list[Any], options: dict[str, Any]) -> Callable[..., Any]:
    """A function of q, k and v [batch, tokens, heads, dim] that computes O in that shape by FlashInfer, planned here
    for tensors of these shapes."""
    import torch
    from flashinfer import BatchPrefillWithRaggedKVCacheWrapper

    (batch, queries, heads, dim), (keys, kv_heads) = tensors[0].shape, tensors[1].shape[1:3]
    wrapper = BatchPrefillWithRaggedKVCacheWrapper(
        torch.empty(WORKSPACE, dtype=torch.uint8, device=tensors[0].device), "NHD"
    )
    begins = torch.arange(batch + 1, dtype=torch.int32, device=tensors[0].device)
    wrapper.plan(
        begins * queries,
        begins * keys,
        heads,
        kv_heads,
        dim,
        causal=options.get("is_causal", False),
        sm_scale=options["scale"],
        q_data_type=tensors[0].dtype,
    )

    def run(q: Any, k: Any, v: Any) -> Any:
        return wrapper.run(*(t.flatten(0, 1) for t in (q, k, v))).view(q.shape)

    return run


def _reason(name: str, error: Exception, said: list) -> str:
    """torch's own words for why it cannot. Its warnings say more than its error; those that only tell what was not
    tried, because this program asked for one implementation, are left out."""
    words = [str(w.message).split(" (Triggered")[0].strip() for w in said]
    telling = [w for w in words if "not used because" not in w and "disabled" not in w]
    return f"torch says of {name}: {' '.join(dict.fromkeys(telling))[:300] or str(error).splitlines()[0][:200]}"
