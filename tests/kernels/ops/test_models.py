"""The kernels in models: torch's own attention by its registry, and Hugging Face's by its interface."""

import pytest
import torch
from attention_truth import tensors

from kernels import ops
from kernels.errors import ProblemError

sdpa = torch.nn.functional.scaled_dot_product_attention
FLASH = torch.nn.attention.SDPBackend.FLASH_ATTENTION
registry = pytest.mark.skipif(
    not hasattr(torch.nn.attention, "register_flash_attention_impl"), reason="this torch has no registry of attention"
)
devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


@pytest.fixture
def active():
    ops.activate()
    yield
    torch.nn.attention.restore_flash_attention_impl()


def step(q, k, v, causal=True):
    """torch's attention by FlashAttention, and its gradients."""
    given = [x.detach().requires_grad_() for x in (q, k, v)]
    with torch.nn.attention.sdpa_kernel([FLASH]):
        o = sdpa(*given, is_causal=causal)
    return (o, *torch.autograd.grad(o.float().square().sum(), given))


@registry
def test_the_import_activates_nothing():
    assert torch.nn.attention.current_flash_attention_impl() is None
    assert "WARPGLASS" in torch.nn.attention.list_flash_attention_impls()


@registry
@devices
@pytest.mark.parametrize(("keys", "causal"), [(24, True), (24, False), (40, True)])
def test_the_attention_of_torch_becomes_ours_and_is_given_back(device, keys, causal):
    if device == "cuda" and keys != 24:
        pytest.skip("torch's FlashAttention takes no causal call with other numbers of keys than queries on a GPU")
    dtype = torch.float32 if device == "cpu" else torch.float16
    q, k, v = tensors(24, keys, kv_heads=4, dtype=dtype, device=device)
    theirs, seen = step(q, k, v, causal), []
    from kernels.ops import launcher

    ops.activate()
    try:
        with launcher.watched(lambda found, tensors: seen.append(found.kernel)):
            ours = step(q, k, v, causal)
    finally:
        torch.nn.attention.restore_flash_attention_impl()
    assert len(seen) == 2
    bound = 2e-5 if device == "cpu" else 2e-2
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one, other, atol=bound, rtol=bound)
    assert all(torch.equal(one, other) for one, other in zip(step(q, k, v, causal)[:1], theirs)) and len(seen) == 2


@registry
def test_dropout_is_refused(active):
    q, k, v = tensors(24, kv_heads=4, dtype=torch.float32)
    with torch.nn.attention.sdpa_kernel([FLASH]), pytest.raises(ProblemError, match="no dropout"):
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.5, True)


# ---- Hugging Face ----


@pytest.fixture(scope="module")
def llama():
    """llama(attn_implementation, device) -> a small model with random weights, always the same."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    ops.hugging_face()
    config = {"hidden_size": 256, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 64}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "max_position_embeddings": 128}

    def make(implementation, device="cpu", **more):
        torch.manual_seed(0)
        given = transformers.LlamaConfig(**config, **heads, attn_implementation=implementation, **more)
        return transformers.LlamaForCausalLM(given).to(device).eval()

    return make


def both(llama, device, **given):
    """The logits of our attention and of eager's."""
    with torch.no_grad():
        return [llama(name, device)(**given).logits for name in ("warpglass", "eager")]


TOKENS = torch.arange(40).view(2, 20) % 61


@devices
def test_prefill_equals_eager(llama, device):
    ours, theirs = both(llama, device, input_ids=TOKENS.to(device))
    torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=2e-5)


@devices
@pytest.mark.parametrize("hidden", [slice(0, 7), slice(13, 20), slice(5, 9)], ids=["left", "right", "a hole"])
def test_padding_is_not_dropped(llama, device, hidden):
    mask = torch.ones(2, 20, dtype=torch.long)
    mask[1, hidden] = 0
    ours, theirs = both(llama, device, input_ids=TOKENS.to(device), attention_mask=mask.to(device))
    seen = mask.bool()
    torch.testing.assert_close(ours[seen], theirs[seen], atol=2e-5, rtol=2e-5)
    (without,) = both(llama, device, input_ids=TOKENS.to(device))[:1]
    assert (without - theirs)[1, mask[1].bool()].abs().max() > 1e-3 or hidden.start == 13
    assert ours.isfinite().all()


def test_a_fully_masked_sequence_gives_zeros(llama):
    mask = torch.ones(2, 20, dtype=torch.long)
    mask[1] = 0
    ours, theirs = both(llama, "cpu", input_ids=TOKENS, attention_mask=mask)
    assert ours.isfinite().all()
    torch.testing.assert_close(ours[0], theirs[0], atol=2e-5, rtol=2e-5)


@devices
@pytest.mark.parametrize("cache", [None, "static"])
def test_generation_equals_eager(llama, device, cache):
    mask = torch.ones(2, 20, dtype=torch.long)
    mask[1, :5] = 0
    given = {"input_ids": TOKENS.to(device), "attention_mask": mask.to(device), "max_new_tokens": 6, "do_sample": False}
    more = {"cache_implementation": cache, "disable_compile": True} if cache else {}
    found = [llama(name, device).generate(**given, **more, pad_token_id=0) for name in ("warpglass", "eager")]
    assert torch.equal(*found)


@pytest.mark.parametrize(
    ("device", "steps"), [("cpu", 4), pytest.param("cuda", 30, marks=pytest.mark.gpu)], ids=["cpu", "cuda"]
)
def test_training_equals_eager(llama, device, steps):
    losses = {}
    for name in ("warpglass", "eager"):
        model, found = llama(name, device).train(), []
        optimiser = torch.optim.AdamW(model.parameters(), 1e-3)
        for number in range(steps):
            tokens = (torch.arange(16) * (1 + number % 3) % 61).repeat(2, 1).to(device)
            loss = model(input_ids=tokens, labels=tokens).loss
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            found.append(loss.item())
        losses[name] = found
    assert losses["warpglass"] == pytest.approx(losses["eager"], rel=1e-3)
    assert losses["warpglass"][-1] < losses["warpglass"][0]


def test_what_no_kernel_has_is_refused(llama):
    model = llama("warpglass").model.layers[0].self_attn
    q, k, v = tensors(20)
    for option in ({"softcap": 30.0}, {"dropout": 0.1}, {"output_attentions": True}):
        with pytest.raises(ProblemError, match=f"no {next(iter(option))}"):
            ops.hugging_face_attention(model, q, k, v, None, **option)
    documents = torch.block_diag(torch.ones(10, 10), torch.ones(10, 10)).bool().tril()[None, None]
    with pytest.raises(ProblemError, match="packed sequences"):
        ops.hugging_face_attention(model, q, k, v, documents)
