"""The operator attention: its numbers, its arguments, and its place in torch. The same tests run on a GPU."""

import subprocess
import sys

import pytest
import torch
from attention_truth import check, formula, mask_of, tensors, torch_own

from kernels import ops
from kernels.errors import NoKernel, ProblemError

HALVES = (torch.float16, torch.bfloat16)
devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


@devices
@pytest.mark.parametrize("rows", [False, True], ids=["heads first", "rows first"])
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize(
    ("queries", "keys", "causal"), [(40, 40, True), (33, 70, True), (70, 33, True), (1, 90, False)]
)
def test_the_output_and_lse_are_right(device, rows, dtype, queries, keys, causal):
    q, k, v = tensors(queries, keys, dtype=dtype, device=device, rows=rows)
    o, lse = ops.attention(q, k, v, causal=causal)
    mask = mask_of(queries, keys, causal)
    truth, true_lse = formula(q.double(), k.double(), v.double(), mask)
    check(o, truth, torch_own(q, k, v, mask), v.abs().max())
    seen = mask.any(-1).to(device)
    torch.testing.assert_close(lse[..., seen].double(), true_lse[..., seen], rtol=2e-6, atol=2e-6)
    assert (o[:, :, ~seen] == 0).all() and (lse[..., ~seen] == -float("inf")).all()  # never NaN
    assert o.stride() == q.stride() or q.shape[2] == 1


@devices
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(("size", "units"), [(15, 0), (100, 1)])
def test_scores_of_a_hundred_thousand_cost_at_most_one_unit_in_the_last_place(device, dtype, size, units):
    """Each query is its key, so its own V is its output. A score is about 8 * size ** 2."""
    _, k, v = tensors(64, dtype=dtype, device=device)
    k = size * k
    o = ops.attention(k.repeat_interleave(2, 1), k, v)[0]
    gap = (o.double() - v.repeat_interleave(2, 1).double()).abs().max()
    assert gap <= units * torch.finfo(dtype).eps * v.abs().max().double()


@devices
def test_a_scale_a_window_and_a_sink_change_the_output(device):
    q, k, v = tensors(50, dtype=torch.float16, device=device)
    sink = torch.randn(4, device=device)
    for options in ({"scale": 0.3}, {"window": 9}, {"sink": sink}, {"window": 9, "sink": sink}):
        o, lse = ops.attention(q, k, v, causal=True, **options)
        mask = mask_of(50, 50, True, options.get("window", 0))
        truth, true_lse = formula(q.double(), k.double(), v.double(), mask, options.get("scale"), options.get("sink"))
        own = formula(q, k, v, mask, options.get("scale"), options.get("sink"))[0]
        check(o, truth, own, v.abs().max())
        torch.testing.assert_close(lse.double(), true_lse, rtol=1e-5, atol=1e-5)


@devices
def test_other_orders_in_memory_are_copied_and_reported(device):
    packed = torch.randn(1, 20, 3, 2, 64, device=device).half()
    q, k, v = packed.permute(2, 0, 3, 1, 4)  # views of one tensor, as a model with one product for q, k and v has them
    assert ops.explain(q, k, v).copies == ("q", "k", "v")
    assert torch.equal(ops.attention(q, k, v)[0], ops.attention(q.contiguous(), k.contiguous(), v.contiguous())[0])
    assert ops.explain(q.contiguous(), k, v).copies == ("k", "v")
    assert "copies k, v" in str(ops.explain(q.contiguous(), k, v))


def test_the_choice_reports_the_kernel_and_the_reasons_against_the_others():
    q, k, v = tensors(20)
    chosen = ops.explain(q, k, v)
    assert str(chosen).startswith(chosen.kernel)
    assert ops.explain(q, k, v, kernel="08_pipeline").kernel == "08_pipeline"
    assert any("float32" in reason for reason in chosen.refused.values())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kernel": "01_naive"}, "do not take dtype float16"),
        ({"kernel": "paged_v1"}, "has no operator|belongs to the operator"),
        ({"kernel": "06_nma"}, "Did you mean 06_mma"),
        ({"window": 5}, "pass causal=True"),
        ({"sink": torch.zeros(4)}, "no sink"),
    ],
)
def test_a_call_that_no_kernel_supports_is_refused_with_the_reason(change, reason):
    with pytest.raises(ProblemError, match=reason):
        ops.attention(*tensors(20), **change)


def test_a_wrong_shape_or_type_is_refused():
    q, k, v = tensors(20)
    for bad, reason in (
        ((q[0], k[0], v[0]), r"must be \[batch, heads, rows, head_dim\]"),
        ((q, k[:, :, :5], v), "k and v alike"),
        ((q[:, :3], k, v), "multiple of the heads of k"),
        ((q, k.float(), v.float()), "one type"),
        (tensors(20, dim=300), "head_dim is 300. It must be one of 64, 128, 256"),
        ((q.double(), k.double(), v.double()), "dtype is float64"),
    ):
        with pytest.raises(ProblemError, match=reason):
            ops.attention(*bad)


@pytest.mark.parametrize(("dtype", "dim"), [(torch.float16, 80), (torch.bfloat16, 32), (torch.float32, 96)])
def test_a_head_dim_between_those_of_the_kernels_is_padded(dtype, dim):
    q, k, v = (x.requires_grad_() for x in tensors(24, 30, dim=dim, dtype=dtype))
    o, lse = ops.attention(q, k, v, causal=True)
    mask = mask_of(24, 30, causal=True)
    truth, true_lse = formula(*(x.double() for x in (q, k, v)), mask)
    assert o.shape == q.shape
    check(o, truth, torch_own(q, k, v, mask), v.detach().abs().max())
    torch.testing.assert_close(lse.double(), true_lse, atol=2e-2, rtol=0)
    do = torch.randn_like(o)
    ours, theirs = torch.autograd.grad(o, (q, k, v), do), torch.autograd.grad(truth, (q, k, v), do.double())
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one.double(), other.double(), atol=3e-2, rtol=3e-2)


def test_the_limits_of_a_page_are_not_those_of_a_call():
    from kernels.families.tensor_cores.problem import SixteenBitProblem

    q, k, v = tensors(16, heads=129, kv_heads=129, batch=1)
    found = ops.explain(q, k, v)
    assert found.choice.problem.num_heads == 129
    batched = ops.attention(*tensors(16, heads=1, kv_heads=1, batch=65))[0]
    assert batched.shape[0] == 65
    with pytest.raises(ProblemError, match="num_heads is 129. It must be a whole number from 1 to 128"):
        SixteenBitProblem(num_heads=129)


def test_a_call_beyond_the_grid_of_its_kernels_is_refused():
    q = torch.empty(70000, 1, 16, 64, dtype=torch.float16)
    with pytest.raises(NoKernel, match="CUDA allows 65,535 in y and z"):
        ops.explain(q, q, q, kernel="06_mma")


def test_the_cpu_refuses_a_large_call_with_its_time():
    with pytest.raises(NoKernel, match=r"would take about 687 s on the CPU \(estimated\). The limit is 60 s."):
        ops.attention(*tensors(8192, heads=8, kv_heads=8))


@devices
@pytest.mark.parametrize("rows", [False, True])
def test_opcheck_finds_no_fault(device, rows):
    q, k, v = tensors(24, 30, device=device, rows=rows)
    torch.library.opcheck(torch.ops.warpglass.attention.default, (q, k, v, None, 0.125, True, 0, ""))


@devices
def test_the_whole_graph_compiles(device):
    q, k, v = tensors(24, dtype=torch.float32, device=device)

    def block(q, k, v):
        return ops.attention(q * 2, k, v, causal=True)[0] + 1

    backend = "inductor" if device == "cuda" else "aot_eager"
    compiled = torch.compile(block, fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(q, k, v), block(q, k, v))


@devices
@pytest.mark.parametrize("wanted", HALVES)
def test_autocast_gives_the_kernel_its_type(device, wanted):
    q, k, v = tensors(24, dtype=torch.float32, device=device)
    with torch.autocast(device, wanted):
        o, lse = ops.attention(q, k, v)
    assert (o.dtype, lse.dtype) == (wanted, torch.float32)
    assert torch.equal(o, ops.attention(*(x.to(wanted) for x in (q, k, v)))[0])


def test_the_import_is_quiet():
    heavy = "('cupy', 'pandas', 'pyarrow', 'kernels.catalog')"
    said = f"from kernels import ops; import sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]" and not done.stderr


def test_a_named_kernel_without_an_lse_runs_and_its_gradient_is_refused():
    q, k, v = tensors(40, kv_heads=4, dtype=torch.float32)
    o, lse = ops.attention(q, k, v, causal=True, kernel="03_flash")
    assert torch.allclose(o, torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), atol=1e-5)
    assert lse.shape == (1, 4, 40) and lse.isnan().all()
    assert ops.explain(q, k, v, causal=True).kernel != "03_flash"  # nobody gets a NaN unasked
    with pytest.raises(ProblemError, match="03_flash writes no lse"):
        ops.attention(q.requires_grad_(), k, v, kernel="03_flash")
    with pytest.raises(NoKernel, match="do not take dtype float16"):
        ops.attention(*tensors(40, kv_heads=4), kernel="03_flash")


def test_what_is_no_tensor_or_on_a_device_without_kernels_is_named():
    q, k, v = tensors(20)
    with pytest.raises(ProblemError, match=r"k is a numpy.ndarray. Pass torch.as_tensor\(k\)"):
        ops.attention(q, k.numpy(), v)
    with pytest.raises(ProblemError, match="q is on meta. The kernels run on cuda and cpu"):
        ops.attention(q.to("meta"), k, v)
