"""The gradient of the operator attention. The same tests run on a GPU."""

import pytest
import torch
from attention_truth import MATH, check, formula, mask_of, tensors, torch_own

from kernels import ops
from kernels.errors import ProblemError

devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])


def gradients(function, q, k, v, do):
    """dq, dk, dv of a function of q, k and v."""
    given = [x.detach().requires_grad_() for x in (q, k, v)]
    return torch.autograd.grad(function(*given), given, do)


TYPES = (torch.float32, torch.float16, torch.bfloat16)
LENGTHS = [(40, 40, True), (33, 70, True), (70, 33, True), (20, 50, False)]
ROWS_FIRST = [(rows, *one) for rows in (False, True) for one in LENGTHS]


def each_with_one_type():
    """Each shape in each type. Without -m slow, in one, another one for the next shape."""
    for number, shape in enumerate(ROWS_FIRST):
        for turn, dtype in enumerate(TYPES):
            marks = [] if turn == number % len(TYPES) else pytest.mark.slow
            yield pytest.param(*shape, dtype, marks=marks, id="-".join(map(str, (*shape, dtype))))


@devices
@pytest.mark.parametrize(("rows", "queries", "keys", "causal", "dtype"), each_with_one_type())
def test_the_gradients_are_right(device, rows, dtype, queries, keys, causal):
    q, k, v = tensors(queries, keys, dtype=dtype, device=device, rows=rows)
    do, mask = torch.randn_like(q), mask_of(queries, keys, causal)
    found = gradients(lambda *x: ops.attention(*x, causal=causal)[0], q, k, v, do)
    truth = gradients(lambda *x: formula(*x, mask)[0], q.double(), k.double(), v.double(), do.double())
    own = gradients(lambda *x: torch_own(*x, mask), q, k, v, do)
    largest = [float(x.abs().max()) for x in (k, q, do)]
    for name, one, true, other, term in zip(("dq", "dk", "dv"), found, truth, own, largest):
        assert one.isfinite().all(), name
        check(one, true, other, 4 * term)


def test_the_formula_of_the_tests_has_the_right_gradient():
    q, k, v = (x.double().requires_grad_() for x in tensors(6, 9, heads=2, kv_heads=1, dim=4))
    assert torch.autograd.gradcheck(lambda *x: formula(*x, mask_of(6, 9, True)), (q, k, v))


@devices
def test_a_gradient_that_is_expanded_or_transposed_is_taken(device):
    q, k, v = tensors(24, dtype=torch.float32, device=device)
    summed = gradients(lambda *x: ops.attention(*x)[0].sum(), q, k, v, None)
    ones = gradients(lambda *x: ops.attention(*x)[0], q, k, v, torch.ones_like(q))
    assert all(torch.equal(one, other) for one, other in zip(summed, ones))


@devices
def test_the_operators_pass_opcheck(device):
    q, k, v = tensors(24, 30, dtype=torch.float32, device=device)
    o, lse = ops.attention(q, k, v)
    given = (q, k, v, o, lse, torch.randn_like(o), 0.125, False, "")
    torch.library.opcheck(torch.ops.warpglass.attention_backward.default, given)


@devices
def test_forward_and_backward_compile_as_one_graph(device):
    q, k, v = tensors(24, dtype=torch.float32, device=device)

    def block(q, k, v):
        return ops.attention(q * 2, k, v, causal=True)[0] + 1

    backend = "inductor" if device == "cuda" else "aot_eager"
    compiled = torch.compile(block, fullgraph=True, backend=backend)
    do = torch.randn_like(q)
    for one, other in zip(gradients(compiled, q, k, v, do), gradients(block, q, k, v, do)):
        torch.testing.assert_close(one, other)


@devices
def test_autocast_gives_gradients_in_the_types_of_the_inputs(device):
    q, k, v = tensors(24, dtype=torch.float32, device=device)

    def block(*x):
        with torch.autocast(device, torch.bfloat16):
            return ops.attention(*x)[0].float()

    found = gradients(block, q, k, v, torch.randn_like(q))
    assert {one.dtype for one in found} == {torch.float32}


def test_a_second_gradient_is_refused():
    q, k, v = (x.requires_grad_() for x in tensors(24, dtype=torch.float32))
    do = torch.randn_like(q, requires_grad=True)
    (dq,) = torch.autograd.grad(ops.attention(q, k, v)[0], q, do, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dq.sum().backward()


def test_a_window_or_a_sink_has_no_gradient():
    q, k, v = (x.requires_grad_() for x in tensors(24))
    with pytest.raises(ProblemError, match="no window and no sink"):
        ops.attention(q, k, v, causal=True, window=8)


class Layer(torch.nn.Module):
    """A transformer's layer with any attention."""

    def __init__(self, width, attend):
        super().__init__()
        self.attend, self.heads = attend, width // 64
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)])
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.wide, self.narrow = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (self.heads, 64)).transpose(1, 2) for part in self.qkv(self.norms[0](x)).chunk(3, -1)
        )
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return x + self.narrow(torch.nn.functional.gelu(self.wide(self.norms[1](x))))


def losses(attend, device, dtype, steps, width, length):
    """The losses of a two-layer transformer. A token is most often the one before, times 5, plus 3."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Embedding(32, width), Layer(width, attend), Layer(width, attend), torch.nn.Linear(width, 32)
    ).to(device)
    optimiser, found = torch.optim.AdamW(model.parameters(), 1e-3), []
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        chance = torch.randint(0, 32, (4, length + 1), generator=generator)
        noisy = torch.rand(4, length + 1, generator=generator) < 0.2
        columns = [chance[:, 0]]
        for i in range(1, length + 1):
            columns.append(torch.where(noisy[:, i], chance[:, i], (columns[-1] * 5 + 3) % 32))
        tokens = torch.stack(columns, 1).to(device)
        with torch.autocast(device, dtype, enabled=dtype != torch.float32):
            scores = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(scores.float().flatten(0, 1), tokens[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return found


def means(found):
    """The means of 20 steps, as a curve of losses is read."""
    return [sum(found[n : n + 20]) / len(found[n : n + 20]) for n in range(0, len(found), 20)]


def apart(found, other):
    """The largest relative difference of the means."""
    return max(abs(a - b) / b for a, b in zip(means(found), means(other)))


def of_torch(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


@pytest.mark.parametrize(
    ("device", "dtype", "steps", "width", "length"),
    [
        ("cpu", torch.float32, 8, 64, 16),
        *(
            pytest.param("cuda", dtype, 200, 256, 256, marks=pytest.mark.gpu)
            for dtype in (torch.float32, torch.float16, torch.bfloat16)
        ),
    ],
)
def test_a_model_trains_as_with_the_attention_of_torch(device, dtype, steps, width, length):
    ours = losses(lambda q, k, v: ops.attention(q, k, v, causal=True)[0], device, dtype, steps, width, length)
    theirs = losses(of_torch, device, dtype, steps, width, length)
    assert ours[-1] < 0.95 * ours[0]
    assert means(ours) == pytest.approx(means(theirs), rel=0.01)
    if device == "cuda":  # the control: two of torch's own kernels part as much, in single steps by up to 2 %
        with torch.nn.attention.sdpa_kernel([MATH]):
            control = losses(of_torch, device, dtype, steps, width, length)
        print("largest difference of a mean: ours", apart(ours, theirs), "torch's own", apart(control, theirs))
