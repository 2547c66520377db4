"""The backward of torch's attention as a peer: each implementation's own operator, without autograd around it.

An untimed forward of the same implementation makes its O and lse. Only the backward is timed. Grouped heads run as in
torch: each query head has a copy of its K and V, and the copies' gradients are added up, within the time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kernels.core.problem import Problem
from kernels.core.reference import on_device, on_host
from kernels.errors import PeerUnavailable
from kernels.measure.peers import BACKWARD, Peer, peer, room, told

if TYPE_CHECKING:
    from torch import Tensor

Made = tuple["Tensor", ...]
"""An operator's outputs. Some are lengths and seeds, which only go back into the backward."""
GIVEN = ("q", "k", "v", "do")


class Saved(NamedTuple):
    """A forward's tensors and numbers for its backward.

    q, k, v, do: [batch, heads, length, head_dim]. A query head has its own K and V.
    rest: of the operator's forward, from O and lse on.
    """

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
