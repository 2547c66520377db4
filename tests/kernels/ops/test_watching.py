"""watch records the calls of a model."""

from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest
import torch
from attention_truth import tensors

from kernels import catalog, ops
from kernels.build import own_values

sdpa = torch.nn.functional.scaled_dot_product_attention


def test_the_calls_of_our_operators_are_counted_with_their_shapes():
    q, k, v = tensors(20)
    with ops.watch() as seen:
        for _ in range(3):
            ops.attention(q, k, v, causal=True)
        ops.attention(*tensors(20, rows=True))
    first, second = seen.calls
    assert (first.count, second.count) == (3, 1)
    assert first.shapes == "q 1x4x20x64, k 1x2x20x64, v 1x2x20x64 float16 causal"
    assert second.shapes.endswith("float16 rows first")
    assert first.bytes == sum(x.nbytes for x in (q, k, v, q)) + 4 * 20 * 4  # o and lse too
    assert "3 x attention" in str(seen)
    ops.attention(q, k, v)
    assert len(seen.calls) == 2  # nothing is recorded after the block


def test_the_attention_of_torch_is_seen_with_our_fastest_kernel():
    q = torch.empty(4, 16, 4096, 128, device="meta", dtype=torch.float16)
    with ops.watch() as seen:
        sdpa(q, q, q, is_causal=True)
        sdpa(q[:, :, :8, :48].float(), q[:, :, :8, :48].float(), q[:, :, :8, :48].float())
    first, second = seen.calls
    assert first.by == "torch" and first.us > 100 and 30 < first.roof_percent < 100
    assert f"about {first.us:,.3g} us, {first.roof_percent:.0f} % of the" in str(seen)
    assert not second.kernel and "head_dim is 48" in second.reason


def test_a_backward_is_seen_too():
    q, k, v = (x.requires_grad_() for x in tensors(20, dtype=torch.float32))
    with ops.watch() as seen:
        ops.attention(q, k, v)[0].sum().backward()
    assert [one.by for one in seen.calls] == ["attention", "attention_backward"]


def test_a_link_opens_the_call_as_a_problem():
    from kernels.core.fields import fields_of

    q, k, v = tensors(20, 30)
    with ops.watch("http://here") as seen:
        ops.attention(q, k, v, causal=True)
    link = urlsplit(seen.calls[0].link)
    given = dict(parse_qsl(link.query))
    spec = catalog.find(given.pop("kernel"))
    problem = spec.problem_type(**given)
    assert (link.netloc, link.path) == ("here", "/any_kernel")
    assert set(given) <= set(fields_of(spec.problem_type))
    assert (problem.seq_len, problem.keys, problem.num_heads, problem.kv_heads, problem.causal) == (20, 30, 4, 2, True)


def opened(seen):
    """The problem of a link."""
    given = dict(parse_qsl(urlsplit(seen.link).query))
    return catalog.find(given.pop("kernel")).problem_type(**given)


def test_the_page_of_a_call_has_the_values_of_the_call(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path))
    given = [x.requires_grad_() for x in tensors(20, 30, rows=True, dtype=torch.float32)]
    with ops.watch() as seen:
        sdpa(*given, enable_gqa=True)
        o, _ = ops.attention(*given)
        do = torch.randn_like(o)
        o.backward(do)
    for one, names in zip(seen.calls, ("qkv", "qkv", ("q", "k", "v", "do"))):
        inputs = opened(one).inputs()
        for name, tensor in zip(names, (*given, do)):
            logical = opened(one).logical(inputs[name])
            assert (logical == tensor.detach().numpy()).all(), (one.by, name)
        assert one.values.startswith("The page shows the values") and one.values in str(seen)


def test_the_page_of_a_call_with_a_sink_or_blocks_has_the_values_of_the_call(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path))
    q, k, v = tensors(70)
    sink = torch.randn(4)
    with ops.watch() as seen:
        ops.attention(q, k, v, causal=True, sink=sink)
        ops.block_sparse(q, k, v, torch.tensor([[True, False], [True, True]]))
    for one, given in zip(seen.calls, ({"q": q, "v": v, "sink": sink}, {"q": q, "k": k})):
        problem = opened(one)
        inputs = problem.inputs()
        for name, tensor in given.items():
            found = inputs[name] if tensor.dim() == 1 else problem.logical(inputs[name])
            assert (found == tensor.numpy()).all(), (one.by, name)
        assert one.values.startswith("The page shows the values")


def test_the_page_of_a_paged_call_has_its_contexts_its_shared_pages_and_its_values(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path))
    q = torch.randn(3, 4, 64).half()
    k, v = torch.randn(99, 2, 8, 16, 8).half(), torch.randn(99, 2, 64, 16).half()
    tables = torch.tensor([[70, 5, 98], [70, 2, 0], [11, 0, 0]], dtype=torch.int32)
    lens = [40, 20, 7]
    with ops.watch() as seen:
        o = ops.paged_decode(q, k, v, tables, lens)
    problem = opened(seen.calls[0])
    assert problem.context_lens == (40, 20, 7) and problem.block_tables == ((3, 1, 4), (3, 0), (2,))
    inputs = problem.inputs()
    assert (inputs["q"] == q.numpy()).all() and (inputs["k_cache"][3] == k[70].numpy()).all()
    assert (inputs["v_cache"][2, :, :, :7] == v[11, :, :, :7].numpy()).all() and np.isnan(inputs["v_cache"][2, 0, 0, 7])
    assert np.abs(problem.truth()["o"] - o.numpy()).max() < 2e-3
    (file,) = tmp_path.rglob("*.npz")
    with np.load(file, allow_pickle=False) as kept:
        assert kept["k_cache"].shape[0] == 5  # only the pages of the tables


def test_a_paged_call_with_too_many_pages_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path))
    monkeypatch.setattr(own_values, "MOST_BYTES", 2**16)
    k, v = torch.randn(9, 2, 8, 16, 8).half(), torch.randn(9, 2, 64, 16).half()
    with ops.watch() as seen:
        ops.paged_decode(torch.randn(1, 4, 64).half(), k, v, torch.arange(9, dtype=torch.int32)[None], [140])
    assert "The values do not fit" in seen.calls[0].values and not list(tmp_path.rglob("*.npz"))


def test_what_does_not_fit_is_said_and_the_page_draws_values(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path))
    q = torch.empty(4, 16, 4096, 128, device="meta", dtype=torch.float16)
    with ops.watch() as seen:
        sdpa(q, q, q)
        sdpa(*[torch.empty(1, 16, 2048, 128, dtype=torch.float16)] * 3)
    assert [one.values for one in seen.calls] == [
        "The call has no values. The page draws random values.",
        "The values do not fit: 24.0 MiB, and a file takes 16 MiB. The page draws random values.",
    ]
    with ops.watch(values=False) as seen:
        sdpa(*tensors(20, kv_heads=4))
    assert seen.calls[0].values == "The page draws random values." and "scores" not in seen.calls[0].link
    assert not list(tmp_path.iterdir())


def test_a_model_without_attention_says_so():
    with ops.watch() as seen:
        torch.nn.Linear(2, 2)(torch.zeros(1, 2))
    assert "No call of attention was seen" in str(seen)


@pytest.mark.parametrize("training", [True, False])
def test_the_attention_inside_the_modules_of_torch_is_seen(training):
    layer = torch.nn.TransformerEncoderLayer(128, 4, dropout=0.0, batch_first=True).train(training)
    alone = torch.nn.MultiheadAttention(128, 4, batch_first=True)
    x = torch.randn(1, 16, 128)
    expected = layer(x)
    with ops.watch(values=False) as seen:
        assert torch.allclose(layer(x), expected, atol=1e-5)
        alone(x, x, x, need_weights=False)
    assert torch.nn.functional.scaled_dot_product_attention is sdpa
    assert [(one.by, one.count, one.call.given("q").shape) for one in seen.calls] == [("torch", 2, (1, 4, 16, 32))]


def test_a_module_that_computes_its_weights_is_named_with_the_remedy():
    x = torch.randn(1, 16, 128)
    with ops.watch(values=False) as seen:
        torch.nn.MultiheadAttention(128, 4, batch_first=True)(x, x, x)
    assert not seen.calls and "1 x MultiheadAttention" in str(seen) and "need_weights=False" in str(seen)
