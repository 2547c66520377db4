"""The backwards of torch's attention as peers: their operators take our arguments, and problems name them."""

import numpy as np
import pytest
import torch

from kernels.core.reference import on_host
from kernels.errors import PeerUnavailable
from kernels.families.backward.problem import SixteenBitGradientProblem
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.measure import peers
from kernels.measure.peers import OPERATORS, GradientPeer, Saved, rival

SHAPE = (1, 2, 256, 64)


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_takes_what_its_forward_saved(name):
    forward, backward = OPERATORS[name]
    q, k, v, do = (torch.empty(SHAPE, dtype=torch.bfloat16, device="meta") for _ in range(4))
    made = backward(Saved(q, k, v, do, tuple(forward(q, k, v, True, 0.125))), True, 0.125)
    assert [tuple(t.shape) for t in made] == [SHAPE] * 3


def test_a_problem_of_gradients_asks_for_the_peers_with_a_backward():
    assert peers.asked_of(SixteenBitGradientProblem()) == tuple(OPERATORS) == peers.BACKWARD
    assert not {*peers.asked_of(SixteenBitProblem())} <= {*OPERATORS}
    assert SixteenBitGradientProblem().has_peers
    with pytest.raises(PeerUnavailable, match="starts with the first key"):
        problem = SixteenBitGradientProblem(seq_len=4, seq_len_kv=8, causal=True)
        problem.peer_inputs(problem.inputs())
    with pytest.raises(PeerUnavailable, match="sdpa_math has no backward here"):
        rival("sdpa_math", SixteenBitGradientProblem(), {})


class OnCpu(GradientPeer):
    """Without a GPU: the operators are torch's autograd."""

    def __init__(self, problem):
        self.problem, self.name = problem, "sdpa_flash"
        arrays, options = problem.peer_inputs(problem.inputs())
        self._causal, self._scale = options["is_causal"], options["scale"]
        self.tensors = [torch.tensor(a.astype(np.float32)) for a in arrays]


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_grouped_heads_are_copies_whose_gradients_are_added_up(layout, monkeypatch):
    def forward(q, k, v, causal, scale):
        leaves = [t.detach().clone().requires_grad_() for t in (q, k, v)]
        with torch.inference_mode(False), torch.enable_grad():
            return (torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal, scale=scale), leaves)

    def backward(saved, causal, scale):
        o, leaves = saved.rest
        return torch.autograd.grad(o, leaves, saved.do)

    monkeypatch.setitem(peers.OPERATORS, "sdpa_flash", (forward, backward))
    problem = SixteenBitGradientProblem(seq_len=20, num_heads=4, num_kv_heads=2, causal=True, layout=layout)
    peer = OnCpu(problem)
    made = peer._backward(peer._saved(peer.tensors))
    for output, tensor in zip(problem.outputs, made):
        found = problem.logical(on_host(tensor)).reshape(output.shape)
        assert np.abs(found - problem.truth()[output.name]).max() < 1e-4
