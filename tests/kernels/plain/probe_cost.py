"""Prints the cost of automatic probes: CPU seconds of one kernel with written and with automatic probes, traced alike.

A script: python tests/kernels/plain/probe_cost.py. The plain text is 03_flash in CUDA's own names, without its probes.
"""

import re
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from kernels.build import Mode
from kernels.catalog import current, load_kernel
from kernels.core.request import Request
from kernels.core.scope import Scope
from kernels.families.dense.problem import DenseProblem
from kernels.run import execute
from kernels.run.backends import cpu
from kernels.run.plain import launches
from kernels.trace.probes import strip_probes

TIMES, ROOM = 9, 1 << 20
HELPERS = """
__device__ float4 fma4(float4 q, float4 k, float4 sum) {
  return make_float4(fmaf(q.x, k.x, sum.x), fmaf(q.y, k.y, sum.y), fmaf(q.z, k.z, sum.z), fmaf(q.w, k.w, sum.w));
}
__device__ float add4(float4 v) { return (v.x + v.y) + (v.z + v.w); }
template <int LANES> __device__ float group_max(float v) {
  for (int offset = LANES / 2; offset > 0; offset /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, offset));
  return v;
}
template <int LANES> __device__ float group_sum(float v) {
  for (int offset = LANES / 2; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
  return v;
}
"""


def plain_text(text):
    """03_flash in CUDA's own names, without probes."""
    head, code = strip_probes(text).split("*/", 1)
    for name, value in (("BLOCK_Q", 16), ("BLOCK_KV", 16), ("PAD_K", 0), ("SUBTRACT_MAX", 1), ("RESCALE", 1)):
        old = rf"^{name} = .*$"
        head = re.sub(
            old, f'{name} = {{default = {value}, values = [{value}], meaning = "as in 03"}}', head, flags=re.M
        )
    code = code.replace('#include "common.cuh"', f"#include <cuda_runtime.h>{HELPERS}")
    code = code.replace("DYNAMIC_SMEM(float, smem);", "extern __shared__ float smem[];")
    code = re.sub(r"\b(?:ldg|lds)<(\w+)>\(", r"*reinterpret_cast<const \1*>(", code)
    code = re.sub(r"\b(?:stg|sts)<(\w+)>\((.*), (.*)\);", r"*reinterpret_cast<\1*>(\2) = \3;", code)
    return f"{head}*/{code}"


def cpu_seconds(run):
    """The least CPU seconds of a call: other work on the machine only adds to it."""
    run()
    found = []
    for _ in range(TIMES):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def main():
    written = current().find("03_flash")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plain_flash.cu"
        path.write_text(plain_text(written.source))
        plain = load_kernel(path)
        problem, scope = DenseProblem(seq_len=int(sys.argv[1]) if len(sys.argv) > 1 else 128), Scope()
        requests = [Request(kernel, problem, tuple(kernel.settings().items()), scope) for kernel in (written, plain)]
        made = [execute.prepare(request, Mode.PROBED) for request in requests]
        (built, plan, arrays), (own, own_plan, own_arrays) = made
        capacity = [ROOM // (plan.launches[0].threads * scope.blocks(plan.launches[0], plan)[1])]
        by_hand = cpu_seconds(lambda: cpu.launch(built, plan, arrays, scope, capacity))
        calls = cpu_seconds(lambda: cpu.launch(own, own_plan, own_arrays, scope))  # its library has no lines yet
        automatic = cpu_seconds(lambda: launches.launch(own, own_plan, own_arrays, scope, [ROOM], False))
        timed, timed_plan, timed_arrays = execute.prepare(requests[1], Mode.TIMED)
        bare = cpu_seconds(lambda: cpu.launch(timed, timed_plan, timed_arrays, scope))
        (log,) = launches.launch(own, own_plan, own_arrays, scope, [ROOM], False).logs
    print(f"without probes    {bare * 1e3:8.1f} ms of CPU")
    print(f"written probes    {by_hand * 1e3:8.1f} ms of CPU")
    print(f"idle calls        {calls * 1e3:8.1f} ms of CPU: the compiler's calls, which return at once")
    print(f"automatic probes  {automatic * 1e3:8.1f} ms of CPU, {automatic / by_hand:.1f} times the written ones")
    print(f"                  {len(log.rows):,} rows of the traced blocks in the log")


if __name__ == "__main__":
    main()
