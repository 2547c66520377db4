"""What Coalescing and Banks get of a plain kernel's accesses: each once, and atomics among them."""

from pathlib import Path

from front import of_roles

from explainers.stories.bank_conflicts import bank_walk
from explainers.stories.coalescing import sector_walk
from kernels.catalog import load_kernel
from kernels.core.cases import sample
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.run import execute
from kernels.trace.memory import traced

FLOAT4 = Path(__file__).parent / "tutorials" / "t10_float4_ldg.cu"
ATOMICS = of_roles("""
[[launches]]
entry = "counts"
grid = [1]
block = [32]
args = ["x", "o", "int32 tiles"]
*/
__global__ void counts(const float* x, float* o, int tiles) {
  __shared__ int bins[4];
  if (threadIdx.x < 4) bins[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&bins[threadIdx.x % 4], 1);
  __syncthreads();
  if (threadIdx.x < 4) atomicAdd(&o[threadIdx.x * 8], (float)bins[threadIdx.x]);
}
""")


def _run(path):
    kernel = load_kernel(path)
    shown = sample(kernel)
    return execute.run(Request(kernel, shown.problem, tuple(kernel.settings(shown.settings).items()), Scope(), "cpu"))


def test_atomics_are_requests_with_their_name(tmp_path):
    path = tmp_path / "counts.cu"
    path.write_text(ATOMICS)
    run = _run(path)
    table = traced.requests(run.trace).costs
    atomics = table[table.kind == "atomic"].set_index("space")
    assert dict(atomics.active) == {"shared": 32, "global": 4}
    assert atomics.loc["shared", "wavefronts"] == 8  # eight lanes take turns at each of four words
    assert atomics.loc["global", "sectors"] == 4
    said = [frame["sentence"] for frame in sector_walk.explain(run).frames]
    assert any(one.startswith("The 4 lanes update 16 bytes of o by an atomic.") for one in said)
    said = [frame["sentence"] for frame in bank_walk.explain([run]).frames]
    assert any(
        "Each lane updates 4 bytes of bins by an atomic. Lanes with the same word take turns." in one for one in said
    )


def test_a_load_of_sixteen_bytes_counts_once():
    frame = _run(FLOAT4).trace.frame("line", "event", "lane", "warp", "bytes", "offset")
    line = 1 + FLOAT4.read_text().partition("query[i] = __ldg")[0].count("\n")
    loads = frame[(frame.line == line) & (frame.event == "load")]
    assert set(loads.bytes) == {16}
    assert not loads.duplicated(["warp", "lane", "offset"]).any()
