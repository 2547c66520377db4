"""The compiled launcher with a driver of the tests: it calls a C function in place of a kernel, on the CPU."""

import ctypes
import subprocess
from functools import partial

import pytest
import torch
from attention_truth import tensors

from kernels import ops
from kernels.build import cpp_compiler
from kernels.core.launch import TensorMap
from kernels.errors import BackendUnavailable, ProblemError
from kernels.ops import binding, launcher, processors

DRIVER = r"""
#include <cstdint>
#include <cstring>
static int failing = 0;
extern "C" {
int launches = 0, maps = 0, fills = 0, graph = 0;  // graph: the number of the graph that records, or 0
void fail(int status) { failing = status; }
using U = unsigned;
int cuLaunchKernel(void* f, U, U, U, U, U, U, U, void*, void** a, void**) {
  if (failing) return failing;
  ++launches;
  reinterpret_cast<void (*)(void**)>(f)(a);
  return 0;
}
int cuLaunchKernelEx(const void*, void* f, void** a, void**) { return cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, a, 0); }
int cuTensorMapEncodeTiled(void* map, int, unsigned, void* address, const uint64_t*, const uint64_t*, const unsigned*,
                           const unsigned*, int, int, int, int) {
  ++maps;
  std::memcpy(map, &address, 8);
  return 0;
}
int cuStreamGetCaptureInfo(void*, int* status, unsigned long long* number) {
  *status = graph != 0, *number = graph;
  return 0;
}
int cuMemsetD8Async(void* at, unsigned char value, size_t bytes, void*) {
  if (failing) return failing;
  ++fills;
  std::memset(at, value, bytes);
  return 0;
}
void nothing(void**) {}
int cuDeviceGet(int*, int) { return 0; }
int cuDevicePrimaryCtxRetain(void**, int) { return 0; }
int cuCtxSetCurrent(void*) { return 0; }
// q, k, v, o, lse, sizes. Doubles q, and writes the first value of the struct into lse.
void forward(void** a) {
  const float* q = *(float**)a[0];
  float* o = *(float**)a[3];
  for (int i = 0; i < 24 * 2 * 64; ++i) o[i] = 2 * q[i];
  **(float**)a[4] = *(int*)a[5];
}
// a tensor map of do in place of its address, then dq, dk, dv
void backward(void** a) {
  for (int n = 1; n < 4; ++n) std::memcpy(*(void**)a[n], *(void**)a[0], 24 * 2 * 64 * 4);
}
}
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """The tests' driver, and the launcher with it."""
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.cpp").write_text(DRIVER)
    made = folder / "libcuda.so.1"
    subprocess.run([*cpp_compiler(), "-shared", "-fPIC", str(folder / "driver.cpp"), "-o", str(made)], check=True)
    fast = launcher.load(launcher.built())
    assert fast.set_up(str(made), "", launcher._failed, launcher._backward)
    return ctypes.CDLL(str(made)), fast


class Described:
    """A launch that Python cannot run, and that the launcher can."""

    def __init__(self, plan, library):
        self.plan, self.library = plan, library

    def __call__(self, given):
        raise AssertionError("the call went to Python")

    def described(self):
        numbers = {tensor.name: number for number, tensor in enumerate(self.plan.tensors)}
        if "dq" not in numbers:
            names, kinds, entry = ("q", "k", "v", "o", "lse"), "tttttv", self.library.forward
            places, maps, values = (*[numbers[name] for name in names], 0), (), (7).to_bytes(4, "little")
        else:
            kinds, entry, places = "mttt", self.library.backward, (0, *[numbers[name] for name in ("dq", "dk", "dv")])
            maps, values = ((numbers["do"], 7, 0, [64, 24, 2, 1], [256, 6144, 12288], [64, 8, 1, 1]),), b""
        step = (ctypes.cast(entry, ctypes.c_void_p).value, (1, 1, 1), (32, 1, 1), 0, kinds, places, None)
        return maps, (step,), values


@pytest.fixture
def launched(driver, monkeypatch):
    """The launcher behind the operators, with (library, module)."""
    library, fast = driver
    monkeypatch.setattr(binding, "_bound", {})
    monkeypatch.setattr(launcher, "module", fast)
    monkeypatch.setattr(processors.Processor, "launcher", lambda self, chosen, plan: Described(plan, library))
    fast.forget()
    yield library, fast
    library.fail(0)
    fast.forget()


def number_of(library, name):
    return ctypes.c_int.in_dll(library, name)


def count(library):
    return number_of(library, "launches").value


def small(**options):
    return tensors(24, heads=2, kv_heads=2, dtype=torch.float32, **options)


def test_a_second_call_of_equal_shapes_runs_without_python(launched, monkeypatch):
    q, k, v = small()
    ops.attention(q, k, v)
    monkeypatch.setattr(binding, "bound", lambda key: pytest.fail("Python looked for the plan"))
    before = count(launched[0])
    o, lse = ops.attention(q + 1, k, v)
    assert count(launched[0]) == before + 1
    assert torch.equal(o, 2 * (q + 1)) and lse.flatten()[0] == 7 and lse.shape == q.shape[:3]


def test_another_shape_scale_or_mask_has_another_plan(launched):
    q, k, v = small()
    ops.attention(q, k, v)
    assert launched[1].attention(q, k, v, q.shape[-1] ** -0.5, False, "", "") is not None
    for other in ((0.3, False, ""), (q.shape[-1] ** -0.5, True, ""), (q.shape[-1] ** -0.5, False, "01_naive")):
        assert launched[1].attention(q, k, v, *other, "") is None
    assert launched[1].attention(q[:, :, :16], k, v, q.shape[-1] ** -0.5, False, "", "") is None
    assert launched[1].attention(q.double(), k, v, q.shape[-1] ** -0.5, False, "", "") is None


def test_gradients_run_without_python_and_the_map_follows_the_address(launched, monkeypatch):
    q, k, v = (x.requires_grad_() for x in small())
    do = torch.randn_like(q)
    for _ in range(2):
        found = torch.autograd.grad(ops.attention(q, k, v)[0], (q, k, v), do)
        assert all(torch.equal(one, do) for one in found)
    monkeypatch.setattr(binding, "bound", lambda key: pytest.fail("Python looked for the plan"))
    other = torch.randn_like(q)
    o, lse = ops.attention(q, k, v)
    assert o.requires_grad and not lse.requires_grad
    found = torch.autograd.grad(o, (q, k, v), other)
    assert all(torch.equal(one, other) for one in found)


def test_a_gradient_of_another_order_in_memory_is_copied(launched):
    q, k, v = (x.requires_grad_() for x in small())
    for _ in range(3):
        found = torch.autograd.grad(ops.attention(q, k, v)[0].sum(), (q, k, v))
        assert all(torch.equal(one, torch.ones_like(q)) for one in found)


@pytest.fixture
def plan_of(launched):
    """A function that makes a plan of a kernel that does nothing, with one tensor of this source as its output."""
    library, fast = launched

    def make(source):
        slot = (launcher.SOURCES[source], 0, (64, 3), (3, 1), (), torch.empty(0, dtype=torch.int32))
        entry = ctypes.cast(library.nothing, ctypes.c_void_p).value
        step = (entry, (1, 1, 1), (32, 1, 1), 0, "t", (0,), None)
        return fast.plan(torch.empty(0), (slot,), (), (step,), b"", (0,))

    yield make
    number_of(library, "graph").value = 0


def test_new_zeros_come_from_the_driver_or_from_torch(launched, plan_of):
    library, fast = launched
    plan, before = plan_of("zero"), number_of(library, "fills").value
    assert fast.keep("d", (), 0.0, False, "plain", plan_of("empty"))
    for graph, fills in ((0, 2), (5, 2)):  # a graph records torch's own fill
        number_of(library, "graph").value = graph
        made = [*fast.run(plan, (), None), *fast.call("d", (), 0.0, "plain", False)]
        assert [int(x.count_nonzero()) for x in made] == [0, 0] and made[0].shape == (64, 3)
        assert number_of(library, "fills").value == before + fills


def test_each_graph_has_zeros_that_torch_does_not_count_to_its_pool(launched, plan_of):
    library, fast = launched
    plan, graph = plan_of("kept"), number_of(library, "graph")
    own, of_first, of_third = (torch.zeros(64, 3, dtype=torch.int32) for _ in range(3))
    run = partial(fast.run, plan, (), None)
    assert run() is None and not fast.keep_zeros(plan, 0, 0, own, None) and run() is None  # Python has to make them
    assert fast.keep_zeros(plan, 0, 0, own, of_first) and run()[0].data_ptr() == own.data_ptr()
    graph.value = 1
    assert {run()[0].data_ptr() for _ in range(2)} == {of_first.data_ptr()}
    graph.value = 2  # no call since the first graph
    made = run()[0]
    assert made.data_ptr() not in (own.data_ptr(), of_first.data_ptr()) and not made.any()
    assert made._use_count() == 1  # nobody keeps the memory of the pool
    graph.value = 0
    assert run() is None and fast.keep_zeros(plan, 0, 0, own, of_third)
    graph.value = 3
    assert run()[0].data_ptr() == of_third.data_ptr()
    assert of_first._use_count() > 1  # the first graph may run again


def test_a_second_gradient_is_refused(launched):
    q, k, v = (x.requires_grad_() for x in small())
    do = torch.randn_like(q, requires_grad=True)
    for _ in range(2):
        (dq,) = torch.autograd.grad(ops.attention(q, k, v)[0], q, do, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dq.sum().backward()


def test_an_error_of_the_driver_is_ours(launched, monkeypatch):
    q, k, v = small()
    ops.attention(q, k, v)
    launched[0].fail(1)

    def failed(status):
        raise ProblemError(f"status {status}")

    monkeypatch.setattr(launcher, "_failed", failed)
    launched[1].set_up(launched[0]._name, "", failed, launcher._backward)
    with pytest.raises(ProblemError, match="status 1"):
        ops.attention(q, k, v)
    q.requires_grad_()
    launched[0].fail(0)
    o = ops.attention(q, k, v)[0]
    torch.autograd.grad(o, q, torch.ones_like(o), retain_graph=True)
    launched[0].fail(1)
    with pytest.raises(ProblemError, match="status 1"):
        torch.autograd.grad(o, q, torch.ones_like(o))


def test_the_launcher_rests_while_somebody_watches(launched):
    q, k, v = small()
    ops.attention(q, k, v)
    with launcher.watched(lambda found, given: None):
        assert launched[1].attention(q, k, v, q.shape[-1] ** -0.5, False, "", "") is None
    assert launched[1].attention(q, k, v, q.shape[-1] ** -0.5, False, "", "") is not None


def test_modes_subclasses_and_transforms_go_through_the_dispatcher(launched):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counted(TorchDispatchMode):
        names: list[str] = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.names.append(str(function))
            return function(*args, **(kwargs or {}))

    q, k, v = small()
    ops.attention(q, k, v)
    with Counted():
        ops.attention(q, k, v)
    assert "warpglass.attention.default" in Counted.names
    assert launched[1].attention(torch.nn.Parameter(q), k, v, q.shape[-1] ** -0.5, False, "", "") is not None
    assert launched[1].attention(q.to_sparse(), k, v, q.shape[-1] ** -0.5, False, "", "") is None


def test_an_address_that_is_no_multiple_of_16_is_refused_in_a_sentence(launched):
    q, k, v = small()
    ops.attention(q, k, v)
    odd = torch.empty(q.numel() + 1)[1:].view(q.shape)
    assert odd.data_ptr() % 16
    with pytest.raises(ProblemError, match=r"no multiple of 16 bytes.*Pass q.clone\(\)"):
        ops.attention(odd, k, v)


def test_off_keeps_the_calls_in_python(monkeypatch):
    monkeypatch.setenv(launcher.VARIABLE, "off")
    monkeypatch.setattr(launcher, "module", None)
    launcher._load()
    assert launcher.module is None and "off" in launcher.reason


def test_a_compiler_of_another_library_is_refused(monkeypatch):
    monkeypatch.setattr(launcher, "cpp_compiler", lambda: ("python", "-m", "ziglang", "c++"))
    with pytest.raises(BackendUnavailable, match="libstdc"):
        launcher.built()


def test_a_compiler_that_hangs_leaves_the_calls_in_python_with_the_reason(monkeypatch, tmp_path):
    script = tmp_path / "compiler"
    script.write_text("#!/bin/sh\nsleep 1000\n")
    script.chmod(0o700)
    monkeypatch.setenv("WARPGLASS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(launcher, "cpp_compiler", lambda: (str(script),))
    monkeypatch.setattr(launcher, "BUILD_S", 0.3)
    monkeypatch.setattr(launcher, "module", None)
    monkeypatch.setattr(launcher, "reason", "")
    launcher._load()
    assert launcher.module is None and f"{script} did not answer within 0.3 s" in launcher.reason


def test_the_fields_of_a_map_are_those_of_cuda():
    pytest.importorskip("cuda.bindings")
    from kernels.core.tensors import Tensor
    from kernels.run.backends import driver as of_cuda

    tensor = Tensor("q", (2, 3, 40, 64), "float16", ("batch", "head", "query", "dim"))
    kind, sizes, strides, box, swizzle = of_cuda.map_arguments(tensor, TensorMap("q", (1, 1, 8, 64), 128))
    assert (kind, sizes, strides, box, swizzle) == (6, [64, 40, 3, 2], [128, 5120, 15360], [64, 8, 1, 1], 3)
