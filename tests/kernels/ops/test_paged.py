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
    for lengths in ((40, 5, 70), (1, 96, 33)):
        k_cache, v_cache, tables, rows = filled(lengths, dtype, device)
        q = torch.randn(3, HEADS, DIM, device=device).to(dtype)
        given = torch.tensor(lengths, device="cpu" if on_cpu else device)
        for scale in (None, 0.3):
            found = ops.paged_decode(q, k_cache, v_cache, tables, given, scale=scale)
            bound = {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}[dtype]
            torch.testing.assert_close(found.double(), expected(q, rows, scale), atol=bound, rtol=0)


def test_a_plan_moves_its_lengths_to_the_device_once(monkeypatch):
    moved = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: moved.append(tensor.device.type) or tensor)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    plan = ops.plan_decode([40, 5, 70], cache(torch.float16, "meta")[0])
    lengths = plan._moved(plan.context_lens)
    assert lengths.device.type == "meta" and plan._moved(lengths) is lengths and moved == ["cpu"]


def on_device(lengths, k_cache, window=0):
    """A plan whose work list comes from the lengths by a kernel, also on the CPU."""
    plan = ops.plan_decode(torch.tensor(lengths, dtype=torch.int32, device=k_cache.device), k_cache, window=window)
    plan._numbers, plan._may_be_empty = None, True
    return plan


@devices
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("window", "soft_cap"), [(0, 0.0), (20, 0.0), (0, 5.0)])
def test_a_plan_on_the_device_gives_the_bits_of_a_plan_on_the_host(device, dtype, window, soft_cap):
    for lengths in ((40, 5, 70), (1, 96, 33), (16, 7, 64)):
        k_cache, v_cache, tables, _ = filled(lengths, dtype, device)
        q = torch.randn(3, HEADS, DIM, device=device).to(dtype)
        given, options = (q, k_cache, v_cache, tables), {"soft_cap": soft_cap, "kernel": "paged_v3"}
        expected = ops.paged_decode(*given, list(lengths), window=window, **options)
        plan = on_device(lengths, k_cache, window)
        for _ in range(2):
            assert torch.equal(plan(*given, **options), expected)


@devices
@pytest.mark.parametrize("plan", [on_device, ops.plan_decode])
def test_an_empty_sequence_has_output_0(device, plan):
    k_cache, v_cache, tables, rows = filled((40, 1, 70), torch.float16, device)
    q = torch.randn(3, HEADS, DIM, device=device).half()
    for kernel in ("paged_v3", "paged_v1"):
        found = plan([40, 0, 70], k_cache)(q, k_cache, v_cache, tables, kernel=kernel)
        truth = expected(q, rows)
        truth[1] = 0
        torch.testing.assert_close(found.double(), truth, atol=3e-3, rtol=0)
        nothing = ops.plan_decode([0, 0, 0], k_cache)(q, k_cache, v_cache, tables, kernel=kernel)
        assert not nothing.any()


@devices
def test_a_plan_writes_into_a_given_tensor(device):
    k_cache, v_cache, tables, rows = filled((40, 5, 70), torch.float16, device)
    q = torch.randn(3, HEADS, DIM, device=device).half()
    out = torch.full_like(q, 7)
    assert ops.plan_decode([40, 5, 70], k_cache)(q, k_cache, v_cache, tables, out=out) is out
    torch.testing.assert_close(out.double(), expected(q, rows), atol=3e-3, rtol=0)


@pytest.mark.gpu
def test_a_graph_of_layers_reads_new_lengths():
    k_cache, v_cache, tables, rows = filled((40, 5, 70), torch.bfloat16, "cuda")
    q = torch.randn(3, HEADS, DIM, device="cuda").bfloat16()
    lengths = torch.tensor([40, 5, 70], dtype=torch.int32, device="cuda")
    given = (q, k_cache, v_cache, tables)
    ops.plan_decode(lengths, k_cache)(*given), ops.paged_decode(*given, lengths)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plan = ops.plan_decode(lengths, k_cache)
        found = [plan(*given) for _ in range(3)] + [ops.paged_decode(*given, lengths)]
    for cut in ((40, 5, 70), (1, 2, 69), (17, 0, 33)):
        lengths.copy_(torch.tensor(cut))
        graph.replay()
        truth = torch.stack([x * 0 if not n else expected(one[None], [(k[:n], v[:n])])[0]
                             for one, x, (k, v), n in zip(q, q.double(), rows, cut)])  # fmt: skip
        for o in found:
            torch.testing.assert_close(o.double(), truth, atol=2e-2, rtol=0)


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
    with pytest.raises(ProblemError, match="a row for each sequence"):
        ops.paged_decode(q[0], k_cache, v_cache, tables, [30])


def test_opcheck_finds_no_fault():
    k_cache, v_cache, tables, _ = filled((30,), torch.float32, "cpu")
    q, lengths = torch.randn(1, HEADS, DIM), torch.tensor([30], dtype=torch.int32)
    decode, write = torch.ops.warpglass.paged_decode.default, torch.ops.warpglass.reshape_and_cache.default
    torch.library.opcheck(decode, (q, k_cache, v_cache, tables, lengths, None, None, 0.125, 0, 0.0, ""))
    key, slots = torch.randn(1, KV_HEADS, DIM), torch.tensor([31], dtype=torch.int32)
    torch.library.opcheck(write, (key, key, k_cache, v_cache, slots, None, None, ""))
