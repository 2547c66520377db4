"""The peers of our kernels, in the problem's own type.

- torch's scaled_dot_product_attention (SDPA), each of its implementations by name. Its math implementation computes
  16-bit inputs in fp32
- attention as written in torch: a product, a softmax, a product, all in the inputs' own 16 bits
- torch's FlexAttention, compiled, for a problem with a mask
- FlashAttention 4 and FlashInfer, if they are installed (requirements.txt does not list them)

fp32 products are as exact as fp32: torch.backends.cuda.matmul.allow_tf32 is off, as by default.
"""

import importlib.util
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kernels.core.masks import Mask
from kernels.core.problem import Problem
from kernels.core.reference import on_device, on_host
from kernels.errors import OutOfMemory, PeerUnavailable
from kernels.measure import flashinfer_calls
from kernels.measure.flashinfer_calls import CASCADE, PAGED, Options

if TYPE_CHECKING:
    from torch import Tensor

SDPA = {
    "sdpa_math": "MATH",
    "sdpa_efficient": "EFFICIENT_ATTENTION",
    "sdpa_flash": "FLASH_ATTENTION",
    "sdpa_cudnn": "CUDNN_ATTENTION",
}
LIBRARIES = {"flash_attn_4": ("flash_attn.cute", "flash-attn-4"), "flashinfer": ("flashinfer", "flashinfer-python")}
"""name -> the module that it is, and the package on PyPI. They take [batch, tokens, heads, dim]."""
FLEX = "flex_attention"
UNFUSED = "unfused"
"""Attention as written. The scale goes into Q, so the scores cross memory as seldom as they can."""
TITLES = {
    "unfused": "torch (as written)",
    "sdpa_cudnn": "cuDNN",
    "sdpa_efficient": "torch (efficient)",
    "sdpa_flash": "torch (flash)",
    "flash_attn_4": "FlashAttention 4",
    "flashinfer": "FlashInfer",
}
"""name -> words, for the peers in duels and in the results."""
BACKWARD = ("sdpa_efficient", "sdpa_flash", "sdpa_cudnn")
"""The peers with a backward of their own (GradientPeer)."""
PEERS = (*SDPA, *LIBRARIES, FLEX, UNFUSED)
"""All peers, in the order of lists."""
NAMES = (*PEERS, *PAGED)
"""The same, and FlashInfer's ways over a paged cache. Each way has its own name and time."""
MOST_MASK = 2**31  # bytes of a dense mask
# KernelSpec.tensor_products for peers with fp32 on tensor cores: CUTLASS's OpMultiplyAddFastF32, three TF32 products,
# each at half the rate.
TENSOR_PRODUCTS = {"sdpa_efficient": 6}


def asked_of(problem: Problem) -> tuple[str, ...]:
    """The peers of a problem. With a mask of its own: FlexAttention and FlashInfer. Over a paged cache: FlashInfer's
    ways, and its cascade for a shared prefix. With neither: torch's implementations, the libraries, and attention as
    written for 16 bits. For gradients: torch's implementations with a backward."""
    if problem.gradients:
        return BACKWARD
    if problem.masked:
        return (*SDPA, FLEX, "flashinfer")
    if problem.attends_to_cache():
        shared = problem.cache_use is not None and problem.cache_use.prefix_heads > 0
        return (*SDPA, *(name for name in PAGED if shared or flashinfer_calls.ways(name)[1] not in CASCADE))
    return (*SDPA, *LIBRARIES, *([] if problem.dtype == "float32" else [UNFUSED]))


def base(name: str) -> str:
    """The peer of PEERS behind one of NAMES."""
    return "flashinfer" if name in PAGED else name


@cache
def installed(name: str) -> bool:
    """Whether a peer is on this machine. Torch's own peers always are."""
    module = LIBRARIES.get(base(name), ("torch", ""))[0]
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # of the package around it: not there, or built for another torch
        return False


def not_installed(name: str) -> str:
    module, package = LIBRARIES[base(name)]
    return f"{module} is not installed. Install it with pip install {package}."


def peer(name: str, problem: Problem, inputs: dict[str, np.ndarray]) -> "Peer":
    """One of NAMES on a problem of a forward, ready to run. PeerUnavailable if it is not installed or does not support
    the problem."""
    return (PagedPeer if name in PAGED else Peer)(name, problem, inputs)


class Peer:
    """One of PEERS on a problem, with the interface of protocol.Kernel: first_run, copies, peak_bytes, set_bytes,
    moved_bytes."""

    def __init__(self, name: str, problem: Problem, inputs: dict[str, np.ndarray]) -> None:
        """Copies q, k and v to the GPU. PeerUnavailable if the peer is not installed or does not support the
        problem."""
        if not installed(name):
            raise PeerUnavailable(not_installed(name))
        self.name, self.problem, self.output = name, problem, problem.outputs[0]
        self._function: Callable[..., Tensor] | None = None  # of a library: planned before its first run
        with room(name):
            self.tensors = self._taken(inputs)
        self.set_bytes = sum(t.nbytes for t in self.tensors)
        self.peak_bytes = self.moved_bytes = 0  # known after the first run

    def _taken(self, inputs: dict[str, np.ndarray]) -> list["Tensor"]:
        """q, k and v on the GPU, in the peer's layout."""
        arrays, self.options = _peer_inputs(self.problem, inputs)
        tensors = [on_device(array, "cuda") for array in arrays]
        self._mask = self.options.pop("mask", None)
        if self._mask is None and self.name == FLEX:
            raise PeerUnavailable("flex_attention needs a problem with a mask of its own.")
        if self._mask is not None and self.name in SDPA:
            self.options["attn_mask"] = torch_mask(self._mask)
        if self.name not in LIBRARIES:
            return tensors
        if self._mask is not None and self.name != "flashinfer":
            raise PeerUnavailable(f"{self.name} runs only problems without masks.")
        if tensors[0].element_size() != 2:
            raise PeerUnavailable(f"{self.name} computes fp16 and bf16, not {tensors[0].dtype}.")
        return [t.transpose(1, 2).contiguous() for t in tensors]

    def _run(self, tensors: list["Tensor"]) -> "Tensor":
        if self._function:
            return self._function(*tensors)
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        q, k, v = tensors

        with torch.inference_mode(), sdpa_kernel(getattr(SDPBackend, SDPA[self.name])):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, **self.options)

    def _planned(self) -> Callable[..., "Tensor"]:
        if self.name == FLEX:
            return flex_attention(self._mask, self.tensors, self.options)
        if self.name == UNFUSED:
            return as_written(self.tensors, self.options)
        if self.name == "flash_attn_4":
            return flash_attn_4(self.tensors, self.options)
        if self._mask is not None:
            return flashinfer_calls.masked(self._mask, self.tensors, self.options)
        return flashinfer_calls.ragged(self.tensors, self.options)

    def _answer(self, out: "Tensor") -> np.ndarray:
        if self.name in LIBRARIES:
            out = out.transpose(1, 2)
        return self.problem.logical(on_host(out)).reshape(self.output.shape)

    def first_run(self) -> dict[str, np.ndarray]:
        """Plans, if the peer is a library, and runs once. Returns output -> array. PeerUnavailable if the peer refuses
        or cannot run here, for example because of its version or a missing compiler. OutOfMemory if it does not fit."""
        import torch

        if self.name not in SDPA:
            with told(self.name):
                self._function = self._planned()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with told(self.name):
            out = self._run(self.tensors)
            torch.cuda.synchronize()
        self.peak_bytes = torch.cuda.max_memory_allocated() - before + self.set_bytes
        touched = self.problem.work.touched if self.name in PAGED and self.problem.work else {}
        read = sum(t.nbytes for t in self.tensors[: 1 if touched else None]) + sum(touched.values())
        self.moved_bytes = read + out.nbytes
        return {self.output.name: self._answer(out)}

    def copies(self, count: int) -> list[Callable[[], object]]:
        """`count` functions. Each enqueues one run over tensors of its own."""
        with room(self.name):
            sets = [self.tensors] + [[t.clone() for t in self.tensors] for _ in range(count - 1)]
        return [partial(self._run, tensors) for tensors in sets]


class PagedPeer(Peer):
    """One of FlashInfer's ways over a paged cache: the same pages, tables and pool as our kernels read."""

    def _taken(self, inputs: dict[str, np.ndarray]) -> list["Tensor"]:
        self._call = self.problem.cache_call(inputs)
        tensors, self._factor = flashinfer_calls.cache_tensors(self.name, self._call, "cuda")
        if tensors[0].element_size() != 2:
            raise PeerUnavailable(f"{self.name} computes fp16 and bf16, not {tensors[0].dtype}.")
        return tensors

    def _planned(self) -> Callable[..., "Tensor"]:
        return flashinfer_calls.planned(self.name, self._call, self.tensors)

    def _answer(self, out: "Tensor") -> np.ndarray:
        made = on_host(out)
        return made if (self._factor == 1).all() else made.astype(np.float32) * self._factor


def torch_mask(mask: Mask) -> "Tensor":
    """A mask (core.masks.Mask) as a bool tensor [queries, keys] on the GPU. PeerUnavailable if it is too large."""
    import torch

    if mask.queries * mask.keys > MOST_MASK:
        raise PeerUnavailable(f"A dense mask of {mask.queries:,} x {mask.keys:,} is not made.")
    return torch.cat([torch.from_numpy(strip.copy()).to("cuda") for strip in mask.strips(1024)])


def flex_attention(mask: Mask, tensors: list["Tensor"], options: Options) -> Callable[..., "Tensor"]:
    """A function of q, k and v [batch, heads, tokens, dim] that computes O with torch's FlexAttention, compiled for
    these shapes, with blocks of 128. The mask_mod of a window is a comparison. For other masks it reads the dense
    mask."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask
    from torch.nn.attention.flex_attention import flex_attention as flex

    if mask.kind == "window" and mask.causal:
        offset, window = mask.keys - mask.queries, mask.window

        def seen(b: "Tensor", h: "Tensor", q: "Tensor", k: "Tensor") -> "Tensor":
            return (k <= q + offset) & (k > q + offset - window)
    else:
        dense = torch_mask(mask)

        def seen(b: "Tensor", h: "Tensor", q: "Tensor", k: "Tensor") -> "Tensor":
            return dense[q, k]

    blocks = create_block_mask(seen, None, None, mask.queries, mask.keys, device="cuda")
    compiled = torch.compile(flex, dynamic=False)

    def run(q: "Tensor", k: "Tensor", v: "Tensor") -> "Tensor":
        with torch.inference_mode():
            return compiled(q, k, v, block_mask=blocks, **options)

    return run


def as_written(tensors: list["Tensor"], options: Options) -> Callable[..., "Tensor"]:
    """A function of q, k and v [batch, heads, tokens, dim] that computes O by three calls of torch, in their type.
    PeerUnavailable for grouped heads."""
    import torch

    q, k, _ = tensors
    if q.shape[1] != k.shape[1]:
        raise PeerUnavailable(f"{UNFUSED} runs only problems whose query heads have their own K and V.")
    scale, mask = float(str(options["scale"])), None
    if options.get("is_causal"):
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).triu(1)

    def run(q: "Tensor", k: "Tensor", v: "Tensor") -> "Tensor":
        with torch.inference_mode():
            scores = (q * scale) @ k.mT
            if mask is not None:
                scores.masked_fill_(mask, -torch.inf)
            return torch.softmax(scores, -1) @ v

    return run


def flash_attn_4(tensors: list["Tensor"], options: Options) -> Callable[..., "Tensor"]:
    """A function of q, k and v [batch, tokens, heads, dim] that computes O in that shape with FlashAttention 4."""
    from flash_attn.cute import flash_attn_func

    def run(q: "Tensor", k: "Tensor", v: "Tensor") -> "Tensor":
        made = flash_attn_func(q, k, v, softmax_scale=options["scale"], causal=options.get("is_causal", False))
        return made[0] if isinstance(made, tuple) else made  # some versions give the log-sum-exp too

    return run


_gathered: dict[Problem, tuple[list[np.ndarray], Options]] = {}  # the last problem's peer_inputs


def _peer_inputs(problem: Problem, inputs: dict[str, np.ndarray]) -> tuple[list[np.ndarray], Options]:
    """The problem's peer_inputs, computed once for all its peers. For a paged cache they are a copy of its content."""
    if problem not in _gathered:
        _gathered.clear()
        _gathered[problem] = problem.peer_inputs(inputs)
    arrays, options = _gathered[problem]
    return arrays, dict(options)


@contextmanager
def room(name: str) -> Iterator[None]:
    """torch's error about missing memory, as ours."""
    import torch

    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise OutOfMemory(f"{name} ran out of memory: {str(error).splitlines()[0][:200]}") from None


@contextmanager
def told(name: str) -> Iterator[None]:
    """Whatever another's code raises as PeerUnavailable, but for OutOfMemory."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            with room(name):
                yield
        except (OutOfMemory, PeerUnavailable):
            raise
        except Exception as error:
            reason = f"{name}: {type(error).__name__}: {str(error)[:200]}"
            if name in SDPA:  # its warnings are also about the implementations that nobody requested
                words = [str(w.message).split(" (Triggered")[0].strip() for w in said]
                telling = [w for w in words if "not used because" not in w and "disabled" not in w]
                own = " ".join(dict.fromkeys(telling))[:300] or str(error).splitlines()[0][:200]
                reason = f"torch says of {name}: {own}"
            raise PeerUnavailable(reason) from None


Made = tuple["Tensor", ...]
"""An operator's outputs. Some are lengths and seeds, which only go back into the backward."""
GIVEN = ("q", "k", "v", "do")


class Saved(NamedTuple):
    """A forward's tensors and numbers for its backward.

    q, k, v, do: [batch, heads, length, head_dim]. A query head has its own K and V.
    rest: of the operator's forward, from O and lse on."""

    q: "Tensor"
    k: "Tensor"
    v: "Tensor"
    do: "Tensor"
    rest: Made


def _operator(name: str) -> Callable[..., Made]:
    import torch

    return getattr(torch.ops.aten, f"_scaled_dot_product_{name}")


def _flash_forward(q: "Tensor", k: "Tensor", v: "Tensor", causal: bool, scale: float) -> Made:
    return _operator("flash_attention")(q, k, v, 0.0, causal, False, scale=scale)


def _flash_backward(s: Saved, causal: bool, scale: float) -> tuple["Tensor", ...]:
    o, lse, cum_q, cum_k, max_q, max_k, seed, offset = s.rest[:8]
    given = (s.do, s.q, s.k, s.v, o, lse, cum_q, cum_k, max_q, max_k, 0.0, causal, seed, offset)
    return _operator("flash_attention_backward")(*given, scale=scale)


def _cudnn_forward(q: "Tensor", k: "Tensor", v: "Tensor", causal: bool, scale: float) -> Made:
    return _operator("cudnn_attention")(q, k, v, None, True, 0.0, causal, False, scale=scale)


def _cudnn_backward(s: Saved, causal: bool, scale: float) -> tuple["Tensor", ...]:
    o, lse, cum_q, cum_k, max_q, max_k, seed, offset = s.rest[:8]
    given = (s.do, s.q, s.k, s.v, o, lse, seed, offset, None, cum_q, cum_k, max_q, max_k, 0.0, causal)
    return _operator("cudnn_attention_backward")(*given, scale=scale)


def _efficient_forward(q: "Tensor", k: "Tensor", v: "Tensor", causal: bool, scale: float) -> Made:
    return _operator("efficient_attention")(q, k, v, None, True, 0.0, causal, scale=scale)


def _efficient_backward(s: Saved, causal: bool, scale: float) -> tuple["Tensor", ...]:
    wanted = [True, True, True, False]  # of Q, K and V, not of a bias
    given = (s.do, s.q, s.k, s.v, None, *s.rest, 0.0, wanted, causal)  # the rest: O, lse, seed and offset
    return _operator("efficient_attention_backward")(*given, scale=scale)[:3]


_EFFICIENT, _FLASH, _CUDNN = BACKWARD
OPERATORS: dict[str, tuple[Callable[..., Made], Callable[..., tuple["Tensor", ...]]]] = {
    _EFFICIENT: (_efficient_forward, _efficient_backward),
    _FLASH: (_flash_forward, _flash_backward),
    _CUDNN: (_cudnn_forward, _cudnn_backward),
}
"""peer -> its forward and its backward."""


class GradientPeer(Peer):
    """The backward of one of OPERATORS on a problem whose outputs are gradients."""

    def __init__(self, name: str, problem: Problem, inputs: dict[str, np.ndarray]) -> None:
        if name not in OPERATORS:
            raise PeerUnavailable(f"{name} has no backward here.")
        super().__init__(name, problem, inputs)

    def _taken(self, inputs: dict[str, np.ndarray]) -> list["Tensor"]:
        """q, k, v and dO on the GPU, [batch, heads, length, head_dim]."""
        arrays, options = self.problem.peer_inputs(inputs)
        self._causal, self._scale = bool(options["is_causal"]), float(str(options["scale"]))
        return [on_device(array, "cuda") for array in arrays]

    def _saved(self, tensors: list["Tensor"]) -> Saved:
        q, k, v, do = tensors
        self._group = q.shape[1] // k.shape[1]
        if self._group > 1:
            k, v = (t.repeat_interleave(self._group, 1) for t in (k, v))
        forward, _ = OPERATORS[self.name]
        return Saved(q, k, v, do, tuple(forward(q, k, v, self._causal, self._scale)))

    def _backward(self, saved: Saved) -> tuple["Tensor", ...]:
        dq, dk, dv = OPERATORS[self.name][1](saved, self._causal, self._scale)
        if self._group > 1:
            dk, dv = (t.unflatten(1, (-1, self._group)).sum(2) for t in (dk, dv))
        return dq, dk, dv

    def first_run(self) -> dict[str, np.ndarray]:
        """Runs once. Returns output -> array. PeerUnavailable if the implementation refuses, OutOfMemory if it does not
        fit."""
        import torch

        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with told(self.name), torch.inference_mode():
            self._first = self._saved(self.tensors)
            made = self._backward(self._first)
            torch.cuda.synchronize()
        self.peak_bytes = torch.cuda.max_memory_allocated() - before + self.set_bytes
        o, lse = self._first.rest[:2]
        self.moved_bytes = self.set_bytes + o.nbytes + lse.nbytes + sum(t.nbytes for t in made)
        return {
            output.name: self.problem.logical(on_host(t)).reshape(output.shape)
            for output, t in zip(self.problem.outputs, made)
        }

    def copies(self, count: int) -> list[Callable[[], object]]:
        """`count` functions. Each enqueues one backward over tensors of its own."""
        import torch

        with room(self.name), torch.inference_mode():
            more = [self._saved([t.clone() for t in self.tensors]) for _ in range(count - 1)]

        def runner(saved: Saved) -> Callable[[], object]:
            def run() -> object:
                with torch.inference_mode():
                    return self._backward(saved)

            return run

        return [runner(saved) for saved in (self._first, *more)]


def rival(name: str, problem: Problem, inputs: dict[str, np.ndarray]) -> Peer:
    """One of peers.NAMES on any problem, ready to run. PeerUnavailable if it is not installed or does not support the
    problem."""
    return (GradientPeer if problem.gradients else peer)(name, problem, inputs)
