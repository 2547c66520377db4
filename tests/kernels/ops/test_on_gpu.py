"""The operators on a GPU: streams, CUDA graphs, torch's memory, several threads. And their overhead."""

import threading

import pytest
import torch
from attention_truth import tensors

from kernels import ops
from kernels.errors import ProblemError

pytestmark = pytest.mark.gpu


def on_gpu(queries=512, heads=8, dtype=torch.float16, **more):
    return tensors(queries, heads=heads, kv_heads=heads, dim=64, dtype=dtype, device="cuda", **more)


def test_a_call_runs_on_the_current_stream():
    q, k, v = on_gpu(2048)
    expected = ops.attention(q, k, v)[0]
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)  # the inputs change only after the sleep, on the same stream
        q.mul_(0)
        o = ops.attention(q, k, v)[0]
    torch.cuda.synchronize()
    assert not torch.equal(o, expected)
    torch.testing.assert_close(o.float(), v.float().mean(2, keepdim=True).expand_as(o), atol=2e-3, rtol=0)


def test_two_streams_run_one_plan_at_once():
    q, k, v = on_gpu(1024)
    expected = ops.attention(q, k, v)[0]
    streams = [torch.cuda.Stream() for _ in range(4)]
    torch.cuda.synchronize()
    found = []
    for turn in range(40):
        with torch.cuda.stream(streams[turn % 4]):
            found.append(ops.attention(q, k, v)[0])
    torch.cuda.synchronize()
    assert all(torch.equal(o, expected) for o in found)


def test_a_call_does_not_wait_for_the_gpu():
    q, k, v = on_gpu(64)
    ops.attention(q, k, v)
    with torch.cuda.device(0):
        torch.cuda.set_sync_debug_mode("error")
        try:
            torch.cuda._sleep(400_000_000)
            asked = torch.cuda.Event()
            ops.attention(q, k, v)
            asked.record()
            assert not asked.query()
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("learns", [False, True])
def test_a_graph_replays_with_new_numbers(dtype, learns):
    q, k, v = (x.requires_grad_(learns) for x in on_gpu(300, dtype=dtype))
    do = torch.randn_like(q)

    def step():
        o = ops.attention(q, k, v, causal=True)[0]
        return (o, *torch.autograd.grad(o, (q, k, v), do)) if learns else (o,)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        for tensor in (q, k, v):
            tensor.copy_(torch.randn_like(tensor))
    for _ in range(3):
        graph.replay()
    for one, other in zip(captured, step()):
        torch.testing.assert_close(one, other, atol=2e-3, rtol=2e-3)


def test_a_first_call_inside_a_capture_is_refused_with_the_remedy():
    q, k, v = on_gpu(77)
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(ProblemError, match="Call it once before the capture"), torch.cuda.graph(graph):
        ops.attention(q, k, v)


def test_threads_share_a_plan():
    given = [[x + n / 8 for x in on_gpu(256)] for n in range(4)]
    expected = [ops.attention(*x)[0] for x in given]
    torch.cuda.synchronize()
    wrong = []

    def work(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):
                if not torch.equal(ops.attention(*given[number])[0], expected[number]):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_memory_is_of_torch():
    q, k, v = on_gpu(1024)
    ops.attention(q, k, v)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    made = ops.attention(q, k, v)
    assert torch.cuda.memory_allocated() - before == sum(-(-x.nbytes // 512) * 512 for x in made)


def test_every_kernel_of_the_operator_gives_the_same_answer():
    q, k, v = on_gpu(700)
    chosen = ops.explain(q, k, v)
    from kernels import catalog

    names = [n for n, s in catalog.current().kernels.items() if s.problem_type is chosen.choice.kernel.problem_type]
    expected = ops.attention(q.double().half(), k, v, kernel=names[0])[0]
    for name in names:
        torch.testing.assert_close(ops.attention(q, k, v, kernel=name)[0], expected, atol=2e-3, rtol=0)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_inductor_keeps_the_operator_in_its_graph(mode):
    q, k, v = on_gpu(256)

    def block(q, k, v):
        return ops.attention(q * 2, k, v, causal=True)[0] + 1

    compiled = torch.compile(block, fullgraph=True, mode=mode)
    for _ in range(4):
        torch.testing.assert_close(compiled(q, k, v).clone(), block(q, k, v), atol=2e-3, rtol=0)
