"""The table of a run's findings: faults come before harmless races, and a full table is a fault."""

import pytest
from front import of_roles

from kernels.build import Mode
from kernels.catalog import load_kernel
from kernels.core.cases import sample
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.run import execute
from kernels.run.plain import launches

MANY = of_roles("""
[[launches]]
entry = "many"
grid = [1]
block = [64]
args = ["x", "o", "int32 tiles"]
*/
__global__ void many(const float* x, float* o, int tiles) {
  __shared__ float same[3], word[64];
  same[0] = 1.f;
  same[1] = 1.f;
  same[2] = 1.f;
  word[threadIdx.x] = threadIdx.x;
  o[threadIdx.x] = word[63 - threadIdx.x];
}
""")


@pytest.mark.parametrize("room", [1 << 14, 2])
def test_a_real_race_comes_before_harmless_ones(tmp_path, monkeypatch, room):
    monkeypatch.setattr(launches, "FINDINGS", room)
    path = tmp_path / "many.cu"
    path.write_text(MANY)
    kernel = load_kernel(path)
    request = Request(kernel, sample(kernel).problem, (), Scope(), "cpu")
    built, plan, _ = execute.prepare(request, Mode.PROBED)
    found = launches.launch(built, plan, execute.start_arrays(request), Scope(), [1 << 12], False).faults
    assert ("race", "error", "word") in [(fault.kind, fault.level, fault.tensor) for fault in found]
    full = [fault.level for fault in found if fault.kind == "too many findings"]
    assert full == (["error"] if room == 2 else [])
