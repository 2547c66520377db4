"""scaled_dot_product_attention with torch's signature gives what torch gives."""

import inspect

import pytest
import torch
from attention_truth import check, tensors

from kernels import ops
from kernels.errors import ProblemError

theirs = torch.nn.functional.scaled_dot_product_attention
HIDDEN = -float("inf")


def compare(q, k, v, **options):
    """Checks our answer by the rule on errors: float64 is the truth, torch's own answer the yardstick."""

    def answer(*given):
        mask = options.get("attn_mask")
        more = {} if mask is None or mask.dtype == torch.bool else {"attn_mask": mask.to(given[0].dtype)}
        return theirs(*given, **{**options, **more}).nan_to_num(0.0)  # a row without keys

    found = ops.scaled_dot_product_attention(q, k, v, **options)
    check(found, answer(q.double(), k.double(), v.double()), answer(q, k, v), v.abs().max())
    assert found.shape == q.shape


def test_its_arguments_are_those_of_torch():
    ours = inspect.signature(ops.scaled_dot_product_attention).parameters
    assert list(ours) == ["query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"]
    assert [p.default for p in ours.values()][3:] == [None, 0.0, False, None, False]


@pytest.mark.parametrize(("queries", "keys"), [(40, 40), (33, 70), (70, 33), (1, 50)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_causal_mask_begins_at_the_first_key(queries, keys, dtype):
    q, k, v = tensors(queries, keys, kv_heads=4, dtype=dtype)
    compare(q, k, v, is_causal=True)
    compare(q, k, v, scale=0.3)


def test_grouped_heads_need_the_option_and_other_ranks_are_taken():
    q, k, v = tensors(20)
    compare(q, k, v, enable_gqa=True)
    with pytest.raises(ProblemError, match="query has 4 heads and key 2. Pass enable_gqa=True"):
        ops.scaled_dot_product_attention(q, k, v)
    compare(q[0], k[0].repeat_interleave(2, 0), v[0].repeat_interleave(2, 0))  # three dimensions
    five = [x[None].repeat(2, 1, 1, 1, 1) for x in (q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))]
    compare(*five)


def padded(queries, keys, ends):
    """[batch, 1, queries, keys]: each sequence sees its first keys only."""
    return (torch.arange(keys) < torch.tensor(ends)[:, None])[:, None, None].expand(-1, 1, queries, keys)


@pytest.mark.parametrize("kind", ["keys", "holes", "causal", "first key", "left", "float"])
def test_masks_of_padding_alone_and_with_a_causal_mask(kind):
    queries, keys = (30, 50) if kind in ("keys", "holes", "first key") else (40, 40)
    q, k, v = tensors(queries, keys, kv_heads=4, batch=3, dtype=torch.float32)
    mask = padded(queries, keys, [keys, 17, 1])
    if kind == "holes":
        mask = mask & (torch.arange(keys) % 3 != 1)
    if kind in ("causal", "float"):
        mask = mask & torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    if kind == "first key":
        mask = mask & torch.ones(queries, keys, dtype=torch.bool).tril()
    if kind == "left":
        mask = mask.flip(-1) & torch.ones(queries, keys, dtype=torch.bool).tril()
    if kind == "float":
        mask = torch.zeros(mask.shape).masked_fill(~mask, HIDDEN)
    compare(q, k, v, attn_mask=mask)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dropout_p": 0.1}, "dropout_p is 0.1. The kernels have no dropout"),
        ({"attn_mask": torch.rand(20, 20)}, "adds other numbers than 0 and -inf"),
        ({"attn_mask": torch.eye(20, dtype=torch.bool)}, "more than padding and a causal mask"),
        ({"attn_mask": torch.ones(20, 20, dtype=torch.bool), "is_causal": True}, "Pass one of them"),
        ({"attn_mask": torch.ones(20, 20, dtype=torch.bool).tril() & (torch.arange(20) != 7)}, "hidden keys between"),
    ],
)
def test_what_no_kernel_takes_is_refused(change, said):
    with pytest.raises(ProblemError, match=said):
        ops.scaled_dot_product_attention(*tensors(20, kv_heads=4), **change)


def test_it_has_torchs_gradients():
    given = [x.requires_grad_() for x in tensors(33, 50, kv_heads=4, dtype=torch.float32)]
    do = torch.randn(1, 4, 33, 64)
    ours = torch.autograd.grad(ops.scaled_dot_product_attention(*given, is_causal=True), given, do)
    for found, true in zip(ours, torch.autograd.grad(theirs(*given, is_causal=True), given, do)):
        torch.testing.assert_close(found, true, rtol=1e-4, atol=1e-5)
