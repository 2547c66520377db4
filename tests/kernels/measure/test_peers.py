"""Peers that torch does not bring: asked in their own layout, and told why where they are not there."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from kernels.errors import PeerUnavailable
from kernels.families.dense import DenseProblem
from kernels.families.tensor_cores.problem import SixteenBitProblem
from kernels.measure import bench, flashinfer_calls, peers


def attention(q, k, v, scale, causal):
    """SDPA of [batch, tokens, heads, dim]."""
    q, k, v = (t.transpose(1, 2).float() for t in (q, k, v))
    grouped = q.shape[1] != k.shape[1]
    made = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped)
    return made.transpose(1, 2)


@pytest.fixture
def flash_attn_4(monkeypatch):
    """A module that stands for FlashAttention 4's, with the call that its interface has."""
    module = ModuleType("flash_attn.cute")
    module.flash_attn_func = lambda q, k, v, softmax_scale=None, causal=False: (
        attention(q, k, v, softmax_scale, causal).to(q.dtype),
        None,
    )
    monkeypatch.setitem(sys.modules, "flash_attn", ModuleType("flash_attn"))
    monkeypatch.setitem(sys.modules, "flash_attn.cute", module)


@pytest.fixture
def flashinfer(monkeypatch):
    """A module that stands for FlashInfer's: what was planned is what is run, a sequence after the other."""

    class Wrapper:
        def __init__(self, workspace, layout):
            assert workspace.dtype == torch.uint8 and layout == "NHD"

        def plan(self, qo, kv, heads, kv_heads, dim, causal, sm_scale, window_left, q_data_type):
            assert window_left == -1 and qo.dtype == kv.dtype == torch.int32 and q_data_type == torch.float16
            self.planned = qo.tolist(), kv.tolist(), (heads, kv_heads, dim), sm_scale, causal

        def run(self, q, k, v):
            qo, kv, (heads, kv_heads, dim), scale, causal = self.planned
            assert q.shape[1:] == (heads, dim) and k.shape[1:] == v.shape[1:] == (kv_heads, dim)
            parts = [
                attention(q[a:b][None], k[c:d][None], v[c:d][None], scale, causal)[0]
                for (a, b), (c, d) in zip(zip(qo, qo[1:]), zip(kv, kv[1:]))
            ]
            return torch.cat(parts).to(q.dtype)

    module = ModuleType("flashinfer")
    module.BatchPrefillWithRaggedKVCacheWrapper = Wrapper
    monkeypatch.setitem(sys.modules, "flashinfer", module)


@pytest.mark.parametrize("name", peers.LIBRARIES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_a_library_is_asked_in_its_layout_and_answers_in_ours(name, causal, layout, request):
    request.getfixturevalue(name)
    problem = SixteenBitProblem(40, 64, 2, 4, causal, num_kv_heads=2, layout=layout)
    arrays, options = problem.peer_inputs(problem.inputs())
    tensors = [torch.from_numpy(np.ascontiguousarray(a)).transpose(1, 2).contiguous() for a in arrays]
    assert tensors[0].shape == (2, 40, 4, 64)
    plan = {"flash_attn_4": peers.flash_attn_4, "flashinfer": flashinfer_calls.ragged}[name]
    made = plan(tensors, options)(*tensors).transpose(1, 2)
    true = problem.truth()["o"]
    assert made.shape == (2, 4, 40, 64)
    assert np.abs(problem.logical(true) - made.float().numpy()).max() < 2e-3


@pytest.mark.parametrize("causal", [False, True])
def test_attention_as_written_is_three_calls_in_16_bits(causal):
    problem = SixteenBitProblem(40, 64, 2, 4, causal)
    arrays, options = problem.peer_inputs(problem.inputs())
    tensors = [torch.from_numpy(a) for a in arrays]
    made = peers.as_written(tensors, options)(*tensors)
    assert made.dtype == torch.float16
    assert np.abs(problem.truth()["o"] - made.float().numpy()).max() < 4e-3
    assert peers.UNFUSED in peers.asked_of(problem) and peers.UNFUSED not in peers.asked_of(DenseProblem())


def test_attention_as_written_refuses_grouped_heads():
    problem = SixteenBitProblem(40, 64, 2, 4, num_kv_heads=2)
    arrays, options = problem.peer_inputs(problem.inputs())
    with pytest.raises(PeerUnavailable, match="have their own K and V"):
        peers.as_written([torch.from_numpy(a) for a in arrays], options)


@pytest.mark.parametrize("name", [*peers.LIBRARIES, *peers.PAGED])
def test_what_is_not_installed_says_so_and_how_to_bring_it(name):
    if peers.installed(name):
        pytest.skip(f"{name} is installed here")
    problem = SixteenBitProblem(40, 64)
    with pytest.raises(
        PeerUnavailable, match=f"is not installed. Install it with pip install {peers.LIBRARIES[peers.base(name)][1]}"
    ):
        peers.peer(name, problem, problem.inputs())


def test_what_is_recorded_has_the_libraries_only_where_they_are_installed(monkeypatch):
    there = {point.name for point in bench.recorded_points()}
    libraries = {*peers.LIBRARIES, *peers.PAGED}
    assert set(peers.SDPA) <= there and there & libraries == {n for n in libraries if peers.installed(n)}
    monkeypatch.setattr(peers, "installed", lambda name: True)
    assert libraries <= {point.name for point in bench.recorded_points()}


def test_a_library_is_asked_for_16_bits_alone(monkeypatch):
    monkeypatch.setattr(peers, "installed", lambda name: True)
    fp32 = SimpleNamespace(element_size=lambda: 4, dtype="fp32")
    monkeypatch.setattr(peers, "on_device", lambda array, device: fp32)
    with pytest.raises(PeerUnavailable, match="computes fp16 and bf16, not fp32"):
        peers.Peer("flashinfer", DenseProblem(), DenseProblem().inputs())


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
@pytest.mark.parametrize("name", ["sdpa_math", *peers.LIBRARIES])
def test_a_peer_answers_in_the_problems_own_layout(name, layout, request, monkeypatch):
    """All but torch's figures of its memory, which only a GPU has."""
    if name in peers.LIBRARIES:
        request.getfixturevalue(name)
    monkeypatch.setattr(peers, "installed", lambda name: True)
    monkeypatch.setattr(peers, "on_device", lambda array, device: torch.from_numpy(np.ascontiguousarray(array)))
    for said in ("empty_cache", "reset_peak_memory_stats", "synchronize", "memory_allocated", "max_memory_allocated"):
        monkeypatch.setattr(torch.cuda, said, lambda: 0)
    problem = SixteenBitProblem(40, 64, 2, 4, causal=True, num_kv_heads=2, layout=layout)
    made = peers.Peer(name, problem, problem.inputs()).first_run()["o"]
    assert np.abs(made.astype(np.float64) - problem.truth()["o"]).max() < 2e-3


def test_a_library_that_cannot_be_had_is_told_in_its_own_words(monkeypatch):
    monkeypatch.setattr(peers, "installed", lambda name: True)
    monkeypatch.setattr(peers, "on_device", lambda array, device: torch.from_numpy(np.ascontiguousarray(array)))
    problem = SixteenBitProblem(40, 64)
    with pytest.raises(PeerUnavailable, match="flashinfer: ModuleNotFoundError: No module named 'flashinfer'"):
        peers.Peer("flashinfer", problem, problem.inputs()).first_run()
