"""The operators over a paged KV cache, against the formula over gathered tokens. The same tests run on a GPU."""

import pytest
import torch
from attention_truth import formula

from kernels import ops
from kernels.errors import ProblemError

devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
SIZE, PAGES, HEADS, KV_HEADS, DIM = 16, 24, 4, 2, 64


def cache(dtype, device):
    x = 16 // torch.empty((), dtype=dtype).itemsize
    k = torch.zeros(PAGES, KV_HEADS, DIM // x, SIZE, x, dtype=dtype, device=device)
    return k, torch.zeros(PAGES, KV_HEADS, DIM, SIZE, dtype=dtype, device=device)


def filled(lengths, dtype, device):
    """A cache with sequences of these lengths: k_cache, v_cache, tables, and K and V of each sequence."""
    torch.manual_seed(len(lengths))
    k_cache, v_cache = cache(dtype, device)
    order, tables, rows = torch.randperm(PAGES).tolist(), torch.zeros(len(lengths), 6, dtype=torch.int32), []
    for number, length in enumerate(lengths):
        pages = [order.pop() for _ in range(-(-length // SIZE))]
        tables[number, : len(pages)] = torch.tensor(pages)
        key, value = (torch.randn(length, KV_HEADS, DIM, device=device).to(dtype) for _ in range(2))
        slots = [pages[i // SIZE] * SIZE + i % SIZE for i in range(length)]
        ops.reshape_and_cache(key, value, k_cache, v_cache, torch.tensor(slots, device=device))
        rows.append((key, value))
    return k_cache, v_cache, tables.to(device), rows


def expected(q, rows, scale=None):
    every = []
    for one, (key, value) in zip(q, rows):
        k, v = (x.double().transpose(0, 1)[None] for x in (key, value))
        mask = torch.ones(1, len(key), dtype=torch.bool)
        every.append(formula(one.double()[None, :, None], k, v, mask, scale)[0][0, :, 0])
    return torch.stack(every)


@devices
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("on_cpu", [False, True], ids=["lengths on the device", "lengths on the CPU"])
def test_decoding_reads_the_pages_of_each_sequence(device, dtype, on_cpu):
    if device == "cpu" and dtype == torch.bfloat16 and not on_cpu:
        pytest.skip("the CPU is both places")
    if device == "cuda" and dtype == torch.bfloat16 and not on_cpu:
        pytest.skip("only the kernel with a work list has bfloat16")
    for lengths in ((40, 5, 70), (1, 96, 33)):
        k_cache, v_cache, tables, rows = filled(lengths, dtype, device)
        q = torch.randn(3, HEADS, DIM, device=device).to(dtype)
        given = torch.tensor(lengths, device="cpu" if on_cpu else device)
        for scale in (None, 0.3):
            found = ops.paged_decode(q, k_cache, v_cache, tables, given, scale=scale)
            bound = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}[dtype]
            torch.testing.assert_close(found.double(), expected(q, rows, scale), atol=bound, rtol=0)


@devices
def test_a_plan_serves_growing_contexts(device):
    k_cache, v_cache, tables, rows = filled((30, 60), torch.float16, device)
    q = torch.randn(2, HEADS, DIM, device=device).half()
    for lengths in ((1, 1), (17, 60), (30, 2), (30, 60)):
        found = ops.paged_decode(q, k_cache, v_cache, tables, list(lengths))
        cut = [(k[:n], v[:n]) for (k, v), n in zip(rows, lengths)]
        torch.testing.assert_close(found.double(), expected(q, cut), atol=3e-3, rtol=0)


def test_a_write_skips_padding_and_leaves_other_slots():
    k_cache, v_cache = cache(torch.float32, "cpu")
    key = torch.randn(3, KV_HEADS, DIM)
    ops.reshape_and_cache(key, key, k_cache, v_cache, torch.tensor([17, -1, 2]))
    assert torch.equal(v_cache[1, :, :, 1], key[0]) and torch.equal(v_cache[0, :, :, 2], key[2])
    assert torch.equal(k_cache[1, :, :, 1].reshape(KV_HEADS, DIM), key[0])
    assert int((v_cache != 0).any(2).sum()) == 2 * KV_HEADS


def test_a_call_without_a_kernel_is_refused_with_the_reasons():
    k_cache, v_cache, tables, _ = filled((30,), torch.float32, "cpu")
    q = torch.randn(1, HEADS, DIM)
    with pytest.raises(ProblemError, match="Its kernels have no window"):
        ops.paged_decode(q, k_cache, v_cache, tables, [30], window=4)
    with pytest.raises(ProblemError, match="has a row for each sequence"):
        ops.paged_decode(q[0], k_cache, v_cache, tables, [30])


def test_opcheck_finds_no_fault():
    k_cache, v_cache, tables, _ = filled((30,), torch.float32, "cpu")
    q, lengths = torch.randn(1, HEADS, DIM), torch.tensor([30], dtype=torch.int32)
    decode, write = torch.ops.warpglass.paged_decode.default, torch.ops.warpglass.reshape_and_cache.default
    torch.library.opcheck(decode, (q, k_cache, v_cache, tables, lengths, None, None, 0.125, 0, 0.0, ""))
    key, slots = torch.randn(1, KV_HEADS, DIM), torch.tensor([31], dtype=torch.int32)
    torch.library.opcheck(write, (key, key, k_cache, v_cache, slots, None, None, ""))
